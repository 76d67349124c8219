#include "executor/checkpoint/background_job.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<BackgroundJob>> BackgroundJob::Make() {
  std::unique_ptr<BackgroundJob> job(new BackgroundJob());
  SL_RETURN_IF_ERROR(StartThreads(
      1, [self = job.get()] { self->Run(); }, &job->thread_));
  return job;
}

BackgroundJob::~BackgroundJob() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : thread_) thread.join();
}

void BackgroundJob::Start(std::function<absl::Status()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  SL_CHECK(!work_) << "the work before it is not done";
  work_ = std::move(work);
  changed_.notify_all();
}

bool BackgroundJob::done() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !work_;
}

absl::Status BackgroundJob::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
  return result_;
}

void BackgroundJob::Run() {
  constexpr int kLater = 10;
  (void)setpriority(PRIO_PROCESS, 0, kLater);  // Linux: this thread alone
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || ending_; });
    if (!work_) return;
    lock.unlock();
    absl::Status result = work_();
    lock.lock();
    result_ = std::move(result);
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace stringline
