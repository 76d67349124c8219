// Every event starts when an event before it ends: the wiring has these dependencies, the timeline
// their ends. So cause after cause leads back to an event at the start of the step.
#include "schedlang/report/explain.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/text_form.h"

namespace stringline {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// The plan's actions by stage, microbatch and kind.
class PlaceTable {
 public:
  explicit PlaceTable(const Plan& plan)
      : plan_(plan),
        microbatches_(static_cast<size_t>(plan.microbatches)),
        rows_(plan.stages.size() * microbatches_ * kKinds, kNone),
        group_of_(plan.actions.size(), kNone),
        group_before_(plan.actions.size(), kNone) {
    for (int r = 0; r < plan.ranks(); ++r) {
      uint32_t group = kNone, before = kNone;
      for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
        const Action& action = plan.actions[i];
        if (IsCollective(action.kind)) continue;
        // Messages are not looked for, nor a schedule's own actions, whose values no message
        // carries.
        if (TakesTurn(action.kind) && !IsOwn(action.kind))
          rows_[Index(action.stage, action.microbatch, action.kind)] = i;
        if (!IsCompute(action.kind)) continue;
        if (!action.joined) before = std::exchange(group, i);
        group_of_[i] = group;
        group_before_[i] = before;
      }
    }
  }

  // The action of this kind; kNone if the plan has none.
  uint32_t Find(StageId stage, MicrobatchId m, ActionKind kind) const {
    return rows_[Index(stage, m, kind)];
  }
  // The computation that gives the value; kNone without such a computation.
  uint32_t Giver(StageId stage, MicrobatchId m, Values value) const {
    for (int kind = 0; IsCompute(static_cast<ActionKind>(kind)); ++kind) {
      if ((EffectsOf(plan_, stage, static_cast<ActionKind>(kind)).gives & value) == 0) continue;
      const uint32_t i = Find(stage, m, static_cast<ActionKind>(kind));
      if (i != kNone) return i;
    }
    return kNone;
  }
  uint32_t GroupOf(uint32_t action) const { return group_of_[action]; }
  // The group that the rank performs before this group; kNone for its first.
  uint32_t GroupBefore(uint32_t group) const { return group_before_[group]; }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(ActionKind::kFetch) + 1;

  size_t Index(StageId stage, MicrobatchId m, ActionKind kind) const {
    return (static_cast<size_t>(stage.value) * microbatches_ + static_cast<size_t>(m.value)) *
               kKinds +
           static_cast<size_t>(kind);
  }

  const Plan& plan_;
  const size_t microbatches_;
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> group_of_;      // by computation
  std::vector<uint32_t> group_before_;  // by computation
};

// A value that goes from stage to stage, as the one that takes it names it, and as the one that
// gives it does.
struct Crossing {
  Values taken;
  Values given;
};
constexpr Crossing kCrossings[] = {{kInput, kOutput}, {kOutGrad, kInGrad}};

class Explainer {
 public:
  Explainer(const Plan& plan, const Timeline& timeline, const Wiring& wiring,
            const CostModel& costs)
      : plan_(plan), events_(timeline.events), costs_(costs), places_(plan), wiring_(wiring) {}

  Explanation Run(uint32_t action) const {
    Explanation explanation;
    const uint32_t group = places_.GroupOf(action);
    SL_CHECK(group != kNone) << action << " is no computation";
    explanation.after = After(group);
    std::vector<WaitLink>& chain = explanation.chain;
    chain.push_back(LinkOf(group));
    // Dependencies have no cycle, so this ends.
    while (chain.back().reason != WaitReason::kNothing) {
      SL_CHECK(chain.size() <= 2 * plan_.actions.size()) << "a wait without an end";
      const WaitReason reason = chain.back().reason;
      chain.push_back(LinkOf(chain.back().cause));
      WaitLink& link = chain.back();
      if (reason == WaitReason::kQueue) link.end_ns = LeftQueue(link.action);
      if (reason == WaitReason::kOtherRank) link.end_ns = link.begin_ns;
      // A bucket is there before the end.
      link.end_ns = std::min(link.end_ns, chain[chain.size() - 2].begin_ns);
    }
    return explanation;
  }

 private:
  absl::Span<const Action> Group(uint32_t group) const {
    return GroupAt(absl::MakeConstSpan(plan_.actions), group);
  }
  bool EndsAt(uint32_t action, int64_t ns) const {
    return action != kNoAction && events_[action].end_ns == ns;
  }
  // When the message of this send, or receive, lets the next message of its queues go.
  int64_t LeftQueue(uint32_t message) const {
    const uint32_t send =
        IsSend(plan_.actions[message].kind) ? message : wiring_.wires[message].other;
    return events_[send].end_ns - HopOf(plan_, costs_, plan_.actions[send]).latency_ns;
  }

