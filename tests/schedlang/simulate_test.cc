#include "schedlang/sim/simulate.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "schedlang/check/check.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/shared_links.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

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

// The parts of two forwards, or of two backwards, have no order side by side.
TEST(Simulate, OtherGroupsTakeNoLongerThanTheirActionsInARow) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::cout << "seed " << seed << "\n";
  const char* const kCosts[] = {
      "F=10ns,I=20ns,W=7ns,p2p=3ns", "F=10ns,I=20ns,W=7ns,message=100,bandwidth=10GB/s",
      "F.attn=6ns,F.dispatch=8ns,F.experts=4ns,F.combine=6ns,F.post=1ns,B.attn=6ns,B.dispatch=7ns,"
      "B.experts=4ns,B.combine=6ns,B.post=2ns,W.attn=2ns,W.experts=3ns,W.post=1ns,p2p=6ns"};
  int apart = 0;
  for (int round = 0; round < 600; ++round) {
    const Plan plan = RandomRightPlan(random, 5, 5);
    Plan in_a_row = plan;
    for (size_t i = 0; i < plan.actions.size(); i += GroupAt(plan.actions, i).size()) {
      const auto group = GroupAt(plan.actions, i);
      int forwards = 0, backwards = 0;
      for (const Action& action : group) {
        forwards += action.kind == ActionKind::kForward ? 1 : 0;
        backwards +=
            action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient ? 1
                                                                                              : 0;
      }
      if (group.size() == 2 && forwards == 1 && backwards == 1) continue;
      for (size_t k = 1; k < group.size(); ++k) in_a_row.actions[i + k].joined = false;
      apart += group.size() > 1 ? 1 : 0;
    }
    for (const char* const costs : kCosts) {
      const auto step_of = [&](const Plan& of) {
        const Plan lowered = Lower(of);
        return Print(*Simulate(lowered, *ResolveCosts(*ParseCosts(costs), lowered)));
      };
      EXPECT_EQ(step_of(plan), step_of(in_a_row)) << Print(plan);
    }
  }
  EXPECT_GT(apart, 0);
}

TEST(SharedLinks, MessagesShareTheBandwidth) {
  SharedLinks links;
  links.Add(0, 1, 0, 10);
  links.Add(0, 2, 5, 10);
  links.Add(7, 3, 0, 100);
  // The first is alone for 5, then both have half: 10 more for the rest of the first, during which
  // half of the second moves; then the second is alone.
  auto next = links.Next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->transfer, 1u);
  EXPECT_EQ(next->end_ns, 15);
  links.Add(0, 4, 18, 4);  // three of its four beside the last two of the second
  next = links.Next();
  EXPECT_EQ(next->transfer, 2u);
  EXPECT_EQ(next->end_ns, 22);
  next = links.Next();
  EXPECT_EQ(next->transfer, 4u);
  EXPECT_EQ(next->end_ns, 24);
  next = links.Next();
  EXPECT_EQ(next->transfer, 3u);
  EXPECT_EQ(next->end_ns, 100);
  EXPECT_FALSE(links.Next());
}

TEST(Simulate, NodesShareALink) {
  // Two pipes cross from ranks 0 and 1 (of one node) to ranks 2 and 3 at the same time.
  const std::string plan =
      "plan x P=4 M=2\npipe a M=1 stages 0 2\npipe b M=1 stages 1 3\n"
      "rank 0: a[0]F0 a[0]B0\nrank 1: b[0]F0 b[0]B0\nrank 2: a[1]F0 a[1]B0\nrank 3: b[1]F0 "
      "b[1]B0\n";
  const std::string costs = "F=10ns,B=10ns,message=1kB,bandwidth=1GB/s,node.ranks=2";
  EXPECT_EQ(MeasureBubbles(SimulateText(plan, costs)).makespan_ns, 40 + 2 * 1000);
  EXPECT_EQ(MeasureBubbles(SimulateText(plan, costs + ",node.sharing=1")).makespan_ns,
            40 + 2 * 2000);
}

// Stages a[k] and b[k] are replicas. Ranks 0 and 1 could reduce part 1 at 40 and at 50, and part 0
// at 70; then part 1 still keeps their collectives, while they compute.
TEST(Simulate, ReplicasMeetInTheirReduction) {
  const Timeline timeline = SimulateText(
      "plan x P=2 M=2\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
      "rank 0: a[0]F0 b[1]F0 b[1]B0 a[0]B0\nrank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0\n",
      "F=10ns,B=[20ns,30ns,20ns,20ns],p2p=0,reduce=[5ns,25ns,6ns,4ns]");
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=2 M=2\n"
            "pipe a M=1 stages=2\npipe b M=1 stages=2\n"
            "rank 0: a[0]F0@0+10 a[0]SEND_F0@10+0 b[1]RECV_F0@10+0 b[1]F0@10+10 b[1]B0@20+20 "
            "b[1]REDUCE_GRAD@50+25 b[1]SEND_B0@40+0 a[0]RECV_B0@50+0 a[0]B0@50+20 "
            "a[0]REDUCE_GRAD@75+6\n"
            "rank 1: b[0]F0@0+10 b[0]SEND_F0@10+0 a[1]RECV_F0@10+0 a[1]F0@10+10 a[1]B0@20+30 "
            "a[1]REDUCE_GRAD@50+25 a[1]SEND_B0@50+0 b[0]RECV_B0@40+0 b[0]B0@50+20 "
            "b[0]REDUCE_GRAD@75+6\n");
}

