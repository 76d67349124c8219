// Plans whose microbatches have slices: the statement and its counters, the text forms, what the
// checker proves, and the times and bytes of slices beside formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/orders/place_ahead.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/plan.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

// The lists of ranks, or the first line of the findings.
std::string SlicedOrder(const std::string& ranks, const std::string& parameters,
                        const std::string& before = "slices 3; stages P on line;") {
  const std::string answer =
      Elaborated(absl::StrCat("schedule s(P, M) { ", before, " rank r { ", ranks, " } }"),
                 ParametersOf(parameters));
  if (answer.rfind("plan ", 0) != 0) return answer.substr(0, answer.find('\n'));
  return answer.substr(answer.find("rank 0:"));
}

std::string FindingOfSlices(const std::string& ranks, int slices,
                            const CheckOptions& options = {}) {
  const Plan plan = PlanFromText(
      absl::StrCat("plan s P=1 M=2\nslices ", slices, "\nstages 0\nrank 0: ", ranks, "\n"));
  Diagnostics findings;
  Check(Lower(plan), options, &findings);
  return findings.empty() ? "" : findings.findings()[0].text;
}

TEST(Slices, ForwardsAscendAndBackwardsDescend) {
  EXPECT_EQ(SlicedOrder("repeat 6 { F r } repeat 6 { B r }", "P=1 M=2"),
            "rank 0: 0F0.0 0F0.1 0F0.2 0F1.0 0F1.1 0F1.2 0B0.2 0B0.1 0B0.0 0B1.2 0B1.1 0B1.0\n");
  // B and I share a counter; a W takes the oldest that was left.
  EXPECT_EQ(SlicedOrder("repeat 3 { F r } I r; B r; I r; W r; W", "P=1 M=1"),
            "rank 0: 0F0.0 0F0.1 0F0.2 0I0.2 0B0.1 0I0.0 0W0.2 0W0.0\n");
  EXPECT_EQ(SlicedOrder("repeat 3 { F r } repeat 3 { R r; B r }", "P=1 M=1",
                        "slices 3; recompute all; stages P on line;"),
            "rank 0: 0F0.0 0F0.1 0F0.2 0R0.2 0B0.2 0R0.1 0B0.1 0R0.0 0B0.0\n");
  // A U brings the last slice of the microbatch that was copied first.
  EXPECT_EQ(SlicedOrder("repeat 6 { F r; D r } repeat 6 { U r; B r }", "P=1 M=2"),
            "rank 0: 0F0.0 0D0.0 0F0.1 0D0.1 0F0.2 0D0.2 0F1.0 0D1.0 0F1.1 0D1.1 0F1.2 0D1.2 "
            "0U0.2 0B0.2 0U0.1 0B0.1 0U0.0 0B0.0 0U1.2 0B1.2 0U1.1 0B1.1 0U1.0 0B1.0\n");
}

TEST(Slices, AnActionMayNameItsSliceAndItsMicrobatch) {
  EXPECT_EQ(SlicedOrder("F r [2]; F r [0] @ 1; F r; F r; F r [2]; F r; B r [1]; B r @ 1; B r;"
                        "B r; B r; B r",
                        "P=1 M=2"),
            "rank 0: 0F0.2 0F1.0 0F0.0 0F0.1 0F1.2 0F1.1 0B0.1 0B1.2 0B0.2 0B0.0 0B1.1 0B1.0\n");
  // The brackets end the expression of the stage, whatever it is.
  EXPECT_EQ(SlicedOrder("F 0 + r [1]; F (r) [0]; F r == 0 ? r : r [2]; let k = 2; B r [k]; B r[1];"
                        "B min(r, 1) [k - 2]",
                        "P=1 M=1"),
            "rank 0: 0F0.1 0F0.0 0F0.2 0B0.2 0B0.1 0B0.0\n");
  const std::string pipes =
      "slices 2; pipe a { stages P on line; microbatches 1 } pipe b { stages P on line; "
      "microbatches 1 }";
  EXPECT_EQ(SlicedOrder("F a[r] [1]; F a[r]; F b[r]; F b[r][1]; B a[r]; B a[r]; B b[r] [1]; B b[r]",
                        "P=1 M=2", pipes),
            "rank 0: a[0]F0.1 a[0]F0.0 b[0]F0.0 b[0]F0.1 a[0]B0.1 a[0]B0.0 b[0]B0.1 b[0]B0.0\n");
  EXPECT_EQ(
      SlicedOrder("repeat 3 { F r } repeat 3 { I r } W r [0]; W r @ 0; W r [1] @ 0", "P=1 M=1"),
      "rank 0: 0F0.0 0F0.1 0F0.2 0I0.2 0I0.1 0I0.0 0W0.0 0W0.2 0W0.1\n");
}

