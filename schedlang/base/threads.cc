#include "schedlang/base/threads.h"

#include <signal.h>

#include <system_error>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

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

void WorkOnThreads(int count, const std::function<void()>& work) {
  std::vector<std::thread> others;
  StartThreads(count - 1, work, &others).IgnoreError();
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace stringline
