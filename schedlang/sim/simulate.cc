// A start is the latest end among the actions that its wire names (plan/links.h). So ranks and
// queues advance in any order, each until an unknown end. Only messages on a shared link are taken
// in the order of time, when nothing else can advance.
#include "schedlang/sim/simulate.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/sim/gathered_parts.h"
#include "schedlang/sim/group_parts.h"
#include "schedlang/sim/own_clock.h"
#include "schedlang/sim/reductions.h"
#include "schedlang/sim/shared_links.h"

namespace stringline {
namespace {

// So many actions, with their wires and events, stay in a core's own cache.
constexpr size_t kActionsInCache = size_t{1} << 14;
// A rank rarely performs more of them before it waits.
constexpr uint32_t kAhead = 12;

// Brings actions of a rank to the caches while other ranks go on. Each rank is at a place of its
// own, and would else wait for memory whenever it goes on.
void Prefetch(const Plan& plan, const Wiring& wiring, absl::Span<const Event> events,
              uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    __builtin_prefetch(&events[i], 1);
    __builtin_prefetch(&wiring.wires[i]);
    __builtin_prefetch(&plan.actions[i]);
  }
}

// Advances ranks and queues until none can go on. An end once known stays, so the order of advances
// does not matter.
class LaneClock {
 public:
  // `straight`: messages leave when the list of their sender comes to them, and no queue waits.
  LaneClock(const Plan& plan, const Wiring& wiring, const CostModel& costs, bool straight,
            Timeline* timeline)
      : plan_(plan),
        wiring_(wiring),
        costs_(costs),
        events_(timeline->events),
        cursor_(plan.first.begin(), plan.first.end() - 1),
        now_ns_(plan.ranks(), 0),
        data_parallel_ns_(plan.ranks(), 0),
        copy_ends_ns_(plan.ranks(), {0, 0}),
        own_(plan, wiring, costs, &timeline->events),
        waiting_(plan.ranks(), kNoAction),
        lacks_(plan.ranks(), kNoAction),
        meetings_(wiring.reductions.count()),
        queues_(wiring.queues.all.size()),
        costs_of_{costs.forward.data(),         costs.backward.data(),  costs.input_gradient.data(),
                  costs.weight_gradient.data(), costs.recompute.data(), costs.update.data()},
        straight_(straight),
        is_large_(plan.actions.size() > kActionsInCache) {
    for (int k = static_cast<int>(ActionKind::kOwnCompute0); k < kComputeKinds; ++k) {
      costs_of_[k] = costs.own.by_stage[k].data();
    }
    for (size_t q = 0; q < queues_.size(); ++q) {
      queues_[q].next = wiring.first_call[q];
      if (straight && !wiring.of(static_cast<int>(q)).empty()) {
        const uint32_t other = wiring.wires[wiring.calls[queues_[q].next]].other;
        queues_[q].peer = wiring.queues.all[wiring.wires[other].queue].rank;
      }
    }
    for (const auto& [action, comes] : wiring.reductions.members) {
      meetings_[wiring.wires[action].meeting].missing += comes ? 1 : 0;
    }
  }

  // True if everything ended.
  bool Run() {
    for (size_t q = 0; q < queues_.size() && !straight_; ++q) StartCalls(static_cast<int>(q));
    for (int r = 0; r < plan_.ranks(); ++r) ready_.push_back(r);
    while (true) {
      if (ready_.empty()) {
        // Nothing else advances: everything that starts before the next arrival on a shared link is
        // known.
        const std::optional<SharedLinks::Finished> finished = links_.Next();
        if (!finished) break;
        Arrive(finished->transfer, finished->end_ns);
      } else {
        const int rank = ready_.back();
        ready_.pop_back();
        if (AdvanceRank(rank)) LookAtQueuesOf(rank);
        if (own_.any()) AdvanceOwn(rank);
      }
      while (!free_.empty()) {
        const int queue = free_.back();
        free_.pop_back();
        StartCalls(queue);
      }
    }
    return Ended();
  }

