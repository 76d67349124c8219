// The table of a stage's parts, and the order of a pair on two lanes: a few cases in full, and
// random orders that must end.
#include "schedlang/plan/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/costs/overlapped.h"
#include "schedlang/plan/check_overlap.h"
#include "schedlang/plan/group_order.h"
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

GroupOrder OrderPair(int forward_layers, int backward_layers, bool whole, const Overlap* order) {
  const GroupMember group[] = {
      {ActionKind::kForward, forward_layers},
      {whole ? ActionKind::kBackward : ActionKind::kInputGradient, backward_layers}};
  return OrderGroup(group, order);
}

GroupOrder OrderAlone(ActionKind kind, int layers) { return OrderGroup({{kind, layers}}, nullptr); }

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

TEST(GroupOrder, AnActionAloneRunsOnePartAfterTheOther) {
  for (const AloneCase& test : kAlone) {
    EXPECT_EQ(Print(OrderAlone(test.kind, test.layers)), test.order);
  }
  const GroupOrder forward = OrderAlone(ActionKind::kForward, 2);
  std::vector<int32_t> waits;
  for (const LaneStep& step : forward.compute) waits.push_back(step.after);
  EXPECT_EQ(waits, (std::vector<int32_t>{-1, 0, 1, 2, 3}));
  waits.clear();
  for (const LaneStep& step : forward.network) waits.push_back(step.after);
  EXPECT_EQ(waits, (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(GroupOrder, TheFirstLayerOfAForwardRunsBesideTheLastOfABackward) {
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

TEST(GroupOrder, ABlockOfThePlanGivesItsOwn) {
  const Plan plan = PlanFromText(
      "plan x P=1 M=1\nstages 0\n"
      "overlap I&F compute I.experts F.attn F.experts I.attn network I.combine F.dispatch "
      "F.combine I.dispatch\nrank 0: 0F0 0I0 0W0\n");
  const auto of = [](ActionKind one, ActionKind other) {
    return std::vector<Action>{{.kind = one}, {.kind = other}};
  };
  EXPECT_EQ(FindOverlap(plan, of(ActionKind::kForward, ActionKind::kBackward)), nullptr);
  EXPECT_EQ(FindOverlap(plan, of(ActionKind::kForward, ActionKind::kInputGradient)),
            &plan.overlaps[0]);
  EXPECT_EQ(Print(OrderPair(1, 1, false, &plan.overlaps[0])),
            "compute B.post B.experts F.attn F.experts B.attn F.post"
            " | network B.combine F.dispatch F.combine B.dispatch");
}

// Runs both lanes by turns until nothing moves: `run` is given the lane and its next step, and
// returns false if that step has to wait. Returns how many steps of each lane ran.
template <class Run>
std::array<size_t, 2> RunLanes(const GroupOrder& order, const Run& run) {
  std::array<size_t, 2> next = {0, 0};
  for (bool moved = true; moved;) {
    moved = false;
    for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
      size_t& at = next[static_cast<size_t>(lane)];
      if (at == order.of(lane).size()) continue;
      const LaneStep& step = order.of(lane)[at];
      EXPECT_EQ(LaneOf(step.part), lane);
      if (!run(step, next)) continue;
      ++at;
      moved = true;
    }
  }
  return next;
}

// Runs both lanes. Returns the parts in the order of their ends; every step
// waits for its dependencies, and has its own preceding part behind it.
std::vector<LayerPart> EndsOf(const GroupOrder& order, int forward_layers, int backward_layers,
                              bool weights_alone = false) {
  std::vector<LayerPart> ended;
  const auto run = [&](const LaneStep& step, const std::array<size_t, 2>& next) {
    const size_t other = 1 - static_cast<size_t>(LaneOf(step.part));
    if (step.after >= static_cast<int64_t>(next[other])) return false;
    const bool forward = RowOfPart(step.part).of == ActionKind::kForward;
    const auto before =
        PartBefore({step.part, step.layer}, forward ? forward_layers : backward_layers);
    if (before && !weights_alone) {
      EXPECT_EQ(std::count(ended.begin(), ended.end(), *before), 1)
          << Print(LayerPart{step.part, step.layer}) << " runs before " << Print(*before);
    }
    ended.push_back({step.part, step.layer});
    return true;
  };
  const std::array<size_t, 2> ran = RunLanes(order, run);
  EXPECT_EQ(ran[0], order.compute.size());
  EXPECT_EQ(ran[1], order.network.size());
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

TEST(GroupOrder, EveryOrderThatABlockMayGiveRunsToItsEnd) {
  std::mt19937 random(20);
  for (int i = 0; i < 2000 && !::testing::Test::HasFailure(); ++i) {
    const bool whole = random() % 2 == 0;
    const int f = static_cast<int>(random() % 6), b = static_cast<int>(random() % 6);
    const Overlap block = RandomBlock(whole, &random);
    Diagnostics diagnostics;
    ASSERT_TRUE(CheckOverlap(block, {}, &diagnostics)) << diagnostics.findings()[0].text;
    const GroupOrder order = OrderPair(f, b, whole, i % 10 == 0 ? nullptr : &block);
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
    const PricedMember group[] = {
        {ActionKind::kForward, &costs[0]},
        {whole ? ActionKind::kBackward : ActionKind::kInputGradient, &costs[1]}};
    for (const PartTime& part :
         RunGroup(group, i % 10 == 0 ? nullptr : &block, {.slowdown = 100'000})) {
      priced.push_back({part.part, part.layer});
    }
    ExpectAll(priced, layers);
  }
}

TEST(GroupOrder, TwoForwardsTakeTurns) {
  EXPECT_EQ(Print(OrderGroup({{ActionKind::kForward, 2}, {ActionKind::kForward, 1}}, nullptr)),
            "compute 1.F.attn 2.F.attn 1.F.experts 2.F.experts 1.F.attn.1 2.F.post 1.F.experts.1"
            " 1.F.post"
            " | network 1.F.dispatch 2.F.dispatch 1.F.combine 2.F.combine 1.F.dispatch.1"
            " 1.F.combine.1");
  // Weight gradients fill the time in which nothing else can be computed.
  EXPECT_EQ(
      Print(OrderGroup({{ActionKind::kBackward, 1}, {ActionKind::kBackward, 1}}, nullptr)),
      "compute 1.B.post 2.B.post 1.W.post 1.B.experts 1.W.experts 2.B.experts 2.W.post 1.B.attn"
      " 1.W.attn 2.B.attn 2.W.experts 2.W.attn"
      " | network 1.B.combine 2.B.combine 1.B.dispatch 2.B.dispatch");
}

// A part of an action: the action's index, the part, the layer.
using MemberStep = std::tuple<int, int, int>;
MemberStep Key(int of, LayerPart part) { return {of, part.part, part.layer}; }

// All parts of the group, each with its predecessor.
std::map<MemberStep, std::optional<MemberStep>> PartsOf(absl::Span<const GroupMember> group) {
  std::map<MemberStep, std::optional<MemberStep>> all;
  for (int of = 0; of < static_cast<int>(group.size()); ++of) {
    for (int part = 0; part < kParts; ++part) {
      if (!HasPart(group[of].kind, part)) continue;
      for (int l = 0; l < (RowOfPart(part).once ? 1 : group[of].layers); ++l) {
        const LayerPart here = {static_cast<uint8_t>(part), l};
        const auto before = PartBefore(here, group[of].layers);
        const bool waits = before && HasPart(group[of].kind, before->part);
        all[Key(of, here)] = waits ? std::optional(Key(of, *before)) : std::nullopt;
      }
    }
  }
  return all;
}

// An independent performance of an order: a lane goes on when its next part's predecessor, looked
// up in the table of parts, has ended.
int64_t EndOf(const GroupOrder& order, absl::Span<const GroupMember> group,
              const std::vector<PartCosts>& costs) {
  const auto parts = PartsOf(group);
  std::map<MemberStep, int64_t> ends;
  int64_t free_at[2] = {0, 0};
  RunLanes(order, [&](const LaneStep& step, const std::array<size_t, 2>&) {
    const MemberStep key = Key(step.of, {step.part, step.layer});
    EXPECT_EQ(parts.count(key), 1u);
    const std::optional<MemberStep>& before = parts.at(key);
    if (before && ends.count(*before) == 0) return false;
    int64_t& free = free_at[static_cast<size_t>(LaneOf(step.part))];
    free = std::max(free, before ? ends[*before] : 0) + costs[step.of].ns[step.part];
    EXPECT_TRUE(ends.emplace(key, free).second) << "a part a second time";
    return true;
  });
  EXPECT_EQ(ends.size(), parts.size());
  return std::max(free_at[0], free_at[1]);
}

TEST(GroupOrder, EveryGroupRunsToItsEndAndIsNoLongerThanItsActionsInARow) {
  constexpr ActionKind kKinds[] = {ActionKind::kForward, ActionKind::kBackward,
                                   ActionKind::kInputGradient, ActionKind::kWeightGradient};
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  int shorter = 0;
  for (int i = 0; i < 10'000 && !::testing::Test::HasFailure(); ++i) {
    std::vector<GroupMember> group;
    std::vector<ActionKind> kinds;
    std::vector<PartCosts> costs;
    const size_t actions = 2 + random() % 3;
    for (size_t k = 0; k < actions; ++k) {
      group.push_back({kKinds[random() % 4], static_cast<int>(random() % 4)});
      kinds.push_back(group.back().kind);
      PartCosts& of = costs.emplace_back();
      of.layers = group.back().layers;
      for (int64_t& ns : of.ns) ns = static_cast<int64_t>(random() % 50);
      if (of.layers == 0) of.ns[kWPost] = 0;  // a B without layers is all in its B.post
    }
    const Overlap block = RandomBlock(kinds, &random);
    Diagnostics diagnostics;
    ASSERT_TRUE(CheckOverlap(block, {}, &diagnostics)) << diagnostics.findings()[0].text;
    const Overlap* const order = random() % 2 == 0 ? nullptr : &block;
    const GroupOrder lanes = OrderGroup(group, order);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", draw ", i, ": ", Print(lanes)));
    const int64_t end = EndOf(lanes, group, costs);
    // The simulator's length is that of the order.
    std::vector<PricedMember> priced;
    int64_t in_a_row = 0;
    for (size_t k = 0; k < actions; ++k) {
      priced.push_back({kinds[k], &costs[k]});
      for (const PartTime& part : RunGroup({priced.back()}, nullptr)) {
        in_a_row += part.end_ns - part.start_ns;
      }
    }
    int64_t simulated = 0;
    for (const PartTime& part : RunGroup(priced, order)) {
      simulated = std::max(simulated, part.end_ns);
    }
    EXPECT_EQ(simulated, end);
    EXPECT_LE(end, in_a_row);
    shorter += end < in_a_row ? 1 : 0;
  }
  EXPECT_GT(shorter, 5'000);
}

TEST(GroupOrder, IsWhatASimulatedTimelineShows) {
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

TEST(GroupOrder, EveryActionAloneRunsToItsEnd) {
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
TEST(GroupOrder, WhatCannotRunIsFound) {
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
