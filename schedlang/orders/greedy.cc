// An event loop: a heap holds the next possible start of each rank; an entry is stale if its rank
// has changed since. A rank's candidates lie in two pools, because `hold` stops only actions that
// begin a microbatch.
#include "schedlang/orders/greedy.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// An action whose needs are all available from `ready` on.
struct Candidate {
  int64_t ready = 0;
  int preference = 0;
  int way = 0;  // the way still to go: lower is further along
  int32_t microbatch = 0;
  Action action;
};

struct ByReady {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tuple(a.ready, a.action.stage, a.microbatch, a.action.kind) >
           std::tuple(b.ready, b.action.stage, b.microbatch, b.action.kind);
  }
};
struct ByRule {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tuple(a.preference, a.way, a.microbatch, a.action.stage) <
           std::tuple(b.preference, b.way, b.microbatch, b.action.stage);
  }
};

// Candidates of a rank: future ones, and those ready now.
struct Pool {
  std::priority_queue<Candidate, std::vector<Candidate>, ByReady> coming;
  std::set<Candidate, ByRule> there;

  void MoveUpTo(int64_t now) {
    for (; !coming.empty() && coming.top().ready <= now; coming.pop()) there.insert(coming.top());
  }
  // The earliest start of a candidate on a rank that is free from `now` on.
  std::optional<int64_t> Start(int64_t now) const {
    if (!there.empty()) return now;
    if (coming.empty()) return std::nullopt;
    return std::max(now, coming.top().ready);
  }
};

class GreedyRun {
 public:
  GreedyRun(const Plan& stages, const std::vector<int64_t>& microbatches,
            const std::vector<GreedyRule>& rules, const OrderCosts& costs)
      : plan_(stages), rules_(rules), costs_(costs), ranks_(rules.size()) {
    size_t all = 0;
    for (const int64_t count : microbatches) {
      first_.push_back(all);
      all += static_cast<size_t>(count);
    }
    forward_ends_.assign(all, -1);
    gradient_ends_ = forward_ends_;
    remake_ends_ = forward_ends_;
    remade_.assign(stages.stages.size(), -1);
    lowest_kept_.assign(stages.stages.size(), 0);
    for (size_t s = 0; s < stages.stages.size(); ++s) {
      const Stage& stage = stages.stages[s];
      RankState& rank = ranks_[stage.rank.value];
      ++rank.stages_in_pipe[stage.pipe];
      rank.left += microbatches[s];
      if (!stages.graph.In(StageId(static_cast<int32_t>(s))).empty()) continue;
      for (int32_t m = 0; m < microbatches[s]; ++m) {
        Offer(ActionKind::kForward, StageId(static_cast<int32_t>(s)), m, 0);
      }
    }
  }

