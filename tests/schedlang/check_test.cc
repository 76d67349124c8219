#include "schedlang/check/check.h"

#include <gtest/gtest.h>

#include "schedlang/check/rules.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

struct Case {
  const char* plan;      // not lowered, unless the text says so
  const char* findings;  // as rendered; "" for none
  CheckOptions options = {};
};

const Case kCases[] = {
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1I1 1W1\n", ""},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F0\n",
     "x.plan:3:9: error: stage 0 on rank 0: microbatch 0 has no backward\n"
     "    3 | rank 0: 0F0\n"
     "      |         ^~~  (P=1 M=1)\n"},
    {"plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F0 0B0 0I1\n",
     "x.plan:3:13: error: stage 0 on rank 0: microbatch 0 has its forward done twice "
     "(and 1 more like this)\n"
     "    3 | rank 0: 0F0 0F0 0B0 0I1\n"
     "      |             ^~~  (P=1 M=2)\n"
     "note: it was done here before\n"
     "    3 | rank 0: 0F0 0F0 0B0 0I1\n"
     "      |         ^~~  (P=1 M=2)\n"},
    {"plan x P=1 M=2\nstages 0\nrank 0: 0F0 0B0 0F1 0W0 0B1\n",
     "x.plan:3:21: error: stage 0 on rank 0: microbatch 0 has its weight gradient done twice\n"
     "    3 | rank 0: 0F0 0B0 0F1 0W0 0B1\n"
     "      |                     ^~~  (P=1 M=2)\n"
     "note: it was done here before\n"
     "    3 | rank 0: 0F0 0B0 0F1 0W0 0B1\n"
     "      |             ^~~  (P=1 M=2)\n"},
    {"plan x P=1 M=2\nstages 0\nrank 0: 0F0 0I0 0W0 0I0 0F1 0B1\n",
     "x.plan:3:21: error: stage 0 on rank 0: microbatch 0 has its input gradient done twice\n"
     "    3 | rank 0: 0F0 0I0 0W0 0I0 0F1 0B1\n"
     "      |                     ^~~  (P=1 M=2)\n"
     "note: it was done here before\n"
     "    3 | rank 0: 0F0 0I0 0W0 0I0 0F1 0B1\n"
     "      |             ^~~  (P=1 M=2)\n"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0B0 0F0\n",
     "x.plan:3:9: error: rank 0 waits forever at 0B0 for the saved input of stage 0, microbatch 0\n"
     "    3 | rank 0: 0B0 0F0\n"
     "      |         ^~~  (P=1 M=1)\n"
     "note: 0F0 would give it, but comes 1 action later on the same rank\n"
     "    3 | rank 0: 0B0 0F0\n"
     "      |             ^~~  (P=1 M=1)\n"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F0 0I0&0W0\n",
     "x.plan:3:13: error: rank 0 waits forever at 0W0 for the deferred weight gradient of stage 0, "
     "microbatch 0\n"
     "    3 | rank 0: 0F0 0I0&0W0\n"
     "      |             ^~~~~~~  (P=1 M=1)\n"
     "note: 0I0 would give it, but shares the rank with it: its results exist only when both are "
     "done\n"
     "    3 | rank 0: 0F0 0I0&0W0\n"
     "      |             ^~~~~~~  (P=1 M=1)\n"},
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1\n",
     "x.plan:3:13: error: rank 0 waits forever at 0B0: it needs the gradient of stage 1, "
     "microbatch "
     "0\n"
     "    3 | rank 0: 0F0 0B0 0F1 0B1\n"
     "      |             ^~~  (P=2 M=2)\n"
     "note: rank 1 would send it after 1B0, but waits at 1F1: it needs the activation of stage 0, "
     "microbatch 1\n"
     "    4 | rank 1: 1F0 1F1 1B0 1B1\n"
     "      |             ^~~  (P=2 M=2)\n"
     "note: rank 0 would send it after 0F1, which comes after 0B0: this closes the cycle\n"},
    {"plan x P=2 M=1 lowered\nstages 0 1\nrank 0: 0F0 0SEND_F0 0RECV_B0 0B0\n"
     "rank 1: 1F0 1RECV_F0 1B0 1SEND_B0\n",
     "x.plan:4:9: error: rank 1 waits forever at 1F0 for the activation of stage 0, microbatch 0\n"
     "    4 | rank 1: 1F0 1RECV_F0 1B0 1SEND_B0\n"
     "      |         ^~~  (P=2 M=1)\n"
     "note: 1RECV_F0 would give it, but comes 1 action later on the same rank\n"
     "    4 | rank 1: 1F0 1RECV_F0 1B0 1SEND_B0\n"
     "      |             ^~~~~~~~  (P=2 M=1)\n"},
    {"plan x P=2 M=1 lowered\nstages 0 1\nrank 0: 0F0 0RECV_B0 0B0\n"
     "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0\n",
     "x.plan:4:9: error: message 0 from rank 0 to rank 1: nothing is sent meets 1RECV_F0\n"
     "    4 | rank 1: 1RECV_F0 1F0 1B0 1SEND_B0\n"
     "      |         ^~~~~~~~  (P=2 M=1)\n"
     "note: both orders:\n"
     "    message  sent  received\n"
     "          0  -     1RECV_F0  <- differ\n"},
    {"plan x P=2 M=2 lowered\nstages 0 1\n"
     "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
     "rank 1: 1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n",
     "x.plan:3:13: error: message 0 from rank 0 to rank 1: 0SEND_F0 meets 1RECV_F1\n"
     "    3 | rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
     "      |             ^~~~~~~~  (P=2 M=2)\n"
     "note: the receive\n"
     "    4 | rank 1: 1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n"
     "      |         ^~~~~~~~  (P=2 M=2)\n"
     "note: both orders:\n"
     "    message  sent      received\n"
     "          0  0SEND_F0  1RECV_F1  <- differ\n"
     "          1  0SEND_F1  1RECV_F0\n"},
    {"plan x P=2 M=1 lowered\nstages 0 0\nrank 0: 0F0 0SEND_F0 1F0 1B0 0B0\nrank 1:\n",
     "x.plan:3:13: error: rank 0 waits forever at 0SEND_F0 for the activation of stage 0, "
     "microbatch 0\n"
     "    3 | rank 0: 0F0 0SEND_F0 1F0 1B0 0B0\n"
     "      |             ^~~~~~~~  (P=2 M=1)\n"
     "note: nothing on rank 0 gives it\n"},
    // A communicator for both directions: each rank sends first.
    {"plan x P=2 M=2 lowered\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
     "rank 0: a[0]F0 a[0]SEND_F0 b[1]RECV_F0 b[1]F0 b[1]B0 b[1]SEND_B0 a[0]RECV_B0 a[0]B0\n"
     "rank 1: b[0]F0 b[0]SEND_F0 a[1]RECV_F0 a[1]F0 a[1]B0 a[1]SEND_B0 b[0]RECV_B0 b[0]B0\n",
     "x.plan:4:16: error: rank 0 waits forever at a[0]SEND_F0: it has to be received by rank 1, at "
     "a[1]RECV_F0, which stands behind b[0]SEND_F0 in the queue of communicator 0-1\n"
     "    4 | rank 0: a[0]F0 a[0]SEND_F0 b[1]RECV_F0 b[1]F0 b[1]B0 b[1]SEND_B0 a[0]RECV_B0 "
     "a[0]B0\n"
     "      |                ^~~~~~~~~~~  (P=2 M=2)\n"
     "note: rank 1 waits at b[0]SEND_F0: it has to be received by rank 0, at b[1]RECV_F0, which "
     "stands behind a[0]SEND_F0 in the queue of communicator 0-1\n"
     "    5 | rank 1: b[0]F0 b[0]SEND_F0 a[1]RECV_F0 a[1]F0 a[1]B0 a[1]SEND_B0 b[0]RECV_B0 "
     "b[0]B0\n"
     "      |                ^~~~~~~~~~~  (P=2 M=2)\n"
     "note: that is where rank 0 waits: this closes the cycle\n"
     "note: safe only from k = 1 on: with 1 buffered send a channel it ends\n",
     {.layout = CommLayout::kPair}},
    // The same with a communicator a direction, or with a buffer.
    {"plan x P=2 M=2 lowered\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
     "rank 0: a[0]F0 a[0]SEND_F0 b[1]RECV_F0 b[1]F0 b[1]B0 b[1]SEND_B0 a[0]RECV_B0 a[0]B0\n"
     "rank 1: b[0]F0 b[0]SEND_F0 a[1]RECV_F0 a[1]F0 a[1]B0 a[1]SEND_B0 b[0]RECV_B0 b[0]B0\n",
     "",
     {.layout = CommLayout::kPair, .buffers = 1}},
    // Hosts in a cycle, each of which waits for another to connect.
    {"plan x P=2 M=2 lowered\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
     "rank 0: a[0]F0 a[0]SEND_F0 b[1]RECV_F0 b[1]F0 b[1]B0 b[1]SEND_B0 a[0]RECV_B0 a[0]B0\n"
     "rank 1: b[0]F0 b[0]SEND_F0 a[1]RECV_F0 a[1]F0 a[1]B0 a[1]SEND_B0 b[0]RECV_B0 b[0]B0\n",
     "x.plan:4:16: error: rank 0 blocks forever at a[0]SEND_F0: its first call on communicator "
     "0->1 "
     "waits for that of rank 1\n"
     "    4 | rank 0: a[0]F0 a[0]SEND_F0 b[1]RECV_F0 b[1]F0 b[1]B0 b[1]SEND_B0 a[0]RECV_B0 "
     "a[0]B0\n"
     "      |                ^~~~~~~~~~~  (P=2 M=2)\n"
     "note: rank 1 blocks at b[0]SEND_F0: its first call on communicator 1->0 waits for that of "
     "rank 0\n"
     "    5 | rank 1: b[0]F0 b[0]SEND_F0 a[1]RECV_F0 a[1]F0 a[1]B0 a[1]SEND_B0 b[0]RECV_B0 "
     "b[0]B0\n"
     "      |                ^~~~~~~~~~~  (P=2 M=2)\n"
     "note: connecting all communicators before the step avoids it\n",
     {.lazy = true}},
    // Replicas that are reduced in different orders.
    {"plan x P=2 M=2\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
     "rank 0: a[0]F0 b[1]F0 b[1]B0 b[1]REDUCE_GRAD a[0]B0 a[0]REDUCE_GRAD\n"
     "rank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0 b[0]REDUCE_GRAD a[1]REDUCE_GRAD\n",
     "x.plan:4:30: error: rank 0 waits forever at b[1]REDUCE_GRAD for rank 1, which holds a "
     "replica "
     "of the stage\n"
     "    4 | rank 0: a[0]F0 b[1]F0 b[1]B0 b[1]REDUCE_GRAD a[0]B0 a[0]REDUCE_GRAD\n"
     "      |                              ^~~~~~~~~~~~~~~  (P=2 M=2)\n"
     "note: rank 1 waits at b[0]REDUCE_GRAD for rank 0, which holds a replica of the stage\n"
     "    5 | rank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0 b[0]REDUCE_GRAD a[1]REDUCE_GRAD\n"
     "      |                                     ^~~~~~~~~~~~~~~  (P=2 M=2)\n"},
    // Rank 1 gathers stage 1 behind the reduction that rank 1 has not come to.
    {"plan x P=2 M=2\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
     "rank 0: a[0]F0 a[0]B0 a[0]REDUCE_GRAD b[1]UNSHARD b[1]F0 b[1]B0 b[1]REDUCE_GRAD\n"
     "rank 1: a[1]F0 a[1]B0 b[0]F0 b[0]B0 b[0]REDUCE_GRAD a[1]REDUCE_GRAD\n",
     "x.plan:4:51: error: rank 0 waits forever at b[1]F0: its parameters are gathered after "
     "a[0]REDUCE_GRAD\n"
     "    4 | rank 0: a[0]F0 a[0]B0 a[0]REDUCE_GRAD b[1]UNSHARD b[1]F0 b[1]B0 b[1]REDUCE_GRAD\n"
     "      |                                                   ^~~~~~  (P=2 M=2)\n"
     "note: rank 0 waits at a[0]REDUCE_GRAD: rank 1 has still to come to b[0]REDUCE_GRAD, which "
     "comes after b[0]B0\n"
     "    4 | rank 0: a[0]F0 a[0]B0 a[0]REDUCE_GRAD b[1]UNSHARD b[1]F0 b[1]B0 b[1]REDUCE_GRAD\n"
     "      |                       ^~~~~~~~~~~~~~~  (P=2 M=2)\n"
     "note: rank 1 waits at b[0]B0: it needs the gradient of stage b[1], microbatch 0\n"
     "    5 | rank 1: a[1]F0 a[1]B0 b[0]F0 b[0]B0 b[0]REDUCE_GRAD a[1]REDUCE_GRAD\n"
     "      |                              ^~~~~~  (P=2 M=2)\n"
     "note: rank 0 would send it after b[1]B0, which comes after b[1]F0: this closes the cycle\n"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F0 0I0 0REDUCE_GRAD 0W0\n",
     "x.plan:3:30: error: 0W0 comes after the gradients of its stage are reduced\n"
     "    3 | rank 0: 0F0 0I0 0REDUCE_GRAD 0W0\n"
     "      |                              ^~~  (P=1 M=1)\n"
     "note: they are reduced here\n"
     "    3 | rank 0: 0F0 0I0 0REDUCE_GRAD 0W0\n"
     "      |                 ^~~~~~~~~~~~  (P=1 M=1)\n"},
    {"plan x P=1 M=1\nsteps 2 versions 1\nstages 0\nrank 0: 0F0 0B0 0F1 0UPDATE0 0B1 0UPDATE1\n",
     "x.plan:4:17: error: 0F1 of step 1 needs weights behind 0UPDATE0\n"
     "    4 | rank 0: 0F0 0B0 0F1 0UPDATE0 0B1 0UPDATE1\n"
     "      |                 ^~~  (P=1 M=1)\n"
     "note: 0UPDATE0 comes later, here\n"
     "    4 | rank 0: 0F0 0B0 0F1 0UPDATE0 0B1 0UPDATE1\n"
     "      |                     ^~~~~~~~  (P=1 M=1)\n"},
    {"plan x P=1 M=2\nstages 0\nwindow 2 slack 0\nrank 0: 0F0 0F1 0B1 0B0\n",
     "x.plan:4:17: error: ready order ('window') keeps one order of microbatches in all stages, "
     "and "
     "0B1 is number 0 of the B or I of its stage: the first stage has microbatch 0 there\n"
     "    4 | rank 0: 0F0 0F1 0B1 0B0\n"
     "      |                 ^~~  (P=1 M=2)\n"},
    {"plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1 0B0 0B1\n",
     "x.plan:3:13: error: rank 0 holds 2 stage activations at 0F1, more than 1\n"
     "    3 | rank 0: 0F0 0F1 0B0 0B1\n"
     "      |             ^~~  (P=1 M=2)\n"
     "note: alive then: stage 0: microbatches 0, 1\n",
     {.activations = 1}},
};

