// Progress is shown on terminals only, and erased at the end.
#include "tools/io/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <ostream>

#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

constexpr char kErase[] = "\r\x1b[K";

// A terminal that keeps everything written to it.
class Screen : public std::streambuf {
 public:
  void WaitFor(const std::string& words) {
    std::unique_lock<std::mutex> lock(mutex_);
    written_.wait(lock, [&] { return text_.find(words) != std::string::npos; });
  }
  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    text_.append(bytes, static_cast<size_t>(count));
    written_.notify_all();
    return count;
  }
  int overflow(int byte) override {
    const char c = static_cast<char>(byte);
    return xsputn(&c, 1) == 1 ? byte : EOF;
  }

 private:
  std::mutex mutex_;
  std::condition_variable written_;
  std::string text_;
};

TEST(ProgressTest, CountsAndIsErased) {
  Screen screen;
  std::ostream terminal(&screen);
  {
    Progress progress(&terminal, /*patience_ns=*/0, "checking plans", 5);
    progress.Add();
    progress.Add();
    screen.WaitFor("checking plans: 2 of 5, 0 s");
  }
  const std::string text = screen.text();
  EXPECT_EQ(text.substr(0, 4), kErase);
  EXPECT_EQ(text.substr(text.size() - 4), kErase);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(ProgressTest, NothingIsWrittenBeforeItsTime) {
  Screen screen;
  std::ostream terminal(&screen);
  {
    Progress progress(&terminal, /*patience_ns=*/3'600'000'000'000, "checking plans", 5);
    progress.Add();
  }
  EXPECT_EQ(screen.text(), "");
}

// The tool's output to a terminal, or to a pipe, until the tool ends; a signal is sent when the
// tool has written `until`.
struct Ending {
  std::string until;
  int signal = 0;  // 0: none
};
std::string Written(const std::vector<std::string>& args, bool to_terminal,
                    const Ending& ending = {}) {
  std::vector<char*> words = {const_cast<char*>(STRINGLINE_TOOL)};
  for (const std::string& arg : args) words.push_back(const_cast<char*>(arg.c_str()));
  words.push_back(nullptr);
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  int terminal = -1;
  const pid_t process = to_terminal ? forkpty(&terminal, nullptr, nullptr, nullptr) : fork();
  if (process == 0) {
    for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_DFL);
    setenv("TERM", "xterm", 1);
    setenv("COLUMNS", "100", 1);
    if (!to_terminal && (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0)) {
      _exit(127);
    }
    if (chdir(SourceFolder().c_str()) == 0) execv(STRINGLINE_TOOL, words.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char bytes[4096];
  bool sent = false;
  // A terminal whose other side is gone ends with an error.
  for (ssize_t count; (count = read(to_terminal ? terminal : ends[0], bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<size_t>(count));
    if (sent || ending.signal == 0 || text.find(ending.until) == std::string::npos) continue;
    sent = kill(process, ending.signal) == 0;
  }
  int status = 0;
  waitpid(process, &status, 0);
  if (ending.signal == 0) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << text;
  } else {
    EXPECT_TRUE(sent && WIFSIGNALED(status) && WTERMSIG(status) == ending.signal) << status << text;
  }
  close(ends[0]);
  if (terminal >= 0) close(terminal);
  return text;
}

// The text left on the screen: a carriage return and an erased line take back the line before.
std::string LeftOf(std::string text) {
  for (size_t at; (at = text.find(kErase)) != std::string::npos;) {
    const size_t line = text.rfind('\n', at);
    const size_t from = line == std::string::npos ? 0 : line + 1;
    text.erase(from, at + 4 - from);
  }
  for (size_t at; (at = text.find("\r\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

TEST(ProgressTest, NothingOfItIsLeftOnATerminal) {
  const std::vector<std::string> sweep =
      Words("sim dualpipe_v zb_v --for P=8..16..2 --for M=40..640..40");
  const std::string plain = Written(sweep, /*to_terminal=*/false);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_EQ(LeftOf(Written(sweep, /*to_terminal=*/true)), plain);
}

TEST(ProgressTest, NothingOfItIsLeftAfterASignal) {
  const std::vector<std::string> endless = Words("check zb_v --for P=2..512 --for M=1..4096");
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string text = Written(endless, /*to_terminal=*/true, {"checking plans: ", signal});
    EXPECT_EQ(LeftOf(text), "");
  }
}

}  // namespace
}  // namespace stringline
