// `search` blocks: their statements, and their found orders judged by the checker and the
// simulator, which know nothing of the optimiser.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

constexpr const char* kLine = "stages P on line;";

std::string BlockWith(const std::string& rules, const std::string& stages = kLine) {
  return absl::StrCat("schedule s(P, M) { ", stages, "\nrank r search { ", rules, " } }");
}

TEST(SearchBlock, FindsTheOrderThatThereIs) {
  EXPECT_EQ(Elaborated(BlockWith("within activations P - r; prefer F, B;"), {{"P", 2}, {"M", 2}}),
            "plan s P=2 M=2\n"
            "stages 0 1\n"
            "costs F=1 B=2 I=1 W=1\n"
            "search makespan=9 bound=9\n"
            "rank 0: 0F0 0F1 0B0 0B1\n"
            "rank 1: 1F0 1B0 1F1 1B1\n");
  EXPECT_EQ(
      Elaborated(BlockWith("prefer F, I, W; costs F [1, 2], I 1, W s -> 3, p2p 1; minimize span;"),
                 {{"P", 2}, {"M", 1}}),
      "plan s P=2 M=1\n"
      "stages 0 1\n"
      "costs F=[1,2] B=[4,4] I=1 W=[3,3] p2p=1\n"
      "search span=10 bound=10\n"
      "rank 0: 0F0 0I0 0W0\n"
      "rank 1: 1F0 1I0 1W0\n");
  EXPECT_EQ(Elaborated(BlockWith("within memory 4; costs saved_for_I 1, saved_for_W 2, stash 1; "
                                 "pairs F & B costs 2; iterations 50; prefer B, F"),
                       {{"P", 1}, {"M", 1}}),
            "plan s P=1 M=1\n"
            "stages 0\n"
            "costs F=1 B=2 I=1 W=1 F&B=2\n"
            "search makespan=3 bound=3\n"
            "rank 0: 0F0 0B0\n");
}

struct RulesCase {
  const char* rules;
  const char* finding;  // its first line, without file and place
};

const RulesCase kBadRules[] = {
    // Statements of other blocks
    {"hold at most 2;", "'hold' cannot stand in a search block; it belongs in a greedy block"},
    {"tighten;", "'tighten' cannot stand in a search block; it belongs in a timetable"},
    {"F r;", "an action cannot stand in a search block, which says rules instead of actions"},
    {"order o { F r }",
     "an order cannot stand in a search block, which says rules instead of "
     "actions"},
    {"if r == 0 { within activations 1; }", "'within' stands only directly in a rank block"},
    // Twice
    {"minimize span; minimize makespan;", "a second 'minimize'"},
    {"within activations 1; within memory 4;",
     "a second 'within'; a rank is given one limit, of activations or of memory"},
    {"pairs F & B; pairs F & I; pairs F & B costs 3;", "a second 'pairs F & B'"},
    {"costs stash 1, stash 2;", "a second 'stash'"},
    // Contradictions
    {"within memory 4; prefer F, B; costs F 1, B 1;",
     "nothing says what a microbatch of a stage holds: 'costs saved_for_W 1' and so on"},
    {"prefer B, I, W;", "'prefer' names no F"},
    {"prefer F;", "'prefer' names no B, nor I and W"},
    {"prefer F, B, I;", "'prefer' names no W, which an I needs"},
    {"prefer F, B, W;", "'prefer' names no I, of which a W is"},
    {"pairs F & W;", "what a search pairs is 'F & B', or 'F & I', and not 'F & W'"},
    {"pairs B & F;", "what a search pairs is 'F & B', or 'F & I', and not 'B & F'"},
    {"pairs F & F;", "what a search pairs is 'F & B', or 'F & I', and not 'F & F'"},
    {"prefer F, I, W; pairs F & B;", "pairs with B, which 'prefer' leaves out"},
    // Numbers
    {"within activations r - 1;", "a limit of -1, with r = 0"},
    {"iterations 0;", "a search of 0 iterations; it takes 1 .. 1000000000"},
    {"iterations 5 + r;", "the iterations are not the same on all ranks"},
    {"prefer F, B; costs F r + 1, B 2;", "the costs are not the same on all ranks"},
    {"costs stash r;", "the costs are not the same on all ranks"},
    {"costs stash 0 - 1;", "a cost of -1; what a microbatch holds is 0 .. 1000000000"},
    {"costs saved_for_I [1];", "costs of 1 stage, but there are 2"},
    {"pairs F & B costs 0;", "a cost of 0; costs are 1 .. 1000000000"},
    {"pairs F & B costs r + 1;", "the costs of the pair are not the same on all ranks"},
    {"pairs F & I costs [1, 2, 3];", "costs of 3 stages, but there are 2"},
    // Places and layers
    {"place v;", "'place' stands instead of 'stages' and pipes, not beside them"},
    {"split any;",
     "'split any' shares out layers, and nothing says how many there are: 'layers 24;' in the "
     "search block"},
    {"layers 1;", "there are 1 layers for 2 stages; a stage has one at least"},
    {"layers 0;", "a model of 0 layers; a search takes 1 .. 4096"},
    {"layers 2 + r;", "the layers are not the same on all ranks"},
    {"layers 3; layers 3;", "a second 'layers'"},
    {"layers 3; split [1, 1];", "the split has 2 layers, and the search is told of 3"},
    {"layers 3; prefer F, B; costs F [1, 2], B 1;", "costs of 2 layers, but there are 3"},
    {"prefer F, B; costs F 2, B 1; layers 3;",
     "'layers' stands before 'costs' and 'pairs': it says what they are of"},
    {"pairs F & B costs 2; layers 3;",
     "'layers' stands before 'costs' and 'pairs': it says what they are of"},
    // Stages that recompute
    {"recompute all; recompute any;", "a second 'recompute'"},
    {"offload all; offload any;", "a second 'offload'"},
    {"offload any; minimize period;",
     "a search with 'offload' minimizes the makespan or the span, not the period"},
    {"costs F 1, B 1, I 1, W 1, input 1;",
     "'input' is held by stages that recompute, and nothing says which: 'recompute any;' in the "
     "search block"},
    {"recompute [1];", "values of 1 stage, but there are 2"},
    {"recompute [1, 0, 1];", "values of 3 stages, but there are 2"},
    {"recompute s -> 2 * s;", "a stage recomputes (1) or does not (0), not 2, with s = 1"},
    // Limits too tight for any order
    {"within activations 1 - r;", "no order exists within 0 activations on rank 1: it needs 1"},
    {"within memory 4; costs saved_for_I 2, saved_for_W 1, stash 5; prefer F, I, W;",
     "no order exists within memory 4 on rank 0: it needs 8"},
};

