// The table of a stage's parts, and the order of a pair on two lanes: a few cases in full, and
// random orders that must end.
#include "schedlang/plan/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/costs/overlapped.h"
#include "schedlang/plan/check_overlap.h"
#include "schedlang/plan/pair_order.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_block.h"

namespace stringline {
namespace {

TEST(Parts, NamesReadBack) {
  for (int part = 0; part < kParts; ++part) {
    for (const int layer : {0, 1, 12}) {
      const LayerPart of{static_cast<uint8_t>(part), layer};
      const bool is_one = layer == 0 || !RowOfPart(part).once;
      EXPECT_EQ(ReadLayerPart(Print(of)), is_one ? std::optional(of) : std::nullopt) << Print(of);
    }
  }
  for (const char* const bad : {"", "F", "F.", "F.att", "F.attn.", "F.attn.0", "F.attn.01",
                                "F.attn.-1", "F.attn.1.1", "F.attnx", "I.attn", "W.dispatch"}) {
    EXPECT_FALSE(ReadLayerPart(bad)) << bad;
  }
}

struct AloneCase {
  ActionKind kind;
  int layers;
  const char* order;
};

const AloneCase kAlone[] = {
    {ActionKind::kForward, 0, "compute F.post | network"},
    {ActionKind::kForward, 2,
     "compute F.attn F.experts F.attn.1 F.experts.1 F.post"
     " | network F.dispatch F.combine F.dispatch.1 F.combine.1"},
    {ActionKind::kInputGradient, 2,
     "compute B.post B.experts.1 B.attn.1 B.experts B.attn"
     " | network B.combine.1 B.dispatch.1 B.combine B.dispatch"},
    {ActionKind::kBackward, 1,
     "compute B.post B.experts B.attn W.post W.experts W.attn | network B.combine B.dispatch"},
    {ActionKind::kWeightGradient, 2,
     "compute W.post W.experts.1 W.attn.1 W.experts W.attn | network"},
};

TEST(PairOrder, AnActionAloneRunsOnePartAfterTheOther) {
  for (const AloneCase& test : kAlone) {
    EXPECT_EQ(Print(OrderAlone(test.kind, test.layers)), test.order);
  }
  const PairOrder forward = OrderAlone(ActionKind::kForward, 2);
  std::vector<int32_t> waits;
  for (const LaneStep& step : forward.compute) waits.push_back(step.after);
  EXPECT_EQ(waits, (std::vector<int32_t>{-1, 0, 1, 2, 3}));
  waits.clear();
  for (const LaneStep& step : forward.network) waits.push_back(step.after);
  EXPECT_EQ(waits, (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(PairOrder, TheFirstLayerOfAForwardRunsBesideTheLastOfABackward) {
  EXPECT_EQ(Print(OrderPair(0, 0, true, nullptr)), "compute B.post W.post F.post | network");
  EXPECT_EQ(Print(OrderPair(1, 1, false, nullptr)),
            "compute B.post F.attn B.experts F.experts B.attn F.post"
            " | network B.combine F.dispatch B.dispatch F.combine");
  EXPECT_EQ(Print(OrderPair(1, 2, true, nullptr)),
            "compute B.post F.attn B.experts.1 W.experts.1 F.experts B.attn.1 W.attn.1"
            " B.experts W.experts B.attn W.attn W.post F.post"
            " | network B.combine.1 F.dispatch B.dispatch.1 F.combine B.combine B.dispatch");
  EXPECT_EQ(Print(OrderPair(2, 0, true, nullptr)),
            "compute B.post F.attn F.experts F.attn.1 F.experts.1 W.post F.post"
            " | network F.dispatch F.combine F.dispatch.1 F.combine.1");
}

TEST(PairOrder, ABlockOfThePlanGivesItsOwn) {
  const Plan plan = PlanFromText(
      "plan x P=1 M=1\nstages 0\n"
      "overlap I&F compute I.experts F.attn F.experts I.attn network I.combine F.dispatch "
      "F.combine I.dispatch\nrank 0: 0F0 0I0 0W0\n");
  EXPECT_EQ(FindOverlap(plan, /*whole=*/true), nullptr);
  ASSERT_EQ(FindOverlap(plan, /*whole=*/false), &plan.overlaps[0]);
  EXPECT_EQ(Print(OrderPair(1, 1, false, &plan.overlaps[0])),
            "compute B.post B.experts F.attn F.experts B.attn F.post"
            " | network B.combine F.dispatch F.combine B.dispatch");
}

// Runs both lanes until nothing moves. Returns the parts in the order of their ends; every step
// waits for its dependencies, and has its own preceding part behind it.
std::vector<LayerPart> EndsOf(const PairOrder& order, int forward_layers, int backward_layers,
                              bool weights_alone = false) {
  size_t next[2] = {0, 0};
  std::vector<LayerPart> ended;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
      const auto k = static_cast<size_t>(lane);
      if (next[k] == order.of(lane).size()) continue;
      const LaneStep& step = order.of(lane)[next[k]];
      if (step.after >= static_cast<int64_t>(next[1 - k])) continue;
      const bool forward = RowOfPart(step.part).of == ActionKind::kForward;
      const auto before =
          PartBefore({step.part, step.layer}, forward ? forward_layers : backward_layers);
      if (before && !weights_alone) {
        EXPECT_EQ(std::count(ended.begin(), ended.end(), *before), 1)
            << Print(LayerPart{step.part, step.layer}) << " runs before " << Print(*before);
      }
      EXPECT_EQ(LaneOf(step.part), lane);
      ended.push_back({step.part, step.layer});
      ++next[k];
      moved = true;
    }
  }
  EXPECT_EQ(next[0], order.compute.size());
  EXPECT_EQ(next[1], order.network.size());
  return ended;
}

// Expects every part of these stages, once.
void ExpectAll(std::vector<LayerPart> ended, const std::map<ActionKind, int>& layers) {
  std::vector<LayerPart> all;
  for (int part = 0; part < kParts; ++part) {
    const PartRow& row = RowOfPart(part);
    const auto of = layers.find(row.of);
    if (of == layers.end()) continue;
    for (int l = 0; l < (row.once ? 1 : of->second); ++l) {
      all.push_back({static_cast<uint8_t>(part), l});
    }
  }
  const auto less = [](const LayerPart& a, const LayerPart& b) {
    return std::pair(a.part, a.layer) < std::pair(b.part, b.layer);
  };
  std::sort(ended.begin(), ended.end(), less);
  EXPECT_EQ(ended, all);
}

TEST(PairOrder, EveryOrderThatABlockMayGiveRunsToItsEnd) {
  std::mt19937 random(20);
  for (int i = 0; i < 2000 && !::testing::Test::HasFailure(); ++i) {
    const bool whole = random() % 2 == 0;
    const int f = static_cast<int>(random() % 6), b = static_cast<int>(random() % 6);
    const Overlap block = RandomBlock(whole, &random);
    Diagnostics diagnostics;
    ASSERT_TRUE(CheckOverlap(block, {}, &diagnostics)) << diagnostics.findings()[0].text;
    const PairOrder order = OrderPair(f, b, whole, i % 10 == 0 ? nullptr : &block);
    SCOPED_TRACE(absl::StrCat("seed 20, draw ", i, ", layers ", f, " and ", b, ": ", Print(order)));
    std::map<ActionKind, int> layers = {{ActionKind::kForward, f}, {ActionKind::kInputGradient, b}};
    if (whole) layers[ActionKind::kWeightGradient] = b;
    ExpectAll(EndsOf(order, f, b), layers);
    // The simulator's parts are those of the order.
    PartCosts costs[2];
    for (PartCosts& of : costs) {
      for (int64_t& ns : of.ns) ns = static_cast<int64_t>(random() % 50);
    }
    costs[0].layers = f;
    costs[1].layers = b;
    std::vector<LayerPart> priced;
    for (const PartTime& part :
         RunOverlapped(costs[0], costs[1], whole, i % 10 == 0 ? nullptr : &block, 100'000)) {
      priced.push_back({part.part, part.layer});
    }
    ExpectAll(priced, layers);
  }
}

TEST(PairOrder, IsWhatASimulatedTimelineShows) {
  const Plan plan = PlanFromText(
      "plan x P=1 M=3\nstages 0\n"
      "overlap F&B compute F.attn B.experts F.experts B.attn W.attn W.experts "
      "network F.dispatch B.combine B.dispatch F.combine\n"
      "rank 0: 0F0 0B0&0F1 0F2&0I1 0B2 0W1\n");
  const CostModel costs = *ResolveCosts(
      *ParseCosts("F.attn=3,F.dispatch=4,F.experts=4,F.combine=1,F.post=1,B.attn=3,B.dispatch=1,"
                  "B.experts=4,B.combine=5,B.post=1,W.attn=2,W.experts=3,W.post=1,layers=3"),
      plan);
  const Timeline timeline = *Simulate(plan, costs);
  EXPECT_EQ(ShownOrder(timeline, 0, 0), Print(OrderAlone(ActionKind::kForward, 3)));
  EXPECT_EQ(ShownOrder(timeline, 1, 2), Print(OrderPair(3, 3, true, &plan.overlaps[0])));
  EXPECT_EQ(ShownOrder(timeline, 3, 4), Print(OrderPair(3, 3, false, nullptr)));
  EXPECT_EQ(ShownOrder(timeline, 5, 5), Print(OrderAlone(ActionKind::kBackward, 3)));
  EXPECT_EQ(ShownOrder(timeline, 6, 6), Print(OrderAlone(ActionKind::kWeightGradient, 3)));
}

TEST(PairOrder, EveryActionAloneRunsToItsEnd) {
  const ActionKind f = ActionKind::kForward, i = ActionKind::kInputGradient,
                   w = ActionKind::kWeightGradient;
  for (int layers = 0; layers < 5; ++layers) {
    ExpectAll(EndsOf(OrderAlone(f, layers), layers, 0), {{f, layers}});
    ExpectAll(EndsOf(OrderAlone(i, layers), 0, layers), {{i, layers}});
    ExpectAll(EndsOf(OrderAlone(w, layers), 0, layers, /*weights_alone=*/true), {{w, layers}});
    ExpectAll(EndsOf(OrderAlone(ActionKind::kBackward, layers), 0, layers),
              {{i, layers}, {w, layers}});
  }
}

// Two parts of a good block change places on a lane: whatever the check still lets through runs.
TEST(PairOrder, WhatCannotRunIsFound) {
  std::mt19937 random(21);
  int refused = 0;
  for (int n = 0; n < 2000; ++n) {
    Overlap block = RandomBlock(/*whole=*/true, &random);
    std::vector<Overlap::Part>& lane = random() % 2 == 0 ? block.compute : block.network;
    std::swap(lane[random() % lane.size()], lane[random() % lane.size()]);
    Diagnostics diagnostics;
    if (CheckOverlap(block, {}, &diagnostics)) {
      EndsOf(OrderPair(2, 3, true, &block), 2, 3);
    } else {
      ++refused;
      EXPECT_EQ(diagnostics.findings().size(), 1u);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1900);
}

}  // namespace
}  // namespace stringline
