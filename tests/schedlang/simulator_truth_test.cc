// The simulator against a model that goes from moment to moment, on random plans with random costs,
// layouts and buffers. Invariants of all: causes add up, no time beats its lower bound, and a
// shorter duration never makes a step longer.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/replay.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/bounds.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/random_plan.h"
#include "tests/schedlang/slow_model.h"

namespace stringline {
namespace {

constexpr uint64_t kSeed = 20261121;

struct RandomCase {
  Plan plan;  // lowered
  CommLayout layout = CommLayout::kEdge;
  int receive_buffers = 0;
  CostModel costs;

  Timeline Simulated() const {
    return *Simulate(plan, WiringOf(plan, layout, receive_buffers), costs);
  }
};

std::vector<int64_t> RandomCosts(std::mt19937_64& random, size_t stages, int64_t most) {
  std::vector<int64_t> costs;
  for (size_t s = 0; s < stages; ++s) costs.push_back(static_cast<int64_t>(Below(random, most)));
  return costs;
}

// `sharing`: some of its messages share two links.
RandomCase MakeRandomCase(std::mt19937_64& random, bool sharing = false) {
  RandomCase made;
  made.layout = static_cast<CommLayout>(Below(random, kCommLayouts));
  Plan plan = RandomRightPlan(random, 6, 4, /*copies=*/true, /*edges=*/Below(random, 3) == 0);
  if (Below(random, 3) == 0) plan = AddCollectives(plan, 1 + static_cast<int>(Below(random, 3)));
  made.plan = Lower(plan, made.layout);
  int need = 1;
  for (const int buffers : ReceiveBuffersOf(made.plan)) need = std::max(need, buffers);
  if (Below(random, 2) == 0) made.receive_buffers = need + static_cast<int>(Below(random, 3));
  const size_t stages = plan.stages.size();
  CostModel& costs = made.costs;
  costs.forward = RandomCosts(random, stages, 20);
  costs.backward = RandomCosts(random, stages, 40);
  costs.input_gradient = RandomCosts(random, stages, 20);
  costs.weight_gradient = RandomCosts(random, stages, 20);
  costs.recompute = RandomCosts(random, stages, 20);
  costs.offload = RandomCosts(random, stages, 30);
  costs.fetch = RandomCosts(random, stages, 30);
  if (Below(random, 2) == 0) costs.forward_backward = RandomCosts(random, stages, 50);
  if (Below(random, 2) == 0) costs.unshard = RandomCosts(random, stages, 30);
  if (Below(random, 2) == 0) costs.reduce = RandomCosts(random, stages, 30);
  if (Below(random, 3) > 0) {
    for (size_t s = 0; s < stages; ++s) {
      const size_t first = plan.pipes.empty() ? s : s % static_cast<size_t>(plan.pipes[0].stages);
      costs.buckets.push_back(first < s ? costs.buckets[first]
                                        : 1 + static_cast<int64_t>(Below(random, 6)));
    }
  }
  costs.hop = static_cast<int64_t>(Below(random, 15));
  if (Below(random, 2) == 0) {
    for (auto* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
      for (size_t k = 0; k < plan.graph.edges().size(); ++k) {
        const bool shared = sharing && Below(random, 3) > 0;
        hops->push_back({static_cast<int64_t>(Below(random, 10)),
                         static_cast<int64_t>(Below(random, 25)),
                         shared ? static_cast<int32_t>(Below(random, 2)) : -1});
      }
    }
  }
  return made;
}

TEST(SimulatorTruth, EqualsTheSlowModel) {
  std::mt19937_64 random(kSeed);
  int64_t events = 0;
  for (int n = 0; n < 10'000; ++n) {
    const RandomCase made = MakeRandomCase(random, n % 2 == 1);
    const SlowTimes slow = RunSlowly(made.plan, made.costs, made.layout, made.receive_buffers);
    ASSERT_TRUE(slow.ends) << Print(made.plan);
    const auto fast =
        Simulate(made.plan, WiringOf(made.plan, made.layout, made.receive_buffers), made.costs);
    ASSERT_TRUE(fast.ok()) << Print(made.plan);
    for (uint32_t i = 0; i < made.plan.actions.size(); ++i) {
      const Event& event = fast->events[i];
      ASSERT_TRUE(event.start_ns == slow.start_ns[i] && event.end_ns == slow.end_ns[i])
          << "seed " << kSeed << ", plan " << n << ", layout " << NameOf(made.layout)
          << ", buffers " << made.receive_buffers << ": " << Print(made.plan, made.plan.actions[i])
          << " at " << event.start_ns << " .. " << event.end_ns << ", slowly " << slow.start_ns[i]
          << " .. " << slow.end_ns[i] << "\n"
          << Print(made.plan);
      ++events;
    }
  }
  std::cout << "10000 random plans, " << events << " events, seed " << kSeed << "\n";
  EXPECT_GT(events, 300'000);
}

// Waits for some of the sends and reductions: most behind them, some before.
std::vector<ListedWait> RandomWaits(const Plan& plan, std::mt19937_64& random) {
  std::vector<ListedWait> waits;
  const size_t one_in = 1 + Below(random, 4);
  for (int r = 0; r < plan.ranks(); ++r) {
    const uint32_t first = plan.first[r], last = plan.first[r + 1];
    for (uint32_t i = first; i < last; ++i) {
      const ActionKind kind = plan.actions[i].kind;
      if (!IsSend(kind) && kind != ActionKind::kReduceGrad) continue;
      if (Below(random, one_in) != 0) continue;
      const uint32_t from = Below(random, 60) == 0 ? first : i + 1;
      uint32_t before = from + static_cast<uint32_t>(Below(random, last - from + 1));
      while (before < last && plan.actions[before].joined) ++before;
      waits.push_back({RankId(r), before, i});
    }
  }
  std::stable_sort(waits.begin(), waits.end(), [](const ListedWait& a, const ListedWait& b) {
    return std::pair(a.rank, a.before) < std::pair(b.rank, b.before);
  });
  return waits;
}

// Lists performed in order, with waits for sends: the same times, and the same ones never end.
TEST(SimulatorTruth, EqualsTheSlowModelWhereMessagesAreIssuedAsWritten) {
  std::mt19937_64 random(kSeed + 6);
  int ended = 0, hung = 0, later = 0;
  for (int n = 0; n < 6'000; ++n) {
    const RandomCase made = MakeRandomCase(random, n % 2 == 1);
    const std::vector<ListedWait> waits = RandomWaits(made.plan, random);
    const Wiring wiring = WiringAsWritten(made.plan, made.layout, made.receive_buffers, waits);
    const SlowTimes slow =
        RunSlowly(made.plan, made.costs, made.layout, made.receive_buffers, &waits);
    const auto fast = Simulate(made.plan, wiring, made.costs);
    const std::string what = absl::StrCat("seed ", kSeed + 6, ", plan ", n, ", layout ",
                                          NameOf(made.layout), "\n", Print(made.plan));
    ASSERT_EQ(fast.ok(), slow.ends) << what;
    if (!fast.ok()) {
      ++hung;
      const Timeline until = SimulateAsFarAsItGoes(made.plan, wiring, made.costs);
      for (uint32_t i = 0; i < made.plan.actions.size(); ++i) {
        // Gathers and copies behind a stuck action.
        if (IsCollective(made.plan.actions[i].kind) || IsCopy(made.plan.actions[i].kind)) continue;
        ASSERT_EQ(until.events[i].end_ns, slow.end_ns[i])
            << Print(made.plan, made.plan.actions[i]) << "\n"
            << what;
      }
      continue;
    }
    ++ended;
    for (uint32_t i = 0; i < made.plan.actions.size(); ++i) {
      const Event& event = fast->events[i];
      ASSERT_TRUE(event.start_ns == slow.start_ns[i] && event.end_ns == slow.end_ns[i])
          << Print(made.plan, made.plan.actions[i]) << " at " << event.start_ns << " .. "
          << event.end_ns << ", slowly " << slow.start_ns[i] << " .. " << slow.end_ns[i] << "\n"
          << what;
    }
    const Analysis analysis = Analyze(made.plan, *fast, wiring);
    later += analysis.makespan_ns > Analyze(made.plan, made.Simulated()).makespan_ns ? 1 : 0;
    const Bubbles bubbles = MeasureBubbles(*fast);
    for (int r = 0; r < made.plan.ranks(); ++r) {
      int64_t idle_ns = 0;
      for (const int64_t ns : analysis.causes[r]) idle_ns += ns;
      ASSERT_EQ(idle_ns, bubbles.ranks[r].idle_ns) << what;
      ASSERT_EQ(analysis.causes[r][static_cast<int>(IdleCause::kOther)], 0) << what;
    }
  }
  std::cout << ended << " plans end, " << later << " of them later than with early messages, "
            << hung << " hang\n";
  EXPECT_GT(ended, 2'000);
  EXPECT_GT(later, 300);
  EXPECT_GT(hung, 300);
}

// Puts every reduction somewhere behind the last computation of its stage.
Plan WithReductionsAnywhere(const Plan& plan, std::mt19937_64& random) {
  RankLists lists;
  for (int r = 0; r < plan.ranks(); ++r) {
    std::vector<Action> list, reductions;
    for (const Action& action : plan.of(RankId(r))) {
      (action.kind == ActionKind::kReduceGrad ? reductions : list).push_back(action);
    }
    for (const Action& reduction : reductions) {
      size_t last = list.size();
      while (!IsCompute(list[last - 1].kind) || list[last - 1].stage != reduction.stage) --last;
      last += Below(random, list.size() - last + 1);
      while (last < list.size() && list[last].joined) ++last;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(last), reduction);
    }
    lists.push_back(std::move(list));
  }
  Plan moved = plan;
  PutLists(lists, &moved);
  return moved;
}

// Reductions in any order, with gathers among them: the checker says which plans end.
TEST(SimulatorTruth, ReductionsEndWhenTheCheckerSaysSo) {
  std::mt19937_64 random(kSeed + 4);
  int ended = 0, named = 0, gathered = 0;
  for (int n = 0; n < 10'000; ++n) {
    RandomCase made = MakeRandomCase(random);
    if (made.plan.pipes.empty()) continue;
    made.plan = WithReductionsAnywhere(made.plan, random);
    Diagnostics diagnostics;
    const bool right = Check(made.plan, {.layout = made.layout}, &diagnostics);
    const std::string what = absl::StrCat("seed ", kSeed + 4, ", plan ", n, "\n", Print(made.plan),
                                          NameOf(made.layout), "\n");
    const SlowTimes slow = RunSlowly(made.plan, made.costs, made.layout, made.receive_buffers);
    const auto fast =
        Simulate(made.plan, WiringOf(made.plan, made.layout, made.receive_buffers), made.costs);
    ASSERT_EQ(fast.ok(), right) << what << fast.status();
    ASSERT_EQ(slow.ends, right) << what;
    ASSERT_EQ(Ends(made.plan, made.layout), right) << what;
    if (!right) {
      const bool names = fast.status().message().find("REDUCE_GRAD") != std::string::npos;
      ++(names ? named : gathered);
      continue;
    }
    ++ended;
    for (uint32_t i = 0; i < made.plan.actions.size(); ++i) {
      const Event& event = fast->events[i];
      ASSERT_TRUE(event.start_ns == slow.start_ns[i] && event.end_ns == slow.end_ns[i])
          << what << Print(made.plan, made.plan.actions[i]);
    }
  }
  std::cout << ended << " plans end, in " << named << " reductions form a cycle, in " << gathered
            << " gathers and reductions, seed " << kSeed + 4 << "\n";
  EXPECT_GT(ended, 500);
  EXPECT_GT(named, 100);
  EXPECT_GT(gathered, 10);
}

TEST(SimulatorTruth, CausesAddUp) {
  std::mt19937_64 random(kSeed + 1);
  std::array<int64_t, kIdleCauses> sums = {};
  for (int n = 0; n < 3'000; ++n) {
    const RandomCase made = MakeRandomCase(random);
    const Timeline timeline = made.Simulated();
    const Analysis analysis = Analyze(made.plan, timeline, made.receive_buffers);
    for (int r = 0; r < made.plan.ranks(); ++r) {
      int64_t work_ns = 0, idle_ns = 0;
      for (uint32_t i = made.plan.first[r]; i < made.plan.first[r + 1]; ++i) {
        const Event& event = timeline.events[i];
        if (IsCompute(event.kind) && !event.joined) work_ns += event.worked_ns();
      }
      for (int c = 0; c < kIdleCauses; ++c) {
        idle_ns += analysis.causes[r][c];
        sums[c] += analysis.causes[r][c];
      }
      ASSERT_EQ(work_ns + idle_ns, analysis.makespan_ns) << "seed " << kSeed + 1 << ", plan " << n;
    }
    int64_t path_ns = 0;  // the critical path has no holes
    for (size_t k = 0; k < analysis.critical.size(); ++k) {
      const Event& event = timeline.events[analysis.critical[k]];
      if (k + 1 < analysis.critical.size()) {
        const Event& next = timeline.events[analysis.critical[k + 1]];
        ASSERT_LE(event.start_ns, next.start_ns);
        ASSERT_GE(event.end_ns, next.start_ns) << "seed " << kSeed + 1 << ", plan " << n;
        path_ns += next.start_ns - event.start_ns;
      } else {
        path_ns += event.end_ns - event.start_ns;
      }
    }
    ASSERT_EQ(path_ns, analysis.makespan_ns) << "seed " << kSeed + 1 << ", plan " << n;
  }
  for (int c = 0; c < kIdleCauses; ++c) {
    const bool expected = static_cast<IdleCause>(c) != IdleCause::kOther;
    EXPECT_EQ(sums[c] > 0, expected) << NameOf(static_cast<IdleCause>(c));
  }
}

TEST(SimulatorTruth, NothingIsBelowTheBound) {
  std::mt19937_64 random(kSeed + 3);
  int reached = 0;
  for (int n = 0; n < 5'000; ++n) {
    const RandomCase made = MakeRandomCase(random);
    const int64_t bound_ns = LowerBoundOf(made.plan, made.costs).makespan_ns;
    const int64_t makespan_ns = Analyze(made.plan, made.Simulated()).makespan_ns;
    ASSERT_LE(bound_ns, makespan_ns) << "seed " << kSeed + 3 << ", plan " << n << "\n"
                                     << Print(made.plan);
    reached += bound_ns == makespan_ns;
  }
  EXPECT_GT(reached, 100);  // the bound is reached, so it is tight
}

TEST(SimulatorTruth, ShorterNeverMakesLonger) {
  std::mt19937_64 random(kSeed + 2);
  for (int n = 0; n < 5'000; ++n) {
    RandomCase made = MakeRandomCase(random);
    CostModel& costs = made.costs;
    const auto lists = {
        &costs.forward,          &costs.backward, &costs.input_gradient, &costs.weight_gradient,
        &costs.forward_backward, &costs.unshard,  &costs.reduce,         &costs.recompute,
        &costs.offload,          &costs.fetch};
    // All times are multiples of 60: up to six buckets of a time are then equal.
    for (auto* const list : lists) {
      for (int64_t& ns : *list) ns *= 60;
    }
    const int64_t before_ns = Analyze(made.plan, made.Simulated()).makespan_ns;
    const size_t stage = Below(random, made.plan.stages.size());
    const auto cut = [&](int64_t* ns) {
      *ns = 60 * static_cast<int64_t>(Below(random, *ns / 60 + 1));
    };
    for (auto* const list : lists) {
      if (!list->empty() && Below(random, 2) == 0) cut(&(*list)[stage]);
    }
    cut(&costs.hop);
    for (auto* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
      if (hops->empty()) continue;
      Hop& hop = (*hops)[Below(random, hops->size())];
      cut(&hop.latency_ns);
      cut(&hop.transfer_ns);
    }
    ASSERT_LE(Analyze(made.plan, made.Simulated()).makespan_ns, before_ns)
        << "seed " << kSeed + 2 << ", plan " << n << "\n"
        << Print(made.plan);
  }
}

}  // namespace
}  // namespace stringline