TEST(SearchBlock, SaysWhatIsWrong) {
  for (const RulesCase& c : kBadRules) {
    const std::string answer = Elaborated(BlockWith(c.rules), {{"P", 2}, {"M", 2}});
    const std::string first = answer.substr(0, answer.find('\n'));
    const size_t text = first.find("error: ");
    ASSERT_NE(text, std::string::npos) << c.rules << "\n" << answer;
    const std::string finding = first.substr(text + 7);
    EXPECT_EQ(finding.substr(0, finding.find(" (and ")), c.finding) << answer;
  }
}

TEST(SearchBlock, SaysWhatIsWrongWithPlaces) {
  const RulesCase kBadPlaces[] = {
      {"place;", "expected a layout before ';'"},
      {"place ring;", "there is no layout 'ring'; there are line, loop, v, wave, any"},
      {"place any, v;", "'any' stands alone: it is all of them"},
      {"place v 3;", "'v' takes no number: only 'loop' and 'wave' have stages of a rank to choose"},
      {"place loop r;", "0 stages a rank, with r = 0; there may be 1 .. 1024"},
      {"place loop r + 1;", "the places are not the same on all ranks"},
      {"place v; layers 3;", "there are 3 layers for 4 stages; a stage has one at least"},
      {"layers 8; place v; split [2, 2, 2, 2];",
       "'place' leaves open how many stages there are, and this split says what each of them "
       "holds; "
       "it may be even, balanced or any"},
      {"prefer F, B; costs F 1, B 1; place v;",
       "'place' stands before 'costs' and 'pairs': it says what they are of"},
      {"place v; recompute [1, 0];",
       "'place' leaves open how many stages there are, and this says which of them recompute; it "
       "may be none, all or any"},
      {"place v; within activations 1;",
       "no order exists within 1 activation on rank 0: it needs 2"},
  };
  for (const RulesCase& c : kBadPlaces) {
    const std::string answer = Elaborated(BlockWith(c.rules, ""), {{"P", 2}, {"M", 2}});
    const std::string first = answer.substr(0, answer.find('\n'));
    const size_t text = first.find("error: ");
    ASSERT_NE(text, std::string::npos) << c.rules << "\n" << answer;
    const std::string finding = first.substr(text + 7);
    EXPECT_EQ(finding.substr(0, finding.find(" (and ")), c.finding) << answer;
  }
  const std::string sequence =
      "schedule s(P, M) { stages P on line; split any; rank r { F r; B r } }";
  EXPECT_TRUE(absl::StrContains(Elaborated(sequence, {{"P", 1}, {"M", 1}}),
                                "'split any' is found by a search, and this schedule has none"));
  const std::string recompute =
      "schedule s(P, M) { stages P on line; recompute any; rank r { F r; B r } }";
  EXPECT_TRUE(
      absl::StrContains(Elaborated(recompute, {{"P", 1}, {"M", 1}}),
                        "'recompute any' is found by a search, and this schedule has none"));
}