  WaitLink LinkOf(uint32_t action) const {
    WaitLink link{.action = action};
    link.begin_ns = events_[action].start_ns;
    link.end_ns = events_[action].end_ns;
    const ActionKind kind = plan_.actions[action].kind;
    if (IsCompute(kind)) {
      ExplainGroup(&link);
    } else if (link.begin_ns > 0 && IsCopy(kind)) {
      ExplainCopy(&link);
    } else if (link.begin_ns > 0 && IsOwnNetwork(kind)) {
      ExplainOwn(&link);
    } else if (link.begin_ns > 0) {
      IsMessage(kind) ? ExplainMessage(&link) : ExplainCollective(&link);
    }
    // Everything starts at some end, or with the step.
    SL_CHECK(link.begin_ns == 0 || link.reason != WaitReason::kNothing)
        << Print(plan_, plan_.actions[action]) << " starts without a cause";
    return link;
  }

  void ExplainGroup(WaitLink* link) const {
    const int64_t start_ns = link->begin_ns;
    if (start_ns == 0) return;
    const uint32_t before = places_.GroupBefore(link->action);
    link->idle_ns = start_ns - (before == kNone ? 0 : events_[before].end_ns);
    if (before != kNone && events_[before].end_ns == start_ns) {
      link->reason = WaitReason::kRank;
      link->cause = before;
      return;
    }
    const auto parts = Group(link->action);
    for (uint32_t k = 0; k < parts.size(); ++k) {
      ForEachReceive(link->action + k,
                     [&](uint32_t recv) { AddMessage(link->action + k, recv, start_ns, link); });
    }
    for (uint32_t k = 0; k < parts.size() && link->reason == WaitReason::kNothing; ++k) {
      const uint32_t gathered = wiring_.wires[link->action + k].gathered;
      if (gathered == kNoAction || GatheredNs(events_[gathered]) != start_ns) continue;
      link->reason = WaitReason::kGather;
      link->cause = gathered;
      link->part = link->action + k;
    }
    for (uint32_t k = 0; k < parts.size(); ++k) {
      if (link->reason != WaitReason::kNothing) return;
      const CopyWire copy = wiring_.CopyOf(link->action + k);
      EndsWith({copy.source, copy.freed}, start_ns, link);
    }
    if (link->reason == WaitReason::kNothing) ExplainOwn(link);
  }

  // An own action, or one that takes the value of an own action.
  void ExplainOwn(WaitLink* link) const {
    const auto take = [&](uint32_t cause) {
      if (link->reason != WaitReason::kNothing || !EndsAt(cause, link->begin_ns)) return;
      link->reason = WaitReason::kOwn;
      link->cause = IsCompute(plan_.actions[cause].kind) ? places_.GroupOf(cause) : cause;
    };
    take(wiring_.wires[link->action].before);
    wiring_.ForFurtherWaits(link->action, take);
  }

  // Makes the link that of the first of these copies and computations that ended then, if any did.
  void EndsWith(std::initializer_list<uint32_t> causes, int64_t ns, WaitLink* link) const {
    for (const uint32_t cause : causes) {
      if (!EndsAt(cause, ns)) continue;
      const bool copies = IsCopy(plan_.actions[cause].kind);
      link->reason = copies ? WaitReason::kCopy : WaitReason::kRank;
      link->cause = copies ? cause : places_.GroupOf(cause);
      return;
    }
  }

  void ExplainCopy(WaitLink* link) const {
    const CopyWire copy = wiring_.CopyOf(link->action);
    EndsWith({copy.source, copy.after, copy.freed, wiring_.wires[link->action].before},
             link->begin_ns, link);
    if (link->reason == WaitReason::kNothing) ExplainOwn(link);
  }

  // Visits the receives of the computation's messages: visit(receive).
  template <typename Visit>
  void ForEachReceive(uint32_t computation, Visit visit) const {
    const Wire& wire = wiring_.wires[computation];
    for (const uint32_t recv : {wire.input, wire.gradient}) {
      if (recv != kNoAction) visit(recv);
    }
    for (const uint32_t need : wiring_.FurtherNeeds(computation)) {
      if (IsRecv(plan_.actions[need].kind)) visit(need);
    }
  }

  // Makes the link that of the computation's message, if it came when the group started.
  void AddMessage(uint32_t computation, uint32_t recv, int64_t start_ns, WaitLink* link) const {
    const uint32_t send = wiring_.wires[recv].other;
    if (send == kNoAction || events_[recv].end_ns != start_ns) return;
    link->reason = WaitReason::kMessage;
    link->value = plan_.actions[recv].kind == ActionKind::kRecvForward ? kInput : kOutGrad;
    link->part = computation;
    link->giver = wiring_.wires[send].maker;
    link->sent_ns = events_[send].start_ns;
    link->arrived_ns = start_ns;
    const bool at_once = EndsAt(link->giver, link->sent_ns);
    link->cause = at_once ? places_.GroupOf(link->giver) : send;
    link->begin_ns = at_once ? link->sent_ns : start_ns;
  }

