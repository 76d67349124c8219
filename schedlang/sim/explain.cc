// In a simulated timeline a group starts just when the last thing it waited for has ended. So its
// cause is what ends at its start: the group before it, a message, or a gather. From cause to cause
// the chain comes to the start of the step.
#include "schedlang/sim/explain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/text_form.h"

namespace stringline {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Where everything of a stage and microbatch stands in the plan.
class PlaceTable {
 public:
  explicit PlaceTable(const Plan& plan)
      : microbatches_(static_cast<size_t>(plan.microbatches)),
        rows_(plan.stages.size() * microbatches_ * kKinds, kNone),
        group_of_(plan.actions.size(), kNone),
        group_before_(plan.actions.size(), kNone) {
    for (int r = 0; r < plan.ranks(); ++r) {
      uint32_t group = kNone, before = kNone;
      for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
        const Action& action = plan.actions[i];
        if (IsCollective(action.kind)) continue;
        rows_[Index(action.stage, action.microbatch, action.kind)] = i;
        if (!IsCompute(action.kind)) continue;
        if (!action.joined) before = std::exchange(group, i);
        group_of_[i] = group;
        group_before_[i] = before;
      }
    }
  }

  // The action of that kind; kNone if there is none.
  uint32_t Find(StageId stage, MicrobatchId m, ActionKind kind) const {
    return rows_[Index(stage, m, kind)];
  }
  // The computation that gives the value; kNone if there is none.
  uint32_t Giver(StageId stage, MicrobatchId m, Values value) const {
    for (int kind = 0; IsCompute(static_cast<ActionKind>(kind)); ++kind) {
      if ((EffectsOf(static_cast<ActionKind>(kind)).gives & value) == 0) continue;
      const uint32_t i = Find(stage, m, static_cast<ActionKind>(kind));
      if (i != kNone) return i;
    }
    return kNone;
  }
  uint32_t GroupOf(uint32_t action) const { return group_of_[action]; }
  // The group that the rank performs before this one; kNone for its first.
  uint32_t GroupBefore(uint32_t group) const { return group_before_[group]; }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(ActionKind::kRecvBackward) + 1;

  size_t Index(StageId stage, MicrobatchId m, ActionKind kind) const {
    return (static_cast<size_t>(stage.value) * microbatches_ + static_cast<size_t>(m.value)) *
               kKinds +
           static_cast<size_t>(kind);
  }

  const size_t microbatches_;
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> group_of_;      // by computation
  std::vector<uint32_t> group_before_;  // by computation
};

// A message that brings a value to a stage.
struct Crossing {
  Values value;     // what the receiver needs
  Values given;     // the same where it comes from
  ActionKind send;  // and the kinds of its two ends
  ActionKind recv;
};
constexpr Crossing kCrossings[] = {
    {kInput, kOutput, ActionKind::kSendForward, ActionKind::kRecvForward},
    {kOutGrad, kInGrad, ActionKind::kSendBackward, ActionKind::kRecvBackward},
};

class Explainer {
 public:
  Explainer(const Plan& plan, const Timeline& timeline)
      : plan_(plan),
        events_(timeline.events),
        places_(plan),
        wiring_(WiringOf(plan, timeline.layout)) {}

  Explanation Run(uint32_t action) const {
    Explanation explanation;
    uint32_t group = places_.GroupOf(action);
    SL_CHECK(group != kNone) << action << " is no computation";
    explanation.after = After(group);
    // Links go back in time; those of no length are bounded by how many groups there are.
    while (explanation.chain.size() <= plan_.actions.size()) {
      explanation.chain.push_back(LinkOf(group));
      const WaitReason reason = explanation.chain.back().reason;
      if (reason != WaitReason::kRank && reason != WaitReason::kMessage) break;
      group = explanation.chain.back().cause;
    }
    return explanation;
  }

 private:
  absl::Span<const Action> Group(uint32_t group) const {
    return GroupAt(absl::MakeConstSpan(plan_.actions), group);
  }
  StageId Neighbour(const Action& part, const Crossing& crossing) const {
    const Stage& stage = plan_.stage(part.stage);
    return crossing.value == kInput ? stage.previous : stage.next;
  }
  bool StaysOnRank(const Action& part, StageId other) const {
    return plan_.stage(part.stage).rank == plan_.stage(other).rank;
  }

  WaitLink LinkOf(uint32_t group) const {
    WaitLink link{.group = group};
    const int64_t start_ns = events_[group].start_ns;
    if (start_ns == 0) return link;
    const uint32_t before = places_.GroupBefore(group);
    link.idle_ns = start_ns - (before == kNone ? 0 : events_[before].end_ns);
    if (before != kNone && events_[before].end_ns == start_ns) {
      link.reason = WaitReason::kRank;
      link.cause = before;
      return link;
    }
    const auto parts = Group(group);
    for (uint32_t k = 0; k < parts.size(); ++k) {
      for (const Crossing& crossing : kCrossings) {
        if (EffectsOf(parts[k].kind).needs & crossing.value) {
          AddMessage(parts[k], group + k, crossing, start_ns, &link);
        }
      }
    }
    for (uint32_t k = 0; k < parts.size() && link.reason == WaitReason::kNothing; ++k) {
      const uint32_t gathered = wiring_.wires[group + k].gathered;
      if (gathered == kNoAction || events_[gathered].end_ns != start_ns) continue;
      link.reason = WaitReason::kGather;
      link.part = group + k;
    }
    return link;
  }