TEST(Check, SaysWhatIsWrongAndWhere) {
  for (const Case& c : kCases) {
    const Source source("x.plan", c.plan);
    Diagnostics diagnostics;
    const auto plan = ReadPlan(source, &diagnostics);
    ASSERT_TRUE(plan) << Render(diagnostics, source);
    const bool good = Check(plan->lowered ? *plan : Lower(*plan), c.options, &diagnostics);
    EXPECT_EQ(good, diagnostics.empty());
    EXPECT_EQ(Render(diagnostics, source), c.findings);
  }
}

// Everything that a stage may do with a microbatch, and the findings for anything else.
TEST(Check, AMicrobatchIsWholeWhenEveryPartIsDoneOnce) {
  const std::pair<const char*, const char*> rows[] = {
      {"0F0 0B0", ""},
      {"0F0 0I0 0W0", ""},
      {"0F0", "has no backward"},
      {"0F0 0F0 0B0", "has its forward done twice"},
      {"0F0 0B0 0B0", "has its input gradient done twice"},
      {"0F0 0B0 0I0", "has both a whole backward and an input gradient"},
      {"0F0 0B0 0W0", "has its weight gradient done twice"},
      {"0F0 0I0", "has an input gradient, but never its weight gradient"},
      {"0F0 0I0 0W0 0W0", "has its weight gradient done twice"},
      {"0F0 0I0 0W0 0I0", "has its input gradient done twice"},
  };
  for (const auto& [actions, says] : rows) {
    const Plan plan =
        Lower(PlanFromText(std::string("plan x P=1 M=1\nstages 0\nrank 0: ") + actions + "\n"));
    Diagnostics diagnostics;
    const bool right = Check(plan, {}, &diagnostics);
    EXPECT_EQ(right, *says == '\0') << actions;
    const std::string found = right ? "" : diagnostics.findings()[0].text;
    EXPECT_EQ(found, right ? "" : std::string("stage 0 on rank 0: microbatch 0 ") + says);
  }
}

