// Rules are made of a few figures of the problem: the pace of its busiest rank, and the round trip
// of a microbatch from each stage. Building blocks have delays in slots of the shortest letter.
#include "schedlang/search/policies.h"

#include <algorithm>
#include <cmath>

namespace stringline::search {
namespace {

// The busiest rank's work on a microbatch.
int64_t PaceOf(const Problem& problem) {
  int64_t pace = 1;
  for (int r = 0; r < problem.ranks; ++r) {
    int64_t most = 1;
    for (const StageWork& stage : problem.stages) {
      if (stage.rank == r) most = std::max<int64_t>(most, stage.microbatches);
    }
    pace = std::max(pace, LeastWork(problem, r) / most);
  }
  return pace;
}

// The least time from the start of an F of the stage to the end of its input gradient.
std::vector<int64_t> RoundTrips(const Problem& problem) {
  std::vector<int64_t> trips;
  for (const StageWork& from : problem.stages) {
    int64_t ns = 0;
    const StageWork* stage = &from;
    while (true) {
      ns += stage->time[kForwardAt] + stage->time[problem.split ? kInputAt : kWholeAt];
      if (stage->next < 0) break;
      const StageWork& next = problem.stages[static_cast<size_t>(stage->next)];
      if (next.rank != stage->rank) ns += stage->activation.all() + next.gradient.all();
      stage = &next;
    }
    trips.push_back(ns);
  }
  return trips;
}

// Figures of the problem that all rules share.
struct Ways {
  int64_t pace = 0;
  std::vector<int64_t> trips;     // by stage
  std::vector<int64_t> forwards;  // by rank: one of every stage of the rank
  // By rank: 0 for the rank of a first stage, 1 for the rank furthest from all first stages.
  std::vector<double> on_way;
};

Ways WaysOf(const Problem& problem) {
  const auto ranks = static_cast<size_t>(problem.ranks);
  Ways ways{PaceOf(problem), RoundTrips(problem), std::vector<int64_t>(ranks, 0), {}};
  std::vector<int> nearest(ranks, problem.stage_count());
  for (int first = 0; first < problem.stage_count(); ++first) {
    if (problem.stages[static_cast<size_t>(first)].previous >= 0) continue;
    for (int s = first, depth = 0; s >= 0; ++depth) {
      const StageWork& stage = problem.stages[static_cast<size_t>(s)];
      const auto rank = static_cast<size_t>(stage.rank);
      nearest[rank] = std::min(nearest[rank], depth);
      ways.forwards[rank] += stage.time[kForwardAt];
      s = stage.next;
    }
  }
  for (const int depth : nearest) {
    ways.on_way.push_back(
        std::min(1.0, static_cast<double>(depth) / std::max(1, problem.ranks - 1)));
  }
  return ways;
}

// The number of forwards before the first gradient can arrive: as many as end before it, or one
// more (`round` 0 or 1); 2: any number.
int32_t WarmUpOf(const Problem& problem, const Ways& ways, size_t s, int round) {
  const StageWork& stage = problem.stages[s];
  if (round > 1) return std::max(1, stage.microbatches);
  const int64_t forwards = ways.forwards[static_cast<size_t>(stage.rank)];
  const int64_t back = stage.time[problem.split ? kInputAt : kWholeAt];
  const int64_t fit = (ways.trips[s] - back) / std::max<int64_t>(1, forwards) + round;
  return static_cast<int32_t>(std::clamp<int64_t>(fit, 1, std::max(1, stage.microbatches)));
}

Policy PolicyOf(const Problem& problem, const Ways& ways, double hold, double forward,
                double weight, int round) {
  Policy policy;
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const StageWork& stage = problem.stages[s];
    const double most =
        std::ceil(hold * static_cast<double>(ways.trips[s]) / static_cast<double>(ways.pace));
    policy.hold.push_back(
        static_cast<int32_t>(std::clamp<double>(most, 1, std::max(1, stage.microbatches))));
    policy.warm_up.push_back(WarmUpOf(problem, ways, s, round));
    policy.delay.push_back(static_cast<int64_t>(forward * static_cast<double>(stage.time[0])));
    policy.delay.push_back(0);
    policy.delay.push_back(0);
    // A rank whose gradients many ranks wait for delays its W.
    const double share =
        weight < 0 ? -weight * ways.on_way[static_cast<size_t>(stage.rank)] : weight;
    const auto delay = static_cast<int64_t>(share * static_cast<double>(stage.time[3]));
    // A possible forward precedes a W, unless the rule finishes microbatches first.
    policy.delay.push_back(weight == 0 ? 0 : std::max(delay, policy.delay[4 * s] + 1));
  }
  policy.whole = problem.whole && !problem.split;
  return policy;
}

// The slots of a block are as long as the shortest letter of the problem.
int64_t SlotOf(const Problem& problem, ActionKind back) {
  int64_t shortest = kNoLimit;
  for (const StageWork& stage : problem.stages) {
    for (const size_t kind : {kForwardAt, Index(back)}) {
      if (stage.time[kind] > 0) shortest = std::min(shortest, stage.time[kind]);
    }
  }
  return shortest;
}

// The turns of the stages that share a rank, in the order of a microbatch's way; and their number.
std::vector<int> TurnsOf(const Problem& problem) {
  std::vector<int> turns;
  for (int s = 0; s < problem.stage_count(); ++s) {
    turns.push_back(DepthOf(problem, s) / std::max(1, problem.ranks));
  }
  return turns;
}

// Blocks without delays, and with delays of one turn's F, and of the gradients of the next one, on
// a part of the ranks: their memory lies between the least and that of no bubble.
void AddBlocks(const Problem& problem, const Ways& ways, bool whole,
               std::vector<Policy>* policies) {
  Policy plain = PolicyOf(problem, ways, 1, 0, 1.0, 2);
  plain.whole = whole;
  const ActionKind back = BackOf(problem, plain);
  const int64_t slot = SlotOf(problem, back);
  const std::vector<int> turns = TurnsOf(problem);
  const int last_turn = *std::max_element(turns.begin(), turns.end());
  for (const double stretch : {1.0, 1.05, 1.1, 1.2, 1.35}) {
    plain.block = BuildingBlock{stretch, std::vector<int64_t>(problem.stages.size() * 4, 0)};
    policies->push_back(plain);
    if (stretch > 1.0) continue;
    for (const int64_t slots : {1, 4}) {
      for (const double share : {0.25, 0.5, 0.75, 1.0}) {
        Policy delayed = plain;
        for (size_t s = 0; s < problem.stages.size(); ++s) {
          const double on_way = ways.on_way[static_cast<size_t>(problem.stages[s].rank)];
          if (on_way > share || problem.stages[s].previous < 0) continue;
          const int first = static_cast<int>(s);
          if (turns[s] % 2 == 0) {
            delayed.block->delay[LetterOf(ActionKind::kForward, first)] = slots * slot;
          }
          if (turns[s] % 2 == last_turn % 2 && last_turn > 0) {
            delayed.block->delay[LetterOf(back, first)] = slots * slot;
          }
        }
        policies->push_back(std::move(delayed));
      }
    }
  }
}

}  // namespace

