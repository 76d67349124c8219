// Each process is forked and then runs the same executable anew. The processes are in a group of
// their own, so that Ctrl-C reaches them once: passed on from here.
#include "tools/training/local_processes.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/open_files.h"
#include "executor/processes/secret.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "tools/io/output.h"
#include "tools/io/stop_signals.h"

namespace stringline {
namespace {

struct Child {
  int process = 0;  // its number
  pid_t pid = -1;
  int output = -1;  // standard output; of the first process if held, and of all others
  int errors = -1;  // standard error; of all processes but the first
  int status = 0;
  int order = 0;        // the number of processes that had ended before
  bool killed = false;  // from here
};

// The signals that are passed on; one that this process was told to ignore, as by nohup, is not.
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
// Signals that ask for a checkpoint, or for records, and end nothing.
bool IsWish(int number) { return number == SIGUSR1 || number == SIGUSR2; }

// A wish for records says its number, and that all processes get it.
void PassOn(int number, int records, pid_t to) {
  sigval value = {};
  value.sival_int = records;
  (void)(number == SIGUSR2 ? sigqueue(to, number, value) : kill(to, number));
}

// The ends of children, and what is passed on to them.
sigset_t WaitedSignalsOfParent() {
  sigset_t signals;
  (void)sigemptyset(&signals);
  (void)sigaddset(&signals, SIGCHLD);
  for (const int signal : kPassedOn) {
    if (!IsIgnored(signal)) (void)sigaddset(&signals, signal);
  }
  return signals;
}

// A port without a listener at this moment.
absl::StatusOr<int> FreePort() {
  SL_ASSIGN_OR_RETURN(const std::vector<int> listeners, ListenOn("127.0.0.1", 0));
  const int port = PortOf(listeners.front());
  (void)close(listeners.front());
  return port;
}

// In the forked process.
[[noreturn]] void Become(pid_t parent, const Child& child, char* const* arguments,
                         char* const* environment) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  (void)setpgid(0, 0);
  // A wish for records waits until the program can hear it.
  sigset_t held;
  (void)sigemptyset(&held);
  if (!IsIgnored(SIGUSR2)) (void)sigaddset(&held, SIGUSR2);
  (void)sigprocmask(SIG_SETMASK, &held, nullptr);
  if (child.output >= 0) (void)dup2(child.output, STDOUT_FILENO);
  if (child.errors >= 0) (void)dup2(child.errors, STDERR_FILENO);
  (void)execve("/proc/self/exe", arguments, environment);
  _exit(127);
}

// The environment of this process with another secret, "STRINGLINE_SECRET=…".
std::vector<char*> EnvironmentWith(std::string* secret) {
  std::vector<char*> variables;
  for (char** one = environ; *one != nullptr; ++one) {
    if (!absl::StartsWith(*one, absl::StrCat(kSecretName, "="))) variables.push_back(*one);
  }
  variables.push_back(secret->data());
  variables.push_back(nullptr);
  return variables;
}

int ExitStatusOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The text of a file in memory, which is closed; "" without a file.
std::string TakeText(int file) {
  if (file < 0) return "";
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0)), 0);
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  (void)close(file);
  return text;
}

// The times that a process is started again.
constexpr int kMostReturns = 10;

// True if the others of a run that heals may go on: a signal ended the process, or it left.
bool MayGoOnWithout(const Child& child) {
  return WIFSIGNALED(child.status) || WEXITSTATUS(child.status) == kLeft;
}

// The way in which the processes of a run are started.
class Starter {
 public:
  Starter(int count, std::vector<std::string> arguments, const std::string& secret, int port,
          const LocalRunSettings& settings)
      : count_(count),
        arguments_(std::move(arguments)),
        port_(port),
        settings_(settings),
        with_secret_(absl::StrCat(kSecretName, "=", secret)),
        environment_(EnvironmentWith(&with_secret_)) {}
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  absl::StatusOr<Child> Start(int process, bool comes_back) {
    std::vector<std::string> words = {"stringline"};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    for (const std::string& word :
         {std::string("--rank"), absl::StrCat(process), std::string("--ranks"),
          absl::StrCat(count_), std::string("--local-rank"), absl::StrCat(process),
          std::string("--master"), absl::StrCat("127.0.0.1:", port_), std::string("--run-id"),
          run_id_}) {
      words.push_back(word);
    }
    if (comes_back) words.push_back("--return");
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    Child child = {.process = process};
    if (process > 0 || comes_back) child.errors = memfd_create("errors", MFD_CLOEXEC);
    if ((process > 0 && !settings_.heals) || settings_.holds_output) {
      child.output = memfd_create("output", MFD_CLOEXEC);
    }
    child.pid = fork();
    if (child.pid == 0) Become(parent_, child, pointers.data(), environment_.data());
    if (child.pid > 0) return child;
    return absl::ResourceExhaustedError(absl::StrCat("--processes: process ", process,
                                                     " cannot be started: ", std::strerror(errno)));
  }
  const LocalRunSettings& settings() const { return settings_; }

