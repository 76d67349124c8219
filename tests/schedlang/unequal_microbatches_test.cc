// Costs of unequal microbatches: their keys, and the times of plans beside formulas and a longest
// path by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/costs/costs.h"
#include "schedlang/costs/formula.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/report/balance.h"
#include "schedlang/report/bounds.h"
#include "schedlang/report/period.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

Plan PlanOfSchedule(const std::string& name, const std::string& parameters) {
  Diagnostics findings;
  const Source source(name, ReadTestFile(absl::StrCat("schedules/", name, ".sched")));
  const auto file = Parse(source, &findings);
  return *Elaborate(*file, "", ParametersOf(parameters), &findings);
}

Plan LoweredSchedule(const std::string& name, const std::string& parameters) {
  return Lower(PlanOfSchedule(name, parameters));
}

CostModel UnequalCosts(const Plan& plan, const std::string& text) {
  const auto spec = ParseCosts(text);
  EXPECT_TRUE(spec.ok()) << spec.status();
  const auto costs = ResolveCosts(*spec, plan);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return *costs;
}

int64_t Makespan(const Plan& plan, const std::string& costs) {
  return MakespanOf(*Simulate(plan, UnequalCosts(plan, costs)));
}

std::string WithFactors(const std::string& costs, const std::vector<double>& factors) {
  return absl::StrCat(costs, ",microbatch=[", absl::StrJoin(factors, ","), "]");
}

std::string FileError(const std::string& text) {
  return std::string(ReadCosts(Source("x.yaml", text)).status().message());
}

// --- keys ----------------------------------------------------------------------------------------