  // A cycle of reductions that wait for each other, in words, or "".
  std::string Cycle() const { return ReductionCycle(plan_, wiring_, waiting_); }

 private:
  // A reduction of replicas.
  struct Meeting {
    uint32_t missing = 0;  // ranks that have not come
    int64_t start_ns = 0;  // the latest start of the ranks that have come
    int64_t end_ns = 0;    // the latest end, by the buckets of one rank alone
  };
  // The state of a queue: its call is at calls[next], with `left` parts that have not ended.
  struct QueueState {
    uint32_t next = 0;
    uint32_t left = 0;
    int64_t free_ns = 0;
    RankId peer;  // at the other end of its channel, where messages leave straight
  };

  int64_t EndOf(uint32_t action) const { return action == kNoAction ? 0 : events_[action].end_ns; }

  void LookAtQueuesOf(int rank) {
    if (straight_) return;
    for (uint32_t k = wiring_.first_queue[rank]; k < wiring_.first_queue[rank + 1]; ++k) {
      free_.push_back(wiring_.rank_queues[k]);
    }
  }

  // With listed waits, any end on a rank may be awaited by its list.
  void LookAtWaitsOf(int rank) {
    if (wiring_.waits.empty()) return;
    ready_.push_back(rank);
    LookAtQueuesOf(rank);
  }

  // The latest end among the actions listed before the action and holding it up, or kUnknown.
  int64_t ListedBeforeNs(uint32_t action) const {
    int64_t latest_ns = EndOf(wiring_.listed[action].computation);
    if (latest_ns == kUnknown) return kUnknown;
    for (const ListedWait& wait : wiring_.WaitsBefore(action)) {
      const int64_t end_ns = events_[wait.until].end_ns;
      if (end_ns == kUnknown) return kUnknown;
      latest_ns = std::max(latest_ns, end_ns);
    }
    return latest_ns;
  }

  // Performs the rank's actions up to the first that must wait. True if any was performed.
  bool AdvanceRank(int rank) {
    const uint32_t last = plan_.first[rank + 1];
    uint32_t& i = cursor_[rank];
    const uint32_t before = i;
    while (i < last) {
      const Action& action = plan_.actions[i];
      if (IsCompute(action.kind)) {
        if (!Compute(rank, &i, last)) break;
      } else {
        if (IsCopy(action.kind) && !CopyOf(rank, i)) break;
        if (straight_ && IsSend(action.kind)) Leave(i);
        ++i;
        if (!IsCollective(action.kind)) continue;
        Collect(rank, i - 1);
        while (!meet_.empty()) {
          const uint32_t meeting = meet_.back();
          meet_.pop_back();
          Meet(meeting);
        }
      }
    }
    if (is_large_) Prefetch(plan_, wiring_, events_, i, std::min(i + kAhead, last));
    return i != before;
  }

  bool Compute(int rank, uint32_t* cursor, uint32_t last) {
    const uint32_t begin = *cursor;
    int64_t start_ns = now_ns_[rank];
    for (const ListedWait& wait : wiring_.WaitsBefore(begin)) {
      const int64_t there_ns = events_[wait.until].end_ns;
      if (there_ns == kUnknown) return false;
      start_ns = std::max(start_ns, there_ns);
    }
    uint32_t end = begin;
    do {
      const Wire& wire = wiring_.wires[end];
      for (const uint32_t need : {wire.input, wire.gradient, wire.gathered}) {
        if (need == kNoAction) continue;
        const int64_t there_ns = events_[need].end_ns;
        if (there_ns == kUnknown) {
          lacks_[rank] = need;
          return false;
        }
        start_ns =
            std::max(start_ns, MeetsGather(end, need) ? GatheredNs(events_[need]) : there_ns);
      }
      if (!wiring_.copies.empty()) start_ns = std::max(start_ns, CopiedNs(end));
      if (!own_.HasNeeds(end, &start_ns, &lacks_[rank])) return false;
      ++end;
    } while (end < last && plan_.actions[end].joined);
    const int64_t cost_ns =
        end == begin + 1 && plan_.chunks == 1 && costs_.shares.empty()
            ? costs_of_[static_cast<int>(plan_.actions[begin].kind)]
                       [plan_.actions[begin].stage.value]
            : GroupCost(costs_, absl::MakeConstSpan(plan_.actions).subspan(begin, end - begin));
    const int64_t work_ns = costs_.noise.empty() ? cost_ns : costs_.noise.Of(begin, cost_ns);
    if (wiring_.meetings.Of(begin) >= 0) {
      own_.Come(begin, start_ns, work_ns);
      TakeOwnEnds();
      return false;  // the last rank to come takes all of them on
    }
    const int64_t end_ns = EndBesideGathers(begin, start_ns, work_ns);
    for (uint32_t k = begin; k < end; ++k) {
      events_[k].start_ns = start_ns;
      events_[k].end_ns = end_ns;
      events_[k].waited_ns = end_ns - start_ns - work_ns;
    }
    now_ns_[rank] = end_ns;
    *cursor = end;
    return true;
  }