std::vector<Policy> PlainPolicies(const Problem& problem) {
  std::vector<Policy> policies;
  const Ways ways = WaysOf(problem);
  const bool has_pairs = !problem.whole_pairs.empty() || !problem.input_pairs.empty();
  const auto add = [&](Policy policy) {
    policies.push_back(policy);
    if (problem.whole && problem.split) {
      policy.whole = true;
      policies.push_back(policy);
    }
    if (!has_pairs || policy.mirrored) return;
    policy.pairs = true;
    policies.push_back(policy);
    policy.whole = false;
    if (problem.split) policies.push_back(policy);
  };
  for (const double hold : {1.5, 1.0, 2.0, 1.2, 3.0, 0.7, 1e9}) {
    for (const double weight : {1.0, -1.0, -0.5, -0.2, 0.0}) {
      for (const int round : {2, 0, 1}) {
        for (const int paced : {0, 1, 2}) {
          if (weight < 1.0 && paced > 0) continue;
          if (weight == 0.0 && round < 2) continue;
          Policy policy = PolicyOf(problem, ways, hold, paced == 0 ? 0.01 : 0.3, weight, round);
          if (paced == 1) policy.interval = ways.pace;
          if (paced == 2) policy.turn_interval = ways.pace;
          policy.burst = policy.turn_burst = 1;
          add(policy);
          if (weight < 1.0) continue;
          policy.mirrored = true;
          add(std::move(policy));
        }
      }
    }
  }
  if (problem.stages.empty()) return policies;
  if (problem.split) AddBlocks(problem, ways, /*whole=*/false, &policies);
  if (problem.whole) AddBlocks(problem, ways, /*whole=*/true, &policies);
  return policies;
}

