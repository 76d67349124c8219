// Estimates for changed costs against a simulation with these costs.
#include "schedlang/report/variations.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/parts.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

int64_t StepOf(const Plan& plan, const CostModel& costs) {
  const auto timeline = Simulate(plan, costs);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? MakespanOf(*timeline) : -1;
}

// Costs of stages by key, in tens of nanoseconds, so a tenth of each is a whole number.
using Tens = std::map<std::string, std::vector<int64_t>>;

CostSpec SpecOf(const Tens& tens, const std::function<int64_t(const std::string& key)>& factor) {
  CostSpec spec;
  for (const auto& [key, values] : tens) {
    for (const int64_t value : values) spec.values[key].push_back(value * factor(key));
  }
  return spec;
}

// A cost of F, B, I or W for each stage, or of the parts of each; some stages recompute.
Tens DrawCosts(std::mt19937_64& random, size_t stages, bool in_parts) {
  Tens tens;
  const auto draw = [&](const std::string& key, size_t least, size_t most) {
    for (size_t s = 0; s < stages; ++s) {
      tens[key].push_back(static_cast<int64_t>(least + Below(random, most - least + 1)));
    }
  };
  if (in_parts) {
    for (int part = 0; part < kParts; ++part) draw(PartName(part), 1, 9);
  } else {
    for (const char* const key : {"F", "B", "I", "W", "R"}) draw(key, 1, 30);
  }
  return tens;
}

// The costs with a kind made a tenth cheaper. In parts, B is I and W. An R is an F done again.
CostSpec WithFaster(const Tens& tens, ActionKind kind) {
  const std::string name = PrintedKind(kind);
  return SpecOf(tens, [&](const std::string& key) {
    return key == name || (key == "R" && name == "F") ? 9 : 10;
  });
}

// F, whose costs have a single key, against a simulation with nine tenths of this cost; B likewise.
TEST(Variations, AreWhatASimulationOfTheirCostsSays) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::cout << "seed " << seed << "\n";
  for (int round = 0; round < 400; ++round) {
    const Plan plan = Lower(RandomRightPlan(random, 4, 4));
    Tens tens = DrawCosts(random, plan.stages.size(), /*in_parts=*/false);
    std::vector<int64_t> recompute;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      recompute.push_back(plan.stages[s].remakes ? 1 : static_cast<int64_t>(Below(random, 2)));
    }
    const auto resolved = [&](CostSpec spec) {
      spec.values["recompute"] = recompute;
      return *ResolveCosts(spec, plan);
    };
    const CostModel costs = resolved(SpecOf(tens, [](const std::string&) { return 10; }));
    for (const Variation& variation : WhatIf(plan, costs)) {
      if (absl::StartsWith(variation.name, "rank")) continue;
      const size_t kind = absl::string_view("FBIWR").find(variation.name[0]);
      ASSERT_NE(kind, absl::string_view::npos) << variation.name;
      const CostModel faster = resolved(WithFaster(tens, static_cast<ActionKind>(kind)));
      EXPECT_EQ(StepOf(plan, variation.costs), StepOf(plan, faster)) << variation.name << "\n"
                                                                     << Print(plan);
    }
  }
}

// Groups and chunks run by their parts: an F at nine tenths has parts at nine tenths, and so have
// an I and a W. Some stages recompute.
TEST(Variations, OfGroupsInPartsRunThePartsAgain) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::cout << "seed " << seed << "\n";
  const std::string begin = "plan x P=1 M=3\nstages 0\n";
  const std::string plans[] = {
      begin + "rank 0: 0F0 0F1&0B0 0F2&0B1 0B2\n",
      begin + "rank 0: 0F0 0F1&0I0 0W0 0F2&0I1 0I2 0W1 0W2\n",
      begin + "overlap F&W\noverlap I&W\nrank 0: 0F0 0I0 0F1&0W0 0F2 0I1 0I2&0W1 0W2\n",
      begin + "recompute 1\nchunks 2\nrank 0: 0F0 0F1&0I0 0W0 0F2&0I1 0I2 0W1 0W2\n"};
  const auto is_network = [](const std::string& key) {
    return absl::StrContains(key, "dispatch") || absl::StrContains(key, "combine");
  };
  // By variation, whether it makes the part faster.
  const std::map<std::string, std::function<bool(const std::string& part)>> changes = {
      {"F 10% faster", [](const std::string& part) { return part[0] == 'F'; }},
      {"I 10% faster", [](const std::string& part) { return part[0] == 'B'; }},
      {"W 10% faster", [](const std::string& part) { return part[0] == 'W'; }},
      {"network parts 10% faster", is_network}};
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    const Plan plan = Lower(PlanFromText(plans[round % 4]));
    const Tens tens = DrawCosts(random, 1, /*in_parts=*/true);
    const CostModel costs =
        *ResolveCosts(SpecOf(tens, [](const std::string&) { return 10; }), plan);
    for (const Variation& variation : WhatIf(plan, costs)) {
      const auto change = changes.find(variation.name);
      if (change == changes.end()) continue;
      const CostModel faster = *ResolveCosts(
          SpecOf(tens, [&](const std::string& key) { return change->second(key) ? 9 : 10; }), plan);
      EXPECT_EQ(StepOf(plan, variation.costs), StepOf(plan, faster)) << variation.name << "\n"
                                                                     << Print(plan);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 100 * (2 + 4 + 4 + 4));
}

}  // namespace
}  // namespace stringline