  void AdvanceOwn(int rank) {
    own_.Advance(rank);
    TakeOwnEnds();
  }

  // Ranks go on behind their own actions that have ended.
  void TakeOwnEnds() {
    for (const uint32_t ended : own_.TakeEnded()) {
      const int rank = RankOf(plan_, plan_.actions[ended]).value;
      if (IsCompute(plan_.actions[ended].kind)) {
        now_ns_[rank] = events_[ended].end_ns;
        cursor_[rank] = ended + 1;
        LookAtQueuesOf(rank);
      }
      ready_.push_back(rank);
    }
  }

  // The rank may have waited for the end of the action.
  void WakeFor(int rank, uint32_t ended) {
    if (lacks_[rank] != ended) return;
    lacks_[rank] = kNoAction;
    ready_.push_back(rank);
  }

  // When the copies for which the action waits have ended: its rank has come to all of them.
  int64_t CopiedNs(uint32_t i) const {
    const CopyWire& copy = wiring_.copies[i];
    return std::max(EndOf(copy.source), EndOf(copy.freed));
  }

  bool CopyOf(int rank, uint32_t i) {
    const Action& action = plan_.actions[i];
    const bool out = CopiesOut(action.kind);
    int64_t& free_ns = copy_ends_ns_[rank][out ? 0 : 1];
    Event& event = events_[i];
    int64_t start_ns = std::max({free_ns, CopiedNs(i), EndOf(wiring_.copies[i].after)});
    if (!own_.HasNeeds(i, &start_ns, &lacks_[rank])) return false;
    event.start_ns = start_ns;
    const auto copy_ns = [&] {
      return OfMicrobatch(costs_, action,
                          (out ? costs_.offload : costs_.fetch)[action.stage.value]);
    };
    event.end_ns = event.start_ns + (IsOwn(action.kind) ? own_.CostNs(i) : copy_ns());
    free_ns = event.end_ns;
    return true;
  }

  // True if the computation needs only the first bucket of `need` to begin. An R of a stage in
  // parts begins with all parameters.
  bool MeetsGather(uint32_t i, uint32_t need) const {
    const Action& action = plan_.actions[i];
    if (need != wiring_.wires[i].gathered || action.kind == ActionKind::kUpdate) return false;
    return action.kind != ActionKind::kRecompute || !IsCut(costs_, action.stage);
  }

  // The end of the group at `begin` with so much work, which may wait for buckets of parameters.
  int64_t EndBesideGathers(uint32_t begin, int64_t start_ns, int64_t work_ns) const {
    int64_t end_ns = start_ns + work_ns;
    if (wiring_.meeters.empty()) return end_ns;
    if (WaitsInParts(plan_, wiring_, costs_, events_, begin, start_ns)) {
      for (const PartTime& part :
           PartsBesideGathers(plan_, wiring_, costs_, events_, begin, start_ns)) {
        end_ns = std::max(end_ns, start_ns + part.end_ns);
      }
      return end_ns;
    }
    const uint32_t gathered = wiring_.wires[begin].gathered;
    if (gathered != kNoAction && events_[gathered].first_bucket_ns > 0 &&
        wiring_.meeters[gathered] == begin) {
      // All work behind the last bucket of the parameters is left when it comes.
      const int64_t buckets = BucketsMet(costs_, plan_.actions[begin].stage);
      end_ns = std::max(end_ns, events_[gathered].end_ns + LaterBucketNs(work_ns, buckets));
    }
    return end_ns;
  }

