// The order in which the ops of many streams are issued to a GPU.
//
// A step is enqueued rank by rank, so that a wait may be enqueued long before its record, and one
// end of a message long before the other. A GPU's streams cannot take such an order: waiting for an
// event that is not yet recorded has no effect. So every stream has a queue here, and each op is
// issued when the ops that it refers to have been: a launch, a copy or a record at once, a wait
// after its record, a meeting when all its streams have come. Within these constraints ops are
// issued in the order of enqueueing, the plan's; a stream that had to wait goes on first. Any such
// order is a topological order of the step, so a GPU that keeps the order of its streams and
// honours recorded events performs the step; and it can be captured as one graph.
//
// A stream that could block the host is left until all others have come as far as they can, and
// then goes on as the GPU does (IssueSink::MayIssue).
//
// A single thread issues all ops. If no op can be issued and some are left, the streams wait for
// each other in a cycle: the deadlock is known before the GPU has run any of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/stream_ops.h"

namespace stringline {

// A meeting of streams, one per side, before work is issued to the GPU that needs all of them. At
// most one stream waits on a side at a time.
struct IssueMeeting {
  using Ends = absl::Span<const void* const>;  // by side: its stream's end
  using Streams = absl::Span<const StreamId>;  // by side
  IssueMeeting(int sides, void* link) : link(link), streams(sides), ends(sides) {}

  // Issues the work of the ends to the GPU; then all streams go on.
  absl::Status (*exchange)(void* link, Ends ends, Streams streams) = nullptr;
  // "somebody to take …": the missing counterpart of side `side`, for the deadlock message.
  std::string (*describe)(const void* link, int side, const void* end) = nullptr;
  void* link;

  // Owned by the issuer: the waiting streams.
  std::vector<StreamId> streams;
  std::vector<const void*> ends;
  int there = 0;
};

// The receiver of issued ops.
class IssueSink {
 public:
  virtual ~IssueSink() = default;
  virtual absl::Status IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) = 0;
  virtual absl::Status IssueCopy(StreamId stream, void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status IssueRecord(StreamId stream, EventId event) = 0;
  virtual absl::Status IssueWait(StreamId stream, EventId event) = 0;
  // False while a launch or an exchange on the stream could block the host: then the stream's other
  // ops wait too.
  virtual absl::StatusOr<bool> MayIssue(StreamId /*stream*/) { return true; }
  // Called when nothing can be issued but to such streams: waits a moment; `first`: for the first
  // time since an op was issued. An error ends the issue.
  virtual absl::Status AwaitRoom(bool /*first*/) { return absl::OkStatus(); }
  // Ops from here on belong to this mark; without `print`, to none.
  virtual void IssueMark(const LazyName& name) = 0;
};

using IssueOp = StreamOp<IssueMeeting>;

class Issuer {
 public:
  explicit Issuer(IssueSink* sink) : sink_(sink) {}

  // As in Device.
  StreamId NewStream(LazyName name, int capacity);
  EventId NewEvent(LazyName name);
  void Launch(StreamId stream, const Work& work, WorkTimes* times);
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes);
  void Record(StreamId stream, EventId event);
  void Wait(StreamId stream, EventId event);
  void Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end);
  void Mark(StreamId stream, const LazyName& name);

  // Issues all ops that can be. An error of the sink or of an exchange ends it.
  absl::Status Issue();
  // OK if every op has been issued; else Aborted, which names each stuck stream and the op that it
  // waits for.
  absl::Status AllIssued() const;
  // Forgets all progress in this step, which stays enqueued.
  void Rewind();
  // After a successful step: empties the queues. Events recorded until now no longer delay any
  // wait.
  void StartStep();

  int streams() const { return static_cast<int>(streams_.size()); }
  int events() const { return static_cast<int>(events_.size()); }
  // True if an op of this step has been enqueued on the stream, or issued.
  bool Enqueued(StreamId stream) const { return streams_[stream.value].enqueued > 0; }
  bool Used(StreamId stream) const { return streams_[stream.value].next > 0; }
  // The index of the stream's op being issued.
  uint32_t At(StreamId stream) const { return streams_[stream.value].next; }
  std::string NameOf(StreamId stream) const;
  // The mark of the op being issued to the stream, or "".
  std::string Issuing(StreamId stream) const {
    const LazyName& mark = streams_[stream.value].mark;
    return mark.print == nullptr ? "" : Print(mark);
  }
  std::string NameOf(EventId event) const { return Print(events_[event.value].name); }
  // The ops enqueued in this step, by stream.
  std::vector<std::vector<IssueOp>> Ops() const;

 private:
  struct Stream : StreamOps<IssueMeeting> {
    uint32_t next = 0;     // index of the op issued next
    uint32_t due = 0;      // ops before this index may be issued
    LazyName mark;         // the last mark before `next`
    bool stuck = false;    // waits for another stream
    int next_waiter = -1;  // list of the streams that wait for the same event
  };
  struct Event {
    LazyName name;
    uint32_t enqueued = 0;  // records
    uint32_t issued = 0;
    uint32_t over = 0;  // records of earlier steps
    int first_waiter = -1;
  };

  void MakeRunnable(int stream);
  // Issues a stream's due ops, until it is stuck.
  absl::Status RunStream(int index);
  absl::Status RunOps(int index);
  absl::Status RunRunnable();
  // Goes on with the held streams until none is left.
  absl::Status IssueHeld();
  void WakeWaiters(Event* event);
  absl::Status Exchange(IssueMeeting* meeting, int last);

  IssueSink* const sink_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<int> order_;     // by op of the step: its stream
  size_t due_ = 0;             // ops before this index may be issued
  std::vector<int> held_;      // streams that could block the host
  uint64_t issued_ = 0;        // launches and exchanges
  std::vector<int> runnable_;  // a ring with room for every stream
  size_t runnable_first_ = 0;
  size_t runnable_count_ = 0;
};

}  // namespace stringline