// Rank 0 holds two of the three replicas: rank 0 adds them up and joins the reduction with the
// second.
TEST(Simulate, ARankComesToAReductionOnce) {
  const Timeline timeline = SimulateText(
      "plan x P=2 M=3\npipe a M=1 stages 0\npipe b M=1 stages 0\npipe c M=1 stages 1\n"
      "rank 0: a[0]F0 a[0]B0 b[0]F0 b[0]B0\nrank 1: c[0]F0 c[0]B0\n",
      "F=10ns,B=20ns,reduce=[9ns,5ns,7ns]");
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=2 M=3\n"
            "pipe a M=1 stages=1\npipe b M=1 stages=1\npipe c M=1 stages=1\n"
            "rank 0: a[0]F0@0+10 a[0]B0@10+20 a[0]REDUCE_GRAD@30+0 b[0]F0@30+10 b[0]B0@40+20 "
            "b[0]REDUCE_GRAD@60+9\n"
            "rank 1: c[0]F0@0+10 c[0]B0@10+20 c[0]REDUCE_GRAD@60+9\n");
}

// A gather behind a reduction waits with the reduction, and so does the gather's consumer.
TEST(Simulate, AGatherStandsBehindTheReductionBeforeIt) {
  const Timeline timeline = SimulateText(
      "plan x P=2 M=3\npipe a M=1 stages 0\npipe b M=1 stages 0\npipe c M=1 stages 1\n"
      "rank 0: a[0]F0 a[0]B0 a[0]REDUCE_GRAD b[0]F0 b[0]B0 b[0]REDUCE_GRAD\n"
      "rank 1: c[0]UNSHARD c[0]F0 c[0]B0 c[0]RESHARD c[0]REDUCE_GRAD c[0]UNSHARD c[0]F0\n",
      "F=10ns,B=20ns,reduce=4ns,unshard=3ns");
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=2 M=3\n"
            "pipe a M=1 stages=1\npipe b M=1 stages=1\npipe c M=1 stages=1\n"
            "rank 0: a[0]F0@0+10 a[0]B0@10+20 a[0]REDUCE_GRAD@30+0 b[0]F0@30+10 b[0]B0@40+20 "
            "b[0]REDUCE_GRAD@60+4\n"
            "rank 1: c[0]UNSHARD@0+3 c[0]F0@3+10 c[0]B0@13+20 c[0]RESHARD@33+0 "
            "c[0]REDUCE_GRAD@60+4 c[0]UNSHARD@64+3 c[0]F0@67+10\n");
}

// In the words of the checker.
TEST(Simulate, ReductionsInACycleAreNamed) {
  const Plan plan =
      Lower(PlanFromText("plan x P=2 M=2\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
                         "rank 0: a[0]F0 b[1]F0 b[1]B0 b[1]REDUCE_GRAD a[0]B0 a[0]REDUCE_GRAD\n"
                         "rank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0 b[0]REDUCE_GRAD a[1]REDUCE_GRAD\n"));
  Diagnostics diagnostics;
  ASSERT_FALSE(Check(plan, {}, &diagnostics));
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  const Diagnostic& finding = diagnostics.findings()[0];
  ASSERT_EQ(finding.notes.size(), 1u);
  const absl::Status status = Simulate(plan, *ResolveCosts(UnitCosts(), plan)).status();
  EXPECT_EQ(status.message(),
            "the plan never ends: " + finding.text + "; " + finding.notes[0].text);
}

TEST(Simulate, APlanThatNeverEndsIsAnError) {
  const Plan plan = Lower(PlanFromText(
      "plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1\n"));
  const CostModel costs = *ResolveCosts(UnitCosts(), plan);
  EXPECT_EQ(Simulate(plan, costs).status().message(),
            "the plan never ends: 'stringline check' says where it waits");
}

// The k-th send would meet the k-th receive, and each take the other's value.
TEST(Simulate, MessagesInAnotherOrderAreAnError) {
  const auto with_receives = [](const std::string& receives) {
    const Plan plan = PlanFromText(
        "plan x P=2 M=2 lowered\nstages 0 1\n"
        "rank 0: 0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
        "rank 1: " +
        receives + " 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n");
    return Simulate(plan, *ResolveCosts(UnitCosts(), plan)).ok();
  };
  EXPECT_TRUE(with_receives("1RECV_F0 1RECV_F1"));
  EXPECT_FALSE(with_receives("1RECV_F1 1RECV_F0"));
}

}  // namespace
}  // namespace stringline