// The plan that a block of rules alone finds, without its header.
std::string Placed(const std::string& rules, int p, int m) {
  return Elaborated(BlockWith(rules, ""), {{"P", p}, {"M", m}});
}

TEST(SearchBlock, FindsWhereStagesLive) {
  // With a single place, every stage is a layer: the same as stages in the schedule.
  EXPECT_EQ(
      Placed("place v; within activations 3;", 2, 3),
      Elaborated(BlockWith("within activations 3;", "stages 2 * P on v;"), {{"P", 2}, {"M", 3}}));
  // With several places, stages of a line are two layers.
  const std::string line = Placed("place line, v; within activations 1;", 1, 2);
  EXPECT_TRUE(absl::StrContains(line, "stages 0\ncosts F=2 B=4 I=2 W=2\n")) << line;
  EXPECT_TRUE(absl::StrContains(line, "search makespan=12 bound=12\n")) << line;
  // The more stages a rank has, the sooner the last one starts.
  const std::string any = Placed("place any;", 2, 4);
  EXPECT_TRUE(absl::StrContains(any, "stages 0 1 0 1 0 1\n") ||
              absl::StrContains(any, "stages 0 1 1 0 0 1 1 0\n"))
      << any;
}

TEST(SearchBlock, FindsWhichLayersStagesHold) {
  const std::string costs = "costs F l -> l == 5 ? 5 : 1, B l -> l == 5 ? 10 : 2; prefer F, B;";
  const auto split = [&](const std::string& how) {
    const std::string plan =
        Elaborated(BlockWith("layers 6; " + how + costs), {{"P", 2}, {"M", 4}});
    const size_t at = plan.find("\nsplit ");
    return at == std::string::npos ? plan : plan.substr(at + 1, plan.find('\n', at + 1) - at - 1);
  };
  EXPECT_EQ(split(""), "split layers 3 3");
  EXPECT_EQ(split("split any; "), "split layers 5 1");
  EXPECT_EQ(split("split balanced; "), "split layers 5 1");
  EXPECT_EQ(split("split [2, 4]; "), "split layers 2 4");
  EXPECT_EQ(split("split \"Ettt|tmtL\"; "), "split layers 3 3");
}

TEST(SearchBlock, BelongsToItself) {
  const auto finding = [](const std::string& rank) {
    const std::string answer = Elaborated(
        absl::StrCat("schedule s(P, M) { ", kLine, " ", rank, " }"), {{"P", 2}, {"M", 2}});
    return answer.substr(0, answer.find('\n'));
  };
  EXPECT_EQ(
      finding("rank r greedy { prefer F, B; minimize span; }"),
      "x.sched:1:67: error: 'minimize' cannot stand in a greedy block; it belongs in a search "
      "block");
  EXPECT_EQ(
      finding("rank r { prefer F, B; }"),
      "x.sched:1:47: error: 'prefer' cannot stand in a sequence; it belongs in a greedy block "
      "or a search block");
  EXPECT_EQ(finding("rank r greedy { prefer F, B; costs stash 2; }"),
            "x.sched:1:73: error: 'stash' cannot stand in a greedy block; it belongs in a search "
            "block");
  EXPECT_EQ(finding("rank r search { costs microbatch [1, 2]; }"),
            "x.sched:1:60: error: 'microbatch' cannot stand in a search block; it belongs in a "
            "greedy block");
  EXPECT_EQ(finding("pad microbatches to 4; rank r search { }"),
            "x.sched:1:38: error: 'pad' cannot stand beside a search block: it finds orders for "
            "any number");
}

