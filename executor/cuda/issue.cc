// Streams come due in the order in which ops were enqueued, and run until a wait or a meeting stops
// them. A record, or the last arrival at a meeting, resumes others, which run before the next op
// comes due.
#include "executor/cuda/issue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
StreamId Issuer::NewStream(LazyName name, int capacity) {
  Stream& stream = streams_.emplace_back();
  stream.name = name;
  stream.ops.resize(capacity);
  size_t all = 0;
  for (const Stream& each : streams_) all += each.ops.size();
  order_.reserve(all);
  // A longer ring must begin at its read position; it is empty between steps.
  SL_CHECK(runnable_count_ == 0);
  runnable_first_ = 0;
  runnable_.resize(streams_.size());
  held_.reserve(streams_.size());
  return StreamId(static_cast<int32_t>(streams_.size()) - 1);
}

EventId Issuer::NewEvent(LazyName name) {
  events_.emplace_back().name = name;
  return EventId(static_cast<int32_t>(events_.size()) - 1);
}

void Issuer::Launch(StreamId stream, const Work& work, WorkTimes* times) {
  streams_[stream.value].Launch(work, times);
  order_.push_back(stream.value);
}
void Issuer::Copy(StreamId stream, void* to, const void* from, int64_t bytes) {
  streams_[stream.value].Copy(to, from, bytes);
  order_.push_back(stream.value);
}
void Issuer::Record(StreamId stream, EventId event) {
  streams_[stream.value].Record(event, &events_[event.value].enqueued);
  order_.push_back(stream.value);
}
void Issuer::Wait(StreamId stream, EventId event) {
  streams_[stream.value].Wait(event, events_[event.value].enqueued);
  order_.push_back(stream.value);
}
void Issuer::Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end) {
  streams_[stream.value].Meet(meeting, side, end);
  order_.push_back(stream.value);
}

void Issuer::Mark(StreamId stream, const LazyName& name) {
  streams_[stream.value].Mark(name);
  order_.push_back(stream.value);
}

absl::Status Issuer::Issue() {
  while (due_ < order_.size()) {
    const int due = order_[due_];
    for (; due_ < order_.size() && order_[due_] == due; ++due_) ++streams_[due].due;
    if (!streams_[due].stuck) MakeRunnable(due);
    SL_RETURN_IF_ERROR(RunRunnable());
  }
  return IssueHeld();
}

absl::Status Issuer::RunRunnable() {
  while (runnable_count_ > 0) {
    const int index = runnable_[runnable_first_];
    runnable_first_ = (runnable_first_ + 1) % runnable_.size();
    --runnable_count_;
    SL_RETURN_IF_ERROR(RunStream(index));
  }
  return absl::OkStatus();
}

absl::Status Issuer::IssueHeld() {
  bool first = true;
  while (!held_.empty()) {
    const uint64_t before = issued_;
    for (const int index : held_) {
      streams_[index].stuck = false;
      MakeRunnable(index);
    }
    held_.clear();
    SL_RETURN_IF_ERROR(RunRunnable());
    first = first || issued_ > before;
    if (held_.empty() || issued_ > before) continue;
    SL_RETURN_IF_ERROR(sink_->AwaitRoom(first));
    first = false;
  }
  return absl::OkStatus();
}

void Issuer::MakeRunnable(int stream) {
  runnable_[(runnable_first_ + runnable_count_++) % runnable_.size()] = stream;
}

absl::Status Issuer::RunStream(int index) {
  if (streams_[index].mark.print != nullptr) sink_->IssueMark(streams_[index].mark);
  const absl::Status status = RunOps(index);
  if (streams_[index].mark.print != nullptr) sink_->IssueMark({});
  return status;
}

