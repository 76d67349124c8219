#include "executor/interpreter.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/lanes.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/effects.h"

namespace stringline {

// Walks the plan once and writes the interpreter's lists.
class StepBuilder {
 public:
  StepBuilder(Interpreter* step, StageWork* work, Recorder* recorder, MessageOrder order,
              CommLayout layout)
      : step_(*step),
        order_(order),
        plan_(step->plan_),
        queues_(QueuesOf(step->channels_, layout)),
        work_(work),
        recorder_(recorder),
        issued_(plan_),
        lanes_(LanesOf(plan_)),
        event_of_(plan_.actions.size(), -1),
        input_from_(plan_.stages.size() * plan_.microbatches, -1),
        out_grad_from_(input_from_),
        output_from_(input_from_),
        in_grad_from_(input_from_),
        last_call_(queues_.all.size()) {}

  absl::Status Build() {
    AddStreams();
    if (recorder_ != nullptr) step_.timed_works_.reserve(plan_.actions.size());
    step_.works_.reserve(plan_.actions.size());
    step_.messages_.reserve(plan_.actions.size());
    for (int r = 0; r < plan_.ranks(); ++r) SL_RETURN_IF_ERROR(BuildRank(r));
    if (!issued_.Whole()) {
      return absl::FailedPreconditionError(
          "the step is not whole: at its end not every stage has the weight gradient of every "
          "microbatch and nothing else");
    }
    return absl::OkStatus();
  }

 private:
  using CommandKind = Interpreter::CommandKind;
  using StreamKind = Interpreter::StreamKind;

  void AddStreams() {
    const std::vector<int> lane_counts = LaneCounts(plan_, lanes_);
    for (int r = 0; r < plan_.ranks(); ++r) {
      first_lane_.push_back(static_cast<int32_t>(step_.stream_rows_.size()));
      for (int lane = 0; lane < lane_counts[r]; ++lane) {
        step_.stream_rows_.push_back({StreamKind::kLane, RankId(r), lane});
      }
    }
    first_channel_ = static_cast<int32_t>(step_.stream_rows_.size());
    for (size_t c = 0; c < step_.channels_.all.size(); ++c) {
      const Channel& channel = step_.channels_.all[c];
      const auto index = static_cast<int32_t>(c);
      step_.stream_rows_.push_back({StreamKind::kSend, channel.from, index});
      step_.stream_rows_.push_back({StreamKind::kRecv, channel.to, index});
    }
  }

