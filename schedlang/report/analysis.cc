// Among all that an event waited for (links.h), the event that ended last is its reason. The
// reason of a rank's gap is the gap's cause; the chain of reasons from the last event back is the
// critical path.
#include "schedlang/report/analysis.h"

#include <algorithm>

#include "schedlang/base/threads.h"
#include "schedlang/plan/buckets.h"

namespace stringline {
namespace {

class Analyst {
 public:
  Analyst(const Plan& plan, const Timeline& timeline, const Wiring& wiring, int64_t makespan_ns)
      : plan_(plan),
        events_(timeline.events),
        wiring_(wiring),
        wires_(wiring.wires),
        whole_(wiring.whole),
        idle_(static_cast<size_t>(plan.ranks())) {
    analysis_.makespan_ns = makespan_ns;
    analysis_.causes.assign(idle_.size(), {});
  }

  CausesByRank Causes() {
    ForEachOnCores(plan_.ranks(), plan_.actions.size(), [this](int rank) {
      FindIdle(RankId(rank));
      idle_[static_cast<size_t>(rank)] = {};
    });
    return std::move(analysis_.causes);
  }

  Analysis Run() {
    ForEachOnCores(plan_.ranks(), plan_.actions.size(),
                   [this](int rank) { FindIdle(RankId(rank)); });
    for (const std::vector<IdleStretch>& of_rank : idle_) {
      analysis_.idle.insert(analysis_.idle.end(), of_rank.begin(), of_rank.end());
      analysis_.first_idle.push_back(static_cast<uint32_t>(analysis_.idle.size()));
    }
    if (!whole_) return std::move(analysis_);
    FindCriticalPath();
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (IsSend(plan_.actions[i].kind)) {
        analysis_.messages.push_back({i, wires_[i].other, wires_[i].maker});
      }
    }
    return std::move(analysis_);
  }

 private:
  absl::Span<const Action> Group(uint32_t begin) const {
    return GroupAt(absl::MakeConstSpan(plan_.actions), begin);
  }

  void FindIdle(RankId rank) {
    int64_t now_ns = 0;
    bool first = true;
    for (uint32_t i = plan_.first[rank.value]; i < plan_.first[rank.value + 1]; ++i) {
      if (!IsCompute(plan_.actions[i].kind)) continue;
      if (!plan_.actions[i].joined) {
        if (first) {
          AddIdle(rank, IdleCause::kWarmUp, now_ns, events_[i].start_ns, i, NeedOf(i));
        } else {
          ExplainGap(rank, i, now_ns);
        }
        first = false;
      }
      const Event& event = events_[i];
      if (whole_ && !event.joined) {
        AddIdle(rank, IdleCause::kCollective, event.end_ns - event.waited_ns, event.end_ns, i,
                LastGatherOf(i));
      }
      now_ns = std::max(now_ns, event.end_ns);
    }
    AddIdle(rank, first ? IdleCause::kWarmUp : IdleCause::kCoolDown, now_ns, analysis_.makespan_ns,
            kNoAction, kNoAction);
  }

  void AddIdle(RankId rank, IdleCause cause, int64_t start_ns, int64_t end_ns, uint32_t waiting,
               uint32_t waits_for) {
    if (start_ns >= end_ns) return;
    const auto r = static_cast<size_t>(rank.value);
    idle_[r].push_back({rank, cause, start_ns, end_ns, static_cast<int32_t>(waiting),
                        static_cast<int32_t>(waits_for)});
    analysis_.causes[r][static_cast<size_t>(cause)] += end_ns - start_ns;
  }

