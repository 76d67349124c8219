// The plan is walked once, rank by rank, and becomes commands: waits for what an action needs, what
// it does, and events that others wait for. Events are made where somebody may wait for them. A
// message's name is a number made of what it is, so that its two ends know each other.
#include "executor/interpreter.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/effects.h"
#include "schedlang/parts/pair_order.h"
#include "schedlang/sim/wiring.h"

namespace stringline {

namespace {

int64_t IndexOf(const Plan& plan, const MessageName& name) {
  const int64_t value = int64_t{name.producer.value} * plan.microbatches + name.microbatch.value;
  return 2 * value + (name.gradient ? 1 : 0);
}

}  // namespace

MessageName NameOfMessage(const Plan& plan, int64_t index) {
  const int64_t value = index / 2;
  return {index % 2 == 1, StageId(static_cast<int32_t>(value / plan.microbatches)),
          MicrobatchId(static_cast<int32_t>(value % plan.microbatches))};
}

// Walks the plan once and writes the interpreter's lists.
class StepBuilder {
 public:
  StepBuilder(Interpreter* step, StageWork* work, const MessageGroups& messages, Recorder* recorder,
              const InterpreterSettings& settings)
      : step_(*step),
        settings_(settings),
        plan_(step->plan_),
        queues_(QueuesOf(step->channels_, settings.layout)),
        work_(work),
        messages_(messages),
        recorder_(recorder),
        issued_(plan_),
        local_(plan_.ranks(), !settings.local.has_value()),
        event_of_(plan_.actions.size(), -1),
        input_from_(plan_.stages.size() * plan_.microbatches, -1),
        out_grad_from_(input_from_),
        output_from_(input_from_),
        in_grad_from_(input_from_),
        last_call_(queues_.all.size()) {
    if (settings.local.has_value()) {
      for (const RankId rank : *settings.local) local_[rank.value] = true;
    }
    for (const Action& action : plan_.actions) collects_ = collects_ || IsCollective(action.kind);
    for (int r = 0; r < plan_.ranks(); ++r) cut_ = cut_ || HasParts(RankId(r));
    AddStreams();
  }

  absl::Status Build() {
    step_.launches_.reserve(plan_.actions.size());
    step_.calls_.reserve(plan_.actions.size());
    if (collects_) wiring_ = WiringOf(plan_, settings_.layout);
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

  int32_t AddStream(StreamKind kind, RankId rank, int index) {
    if (!local_[rank.value]) return -1;
    step_.stream_rows_.push_back({kind, rank, index});
    return static_cast<int32_t>(step_.stream_rows_.size()) - 1;
  }

  void AddStreams() {
    for (int r = 0; r < plan_.ranks(); ++r) {
      step_.compute_streams_.push_back(AddStream(StreamKind::kCompute, RankId(r), 0));
      const bool cut = HasParts(RankId(r));
      network_streams_.push_back(cut ? AddStream(StreamKind::kNetwork, RankId(r), 0) : -1);
      collectives_.push_back(collects_ ? AddStream(StreamKind::kCollectives, RankId(r), 0) : -1);
    }
    for (size_t c = 0; c < step_.channels_.all.size(); ++c) {
      const Channel& channel = step_.channels_.all[c];
      const auto index = static_cast<int>(c);
      send_streams_.push_back(AddStream(StreamKind::kSend, channel.from, index));
      recv_streams_.push_back(AddStream(StreamKind::kRecv, channel.to, index));
    }
  }

  bool HasParts(RankId rank) const {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      if (plan_.stages[s].rank == rank && work_->layers(stage) > 0) return true;
    }
    return false;
  }

