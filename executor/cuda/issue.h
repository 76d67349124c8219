// In which order the ops of many streams are given to a GPU.
//
// A step is enqueued rank by rank, so that a wait may be enqueued long before the record it waits
// for, and one end of a message long before the other. A GPU's streams cannot take it like that: to
// wait for an event that is not recorded yet is no wait at all. So the ops of every stream stand in
// a queue here, and each is given on when all that it refers to has been: a launch, a copy or a
// record at once, a wait when its record has been, a meeting when all streams that meet have come
// to it. As far as that allows it they go in the order in which they were enqueued, the plan's; a
// stream that had to wait then goes on first. Whatever order that makes, a GPU that keeps the order
// of its streams and waits for what was recorded performs the step; and it can be captured as one
// graph.
//
// One thread does all of it. When nothing can be given on any more and something is left, the
// streams would wait for each other forever: that is known before the GPU has done anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/stream_ops.h"

namespace stringline {

// Where streams meet, one on each side, before anything is given to the GPU that needs them all. At
// most one stream waits on a side at a time.
struct IssueMeeting {
  using Ends = absl::Span<const void* const>;  // by side: what its stream came with
  using Streams = absl::Span<const StreamId>;  // by side
  IssueMeeting(int sides, void* link) : link(link), streams(sides), ends(sides) {}

  // Gives the GPU what the ends ask for; then all streams go on.
  absl::Status (*exchange)(void* link, Ends ends, Streams streams) = nullptr;
  // "somebody to take …": what side `side` waits for, for the deadlock message.
  std::string (*describe)(const void* link, int side, const void* end) = nullptr;
  void* link;

  // The issuer's: who waits there.
  std::vector<StreamId> streams;
  std::vector<const void*> ends;
  int there = 0;
};

// What takes the ops.
class IssueSink {
 public:
  virtual ~IssueSink() = default;
  virtual absl::Status IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) = 0;
  virtual absl::Status IssueCopy(StreamId stream, void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status IssueRecord(StreamId stream, EventId event) = 0;
  virtual absl::Status IssueWait(StreamId stream, EventId event) = 0;
  // What is given on from here is part of this; without `print` of nothing.
  virtual void IssueMark(const LazyName& name) = 0;
};

using IssueOp = StreamOp<IssueMeeting>;

class Issuer {
 public:
  explicit Issuer(IssueSink* sink) : sink_(sink) {}

  // As Device has them.
  StreamId NewStream(LazyName name, int capacity);
  EventId NewEvent(LazyName name);
  void Launch(StreamId stream, const Work& work, WorkTimes* times);
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes);
  void Record(StreamId stream, EventId event);
  void Wait(StreamId stream, EventId event);
  void Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end);
  void Mark(StreamId stream, const LazyName& name);

  // Gives on what can be. An error of the sink or of an exchange ends it.
  absl::Status Issue();
  // Whether everything has been given on; else Aborted, which names each stream that is stuck and
  // what it waits for.
  absl::Status AllIssued() const;
  // As if nothing of this step had been given on; it stays enqueued.
  void Rewind();
  // After a step that ended well: empties the queues. Nothing waits any more for what was recorded
  // until now.
  void StartStep();

  int streams() const { return static_cast<int>(streams_.size()); }
  int events() const { return static_cast<int>(events_.size()); }
  // Whether anything of this step has been enqueued, or given on.
  bool Enqueued(StreamId stream) const { return streams_[stream.value].enqueued > 0; }
  bool Used(StreamId stream) const { return streams_[stream.value].next > 0; }
  // Which of the stream's ops is given on now.
  uint32_t At(StreamId stream) const { return streams_[stream.value].next; }
  std::string NameOf(StreamId stream) const;
  // What is being given on to it: its mark, or "".
  std::string Issuing(StreamId stream) const {
    const LazyName& mark = streams_[stream.value].mark;
    return mark.print == nullptr ? "" : Print(mark);
  }
  std::string NameOf(EventId event) const { return Print(events_[event.value].name); }
  // What is enqueued in this step, by stream.
  std::vector<std::vector<IssueOp>> Ops() const;

 private:
  struct Stream : StreamOps<IssueMeeting> {
    uint32_t next = 0;     // the op that is given on next
    uint32_t due = 0;      // those before it may be
    LazyName mark;         // the last one before it
    bool stuck = false;    // it waits for another stream
    int next_waiter = -1;  // list of the streams that wait for the same event
  };
  struct Event {
    LazyName name;
    uint32_t enqueued = 0;  // records
    uint32_t issued = 0;
    uint32_t over = 0;  // those of earlier steps
    int first_waiter = -1;
  };

  void MakeRunnable(int stream);
  // Gives on what is due of a stream, until it is stuck.
  absl::Status RunStream(int index);
  absl::Status RunOps(int index);
  void WakeWaiters(Event* event);
  absl::Status Exchange(IssueMeeting* meeting, int last);

  IssueSink* const sink_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<int> order_;     // by op of the step: its stream
  size_t due_ = 0;             // those before it may be given on
  std::vector<int> runnable_;  // a ring with room for every stream
  size_t runnable_first_ = 0;
  size_t runnable_count_ = 0;
};

}  // namespace stringline
