// Stages cut into parts: the duration of a pair, and the order of its parts, are the same in the
// simulator and on a device whose time jumps.
#include <random>

#include "absl/strings/str_cat.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "executor/rehearsal/held_device.h"
#include "executor/rehearsal/held_stages.h"
#include "executor/rehearsal/rehearsal.h"
#include "executor/rehearsal/rehearsal_control.h"
#include "executor/training/measured_costs.h"
#include "gtest/gtest.h"
#include "schedlang/costs/calibrate.h"
#include "schedlang/report/network_time.h"
#include "schedlang/sim/simulate.h"
#include "tests/executor/plans.h"
#include "tests/schedlang/random_block.h"

namespace stringline {
namespace {

// Every part of every stage has another cost, and so do messages; stages have `least_layers` up to
// `most_layers`.
CostModel RandomPartCosts(const Plan& plan, int least_layers, int most_layers,
                          std::mt19937_64* random) {
  CostSpec spec;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (int part = 0; part < kParts; ++part) {
      const auto ns = static_cast<int64_t>(1 + (*random)() % 1'000'000);
      spec.values[PartName(part)].push_back(ns);
    }
    spec.values["layers"].push_back(
        least_layers + static_cast<int64_t>((*random)() % (most_layers - least_layers + 1)));
  }
  spec.values["p2p"] = {static_cast<int64_t>((*random)() % 500'000)};
  const auto costs = ResolveCosts(spec, plan);
  SL_CHECK(costs.ok()) << costs.status();
  return *costs;
}

// Through its text form, as in a .plan file.
Plan WithRandomBlocks(Plan plan, std::mt19937_64* random) {
  plan.overlaps = {RandomBlock(/*whole=*/true, random), RandomBlock(/*whole=*/false, random)};
  return PlanFrom(Print(plan));
}

// The text of a timeline, without the observed times.
std::string Told(Timeline timeline) {
  timeline.observed.clear();
  timeline.observed_parts.clear();
  return Print(timeline);
}

std::string AsMeasured(Timeline timeline) {
  timeline.origin = "measured";
  return Print(timeline);
}

// Pairs of all stages with a B and with an I, and a group that does not overlap.
constexpr const char* kByHand =
    "plan v P=2 M=4\n"
    "stages 0 1 1 0\n"
    "rank 0: 0F0 0F1 3F0 0F2&3B0 3F1 0F3&3I1 3F2 3F3&0B0 3B2&0I1 3W1 3B3 0W1 0B2 0B3\n"
    "rank 1: 1F0 2F0 1F1 2F1 1F2&2B0 2F2 1B0 1F3&2I1 2F3&1I1 2W1 1W1 2B2 1B2 2B3 1B3\n";

TEST(PartsRehearsal, TakesWhatTheSimulatorSaysAndSoDoesWhatWasMeasured) {
  const unsigned seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int parts = 0, rehearsed = 0;
  std::vector<Plan> plans = {LoweredFrom(kByHand)};
  for (const char* const schedule : {"dualpipe_v", "dualpipe", "megatron_combined", "kimi_k2"}) {
    for (const auto& [p, m] : {std::pair{2, 4}, {2, 8}, {4, 8}, {4, 16}}) {
      const std::optional<Plan> plan = LibraryPlan(schedule, p, m);
      if (plan) plans.push_back(*plan);
    }
  }
  for (const Plan& library : plans) {
    for (int draw = 0; draw < 8; ++draw) {
      SCOPED_TRACE(absl::StrCat(library.schedule, " on ", library.ranks(), " ranks, draw ", draw,
                                ", seed ", seed));
      const Plan plan = draw % 2 == 0 ? library : WithRandomBlocks(library, &random);
      const CostModel costs = RandomPartCosts(plan, 0, draw / 2, &random);
      const auto rehearsal =
          Rehearse(plan, costs, {.steps = 1, .threads = 1 + draw % 2, .time = DeviceTime::kJumps});
      ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
      const std::string measured = Told(rehearsal->measured);
      ASSERT_EQ(measured, AsMeasured(rehearsal->simulated));
      parts += static_cast<int>(rehearsal->measured.parts.size());
      ++rehearsed;
      // Without cut stages, a pair is identified by the stage of its F alone.
      if (rehearsal->measured.parts.empty()) continue;
      // Typical durations of equal ones are equal to them.
      CostModel calibrated = Calibrate(rehearsal->measured).costs;
      PriceGroups(plan, &calibrated);
      MeasuredCosts found_costs(plan);
      found_costs.Add(rehearsal->measured);
      found_costs.Add(rehearsal->measured);
      for (const CostModel& found : {calibrated, found_costs.Model()}) {
        const auto again = Simulate(plan, found);
        ASSERT_TRUE(again.ok()) << again.status();
        ASSERT_EQ(measured, AsMeasured(*again));
      }
    }
  }
  EXPECT_GT(rehearsed, 80);
  EXPECT_GT(parts, 10'000);
}

// So that it notices a machine that ends holds late as the step does.
TEST(PartsRehearsal, TheControlHoldsAsOftenAsTheStepsParts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* const schedule : {"dualpipe_v", "interleaved", "zb_v"}) {
    const Plan plan = LibraryPlan(schedule, 2, 8).value();
    const CostModel costs = RandomPartCosts(plan, 1, 3, &random);
    const auto rehearsal = Rehearse(plan, costs, {.steps = 1, .time = DeviceTime::kJumps});
    const HeldStages stages(plan, costs, nullptr);
    const auto control = RehearsalControl::Make(plan, costs, stages, 1, DeviceTime::kJumps);
    ASSERT_TRUE(rehearsal.ok() && control.ok());
    for (int r = 0; r < plan.ranks(); ++r) {
      int parts = 0, on_one_lane = 0, computations = 0;
      for (const PartEvent& part : rehearsal->measured.parts) {
        if (plan.stage(plan.actions[part.event].stage).rank.value != r) continue;
        ++parts;
        on_one_lane += LaneOf(part.part) == Lane::kCompute ? 1 : 0;
      }
      for (const Action& action : plan.of(RankId(r))) computations += IsCompute(action.kind);
      const bool side_by_side = absl::string_view(schedule) == "dualpipe_v";
      EXPECT_GE((*control)->HoldsOf(r), side_by_side ? on_one_lane : parts) << schedule;
      EXPECT_LE((*control)->HoldsOf(r), parts + 2 * computations) << schedule;
    }
    EXPECT_EQ((*control)->Run().value(), (*control)->known_ns());
  }
}

// The costs of a run without pairs price the pairs of another schedule.
TEST(PartsRehearsal, CostsOfOneScheduleArePricedForAnother) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Plan apart = LibraryPlan("interleaved", 2, 8).value();
  const CostModel costs = RandomPartCosts(apart, 1, 3, &random);
  const RehearsalSettings settings = {.steps = 1, .time = DeviceTime::kJumps};
  const auto run = Rehearse(apart, costs, settings);
  ASSERT_TRUE(run.ok()) << run.status();
  MeasuredCosts found_costs(apart);
  found_costs.Add(run->measured);
  for (const char* const schedule : {"megatron_combined", "kimi_k2", "dualpipe_v"}) {
    const Plan paired = WithRandomBlocks(LibraryPlan(schedule, 2, 8).value(), &random);
    CostModel asked = costs, found = found_costs.Model();
    PriceGroups(paired, &asked);
    PriceGroups(paired, &found);
    const auto rehearsal = Rehearse(paired, asked, settings);
    const auto predicted = Simulate(paired, found);
    ASSERT_TRUE(rehearsal.ok() && predicted.ok());
    EXPECT_EQ(Told(rehearsal->measured), AsMeasured(*predicted)) << schedule;
  }
}

// A step as observed by the device.
Timeline Recorded(const Plan& plan, const CostModel& costs) {
  const auto owned = CpuDevice::Make(1, nullptr, DeviceTime::kJumps);
  SL_CHECK(owned.ok()) << owned.status();
  HeldDevice device(owned->get());
  ThreadGroups groups(owned->get());
  HeldStages stages(plan, costs, &groups);
  Recorder recorder(plan);
  const auto step = Interpreter::Make(plan, &stages, &device, &groups, &recorder);
  SL_CHECK(step.ok()) << step.status();
  recorder.StartStep(device.NowNs());
  (*step)->EnqueueStep();
  SL_CHECK(device.Synchronize().ok());
  return recorder.Observed(plan);
}

// The part in the timeline, if it ran.
std::optional<PartEvent> FindPart(const Timeline& timeline, uint32_t event, const LaneStep& step) {
  for (const PartEvent& part : timeline.parts) {
    if (part.event == event && part.part == step.part && part.layer == step.layer) return part;
  }
  return std::nullopt;
}

// No step of a lane starts before the end of the step before it, and of its dependency. The group's
// first action is `begin`.
void ExpectOrder(const Timeline& timeline, const GroupOrder& order, uint32_t begin) {
  const auto find = [&](const LaneStep& step) { return FindPart(timeline, begin + step.of, step); };
  for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
    const std::vector<LaneStep>& other =
        order.of(lane == Lane::kCompute ? Lane::kNetwork : Lane::kCompute);
    int64_t free_ns = 0;
    for (const LaneStep& step : order.of(lane)) {
      const auto part = find(step);
      if (!part) continue;  // the W.post of a B without parts
      EXPECT_GE(part->start_ns, free_ns);
      if (step.after >= 0) {
        EXPECT_GE(part->start_ns, find(other[step.after])->end_ns);
      }
      free_ns = part->end_ns;
    }
  }
}

// For all layers and blocks: the parts of a group run on each lane in the order of OrderGroup, and
// so they do in the simulator.
TEST(PartsRehearsal, PartsRunInTheOrderOfTheirGroup) {
  const unsigned seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int checked = 0;
  for (int draw = 0; draw < 200 && !testing::Test::HasFailure(); ++draw) {
    SCOPED_TRACE(absl::StrCat("draw ", draw, " seed ", seed));
    const Plan plan = WithRandomBlocks(LoweredFrom(kByHand), &random);
    const CostModel costs = RandomPartCosts(plan, 0, 4, &random);
    if (std::all_of(costs.parts.begin(), costs.parts.end(),
                    [](const PartCosts& parts) { return parts.layers == 0; })) {
      continue;  // no stage is cut
    }
    const Timeline recorded = Recorded(plan, costs);
    const auto simulated = Simulate(plan, costs);
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    for (uint32_t i = 0; i < plan.actions.size(); ++i) {
      if (!IsCompute(plan.actions[i].kind) || plan.actions[i].joined) continue;
      const auto group = GroupAt(absl::MakeConstSpan(plan.actions), i);
      if (!OverlapsInParts(plan, costs, group)) continue;
      std::vector<GroupMember> members;
      for (const Action& action : group) {
        members.push_back({action.kind, static_cast<int>(costs.parts[action.stage.value].layers)});
      }
      GroupOrder order = OrderGroup(members, FindOverlap(plan, group));
      ExpectOrder(recorded, order, i);
      std::erase_if(order.compute, [&](const LaneStep& step) {
        const GroupMember& of = members[step.of];
        return step.part == kWPost && of.layers == 0 && of.kind == ActionKind::kBackward;
      });
      const auto last = i + static_cast<uint32_t>(group.size()) - 1;
      EXPECT_EQ(ShownOrder(recorded, i, last), Print(order));
      EXPECT_EQ(ShownOrder(*simulated, i, last), Print(order));
      ++checked;
    }
  }
  EXPECT_GT(checked, 500);
}

// The network time in pairs, without all other exchanges.
NetworkTime InPairs(const Plan& plan, Timeline timeline) {
  std::erase_if(timeline.parts, [&](const PartEvent& part) {
    uint32_t first = part.event;
    while (plan.actions[first].joined) --first;
    const auto group = GroupAt(absl::MakeConstSpan(plan.actions), first);
    const bool paired = PairOf(group).forward != nullptr;
    return LaneOf(part.part) == Lane::kNetwork && !paired;
  });
  return MeasureNetwork(plan, timeline).all;
}

// All-to-alls that take two fifths of a rank's time. Alone they are exposed, in pairs none is. The
// rest is due to the first and last groups, without a partner: at most 5 forwards and backwards of
// the 2 M of a rank, so less than a fifth from M = 16 on.
TEST(PartsRehearsal, PairsHideTwoFifthsOfAStep) {
  for (const int m : {8, 16, 64}) {
    int64_t alone_ns = 0;
    for (const char* const schedule : {"1f1b", "dualpipe_v", "megatron_combined", "kimi_k2"}) {
      SCOPED_TRACE(absl::StrCat(schedule, " M=", m));
      const Plan plan = LibraryPlan(schedule, 2, m).value();
      const size_t layers = 4 / plan.stages.size();
      const auto spec = ParseCosts(
          absl::StrCat("F.attn=3ms,F.experts=3ms,B.attn=3ms,B.experts=3ms,W.attn=3ms,W.experts=3ms,"
                       "F.dispatch=3ms,F.combine=3ms,B.dispatch=3ms,B.combine=3ms,layers=",
                       layers));
      const auto costs = ResolveCosts(*spec, plan);
      ASSERT_TRUE(costs.ok()) << costs.status();
      const auto rehearsal = Rehearse(plan, *costs, {.steps = 1, .time = DeviceTime::kJumps});
      ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
      const int64_t step_ns = MeasureBubbles(rehearsal->measured).makespan_ns;
      const NetworkTime all = MeasureNetwork(plan, rehearsal->measured).all;
      EXPECT_EQ(all.network_ns, int64_t{4} * 4 * m * 3'000'000);
      EXPECT_EQ(all.exposed_ns, MeasureNetwork(plan, rehearsal->simulated).all.exposed_ns);
      if (alone_ns == 0) {
        alone_ns = step_ns;
        EXPECT_EQ(all.exposed_ns, all.network_ns);
        continue;
      }
      EXPECT_LT(step_ns, 7 * alone_ns / 10);
      EXPECT_LE(2 * m * all.exposed_ns, 5 * all.network_ns);
      const NetworkTime paired = InPairs(plan, rehearsal->measured);
      EXPECT_GT(2 * paired.network_ns, all.network_ns);
      EXPECT_EQ(paired.exposed_ns, 0);
    }
  }
}

}  // namespace
}  // namespace stringline