  // Makes the link the message's, if that came when the group started.
  void AddMessage(const Action& part, uint32_t index, const Crossing& crossing, int64_t start_ns,
                  WaitLink* link) const {
    const StageId from = Neighbour(part, crossing);
    if (!from.valid() || StaysOnRank(part, from)) return;
    const uint32_t recv = places_.Find(part.stage, part.microbatch, crossing.recv);
    const uint32_t send = places_.Find(from, part.microbatch, crossing.send);
    if (recv == kNone || send == kNone || events_[recv].end_ns != start_ns) return;
    link->value = crossing.value;
    link->part = index;
    link->giver = GiverOf(plan_.actions[send]);
    link->sent_ns = events_[send].start_ns;
    link->arrived_ns = start_ns;
    const std::optional<uint32_t> first = Released(send);
    link->reason = first ? WaitReason::kMessage : WaitReason::kQueue;
    if (!first) return;
    link->cause = places_.GroupOf(GiverOf(plan_.actions[*first]));
    if (*first != send) link->behind = *first;
  }

  uint32_t GiverOf(const Action& send) const {
    return places_.Giver(send.stage, send.microbatch, EffectsOf(send.kind).needs);
  }

  // The message whose value came just when it left, and behind which `send` stood in a queue of its
  // sender or its receiver: itself, one before it, or one before that.
  std::optional<uint32_t> Released(uint32_t send) const {
    for (size_t steps = 0; steps <= plan_.actions.size(); ++steps) {
      const uint32_t giver = GiverOf(plan_.actions[send]);
      if (giver == kNone) return std::nullopt;
      if (events_[giver].end_ns == events_[send].start_ns) return send;
      std::optional<uint32_t> before;
      for (const uint32_t end : {send, wiring_.wires[send].other}) {
        uint32_t earlier = end == kNoAction ? kNoAction : wiring_.wires[end].before;
        if (earlier == kNoAction) continue;
        if (IsRecv(plan_.actions[earlier].kind)) earlier = wiring_.wires[earlier].other;
        if (earlier == kNoAction || events_[earlier].start_ns > events_[send].start_ns) continue;
        if (!before || events_[earlier].start_ns > events_[*before].start_ns) before = earlier;
      }
      if (!before) return std::nullopt;
      send = *before;
    }
    return std::nullopt;
  }

  std::vector<WaitingGroup> After(uint32_t group) const {
    std::vector<WaitingGroup> after;
    const auto parts = Group(group);
    for (const Action& part : parts) {
      for (const Crossing& crossing : kCrossings) AddConsumer(part, crossing, &after);
    }
    const RankId rank = plan_.stage(plan_.actions[group].stage).rank;
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

  // The group that needs what the part gives over the crossing.
  void AddConsumer(const Action& part, const Crossing& crossing,
                   std::vector<WaitingGroup>* after) const {
    if ((EffectsOf(part.kind).gives & crossing.given) == 0) return;
    const Stage& stage = plan_.stage(part.stage);
    const StageId to = crossing.value == kInput ? stage.next : stage.previous;
    if (!to.valid()) return;
    for (int k = 0; IsCompute(static_cast<ActionKind>(k)); ++k) {
      const auto kind = static_cast<ActionKind>(k);
      if ((EffectsOf(kind).needs & crossing.value) == 0) continue;
      const uint32_t user = places_.Find(to, part.microbatch, kind);
      if (user == kNone) continue;
      const uint32_t recv = places_.Find(to, part.microbatch, crossing.recv);
      const uint32_t giver = places_.Giver(part.stage, part.microbatch, crossing.given);
      const int64_t ready_ns = recv == kNone ? events_[giver].end_ns : events_[recv].end_ns;
      after->push_back(
          {places_.GroupOf(user), WaitReason::kMessage, crossing.value, user, giver, ready_ns});
    }
  }

  const Plan& plan_;
  const std::vector<Event>& events_;
  const PlaceTable places_;
  const Wiring wiring_;
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

Explanation Explain(const Plan& lowered, const Timeline& timeline, uint32_t action) {
  return Explainer(lowered, timeline).Run(action);
}

absl::StatusOr<uint32_t> FindAction(const Plan& plan, absl::string_view text) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' ", parts...));
  };
  Action action;
  absl::string_view rest = text;
  if (!ReadAction(plan.pipes, &rest, &action) || !rest.empty()) {
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
  if (action.microbatch.value >= microbatches) {
    return error("is on microbatch ", action.microbatch.value, ", but there are only 0 .. ",
                 microbatches - 1);
  }
  std::vector<std::string> there;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& other = plan.actions[i];
    if (other.stage != action.stage || other.microbatch != action.microbatch) continue;
    if (other.kind == action.kind) return i;
    if (IsCompute(other.kind)) there.push_back(Print(plan, other));
  }
  return error("is not in the plan; of this stage and microbatch it has ",
               absl::StrJoin(there, ", "));
}

}  // namespace stringline
