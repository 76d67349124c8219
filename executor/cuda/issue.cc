#include "executor/cuda/issue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

std::string TextOf(const LazyName& name) {
  return name.print == nullptr ? absl::StrCat("#", name.index) : name.print(name.self, name.index);
}

}  // namespace

StreamId Issuer::NewStream(LazyName name, int capacity) {
  Stream& stream = streams_.emplace_back();
  stream.name = name;
  stream.ops.resize(capacity);
  // A ring that is longer must begin where it is read; nothing is in it between steps.
  SL_CHECK(runnable_count_ == 0);
  runnable_first_ = 0;
  runnable_.resize(streams_.size());
  return StreamId(static_cast<int32_t>(streams_.size()) - 1);
}

EventId Issuer::NewEvent(LazyName name) {
  events_.emplace_back().name = name;
  return EventId(static_cast<int32_t>(events_.size()) - 1);
}

Issuer::Op& Issuer::Append(StreamId id) {
  Stream& stream = streams_[id.value];
  SL_CHECK(stream.enqueued < stream.ops.size()) << TextOf(stream.name) << " is full";
  return stream.ops[stream.enqueued++];
}

void Issuer::Launch(StreamId stream, const Work& work, WorkTimes* times) {
  Op& op = Append(stream);
  op.kind = OpKind::kLaunch;
  op.run = work.run;
  op.self = work.self;
  op.argument = work.argument;
  op.times = times;
}

void Issuer::Copy(StreamId stream, void* to, const void* from, int64_t bytes) {
  Op& op = Append(stream);
  op.kind = OpKind::kCopy;
  op.self = from;
  op.to = to;
  op.argument = bytes;
}

void Issuer::Record(StreamId stream, EventId event) {
  Op& op = Append(stream);
  op.kind = OpKind::kRecord;
  op.index = event.value;
  ++events_[event.value].enqueued;
}

void Issuer::Wait(StreamId stream, EventId event) {
  Op& op = Append(stream);
  op.kind = OpKind::kWait;
  op.index = event.value;
  op.target = events_[event.value].enqueued;
}

void Issuer::Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end) {
  Op& op = Append(stream);
  op.kind = OpKind::kMeet;
  op.index = side;
  op.meeting = meeting;
  op.self = end;
}

absl::Status Issuer::Issue() {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    if (!stream.stuck && stream.next < stream.enqueued) MakeRunnable(static_cast<int>(i));
  }
  while (runnable_count_ > 0) {
    const int index = runnable_[runnable_first_];
    runnable_first_ = (runnable_first_ + 1) % runnable_.size();
    --runnable_count_;
    SL_RETURN_IF_ERROR(RunStream(index));
  }
  return absl::OkStatus();
}

void Issuer::MakeRunnable(int stream) {
  runnable_[(runnable_first_ + runnable_count_++) % runnable_.size()] = stream;
}

absl::Status Issuer::RunStream(int index) {
  Stream& stream = streams_[index];
  const StreamId id(index);
  while (stream.next < stream.enqueued) {
    const Op& op = stream.ops[stream.next];
    switch (op.kind) {
      case OpKind::kLaunch:
        SL_RETURN_IF_ERROR(sink_->IssueLaunch(id, {op.run, op.self, op.argument}, op.times));
        break;
      case OpKind::kCopy:
        SL_RETURN_IF_ERROR(sink_->IssueCopy(id, op.to, op.self, op.argument));
        break;
      case OpKind::kRecord: {
        SL_RETURN_IF_ERROR(sink_->IssueRecord(id, EventId(op.index)));
        Event& event = events_[op.index];
        ++event.issued;
        WakeWaiters(&event);
        break;
      }
      case OpKind::kWait: {
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
      case OpKind::kMeet: {
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

// They look again whether what they wait for has come.
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
    const Op& op = stream.ops[stream.next];
    absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", TextOf(stream.name), " waits for ",
                    op.kind == OpKind::kMeet
                        ? op.meeting->describe(op.meeting->link, op.index, op.self)
                        : TextOf(events_[op.index].name));
  }
  if (stuck.empty()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("deadlock: nothing can run any more, and ", stuck));
}

void Issuer::Rewind() {
  for (Stream& stream : streams_) {
    if (stream.next < stream.enqueued && stream.ops[stream.next].kind == OpKind::kMeet) {
      const Op& op = stream.ops[stream.next];
      op.meeting->streams[op.index] = StreamId();
      op.meeting->there = 0;
    }
    stream.next = 0;
    stream.stuck = false;
    stream.next_waiter = -1;
  }
  for (Event& event : events_) {
    event.issued = event.over;
    event.first_waiter = -1;
  }
  runnable_count_ = 0;
}

void Issuer::StartStep() {
  for (Stream& stream : streams_) stream.enqueued = stream.next = 0;
  for (Event& event : events_) event.over = event.issued;
}

std::string Issuer::NameOf(StreamId stream) const { return TextOf(streams_[stream.value].name); }

}  // namespace stringline