  // The last event to end among the group's needs from elsewhere; kNoAction without such needs.
  uint32_t NeedOf(uint32_t group) const {
    uint32_t last = kNoAction;
    if (!whole_) return last;
    int64_t last_ns = 0;
    const auto take = [&](uint32_t need) {
      if (need == kNoAction) return;
      const int64_t there_ns = ThereNs(need);
      if (last != kNoAction && there_ns <= last_ns) return;
      last = need;
      last_ns = there_ns;
    };
    for (uint32_t k = 0; k < Group(group).size(); ++k) {
      const Wire& wire = wires_[group + k];
      for (const uint32_t need : {wire.input, wire.gradient, wire.gathered}) take(need);
      const CopyWire copy = wiring_.CopyOf(group + k);
      take(copy.source);
      take(copy.freed);
      wiring_.ForFurtherWaits(group + k, take);
    }
    for (const ListedWait& wait : wiring_.WaitsBefore(group)) {
      take(wait.until);
    }
    return last;
  }

  // The last gather to end among those of the group; kNoAction: it has none.
  uint32_t LastGatherOf(uint32_t group) const {
    uint32_t last = kNoAction;
    for (uint32_t k = 0; k < Group(group).size(); ++k) {
      const uint32_t gathered = wires_[group + k].gathered;
      if (gathered == kNoAction) continue;
      if (last == kNoAction || events_[gathered].end_ns > events_[last].end_ns) last = gathered;
    }
    return last;
  }

  // The moment when a need lets a group start.
  int64_t ThereNs(uint32_t need) const {
    const Event& event = events_[need];
    return event.kind == ActionKind::kUnshard ? GatheredNs(event) : event.end_ns;
  }

  // Attributes the rank's wait between `from_ns` and the start of the group to causes.
  void ExplainGap(RankId rank, uint32_t group, int64_t from_ns) {
    const int64_t to_ns = events_[group].start_ns;
    if (from_ns >= to_ns) return;
    const uint32_t need = NeedOf(group);
    if (need == kNoAction || ThereNs(need) <= from_ns) {
      AddIdle(rank, IdleCause::kOther, from_ns, to_ns, group, kNoAction);
      return;
    }
    const int64_t there_ns = std::min(ThereNs(need), to_ns);
    const ActionKind of = plan_.actions[need].kind;
    // An own action of all ranks waits for the computations of the others, too.
    if (IsCollective(of) || IsOwnNetwork(of) || IsCompute(of)) {
      AddIdle(rank, IdleCause::kCollective, from_ns, there_ns, group, need);
    } else if (IsCopy(of)) {
      AddIdle(rank, IdleCause::kCopy, from_ns, there_ns, group, need);
    } else if (IsSend(of)) {
      AddIdle(rank, IdleCause::kQueue, from_ns, there_ns, group, need);
    } else {
      ExplainMessage(rank, group, need, from_ns, there_ns);
    }
    AddIdle(rank, IdleCause::kOther, there_ns, to_ns, group, kNoAction);
  }

  // Had the message moved when its value was made, its arrival would be earlier by this difference,
  // which is the queue's or the buffers'; the rest of the gap is the value's.
  void ExplainMessage(RankId rank, uint32_t group, uint32_t recv, int64_t from_ns, int64_t to_ns) {
    const uint32_t send = wires_[recv].other;
    const bool forward = plan_.actions[recv].kind == ActionKind::kRecvForward;
    const uint32_t maker = wires_[send].maker;
    const int64_t held_ns = std::max<int64_t>(events_[send].start_ns - events_[maker].end_ns, 0);
    const int64_t could_ns = std::clamp(to_ns - held_ns, from_ns, to_ns);
    AddIdle(rank, forward ? IdleCause::kActivation : IdleCause::kGradient, from_ns, could_ns, group,
            maker);
    if (could_ns == to_ns) return;
    const uint32_t reason = ReasonOf(send);
    const bool listed = !wiring_.listed.empty() && reason != wires_[recv].room;
    const bool memory = reason != kNoAction && IsCompute(plan_.actions[reason].kind) && !listed;
    AddIdle(rank, memory ? IdleCause::kMemory : IdleCause::kQueue, could_ns, to_ns, group, reason);
  }

  // The event with the latest end among those listed before the message and holding it up.
  uint32_t ListedBeforeOf(uint32_t message) const {
    uint32_t last = wiring_.listed[message].computation;
    for (const ListedWait& wait : wiring_.WaitsBefore(message)) {
      if (last == kNoAction || events_[wait.until].end_ns > events_[last].end_ns) last = wait.until;
    }
    return last;
  }