  // A collective in the rank's list. Behind a reduction with missing ranks it waits until Meet.
  void Collect(int rank, uint32_t i) {
    const Action& action = plan_.actions[i];
    const Wire& wire = wiring_.wires[i];
    Event& event = events_[i];
    if (action.kind == ActionKind::kReshard) {
      event.start_ns = event.end_ns = EndOf(wire.after);
      return;
    }
    if (waiting_[rank] != kNoAction) return;
    const bool gathers = action.kind == ActionKind::kUnshard;
    if (wire.meeting != kNoAction && wire.comes_with == kNoAction) {
      waiting_[rank] = i;
      Meeting& meeting = meetings_[wire.meeting];
      const ReductionTimes own = TimesOf(i, ReductionNs(plan_, wiring_, costs_, wire.meeting));
      meeting.start_ns = std::max({meeting.start_ns, own.start_ns, data_parallel_ns_[rank]});
      meeting.end_ns = std::max(meeting.end_ns, own.end_ns);
      if (--meeting.missing == 0) meet_.push_back(wire.meeting);
      return;
    }
    const std::vector<int64_t>& costs = gathers ? costs_.unshard : costs_.reduce;
    const bool free = costs.empty() || wire.comes_with != kNoAction;
    const int64_t cost_ns = free ? 0 : costs[action.stage.value];
    if (gathers) {
      const int64_t buckets = BucketsMet(plan_, wiring_, costs_, i);
      event.start_ns = std::max(EndOf(wire.after), data_parallel_ns_[rank]);
      event.end_ns = event.start_ns + cost_ns;
      if (buckets > 1) {
        event.first_bucket_ns = event.start_ns + FirstBucketNs(cost_ns, buckets);
      }
    } else {
      const ReductionTimes own = TimesOf(i, cost_ns);
      Reduce(i, std::max(own.start_ns, data_parallel_ns_[rank]), own.end_ns, cost_ns);
    }
    data_parallel_ns_[rank] = event.end_ns;
  }

  ReductionTimes TimesOf(uint32_t reduce, int64_t cost_ns) const {
    return ReductionInside(plan_, wiring_, costs_, events_, reduce, cost_ns);
  }

  // The reduction would end at `end_ns` if its rank's buckets alone decided.
  void Reduce(uint32_t i, int64_t start_ns, int64_t end_ns, int64_t cost_ns) {
    Event& event = events_[i];
    event.start_ns = start_ns;
    event.end_ns = std::max(start_ns + cost_ns, end_ns);
    event.waited_ns = event.end_ns - start_ns - cost_ns;
  }

  // All members have come to the reduction.
  void Meet(uint32_t meeting) {
    const Meeting& all = meetings_[meeting];
    const int64_t cost_ns = ReductionNs(plan_, wiring_, costs_, meeting);
    for (const auto& [member, comes] : wiring_.reductions.of(static_cast<int>(meeting))) {
      if (!comes) continue;
      Reduce(member, all.start_ns, all.end_ns, cost_ns);
      const int rank = plan_.stage(plan_.actions[member].stage).rank.value;
      data_parallel_ns_[rank] = events_[member].end_ns;
      waiting_[rank] = kNoAction;
      LookAtWaitsOf(rank);
      for (uint32_t i = member + 1; i < cursor_[rank] && waiting_[rank] == kNoAction; ++i) {
        const ActionKind kind = plan_.actions[i].kind;
        if (IsCollective(kind) && kind != ActionKind::kReshard) Collect(rank, i);
      }
      if (lacks_[rank] == kNoAction || events_[lacks_[rank]].end_ns == kUnknown) continue;
      lacks_[rank] = kNoAction;
      ready_.push_back(rank);
    }
  }