TEST(Slices, PaddingOrdersStepsAndSlots) {
  EXPECT_EQ(SlicedOrder("repeat 2 { F r } repeat 4 { F r; B r } repeat 2 { B r }", "P=1 M=2",
                        "slices 2; pad microbatches to 3; stages P on line;"),
            "rank 0: 0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0\n");
  EXPECT_EQ(SlicedOrder("order f { repeat 3 { F r } } repeat 3 { f } repeat 3 { B r }", "P=1 M=1"),
            "rank 0: 0F0.0 0F0.1 0F0.2 0B0.2 0B0.1 0B0.0\n");
  const std::string slots = Elaborated(
      "schedule s(P, M) { slices 2; stages P on line; rank r timetable {"
      " repeat 2 as k { at k : F r; at 3 + 2 * k : I r } fill W } }",
      ParametersOf("P=1 M=1"));
  EXPECT_NE(slots.find("rank 0: 0F0.0 0F0.1 0I0.1 0W0.1 0I0.0 0W0.0\n"), std::string::npos)
      << slots;
  const std::string steps =
      Elaborated("schedule s(P, M) { slices 2; stages P on line; rank r { F r; F r; B r; B r } }",
                 ParametersOf("P=1 M=1 steps=2"));
  EXPECT_NE(steps.find("rank 0: 0F0.0 0F0.1 0B0.1 0B0.0 0UPDATE0 0F1.0 0F1.1 0B1.1 0B1.0 "
                       "0UPDATE1\n"),
            std::string::npos)
      << steps;
}

TEST(Slices, WhatDoesNotExistIsRefused) {
  const auto refused = [](const std::string& ranks, const char* words,
                          const std::string& before = "slices 3; stages P on line;") {
    const std::string answer = SlicedOrder(ranks, "P=1 M=2", before);
    EXPECT_NE(answer.find(words), std::string::npos) << ranks << ": " << answer;
  };
  refused("F r [3]", "slice 3 does not exist: the slices of a microbatch are 0 .. 2");
  refused("F r [0 - 1]", "slice -1 does not exist");
  refused("F r [1] @ 2", "0F2.1 is past the last microbatch, 0F1.1");
  refused("repeat 7 { F r }", "0F2.0 is past the last microbatch, 0F1.0");
  refused("F r @ (0 - 1)", "0F-1.2 is before the first microbatch, 0F0.2");
  refused("F r [1] @ 0; F r [1] @ 0", "0F0.1 is done a second time");
  refused("F r; F r; F r; F r @ 0", "0F0.2 is done a second time");
  refused("F r; W r [0] @ 0", "0W0.0 is not deferred");
  refused("F r; U r [0] @ 0", "0U0.0 is not on the host");
  refused("F r [1]", "a slice, and 'slices e;' does not say how many there are",
          "stages P on line;");
  refused("F (0 + r [1])", "'r' is a value, not a pipe");
  refused("F q [1]", "nothing above is called 'q'");
  refused("F r", "a microbatch has 1 to 1024 slices, not 0", "slices 0; stages P on line;");
  refused("F r", "a microbatch has 1 to 1024 slices, not 1025", "slices 1025; stages P on line;");
  refused("F r", "'chunks' cannot stand beside 'slices'", "slices 2; chunks 2; stages P on line;");
  refused("update r [1]", "this acts on a whole stage: it has no slices");
  refused("F r", "a second 'slices'", "slices 2; slices 2; stages P on line;");
  for (const char* const block : {"rank r greedy { prefer B, F; hold at most P; costs F 1, B 2; }",
                                  "rank r search { minimize makespan; costs F 1, B 2; }"}) {
    const std::string answer =
        Elaborated(absl::StrCat("schedule s(P, M) { slices 2; stages P on line; ", block, " }"),
                   ParametersOf("P=2 M=2"));
    EXPECT_NE(answer.find("'slices' stands in a schedule whose rank block lists actions"),
              std::string::npos)
        << answer;
  }
  const std::string tightened = Elaborated(
      "schedule s(P, M) { slices 1 + 1; stages P on line; rank r timetable { tighten; at 0 : F r; "
      "at 1 : F r; at 2 : B r; at 3 : B r } }",
      ParametersOf("P=1 M=1"));
  EXPECT_NE(tightened.find("'tighten' moves whole microbatches, and these have slices"),
            std::string::npos)
      << tightened;
  EXPECT_NE(Elaborated("schedule s(P, M) { slices 1000; stages P on line; rank r { } }",
                       ParametersOf("P=4 M=10000"))
                .find("4 stages and 10000 microbatches of 1000 slices take at least 80000 times "
                      "1000 actions, more than 16777216; on so many stages a step has at most 2097 "
                      "microbatches"),
            std::string::npos);
  // The word is free as a name.
  EXPECT_EQ(
      SlicedOrder("let slices = 1; repeat slices { F r; B r }", "P=1 M=1", "stages P on line;"),
      "rank 0: 0F0 0B0\n");
}