  GreedyOrder Run() {
    for (size_t r = 0; r < ranks_.size(); ++r) Enter(static_cast<int>(r));
    while (!starts_.empty()) {
      const auto [start, rank, stamp] = starts_.top();
      starts_.pop();
      if (stamp != ranks_[rank].stamp) continue;  // something changed since
      Perform(rank, start);
    }
    GreedyOrder order;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      order.makespan = std::max(order.makespan, ranks_[r].free);
      if (ranks_[r].left > 0) order.stuck.push_back(RankId(static_cast<int32_t>(r)));
      order.ranks.push_back(std::move(ranks_[r].performed));
    }
    return order;
  }

 private:
  struct RankState {
    int64_t free = 0;
    int64_t stamp = 0;
    int64_t left = 0;  // backwards or weight gradients still to do
    int64_t held = 0;  // microbatches begun and not finished
    Pool known;        // all but forwards that begin a microbatch
    Pool fresh;
    // By pipe and microbatch, of those begun and not finished: the stages to finish.
    absl::flat_hash_map<std::pair<int32_t, int32_t>, int32_t> open;
    absl::flat_hash_map<int32_t, int32_t> stages_in_pipe;
    std::vector<Action> performed;
  };

  size_t Index(StageId stage, int32_t m) const {
    return first_[static_cast<size_t>(stage.value)] + static_cast<size_t>(m);
  }
  std::pair<int32_t, int32_t> OpenKey(StageId stage, int32_t m) const {
    return {plan_.stage(stage).pipe, m};
  }
  // The stage's index in its pipe.
  int Along(StageId stage) const {
    if (plan_.pipes.empty()) return stage.value;
    return stage.value - plan_.pipes[plan_.stage(stage).pipe].first_stage.value;
  }
  int64_t Hop(StageId from, StageId to) const {
    return plan_.stage(from).rank == plan_.stage(to).rank ? 0 : costs_.p2p;
  }

  // The microbatch's factor on the costs; 1 for microbatches that only pad the step and are
  // dropped.
  int64_t FactorOf(const Action& action) const {
    if (costs_.microbatches.empty()) return 1;
    const int all = plan_.microbatches_of(action.stage);
    if (action.microbatch.value >= all) return 1;
    const int of_step = action.microbatch.value % (all / plan_.steps);
    const int before =
        plan_.pipes.empty() ? 0 : plan_.pipes[plan_.stage(action.stage).pipe].first_microbatch;
    const int index = before / plan_.steps + of_step;
    return costs_.microbatches[static_cast<size_t>(index)];
  }

  int64_t TimeOf(const Action& action) const { return UsualTimeOf(action) * FactorOf(action); }

  int64_t UsualTimeOf(const Action& action) const {
    const int along = Along(action.stage);
    const bool is_first_of_backward =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
    const int64_t forward = costs_.of(ActionKind::kForward, along);
    if (action.kind == ActionKind::kRecompute) return forward;
    const bool again = is_first_of_backward && Recomputes(action.stage) && !Remakes(action.stage);
    return costs_.of(action.kind, along) + (again ? forward : 0);
  }

  bool Recomputes(StageId stage) const {
    return !plan_.recompute.empty() && plan_.recompute[static_cast<size_t>(stage.value)] == 1;
  }
  // True for a stage with R actions.
  bool Remakes(StageId stage) const {
    const std::vector<ActionKind>& prefer = rules_[plan_.stage(stage).rank.value].prefer;
    return Recomputes(stage) &&
           std::find(prefer.begin(), prefer.end(), ActionKind::kRecompute) != prefer.end();
  }

  // The needs of the action are available from `ready` on: a candidate, if its rank uses the kind.
  void Offer(ActionKind kind, StageId stage, int32_t m, int64_t ready) {
    const int rank_index = plan_.stage(stage).rank.value;
    const std::vector<ActionKind>& prefer = rules_[rank_index].prefer;
    const auto it = std::find(prefer.begin(), prefer.end(), kind);
    if (it == prefer.end()) return;
    Candidate candidate{.ready = ready, .preference = static_cast<int>(it - prefer.begin())};
    candidate.way = kind == ActionKind::kForward ? -Along(stage) : Along(stage);
    candidate.microbatch = m;
    candidate.action.kind = kind;
    candidate.action.stage = stage;
    candidate.action.microbatch = MicrobatchId(m);
    RankState& rank = ranks_[rank_index];
    const bool brings_in = kind == ActionKind::kForward && !rank.open.contains(OpenKey(stage, m));
    (brings_in ? rank.fresh : rank.known).coming.push(candidate);
  }

  bool MayBringIn(int rank) const {
    return !rules_[rank].hold || ranks_[rank].held < *rules_[rank].hold;
  }

  // Notes the next possible start of the rank.
  void Enter(int index) {
    RankState& rank = ranks_[index];
    ++rank.stamp;
    std::optional<int64_t> start = rank.known.Start(rank.free);
    if (MayBringIn(index)) {
      const std::optional<int64_t> fresh = rank.fresh.Start(rank.free);
      if (fresh && (!start || *fresh < *start)) start = fresh;
    }
    if (start) starts_.push({*start, index, rank.stamp});
  }

  void Perform(int index, int64_t now) {
    RankState& rank = ranks_[index];
    rank.known.MoveUpTo(now);
    rank.fresh.MoveUpTo(now);
    Pool* pool = &rank.known;
    if (MayBringIn(index) && !rank.fresh.there.empty() &&
        (pool->there.empty() || ByRule()(*rank.fresh.there.begin(), *pool->there.begin()))) {
      pool = &rank.fresh;
    }
    const Action action = pool->there.begin()->action;
    pool->there.erase(pool->there.begin());
    const int32_t m = action.microbatch.value;
    if (WasDone(action, m)) {  // its B or I was done as the other of the two
      Enter(index);
      return;
    }
    rank.free = now + TimeOf(action);
    rank.performed.push_back(action);
    if (pool == &rank.fresh) {
      ++rank.held;
      rank.open[OpenKey(action.stage, m)] = rank.stages_in_pipe[plan_.stage(action.stage).pipe];
    }
    const Values gives = EffectsOf(action.kind).gives;
    if (gives & kWeightGrad) {
      --rank.left;
      const auto open = rank.open.find(OpenKey(action.stage, m));
      if (--open->second == 0) {
        rank.open.erase(open);
        --rank.held;
      }
    }
    HandOn(action, rank.free);
    Enter(index);
  }

  bool WasDone(const Action& action, int32_t m) const {
    const bool gradient = (EffectsOf(action.kind).gives & kInGrad) != 0;
    return gradient && gradient_ends_[Index(action.stage, m)] >= 0;
  }

  void HandOn(const Action& action, int64_t now) {
    const int32_t m = action.microbatch.value;
    const Values gives = EffectsOf(action.kind).gives;
    if (action.kind == ActionKind::kRecompute) {
      remake_ends_[Index(action.stage, m)] = now;
      OfferBackward(action.stage, m);
    }
    if (gives & kOutput) {
      forward_ends_[Index(action.stage, m)] = now;
      for (const Edge& edge : plan_.graph.Out(action.stage)) {
        OfferTo(edge.to, [&] { OfferForward(edge.to, m); });
      }
      OfferAhead(action.stage, now);
      OfferBackward(action.stage, m);
    }
    if (gives & kInGrad) {
      gradient_ends_[Index(action.stage, m)] = now;
      if (remade_[action.stage.value] == m) {
        remade_[action.stage.value] = -1;
        OfferAhead(action.stage, now);
      }
      for (const Edge& edge : plan_.graph.In(action.stage)) {
        OfferTo(edge.from, [&] { OfferBackward(edge.from, m); });
      }
    }
    if (gives & kStash) Offer(ActionKind::kWeightGradient, action.stage, m, now);
  }

  // Lets a neighbour's rank look again after an offer.
  template <typename OfferIt>
  void OfferTo(StageId stage, OfferIt offer) {
    offer();
    Enter(plan_.stage(stage).rank.value);
  }

  // Offers the R of the stage's lowest microbatch without one, unless another one is done ahead of
  // its B or I.
  void OfferAhead(StageId stage, int64_t now) {
    if (!Remakes(stage) || remade_[stage.value] >= 0) return;
    const auto s = static_cast<size_t>(stage.value);
    const size_t end = s + 1 < first_.size() ? first_[s + 1] : forward_ends_.size();
    int32_t& lowest = lowest_kept_[s];
    while (Index(stage, lowest) < end && remake_ends_[Index(stage, lowest)] != -1) ++lowest;
    if (Index(stage, lowest) == end || forward_ends_[Index(stage, lowest)] < 0) return;
    remade_[s] = lowest;
    OfferRemake(stage, lowest, now);
  }

  void OfferRemake(StageId stage, int32_t m, int64_t now) {
    remake_ends_[Index(stage, m)] = kOffered;
    Offer(ActionKind::kRecompute, stage, m, now);
  }

  // Offers the stage's forward once all its inputs are available.
  void OfferForward(StageId stage, int32_t m) {
    int64_t there = 0;
    for (const Edge& edge : plan_.graph.In(stage)) {
      const int64_t input = forward_ends_[Index(edge.from, m)];
      if (input < 0) return;
      there = std::max(there, input + Hop(edge.from, stage));
    }
    Offer(ActionKind::kForward, stage, m, there);
  }

  // Offers the stage's backward, or first its R, once its forward and the gradients of its outputs
  // are available.
  void OfferBackward(StageId stage, int32_t m) {
    const int64_t forward = forward_ends_[Index(stage, m)];
    if (forward < 0) return;
    int64_t there = forward;
    for (const Edge& edge : plan_.graph.Out(stage)) {
      const int64_t gradient = gradient_ends_[Index(edge.to, m)];
      if (gradient < 0) return;
      there = std::max(there, gradient + Hop(edge.to, stage));
    }
    if (Remakes(stage)) {
      const int64_t remade = remake_ends_[Index(stage, m)];
      if (remade == -1) OfferRemake(stage, m, std::max(forward, there));
      if (remade < 0) return;
      there = std::max(there, remade);
    }
    for (const ActionKind kind : {ActionKind::kBackward, ActionKind::kInputGradient}) {
      Offer(kind, stage, m, std::max(forward, there));
    }
  }

  using Start = std::tuple<int64_t, int, int64_t>;  // when, rank, stamp

  const Plan& plan_;
  const std::vector<GreedyRule>& rules_;
  const OrderCosts& costs_;
  std::vector<size_t> first_;  // by stage: where its microbatches begin below
  std::vector<RankState> ranks_;
  std::vector<int64_t> forward_ends_;   // by stage and microbatch; -1: not done
  std::vector<int64_t> gradient_ends_;  // ends of its B or I
  static constexpr int64_t kOffered = -2;
  std::vector<int64_t> remake_ends_;  // ends of its R
  std::vector<int32_t> remade_;       // by stage: the microbatch whose R is done ahead; -1: none
  std::vector<int32_t> lowest_kept_;  // by stage: no lower microbatch lacks its R
  std::priority_queue<Start, std::vector<Start>, std::greater<>> starts_;
};

}  // namespace

GreedyOrder OrderGreedily(const Plan& stages, const std::vector<int64_t>& microbatches,
                          const std::vector<GreedyRule>& rules, const OrderCosts& costs) {
  return GreedyRun(stages, microbatches, rules, costs).Run();
}

}  // namespace stringline