  // A message moves when both its ends have started: each when all parts of its call can, and the
  // call before has left the queue.
  void ExplainMessage(WaitLink* link) const {
    const uint32_t ends[] = {link->action, wiring_.wires[link->action].other};
    for (const uint32_t end : ends) {
      if (CanFrom(end, end, link)) return;
    }
    for (const uint32_t end : ends) {
      if (StoodBehind(end, link)) return;
    }
    for (const uint32_t end : ends) {
      for (const uint32_t part : CallOf(end)) {
        if (part != end && CanFrom(part, end, link)) return;
      }
    }
  }

  // True if the value or buffer for which this part of a call waits came when the message of `end`
  // moved.
  bool CanFrom(uint32_t part, uint32_t end, WaitLink* link) const {
    const Action& action = plan_.actions[part];
    const bool sends = IsSend(action.kind);
    const uint32_t after = sends ? wiring_.wires[part].maker : wiring_.wires[part].room;
    if (!EndsAt(after, link->begin_ns)) return false;
    link->reason = sends ? WaitReason::kValue : WaitReason::kBuffer;
    link->cause = places_.GroupOf(after);
    link->rank = plan_.stage(action.stage).rank;
    if (part != end) link->together_with = part;
    return true;
  }

  // True if a part of the call before `end` in its queue left the queue when the message moved.
  bool StoodBehind(uint32_t end, WaitLink* link) const {
    const uint32_t before = wiring_.wires[end].before;
    if (before == kNoAction) return false;
    for (const uint32_t part : CallOf(before)) {
      if (LeftQueue(part) != link->begin_ns) continue;
      link->reason = WaitReason::kQueue;
      link->cause = IsSend(plan_.actions[part].kind) ? part : wiring_.wires[part].other;
      link->rank = plan_.stage(plan_.actions[end].stage).rank;
      link->queue = static_cast<int32_t>(wiring_.wires[end].queue);
      return true;
    }
    return false;
  }

  // The messages of this message's call on its communicator.
  std::vector<uint32_t> CallOf(uint32_t message) const {
    uint32_t first = message;
    while (plan_.actions[first].joined) --first;
    std::vector<uint32_t> call;
    for (uint32_t k = 0; k < Group(first).size(); ++k) {
      if (wiring_.wires[first + k].queue == wiring_.wires[message].queue) call.push_back(first + k);
    }
    return call;
  }

  void ExplainCollective(WaitLink* link) const {
    if (CollectiveOf(link->action, link->begin_ns, link)) return;
    const Wire& wire = wiring_.wires[link->action];
    if (plan_.actions[link->action].kind != ActionKind::kReduceGrad) return;
    if (wire.meeting == kNoAction) return;
    for (const auto& [member, comes] : wiring_.reductions.of(static_cast<int>(wire.meeting))) {
      WaitLink other;
      if (!comes || !CollectiveOf(member, link->begin_ns, &other)) continue;
      link->reason = WaitReason::kOtherRank;
      link->cause = member;
      return;
    }
  }

  // True if the collective could start then by the actions of its own rank, and not before.
  bool CollectiveOf(uint32_t i, int64_t start_ns, WaitLink* link) const {
    const Wire& wire = wiring_.wires[i];
    if (EndsAt(wire.after, start_ns) || GivesAt(i, start_ns)) {
      link->reason = WaitReason::kRank;
      link->cause = places_.GroupOf(wire.after);
    } else if (EndsAt(wire.before, start_ns)) {
      link->reason = WaitReason::kCollective;
      link->cause = wire.before;
    }
    return link->reason != WaitReason::kNothing;
  }

  // True if the reduction could start with the first bucket of its gradients, inside a computation.
  bool GivesAt(uint32_t reduce, int64_t ns) const {
    if (plan_.actions[reduce].kind != ActionKind::kReduceGrad) return false;
    const uint32_t giver = wiring_.meeters[reduce];
    const uint32_t before = wiring_.wires[reduce].before;
    return giver != kNoAction && events_[giver].start_ns <= ns && ns < events_[giver].end_ns &&
           !EndsAt(before, ns);
  }

  std::vector<WaitingGroup> After(uint32_t group) const {
    std::vector<WaitingGroup> after;
    const auto parts = Group(group);
    for (const Action& part : parts) {
      for (const Crossing& crossing : kCrossings) AddConsumers(part, crossing, &after);
    }
    const RankId rank = RankOf(plan_, plan_.actions[group]);
    for (uint32_t i = group + static_cast<uint32_t>(parts.size()); i < plan_.first[rank.value + 1];
         ++i) {
      if (!IsCompute(plan_.actions[i].kind)) continue;
      after.push_back({.group = i, .ready_ns = events_[group].end_ns});
      break;
    }
    std::stable_sort(after.begin(), after.end(), [&](const auto& a, const auto& b) {
      return events_[a.group].start_ns < events_[b.group].start_ns;
    });
    return after;
  }