TEST(UnequalMicrobatches, HaveThreeSpellings) {
  using Lengths = std::vector<std::vector<int64_t>>;
  const auto factors = ParseCosts("F=1,microbatch=[1, 1.3,70%],B=2");
  ASSERT_TRUE(factors.ok()) << factors.status();
  EXPECT_EQ(factors->microbatches.lengths, (Lengths{{1'000'000}, {1'300'000}, {700'000}}));
  EXPECT_FALSE(factors->microbatches.in_tokens);
  EXPECT_EQ(factors->values.at("B"), std::vector<int64_t>{2000});
  const Lengths packed = {{4096}, {1024, 3072}, {512}};
  const auto tokens = ParseCosts("microbatch.tokens=[4096,[1024,3072],512],F=1");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->microbatches.lengths, packed);
  EXPECT_TRUE(tokens->microbatches.in_tokens);
  const auto file = ReadCosts(Source("x.yaml", "microbatch: {tokens: [4096, [1024, 3072], 512]}"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->microbatches.lengths, packed);
  EXPECT_EQ(file->microbatches.place, "x.yaml:1: microbatch.tokens");

  const fs::path folder = fs::path(testing::TempDir()) / "unequal_microbatches";
  fs::create_directories(folder);
  std::ofstream(folder / "lengths.txt") << "# tokens\n4096\n1024 3072\n\n512\n";
  std::ofstream(folder / "costs.yaml") << "F: 1\nmicrobatch.tokens: lengths.txt\n";
  const auto read = ReadCostFile((folder / "costs.yaml").string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->microbatches.lengths, packed);
  std::ofstream(folder / "lengths.txt") << "4096\n1024 many\n";
  EXPECT_NE(ReadCostFile((folder / "costs.yaml").string())
                .status()
                .message()
                .find("lengths.txt:2: 'many' is not a number of tokens"),
            std::string::npos);
}

TEST(UnequalMicrobatches, WhatIsNoLengthIsRefused) {
  EXPECT_EQ(FileError("F: 1\nmicrobatch: [1, 0]"),
            "x.yaml:2: microbatch: '0' is too small; a microbatch has some tokens");
  EXPECT_EQ(FileError("microbatch: [1, x]"),
            "x.yaml:1: microbatch: 'x' is not a factor (1.3 or 130%)");
  EXPECT_EQ(FileError("microbatch: []"), "x.yaml:1: microbatch: the list is empty");
  EXPECT_EQ(FileError("microbatch.tokens: [10, 1.5]"),
            "x.yaml:1: microbatch.tokens: '1.5' is not a number of tokens, from 1 to 1000000000");
  EXPECT_EQ(FileError("microbatch.tokens: [[]]"),
            "x.yaml:1: microbatch.tokens: a microbatch has no sequence");
  EXPECT_NE(FileError("microbatch: [1, [2, 3]]").find("'microbatch.tokens: [[1024, 3072], 4096]'"),
            std::string::npos);
  EXPECT_NE(FileError("microbatch: 1.3").find("expected a list with a value for each microbatch"),
            std::string::npos);
  EXPECT_NE(FileError("microbatch: [1]\nmicrobatch.tokens: [1]").find("are given twice"),
            std::string::npos);
  EXPECT_EQ(ParseCosts("microbatch=[1,[2]").status().message(), "microbatch: the list has no ']'");
}

TEST(UnequalMicrobatches, AnotherNumberThanAStepHasIsRefused) {
  const Plan plan = LoweredSchedule("gpipe", "P=2 M=4");
  const auto spec = ReadCosts(Source("x.yaml", "F: 1\nB: 2\nmicrobatch: [1, 2, 3]\n"));
  EXPECT_EQ(ResolveCosts(*spec, plan).status().message(),
            "x.yaml:3: microbatch: a step has 4 microbatches, and 3 are listed; give each its own");
}

TEST(UnequalMicrobatches, AreRefusedWhereCostsAreOfPartsAndInPairs) {
  const Plan plan = LoweredSchedule("gpipe", "P=2 M=2");
  const auto parts = ResolveCosts(*ParseCosts("F.attn=1,B.attn=1,W.attn=1,microbatch=[1,2]"), plan);
  EXPECT_NE(
      parts.status().message().find("microbatch: microbatches are unequal, and costs of parts"),
      std::string::npos)
      << parts.status();
  const CostModel costs = UnequalCosts(plan, "F=1,B=2,I=1,W=1,microbatch=[1,2]");
  EXPECT_NE(search::ProblemOf(plan, costs, {.pairs = true})
                .status()
                .message()
                .find("unequal microbatches (microbatch), and a search makes no pairs"),
            std::string::npos);
  EXPECT_TRUE(search::ProblemOf(plan, costs, {}).ok());
}

// --- times ---------------------------------------------------------------------------------------

struct Cost {
  double ns = 0;
  double attention = 0;
};

// The makespan by a longest path over the lists: `length` is the time of an action, a message takes
// `transfer` of its microbatch in the order of its edge, and `latency`.
class LongestPath {
 public:
  LongestPath(const Plan& plan, std::map<ActionKind, Cost> costs, std::vector<double> factors,
              double transfer_ns, double latency_ns)
      : plan_(plan),
        costs_(std::move(costs)),
        factors_(std::move(factors)),
        transfer_ns_(transfer_ns),
        latency_ns_(latency_ns) {}

  double Run() {
    double makespan_ns = 0;
    // Each pass carries ends one dependency further.
    for (size_t pass = 0; pass <= plan_.actions.size(); ++pass) {
      sent_.clear();
      for (int r = 0; r < plan_.ranks(); ++r) makespan_ns = std::max(makespan_ns, RunRank(r));
    }
    return makespan_ns;
  }

 private:
  using Key = std::tuple<ActionKind, int, int>;

  double RunRank(int r) {
    double now_ns = 0;
    for (const Action& action : plan_.of(RankId(r))) {
      if (!IsCompute(action.kind)) continue;
      const int s = action.stage.value, m = action.microbatch.value;
      const bool forward = action.kind == ActionKind::kForward;
      const StageId from =
          forward ? plan_.graph.Before(action.stage) : plan_.graph.Behind(action.stage);
      if (action.kind != ActionKind::kWeightGradient && from.valid()) {
        now_ns = std::max(now_ns, ArrivesNs(forward, from.value, s, m));
      }
      const double factor = factors_[static_cast<size_t>(m)];
      const Cost& cost = costs_[action.kind];
      now_ns += cost.ns * ((1 - cost.attention) * factor + cost.attention * factor * factor);
      ends_[{action.kind, s, m}] = now_ns;
    }
    return now_ns;
  }

  double ArrivesNs(bool forward, int from, int to, int m) {
    double made_ns = ends_[{forward ? ActionKind::kForward : ActionKind::kBackward, from, m}];
    if (!forward) made_ns = std::max(made_ns, ends_[{ActionKind::kInputGradient, from, m}]);
    if (plan_.stages[static_cast<size_t>(from)].rank ==
        plan_.stages[static_cast<size_t>(to)].rank) {
      return made_ns;
    }
    // Messages of an edge in the order of their microbatches, which these plans keep.
    double& free_ns = sent_[{forward, from}];
    free_ns = std::max(free_ns, made_ns) + transfer_ns_ * factors_[static_cast<size_t>(m)];
    return free_ns + latency_ns_;
  }

  const Plan& plan_;
  std::map<ActionKind, Cost> costs_;
  const std::vector<double> factors_;
  const double transfer_ns_, latency_ns_;
  std::map<Key, double> ends_;
  std::map<std::pair<bool, int>, double> sent_;  // when the edge is free
};

TEST(UnequalMicrobatches, TakeTheLongestPathByHand) {
  std::mt19937 random(7);
  const auto factor = [&random] { return 0.25 * static_cast<double>(1 + random() % 12); };
  for (const char* const name : {"gpipe", "1f1b", "zb_h1", "zb_h2"}) {
    for (const char* const parameters : {"P=2 M=4", "P=3 M=6", "P=4 M=7"}) {
      SCOPED_TRACE(absl::StrCat(name, " ", parameters));
      const Plan plan = LoweredSchedule(name, parameters);
      for (int draw = 0; draw < 4; ++draw) {
        std::vector<double> factors;
        for (int m = 0; m < plan.microbatches; ++m) factors.push_back(factor());
        LongestPath path(plan,
                         {{ActionKind::kForward, {8000, 0.4}},
                          {ActionKind::kBackward, {20'000, 0.4}},
                          {ActionKind::kInputGradient, {12'000, 0.4}},
                          {ActionKind::kWeightGradient, {8000, 0}}},
                         factors, 2000, 500);
        const std::string costs = WithFactors(
            "F=8,I=12,W=8,B=20,attention=40%,p2p=500ns,message=2000B,bandwidth=1GB/s", factors);
        EXPECT_NEAR(static_cast<double>(Makespan(plan, costs)), path.Run(), 2.0 * plan.microbatches)
            << costs;
      }
    }
  }
}

// A row of stages with jobs in one order takes all jobs once, and the longest once a further stage.
TEST(UnequalMicrobatches, TakeWhatAFlowShopTakes) {
  for (const std::vector<double>& factors : std::vector<std::vector<double>>{
           {1, 1, 1, 1}, {3, 1, 1, 1}, {1, 1, 3, 0.5}, {0.5, 1, 2, 4}}) {
    double all = 0;
    for (const double factor : factors) all += factor;
    const double longest = *std::max_element(factors.begin(), factors.end());
    const Plan forwards = LoweredSchedule("inference", "P=3 M=4");
    EXPECT_EQ(Makespan(forwards, WithFactors("F=10", factors)),
              std::llround(10'000 * (all + 2 * longest)));
    const Plan both = LoweredSchedule("gpipe", "P=3 M=4");
    EXPECT_EQ(Makespan(both, WithFactors("F=10,B=20", factors)),
              std::llround(30'000 * (all + 2 * longest)));
  }
}

TEST(UnequalMicrobatches, EqualOnesAreThoseOfOtherCosts) {
  for (const char* const name : {"1f1b", "zb_v", "dualpipe", "pipedream_2bw", "mario"}) {
    SCOPED_TRACE(name);
    const Plan plan = LoweredSchedule(name, "P=4 M=8");
    const size_t count = static_cast<size_t>(plan.microbatches / plan.steps);
    const std::string once = "F=8,I=12,W=8,p2p=3,message=2000B,bandwidth=1GB/s,UPDATE=5";
    const std::string twice = "F=16,I=24,W=16,p2p=3,message=4000B,bandwidth=1GB/s,UPDATE=5";
    const Timeline alike = *Simulate(plan, UnequalCosts(plan, once));
    const auto ones =
        WithFactors(absl::StrCat(once, ",attention=30%"), {std::vector<double>(count, 1)});
    EXPECT_EQ(Print(*Simulate(plan, UnequalCosts(plan, ones))), Print(alike));
    const auto twos = WithFactors(once, std::vector<double>(count, 2));
    EXPECT_EQ(Print(*Simulate(plan, UnequalCosts(plan, twos))),
              Print(*Simulate(plan, UnequalCosts(plan, twice))));
  }
}

TEST(UnequalMicrobatches, PackedSequencesHaveTheirOwnAttention) {
  // A step of one rank: half of F is attention, of the mean microbatch.
  const Plan plan = LoweredSchedule("inference", "P=1 M=3");
  const Timeline step = *Simulate(
      plan, UnequalCosts(plan, "F=12,attention=50%,microbatch.tokens=[8,[4,4],[2,2,2,2]]"));
  std::vector<int64_t> lengths;
  for (const Event& event : step.events) lengths.push_back(event.end_ns - event.start_ns);
  // 64, 32 and 16 in the square, 112 / 3 on average.
  const double mean = 112.0 / 3;
  EXPECT_EQ(lengths, (std::vector<int64_t>{std::llround(6000 + 6000 * 64 / mean),
                                           std::llround(6000 + 6000 * 32 / mean),
                                           std::llround(6000 + 6000 * 16 / mean)}));
  // In slices: each sequence begins anew, and slices add up to their microbatch.
  const Plan sliced = LoweredSchedule("terapipe", "P=1 M=3 K=4");
  const Timeline slices = *Simulate(
      sliced, UnequalCosts(sliced, "F=12,B=0,attention=50%,microbatch.tokens=[8,[4,4],[2,2,2,2]]"));
  std::vector<int64_t> sums(3, 0);
  std::vector<int64_t> of_second;
  for (const Event& event : slices.events) {
    if (event.kind != ActionKind::kForward) continue;
    const int64_t took_ns = event.end_ns - event.start_ns;
    sums[static_cast<size_t>(event.microbatch.value / 4)] += took_ns;
    if (event.microbatch.value / 4 == 1) of_second.push_back(took_ns);
  }
  for (size_t m = 0; m < 3; ++m) EXPECT_NEAR(sums[m], lengths[m], 2);
  EXPECT_EQ(of_second[0], of_second[2]);
  EXPECT_EQ(of_second[1], of_second[3]);
  EXPECT_NEAR(of_second[1] - of_second[0], 6000 * 8 / mean, 1);
}

// Costs of a model's shape are of its context; a sequence of twice the length takes what the shape
// with twice the context says.
TEST(UnequalMicrobatches, AModelsShapeIsOfItsContext) {
  const auto text = [](int context, const std::string& more) {
    return absl::StrCat("model: {kind: llama, layers: 8, width: 1024, heads: 8, context: ", context,
                        ", hidden: 4096, vocabulary: 1000}\ndata: {microbatch: 1}\n",
                        "precision: bf16\nhardware: " STRINGLINE_SOURCE_DIR
                        "/schedlang/costs/hardware/h100.yaml\n",
                        more);
  };
  const Plan plan = LoweredSchedule("1f1b", "P=2 M=2");
  const auto costs = [&](int context, const std::string& more) {
    const auto spec = ReadCosts(Source("x.yaml", text(context, more)));
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *ResolveCosts(*spec, plan);
  };
  const CostModel whole = costs(8192, ""), half = costs(4096, "microbatch.tokens: [8192, 4096]");
  const CostModel twice = costs(4096, "microbatch: [2, 1]");
  const CostModel whole_again = costs(8192, "recompute: 1");
  const CostModel again = costs(4096, "recompute: 1\nmicrobatch.tokens: [8192, 4096]");
  const auto takes_as_long = [](const CostModel& a, const CostModel& b) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
      const Action group[] = {{.kind = kind, .stage = StageId(0), .microbatch = MicrobatchId(0)}};
      const auto expected = static_cast<double>(GroupCost(b, group));
      EXPECT_NEAR(static_cast<double>(GroupCost(a, group)), expected, expected * 1e-3);
    }
  };
  takes_as_long(half, whole);
  takes_as_long(twice, whole);
  takes_as_long(again, whole_again);
  EXPECT_EQ(half.memory[0][MemoryClass::kSavedForInput],
            whole.memory[0][MemoryClass::kSavedForInput]);
  EXPECT_EQ(half.memory[0][MemoryClass::kWeights], whole.memory[0][MemoryClass::kWeights]);
}

TEST(UnequalMicrobatches, AreNumberedThroughPipesAndAnewInEachStep) {
  const std::string factors = "F=10,B=20,microbatch=[1,2,3,4]";
  for (const char* const name : {"chimera", "1f1b"}) {
    for (const int steps : {1, 3}) {
      const Plan plan = Lower(RepeatSteps(PlanOfSchedule(name, "P=2 M=4"), steps));
      ASSERT_EQ(plan.microbatches, 4 * steps);
      const Timeline step = *Simulate(plan, UnequalCosts(plan, factors));
      for (const Event& event : step.events) {
        if (event.kind != ActionKind::kForward) continue;
        const int of_step = plan.microbatches_of(event.stage) / steps;
        const int first =
            plan.pipes.empty() ? 0 : plan.pipes[plan.stage(event.stage).pipe].first_microbatch;
        const int index = first / steps + event.microbatch.value % of_step;
        EXPECT_EQ(event.end_ns - event.start_ns, 10'000 * (index + 1));
      }
    }
  }
}

TEST(UnequalMicrobatches, CopiesAndValuesGrowWithTokens) {
  const Plan plan = LoweredSchedule("1f1b_offload", "P=2 M=4");
  const CostModel costs =
      UnequalCosts(plan,
                   "F=10,B=20,D=6,U=4,memory.saved_for_W=100B,message=8B,memory.weights=50B,"
                   "microbatch=[1,0.5,2.5,1]");
  const Timeline step = *Simulate(plan, costs);
  const double factors[] = {1, 0.5, 2.5, 1};
  for (const Event& event : step.events) {
    const double factor = event.microbatch.valid() ? factors[event.microbatch.value] : 0;
    if (event.kind == ActionKind::kOffload) {
      EXPECT_EQ(event.end_ns - event.start_ns, 6000 * factor);
    }
    if (event.kind == ActionKind::kFetch) {
      EXPECT_EQ(event.end_ns - event.start_ns, 4000 * factor);
    }
  }
  // Values have the size that they have in the largest microbatch.
  EXPECT_EQ(costs.memory[0][MemoryClass::kSavedForWeight], 250);
  EXPECT_EQ(costs.memory[0][MemoryClass::kMessages], 20);
  EXPECT_EQ(costs.memory[0][MemoryClass::kWeights], 50);
}

// --- report --------------------------------------------------------------------------------------

TEST(UnequalMicrobatches, NoStepIsBelowTheBound) {
  std::mt19937 random(11);
  for (const char* const name : {"gpipe", "1f1b", "zb_h1", "zb_v", "inference", "chimera"}) {
    SCOPED_TRACE(name);
    const Plan plan = LoweredSchedule(name, "P=4 M=8");
    for (int draw = 0; draw < 20; ++draw) {
      std::vector<double> factors;
      // First all are short, so that nothing hides a bound of longer messages.
      for (int m = 0; m < 8; ++m) {
        factors.push_back(draw == 0 ? 0.1 : 0.1 * static_cast<double>(1 + random() % 40));
      }
      const CostModel costs = UnequalCosts(
          plan,
          WithFactors("F=8,I=12,W=8,attention=40%,p2p=1,message=4000B,bandwidth=1GB/s", factors));
      EXPECT_LE(LowerBoundOf(plan, costs).makespan_ns, MakespanOf(*Simulate(plan, costs)));
    }
  }
}

TEST(UnequalMicrobatches, BalanceIsThatOfTheListsWrittenSo) {
  const std::string costs = "F=8,I=12,W=8,p2p=1";
  const auto balance_of = [&](const Plan& plan, const std::string& text) {
    const Wiring wiring = WiringOf(plan, CommLayout::kEdge);
    return BalanceOf(plan, wiring, UnequalCosts(plan, text));
  };
  const Plan plan = LoweredSchedule("1f1b", "P=3 M=4");
  EXPECT_FALSE(balance_of(plan, costs).has_value());
  const auto balance = balance_of(plan, WithFactors(costs, {1, 4, 0.5, 2}));
  ASSERT_TRUE(balance.has_value());
  EXPECT_EQ(balance->equal_ns, Makespan(plan, WithFactors(costs, std::vector<double>(4, 1.875))));
  EXPECT_EQ(balance->longest_first_ns, Makespan(plan, WithFactors(costs, {4, 2, 1, 0.5})));
  EXPECT_EQ(balance->shortest_first_ns, Makespan(plan, WithFactors(costs, {0.5, 1, 2, 4})));
  // Two pipes take turns.
  const Plan pipes = LoweredSchedule("chimera", "P=2 M=4");
  const auto turns = balance_of(pipes, WithFactors(costs, {1, 4, 0.5, 2}));
  EXPECT_EQ(turns->longest_first_ns, Makespan(pipes, WithFactors(costs, {4, 1, 2, 0.5})));
}

}  // namespace
}  // namespace stringline
