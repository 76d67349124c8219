#include "executor/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr int64_t kAlignment = 64;

// How many looks at the runnable queue a thread takes before it goes to sleep: some 20
// microseconds, less than it costs to wake a sleeping thread.
constexpr int kSpins = 400;

std::string Text(const LazyName& name) {
  return name.print == nullptr ? absl::StrCat("#", name.index) : name.print(name.self, name.index);
}

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
  events_.emplace_back().name = name;
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

CpuDevice::Op& CpuDevice::Append(StreamId id) {
  Stream& stream = streams_[id.value];
  SL_CHECK(stream.enqueued < stream.ops.size()) << Text(stream.name) << " is full";
  return stream.ops[stream.enqueued++];
}

void CpuDevice::Launch(StreamId stream, const Work& work) {
  Op& op = Append(stream);
  op.kind = OpKind::kLaunch;
  op.work = work;
}

void CpuDevice::Record(StreamId stream, EventId event) {
  Op& op = Append(stream);
  op.kind = OpKind::kRecord;
  op.event = event.value;
  ++events_[event.value].enqueued;
}

void CpuDevice::Wait(StreamId stream, EventId event) {
  Op& op = Append(stream);
  op.kind = OpKind::kWait;
  op.event = event.value;
  op.target = events_[event.value].enqueued;
}

void CpuDevice::Hold(StreamId stream, int64_t duration_ns) {
  Op& op = Append(stream);
  op.kind = OpKind::kHold;
  op.work.argument = duration_ns;
}

int64_t CpuDevice::NowNs() const {
  return time_ == DeviceTime::kReal ? stringline::NowNs() : jumped_to_ns_.load();
}

void CpuDevice::Meet(StreamId stream, MeetingPlace* place, int side, const void* end) {
  Op& op = Append(stream);
  op.kind = OpKind::kMeet;
  op.side = static_cast<uint8_t>(side);
  op.place = place;
  op.end = end;
}

void CpuDevice::Submit() {
  Lock lock(mutex_);
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.submitted.load(std::memory_order_relaxed) == stream.enqueued) continue;
    stream.submitted.store(stream.enqueued, std::memory_order_release);
    if (stream.state == State::kIdle) MakeRunnable(static_cast<int>(i));
  }
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
      if (runnable_count_.load(std::memory_order_relaxed) > 0) continue;
      if (Quiet()) break;
    }
    if (NobodyKeepsTime()) {
      KeepTime(lock);
      continue;
    }
    caller_sleeps_ = true;
    caller_wakes_.wait(lock, [this] {
      return Quiet() || NobodyKeepsTime() || runnable_count_.load(std::memory_order_relaxed) > 0;
    });
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
  WakeOne();
}

// Prefers a thread that does not keep time.
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
  // Whoever called Synchronize may sleep as the timekeeper.
  if (caller_sleeps_) caller_wakes_.notify_one();
  if (timekeeper_) timekeeper_wakes_.notify_one();
}

void CpuDevice::RunRunnable(Lock& lock) {
  for (;;) {
    if (!timers_.empty()) EndHolds(lock);
    const int count = runnable_count_.load(std::memory_order_relaxed);
    if (count == 0) return;
    const int index = runnable_[runnable_first_];
    runnable_first_ = (runnable_first_ + 1) % runnable_.size();
    runnable_count_.store(count - 1, std::memory_order_relaxed);
    streams_[index].state = State::kRunning;
    RunStream(index, lock);
  }
}

void CpuDevice::RunStream(int index, Lock& lock) {
  Stream& stream = streams_[index];
  lock.unlock();
  for (;;) {
    if (stream.next == stream.submitted.load(std::memory_order_acquire) ||
        failed_.load(std::memory_order_relaxed)) {
      lock.lock();
      // More may have been submitted before the lock was taken.
      if (!failed_.load() && stream.next != stream.submitted.load(std::memory_order_relaxed)) {
        lock.unlock();
        continue;
      }
      LeaveRunning(stream, State::kIdle);
      return;
    }
    Op& op = stream.ops[stream.next];
    switch (op.kind) {
      case OpKind::kLaunch:
        op.work.run(op.work.self, op.work.argument);
        ++stream.next;
        break;
      case OpKind::kRecord:
        RunRecord(events_[op.event], lock);
        ++stream.next;
        break;
      case OpKind::kWait:
        if (!RunWait(index, lock)) return;
        break;
      case OpKind::kMeet:
        if (!RunMeet(index, lock)) return;
        break;
      case OpKind::kHold:
        RunHold(index, lock);
        return;
    }
  }
}

