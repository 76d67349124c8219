#include "tools/bench/child_program.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"

namespace stringline {
namespace {

// The pause between two looks for the program's end; this pause is not part of any measurement.
constexpr timespec kNap = {0, 20'000'000};

// In the forked process.
[[noreturn]] void BecomeProgram(pid_t parent, int out, int err, char* const* words) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  (void)setpgid(0, 0);
  sigset_t none;
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0) execvp(words[0], words);
  _exit(127);
}

std::string WrittenTo(int file) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0)), 0);
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

bool HasEnded(pid_t child) {
  siginfo_t ended = {};
  const int asked = waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
  return asked != 0 || ended.si_pid != 0;
}

}  // namespace

absl::StatusOr<EndedProgram> RunProgram(const std::vector<std::string>& words, int most_seconds,
                                        const std::function<bool()>& stop) {
  std::vector<std::string> kept = words;
  std::vector<char*> pointers;
  for (std::string& word : kept) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
  const int64_t end_ns = NowNs() + int64_t{most_seconds} * 1'000'000'000;
  const pid_t parent = getpid(), child = fork();
  if (child == 0) BecomeProgram(parent, out, err, pointers.data());
  absl::StatusOr<EndedProgram> result = EndedProgram();
  if (child < 0) {
    result = absl::ResourceExhaustedError(
        absl::StrCat(words[0], " cannot be started: ", std::strerror(errno)));
  } else {
    (void)setpgid(child, child);  // by parent and child, whichever is first
    while (result.ok() && !HasEnded(child)) {
      if (stop()) result = absl::CancelledError("stopped");
      if (NowNs() > end_ns) {
        result = absl::DeadlineExceededError(absl::StrCat("not done after ", most_seconds, " s"));
      }
      if (result.ok()) (void)nanosleep(&kNap, nullptr);
    }
    (void)kill(-child, SIGKILL);  // also kills the children of an ended program
    int status = 0;
    (void)waitpid(child, &status, 0);
    if (result.ok()) {
      result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      result->out = WrittenTo(out);
      result->err = WrittenTo(err);
    }
  }
  for (const int file : {out, err}) (void)close(file);
  return result;
}

}  // namespace stringline
