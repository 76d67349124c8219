// A calibrated simulation repeats the run: simulated runs exactly, and runs with noise nearly.
#include "schedlang/costs/calibrate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "schedlang/base/sl_check.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

constexpr const char* kSchedules[] = {
    "gpipe",      "1f1b",        "1f1b_offload",   "mario",
    "looped_bfs", "interleaved", "interleaved_zb", "megatron_combined",
    "kimi_k2",    "gis",         "zb_h1",          "zb_h2",
    "zb_v",       "dualpipe_v",  "v_half",         "v_min",
    "hanayo",     "chimera",     "dualpipe",       "gems",
    "eager_1f1b", "kfkb",        "llama3",         "circular",
    "bitpipe",
};

Plan LibraryPlan(const std::string& name, CommLayout layout = CommLayout::kEdge) {
  const Source source(name, ReadTestFile("schedules/" + name + ".sched"));
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  SL_CHECK(file.has_value()) << name;
  const auto plan = Elaborate(*file, "", {{"P", 4}, {"M", 8}}, &diagnostics);
  SL_CHECK(plan.has_value()) << name;
  return Lower(*plan, layout);
}

// The costs that --costs reads from the printed calibration.
CostModel ReadBack(const Calibration& calibration, const Plan& plan) {
  const std::string path = absl::StrCat(testing::TempDir(), "/calibrated_", getpid(), ".yaml");
  std::ofstream(path) << Print(calibration, "a test");
  const auto spec = ReadCostFile(path);
  SL_CHECK(spec.ok()) << spec.status();
  const auto costs = ResolveCosts(*spec, plan);
  SL_CHECK(costs.ok()) << costs.status();
  std::filesystem::remove(path);
  return *costs;
}

// Every stage costs something else, and an F beside a B less than both.
CostModel RandomCosts(const Plan& plan, std::mt19937_64& random) {
  CostModel costs;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto draw = [&] { return static_cast<int64_t>(1'000'000 + random() % 1'000'000); };
    costs.forward.push_back(draw());
    costs.input_gradient.push_back(draw());
    costs.weight_gradient.push_back(draw());
    costs.backward.push_back(costs.input_gradient[s] + costs.weight_gradient[s]);
    costs.forward_backward.push_back(2 * draw());
    costs.recompute.push_back(draw());
    costs.offload.push_back(draw());
    costs.fetch.push_back(draw());
  }
  const Hop hop = {0, static_cast<int64_t>(1 + random() % 600'000)};
  costs.activation_hops.assign(plan.stages.size(), hop);
  costs.gradient_hops = costs.activation_hops;
  return costs;
}

TEST(Calibrate, SimulatedRunsAreRepeatedExactly) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* const name : kSchedules) {
    for (const CommLayout layout : {CommLayout::kEdge, CommLayout::kShared}) {
      const Plan plan = LibraryPlan(name, layout);
      const auto run = Simulate(plan, RandomCosts(plan, random), layout);
      ASSERT_TRUE(run.ok()) << name;
      const auto again = Simulate(plan, ReadBack(Calibrate(*run), plan), layout);
      ASSERT_TRUE(again.ok()) << name;
      EXPECT_EQ(Print(*again), Print(*run)) << name << " " << NameOf(layout);
    }
  }
}

// A recorded R is one part, which is no part of an F.
TEST(Calibrate, AnRIsNoPartOfAnF) {
  for (const int chunks : {1, 2}) {
    Plan plan = LibraryPlan("mario");
    plan.chunks = chunks;
    const auto spec = ParseCosts(
        "layers=2,F.attn=30,F.dispatch=8,F.experts=40,F.combine=8,F.post=2,B.attn=30,B.dispatch=8,"
        "B.experts=40,B.combine=8,B.post=2,W.attn=20,W.experts=30,W.post=4,R=100");
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto run = Simulate(plan, *ResolveCosts(*spec, plan));
    ASSERT_TRUE(run.ok()) << run.status();
    const Calibration calibration = Calibrate(*run);
    EXPECT_EQ(calibration.costs.recompute[0], 100'000) << chunks;
    EXPECT_EQ(calibration.costs.parts[0].ns[kFPost], 2'000) << chunks;
    EXPECT_EQ(Print(*Simulate(plan, ReadBack(calibration, plan))), Print(*run)) << chunks;
  }
}

TEST(Calibrate, LatencyThatOccupiesNothingIsToldFromTransfers) {
  const Plan plan = LibraryPlan("gpipe");
  CostModel costs;
  costs.forward = costs.input_gradient = costs.weight_gradient = std::vector<int64_t>(4, 1'000'000);
  costs.backward = std::vector<int64_t>(4, 2'000'000);
  costs.hop = 5'000'000;  // five messages are under way at once
  const auto run = Simulate(plan, costs);
  ASSERT_TRUE(run.ok());
  const Calibration calibration = Calibrate(*run);
  EXPECT_EQ(calibration.costs.hop, 5'000'000);
  EXPECT_EQ(calibration.transfer_ns, 1'000'000);  // no more can be seen
  EXPECT_EQ(Print(*Simulate(plan, ReadBack(calibration, plan))), Print(*run));
}

TEST(Calibrate, NoiseIsMeasuredAndAveragedOut) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Plan plan = LibraryPlan("dualpipe_v");
  CostModel costs = RandomCosts(plan, random);
  const auto still = Simulate(plan, costs);
  std::normal_distribution<float> normal(1, 0.02F);
  for (size_t i = 0; i < plan.actions.size(); ++i) costs.noise.factors.push_back(normal(random));
  costs.noise.factors[0] = 3;  // a hiccup
  const auto run = Simulate(plan, costs);
  ASSERT_TRUE(run.ok() && still.ok());
  const Calibration calibration = Calibrate(*run);
  EXPECT_GT(calibration.jitter, 0.005);
  EXPECT_LT(calibration.jitter, 0.04);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto median = static_cast<double>(calibration.costs.forward[s]);
    EXPECT_NEAR(median / static_cast<double>(costs.forward[s]), 1, 0.1) << s;
    EXPECT_GT(calibration.spread[0][s].count, 0);
    EXPECT_LE(calibration.spread[0][s].low_ns, calibration.costs.forward[s]);
    EXPECT_GE(calibration.spread[0][s].high_ns, calibration.costs.forward[s]);
  }
  const auto again = Simulate(plan, ReadBack(calibration, plan));
  ASSERT_TRUE(again.ok());
  EXPECT_NEAR(static_cast<double>(MeasureBubbles(*again).makespan_ns) /
                  static_cast<double>(MeasureBubbles(*still).makespan_ns),
              1, 0.1);
}