  absl::Status BuildRank(int rank) {
    commands_ = &step_.commands_[rank];
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1];) {
      const auto group = GroupAt(plan_.actions, i);
      const auto end = i + static_cast<uint32_t>(group.size());
      SL_RETURN_IF_ERROR(NeedsAreThere(rank, group));
      if (local_[rank]) SL_RETURN_IF_ERROR(AddGroup(rank, i, end));
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
          absl::StrCat("rank ", rank, " would run ", PrintWithLine(plan_, action), " without the ",
                       Describe(plan_, action.stage, action.microbatch, missing)));
    }
    return absl::OkStatus();
  }

  absl::Status AddGroup(int rank, uint32_t begin, uint32_t end) {
    const ActionKind kind = plan_.actions[begin].kind;
    if (IsMessage(kind)) return AddMessages(rank, begin, end);
    if (IsCompute(kind)) {
      AddComputations(rank, begin, end);
      return absl::OkStatus();
    }
    for (uint32_t i = begin; i < end; ++i) SL_RETURN_IF_ERROR(AddCollective(rank, i));
    return absl::OkStatus();
  }

  // What a group gives leaves when all of it has ended, so that who gets a message may rely on all,
  // as the memory plan does. The last part of every action is on the compute lane.
  void AddComputations(int rank, uint32_t begin, uint32_t end) {
    const int32_t stream = step_.compute_streams_[rank];
    for (uint32_t i = begin; i < end; ++i) WaitForNeeds(stream, i);
    for (uint32_t i = begin; i < end; ++i) AddCopies(stream, work_->CopiesBefore(Of(i)));
    AddParts(rank, begin, end);
    bool awaited = false;
    for (uint32_t i = begin; i < end; ++i) {
      const Action& action = Of(i);
      AddCopies(stream, work_->CopiesAfter(action));
      const Values gives = EffectsOf(action.kind).gives;
      const size_t value = Index(action.stage, action.microbatch);
      if (gives & kOutput) output_from_[value] = static_cast<int32_t>(i);
      if (gives & kInGrad) in_grad_from_[value] = static_cast<int32_t>(i);
      awaited = awaited || collects_ || IsSent(action);
    }
    if (!awaited) return;
    const int32_t ended = NewEvent(end - 1);
    Add(CommandKind::kRecord, stream, ended);
    for (uint32_t i = begin; i < end; ++i) event_of_[i] = ended;
  }

  void AddParts(int rank, uint32_t begin, uint32_t end) {
    const auto group = absl::MakeConstSpan(plan_.actions).subspan(begin, end - begin);
    const OverlappedPair pair = PairOf(group);
    if (pair.forward == nullptr) {
      for (uint32_t i = begin; i < end; ++i) {
        AddLanes(rank, AloneOrder(Of(i).kind, work_->layers(Of(i).stage)), i, i);
      }
      return;
    }
    const bool whole = pair.backward->kind == ActionKind::kBackward;
    AddLanes(
        rank,
        OrderOfPair(work_->layers(pair.forward->stage), work_->layers(pair.backward->stage), whole),
        static_cast<uint32_t>(pair.forward - plan_.actions.data()),
        static_cast<uint32_t>(pair.backward - plan_.actions.data()));
  }

  // The same orders come again and again.
  const PairOrder& AloneOrder(ActionKind kind, int layers) {
    const auto [order, is_new] = orders_.try_emplace({static_cast<int>(kind), layers, -1});
    if (is_new) order->second = OrderAlone(kind, layers);
    return order->second;
  }
  const PairOrder& OrderOfPair(int forward_layers, int backward_layers, bool whole) {
    const auto kind = static_cast<int>(whole ? ActionKind::kBackward : ActionKind::kInputGradient);
    const auto [order, is_new] = orders_.try_emplace({kind, forward_layers, backward_layers});
    if (is_new) {
      order->second = OrderPair(forward_layers, backward_layers, whole, FindOverlap(plan_, whole));
    }
    return order->second;
  }

  // Both lanes, as far as each can go by turns: a wait is enqueued after what it waits for.
  void AddLanes(int rank, const PairOrder& order, uint32_t forward, uint32_t backward) {
    const std::vector<LaneStep>* const lanes[] = {&order.compute, &order.network};
    const int32_t streams[] = {step_.compute_streams_[rank], network_streams_[rank]};
    for (int lane = 0; lane < 2; ++lane) {
      awaited_[lane].assign(lanes[lane]->size(), -1);
      done_[lane] = 0;
    }
    for (int lane = 0; lane < 2; ++lane) {
      for (const LaneStep& step : *lanes[lane]) {
        if (step.after >= 0) awaited_[1 - lane][step.after] = 0;
      }
    }
    while (done_[0] < lanes[0]->size() || done_[1] < lanes[1]->size()) {
      const size_t before = done_[0] + done_[1];
      for (int lane = 0; lane < 2; ++lane) {
        for (size_t& next = done_[lane]; next < lanes[lane]->size(); ++next) {
          const LaneStep& step = (*lanes[lane])[next];
          if (step.after >= static_cast<int32_t>(done_[1 - lane])) break;
          const bool of_forward = RowOfPart(step.part).of == ActionKind::kForward;
          if (step.after >= 0) {
            Add(CommandKind::kWait, streams[lane], awaited_[1 - lane][step.after]);
          }
          AddPart(streams[lane], of_forward ? forward : backward, {step.part, step.layer});
          if (awaited_[lane][next] < 0) continue;
          awaited_[lane][next] = NewEvent({static_cast<int32_t>(of_forward ? forward : backward),
                                           {step.part, step.layer},
                                           true});
          Add(CommandKind::kRecord, streams[lane], awaited_[lane][next]);
        }
      }
      SL_CHECK(done_[0] + done_[1] > before) << "the lanes wait for each other";
    }
  }

  // A device that shows it is told where an action, or a part of it, begins on a stream.
  void AddMark(int32_t stream, const Interpreter::ActionRow& row) {
    if (!step_.device_->ShowsMarks()) return;
    Add(CommandKind::kMark, stream, static_cast<int32_t>(step_.mark_rows_.size()));
    step_.mark_rows_.push_back(row);
  }

  void AddPart(int32_t stream, uint32_t i, LayerPart part) {
    const Action& action = Of(i);
    Piece piece = work_->Compute(action, part);
    if (piece.work.run == nullptr && piece.calls.empty()) return;
    CommandTimes* times = nullptr;
    if (recorder_ != nullptr) {
      times = cut_ ? recorder_->AddPart(i, part) : recorder_->times(i);
    }
    AddMark(stream, {static_cast<int32_t>(i), part, cut_});
    AddPiece(stream, i, std::move(piece), times);
  }

  void WaitForNeeds(int32_t stream, uint32_t i) {
    const Action& action = plan_.actions[i];
    const Values needs = EffectsOf(action.kind).needs;
    const size_t value = Index(action.stage, action.microbatch);
    if ((needs & kInput) && input_from_[value] >= 0) {
      Add(CommandKind::kWait, stream, event_of_[input_from_[value]]);
    }
    if ((needs & kOutGrad) && out_grad_from_[value] >= 0) {
      Add(CommandKind::kWait, stream, event_of_[out_grad_from_[value]]);
    }
    if (!collects_ || wiring_.wires[i].gathered == kNoAction) return;
    Add(CommandKind::kWait, stream, event_of_[wiring_.wires[i].gathered]);
  }

  void AddCopies(int32_t stream, const std::vector<HostCopy>& copies) {
    for (const HostCopy& copy : copies) {
      Add(CommandKind::kCopy, stream, static_cast<int32_t>(step_.copies_.size()));
      step_.copies_.push_back(copy);
    }
  }

  void AddPiece(int32_t stream, uint32_t i, Piece piece, CommandTimes* times) {
    if (piece.work.run != nullptr) AddLaunch(stream, piece.work, times);
    for (MemberCall& call : piece.calls) {
      NameAction(i, &call.call);
      if (times != nullptr) RecordCall(times, &call.call);
      AddCall(stream, std::move(call));
    }
    if (piece.after.run != nullptr) AddLaunch(stream, piece.after, nullptr);
  }

  static void RecordCall(CommandTimes* times, Call* call) {
    call->came_ns = &times->came_ns;
    call->ended_ns = &times->end_ns;
  }

  void AddLaunch(int32_t stream, const Work& work, WorkTimes* times) {
    Add(CommandKind::kLaunch, stream, static_cast<int32_t>(step_.launches_.size()));
    step_.launches_.push_back({work, times});
  }

  void AddCall(int32_t stream, MemberCall call) {
    Add(CommandKind::kCall, stream, static_cast<int32_t>(step_.calls_.size()));
    step_.stream_rows_[stream].capacity += Group::OpsOf(call.call.kind) - 1;
    step_.calls_.push_back(std::move(call));
  }

  // After the computations listed before it; the collectives of a rank follow each other.
  absl::Status AddCollective(int rank, uint32_t i) {
    const Action& action = plan_.actions[i];
    absl::StatusOr<Piece> piece = work_->Collective(action);
    if (!piece.ok()) {
      return absl::Status(piece.status().code(), absl::StrCat("rank ", rank, " cannot perform ",
                                                              PrintWithLine(plan_, action), ": ",
                                                              piece.status().message()));
    }
    // Nobody waits for others to drop parameters: that is done where it stands.
    const bool drops = action.kind == ActionKind::kReshard;
    const int32_t stream = drops ? step_.compute_streams_[rank] : collectives_[rank];
    const uint32_t after = wiring_.wires[i].after;
    if (after != kNoAction) Add(CommandKind::kWait, stream, event_of_[after]);
    AddMark(stream, {static_cast<int32_t>(i), {}});
    AddPiece(stream, i, *std::move(piece), recorder_ == nullptr ? nullptr : recorder_->times(i));
    event_of_[i] = NewEvent(i);
    Add(CommandKind::kRecord, stream, event_of_[i]);
    return absl::OkStatus();
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
        return absl::FailedPreconditionError(absl::StrCat("rank ", rank, ": the message of ",
                                                          PrintWithLine(plan_, action),
                                                          " goes to no other rank"));
      }
      const bool send = IsSend(action.kind);
      parts_.push_back({send ? queues_.of_send[channel] : queues_.of_recv[channel],
                        send ? send_streams_[channel] : recv_streams_[channel], i, channel});
    }
    if (parts_.size() > 1) {
      std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
        return std::tie(a.queue, a.stream, a.action) < std::tie(b.queue, b.stream, b.action);
      });
    }
    for (size_t first = 0; first < parts_.size();) {
      size_t last = first;
      while (last < parts_.size() && parts_[last].queue == parts_[first].queue) ++last;
      SL_RETURN_IF_ERROR(
          AddGroupedCall(rank, absl::MakeConstSpan(parts_).subspan(first, last - first)));
      first = last;
    }
    return absl::OkStatus();
  }

  // The parts of a call begin together, when all can, and then go on by themselves.
  absl::Status AddGroupedCall(int rank, absl::Span<const Part> call) {
    std::vector<CallEnd>& before = last_call_[call[0].queue];
    call_.clear();
    for (const Part& part : call) {
      if (call_.empty() || call_.back().stream != part.stream) call_.push_back({part.stream, 0});
      call_.back().action = part.action;
    }
    if (call_.size() > 1 && !messages_.begins_together()) {
      const std::string& name = queues_.all[call[0].queue].communicator;
      return absl::UnimplementedError(absl::StrCat(
          "rank ", rank, ": ", PrintWithLine(plan_, Of(call[0].action)), " and ",
          Print(plan_, Of(call[1].action)), " are one call on communicator ", name, " of layout ",
          NameOf(settings_.layout),
          ", which ranks in several processes cannot do; layout edge has communicators for both"));
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
      if (settings_.order == MessageOrder::kListedWork) {
        WaitForListedWork(rank, own.action, own.stream);
      }
    }
    for (const Part& part : call) AddMessage(part);
    std::swap(before, call_);
    return absl::OkStatus();
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
    const StageId producer = send ? action.stage : PeerStage(plan_, action);
    const Bytes payload = work_->Payload(action);
    const MessageGroups::Ends& ends = messages_.of(part.channel);
    MemberCall call{ends.group, send ? ends.from : ends.to, {}};
    call.call.kind = send ? CallKind::kSend : CallKind::kRecv;
    call.call.peer = send ? ends.to : ends.from;
    call.call.from = call.call.to = payload.data;
    call.call.bytes = payload.bytes;
    call.call.name = {Interpreter::PrintMessage, &step_,
                      IndexOf(plan_, {gradient, producer, action.microbatch})};
    NameAction(i, &call.call);
    if (recorder_ != nullptr) RecordCall(recorder_->times(i), &call.call);
    AddMark(part.stream, {static_cast<int32_t>(i), {}});
    AddCall(part.stream, std::move(call));
    if (send) return;
    event_of_[i] = NewEvent(i);
    Add(CommandKind::kRecord, AddFlight(part.stream, i), event_of_[i]);
    (gradient ? out_grad_from_ : input_from_)[Index(action.stage, action.microbatch)] =
        static_cast<int32_t>(i);
  }

  // The stream on which the message of this receive arrives.
  int32_t AddFlight(int32_t channel, uint32_t i) {
    const Work flight = work_->InFlight(Of(i));
    if (flight.run == nullptr) return channel;
    const int32_t left = NewEvent(i);
    Add(CommandKind::kRecord, channel, left);
    const int32_t stream =
        AddStream(StreamKind::kFlight, step_.RankOf(static_cast<int32_t>(i)), static_cast<int>(i));
    Add(CommandKind::kWait, stream, left);
    AddLaunch(stream, flight, recorder_ == nullptr ? nullptr : recorder_->times(i));
    return stream;
  }

  // Where it is known in which line the action stands.
  void NameAction(uint32_t i, Call* call) const {
    if (plan_.source != nullptr) call->action = {Interpreter::PrintPlanned, &step_, i};
  }

  // The stream goes on when the rank's computations listed before actions[i] have ended.
  void WaitForListedWork(int rank, uint32_t i, int32_t stream) {
    uint32_t last = i;
    while (last > plan_.first[rank] && !IsCompute(plan_.actions[last].kind)) --last;
    if (!IsCompute(plan_.actions[last].kind)) return;
    const int32_t ended = NewEvent(last);
    Add(CommandKind::kRecord, step_.compute_streams_[rank], ended);
    Add(CommandKind::kWait, stream, ended);
  }

  // Whether another rank waits for what the action gives.
  bool IsSent(const Action& action) const {
    const Stage& stage = plan_.stage(action.stage);
    const Values gives = EffectsOf(action.kind).gives;
    const auto elsewhere = [&](StageId to) {
      return to.valid() && plan_.stage(to).rank != stage.rank;
    };
    return ((gives & kOutput) && elsewhere(stage.next)) ||
           ((gives & kInGrad) && elsewhere(stage.previous));
  }

  const Action& Of(uint32_t i) const { return plan_.actions[i]; }

  int32_t NewEvent(uint32_t action) { return NewEvent({static_cast<int32_t>(action), {}, false}); }
  int32_t NewEvent(const Interpreter::ActionRow& row) {
    step_.event_rows_.push_back(row);
    return static_cast<int32_t>(step_.event_rows_.size()) - 1;
  }

  void Add(CommandKind kind, int32_t stream, int32_t argument) {
    commands_->push_back({kind, stream, argument});
    ++step_.stream_rows_[stream].capacity;
  }

  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + microbatch.value;
  }

  Interpreter& step_;
  const InterpreterSettings& settings_;
  const Plan& plan_;
  const CommQueues queues_;
  StageWork* work_;
  const MessageGroups& messages_;
  Recorder* recorder_;
  LiveValues issued_;  // as the ranks' lists give and take it
  std::vector<bool> local_;
  bool collects_ = false;                                  // the plan has collectives
  bool cut_ = false;                                       // some stage has layers of parts
  Wiring wiring_;                                          // of a plan that has
  std::vector<Interpreter::Command>* commands_ = nullptr;  // of the rank being built
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
  // Of the group being added, by lane: how many steps are enqueued; by step the event that says it
  // has ended, -1: nobody waits for it.
  size_t done_[2] = {0, 0};
  std::vector<int32_t> awaited_[2];
  // By kind and layers of an action alone, and -1; of a pair, the layers of both.
  absl::flat_hash_map<std::tuple<int, int, int>, PairOrder> orders_;
  std::vector<int32_t> network_streams_;  // by rank; -1: none
  std::vector<int32_t> collectives_;      // by rank: the stream; -1: none
  std::vector<int32_t> send_streams_;     // by channel; -1: that rank is not local
  std::vector<int32_t> recv_streams_;
};

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Make(
    const Plan& lowered, StageWork* work, Device* device, Groups* groups, Recorder* recorder,
    const InterpreterSettings& settings) {
  const MessageGroups messages(lowered, settings.layout, settings.first_rank, groups);
  return Make(lowered, work, device, messages, recorder, settings);
}

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Make(
    const Plan& lowered, StageWork* work, Device* device, const MessageGroups& messages,
    Recorder* recorder, const InterpreterSettings& settings) {
  std::unique_ptr<Interpreter> step(new Interpreter(lowered));
  step->device_ = device;
  SL_RETURN_IF_ERROR(StepBuilder(step.get(), work, messages, recorder, settings).Build());
  for (size_t i = 0; i < step->stream_rows_.size(); ++i) {
    const StreamRow& row = step->stream_rows_[i];
    device->MakeFor(settings.first_rank + row.rank.value);
    const LazyName name = {PrintStream, step.get(), static_cast<int64_t>(i)};
    step->streams_.push_back(row.kind == StreamKind::kCompute
                                 ? device->NewStream(name, row.capacity + settings.between)
                                 : device->NewUrgentStream(name, row.capacity));
  }
  for (size_t i = 0; i < step->event_rows_.size(); ++i) {
    device->MakeFor(settings.first_rank + step->RankOf(step->event_rows_[i].action).value);
    step->events_.push_back(device->NewEvent({PrintEvent, step.get(), static_cast<int64_t>(i)}));
  }
  return step;
}