  absl::Status BuildRank(int rank) {
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1];) {
      const auto group = GroupAt(plan_.actions, i);
      const auto end = i + static_cast<uint32_t>(group.size());
      SL_RETURN_IF_ERROR(NeedsAreThere(rank, group));
      if (IsCompute(group[0].kind)) {
        AddGroup(rank, i, end);
      } else if (IsMessage(group[0].kind)) {
        SL_RETURN_IF_ERROR(AddMessages(rank, i, end));
      }
      for (; i < end; ++i) issued_.Perform(plan_.actions[i]);
    }
    return absl::OkStatus();
  }

  absl::Status NeedsAreThere(int rank, absl::Span<const Action> group) const {
    for (size_t part = 0; part < group.size(); ++part) {
      const Values missing = issued_.Missing(group, part);
      if (missing == 0) continue;
      const Action& action = group[part];
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " would run ", Print(plan_, action), " without the ",
                       Describe(plan_, action.stage, action.microbatch, missing)));
    }
    return absl::OkStatus();
  }

  void AddGroup(int rank, uint32_t begin, uint32_t end) {
    const int32_t main = first_lane_[rank];
    for (uint32_t i = begin; i < end; ++i) WaitForMessages(main, plan_.actions[i]);

    int lanes = 1;
    for (uint32_t i = begin; i < end; ++i) lanes = std::max(lanes, lanes_[i] + 1);
    if (lanes > 1) {
      const int32_t start = NewEvent(begin, /*begins=*/true);
      Add(CommandKind::kRecord, main, start);
      for (int lane = 1; lane < lanes; ++lane) Add(CommandKind::kWait, main + lane, start);
    }
    for (uint32_t i = begin; i < end; ++i) {
      const int32_t stream = main + lanes_[i];
      AddLaunch(stream, i);
      if (lanes_[i] > 0) {
        event_of_[i] = NewEvent(i);
        Add(CommandKind::kRecord, stream, event_of_[i]);
      }
    }
    bool sent = false;
    for (uint32_t i = begin; i < end; ++i) {
      if (lanes_[i] > 0) Add(CommandKind::kWait, main, event_of_[i]);
      sent = sent || IsSent(plan_.actions[i]);
    }
    if (!sent) return;
    // What a group gives leaves when all its parts have ended: who gets a message may then rely on
    // all of them, as the memory plan does.
    const int32_t ended = NewEvent(end - 1);
    Add(CommandKind::kRecord, main, ended);
    for (uint32_t i = begin; i < end; ++i) event_of_[i] = ended;
  }

  void WaitForMessages(int32_t stream, const Action& action) {
    const Values needs = EffectsOf(action.kind).needs;
    const size_t value = Index(action.stage, action.microbatch);
    if ((needs & kInput) && input_from_[value] >= 0) {
      Add(CommandKind::kWait, stream, event_of_[input_from_[value]]);
    }
    if ((needs & kOutGrad) && out_grad_from_[value] >= 0) {
      Add(CommandKind::kWait, stream, event_of_[out_grad_from_[value]]);
    }
  }

  void AddLaunch(int32_t stream, uint32_t i) {
    const Action& action = plan_.actions[i];
    Work work = work_->Compute(action, lanes_[i]);
    const int64_t hold_ns = work_->HoldNs(action, lanes_[i]);
    if (recorder_ != nullptr) {
      step_.timed_works_.push_back(
          {step_.device_, work, recorder_->start_ns(i), recorder_->end_ns(i)});
      work = {Interpreter::RunTimed, &step_.timed_works_.back(), 0};
    }
    AddWork(stream, work);
    if (hold_ns > 0) {
      Add(CommandKind::kHold, stream, static_cast<int32_t>(step_.holds_ns_.size()));
      step_.holds_ns_.push_back(hold_ns);
      if (recorder_ != nullptr) {
        AddWork(stream, {Interpreter::WriteEnd, &step_.timed_works_.back(), 0});
      }
    }
    const Values gives = EffectsOf(action.kind).gives;
    const size_t value = Index(action.stage, action.microbatch);
    if (gives & kOutput) output_from_[value] = static_cast<int32_t>(i);
    if (gives & kInGrad) in_grad_from_[value] = static_cast<int32_t>(i);
  }

  void AddWork(int32_t stream, const Work& work) {
    Add(CommandKind::kLaunch, stream, static_cast<int32_t>(step_.works_.size()));
    step_.works_.push_back(work);
  }

  // One end of a message.
  struct Part {
    int queue;
    int32_t stream;
    uint32_t action;
    int channel;
  };
  // A stream on which a call had parts, and, once somebody waits for it, the end of the last one.
  struct CallEnd {
    int32_t stream;
    uint32_t action;
    int32_t event = -1;
  };

  // Messages that are joined are one call on each communicator that they use.
  absl::Status AddMessages(int rank, uint32_t begin, uint32_t end) {
    parts_.clear();
    for (uint32_t i = begin; i < end; ++i) {
      const Action& action = plan_.actions[i];
      const int channel = step_.channels_.Of(plan_, action);
      if (channel < 0) {
        return absl::FailedPreconditionError(absl::StrCat(
            "rank ", rank, ": the message of ", Print(plan_, action), " goes to no other rank"));
      }
      const bool send = IsSend(action.kind);
      parts_.push_back({send ? queues_.of_send[channel] : queues_.of_recv[channel],
                        first_channel_ + 2 * channel + (send ? 0 : 1), i, channel});
    }
    if (parts_.size() > 1) {
      std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
        return std::tie(a.queue, a.stream, a.action) < std::tie(b.queue, b.stream, b.action);
      });
    }
    for (size_t first = 0; first < parts_.size();) {
      size_t last = first;
      while (last < parts_.size() && parts_[last].queue == parts_[first].queue) ++last;
      AddCall(rank, absl::MakeConstSpan(parts_).subspan(first, last - first));
      first = last;
    }
    return absl::OkStatus();
  }

  // The parts of a call begin together, when all can, and then go on by themselves.
  void AddCall(int rank, absl::Span<const Part> call) {
    std::vector<CallEnd>& before = last_call_[call[0].queue];
    call_.clear();
    for (const Part& part : call) {
      if (call_.empty() || call_.back().stream != part.stream) call_.push_back({part.stream, 0});
      call_.back().action = part.action;
    }
    for (const CallEnd& own : call_) {
      for (CallEnd& other : before) {
        if (other.stream != own.stream) Add(CommandKind::kWait, own.stream, EndOf(&other));
      }
      for (const Part& part : call) {
        const Action& action = plan_.actions[part.action];
        if (!IsSend(action.kind)) continue;
        const std::vector<int32_t>& from =
            action.kind == ActionKind::kSendBackward ? in_grad_from_ : output_from_;
        const int32_t maker = from[Index(action.stage, action.microbatch)];
        Add(CommandKind::kWait, own.stream, event_of_[maker]);
      }
      if (order_ == MessageOrder::kListedWork) WaitForListedWork(rank, own.action, own.stream);
    }
    for (const Part& part : call) AddMessage(part);
    std::swap(before, call_);
  }

  int32_t EndOf(CallEnd* end) {
    if (end->event < 0) {
      end->event = NewEvent(end->action);
      Add(CommandKind::kRecord, end->stream, end->event);
    }
    return end->event;
  }

  void AddMessage(const Part& part) {
    const uint32_t i = part.action;
    const Action& action = plan_.actions[i];
    const bool send = IsSend(action.kind);
    const bool gradient =
        action.kind == ActionKind::kSendBackward || action.kind == ActionKind::kRecvBackward;
    const Bytes payload = work_->Payload(action);
    const auto message = static_cast<int32_t>(step_.messages_.size());
    step_.messages_.push_back({gradient, send ? action.stage : PeerStage(plan_, action),
                               action.microbatch, payload.data, payload.bytes,
                               recorder_ == nullptr ? nullptr : recorder_->end_ns(i)});
    Add(send ? CommandKind::kSend : CommandKind::kRecv, part.stream, message, part.channel);
    if (send) return;
    event_of_[i] = NewEvent(i);
    Add(CommandKind::kRecord, part.stream, event_of_[i]);
    (gradient ? out_grad_from_ : input_from_)[Index(action.stage, action.microbatch)] =
        static_cast<int32_t>(i);
  }

  // The stream goes on when the rank's computations listed before actions[i] have ended.
  void WaitForListedWork(int rank, uint32_t i, int32_t stream) {
    uint32_t last = i;
    while (last > plan_.first[rank] && !IsCompute(plan_.actions[last].kind)) --last;
    if (!IsCompute(plan_.actions[last].kind)) return;
    const int32_t ended = NewEvent(last);
    Add(CommandKind::kRecord, first_lane_[rank], ended);
    Add(CommandKind::kWait, stream, ended);
  }

  // Whether another rank waits for what the action gives.
  bool IsSent(const Action& action) const {
    const Values gives = EffectsOf(action.kind).gives;
    return ((gives & kOutput) && step_.channels_.of_activation[action.stage.value] >= 0) ||
           ((gives & kInGrad) && step_.channels_.of_gradient[action.stage.value] >= 0);
  }

  int32_t NewEvent(uint32_t action, bool begins = false) {
    step_.event_rows_.push_back({static_cast<int32_t>(action), begins});
    return static_cast<int32_t>(step_.event_rows_.size()) - 1;
  }

  void Add(CommandKind kind, int32_t stream, int32_t argument, int32_t channel = -1) {
    SL_CHECK(argument >= 0) << "a command without an object";
    step_.commands_.push_back({kind, stream, argument, channel});
    ++step_.stream_rows_[stream].capacity;
  }

  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + microbatch.value;
  }

  Interpreter& step_;
  const MessageOrder order_;
  const Plan& plan_;
  const CommQueues queues_;
  StageWork* work_;
  Recorder* recorder_;
  LiveValues issued_;  // as the ranks' lists give and take it
  std::vector<uint8_t> lanes_;
  std::vector<int32_t> event_of_;  // by action: its end; -1: nobody waits for it
  // By stage and microbatch, the action that gives the value; -1: none, or (the first two) not a
  // message.
  std::vector<int32_t> input_from_;
  std::vector<int32_t> out_grad_from_;
  std::vector<int32_t> output_from_;
  std::vector<int32_t> in_grad_from_;
  std::vector<std::vector<CallEnd>> last_call_;  // by queue: the streams of its last call
  std::vector<Part> parts_;                      // of the messages being added
  std::vector<CallEnd> call_;
  std::vector<int32_t> first_lane_;  // by rank: its lane 0 in stream_rows_
  int32_t first_channel_ = 0;
};

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Make(const Plan& lowered, StageWork* work,
                                                               Device* device, Transport* transport,
                                                               Recorder* recorder,
                                                               MessageOrder order,
                                                               CommLayout layout) {
  std::unique_ptr<Interpreter> step(new Interpreter(lowered));
  step->device_ = device;
  step->transport_ = transport;
  SL_RETURN_IF_ERROR(StepBuilder(step.get(), work, recorder, order, layout).Build());
  for (size_t i = 0; i < step->stream_rows_.size(); ++i) {
    const StreamRow& row = step->stream_rows_[i];
    // Between steps a compute stream may be given a few launches more.
    const LazyName name = {PrintStream, step.get(), static_cast<int64_t>(i)};
    step->streams_.push_back(device->NewStream(name, row.capacity + 4));
    if (row.kind == StreamKind::kLane && row.index == 0) {
      step->compute_streams_.push_back(step->streams_.back());
    }
  }
  for (size_t i = 0; i < step->event_rows_.size(); ++i) {
    step->events_.push_back(device->NewEvent({PrintEvent, step.get(), static_cast<int64_t>(i)}));
  }
  return step;
}

