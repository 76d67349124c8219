// A CPU that behaves like a GPU: a few threads that run many streams.
//
// A stream is a queue. A thread takes a runnable stream and runs it until it must wait for an event
// or for another stream, or is empty; a waiting stream occupies no thread, so hundreds of streams
// need no more threads than there are processors. If no thread runs, no stream is runnable, held or
// waiting for the outside, and some streams still have work, they wait for each other in a cycle:
// thus Synchronize recognises a deadlock, without a time limit.
//
// Time: a held stream occupies no thread either. Of the idle threads, the timekeeper sleeps until
// the first hold ends. So holds need no thread of their own, and no thread spins. A device whose
// time jumps does not sleep: when no stream runs and some are held, its clock is set to the end of
// the first hold. Then only holds take time, and the load of the machine plays no part.
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
#include "executor/cpu/stream_queues.h"
#include "executor/engine/device.h"
#include "executor/engine/stream_ops.h"

namespace stringline {

enum class DeviceTime : uint8_t { kReal, kJumps };

// A meeting of streams, one per side: each comes with its end of an exchange and waits, and the
// last to come performs the exchange, once for all. Its streams go on when it has taken its time.
struct MeetingPlace {
  using Ends = absl::Span<const void* const>;  // by side
  MeetingPlace(int sides, const void* link) : link(link), streams(sides, -1), ends(sides) {}

  // Called by one thread, without a lock.
  absl::Status (*exchange)(const void* link, Ends ends) = nullptr;
  // "somebody to take …": the missing counterpart of side `side`, for the deadlock message.
  std::string (*describe)(const void* link, int side, const void* end) = nullptr;
  // Called when a side has come with its end and waits for others; may be null. Must be short.
  void (*waits)(const void* link, const void* end) = nullptr;
  // The ends' time in flight, asked after the exchange: so long all streams are held. Null: none.
  int64_t (*duration_ns)(const void* link, Ends ends) = nullptr;
  // Called when the streams go on; may be null. Must be short.
  void (*leave)(const void* link, Ends ends) = nullptr;
  const void* link;

  // Owned by the device: by side, the waiting stream, or -1, and its end.
  absl::InlinedVector<int, 2> streams;
  absl::InlinedVector<const void*, 2> ends;
  int there = 0;
};

// An event outside the device for which a stream waits: another process's message, for example.
struct Outside {
  // The stream has reached the wait, with `end`. Called by one thread, without a lock. GoOn resumes
  // the stream, even before `begin` returns.
  void (*begin)(const void* link, StreamId stream, const void* end) = nullptr;
  const void* link = nullptr;
};

// Looks for outside events on behalf of idle threads, which would be slower to wake than to keep.
class Lookout {
 public:
  virtual ~Lookout() = default;
  // A thread of the device has been idle since `since_ns`, while streams wait for the outside.
  // Looks once, and ends what has come. False: the thread may as well sleep. Called by one thread
  // at a time, without a lock.
  virtual bool LookOut(int64_t since_ns) = 0;
};

class CpuDevice final : public Device {
 public:
  // A single thread runs work: the caller of Synchronize.
  explicit CpuDevice(DeviceTime time = DeviceTime::kReal) : time_(time) {}
  // `threads` run work: the caller of Synchronize, and threads - 1 of the device's own, which call
  // `prepare_thread` (if any) when they start. If the device carries, a further thread runs urgent
  // streams and ends holds, and nothing else: messages in flight go on, as on a network adapter,
  // while all others compute. ResourceExhausted if the system does not start all.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Make(int threads,
                                                         void (*prepare_thread)() = nullptr,
                                                         DeviceTime time = DeviceTime::kReal,
                                                         bool carries = false);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  StreamId NewStream(LazyName name, int capacity) override;
  StreamId NewUrgentStream(LazyName name, int capacity) override;
  EventId NewEvent(LazyName name) override;
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override { return Allocate(bytes); }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;
  using Device::Launch;
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override {
    streams_[stream.value].Launch(work, times);
  }
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override {
    streams_[stream.value].Copy(to, from, bytes);
  }
  void Record(StreamId stream, EventId event) override {
    streams_[stream.value].Record(event, &events_[event.value].enqueued);
  }
  void Wait(StreamId stream, EventId event) override {
    streams_[stream.value].Wait(event, events_[event.value].enqueued);
  }
  bool HasTurns() const override { return true; }
  void Turn(StreamId stream, Turns* turns, TurnOp op, uint32_t number) override {
    streams_[stream.value].Turn(turns, op, number);
  }
  int64_t NowNs() const override;
  void Submit() override;
  absl::Status Synchronize() override;

