#include "schedlang/plan/plan.h"

#include <gtest/gtest.h>

#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

TEST(Plan, TextFormPrintsAndReadsBack) {
  const std::string texts[] = {
      "plan one P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n",
      "plan pair P=2 M=2 V=7\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1&1B0 1I1 1W1\n",
      "plan v P=2 M=1 lowered\nstages 0 1 1 0\n"
      "rank 0: 0F0 0SEND_F0 3RECV_F0 3F0 3I0 3SEND_B0 3W0 0RECV_B0 0B0\n"
      "rank 1: 1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0\n",
      "plan empty P=2 M=1\nstages 0\nrank 0: 0F0 0B0\nrank 1:\n",
      "plan both P=2 M=2\npipe down M=1 stages 0 1\npipe up M=1 stages 1 0\n"
      "rank 0: down[0]F0 up[1]F0&down[0]B0 up[1]B0\nrank 1: up[0]F0 down[1]F0 down[1]B0 up[0]B0\n",
      "plan more P=1 M=1 lowered\nstages 0\nsplit layout Et* tL\n"
      "overlap F&B compute F.attn B.experts W.experts F.experts B.attn W.attn "
      "network B.combine F.dispatch B.dispatch F.combine\ncosts F=1 B=2 I=1 W=1\n"
      "rank 0: 0UNSHARD 0F0 0B0 0REDUCE_GRAD 0RESHARD\n",
      "plan found P=1 M=1\nstages 0\ncosts F=1 B=2 I=1 W=1\nsearch period=3 bound=2\n"
      "rank 0: 0F0 0B0\n",
      "plan pairs P=2 M=2\nstages 0 1\ncosts F=1 I=[2,1] W=3 F&I=[2,3] p2p=4\nrank 0: 0F0\nrank "
      "1:\n",
      "plan saves P=2 M=2\nstages 0 1\ncosts F=1 B=4000000000000 F&B.saves=[-1,3]\nrank 0: "
      "0F0\nrank 1:\n",
      "plan calls P=2 M=1 lowered\nstages 0 1\nrank 0: 0SEND_F0&0RECV_B0\nrank 1: 1RECV_F0\n",
  };
  for (const std::string& text : texts) EXPECT_EQ(Print(PlanFromText(text)), text);
}

TEST(Plan, CommentsAndSpacesDoNotCount) {
  const Plan plan =
      PlanFromText("# a plan\n\nplan one  P=1 M=2 # two\nstages 0\n\n  rank 0:  0F0\t0F1 0B0 0B1");
  EXPECT_EQ(Print(plan), "plan one P=1 M=2\nstages 0\nrank 0: 0F0 0F1 0B0 0B1\n");
}

TEST(Plan, NeighboursFollowTheStages) {
  const Plan plan = PlanFromText("plan v P=2 M=1\nstages 0 1 1 0\nrank 0:\nrank 1:\n");
  EXPECT_FALSE(plan.graph.Before(StageId(0)).valid());
  EXPECT_EQ(plan.graph.Behind(StageId(0)), StageId(1));
  EXPECT_EQ(plan.graph.Before(StageId(3)), StageId(2));
  EXPECT_FALSE(plan.graph.Behind(StageId(3)).valid());
}

TEST(Plan, WhereNamesLoopsFromTheOutsideIn) {
  Plan plan = PlanFromText("plan one P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n");
  EXPECT_EQ(WhereOf(plan, plan.actions[0]), "P=1 M=1");
  plan.iterations = {{-1, 3}, {0, 1}};
  plan.actions[0].iteration = 1;
  EXPECT_EQ(WhereOf(plan, plan.actions[0]), "iteration 3.1, P=1 M=1");
}

struct BadText {
  const char* text;
  const char* message;  // with line and column
};