namespace {

// The stages of a change: a single stage, all, or those with the same turn on their ranks.
std::vector<size_t> DrawStages(const Problem& problem, Random* random) {
  const auto count = static_cast<size_t>(problem.stage_count());
  const auto one = static_cast<size_t>(random->Below(problem.stage_count()));
  const int64_t which = random->Below(3);
  std::vector<size_t> stages;
  for (size_t s = 0; s < count; ++s) {
    const auto ranks = static_cast<size_t>(problem.ranks);
    if (which == 1 || (which == 2 && s / ranks == one / ranks) || s == one) stages.push_back(s);
  }
  return stages;
}

// Another interval of the block, or other delays of a kind on some of the ranks.
void VaryBlock(const Problem& problem, const Policy& policy, BuildingBlock* block, Random* random) {
  if (random->OneIn(6)) {
    block->stretch = random->OneIn(2) ? 1 : 1 + 0.4 * random->Share() * random->Share();
    return;
  }
  const ActionKind back = BackOf(problem, policy);
  const ActionKind kind = random->OneIn(2) ? ActionKind::kForward : back;
  const int64_t slot = SlotOf(problem, back);
  const int64_t delay =
      random->OneIn(3) ? static_cast<int64_t>(random->Share() * 3.0 * static_cast<double>(slot))
                       : random->Below(6) * slot;
  const std::vector<int> turns = TurnsOf(problem);
  const int turn = turns[static_cast<size_t>(random->Below(problem.stage_count()))];
  const int64_t from = random->Below(problem.ranks), to = random->Below(problem.ranks);
  for (int s = 0; s < problem.stage_count(); ++s) {
    const int rank = problem.stages[static_cast<size_t>(s)].rank;
    if (turns[static_cast<size_t>(s)] != turn || rank < std::min(from, to)) continue;
    if (rank <= std::max(from, to)) block->delay[LetterOf(kind, s)] = delay;
  }
}

}  // namespace

Policy Vary(const Problem& problem, Policy policy, Random* random) {
  if (policy.block && !random->OneIn(4)) {
    VaryBlock(problem, policy, &*policy.block, random);
    return policy;
  }
  const int changes = 1 + static_cast<int>(random->Below(2));
  for (int change = 0; change < changes; ++change) {
    const int64_t what = random->Below(10);
    if (what < 4) {  // more or fewer microbatches under way
      const int32_t by = (random->OneIn(2) ? 1 : -1) * (random->OneIn(3) ? 2 : 1);
      const bool warm_up = random->OneIn(2);
      for (const size_t s : DrawStages(problem, random)) {
        const int32_t most = std::max(1, problem.stages[s].microbatches);
        int32_t& number = warm_up ? policy.warm_up[s] : policy.hold[s];
        number = std::clamp(number + by, 1, most);
      }
    } else if (what < 8) {  // a kind waits shorter or longer
      const size_t kinds[] = {kForwardAt, kWeightAt, kInputAt, kForwardAt};
      const size_t kind = kinds[random->Below(4)];
      const double share = random->Share() * (kind == kInputAt ? 0.3 : 1.2);
      for (const size_t s : DrawStages(problem, random)) {
        const auto time = static_cast<double>(problem.stages[s].time[kind]);
        policy.delay[4 * s + kind] = static_cast<int64_t>(share * time);
        if (kind == kInputAt) policy.delay[4 * s + kWholeAt] = policy.delay[4 * s + kind];
      }
    } else if (what == 8) {
      const auto pace = static_cast<double>(PaceOf(problem));
      const auto interval = static_cast<int64_t>(pace * (0.8 + 0.3 * random->Share()));
      const auto burst = 1 + static_cast<int32_t>(random->Below(problem.ranks * 2));
      const bool turn = random->OneIn(2);
      (turn ? policy.turn_interval : policy.interval) = random->OneIn(3) ? 0 : interval;
      (turn ? policy.turn_burst : policy.burst) = burst;
    } else if (problem.whole && problem.split && random->OneIn(2)) {
      policy.whole = !policy.whole;
    } else if (!problem.whole_pairs.empty() || !problem.input_pairs.empty()) {
      policy.pairs = !policy.pairs;
    }
  }
  return policy;
}

}  // namespace stringline::search