TEST(Slices, ThePlanIsReadBack) {
  for (const char* const text :
       {"plan s P=2 M=2\nslices 2\nstages 0 1\nrank 0: 0F0.0 0F0.1 0B0.1 0B0.0\n"
        "rank 1: 1F0.0&1F1.1 1I0.1 1W0.1\n",
        "plan s P=1 M=2 lowered\nsteps 2 versions 1\nslices 3\npipe a M=1 stages 0\n"
        "pipe b M=1 stages 0\nrank 0: a[0]F1.2 b[0]B0.1 a[0]UPDATE1\n"}) {
    EXPECT_EQ(Print(PlanFromText(text)), text);
  }
  const auto refused = [](const std::string& text) {
    Diagnostics findings;
    EXPECT_FALSE(ReadPlan(Source("x.plan", text), &findings)) << text;
    return findings.empty() ? "" : findings.findings()[0].text;
  };
  EXPECT_EQ(refused("plan s P=1 M=1\nslices 1\nstages 0\nrank 0: 0F0.0\n"),
            "expected 'slices N' with 2 to 1024 slices of a microbatch");
  EXPECT_EQ(refused("plan s P=1 M=1\nslices 2\nstages 0\nrank 0: 0F0\n"),
            "expected an action like 3F7");
  EXPECT_EQ(refused("plan s P=1 M=1\nslices 2\nstages 0\nrank 0: 0F0.2\n"),
            "expected an action like 3F7");
  EXPECT_EQ(refused("plan s P=1 M=1\nslices 2\nstages 0\nrank 0: 0F1.0\n"),
            "0F1.0: there is only 1 microbatch");
  EXPECT_EQ(refused("plan s P=1 M=1\nstages 0\nrank 0: 0F0.0\n"),
            "expected '&' or a space after an action");
  EXPECT_EQ(refused("plan s P=1 M=1000000\nslices 1024\nstages 0\nrank 0: 0F0.0\n"),
            "slices of all microbatches are over 1048576");
}

