// The flat problem against the simulator, over the library: words and plans say the same, and times
// are the same to the nanosecond.
#include "schedlang/search/problem.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"

namespace stringline::search {
namespace {

struct LibraryCase {
  const char* schedule;
  int p, m;
};
const LibraryCase kCases[] = {{"gpipe", 4, 8},       {"1f1b", 4, 8},
                              {"zb_h1", 4, 9},       {"zb_h2", 4, 12},
                              {"zb_v", 3, 7},        {"v_half", 4, 8},
                              {"v_min", 4, 8},       {"interleaved", 4, 8},
                              {"dualpipe_v", 4, 10}, {"megatron_combined", 2, 6},
                              {"hanayo", 2, 4},      {"chimera", 4, 8},
                              {"dualpipe", 4, 12}};

Plan PlanOfCase(const LibraryCase& c) {
  return *PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", c.schedule, c.p, c.m);
}

CostSpec SpecOf(const Plan& plan, const std::string& more) {
  CostSpec spec = *ParseCosts("I=900us,W=700us,B=1500us,FB=2400us" + more);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    spec.values["F"].push_back(1'000'000 + 37'000 * static_cast<int64_t>(s % 5));
  }
  return spec;
}

TEST(ProblemTest, TimesAreTheSimulators) {
  for (const LibraryCase& c : kCases) {
    for (const char* const links : {"", ",p2p=130us", ",p2p=20us,message=64MiB,bandwidth=40GB/s"}) {
      SCOPED_TRACE(std::string(c.schedule) + links);
      const Plan plan = PlanOfCase(c);
      const auto costs = ResolveCosts(SpecOf(plan, links), plan);
      ASSERT_TRUE(costs.ok()) << costs.status();
      const auto problem = ProblemOf(plan, *costs, {.pairs = true});
      ASSERT_TRUE(problem.ok()) << problem.status();
      const auto words = WordsOf(plan);
      ASSERT_TRUE(words.ok()) << words.status();
      EXPECT_TRUE(IsComplete(*problem, *words));
      const auto timeline = Simulate(plan, *costs);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      const Bubbles bubbles = MeasureBubbles(*timeline);
      const Times times = TimesOf(*problem, *words);
      EXPECT_EQ(times.makespan, bubbles.makespan_ns);
      EXPECT_EQ(times.span, bubbles.span_ns);
    }
  }
}

// At costs of parts a pair takes the time of its parts side by side, and an action in chunks that
// of its chunks; whatever pairs the plan of the stages has.
TEST(ProblemTest, TimesOfPartsAreTheSimulators) {
  const char* const kParts =
      "F.attn=6ms,F.dispatch=5ms,F.experts=4ms,F.combine=5ms,F.post=1ms,B.attn=6ms,B.dispatch=5ms,"
      "B.experts=4ms,B.combine=5ms,W.attn=3ms,W.experts=3ms,slowdown=10%,layers=2";
  for (const LibraryCase& c : kCases) {
    for (const int chunks : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(c.schedule, ", chunks ", chunks));
      Plan plan = PlanOfCase(c);
      plan.chunks = chunks;
      const auto costs = ResolveCosts(*ParseCosts(kParts), plan);
      ASSERT_TRUE(costs.ok()) << costs.status();
      Plan stages = plan;
      stages.actions.clear();
      stages.first.assign(stages.first.size(), 0);
      const auto of_stages = ResolveCosts(*ParseCosts(kParts), stages);
      ASSERT_TRUE(of_stages.ok()) << of_stages.status();
      const auto problem = ProblemOf(stages, *of_stages, {.pairs = true});
      ASSERT_TRUE(problem.ok()) << problem.status();
      const auto words = WordsOf(plan);
      ASSERT_TRUE(words.ok()) << words.status();
      EXPECT_TRUE(IsComplete(*problem, *words));
      const auto timeline = Simulate(plan, *costs);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      EXPECT_EQ(TimesOf(*problem, *words).makespan, MeasureBubbles(*timeline).makespan_ns);
    }
  }
}

TEST(ProblemTest, PairsNeedPartsOfEachOfTheirKinds) {
  const Plan plan = PlanOfCase({"zb_h1", 2, 3});
  const auto costs = ResolveCosts(*ParseCosts("F.attn=6ms,B.attn=5ms,W=3ms"), plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(ProblemOf(plan, *costs, {.whole = true, .pairs = true}).status().message(),
            "pairs take the time of their parts, but of W there is no cost of a part; give them, "
            "or FB");
  EXPECT_TRUE(ProblemOf(plan, *costs, {.whole = false, .pairs = true}).ok());
  EXPECT_TRUE(ProblemOf(plan, *costs, {.whole = true}).ok());
}

// An order needs no more in the problem than its plan takes in memory: no order that fits is
// refused. Messages are large and of all sizes.
TEST(ProblemTest, AnOrderFitsIntoWhatItsPlanTakes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int n = 0; n < 300; ++n) {
    const int p = 1 + static_cast<int>(random() % 3), m = 1 + static_cast<int>(random() % 4);
    const char* const schedules[] = {"1f1b", "gpipe", "zb_h1"};
    const Plan plan = PlanOfCase({schedules[random() % 3], p, m});
    CostModel costs = *ResolveCosts(UnitCosts(), plan);
    costs.memory.resize(plan.stages.size());
    for (StageMemory& memory : costs.memory) {
      for (const MemoryClass of : {MemoryClass::kSavedForInput, MemoryClass::kSavedForWeight,
                                   MemoryClass::kStash, MemoryClass::kMessages}) {
        memory[of] = static_cast<int64_t>(random() % 4'000);
      }
    }
    const auto memory = PlanMemory(plan, SizesOfCosts(plan, costs.memory));
    ASSERT_TRUE(memory.ok()) << memory.status();
    Limits limits;
    for (const RankMemory& rank : memory->ranks) limits.memory.push_back(rank.all());
    const auto problem = ProblemOf(plan, costs, limits);
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_TRUE(IsComplete(*problem, *WordsOf(plan))) << Print(plan);
  }
}

// Stages of all sorts of sizes, two of them on rank 0: what is always there leaves a rank so much
// less, and an action holds what it takes, gives and makes again.
TEST(ProblemTest, BytesAreThoseOfTheCosts) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1 0\nrank 0: 0F0 2F0 2B0 0B0\nrank 1: 1F0 1B0\n");
  CostModel costs = *ResolveCosts(UnitCosts(), plan);
  costs.memory.resize(3);
  std::vector<int64_t> resident(2, 0);
  for (int s = 0; s < 3; ++s) {
    StageMemory& memory = costs.memory[s];
    for (int c = 0; c < kMemoryClasses; ++c) memory.bytes[c] = (s + 1) * (int64_t{1} << (4 * c));
    memory.unreduced = 7 + s;
    memory.remade_for_input = 100 + s;
    memory.remade_for_weight = 200 + s;
    resident[s % 2] += (s + 1) * (1 + 16 + 256) + 7 + s;
  }
  const auto problem = ProblemOf(plan, costs, {.memory = {1'000'000, resident[1]}});
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->capacity, (std::vector<int64_t>{1'000'000 - resident[0], 0}));
  for (int s = 0; s < 3; ++s) {
    SCOPED_TRACE(testing::Message() << "stage " << s);
    const StageMemory& memory = costs.memory[s];
    const int64_t for_input = memory[MemoryClass::kSavedForInput];
    const int64_t for_weight = memory[MemoryClass::kSavedForWeight];
    const int64_t stash = memory[MemoryClass::kStash];
    // The first stage gets no message, and the last one sends none.
    const int64_t input = s == 0 ? 0 : costs.memory[s - 1][MemoryClass::kMessages];
    const int64_t messages = input + (s == 2 ? 0 : memory[MemoryClass::kMessages]);
    const StageWork& work = problem->stages[s];
    EXPECT_EQ(work.during[kForwardAt], for_input + for_weight + messages);
    EXPECT_EQ(work.during[kWholeAt], messages + 100 + s + 200 + s);
    EXPECT_EQ(work.during[kInputAt], stash + messages + 100 + s);
    EXPECT_EQ(work.during[kWeightAt], 0);
    EXPECT_EQ(work.after[kForwardAt], for_input + for_weight);
    EXPECT_EQ(work.after[kWholeAt], -for_input - for_weight);
    EXPECT_EQ(work.after[kInputAt], stash - for_input);
    EXPECT_EQ(work.after[kWeightAt], -stash - for_weight);
  }
  const auto over = ProblemOf(plan, costs, {.memory = {1'000'000, resident[1] - 1}});
  EXPECT_EQ(over.status().message(),
            absl::StrCat("rank 1 holds ", resident[1], " bytes at all times, and may hold ",
                         resident[1] - 1));
}