  // When the event before a message in its queue let the message go.
  int64_t ReleaseOf(uint32_t before, int64_t start_ns) const {
    return std::min(events_[before].end_ns, start_ns);
  }

  // The reason for the start of a message, a group or a collective: the last event to end that the
  // start waited for; kNoAction if the start could be the step's.
  uint32_t ReasonOf(uint32_t i) const {
    const ActionKind kind = plan_.actions[i].kind;
    if (kind == ActionKind::kReduceGrad && IsMeeting(i)) {
      // The last member to come.
      uint32_t reason = kNoAction;
      for (const auto& [member, comes] :
           wiring_.reductions.of(static_cast<int>(wires_[i].meeting))) {
        if (!comes) continue;
        reason = Later(reason, Later(wires_[member].after, wires_[member].before, i), i);
      }
      return reason;
    }
    if (IsCollective(kind)) return Later(wires_[i].after, wires_[i].before, i);
    if (IsOwnNetwork(kind)) return LaterOwn(wires_[i].before, i);
    if (IsCompute(kind)) return Later(wires_[i].before, NeedOf(i), i);
    if (IsCopy(kind)) {
      const CopyWire copy = wiring_.CopyOf(i);
      return LaterOwn(
          Later(Later(copy.source, wires_[i].before, i), Later(copy.after, copy.freed, i), i), i);
    }
    const uint32_t send = IsSend(kind) ? i : wires_[i].other;
    const uint32_t recv = wires_[send].other;
    // Among equals the value's own maker, then the buffer's user: these hold the message up in any
    // case.
    uint32_t reason = Later(wires_[send].maker, wires_[recv].room, send);
    for (const uint32_t end : {send, recv}) {
      reason = Later(reason, wires_[end].before, send);
      if (!wiring_.listed.empty()) reason = Later(reason, ListedBeforeOf(end), send);
    }
    return reason;
  }

  // True if the rank comes to a reduction of replicas with this action.
  bool IsMeeting(uint32_t reduction) const {
    return wires_[reduction].meeting != kNoAction && wires_[reduction].comes_with == kNoAction;
  }

  uint32_t Later(uint32_t a, uint32_t b, uint32_t waiting) const {
    if (b == kNoAction) return a;
    if (a == kNoAction) return b;
    const int64_t start_ns = events_[waiting].start_ns;
    const int64_t a_ns = ReleaseOf(a, start_ns);
    return a_ns >= ReleaseOf(b, start_ns) ? a : b;
  }

  // The latest to let go among `reason` and the actions for which an own action waits.
  uint32_t LaterOwn(uint32_t reason, uint32_t waiting) const {
    wiring_.ForFurtherWaits(waiting,
                            [&](uint32_t before) { reason = Later(reason, before, waiting); });
    return reason;
  }

  void FindCriticalPath() {
    if (events_.empty()) return;
    uint32_t at = 0;
    for (uint32_t i = 0; i < events_.size(); ++i) {
      if (events_[i].end_ns > events_[at].end_ns) at = i;
    }
    // Links go back in time; the number of events bounds links of length 0.
    while (at != kNoAction && analysis_.critical.size() <= events_.size()) {
      while (plan_.actions[at].joined && IsCompute(plan_.actions[at].kind)) --at;
      if (IsRecv(plan_.actions[at].kind)) at = wires_[at].other;
      analysis_.critical.push_back(at);
      if (events_[at].start_ns == 0) break;
      at = ReasonOf(at);
    }
    std::reverse(analysis_.critical.begin(), analysis_.critical.end());
  }

  const Plan& plan_;
  const std::vector<Event>& events_;
  const Wiring& wiring_;
  const std::vector<Wire>& wires_;
  const bool whole_;  // false: the plan of the timeline does not end, and only lengths are known
  std::vector<std::vector<IdleStretch>> idle_;  // by rank
  Analysis analysis_;
};

}  // namespace