  // Enqueues a meeting: the stream comes to `place` on `side` with `end`. At most one stream waits
  // on a side at a time.
  void Meet(StreamId stream, MeetingPlace* place, int side, const void* end) {
    streams_[stream.value].Meet(place, side, end);
  }
  // Enqueues a wait for an outside event. While any stream waits so, no deadlock is reported: the
  // outside has a deadline of its own.
  void Await(StreamId stream, const Outside* outside, const void* end) {
    streams_[stream.value].Await(outside, end);
  }
  // From any thread: resumes the stream; ends the device in an error.
  void GoOn(StreamId stream);
  void Fail(absl::Status status);
  // From now on idle threads look there before they sleep; null: nowhere. No thread looks at the
  // one before any more when it returns.
  void LookAt(Lookout* lookout);
  // The stream is idle for `duration_ns`, counted from the moment when it reaches this op. `times`
  // may be null.
  void Hold(StreamId stream, int64_t duration_ns, WorkTimes* times = nullptr) {
    streams_[stream.value].Hold(duration_ns, times);
  }

 private:
  using Op = StreamOp<MeetingPlace>;
  enum class State : uint8_t { kIdle, kRunnable, kRunning, kWaiting, kHeld, kAway };
  // On cache lines of its own: the next stream may belong to another thread.
  struct alignas(64) Stream : StreamOps<MeetingPlace> {  // emptied by Synchronize
    std::atomic<uint32_t> submitted{0};
    uint32_t next = 0;  // index of the op that runs next
    State state = State::kIdle;
    bool urgent = false;
    int next_waiter = -1;  // list of the streams that wait for the same event
  };
  struct Event {
    uint32_t enqueued = 0;  // records enqueued: the enqueuing thread's
    std::atomic<uint32_t> happened{0};
    std::atomic<int> waiters{0};
    int first_waiter = -1;
  };
  using Lock = std::unique_lock<std::mutex>;

  void MakeRunnable(int stream);
  void LeaveRunning(Stream& stream, State state);
  // Wakes the caller of Synchronize if no work is left or can go on, and the setter of a jumping
  // clock if only holds are left. The lock is held.
  void TellIfQuiet();
  // Runs streams until none is runnable. The lock is held on entry and on return.
  void RunRunnable(Lock& lock);
  void RunStream(int index, Lock& lock);
  bool MayRun() const;
  // Looks outside if streams wait for it and no other thread looks. The lock is held on entry and
  // on return. True: something may have changed.
  bool LookOutside(Lock& lock);
  // Each runs the op at the head of a running stream, without the lock. False: the stream has left
  // the running state, and the lock is held.
  bool RunWait(int index, Lock& lock);
  bool RunMeet(int index, Lock& lock);
  bool RunTurn(int index, Lock& lock);
  void RunHold(int index, Lock& lock);
  void RunAwait(int index, Lock& lock);
  void RunRecord(Event& event, Lock& lock);
  // Empties the place and resumes its streams but `last`, which runs. The lock is held.
  void Leave(MeetingPlace* place, int last);
  void HoldUntil(Timer timer);
  // Resumes the streams whose holds have ended. The lock is held.
  void EndHolds();
  // True if no stream runs or is runnable, held or away: all work that can run has run.
  bool Quiet() const { return active_ == 0 && timers_.empty() && away_ == 0; }
  bool NobodyKeepsTime() const { return !timekeeper_ && !timers_.empty(); }
  void KeepTime(Lock& lock);
  void WakeOne();
  void FailLocked(absl::Status status);
  void WorkerLoop(void (*prepare_thread)());
  void CarrierLoop();
  void SpinForWork() const;
  absl::Status DescribeDeadlock() const;

  std::deque<Stream> streams_;
  std::deque<Event> events_;
  std::vector<LazyName> event_names_;
  std::vector<std::unique_ptr<char[]>> memory_;

  std::mutex mutex_;
  std::condition_variable workers_wake_;
  std::condition_variable caller_wakes_;
  RunnableStreams runnable_;
  RunnableStreams urgent_;  // of a device that carries
  int active_ = 0;          // streams running or runnable
  int runners_ = 0;         // threads in RunRunnable
  int away_ = 0;            // streams that wait for the outside
  struct {
    Lookout* at = nullptr;
    bool looks = false;  // a thread is there
  } lookout_;
  RecentSlices slices_;
  Timers timers_;
  std::condition_variable timekeeper_wakes_;
  bool timekeeper_ = false;  // a thread sleeps until the first timer is due; a carrier does always
  const DeviceTime time_;
  // The clock of a device whose time jumps: starts above 0, which means "never recorded".
  std::atomic<int64_t> jumped_to_ns_{1};
  int sleeping_workers_ = 0;
  bool caller_sleeps_ = false;
  bool stopping_ = false;
  std::atomic<bool> failed_{false};
  absl::Status failure_;
  bool has_workers_ = false;  // set before they start
  bool carries_ = false;
  bool spin_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace stringline