// Costs of a stage from the actions that ran alone there, and costs derived for the rest.
TEST(CostsFrom, MakesUpWhatNeverRanAlone) {
  struct Row {
    int64_t f, b, i, w, fb, shared_b;  // seen; 0: never
    std::array<int64_t, 4> want;       // F, B, I, W
  };
  const Row rows[] = {
      {10, 30, 18, 11, 0, 0, {10, 30, 18, 11}},  // nothing
      {10, 0, 18, 12, 0, 0, {10, 30, 18, 12}},   // B is I and W
      {10, 30, 0, 0, 0, 0, {10, 30, 15, 15}},    // I and W are halves of B
      {10, 30, 0, 12, 0, 0, {10, 30, 18, 12}},   // I = B - W
      {10, 30, 18, 0, 0, 0, {10, 30, 18, 12}},   // W = B - I
      {0, 0, 0, 0, 40, 44, {20, 22, 11, 11}},    // F and B are halves of their shared time
      {0, 0, 18, 12, 40, 44, {20, 30, 18, 12}},
  };
  for (const Row& row : rows) {
    TypicalDurations typical;
    typical.alone = {{{row.f}, {row.b}, {row.i}, {row.w}}};
    typical.forward_backward = {row.fb};
    typical.shared_backward = {row.shared_b};
    typical.message = 7;
    const CostModel costs = CostsFrom(typical);
    const std::array<int64_t, 4> found = {costs.forward.at(0), costs.backward.at(0),
                                          costs.input_gradient.at(0), costs.weight_gradient.at(0)};
    EXPECT_EQ(found, row.want) << &row - rows;
    EXPECT_EQ(costs.forward_backward.empty(), row.fb == 0) << &row - rows;
    EXPECT_EQ(costs.hop, 7);
  }
}

// The deviation is that from the mean of a part: dispatches take 80 and 120, so a fifth; the rest
// of the time nothing deviates.
TEST(Calibrate, PartsDeviate) {
  Plan plan;
  plan.schedule = "x";
  plan.microbatches = 1;
  plan.stages = {{.rank = RankId(0)}};
  plan.SetChains();
  plan.actions = {
      {.kind = ActionKind::kForward, .stage = StageId(0), .microbatch = MicrobatchId(0)},
      {.kind = ActionKind::kBackward, .stage = StageId(0), .microbatch = MicrobatchId(0)}};
  plan.first = {0, 2};
  Timeline timeline = TimelineOf(plan, "measured");
  timeline.events[0].end_ns = 400'000;
  timeline.events[1].start_ns = 400'000;
  timeline.events[1].end_ns = 600'000;
  timeline.parts = {{0, kFAttn, 0, 0, 100'000},       {0, kFDispatch, 0, 100'000, 180'000},
                    {0, kFAttn, 1, 180'000, 280'000}, {0, kFDispatch, 1, 280'000, 400'000},
                    {1, kBAttn, 0, 400'000, 500'000}, {1, kWAttn, 0, 500'000, 600'000}};
  const Calibration calibration = Calibrate(timeline);
  // 40 of 600 us, by the mean deviation of a normal distribution.
  EXPECT_NEAR(static_cast<double>(calibration.costs.part_jitter) * 1e-6,
              40.0 / 600 * std::sqrt(std::acos(-1.0) / 2), 1e-4);
  EXPECT_NEAR(static_cast<double>(ReadBack(calibration, plan).part_jitter),
              static_cast<double>(calibration.costs.part_jitter), 10);
  timeline.parts[1].end_ns += 20'000;
  timeline.parts[3].end_ns -= 20'000;
  EXPECT_EQ(Calibrate(timeline).costs.part_jitter, 0);
}

TEST(Calibrate, ARunWithoutActionsGivesNothing) {
  Timeline timeline;
  timeline.first = {0, 0};
  const Calibration calibration = Calibrate(timeline);
  EXPECT_TRUE(calibration.costs.forward.empty());
  EXPECT_EQ(calibration.jitter, 0);
}

}  // namespace
}  // namespace stringline