absl::Status Issuer::RunOps(int index) {
  Stream& stream = streams_[index];
  const StreamId id(index);
  while (stream.next < stream.due) {
    const auto& op = stream.ops[stream.next];
    if (op.kind == StreamOpKind::kLaunch || op.kind == StreamOpKind::kMeet) {
      SL_ASSIGN_OR_RETURN(const bool may, sink_->MayIssue(id));
      stream.stuck = !may;
      if (!may) {
        held_.push_back(index);
        return absl::OkStatus();
      }
      ++issued_;
    }
    switch (op.kind) {
      case StreamOpKind::kLaunch:
        SL_RETURN_IF_ERROR(sink_->IssueLaunch(id, {op.run, op.self, op.argument}, op.times));
        break;
      case StreamOpKind::kCopy:
        SL_RETURN_IF_ERROR(sink_->IssueCopy(id, op.to, op.self, op.argument));
        break;
      case StreamOpKind::kRecord: {
        SL_RETURN_IF_ERROR(sink_->IssueRecord(id, EventId(op.index)));
        Event& event = events_[op.index];
        ++event.issued;
        WakeWaiters(&event);
        break;
      }
      case StreamOpKind::kWait: {
        Event& event = events_[op.index];
        if (event.issued < op.target) {
          stream.stuck = true;
          stream.next_waiter = event.first_waiter;
          event.first_waiter = index;
          return absl::OkStatus();
        }
        if (op.target > event.over) SL_RETURN_IF_ERROR(sink_->IssueWait(id, EventId(op.index)));
        break;
      }
      case StreamOpKind::kMark:
        stream.mark = {op.print, op.self, op.argument};
        sink_->IssueMark(stream.mark);
        break;
      case StreamOpKind::kHold:
      case StreamOpKind::kAwait:
      case StreamOpKind::kTurn:
        SL_CHECK(false) << "a GPU does not hold its streams";
        break;
      case StreamOpKind::kMeet: {
        IssueMeeting& meeting = *op.meeting;
        SL_CHECK(!meeting.streams[op.index].valid()) << "two streams wait on one side";
        meeting.streams[op.index] = id;
        meeting.ends[op.index] = op.self;
        if (++meeting.there < static_cast<int>(meeting.streams.size())) {
          stream.stuck = true;
          return absl::OkStatus();
        }
        SL_RETURN_IF_ERROR(Exchange(&meeting, index));
        break;
      }
    }
    ++stream.next;
  }
  return absl::OkStatus();
}

// Rechecks the waits on the event.
void Issuer::WakeWaiters(Event* event) {
  for (int* link = &event->first_waiter; *link >= 0;) {
    const int waiter = *link;
    Stream& stream = streams_[waiter];
    if (event->issued >= stream.ops[stream.next].target) {
      *link = std::exchange(stream.next_waiter, -1);
      stream.stuck = false;
      MakeRunnable(waiter);
    } else {
      link = &stream.next_waiter;
    }
  }
}

absl::Status Issuer::Exchange(IssueMeeting* meeting, int last) {
  SL_RETURN_IF_ERROR(meeting->exchange(meeting->link, meeting->ends, meeting->streams));
  meeting->there = 0;
  for (StreamId& side : meeting->streams) {
    const int index = std::exchange(side, StreamId()).value;
    if (index == last) continue;
    ++streams_[index].next;
    streams_[index].stuck = false;
    MakeRunnable(index);
  }
  return absl::OkStatus();
}

absl::Status Issuer::AllIssued() const {
  std::string stuck;
  for (const Stream& stream : streams_) {
    if (!stream.stuck) continue;
    const auto& op = stream.ops[stream.next];
    absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", Print(stream.name), " waits for ",
                    op.kind == StreamOpKind::kMeet
                        ? op.meeting->describe(op.meeting->link, op.index, op.self)
                        : Print(events_[op.index].name));
  }
  if (stuck.empty()) return absl::OkStatus();
  return DeadlockError(stuck);
}

void Issuer::Rewind() {
  for (Stream& stream : streams_) {
    if (stream.next < stream.enqueued && stream.ops[stream.next].kind == StreamOpKind::kMeet) {
      const auto& op = stream.ops[stream.next];
      op.meeting->streams[op.index] = StreamId();
      op.meeting->there = 0;
    }
    stream.next = stream.due = 0;
    stream.mark = {};
    stream.stuck = false;
    stream.next_waiter = -1;
  }
  for (Event& event : events_) {
    event.issued = event.over;
    event.first_waiter = -1;
  }
  runnable_count_ = 0;
  held_.clear();
  due_ = 0;
}

void Issuer::StartStep() {
  for (Stream& stream : streams_) {
    stream.enqueued = stream.next = stream.due = 0;
    stream.mark = {};
  }
  order_.clear();
  due_ = 0;
  for (Event& event : events_) event.over = event.issued;
}

std::string Issuer::NameOf(StreamId stream) const { return Print(streams_[stream.value].name); }

std::vector<std::vector<IssueOp>> Issuer::Ops() const {
  std::vector<std::vector<IssueOp>> all;
  for (const Stream& stream : streams_) {
    all.emplace_back(stream.ops.begin(), stream.ops.begin() + stream.enqueued);
  }
  return all;
}

}  // namespace stringline