void Interpreter::EnqueueStep() {
  for (const Command& command : commands_) {
    const StreamId stream = streams_[command.stream];
    switch (command.kind) {
      case CommandKind::kLaunch:
        device_->Launch(stream, works_[command.argument]);
        break;
      case CommandKind::kHold:
        device_->Hold(stream, holds_ns_[command.argument]);
        break;
      case CommandKind::kRecord:
        device_->Record(stream, events_[command.argument]);
        break;
      case CommandKind::kWait:
        device_->Wait(stream, events_[command.argument]);
        break;
      case CommandKind::kSend:
        transport_->Send(command.channel, stream, &messages_[command.argument]);
        break;
      case CommandKind::kRecv:
        transport_->Recv(command.channel, stream, &messages_[command.argument]);
        break;
    }
  }
  device_->Submit();
}

void Interpreter::RunTimed(const void* self, int64_t /*argument*/) {
  const auto& timed = *static_cast<const TimedWork*>(self);
  *timed.start_ns = timed.device->NowNs();
  timed.work.run(timed.work.self, timed.work.argument);
  *timed.end_ns = timed.device->NowNs();
}

void Interpreter::WriteEnd(const void* self, int64_t /*argument*/) {
  const auto& timed = *static_cast<const TimedWork*>(self);
  *timed.end_ns = timed.device->NowNs();
}

std::string Interpreter::PrintStream(const void* self, int64_t index) {
  const auto& step = *static_cast<const Interpreter*>(self);
  const StreamRow& row = step.stream_rows_[index];
  const std::string rank = absl::StrCat("rank ", row.rank.value, "'s ");
  if (row.kind == StreamKind::kLane) {
    return row.index == 0 ? rank + "computation" : absl::StrCat(rank, "lane ", row.index);
  }
  const Channel& channel = step.channels_.all[row.index];
  return row.kind == StreamKind::kSend
             ? absl::StrCat(rank, "send stream to rank ", channel.to.value)
             : absl::StrCat(rank, "receive stream from rank ", channel.from.value);
}

std::string Interpreter::PrintEvent(const void* self, int64_t index) {
  const auto& step = *static_cast<const Interpreter*>(self);
  const EventRow& row = step.event_rows_[index];
  return absl::StrCat(row.begins ? "the start of " : "",
                      Print(step.plan_, step.plan_.actions[row.action]));
}

}  // namespace stringline
