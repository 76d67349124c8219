// All threads run one loop: take a runnable stream, and perform its ops until it must wait. Another
// thread is woken only if streams have lately run long enough at a time to be worth the wake-up. Of
// the idle threads, a single timekeeper sleeps until the first timer; the others sleep until woken.
#include "executor/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr int64_t kAlignment = 64;

// Polls of the runnable queue before a thread goes to sleep: some 20 microseconds, less than the
// cost of waking a sleeping thread.
constexpr int kSpins = 400;

// Shorter work is done sooner by a running thread than by a thread that must first wake up.
constexpr int64_t kWorthWakingNs = 4'000;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Make(int threads, void (*prepare_thread)(),
                                                           DeviceTime time) {
  SL_CHECK(threads >= 1) << threads;
  auto device = std::make_unique<CpuDevice>(time);
  device->has_workers_ = threads > 1;
  device->spin_ = threads > 1 && threads <= static_cast<int>(std::thread::hardware_concurrency());
  SL_RETURN_IF_ERROR(StartThreads(
      threads - 1, [self = device.get(), prepare_thread] { self->WorkerLoop(prepare_thread); },
      &device->workers_));
  return device;
}

CpuDevice::~CpuDevice() {
  {
    Lock lock(mutex_);
    stopping_ = true;
  }
  workers_wake_.notify_all();
  timekeeper_wakes_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

StreamId CpuDevice::NewStream(LazyName name, int capacity) {
  Lock lock(mutex_);
  Stream& stream = streams_.emplace_back();
  stream.name = name;
  stream.ops.resize(capacity);
  runnable_.resize(streams_.size());
  if (timers_.capacity() < streams_.size()) timers_.reserve(2 * streams_.size());
  return StreamId(static_cast<int32_t>(streams_.size()) - 1);
}

EventId CpuDevice::NewEvent(LazyName name) {
  Lock lock(mutex_);
  events_.emplace_back();
  event_names_.push_back(name);
  return EventId(static_cast<int32_t>(events_.size()) - 1);
}

absl::StatusOr<void*> CpuDevice::Allocate(int64_t bytes) {
  char* memory = new (std::nothrow) char[bytes + kAlignment];
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  memory_.emplace_back(memory);
  std::memset(memory, 0, bytes + kAlignment);
  const size_t over = reinterpret_cast<uintptr_t>(memory) % kAlignment;
  return static_cast<void*>(memory + (over == 0 ? 0 : kAlignment - over));
}

absl::Status CpuDevice::CopyNow(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

void CpuDevice::Launch(StreamId stream, const Work& work, WorkTimes* times) {
  streams_[stream.value].Launch(work, times);
}
void CpuDevice::Copy(StreamId stream, void* to, const void* from, int64_t bytes) {
  streams_[stream.value].Copy(to, from, bytes);
}
void CpuDevice::Record(StreamId stream, EventId event) {
  streams_[stream.value].Record(event, &events_[event.value].enqueued);
}
void CpuDevice::Wait(StreamId stream, EventId event) {
  streams_[stream.value].Wait(event, events_[event.value].enqueued);
}
void CpuDevice::Meet(StreamId stream, MeetingPlace* place, int side, const void* end) {
  streams_[stream.value].Meet(place, side, end);
}
void CpuDevice::Hold(StreamId stream, int64_t duration_ns, WorkTimes* times) {
  streams_[stream.value].Hold(duration_ns, times);
}

void CpuDevice::Await(StreamId stream, const Outside* outside, const void* end) {
  streams_[stream.value].Await(outside, end);
}

int64_t CpuDevice::NowNs() const {
  return time_ == DeviceTime::kReal ? stringline::NowNs() : jumped_to_ns_.load();
}

void CpuDevice::Submit() {
  Lock lock(mutex_);
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.submitted.load(std::memory_order_relaxed) == stream.enqueued) continue;
    stream.submitted.store(stream.enqueued, std::memory_order_release);
    if (stream.state == State::kIdle) MakeRunnable(static_cast<int>(i));
  }
  if (runners_ == 0 && runnable_count_.load(std::memory_order_relaxed) > 0) WakeOne();
}

