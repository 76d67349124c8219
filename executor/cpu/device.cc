// All threads run one loop: take a runnable stream, and perform its ops until it must wait. Another
// thread is woken only if streams have lately run long enough at a time to be worth the wake-up. Of
// the idle threads, a single timekeeper sleeps until the first timer; the others sleep until woken.
// A device that carries has a thread of its own for timers and urgent streams.
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

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Make(int threads, void (*prepare_thread)(),
                                                           DeviceTime time, bool carries) {
  SL_CHECK(threads >= 1) << threads;
  SL_CHECK(!carries || time == DeviceTime::kReal) << "a carrier waits for real time";
  auto device = std::make_unique<CpuDevice>(time);
  device->has_workers_ = threads > 1 || carries;
  device->carries_ = device->timekeeper_ = carries;
  device->spin_ =
      threads > 1 && !carries && threads <= static_cast<int>(std::thread::hardware_concurrency());
  SL_RETURN_IF_ERROR(StartThreads(
      threads - 1, [self = device.get(), prepare_thread] { self->WorkerLoop(prepare_thread); },
      &device->workers_));
  if (carries) {
    SL_RETURN_IF_ERROR(StartThreads(
        1, [self = device.get()] { self->CarrierLoop(); }, &device->workers_));
  }
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
  runnable_.MakeRoom(streams_.size());
  urgent_.MakeRoom(streams_.size());
  timers_.MakeRoom(streams_.size());
  return StreamId(static_cast<int32_t>(streams_.size()) - 1);
}

StreamId CpuDevice::NewUrgentStream(LazyName name, int capacity) {
  const StreamId stream = NewStream(name, capacity);
  streams_[stream.value].urgent = carries_;
  return stream;
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
  if (runners_ == 0 && runnable_.count() > 0) WakeOne();
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
    if (LookOutside(lock)) continue;
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
  if (streams_[index].urgent) {
    urgent_.Add(index);
    timekeeper_wakes_.notify_one();
    return;
  }
  runnable_.Add(index);
  if (lookout_.looks && runnable_.count() == 1) return;  // the thread that looks comes to it
  // The carrier itself does not come to it.
  if (slices_.WorthAnotherThread() || (carries_ && runners_ == 0)) WakeOne();
}