TEST(ProblemTest, WordsAreNumberedByTheCounters) {
  for (const LibraryCase& c : kCases) {
    SCOPED_TRACE(c.schedule);
    Plan plan = PlanOfCase(c);
    const Plan again = Lower(PlanOf(plan, *WordsOf(plan)));
    EXPECT_TRUE(again.costs.empty());  // words were made for no costs that a plan knows
    plan.costs = {};
    EXPECT_EQ(Print(again), Print(plan));
  }
}

TEST(ProblemTest, WhatIsNoOrderIsNotComplete) {
  const Plan plan = PlanOfCase({"zb_h1", 2, 3});
  const auto costs = ResolveCosts(UnitCosts(), plan);
  const Problem problem = *ProblemOf(plan, *costs, {.activations = 2});
  const Words words = *WordsOf(plan);
  EXPECT_TRUE(IsComplete(problem, words));

  Words missing = words;
  missing[1].pop_back();
  EXPECT_FALSE(IsComplete(problem, missing));
  Words swapped = words;
  std::swap(swapped[1][0], swapped[1][1]);  // the I before its F
  EXPECT_FALSE(IsComplete(problem, swapped));
  EXPECT_FALSE(TimesOf(problem, swapped).whole());
  const Problem tight = *ProblemOf(plan, *costs, {.activations = 1});
  EXPECT_FALSE(IsComplete(tight, words));
}

