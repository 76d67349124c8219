// A CPU that behaves like a GPU: a few threads that run many streams.
//
// A stream is a queue. A thread takes a stream that can go on and runs it until it must wait for an
// event or for another stream, or has nothing left; a stream that waits occupies no thread, so
// hundreds of streams need no more threads than there are processors. When no thread runs anything,
// no stream can go on, none is held for a time, and some still have work, they will never go on:
// that is how Synchronize recognises a deadlock, without a time limit.
//
// Time: a stream that is held occupies no thread either. Of the threads that have nothing to run,
// one keeps time: it sleeps until the first hold ends. So holds need no thread of their own, and
// nothing spins. A device whose time jumps does not sleep: when nothing runs and something is held,
// its clock is set to the end of the first hold. Then only holds take time, and how busy the
// machine is plays no part.
//
// Locking: `mutex_` guards the state of every stream that does not run, the runnable queue and the
// lists of waiting streams. A running stream belongs to its thread, and most of its work takes no
// lock: an event is a counter that is compared.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/stream_ops.h"

namespace stringline {

enum class DeviceTime : uint8_t { kReal, kJumps };

// A place where streams meet, one on each side: each comes with its end of an exchange and waits,
// and when the last one is there the exchange is performed, once for all.
struct MeetingPlace {
  using Ends = absl::Span<const void* const>;  // by side
  MeetingPlace(int sides, const void* link) : link(link), streams(sides, -1), ends(sides) {}

  // Called by one thread, without a lock.
  absl::Status (*exchange)(const void* link, Ends ends) = nullptr;
  // "somebody to take …": what side `side` waits for, for the deadlock message.
  std::string (*describe)(const void* link, int side, const void* end) = nullptr;
  // A side has come with its end and waits for others; may be null. It is short.
  void (*waits)(const void* link, const void* end) = nullptr;
  // How long the ends are on their way: from when all met until the exchange, their streams are
  // held. Null: the exchange is at once.
  int64_t (*duration_ns)(const void* link, Ends ends) = nullptr;
  const void* link;

  // The device's: by side, the stream that waits there, or -1, and what it came with.
  absl::InlinedVector<int, 2> streams;
  absl::InlinedVector<const void*, 2> ends;
  int there = 0;
};

// Something that a stream waits for and that does not happen on the device: another process's
// message, say.
struct Outside {
  // The stream has come to it, with `end`. Called by one thread, without a lock. GoOn lets the
  // stream go on, also before this returns.
  void (*begin)(const void* link, StreamId stream, const void* end) = nullptr;
  const void* link = nullptr;
};

class CpuDevice final : public Device {
 public:
  // One thread runs work: the one that calls Synchronize.
  explicit CpuDevice(DeviceTime time = DeviceTime::kReal) : time_(time) {}
  // `threads` run work: that one, and threads - 1 of the device's own, which call `prepare_thread`
  // (if any) when they start. ResourceExhausted when the system does not start them all.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Make(int threads,
                                                         void (*prepare_thread)() = nullptr,
                                                         DeviceTime time = DeviceTime::kReal);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  StreamId NewStream(LazyName name, int capacity) override;
  EventId NewEvent(LazyName name) override;
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override { return Allocate(bytes); }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;
  using Device::Launch;
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override;
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override;
  void Record(StreamId stream, EventId event) override;
  void Wait(StreamId stream, EventId event) override;
  int64_t NowNs() const override;
  void Submit() override;
  absl::Status Synchronize() override;

  // Enqueues a meeting: the stream comes to `place` on `side` with `end`. At most one stream waits
  // on a side at a time.
  void Meet(StreamId stream, MeetingPlace* place, int side, const void* end);
  // Enqueues a wait for something outside. While any stream waits so, nothing is a deadlock:
  // whoever is outside has a deadline.
  void Await(StreamId stream, const Outside* outside, const void* end);
  // From any thread: the stream goes on; the device ends in that error.
  void GoOn(StreamId stream);
  void Fail(absl::Status status);
  // The stream does nothing for so long, counted from when it comes to this point. `times` may be
  // null.
  void Hold(StreamId stream, int64_t duration_ns, WorkTimes* times = nullptr);