  // The groups with a need for the value that crosses from the part.
  void AddConsumers(const Action& part, const Crossing& crossing,
                    std::vector<WaitingGroup>* after) const {
    if ((EffectsOf(part.kind).gives & crossing.given) == 0) return;
    const bool forward = crossing.taken == kInput;
    const StageGraph& graph = plan_.GraphOf(part.microbatch);
    for (const Edge& edge : forward ? graph.Out(part.stage) : graph.In(part.stage)) {
      for (int k = 0; IsCompute(static_cast<ActionKind>(k)); ++k) {
        const auto kind = static_cast<ActionKind>(k);
        if ((EffectsOf(kind).needs & crossing.taken) == 0) continue;
        const uint32_t user = places_.Find(forward ? edge.to : edge.from, part.microbatch, kind);
        if (user == kNone) continue;
        uint32_t from = places_.Giver(part.stage, part.microbatch, crossing.given);
        const uint32_t giver = from;
        ForEachReceive(user, [&](uint32_t recv) {
          if (EdgeOf(plan_, plan_.actions[recv])->id == edge.id) from = recv;
        });
        after->push_back({places_.GroupOf(user), WaitReason::kMessage, crossing.taken, user, giver,
                          events_[from].end_ns});
      }
    }
  }

  const Plan& plan_;
  const std::vector<Event>& events_;
  const CostModel& costs_;
  const PlaceTable places_;
  const Wiring& wiring_;
};

// "rank 0 has stages 0, 7": where the stages live.
std::string StagesOfRanks(const Plan& plan) {
  constexpr int kMostRanks = 8;
  std::string out;
  for (int r = 0; r < std::min(plan.ranks(), kMostRanks); ++r) {
    std::vector<std::string> names;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      if (plan.stages[s].rank.value != r) continue;
      names.push_back(PrintStage(plan.pipes, StageId(static_cast<int32_t>(s))));
    }
    absl::StrAppend(&out, r == 0 ? "" : "; ", "rank ", r, " has ", absl::StrJoin(names, " "));
  }
  return plan.ranks() > kMostRanks ? absl::StrCat(out, "; …") : out;
}

// "; there are down[0 .. 3], up[0 .. 3]", or "" without pipes.
std::string StagesOfPipes(const Plan& plan) {
  std::string out;
  for (const Pipe& pipe : plan.pipes) {
    absl::StrAppend(&out, out.empty() ? "; there are " : ", ", pipe.name, "[0 .. ", pipe.stages - 1,
                    "]");
  }
  return out;
}

}  // namespace

Explanation Explain(const Plan& lowered, const Timeline& timeline, const Wiring& wiring,
                    const CostModel& costs, uint32_t action) {
  return Explainer(lowered, timeline, wiring, costs).Run(action);
}

absl::StatusOr<uint32_t> FindAction(const Plan& plan, absl::string_view text) {
  const auto error = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' ", parts...));
  };
  Action action;
  absl::string_view rest = text;
  if (!ReadAction(plan.pipes, plan.rows, plan.slices, &rest, &action) || !rest.empty()) {
    return error("is no action of this plan; write stage, kind and microbatch, as in ",
                 plan.actions.empty() ? "0F0" : Print(plan, plan.actions.front()),
                 StagesOfPipes(plan));
  }
  if (!IsCompute(action.kind)) {
    return error("is no computation; ask for the one that gives or needs it");
  }
  const auto stages = static_cast<int>(plan.stages.size());
  if (action.stage.value >= stages) {
    return error("is on stage ", action.stage.value, ", but there are ", stages, ": ",
                 StagesOfRanks(plan));
  }
  const int microbatches = plan.microbatches_of(action.stage);
  if (action.kind == ActionKind::kUpdate && action.microbatch.value >= plan.steps) {
    return error("is of step ", action.microbatch.value, ", but there are only 0 .. ",
                 plan.steps - 1);
  }
  if (action.microbatch.value >= microbatches) {
    return error("is on microbatch ", action.microbatch.value / plan.slices,
                 ", but there are only 0 .. ", microbatches / plan.slices - 1);
  }
  std::vector<std::string> there;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& other = plan.actions[i];
    if (other.stage != action.stage || other.microbatch != action.microbatch) continue;
    if (other.kind == action.kind) return i;
    if (ComputesMicrobatch(other.kind)) there.push_back(Print(plan, other));
  }
  return error("is not in the plan; of this stage and microbatch it has ",
               absl::StrJoin(there, ", "));
}

}  // namespace stringline