// A waiter counts itself, then looks whether the event has happened; a recorder makes it happen,
// then looks whether anybody waits. In the single order of these four, one of the two sees the
// other.
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
  Event& event = events_[op.event];
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
  MeetingPlace& place = *op.place;
  lock.lock();
  const int partner_index = std::exchange(place.waiting[1 - op.side], -1);
  if (partner_index < 0) {
    SL_CHECK(place.waiting[op.side] < 0) << "two streams wait on one side";
    place.waiting[op.side] = index;
    LeaveRunning(stream, State::kWaiting);
    return false;
  }
  Stream& partner = streams_[partner_index];
  if (place.duration_ns != nullptr) {
    const void* partner_end = partner.ops[partner.next].end;
    const int64_t duration_ns = op.side == 0 ? place.duration_ns(place.link, op.end, partner_end)
                                             : place.duration_ns(place.link, partner_end, op.end);
    partner.state = State::kHeld;
    HoldUntil({NowNs() + duration_ns, index, partner_index});
    LeaveRunning(stream, State::kHeld);
    return false;
  }
  lock.unlock();
  absl::Status status = Exchange(index, partner_index);
  lock.lock();
  if (!status.ok()) Fail(std::move(status));
  ++partner.next;
  MakeRunnable(partner_index);
  ++stream.next;
  lock.unlock();
  return true;
}

// Both streams stand at their ends of one meeting.
absl::Status CpuDevice::Exchange(int index, int partner_index) {
  const Op& op = streams_[index].ops[streams_[index].next];
  const Stream& partner = streams_[partner_index];
  const void* partner_end = partner.ops[partner.next].end;
  const MeetingPlace& place = *op.place;
  return op.side == 0 ? place.exchange(place.link, op.end, partner_end)
                      : place.exchange(place.link, partner_end, op.end);
}

void CpuDevice::RunHold(int index, Lock& lock) {
  Stream& stream = streams_[index];
  const int64_t due_ns = NowNs() + stream.ops[stream.next].work.argument;
  lock.lock();
  HoldUntil({due_ns, index, -1});
  LeaveRunning(stream, State::kHeld);
}

// The thread that calls this may be busy for long; another one that sleeps keeps the time then.
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
    // A stream may have been held just when another one failed: then only now nothing is left.
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
    if (timer.partner >= 0) {
      ++active_;  // nobody shall think that nothing goes on any more
      lock.unlock();
      absl::Status status = Exchange(timer.stream, timer.partner);
      lock.lock();
      --active_;
      if (!status.ok()) Fail(std::move(status));
      ++streams_[timer.partner].next;
      MakeRunnable(timer.partner);
    }
    ++stream.next;
    MakeRunnable(timer.stream);
  }
}

// Sleeps until the first timer is due, or another comes before it, or there is something to run.
// Where time jumps, until nothing runs any more: then the first timer is due.
void CpuDevice::KeepTime(Lock& lock) {
  const int64_t due_ns = timers_.front().due_ns;
  timekeeper_ = true;
  if (time_ == DeviceTime::kJumps) {
    timekeeper_wakes_.wait(lock, [this] {
      return stopping_ || active_ == 0 || runnable_count_.load(std::memory_order_relaxed) > 0;
    });
    if (active_ == 0 && !timers_.empty()) jumped_to_ns_.store(timers_.front().due_ns);
  } else {
    const SharpTimers sharp;
    timekeeper_wakes_.wait_until(lock, TimeAt(due_ns), [this, due_ns] {
      return stopping_ || Quiet() || runnable_count_.load(std::memory_order_relaxed) > 0 ||
             timers_.empty() || timers_.front().due_ns < due_ns;
    });
  }
  timekeeper_ = false;
  // While this thread runs what is due, another one that sleeps keeps the time.
  if (!timers_.empty()) WakeOne();
}

void CpuDevice::Fail(absl::Status status) {
  if (failed_.load()) return;
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
      if (runnable_count_.load(std::memory_order_relaxed) > 0) continue;
    }
    if (NobodyKeepsTime()) {
      KeepTime(lock);
      continue;
    }
    ++sleeping_workers_;
    workers_wake_.wait(lock, [this] {
      return stopping_ || NobodyKeepsTime() || runnable_count_.load(std::memory_order_relaxed) > 0;
    });
    --sleeping_workers_;
  }
}

void CpuDevice::SpinForWork() const {
  for (int i = 0; i < kSpins && runnable_count_.load(std::memory_order_relaxed) == 0; ++i) Pause();
}

absl::Status CpuDevice::DescribeDeadlock() const {
  std::string text = "deadlock: nothing can run any more, and";
  const char* separator = " ";
  for (const Stream& stream : streams_) {
    if (stream.state != State::kWaiting) continue;
    const Op& op = stream.ops[stream.next];
    absl::StrAppend(&text, separator, Text(stream.name), " waits for ",
                    op.kind == OpKind::kMeet ? op.place->describe(op.side, op.end)
                                             : Text(events_[op.event].name));
    separator = "; ";
  }
  return absl::AbortedError(text);
}

}  // namespace stringline