absl::Status CpuDevice::Synchronize() {
  Submit();
  Lock lock(mutex_);
  for (;;) {
    RunRunnable(lock);
    if (Quiet()) break;
    if (spin_ && active_ > 0) {
      lock.unlock();
      SpinForWork();
      lock.lock();
      if (MayRun()) continue;
      if (Quiet()) break;
    }
    if (NobodyKeepsTime()) {
      KeepTime(lock);
      continue;
    }
    caller_sleeps_ = true;
    caller_wakes_.wait(lock, [this] { return Quiet() || NobodyKeepsTime() || MayRun(); });
    caller_sleeps_ = false;
  }
  if (failed_.load()) return failure_;
  for (Stream& stream : streams_) {
    if (stream.state == State::kWaiting) {
      failure_ = DescribeDeadlock();
      failed_.store(true);
      return failure_;
    }
  }
  for (Stream& stream : streams_) {
    stream.enqueued = 0;
    stream.next = 0;
    stream.submitted.store(0, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

void CpuDevice::MakeRunnable(int index) {
  streams_[index].state = State::kRunnable;
  ++active_;
  const int count = runnable_count_.load(std::memory_order_relaxed);
  runnable_[(runnable_first_ + count) % runnable_.size()] = index;
  runnable_count_.store(count + 1, std::memory_order_relaxed);
  if (WorthAnotherThread()) WakeOne();
}

// Prefers a thread other than the timekeeper.
void CpuDevice::WakeOne() {
  if (sleeping_workers_ > 0) {
    workers_wake_.notify_one();
  } else if (caller_sleeps_) {
    caller_wakes_.notify_one();
  } else if (timekeeper_) {
    timekeeper_wakes_.notify_one();
  }
}

void CpuDevice::LeaveRunning(Stream& stream, State state) {
  stream.state = state;
  --active_;
  TellIfQuiet();
}

void CpuDevice::TellIfQuiet() {
  if (!Quiet()) {
    if (time_ == DeviceTime::kJumps && active_ == 0 && timekeeper_) timekeeper_wakes_.notify_one();
    return;
  }
  // The caller of Synchronize may sleep as the timekeeper.
  if (caller_sleeps_) caller_wakes_.notify_one();
  if (timekeeper_) timekeeper_wakes_.notify_one();
}

// The thread that makes a stream runnable also comes to it soon, unless its current slice takes
// long. So if the streams' slices have lately been short, a single thread runs all.
void CpuDevice::RunRunnable(Lock& lock) {
  ++runners_;
  const bool alone = !has_workers_;
  int64_t begin_ns = alone ? 0 : stringline::NowNs();
  for (;; begin_ns = alone ? 0 : NoteSlice(begin_ns)) {
    if (!timers_.empty()) EndHolds(lock);
    const int count = runnable_count_.load(std::memory_order_relaxed);
    if (count == 0 || (runners_ > 1 && !WorthAnotherThread())) {
      --runners_;
      return;
    }
    const int index = runnable_[runnable_first_];
    runnable_first_ = (runnable_first_ + 1) % runnable_.size();
    runnable_count_.store(count - 1, std::memory_order_relaxed);
    if (count > 1 && WorthAnotherThread()) WakeOne();
    streams_[index].state = State::kRunning;
    RunStream(index, lock);
  }
}

bool CpuDevice::WorthAnotherThread() const {
  return slice_ns_.load(std::memory_order_relaxed) >= kWorthWakingNs;
}

// True if this thread should run a stream: some are runnable, and no running thread comes to them
// as soon.
bool CpuDevice::MayRun() const {
  return runnable_count_.load(std::memory_order_relaxed) > 0 &&
         (runners_ == 0 || WorthAnotherThread());
}

int64_t CpuDevice::NoteSlice(int64_t begin_ns) {
  const int64_t end_ns = stringline::NowNs();
  const int64_t faded_ns = slice_ns_.load(std::memory_order_relaxed) * 15 / 16;
  slice_ns_.store(std::max(end_ns - begin_ns, faded_ns), std::memory_order_relaxed);
  return end_ns;
}

void CpuDevice::RunStream(int index, Lock& lock) {
  Stream& stream = streams_[index];
  lock.unlock();
  for (;;) {
    if (stream.next == stream.submitted.load(std::memory_order_acquire) ||
        failed_.load(std::memory_order_relaxed)) {
      lock.lock();
      // More ops may have been submitted before the lock was taken.
      if (!failed_.load() && stream.next != stream.submitted.load(std::memory_order_relaxed)) {
        lock.unlock();
        continue;
      }
      LeaveRunning(stream, State::kIdle);
      return;
    }
    Op& op = stream.ops[stream.next];
    switch (op.kind) {
      case StreamOpKind::kLaunch:
        if (op.times == nullptr) {
          op.run(op.self, op.argument, nullptr);
        } else {
          RunTimed(op);
        }
        ++stream.next;
        break;
      case StreamOpKind::kCopy:
        std::memcpy(op.to, op.self, op.argument);
        ++stream.next;
        break;
      case StreamOpKind::kRecord:
        RunRecord(events_[op.index], lock);
        ++stream.next;
        break;
      case StreamOpKind::kWait:
        if (!RunWait(index, lock)) return;
        break;
      case StreamOpKind::kMeet:
        if (!RunMeet(index, lock)) return;
        break;
      case StreamOpKind::kHold:
        RunHold(index, lock);
        return;
      case StreamOpKind::kAwait:
        RunAwait(index, lock);
        return;
      case StreamOpKind::kMark:
        SL_CHECK(false) << "a CPU shows no marks";
        return;
    }
  }
}

void CpuDevice::RunTimed(const Op& op) {
  NoteNs(&op.times->start_ns, NowNs());
  op.run(op.self, op.argument, nullptr);
  NoteNs(&op.times->end_ns, NowNs());
}

// A waiter counts itself, then checks whether the event has happened; a recorder makes the event
// happen, then checks for waiters. In the single total order of these four atomic operations, at
// least one of the two sees the other.
void CpuDevice::RunRecord(Event& event, Lock& lock) {
  const uint32_t happened = event.happened.fetch_add(1) + 1;
  if (event.waiters.load() == 0) return;
  lock.lock();
  for (int* link = &event.first_waiter; *link >= 0;) {
    const int waiter = *link;
    Stream& stream = streams_[waiter];
    if (happened >= stream.ops[stream.next].target) {
      *link = stream.next_waiter;
      stream.next_waiter = -1;
      event.waiters.fetch_sub(1);
      ++stream.next;
      MakeRunnable(waiter);
    } else {
      link = &stream.next_waiter;
    }
  }
  lock.unlock();
}

bool CpuDevice::RunWait(int index, Lock& lock) {
  Stream& stream = streams_[index];
  const Op& op = stream.ops[stream.next];
  Event& event = events_[op.index];
  if (event.happened.load() >= op.target) {
    ++stream.next;
    return true;
  }
  lock.lock();
  event.waiters.fetch_add(1);
  if (event.happened.load() >= op.target) {
    event.waiters.fetch_sub(1);
    lock.unlock();
    ++stream.next;
    return true;
  }
  stream.next_waiter = event.first_waiter;
  event.first_waiter = index;
  LeaveRunning(stream, State::kWaiting);
  return false;
}

bool CpuDevice::RunMeet(int index, Lock& lock) {
  Stream& stream = streams_[index];
  const Op& op = stream.ops[stream.next];
  MeetingPlace& place = *op.meeting;
  const auto sides = static_cast<int>(place.streams.size());
  lock.lock();
  SL_CHECK(place.streams[op.index] < 0) << "two streams wait on one side";
  place.streams[op.index] = index;
  place.ends[op.index] = op.self;
  if (++place.there < sides) {
    if (place.waits != nullptr) place.waits(place.link, op.self);
    LeaveRunning(stream, State::kWaiting);
    return false;
  }
  if (place.duration_ns != nullptr) {
    for (const int other : place.streams) streams_[other].state = State::kHeld;
    HoldUntil({NowNs() + place.duration_ns(place.link, place.ends), index, &place});
    LeaveRunning(stream, State::kHeld);
    return false;
  }
  Exchange(&place, index, lock);
  ++stream.next;
  lock.unlock();
  return true;
}

void CpuDevice::Exchange(MeetingPlace* place, int last, Lock& lock) {
  // With a single thread the lock is uncontended.
  if (has_workers_) lock.unlock();
  absl::Status status = place->exchange(place->link, place->ends);
  if (has_workers_) lock.lock();
  if (!status.ok()) FailLocked(std::move(status));
  place->there = 0;
  for (int& other : place->streams) {
    const int index = std::exchange(other, -1);
    if (index == last) continue;
    ++streams_[index].next;
    MakeRunnable(index);
  }
}

void CpuDevice::RunHold(int index, Lock& lock) {
  Stream& stream = streams_[index];
  const Op& op = stream.ops[stream.next];
  const int64_t now_ns = NowNs();
  if (op.times != nullptr) NoteNs(&op.times->start_ns, now_ns);
  lock.lock();
  HoldUntil({now_ns + op.argument, index, nullptr});
  LeaveRunning(stream, State::kHeld);
}

// The calling thread may be busy for long; another sleeping thread then becomes the timekeeper.
void CpuDevice::HoldUntil(Timer timer) {
  const bool first = timers_.empty() || timer.due_ns < timers_.front().due_ns;
  timers_.push_back(timer);
  std::push_heap(timers_.begin(), timers_.end(), std::greater<>());
  if (!timekeeper_) {
    WakeOne();
  } else if (first) {
    timekeeper_wakes_.notify_one();
  }
}

void CpuDevice::EndHolds(Lock& lock) {
  if (failed_.load()) {
    // A stream may have been held just when another failed: quiet is then reached only here.
    timers_.clear();
    TellIfQuiet();
    return;
  }
  const int64_t now_ns = NowNs();
  while (!timers_.empty() && timers_.front().due_ns <= now_ns) {
    const Timer timer = timers_.front();
    std::pop_heap(timers_.begin(), timers_.end(), std::greater<>());
    timers_.pop_back();
    Stream& stream = streams_[timer.stream];
    if (timer.place != nullptr) {
      ++active_;  // keeps the device from appearing quiet
      Exchange(timer.place, timer.stream, lock);
      --active_;
    } else if (WorkTimes* const times = stream.ops[stream.next].times; times != nullptr) {
      NoteNs(&times->end_ns, now_ns);
    }
    ++stream.next;
    MakeRunnable(timer.stream);
  }
}

// Sleeps until the first timer is due, an earlier timer is added, or a stream is runnable. With
// jumping time, until no stream runs: then the first timer is due.
void CpuDevice::KeepTime(Lock& lock) {
  const int64_t due_ns = timers_.front().due_ns;
  timekeeper_ = true;
  if (time_ == DeviceTime::kJumps) {
    timekeeper_wakes_.wait(lock, [this] { return stopping_ || active_ == 0 || MayRun(); });
    if (active_ == 0 && !timers_.empty()) jumped_to_ns_.store(timers_.front().due_ns);
  } else {
    const SharpTimers sharp;
    timekeeper_wakes_.wait_until(lock, TimeAt(due_ns), [this, due_ns] {
      return stopping_ || Quiet() || MayRun() || timers_.empty() || timers_.front().due_ns < due_ns;
    });
  }
  timekeeper_ = false;
  // While this thread runs due streams, another sleeping thread becomes the timekeeper.
  if (!timers_.empty()) WakeOne();
}

void CpuDevice::RunAwait(int index, Lock& lock) {
  Stream& stream = streams_[index];
  const Op op = stream.ops[stream.next];
  lock.lock();
  if (failed_.load()) return LeaveRunning(stream, State::kIdle);
  stream.state = State::kAway;
  ++away_;
  --active_;
  lock.unlock();
  op.outside->begin(op.outside->link, StreamId(index), op.self);
  lock.lock();
  TellIfQuiet();
}

void CpuDevice::GoOn(StreamId id) {
  const Lock lock(mutex_);
  Stream& stream = streams_[id.value];
  if (failed_.load() || stream.state != State::kAway) return;
  --away_;
  ++stream.next;
  MakeRunnable(id.value);
  if (runners_ == 0) WakeOne();
}

void CpuDevice::Fail(absl::Status status) {
  const Lock lock(mutex_);
  FailLocked(std::move(status));
  TellIfQuiet();
}

// Outside events that arrive later are ignored.
void CpuDevice::FailLocked(absl::Status status) {
  if (failed_.load()) return;
  away_ = 0;
  failure_ = std::move(status);
  failed_.store(true);
}

void CpuDevice::WorkerLoop(void (*prepare_thread)()) {
  if (prepare_thread != nullptr) prepare_thread();
  Lock lock(mutex_);
  while (!stopping_) {
    RunRunnable(lock);
    if (spin_) {
      lock.unlock();
      SpinForWork();
      lock.lock();
      if (MayRun()) continue;
    }
    if (NobodyKeepsTime()) {
      KeepTime(lock);
      continue;
    }
    ++sleeping_workers_;
    workers_wake_.wait(lock, [this] { return stopping_ || NobodyKeepsTime() || MayRun(); });
    --sleeping_workers_;
  }
}

void CpuDevice::SpinForWork() const {
  const auto nothing = [this] {
    return runnable_count_.load(std::memory_order_relaxed) == 0 || !WorthAnotherThread();
  };
  for (int i = 0; i < kSpins && nothing(); ++i) Pause();
}

absl::Status CpuDevice::DescribeDeadlock() const {
  std::string stuck;
  for (const Stream& stream : streams_) {
    if (stream.state != State::kWaiting) continue;
    const Op& op = stream.ops[stream.next];
    absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", Print(stream.name), " waits for ",
                    op.kind == StreamOpKind::kMeet
                        ? op.meeting->describe(op.meeting->link, op.index, op.self)
                        : Print(event_names_[op.index]));
  }
  return DeadlockError(stuck);
}

}  // namespace stringline