const char* NameOf(IdleCause cause) {
  static constexpr const char* kNames[kIdleCauses] = {"warm-up",  "cool-down", "activation",
                                                      "gradient", "queue",     "collective",
                                                      "memory",   "copy",      "other"};
  return kNames[static_cast<int>(cause)];
}

Analysis Analyze(const Plan& lowered, const Timeline& timeline, int receive_buffers) {
  return Analyze(lowered, timeline, WiringOf(lowered, timeline.layout, receive_buffers));
}

Analysis Analyze(const Plan& lowered, const Timeline& timeline, const Wiring& wiring) {
  return Analyst(lowered, timeline, wiring, MakespanOf(timeline)).Run();
}

CausesByRank CausesOfIdle(const Plan& lowered, const Timeline& timeline, const Wiring& wiring,
                          int64_t makespan_ns) {
  return Analyst(lowered, timeline, wiring, makespan_ns).Causes();
}

std::optional<Plan> PlanOf(const Timeline& timeline) {
  Plan plan;
  plan.schedule = timeline.schedule;
  plan.parameters = timeline.parameters;
  plan.pipes = timeline.pipes;
  plan.rows = timeline.rows;
  plan.slices = timeline.slices;
  plan.forward_only = timeline.forward_only;
  plan.first = timeline.first;
  plan.lowered = true;
  for (const Pipe& pipe : plan.pipes) {
    plan.microbatches = std::max(plan.microbatches, pipe.microbatches);
  }
  size_t stages = 0;
  for (const Event& event : timeline.events) {
    plan.actions.push_back({.kind = event.kind,
                            .joined = event.joined,
                            .other = event.other,
                            .stage = event.stage,
                            .microbatch = event.microbatch});
    stages = std::max(stages, static_cast<size_t>(event.stage.value) + 1);
    plan.microbatches = std::max(plan.microbatches, event.microbatch.value + 1);
    if (event.kind == ActionKind::kUpdate) {
      plan.steps = std::max(plan.steps, event.microbatch.value + 1);
    }
  }
  if (stages * static_cast<size_t>(plan.microbatches) > timeline.events.size()) return std::nullopt;
  const auto is_beyond = [stages](const Edge& edge) {
    return std::max(edge.from, edge.to).value >= static_cast<int>(stages);
  };
  if (std::any_of(timeline.edges.begin(), timeline.edges.end(), is_beyond)) return std::nullopt;
  plan.stages.resize(stages);
  for (int r = 0; r < plan.ranks(); ++r) {
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      Action& action = plan.actions[i];
      if (plan.rows.IsOfEveryRank(action.kind)) {
        action.other = static_cast<int16_t>(r);
        continue;
      }
      RankId& rank = plan.stages[action.stage.value].rank;
      if (rank.valid() && rank != RankId(r)) return std::nullopt;
      rank = RankId(r);
    }
  }
  const Pipe whole = {.first_stage = StageId(0), .stages = static_cast<int>(stages)};
  int32_t index = 0;
  for (const Pipe& pipe : plan.pipes.empty() ? std::vector<Pipe>{whole} : plan.pipes) {
    const int first = pipe.first_stage.value, end = first + pipe.stages;
    if (static_cast<size_t>(end) > stages) return std::nullopt;
    for (int s = first; s < end; ++s) {
      Stage& stage = plan.stages[s];
      if (!stage.rank.valid()) return std::nullopt;
      stage.pipe = index;
    }
    ++index;
  }
  plan.SetChains();
  if (!timeline.edges.empty()) plan.graph = StageGraph(static_cast<int>(stages), timeline.edges);
  const auto is_no_stage = [&](const Skip& skip) {
    return skip.stage.value >= static_cast<int>(stages) ||
           skip.microbatch >= plan.microbatches_in_step();
  };
  if (std::any_of(timeline.skips.begin(), timeline.skips.end(), is_no_stage)) return std::nullopt;
  if (!timeline.skips.empty() && !plan.SetSkips(timeline.skips).empty()) return std::nullopt;
  FindRemaking(&plan);
  return plan;
}

}  // namespace stringline
