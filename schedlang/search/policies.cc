#include "schedlang/search/policies.h"

#include <algorithm>
#include <cmath>

namespace stringline::search {
namespace {

// What one microbatch takes of the busiest rank.
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

// From the start of an F of the stage to the end of its input gradient, at best.
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

// How many forwards fit in before the first gradient can be there: as many as end before it, or one
// more (`round` 0 or 1); 2: any number.
int32_t WarmUpOf(const Problem& problem, size_t s, int64_t trip, int round) {
  const StageWork& stage = problem.stages[s];
  if (round > 1) return std::max(1, stage.microbatches);
  int64_t forwards = 0;  // one of every stage of the rank
  for (const StageWork& other : problem.stages) {
    if (other.rank == stage.rank) forwards += other.time[kForwardAt];
  }
  const int64_t back = stage.time[problem.split ? kInputAt : kWholeAt];
  const int64_t fit = (trip - back) / std::max<int64_t>(1, forwards) + round;
  return static_cast<int32_t>(std::clamp<int64_t>(fit, 1, std::max(1, stage.microbatches)));
}

// 0 for the rank of a first stage, 1 for the one furthest from all of those.
double RankOnWay(const Problem& problem, int rank) {
  int nearest = problem.stage_count();
  for (int s = 0; s < problem.stage_count(); ++s) {
    if (problem.stages[static_cast<size_t>(s)].rank != rank) continue;
    nearest = std::min(nearest, DepthOf(problem, s));
  }
  return std::min(1.0, static_cast<double>(nearest) / std::max(1, problem.ranks - 1));
}

Policy PolicyOf(const Problem& problem, double hold, double forward, double weight, int round) {
  Policy policy;
  const auto pace = static_cast<double>(PaceOf(problem));
  const std::vector<int64_t> trips = RoundTrips(problem);
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const StageWork& stage = problem.stages[s];
    const double most = std::ceil(hold * static_cast<double>(trips[s]) / pace);
    policy.hold.push_back(
        static_cast<int32_t>(std::clamp<double>(most, 1, std::max(1, stage.microbatches))));
    policy.warm_up.push_back(WarmUpOf(problem, s, trips[s], round));
    policy.delay.push_back(static_cast<int64_t>(forward * static_cast<double>(stage.time[0])));
    policy.delay.push_back(0);
    policy.delay.push_back(0);
    // Whoever gives gradients to many ranks makes them wait.
    const double share = weight < 0 ? -weight * RankOnWay(problem, stage.rank) : weight;
    const auto delay = static_cast<int64_t>(share * static_cast<double>(stage.time[3]));
    // A forward that could start goes before it, but where the rule is to finish first.
    policy.delay.push_back(weight == 0 ? 0 : std::max(delay, policy.delay[4 * s] + 1));
  }
  policy.whole = problem.whole && !problem.split;
  return policy;
}

}  // namespace

std::vector<Policy> PlainPolicies(const Problem& problem) {
  std::vector<Policy> policies;
  const int64_t pace = PaceOf(problem);
  const bool has_pairs = !problem.whole_pairs.empty() || !problem.input_pairs.empty();
  const auto add = [&](Policy policy) {
    policies.push_back(policy);
    if (problem.whole && problem.split) {
      policy.whole = true;
      policies.push_back(policy);
    }
    if (!has_pairs) return;
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
          Policy policy = PolicyOf(problem, hold, paced == 0 ? 0.01 : 0.3, weight, round);
          if (paced == 1) policy.interval = pace;
          if (paced == 2) policy.turn_interval = pace;
          policy.burst = policy.turn_burst = 1;
          add(std::move(policy));
        }
      }
    }
  }
  return policies;
}

namespace {

// Which stages a change is for: one, all, or those that come equally often to their ranks.
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

}  // namespace

Policy Vary(const Problem& problem, Policy policy, Random* random) {
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