TEST(ProblemTest, WhatIsNoGroupOfTheProblemIsNotComplete) {
  const Plan plan = PlanOfCase({"zb_h1", 2, 3});
  const auto costs = ResolveCosts(UnitCosts(), plan);
  const Problem problem = *ProblemOf(plan, *costs, {.pairs = true});
  const Words words = *WordsOf(plan);
  ASSERT_TRUE(IsComplete(problem, words));
  const auto with_first = [&](Group group) {
    Words changed = words;
    changed[1].front() = group;
    return changed;
  };
  // Stages that do not exist, alone and as the second part.
  const Letter forward = LetterOf(ActionKind::kForward, 1);
  for (const int stage : {2, 3000, kMostStages}) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      EXPECT_FALSE(IsComplete(problem, with_first({LetterOf(kind, stage)})));
      EXPECT_FALSE(IsComplete(problem, with_first({forward, LetterOf(kind, stage)})));
      EXPECT_FALSE(IsComplete(problem, with_first({LetterOf(kind, stage), forward})));
    }
  }
  EXPECT_FALSE(IsComplete(problem, with_first({kNoLetter})));
  // Pairs of other kinds: an F with a W, and an I before its F.
  const Letter input = LetterOf(ActionKind::kInputGradient, 1);
  const Letter weight = LetterOf(ActionKind::kWeightGradient, 1);
  Words pairs(2);
  pairs[0] = words[0];
  const Group one{forward}, two{input}, three{weight};
  pairs[1] = {one, two, {forward, weight}, two, three, one, two, three};
  EXPECT_FALSE(IsComplete(problem, pairs));
  pairs[1] = {one, {forward, input}, {forward, input}, two, three, three, three};
  EXPECT_TRUE(IsComplete(problem, pairs));
  pairs[1][1] = {input, forward};
  EXPECT_FALSE(IsComplete(problem, pairs));
}

TEST(ProblemTest, ThePeriodIsThatOfStepsBehindEachOther) {
  // A rank of ZB-H2 idles before its first and behind its last action only.
  const Plan plan = PlanOfCase({"zb_h2", 4, 12});
  const auto costs = ResolveCosts(UnitCosts(), plan);
  const Problem problem = *ProblemOf(plan, *costs, {.objective = Objective::kPeriod});
  EXPECT_EQ(ValueOf(problem, *WordsOf(plan)), LeastWork(problem, 0));
}

}  // namespace
}  // namespace stringline::search