  // The rank's list has come to the send: it leaves with its value, behind the message before.
  void Leave(uint32_t send) {
    const Wire& wire = wiring_.wires[send];
    QueueState& queue = queues_[wire.queue];
    const int64_t start_ns = std::max(queue.free_ns, events_[wire.maker].end_ns);
    const Hop hop = HopOf(plan_, costs_, plan_.actions[send]);
    queue.free_ns = start_ns + hop.transfer_ns;
    for (const uint32_t end : {send, wire.other}) {
      events_[end].start_ns = start_ns;
      events_[end].end_ns = queue.free_ns + hop.latency_ns;
    }
    WakeFor(queue.peer.value, wire.other);
  }

  // Starts all ready calls of the queue.
  void StartCalls(int queue) {
    QueueState& state = queues_[queue];
    while (state.left == 0 && state.next < wiring_.first_call[queue + 1]) {
      const uint32_t begin = state.next;
      const uint32_t end = EndOfCall(queue, begin);
      int64_t start_ns = state.free_ns;
      for (uint32_t k = begin; k < end; ++k) {
        const uint32_t i = wiring_.calls[k];
        if (!wiring_.listed.empty()) {
          const int64_t issued_ns = ListedBeforeNs(i);
          if (issued_ns == kUnknown) return;
          start_ns = std::max(start_ns, issued_ns);
        }
        const Wire& wire = wiring_.wires[i];
        const uint32_t after = IsSend(plan_.actions[i].kind) ? wire.maker : wire.room;
        if (after == kNoAction) continue;
        const int64_t after_ns = events_[after].end_ns;
        if (after_ns == kUnknown) return;
        start_ns = std::max(start_ns, after_ns);
      }
      state.next = end;
      state.left = end - begin;
      for (uint32_t k = begin; k < end; ++k) Post(wiring_.calls[k], start_ns);
    }
  }

  // One past the last part of the call at calls[begin].
  uint32_t EndOfCall(int queue, uint32_t begin) const {
    uint32_t end = begin + 1;
    const uint32_t last = wiring_.first_call[queue + 1];
    const uint32_t before = wiring_.wires[wiring_.calls[begin]].before;
    while (end < last && plan_.actions[wiring_.calls[end]].joined &&
           wiring_.wires[wiring_.calls[end]].before == before) {
      ++end;
    }
    return end;
  }

  // An end of a message has started; the message moves if the other end has, too.
  void Post(uint32_t i, int64_t start_ns) {
    events_[i].start_ns = start_ns;
    const Action& action = plan_.actions[i];
    const uint32_t other = wiring_.wires[i].other;
    if (events_[other].start_ns == kUnknown) return;
    const bool sends = IsSend(action.kind);
    const uint32_t send = sends ? i : other, recv = sends ? other : i;
    const int64_t moves_ns = std::max(start_ns, events_[other].start_ns);
    const Hop hop = HopOf(plan_, costs_, plan_.actions[send]);
    events_[send].start_ns = events_[recv].start_ns = moves_ns;
    if (hop.link >= 0) {
      links_.Add(hop.link, send, moves_ns, hop.transfer_ns);
    } else {
      Arrive(send, moves_ns + hop.transfer_ns);
    }
  }

  // The message's transfer has ended: its queues go on, and the message arrives a latency later.
  void Arrive(uint32_t send, int64_t end_ns) {
    const uint32_t recv = wiring_.wires[send].other;
    const int64_t latency_ns = HopOf(plan_, costs_, plan_.actions[send]).latency_ns;
    for (const uint32_t end : {send, recv}) {
      events_[end].end_ns = end_ns + latency_ns;
      QueueState& state = queues_[wiring_.wires[end].queue];
      state.free_ns = std::max(state.free_ns, end_ns);
      if (--state.left == 0) free_.push_back(static_cast<int>(wiring_.wires[end].queue));
      LookAtWaitsOf(plan_.stage(plan_.actions[end].stage).rank.value);
    }
    const int rank = plan_.stage(plan_.actions[recv].stage).rank.value;
    if (own_.any()) ready_.push_back(rank);
    WakeFor(rank, recv);
  }