TEST(SearchBlock, IsRefusedWhereItIsTooLarge) {
  const std::string text = BlockWith("", "stages 3 * P on loop;");
  const std::string many = Elaborated(text, {{"P", 1400}, {"M", 1}});
  EXPECT_TRUE(absl::StrContains(many, "a search orders at most 4096 stages, and there are 4200"))
      << many;
  const std::string long_one = Elaborated(text, {{"P", 16}, {"M", 100'000}});
  EXPECT_TRUE(absl::StrContains(long_one,
                                "a search orders at most 10000000 actions, and there are 14400000"))
      << long_one;
}

TEST(SearchBlock, IsNoMoreWhatWasFoundOnceItIsChanged) {
  const std::string text =
      absl::StrCat(BlockWith("prefer F, B;"), "\nschedule t(P, M) = s(P, M) then defer W by 1;");
  const std::string plan = Elaborated(text, {{"P", 2}, {"M", 2}});
  EXPECT_TRUE(absl::StartsWith(plan, "plan t")) << plan;
  EXPECT_FALSE(absl::StrContains(plan, "\nsearch ")) << plan;
}

// The plan of the block, simulated at the costs that it carries: as long as the search says.
Plan FoundAndSimulated(const std::string& rules, const std::string& stages, int p, int m) {
  const std::string text = BlockWith(rules, stages);
  SCOPED_TRACE(absl::StrCat(text, " P=", p, " M=", m));
  const Source source("x.sched", text);
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  const auto plan = file ? Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics) : std::nullopt;
  EXPECT_TRUE(plan) << Render(diagnostics, source);
  if (!plan) return {};
  EXPECT_LE(plan->searched.bound, plan->searched.value);
  const Plan lowered = Lower(*plan);
  Check(lowered, {}, &diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << Render(diagnostics, source);
  const auto costs = ResolveCosts(CostSpec(), lowered);
  EXPECT_TRUE(costs.ok()) << costs.status();
  const auto timeline = Simulate(lowered, *costs);
  EXPECT_EQ(MeasureBubbles(*timeline).makespan_ns, plan->searched.value * 1'000'000);
  return *plan;
}

// Against every choice by itself, each solved exactly.
TEST(SearchBlock, FindsWhichStagesRecompute) {
  const struct {
    const char* rules;
    const char* stages;
    int count, p;
  } kCases[] = {
      {"within memory 8; costs F 2, B 4, saved_for_W 4, input 1; prefer F, B;", kLine, 3, 3},
      {"within memory 8; costs F 2, B 4, saved_for_W 4; prefer F, B;", kLine, 2, 2},
      {"within memory 12; prefer F, B, I, W; "
       "costs F s -> 2 + s, B 4, I 2, W 2, saved_for_I 1, saved_for_W 3, stash 1, input 1, p2p 1;",
       kLine, 2, 2},
      {"within memory 10; pairs F & B costs 5; costs F 2, B 4, saved_for_W 3, input 1; "
       "prefer F, B;",
       "stages 2 * P on v;", 4, 2},
      {"within memory 6; layers 5; pairs F & B costs 2; "
       "costs F 1, B 2, saved_for_W 1, input l -> l > 0; prefer F, B;",
       kLine, 2, 2},
      {"within memory 8; costs F 2, B 4, saved_for_W 4, input 1; prefer F, B;",
       "pipe down { stages P on line; microbatches M / 2; } "
       "pipe up { stages P on reversed line; microbatches M - M / 2; }",
       4, 2},
  };
  bool some = false;
  for (const auto& c : kCases) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int bits = 0; bits < 1 << c.count; ++bits) {
      std::string list;
      for (int s = 0; s < c.count; ++s) {
        absl::StrAppend(&list, s == 0 ? "" : ", ", bits >> s & 1);
      }
      const std::string rules = absl::StrCat("recompute [", list, "]; ", c.rules);
      if (absl::StrContains(Elaborated(BlockWith(rules, c.stages), {{"P", c.p}, {"M", 4}}),
                            "no order exists")) {
        continue;
      }
      const Plan plan = FoundAndSimulated(rules, c.stages, c.p, 4);
      least = std::min(least, plan.searched.value);
    }
    const Plan any = FoundAndSimulated(absl::StrCat("recompute any; ", c.rules), c.stages, c.p, 4);
    EXPECT_EQ(any.searched.value, least) << c.rules;
    const auto count = std::count(any.recompute.begin(), any.recompute.end(), 1);
    some = some || (count > 0 && count < c.count);
  }
  EXPECT_TRUE(some);  // neither all nor none, in one case at least
}

// Where places and layers are free as well, no other answer is better than what is found with less
// freedom, and the bound is below them all.
TEST(SearchBlock, ChoosesRecomputeWithPlacesAndLayers) {
  const std::string rules =
      "layers 12; within memory 40; prefer F, B; iterations 3000; "
      "costs F l -> l == 11 ? 3 : 1, B l -> l == 11 ? 6 : 2, saved_for_W 3, input l -> l > 0; ";
  const Plan any =
      FoundAndSimulated(absl::StrCat("place line, v; recompute any; split any; ", rules), "", 3, 6);
  EXPECT_LE(any.searched.bound, any.searched.value);
  for (const char* const fixed : {"recompute all; ", "recompute none; "}) {
    for (const char* const place : {"place line; ", "place v; "}) {
      const Plan plan = FoundAndSimulated(absl::StrCat(place, fixed, rules), "", 3, 6);
      EXPECT_LE(any.searched.bound, plan.searched.value) << place << fixed;
      EXPECT_LE(any.searched.value, plan.searched.value) << place << fixed;
    }
  }
}

// Nothing is gained where only activations are counted.
TEST(SearchBlock, NoStageRecomputesForNothing) {
  const std::string plan = Elaborated(
      BlockWith("recompute any; within activations P - r; prefer F, B;"), {{"P", 2}, {"M", 2}});
  EXPECT_FALSE(absl::StrContains(plan, "recompute")) << plan;
  EXPECT_TRUE(absl::StrContains(plan, "search makespan=9 bound=9\n")) << plan;
}

TEST(SearchBlock, OtherSchedulesSayWhichStagesRecompute) {
  const auto plan = [](const std::string& recompute) {
    return Elaborated(
        "schedule s(P, M) { stages P on line; " + recompute + " rank r { F r; B r } }",
        {{"P", 2}, {"M", 1}});
  };
  EXPECT_TRUE(absl::StrContains(plan("recompute all;"), "stages 0 1\nrecompute 1 1\n"));
  EXPECT_TRUE(absl::StrContains(plan("recompute s -> s == 1;"), "stages 0 1\nrecompute 0 1\n"));
  EXPECT_EQ(plan("recompute none;"), plan(""));
  EXPECT_EQ(plan("recompute [0, 0];"), plan(""));
}

// Every found plan is complete, ends, stays within its limit, and has the stated makespan.
void ExpectRight(const std::string& stages, const std::string& rules, int most, int p, int m) {
  const std::string text =
      BlockWith(absl::StrCat("iterations 200; costs p2p 1, F 2, B 5, I 2, W 2; within activations ",
                             most, "; ", rules),
                stages);
  SCOPED_TRACE(absl::StrCat(text, " P=", p, " M=", m));
  const Source source("x.sched", text);
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  ASSERT_TRUE(file) << Render(diagnostics, source);
  const auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
  ASSERT_TRUE(plan) << Render(diagnostics, source);
  const Plan lowered = Lower(*plan);
  Check(lowered, {.activations = most}, &diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << Render(diagnostics, source);
  EXPECT_LE(plan->searched.bound, plan->searched.value);
  if (plan->searched.objective != "makespan") return;
  const auto costs = ResolveCosts(*ParseCosts("F=2ns,B=5ns,I=2ns,W=2ns,p2p=1ns"), lowered);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const auto timeline = Simulate(lowered, *costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(MeasureBubbles(*timeline).makespan_ns, plan->searched.value);
}

TEST(SearchBlock, WhatIsFoundIsRight) {
  const struct {
    const char* stages;
    int of_a_rank;  // stages of a pipe
  } kStages[] = {
      {kLine, 1},
      {"stages 2 * P on v;", 2},
      {"stages 3 * P on loop;", 3},
      {"stages 2 * P on wave;", 2},
      {"pipe down { stages P on line; microbatches M / 2; } "
       "pipe up { stages P on reversed line; microbatches M - M / 2; }",
       1},
  };
  const char* const kRules[] = {"", "prefer F, B;", "prefer F, I, W; minimize span;",
                                "prefer F, I, W, B;", "minimize period; prefer F, B;"};
  for (const auto& stages : kStages) {
    for (const char* const rules : kRules) {
      for (const int p : {1, 2, 3}) {
        for (const int m : {1, 2, 5}) {
          for (const int more : {0, 1, 4}) {
            ExpectRight(stages.stages, rules, stages.of_a_rank + more, p, m);
          }
        }
      }
    }
  }
}

TEST(SearchBlock, IsTheSameEveryTime) {
  const std::string text = BlockWith("within activations P + 1;", "stages 2 * P on v;");
  const std::string once = Elaborated(text, {{"P", 3}, {"M", 5}});
  EXPECT_TRUE(absl::StrContains(once, "search makespan=")) << once;
  EXPECT_EQ(Elaborated(text, {{"P", 3}, {"M", 5}}), once);
}

}  // namespace
}  // namespace stringline