void Interpreter::EnqueueRank(RankId rank) {
  for (const Command& command : commands_[rank.value]) {
    const StreamId stream = streams_[command.stream];
    switch (command.kind) {
      case CommandKind::kLaunch: {
        const TimedLaunch& launch = launches_[command.argument];
        device_->Launch(stream, launch.work, launch.times);
        break;
      }
      case CommandKind::kCopy: {
        const HostCopy& copy = copies_[command.argument];
        device_->Copy(stream, copy.to, copy.from, copy.bytes);
        break;
      }
      case CommandKind::kRecord:
        device_->Record(stream, events_[command.argument]);
        break;
      case CommandKind::kWait:
        device_->Wait(stream, events_[command.argument]);
        break;
      case CommandKind::kCall: {
        const MemberCall& call = calls_[command.argument];
        call.group->Enqueue(call.member, stream, &call.call);
        break;
      }
      case CommandKind::kMark:
        device_->Mark(stream, {PrintMark, this, command.argument});
        break;
    }
  }
}

void Interpreter::EnqueueStep() {
  for (int r = 0; r < plan_.ranks(); ++r) EnqueueRank(RankId(r));
}

RankId Interpreter::RankOf(int32_t action) const {
  const auto next =
      std::upper_bound(plan_.first.begin(), plan_.first.end(), static_cast<uint32_t>(action));
  return RankId(static_cast<int32_t>(next - plan_.first.begin()) - 1);
}

}  // namespace stringline
