#include "schedlang/base/threads.h"

#include <signal.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// Fewer are walked over in less time than threads take to start.
constexpr size_t kActionsForThreads = size_t{1} << 17;
// A turn is of neighbours: their counters share cache lines, which threads would else take from
// each other at every step.
constexpr int kTurnsOfThread = 8;

// True on a thread that shares its cores with others of WorkOnThreads.
thread_local bool shares_cores = false;

// During its lifetime this thread, and so every thread that it starts, blocks the signals.
class WithoutStopSignals {
 public:
  WithoutStopSignals() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~WithoutStopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutStopSignals(const WithoutStopSignals&) = delete;
  WithoutStopSignals& operator=(const WithoutStopSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

absl::Status StartThreads(int count, const std::function<void()>& work,
                          std::vector<std::thread>* threads) {
  const WithoutStopSignals inherited;
  for (int i = 0; i < count; ++i) {
    try {
      threads->emplace_back(work);
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat(count, " threads are wanted, but the system started only ", i, " (",
                       error.code().message(), ")"));
    }
  }
  return absl::OkStatus();
}

void TakeShortTurns() {
#if defined(__linux__) && defined(SYS_sched_setattr)
  // As the kernel's struct sched_attr, which C's library does not declare. Of a thread without
  // deadlines `runtime_ns` is the length of a turn, at least 0.1 ms.
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
  } attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.runtime_ns = 100'000;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

void WorkOnThreads(int count, const std::function<void()>& work) {
  const auto share = [&work] {
    const bool before = std::exchange(shares_cores, true);
    work();
    shares_cores = before;
  };
  std::vector<std::thread> others;
  StartThreads(count - 1, share, &others).IgnoreError();
  others.empty() ? work() : share();
  for (std::thread& other : others) other.join();
}

int Cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int ThreadsFor(size_t actions) {
  return shares_cores || actions < kActionsForThreads ? 1 : Cores();
}

void ForEachOnThreads(int count, int threads, const std::function<void(int)>& work) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;  // as memory that is not there; the caller's to handle
  WorkOnThreads(std::min(threads > 0 ? threads : Cores(), std::max(1, count)), [&] {
    try {
      for (int i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

void ForEachOnCores(int count, size_t actions, const std::function<void(int)>& work) {
  const int threads = ThreadsFor(actions);
  const int64_t turns = std::min(count, threads * kTurnsOfThread);
  ForEachOnThreads(static_cast<int>(turns), threads, [&](int turn) {
    const int64_t end = (turn + 1) * int64_t{count} / turns;
    for (int64_t i = turn * int64_t{count} / turns; i < end; ++i) work(static_cast<int>(i));
  });
}

}  // namespace stringline