 private:
  using Op = StreamOp<MeetingPlace>;
  enum class State : uint8_t { kIdle, kRunnable, kRunning, kWaiting, kHeld, kAway };
  // On cache lines of its own: the next stream may belong to another thread.
  struct alignas(64) Stream : StreamOps<MeetingPlace> {  // emptied by Synchronize
    std::atomic<uint32_t> submitted{0};
    uint32_t next = 0;  // the op that runs next
    State state = State::kIdle;
    int next_waiter = -1;  // list of the streams that wait for the same event
  };
  struct Event {
    uint32_t enqueued = 0;  // records enqueued: the enqueuing thread's
    std::atomic<uint32_t> happened{0};
    std::atomic<int> waiters{0};
    int first_waiter = -1;
  };
  // The end of a hold. A stream has at most one, and a meeting one for all of its streams.
  struct Timer {
    int64_t due_ns = 0;
    int stream = -1;                // of a meeting: the one that came last
    MeetingPlace* place = nullptr;  // of a meeting
    friend bool operator>(const Timer& a, const Timer& b) { return a.due_ns > b.due_ns; }
  };
  using Lock = std::unique_lock<std::mutex>;

  void MakeRunnable(int stream);
  void LeaveRunning(Stream& stream, State state);
  // Wakes the caller of Synchronize if there is nothing left to wait for, and whoever sets the
  // clock if there is nothing left but holds. The lock is held.
  void TellIfQuiet();
  // Runs streams until none can go on. The lock is held when it begins and when it returns.
  void RunRunnable(Lock& lock);
  void RunStream(int index, Lock& lock);
  bool WorthAnotherThread() const;
  bool MayRun() const;
  // Notes how long a stream ran in one go, from `begin_ns` until now; returns now.
  int64_t NoteSlice(int64_t begin_ns);
  // These run the op at the head of a running stream, without the lock. False: the stream has left
  // the running state, and the lock is held.
  bool RunWait(int index, Lock& lock);
  bool RunMeet(int index, Lock& lock);
  void RunHold(int index, Lock& lock);
  void RunAwait(int index, Lock& lock);
  void RunRecord(Event& event, Lock& lock);
  void RunTimed(const Op& op);
  // The exchange of a place where all are, and then all go on but `last`. The lock is held when it
  // begins and ends, and not in between.
  void Exchange(MeetingPlace* place, int last, Lock& lock);
  void HoldUntil(Timer timer);
  // Lets the streams go on whose holds have ended. The lock is held when it begins and ends.
  void EndHolds(Lock& lock);
  // Whether everything has run that can: no stream runs or is runnable, held or away.
  bool Quiet() const { return active_ == 0 && timers_.empty() && away_ == 0; }
  bool NobodyKeepsTime() const { return !timekeeper_ && !timers_.empty(); }
  void KeepTime(Lock& lock);
  void WakeOne();
  void FailLocked(absl::Status status);
  void WorkerLoop(void (*prepare_thread)());
  void SpinForWork() const;
  absl::Status DescribeDeadlock() const;

  std::deque<Stream> streams_;
  std::deque<Event> events_;
  std::vector<LazyName> event_names_;
  std::vector<std::unique_ptr<char[]>> memory_;

  std::mutex mutex_;
  std::condition_variable workers_wake_;
  std::condition_variable caller_wakes_;
  std::vector<int> runnable_;  // a ring with room for every stream
  size_t runnable_first_ = 0;
  std::atomic<int> runnable_count_{0};
  int active_ = 0;   // streams that run or are runnable
  int runners_ = 0;  // threads that run what is runnable
  int away_ = 0;     // streams that wait for something outside
  // The longest that a stream ran in one go, lately; written under the lock.
  std::atomic<int64_t> slice_ns_{1'000'000};
  std::vector<Timer> timers_;  // a heap, the first due on top; with room for every stream
  std::condition_variable timekeeper_wakes_;
  bool timekeeper_ = false;  // a thread sleeps until the first timer is due
  const DeviceTime time_;
  // The clock of a device whose time jumps: not 0, the time of what was never recorded.
  std::atomic<int64_t> jumped_to_ns_{1};
  int sleeping_workers_ = 0;
  bool caller_sleeps_ = false;
  bool stopping_ = false;
  std::atomic<bool> failed_{false};
  absl::Status failure_;
  bool has_workers_ = false;  // set before they start
  bool spin_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace stringline