// Prefers a thread other than the timekeeper. A carrier runs none of these streams.
void CpuDevice::WakeOne() {
  if (sleeping_workers_ > 0) {
    workers_wake_.notify_one();
  } else if (caller_sleeps_) {
    caller_wakes_.notify_one();
  } else if (timekeeper_ && !carries_) {
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
  for (;;) {
    if (!timers_.empty()) EndHolds();
    const int count = runnable_.count();
    if (count == 0 || (runners_ > 1 && !slices_.WorthAnotherThread())) {
      --runners_;
      return;
    }
    const int index = runnable_.Take();
    if (count > 1 && slices_.WorthAnotherThread()) WakeOne();
    streams_[index].state = State::kRunning;
    RunStream(index, lock);
    if (!alone) begin_ns = slices_.Note(begin_ns, stringline::NowNs());
  }
}

// True if this thread should run a stream: some are runnable, and no running thread comes to them
// as soon.
bool CpuDevice::MayRun() const {
  return runnable_.count() > 0 && (runners_ == 0 || slices_.WorthAnotherThread());
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
        if (op.times != nullptr) NoteNs(&op.times->start_ns, NowNs());
        op.run(op.self, op.argument, nullptr);
        if (op.times != nullptr) NoteNs(&op.times->end_ns, NowNs());
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
      case StreamOpKind::kTurn:
        if (!RunTurn(index, lock)) return;
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
  if (has_workers_) lock.unlock();  // with a single thread it is uncontended
  absl::Status status = place.exchange(place.link, place.ends);
  if (has_workers_) lock.lock();
  if (!status.ok()) FailLocked(std::move(status));
  if (place.duration_ns != nullptr && !failed_.load()) {
    for (const int other : place.streams) streams_[other].state = State::kHeld;
    HoldUntil({NowNs() + place.duration_ns(place.link, place.ends), -1, &place});
    LeaveRunning(stream, State::kHeld);
    return false;
  }
  Leave(&place, index);
  ++stream.next;
  lock.unlock();
  return true;
}

bool CpuDevice::RunTurn(int index, Lock& lock) {
  Stream& stream = streams_[index];
  const Op& op = stream.ops[stream.next];
  lock.lock();
  if (!op.turns->Perform(static_cast<TurnOp>(op.index), static_cast<uint32_t>(op.argument),
                         StreamId(index))) {
    LeaveRunning(stream, State::kWaiting);
    return false;
  }
  ++stream.next;
  if (const StreamId chosen = op.turns->Next(); chosen.valid()) {
    ++streams_[chosen.value].next;
    MakeRunnable(chosen.value);
  }
  lock.unlock();
  return true;
}

void CpuDevice::Leave(MeetingPlace* place, int last) {
  if (place->leave != nullptr) place->leave(place->link, place->ends);
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
  const bool first = timers_.Add(timer);
  if (!timekeeper_) {
    WakeOne();
  } else if (first) {
    timekeeper_wakes_.notify_one();
  }
}

void CpuDevice::EndHolds() {
  if (failed_.load()) {
    // A stream may have been held just when another failed: quiet is then reached only here.
    timers_.Clear();
    TellIfQuiet();
    return;
  }
  const int64_t now_ns = NowNs();
  while (!timers_.empty() && timers_.due_ns() <= now_ns) {
    const Timer timer = timers_.Take();
    if (timer.place != nullptr) {
      Leave(timer.place, /*last=*/-1);
      continue;
    }
    Stream& stream = streams_[timer.stream];
    if (WorkTimes* const times = stream.ops[stream.next].times; times != nullptr) {
      NoteNs(&times->end_ns, now_ns);
    }
    ++stream.next;
    MakeRunnable(timer.stream);
  }
}

// Sleeps until the first timer is due, an earlier timer is added, or a stream is runnable. With
// jumping time, until no stream runs: then the first timer is due.
void CpuDevice::KeepTime(Lock& lock) {
  const int64_t due_ns = timers_.due_ns();
  timekeeper_ = true;
  if (time_ == DeviceTime::kJumps) {
    timekeeper_wakes_.wait(lock, [this] { return stopping_ || active_ == 0 || MayRun(); });
    if (active_ == 0 && !timers_.empty()) jumped_to_ns_.store(timers_.due_ns());
  } else {
    const SharpTimers sharp;
    timekeeper_wakes_.wait_until(lock, TimeAt(due_ns), [this, due_ns] {
      return stopping_ || Quiet() || MayRun() || timers_.empty() || timers_.due_ns() < due_ns;
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
  if (runners_ == 0 && !lookout_.looks) WakeOne();
}

void CpuDevice::LookAt(Lookout* lookout) {
  Lock lock(mutex_);
  lookout_.at = lookout;
  while (lookout_.looks) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

bool CpuDevice::LookOutside(Lock& lock) {
  Lookout* const at = lookout_.at;
  if (at == nullptr || lookout_.looks || away_ == 0 || stopping_) return false;
  lookout_.looks = true;
  lock.unlock();
  const int64_t since_ns = stringline::NowNs();
  while (runnable_.count() == 0 && !failed_.load(std::memory_order_relaxed)) {
    if (!at->LookOut(since_ns)) break;
  }
  lock.lock();
  lookout_.looks = false;
  return MayRun() || Quiet() || NobodyKeepsTime();
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
  if (carries_) timekeeper_wakes_.notify_one();
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
    if (LookOutside(lock)) continue;
    ++sleeping_workers_;
    workers_wake_.wait(lock, [this] { return stopping_ || NobodyKeepsTime() || MayRun(); });
    --sleeping_workers_;
  }
}

// Sleeps until an urgent stream is runnable or the first timer is due. A short turn of the
// processor lets the system give it one at once.
void CpuDevice::CarrierLoop() {
  const SharpTimers sharp;
  TakeShortTurns();
  Lock lock(mutex_);
  while (!stopping_) {
    if (!timers_.empty()) EndHolds();
    if (urgent_.count() > 0) {
      const int index = urgent_.Take();
      streams_[index].state = State::kRunning;
      RunStream(index, lock);
      continue;
    }
    const int64_t due_ns = timers_.empty() ? 0 : timers_.due_ns();
    const auto awaited = [this, due_ns] {
      return stopping_ || urgent_.count() > 0 ||
             (!timers_.empty() && (due_ns == 0 || failed_.load() || timers_.due_ns() < due_ns));
    };
    if (due_ns == 0) {
      timekeeper_wakes_.wait(lock, awaited);
    } else {
      timekeeper_wakes_.wait_until(lock, TimeAt(due_ns), awaited);
    }
  }
}

void CpuDevice::SpinForWork() const {
  const auto nothing = [this] { return runnable_.count() == 0 || !slices_.WorthAnotherThread(); };
  for (int i = 0; i < kSpins && nothing(); ++i) Pause();
}

absl::Status CpuDevice::DescribeDeadlock() const {
  std::string stuck;
  for (const Stream& stream : streams_) {
    if (stream.state != State::kWaiting) continue;
    const Op& op = stream.ops[stream.next];
    absl::StrAppend(
        &stuck, stuck.empty() ? "" : "; ", Print(stream.name), " waits for ",
        op.kind == StreamOpKind::kMeet   ? op.meeting->describe(op.meeting->link, op.index, op.self)
        : op.kind == StreamOpKind::kTurn ? op.turns->Describe(static_cast<uint32_t>(op.argument))
                                         : Print(event_names_[op.index]));
  }
  return DeadlockError(stuck);
}

}  // namespace stringline