TEST(Slices, TheCheckerProvesTheirOrder) {
  EXPECT_EQ(FindingOfSlices("0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0", 2), "");
  EXPECT_EQ(FindingOfSlices("0F0.1 0F0.0 0B0.1 0B0.0 0F1.0 0F1.1 0B1.1 0B1.0", 2),
            "rank 0 waits forever at 0F0.1 for the keys of stage 0, microbatch 0.0");
  EXPECT_EQ(
      FindingOfSlices("0F0.0 0F0.1 0B0.0 0B0.1 0F1.0 0F1.1 0B1.1 0B1.0", 2),
      "rank 0 waits forever at 0B0.0 for the gradient of the keys of stage 0, microbatch 0.0");
  EXPECT_EQ(
      FindingOfSlices("0F0.0 0B0.0 0F0.1 0B0.1 0F1.0 0F1.1 0B1.1 0B1.0", 2),
      "rank 0 waits forever at 0B0.0 for the gradient of the keys of stage 0, microbatch 0.0");
  EXPECT_EQ(FindingOfSlices("0F0.0&0F0.1 0B0.1 0B0.0 0F1.0 0F1.1 0B1.1 0B1.0", 2),
            "rank 0 waits forever at 0F0.1 for the keys of stage 0, microbatch 0.0");
  EXPECT_EQ(FindingOfSlices("0F0.0 0F0.1 0B0.1 0B0.0 0F1.0 0F1.1 0B1.1", 2),
            "stage 0 on rank 0: microbatch 1.0 has no backward");
  // A W needs what its own I left, and no slice before or behind.
  EXPECT_EQ(FindingOfSlices("0F0.0 0F0.1 0I0.1 0I0.0 0W0.0 0W0.1 0F1.0 0F1.1 0B1.1 0B1.0", 2), "");
  // The limit counts microbatches.
  const char* const gpipe = "0F0.0 0F0.1 0F1.0 0F1.1 0B0.1 0B0.0 0B1.1 0B1.0";
  EXPECT_EQ(FindingOfSlices(gpipe, 2, {.activations = 2}), "");
  EXPECT_EQ(FindingOfSlices(gpipe, 2, {.activations = 1}),
            "rank 0 holds 2 stage activations at 0F1.1, more than 1");
  EXPECT_EQ(
      FindingOfSlices("0F0.0 0F0.1 0F1.0 0B0.1 0B0.0 0F1.1 0B1.1 0B1.0", 2, {.activations = 1}),
      "rank 0 holds 1.5 stage activations at 0F1.0, more than 1");
}

// --- times and bytes -----------------------------------------------------------------------------

Plan SlicedPlan(const std::string& name, const std::string& parameters) {
  Diagnostics findings;
  const Source source(name, ReadTestFile(absl::StrCat("schedules/", name, ".sched")));
  const auto file = Parse(source, &findings);
  return Lower(*Elaborate(*file, "", ParametersOf(parameters), &findings));
}

CostModel SlicedCosts(const Plan& plan, const std::string& text) {
  const auto costs = ResolveCosts(*ParseCosts(text), plan);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return *costs;
}