 private:
  const int count_;
  const std::vector<std::string> arguments_;
  const int port_;
  const LocalRunSettings settings_;
  std::string with_secret_;
  const std::vector<char*> environment_;
  const pid_t parent_ = getpid();
  const std::string run_id_ = absl::StrCat(parent_, "@", NowNs());
};

// Starts the process of a child that has ended once more, if it was lost and not too often before.
void StartAgain(const Child& ended, Starter* starter, std::vector<Child>* children) {
  const auto starts = std::count_if(children->begin(), children->end(), [&](const Child& child) {
    return child.process == ended.process;
  });
  if (!WIFSIGNALED(ended.status) || starts > kMostReturns) return;
  absl::StatusOr<Child> child = starter->Start(ended.process, /*comes_back=*/true);
  if (child.ok()) children->push_back(*child);
}

// Waits until all processes have ended, and passes signals on. Returns true if a signal came.
bool WaitForAll(std::vector<Child>* children, const sigset_t& signals, Starter* starter) {
  constexpr int64_t kGraceNs = 10'000'000'000;
  const LocalRunSettings& settings = starter->settings();
  int ended = 0;
  bool stopped = false;
  int records = 0;      // wishes so far
  int64_t kill_ns = 0;  // the time to kill the remaining processes; 0: not set
  while (ended < static_cast<int>(children->size())) {
    siginfo_t came;
    const timespec second = {1, 0};
    const int number = sigtimedwait(&signals, &came, &second);
    const bool passed_on = number > 0 && number != SIGCHLD;
    stopped = stopped || (passed_on && !IsWish(number));
    if (number == SIGUSR2) ++records;
    const bool late = kill_ns > 0 && NowNs() > kill_ns;
    std::vector<Child> lost;
    for (Child& child : *children) {
      if (child.pid <= 0) continue;
      if (passed_on) PassOn(number, records, child.pid);
      const bool ends = waitpid(child.pid, &child.status, WNOHANG) == child.pid;
      if (!ends && late) {
        child.killed = true;
        (void)kill(child.pid, SIGKILL);
      }
      if (!ends) continue;
      child.pid = -1;
      child.order = ended++;
      lost.push_back(child);
      // A process that reached the end of a run that heals is no reason to end others at once.
      if (kill_ns > 0 || (settings.heals ? MayGoOnWithout(child) : child.status == 0)) continue;
      kill_ns = NowNs() + (child.status == 0 ? settings.end_ns : kGraceNs);
    }
    const bool goes_on = ended < static_cast<int>(children->size());
    if (!settings.returns || !goes_on || stopped || kill_ns > 0) continue;
    for (const Child& child : lost) StartAgain(child, starter, children);
  }
  return stopped;
}

// The processes that a signal ended, and whether others lost them without one.
void FindLost(const std::vector<Child>& children, LocalRun* run) {
  std::vector<const Child*> by_order(children.size());
  for (const Child& child : children) by_order[child.order] = &child;
  bool own_error = false;
  for (const bool killed : {false, true}) {
    for (const Child* const one : by_order) {
      const Child& child = *one;
      if (child.killed != killed) continue;
      if (WIFSIGNALED(child.status)) {
        run->lost.push_back({child.process, WTERMSIG(child.status)});
        run->killed_late += killed ? 1 : 0;
      } else if (WEXITSTATUS(child.status) == kLost) {
        run->severed = true;
      } else if (WEXITSTATUS(child.status) != 0 && WEXITSTATUS(child.status) != kLeft) {
        own_error = true;
      }
    }
  }
  run->severed = run->severed && !own_error;
}

