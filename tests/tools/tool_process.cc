#include "tests/tools/tool_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr int kLongestS = 300;

// Restores the signals of a terminal: this process may have been told to ignore some, as a shell
// does for Ctrl-C in the background.
void ListenToSignals(const std::vector<int>& ignored) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) signal(number, SIG_DFL);
  for (const int number : ignored) signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

std::vector<pid_t> ChildrenOf(pid_t process) {
  std::vector<pid_t> children;
  const std::string path = absl::StrCat("/proc/", process, "/task/", process, "/children");
  if (FILE* const file = fopen(path.c_str(), "r"); file != nullptr) {
    for (int child = 0; fscanf(file, "%d", &child) == 1;) children.push_back(child);
    (void)fclose(file);
  }
  return children;
}

ToolProcess::ToolProcess(const std::string& folder, const std::vector<std::string>& args,
                         const std::vector<int>& ignored)
    : folder_(folder) {
  std::vector<char*> words = {const_cast<char*>(STRINGLINE_TOOL)};
  for (const std::string& arg : args) words.push_back(const_cast<char*>(arg.c_str()));
  words.push_back(nullptr);
  process_ = fork();
  if (process_ != 0) return;
  ListenToSignals(ignored);
  constexpr int kMode = O_WRONLY | O_CREAT | O_TRUNC;
  const int out = chdir(folder.c_str()) == 0 ? open("said.out", kMode, 0666) : -1;
  const int err = open("said.err", kMode, 0666);
  if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0) {
    execv(STRINGLINE_TOOL, words.data());
  }
  _exit(127);
}

ToolProcess::~ToolProcess() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void ToolProcess::Signal(int number) const { ASSERT_EQ(kill(process_, number), 0); }

bool ToolProcess::WaitUntil(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kLongestS);
  while (!holds()) {
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid != 0) return holds();
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Answer ToolProcess::Wait() {
  WaitUntil([] { return false; });
  kill(process_, SIGKILL);  // no effect unless the process is still running
  int status = 0;
  EXPECT_EQ(waitpid(process_, &status, 0), process_);
  process_ = -1;
  Answer answer;
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  answer.out = ReadText(folder_ + "/said.out");
  answer.err = ReadText(folder_ + "/said.err");
  return answer;
}

}  // namespace stringline