TEST(Slices, LaterOnesTakeLongerByTheirAttention) {
  const Plan plan = SlicedPlan("terapipe", "P=1 M=2 K=4");
  const CostModel costs = SlicedCosts(plan, "F=8,I=12,W=8,B=20,attention=50%");
  const Timeline timeline = *Simulate(plan, costs);
  for (const Event& event : timeline.events) {
    // Half of the time goes by tokens, half by the square of a causal mask between slices.
    const int k = event.microbatch.value % 4;
    const double share = 0.5 / 4 + 0.5 * (2 * k + 1) / 16;
    const double whole_ns = event.kind == ActionKind::kForward ? 8000 : 20'000;
    EXPECT_NEAR(static_cast<double>(event.end_ns - event.start_ns), whole_ns * share, 1);
  }
  // Together they take what whole microbatches take.
  EXPECT_NEAR(static_cast<double>(MakespanOf(timeline)), 2 * 28'000, 16);
  // Without attention all are alike; a W has none.
  const CostModel alike = SlicedCosts(plan, "F=8,B=20");
  const Timeline step1 = *Simulate(plan, alike);
  for (const Event& event : step1.events) {
    EXPECT_EQ(event.end_ns - event.start_ns, event.kind == ActionKind::kForward ? 2000 : 5000);
  }
  const Plan split = Lower(PlanFromText(
      "plan s P=1 M=1\nslices 2\nstages 0\nrank 0: 0F0.0 0F0.1 0I0.1 0I0.0 0W0.1 0W0.0\n"));
  const CostModel halves = SlicedCosts(split, "F=8,I=12,W=8,attention=100%");
  std::vector<int64_t> lengths;
  const Timeline step2 = *Simulate(split, halves);
  for (const Event& event : step2.events) {
    lengths.push_back(event.end_ns - event.start_ns);
  }
  EXPECT_EQ(lengths, (std::vector<int64_t>{2000, 6000, 9000, 3000, 4000, 4000}));
}

// A stage without layers keeps no keys, and the others theirs.
TEST(Slices, AStageWithoutLayersKeepsNoKeys) {
  const Source file("x.yaml",
                    "model: {kind: llama, layers: 2, width: 256, heads: 8, context: 4096, hidden: "
                    "512, vocabulary: 1000}\ndata: {microbatch: 1}\n"
                    "hardware: " STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware/h100.yaml\n");
  const auto spec = ReadCosts(file);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Plan plan = PlanFromText(
      "plan s P=2 M=1\nslices 2\nstages 0 1\nsplit layers 0 2\nrank 0: 0F0.0 0F0.1 0B0.1 0B0.0\n"
      "rank 1: 1F0.0 1F0.1 1B0.1 1B0.0\n");
  const auto costs = ResolveCosts(*spec, plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->memory[0][MemoryClass::kSliceKeys], 0);
  EXPECT_EQ(costs->memory[1][MemoryClass::kSliceKeys], 2 * 2 * 4096 * 256 * 2 / 2);
}

TEST(Slices, AModelsShapeSaysTheShareOfAttention) {
  const Source file("x.yaml",
                    "model: {kind: llama, layers: 8, width: 256, heads: 8, context: 4096, hidden: "
                    "512, vocabulary: 1000}\ndata: {microbatch: 1}\n"
                    "hardware: " STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware/h100.yaml\n");
  auto spec = ReadCosts(file);
  ASSERT_TRUE(spec.ok()) << spec.status();
  spec->formula->machine.processors = 0;  // tiles would make small products take longer
  const Plan sliced = SlicedPlan("terapipe", "P=2 M=1 K=4");
  const Plan whole = SlicedPlan("gpipe", "P=2 M=1");
  const CostModel costs = *ResolveCosts(*spec, sliced), of_whole = *ResolveCosts(*spec, whole);
  // Slices add up to the microbatch, and grow by a constant.
  std::array<std::vector<int64_t>, 2> lengths;
  const Timeline step3 = *Simulate(sliced, costs);
  for (const Event& event : step3.events) {
    if (event.stage.value == 0 && IsCompute(event.kind)) {
      lengths[event.kind == ActionKind::kForward ? 0 : 1].push_back(event.end_ns - event.start_ns);
    }
  }
  std::reverse(lengths[1].begin(), lengths[1].end());
  const int64_t sums[] = {of_whole.forward[0], of_whole.backward[0]};
  for (int kind = 0; kind < 2; ++kind) {
    const std::vector<int64_t>& of = lengths[kind];
    ASSERT_EQ(of.size(), 4u);
    EXPECT_NEAR(static_cast<double>(of[0] + of[1] + of[2] + of[3]), static_cast<double>(sums[kind]),
                8);
    EXPECT_NEAR(static_cast<double>(of[1] - of[0]), static_cast<double>(of[3] - of[2]), 3);
    EXPECT_GT(of[1] - of[0], sums[kind] / 100);
  }
  // Keys and values are taken out of what is kept for I: c h of each, 2 bytes, over 4 layers.
  const int64_t keys = int64_t{4} * 2 * 4096 * 256 * 2;
  const StageMemory& memory = costs.memory[0];
  EXPECT_EQ(memory[MemoryClass::kSliceKeys], keys / 4);
  EXPECT_EQ(memory[MemoryClass::kSliceKeyGrad], keys / 4);
  EXPECT_NEAR(static_cast<double>(4 * memory[MemoryClass::kSavedForInput] + keys),
              static_cast<double>(of_whole.memory[0][MemoryClass::kSavedForInput]), 4);
  EXPECT_EQ(memory[MemoryClass::kWeights], of_whole.memory[0][MemoryClass::kWeights]);
}

TEST(Slices, MessagesHaveTheirShareOfBytesAndAWholeLatency) {
  const Plan plan = SlicedPlan("terapipe", "P=2 M=1 K=4");
  const CostModel costs = SlicedCosts(plan, "F=8,B=16,p2p=3,bandwidth=1GB/s,message=8000B");
  EXPECT_EQ(costs.activation_hops[0].transfer_ns, 2000);
  EXPECT_EQ(costs.activation_hops[0].latency_ns, 3000);
  const auto refused = ResolveCosts(*ParseCosts("F.attn=1,B.attn=1,W.attn=1"), plan).status();
  EXPECT_NE(refused.message().find("costs of parts"), std::string::npos) << refused;
}

// The most bytes of a microbatch's slices that are held at once, counted by hand from the list.
int64_t HeldByHand(const Plan& plan, int64_t saved, int64_t keys, int64_t grads) {
  int64_t held = 0, most = 0;
  std::map<int, int64_t> open;  // by microbatch: the bytes of its gradients of keys
  for (const Action& action : plan.of(RankId(0))) {
    const int slices = plan.slices, m = action.microbatch.value / slices;
    const int k = action.microbatch.value % slices;
    if (action.kind == ActionKind::kForward) {
      held += saved + keys;
      most = std::max(most, held);
    }
    if (action.kind != ActionKind::kBackward) continue;
    const int64_t next = k * grads;  // of the slices before
    most = std::max(most, held + next);
    held += next - open[m] - saved - keys;
    open[m] = next;
  }
  EXPECT_EQ(held, 0);
  return most;
}

TEST(Slices, KeysAndTheirGradientsAreCounted) {
  for (const char* const name : {"terapipe", "seq1f1b"}) {
    for (const char* const parameters : {"P=1 M=1 K=2", "P=1 M=3 K=4", "P=1 M=2 K=5"}) {
      SCOPED_TRACE(absl::StrCat(name, " ", parameters));
      const Plan plan = SlicedPlan(name, parameters);
      const int64_t k = plan.slices, unit = 1024 * k;
      const CostModel costs = SlicedCosts(
          plan, absl::StrCat("memory.saved_for_I=", 10 * unit, "B,memory.keys=", 2 * unit,
                             "B,memory.key_grads=", 4 * unit, "B"));
      const int64_t most = HeldByHand(plan, 10 * 1024, 2 * 1024, 4 * 1024);
      const Timeline timeline = *Simulate(plan, costs);
      EXPECT_EQ(MemoryOver(plan, timeline, costs.memory).ranks[0].peak, most);
      const std::vector<StageSizes> sizes = SizesOfCosts(plan, costs.memory);
      EXPECT_EQ(PeakBytesOf(plan, RankId(0), sizes).bytes, most);
      const auto memory = PlanMemory(plan, sizes);
      ASSERT_TRUE(memory.ok());
      EXPECT_EQ(memory->ranks[0].alive, most);
      EXPECT_GE(memory->ranks[0].block, most);
      EXPECT_LE(memory->ranks[0].block, most + most / 4);
    }
  }
}

TEST(Slices, ADerivedScheduleMovesThem) {
  const std::string text = absl::StrCat(
      "schedule s(P, M) { slices 2; stages P on line; rank r { repeat 2 * M { F r } repeat 2 * M { "
      "B r } } } schedule t(P, M) = s(P, M) then recompute by 1; schedule u(P, M) = s(P, M) then "
      "defer W by 1;");
  const std::string again = Elaborated(text, ParametersOf("P=1 M=1"), {}, "t");
  EXPECT_NE(again.find("rank 0: 0F0.0 0F0.1 0R0.1 0R0.0 0B0.1 0B0.0\n"), std::string::npos)
      << again;
  const std::string later = Elaborated(text, ParametersOf("P=1 M=1"), {}, "u");
  EXPECT_NE(later.find("rank 0: 0F0.0 0F0.1 0I0.1 0I0.0 0W0.1 0W0.0\n"), std::string::npos)
      << later;
  Diagnostics findings;
  EXPECT_TRUE(Check(Lower(PlanFromText(again)), &findings)) << findings.findings()[0].text;
}

TEST(Slices, TheTimelineIsReadBack) {
  const Plan plan = SlicedPlan("seq1f1b", "P=2 M=2 K=2");
  const Timeline timeline = *Simulate(plan, SlicedCosts(plan, "F=8,B=20,p2p=1"));
  const std::string text = Print(timeline);
  EXPECT_NE(text.find("\nslices 2\nrank 0: 0F0.0@0+4000 "), std::string::npos) << text;
  Diagnostics findings;
  const auto again = ReadTimeline(Source("x.timeline", text), &findings);
  ASSERT_TRUE(again.has_value()) << findings.findings()[0].text;
  EXPECT_EQ(Print(*again), text);
  EXPECT_EQ(again->slices, 2);
  EXPECT_EQ(PrintNumber(*again, again->events[0]), "0.0");
}

}  // namespace
}  // namespace stringline