// The exit status of the process that ended last, of those that did not leave.
int StatusOfHealing(const std::vector<Child>& children) {
  int status = kLost, order = -1;
  for (const Child& child : children) {
    const int own = ExitStatusOf(child.status);
    if (own == kLeft || child.killed || child.order < order) continue;
    order = child.order;
    status = own;
  }
  return status;
}

// The outputs of all, if held: only one process at a time prints. Of errors one is enough.
void TakeOutputsOfHealing(const std::vector<Child>& children, LocalRun* run) {
  run->told = WIFEXITED(children[0].status) && run->status != 0 &&
              ExitStatusOf(children[0].status) == run->status;
  for (const Child& child : children) {
    const std::string output = TakeText(child.output), errors = TakeText(child.errors);
    if (!run->told || ExitStatusOf(child.status) == 0) absl::StrAppend(&run->output, output);
    if (run->told || run->status == 0 || ExitStatusOf(child.status) != run->status) continue;
    std::cerr << errors << std::flush;
    run->told = !errors.empty();
  }
}

// The output of the first process, if held, and what the others printed where it could not.
void TakeOutputs(const std::vector<Child>& children, bool holds_output, LocalRun* run) {
  const bool first_told = WIFEXITED(children[0].status);
  run->told = first_told && run->status != 0;
  for (size_t p = 0; p < children.size(); ++p) {
    const Child& child = children[p];
    const std::string output = TakeText(child.output), errors = TakeText(child.errors);
    if (p == 0) {
      run->output = output;
      continue;
    }
    if (run->status == 0) run->status = ExitStatusOf(child.status);
    if (run->told || child.status == 0) continue;
    std::cerr << errors << std::flush;
    if (first_told) {  // and answered: one answer is enough
      std::cerr << output << std::flush;
    } else if (holds_output) {
      run->output += output;
    } else {
      std::cout << output << std::flush;
    }
    run->told = !errors.empty() || !output.empty();
  }
}

}  // namespace

std::string SecretForProcesses() {
  const char* const given = std::getenv(kSecretName);
  return given == nullptr ? NewSecret() : given;
}

bool LocalRun::MayStartAgain() const {
  return !healed && (severed || static_cast<int>(lost.size()) > killed_late);
}

std::string PrintLost(const LocalRun& run) {
  if (run.lost.empty()) return "the processes have lost each other";
  const LocalRun::Lost& lost = run.lost.front();
  return absl::StrCat("process ", lost.process, " was lost (", NameOfSignal(lost.signal), ")");
}

absl::StatusOr<LocalRun> RunLocalProcesses(int count, const std::vector<std::string>& arguments,
                                           const std::string& secret,
                                           const LocalRunSettings& settings) {
  SL_RETURN_IF_ERROR(RaiseOpenFiles(2 * count, absl::StrCat("what ", count, " processes print")));
  SL_ASSIGN_OR_RETURN(const int port, FreePort());
  const sigset_t signals = WaitedSignalsOfParent();
  sigset_t before;
  (void)sigprocmask(SIG_BLOCK, &signals, &before);
  std::cout.flush();
  Starter starter(count, arguments, secret, port, settings);
  std::vector<Child> children;
  absl::Status started;
  for (int p = 0; p < count && started.ok(); ++p) {
    absl::StatusOr<Child> child = starter.Start(p, /*comes_back=*/false);
    started = child.status();
    if (started.ok()) children.push_back(*child);
  }
  for (const Child& child : children) {
    if (!started.ok()) (void)kill(child.pid, SIGKILL);
  }
  LocalRun run;
  run.stopped = WaitForAll(&children, signals, &starter);
  (void)sigprocmask(SIG_SETMASK, &before, nullptr);
  SL_RETURN_IF_ERROR(started);
  FindLost(children, &run);
  if (settings.heals) {
    run.status = StatusOfHealing(children);
    run.healed = run.status == 0 && !run.lost.empty();
    TakeOutputsOfHealing(children, &run);
  } else {
    run.status = ExitStatusOf(children[0].status);
    TakeOutputs(children, settings.holds_output, &run);
  }
  return run;
}

}  // namespace stringline