const BadText kBadTexts[] = {
    {"", "1:1: expected 'plan NAME P=… M=…'"},
    {"timeline x", "1:1: expected 'plan NAME P=… M=…'"},
    {"plan x P=1", "1:6: the plan's parameters P and M are missing"},
    {"plan x P=0 M=1", "1:6: P is 0"},
    {"plan x P=99999999 M=1", "1:6: P is 99999999"},
    {"plan x P=1 M=99999999999999999999", "1:12: expected a parameter like P=4"},
    {"plan x P=1 M=1\n", "2:1: expected 'stages' and the rank of every stage"},
    {"plan x P=1 M=1\nstages 1\n", "2:8: expected a rank below 1"},
    {"plan x P=1 M=1\nstages 0\n", "3:1: the line of rank 0 is missing"},
    {"plan x P=1 M=1\nstages 0\nrank 1: 0F0", "3:1: expected 'rank 0:'"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F", "3:9: expected an action like 3F7"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0Q0", "3:9: expected an action like 3F7"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F0x", "3:9: expected '&' or a space after an action"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 1F0", "3:9: 1F0: there are only 1 stages"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F1", "3:9: 0F1: there is only 1 microbatch"},
    {"plan x P=2 M=1\nstages 0 1\nrank 0: 1F0\nrank 1:",
     "3:9: 1F0: stage 1 lives on rank 1, not on rank 0"},
    {"plan x P=2 M=1\nstages 0 1\nrank 0: 0SEND_F0\nrank 1:",
     "3:9: 0SEND_F0: only a plan marked 'lowered' holds sends and receives"},
    {"plan x P=2 M=1 lowered\nstages 0 1\nrank 0: 0F0&0SEND_F0\nrank 1:",
     "3:9: 0SEND_F0 cannot share its group: computation and messages do not mix"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0UNSHARD&0F0", "3:9: 0UNSHARD cannot be part of a group"},
    {"plan x P=1 M=1\npipe a M=1\nrank 0:",
     "2:1: expected 'pipe NAME M=… stages' and the rank of every stage"},
    {"plan x P=1 M=2\npipe a M=1 stages 0\nrank 0:", "2:1: the pipes run 1 microbatches, not 2"},
    {"plan x P=1 M=1\npipe a M=1 stages 0\nrank 0: 0F0", "3:9: expected an action like 3F7"},
    {"plan x P=1 M=1\nstages 0\ncosts F=0\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts B=1\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts F=1 F=2\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts F=1 F&W=2\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts F=1 F&B=0\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts F=1 F&B=2 F&B.saves=1\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts F=1 F&B=[1,2]\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\ncosts F=1 p2p=-1\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\nsearch bubble=3 bound=2\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\nsearch makespan=3 bound=4\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\nsearch makespan=-3 bound\nrank 0: 0F0",
     "3:1: expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', 'search' or "
     "'messages' line"},
    {"plan x P=1 M=1\nstages 0\noverlap F&W compute F.attn W.attn network\nrank 0: 0F0",
     "3:1: F.dispatch is missing"},
    {"plan x P=1 M=1\nstages 0\noverlap F&I&F compute F.attn network\nrank 0: 0F0",
     "3:23: 2 actions of the group have F.attn; write the place of the action, from 1: 1.attn"},
    {"plan x P=1 M=1\nstages 0\noverlap F&F compute 1.attn 3.attn network\nrank 0: 0F0",
     "3:28: the actions of this group are 1 to 2"},
    {"plan x P=1 M=1\nstages 0\noverlap F&F compute 1.W.attn network\nrank 0: 0F0",
     "3:21: the group has no 1.W.attn"},
    {"plan x P=1 M=1\nstages 0\noverlap B&B compute 1.attn 2.attn 1.W.attn W.attn network\n"
     "rank 0: 0F0",
     "3:44: 2 actions of the group have W.attn; write the place of the action, from 1: 1.W.attn"},
    {"plan x P=1 M=1\nstages 0\noverlap F&F compute 1.attn 2.attn 1.experts 2.experts network "
     "1.dispatch 2.dispatch 1.combine\nrank 0: 0F0",
     "3:1: 2.combine is missing"},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F0\nrank 1: 0F0",
     "4:1: unexpected line after rank 0, the last of P=1"},
};

TEST(Plan, BadTextIsOneFinding) {
  for (const BadText& bad : kBadTexts) {
    const Source source("x.plan", bad.text);
    Diagnostics diagnostics;
    EXPECT_FALSE(ReadPlan(source, &diagnostics)) << bad.text;
    ASSERT_EQ(diagnostics.findings().size(), 1u) << bad.text;
    const Diagnostic& finding = diagnostics.findings()[0];
    const LineColumn at = source.Locate(finding.span.begin);
    EXPECT_EQ(std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + finding.text,
              bad.message);
  }
}

TEST(Plan, EveryTruncationEndsInAFindingOrAPlan) {
  const std::string text =
      "plan v P=2 M=1 lowered\nstages 0 1 1 0\n"
      "rank 0: 0F0 0SEND_F0 3RECV_F0 3F0 3I0 3SEND_B0 3W0 0RECV_B0 0B0\n"
      "rank 1: 1RECV_F0 1F0&2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0\n";
  for (size_t n = 0; n < text.size(); ++n) {
    const Source source("x.plan", text.substr(0, n));
    Diagnostics diagnostics;
    const bool read = ReadPlan(source, &diagnostics).has_value();
    EXPECT_EQ(read, diagnostics.empty()) << text.substr(0, n);
    Render(diagnostics, source);
  }
}

}  // namespace
}  // namespace stringline
