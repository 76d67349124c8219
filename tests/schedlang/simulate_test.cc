#include "schedlang/sim/simulate.h"

#include <gtest/gtest.h>

#include "schedlang/messages/lower.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

Timeline SimulateText(const std::string& plan_text, const std::string& costs) {
  const Plan plan = Lower(PlanFromText(plan_text));
  const auto model = ResolveCosts(*ParseCosts(costs), plan);
  EXPECT_TRUE(model.ok()) << model.status();
  auto timeline = Simulate(plan, *model);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

TEST(Simulate, AMessageLeavesAtTheEndAndArrivesAHopLater) {
  const Timeline timeline =
      SimulateText("plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n",
                   "F=10ns,B=20ns,p2p=3ns");
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=2 M=2\n"
            "rank 0: 0F0@0+10 0SEND_F0@10+3 0F1@10+10 0SEND_F1@20+3 0RECV_B0@43+3 0B0@46+20 "
            "0RECV_B1@73+3 0B1@76+20\n"
            "rank 1: 1RECV_F0@10+3 1F0@13+10 1B0@23+20 1SEND_B0@43+3 1RECV_F1@20+3 1F1@43+10 "
            "1B1@53+20 1SEND_B1@73+3\n");
}

TEST(Simulate, AGroupStartsWhenAllItsPartsCanAndEndsAsOne) {
  const Timeline timeline =
      SimulateText("plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1&1B0 1B1\n",
                   "F=10ns,B=20ns,FB=25ns");
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=2 M=2\n"
            "rank 0: 0F0@0+10 0SEND_F0@10+0 0F1@10+10 0SEND_F1@20+0 0RECV_B0@45+0 0B0@45+20 "
            "0RECV_B1@65+0 0B1@65+20\n"
            "rank 1: 1RECV_F0@10+0 1F0@10+10 1RECV_F1@20+0 1F1@20+25&1B0@20+25 1SEND_B0@45+0 "
            "1B1@45+20 1SEND_B1@65+0\n");
}

TEST(Simulate, APlanThatNeverEndsIsAnError) {
  const Plan plan = Lower(PlanFromText(
      "plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1\n"));
  const CostModel costs = *ResolveCosts(UnitCosts(), plan);
  EXPECT_EQ(Simulate(plan, costs).status().message(),
            "the plan never ends: 'stringline check' says where it waits");
}

}  // namespace
}  // namespace stringline