  bool Ended() const {
    for (int r = 0; r < plan_.ranks(); ++r) {
      if (cursor_[r] != plan_.first[r + 1] || waiting_[r] != kNoAction) return false;
      if (!own_.Ended(r)) return false;
    }
    for (size_t q = 0; q < queues_.size() && !straight_; ++q) {
      if (queues_[q].left != 0 || queues_[q].next != wiring_.first_call[q + 1]) return false;
    }
    return true;
  }

  const Plan& plan_;
  const Wiring& wiring_;
  const CostModel& costs_;
  std::vector<Event>& events_;    // a started message that has not moved has only its start
  std::vector<uint32_t> cursor_;  // by rank
  std::vector<int64_t> now_ns_;   // by rank: when its computation so far ends
  std::vector<int64_t> data_parallel_ns_;             // by rank: when its collectives so far end
  std::vector<std::array<int64_t, 2>> copy_ends_ns_;  // by rank: of its D and its U so far
  OwnClock own_;
  std::vector<uint32_t> waiting_;  // by rank: the reduction at which its collectives wait
  std::vector<uint32_t> lacks_;    // by rank: the action awaited by its computation
  std::vector<Meeting> meetings_;
  std::vector<QueueState> queues_;
  // By kind, then stage: the cost of a computation alone.
  std::array<const int64_t*, kComputeKinds> costs_of_;
  SharedLinks links_;
  const bool straight_;
  const bool is_large_;
  std::vector<int> ready_;      // ranks to advance
  std::vector<int> free_;       // queues to look at
  std::vector<uint32_t> meet_;  // reductions to perform
};

void Forget(Timeline* timeline) {
  timeline->parts.clear();
  for (Event& event : timeline->events) {
    event.start_ns = event.end_ns = kUnknown;
    event.waited_ns = event.first_bucket_ns = 0;
  }
}

// All times of the timeline are unknown. A plan that Check does not pass may end only where
// messages leave before their lists come to them.
absl::Status SimulateFresh(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
                           bool with_parts, Timeline* timeline) {
  std::string cycle;
  for (const bool straight : {true, false}) {
    if (!wiring.whole || (straight && (!wiring.straight || SharesLinks(costs)))) continue;
    LaneClock clock(lowered, wiring, costs, straight, timeline);
    if (clock.Run()) {
      if (with_parts) AddParts(lowered, wiring, costs, timeline);
      return absl::OkStatus();
    }
    cycle = clock.Cycle();
    Forget(timeline);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the plan never ends: ", cycle.empty() ? "'stringline check' says where it waits" : cycle));
}

}  // namespace

absl::StatusOr<Timeline> Simulate(const Plan& lowered, const CostModel& costs, CommLayout layout) {
  return Simulate(lowered, WiringOf(lowered, layout, costs.receive_buffers), costs);
}

absl::StatusOr<Timeline> Simulate(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
                                  bool with_parts) {
  Timeline timeline = TimelineOf(lowered, "simulated", kUnknown);
  timeline.layout = wiring.layout;
  SL_RETURN_IF_ERROR(SimulateFresh(lowered, wiring, costs, with_parts, &timeline));
  return timeline;
}

absl::Status SimulateAgain(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
                           Timeline* timeline) {
  Forget(timeline);
  return SimulateFresh(lowered, wiring, costs, /*with_parts=*/true, timeline);
}

Timeline SimulateAsFarAsItGoes(const Plan& lowered, const Wiring& wiring, const CostModel& costs) {
  Timeline timeline = TimelineOf(lowered, "simulated", kUnknown);
  timeline.layout = wiring.layout;
  LaneClock(lowered, wiring, costs, false, &timeline).Run();
  return timeline;
}

}  // namespace stringline