// One fault, or none: an action left out, done twice, moved, or changed.
void DrawFault(std::mt19937_64& random, Plan* plan) {
  const size_t at = Below(random, plan->actions.size());
  const size_t other = Below(random, plan->actions.size());
  Action& action = plan->actions[at];
  const auto rank_of = [plan](size_t index) { return RankOf(*plan, plan->actions[index]).value; };
  const auto change_ends = [plan](int rank, int by) {
    for (size_t r = static_cast<size_t>(rank) + 1; r < plan->first.size(); ++r)
      plan->first[r] += by;
  };
  switch (Below(random, 6)) {
    case 0:
      change_ends(rank_of(at), -1);
      plan->actions.erase(plan->actions.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      change_ends(rank_of(at), 1);
      plan->actions.insert(plan->actions.begin() + static_cast<std::ptrdiff_t>(at), Action(action));
      break;
    case 2:
    case 3:
      if (rank_of(at) == rank_of(other)) std::swap(action, plan->actions[other]);
      break;
    case 4:
      if (!IsCollective(action.kind) && action.kind != ActionKind::kUpdate) {
        action.microbatch = MicrobatchId(static_cast<int32_t>(
            Below(random, static_cast<size_t>(plan->microbatches_of(action.stage)))));
      }
      break;
    default:
      break;
  }
  for (int r = 0; r < plan->ranks(); ++r) {
    if (plan->first[r] < plan->first[r + 1]) plan->actions[plan->first[r]].joined = false;
  }
}

TEST(Check, WhatOneWalkShowsTheRulesDoNotDeny) {
  int right = 0, wrong = 0;
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    std::mt19937_64 random(seed);
    Plan plan = RandomRightPlan(random, 5, 4, /*copies=*/seed % 3 == 0, /*edges=*/seed % 4 == 0);
    const bool before = Below(random, 2) == 0;
    if (before) DrawFault(random, &plan);
    if (Below(random, 3) == 0) plan = AddCollectives(plan, 2);
    plan = Lower(plan);
    if (!before) DrawFault(random, &plan);
    // No text has a message without an edge.
    const auto has_edge = [&plan](const Action& action) {
      return !IsMessage(action.kind) || EdgeOf(plan, action) != nullptr;
    };
    if (!std::all_of(plan.actions.begin(), plan.actions.end(), has_edge)) continue;
    const CheckOptions options = {.layout = CommLayout::kEdge,
                                  .buffers = static_cast<int>(Below(random, 3))};
    Diagnostics at_once, by_rules;
    const bool good = Check(plan, options, &at_once);
    for (const Rule& rule : Rules()) {
      if (by_rules.empty() && Applies(rule, options)) rule.find(plan, options, &by_rules);
    }
    const Source source("x.plan", "");
    ASSERT_EQ(good, by_rules.empty()) << "seed " << seed << "\n" << Print(plan);
    ASSERT_EQ(at_once.findings().size(), by_rules.findings().size()) << "seed " << seed;
    for (size_t i = 0; i < by_rules.findings().size(); ++i) {
      ASSERT_EQ(at_once.findings()[i].text, by_rules.findings()[i].text) << "seed " << seed;
    }
    // Lists changed by hand may post receives early, where the walk waits.
    if (good && before) {
      ASSERT_TRUE(WalkedAtOnce(plan, options)) << "seed " << seed << "\n" << Print(plan);
    }
    ++(good ? right : wrong);
  }
  EXPECT_GT(right, 2'000);
  EXPECT_GT(wrong, 5'000);
}

TEST(Check, EveryRuleHasAFailingCase) {
  for (const Rule& rule : Rules()) {
    bool fails = false;
    for (const Case& c : kCases) {
      const Source source("x.plan", c.plan);
      Diagnostics diagnostics;
      const auto plan = ReadPlan(source, &diagnostics);
      Check(plan->lowered ? *plan : Lower(*plan), c.options, &diagnostics);
      for (const Diagnostic& d : diagnostics.findings()) fails |= d.code == rule.code;
    }
    EXPECT_TRUE(fails) << rule.name;
  }
}

}  // namespace
}  // namespace stringline
