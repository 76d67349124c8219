#include "schedlang/check.h"

#include <gtest/gtest.h>

#include "schedlang/lower.h"

namespace stringline {
namespace {

struct Case {
  const char* plan;      // not lowered, unless it says so
  const char* findings;  // as rendered; "" for none
};

const Case kCases[] = {
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1I1 1W1\n", ""},
    {"plan x P=1 M=1\nstages 0\nrank 0: 0F0\n",
     "x.plan:3:9: error: stage 0 on rank 0: microbatch 0 has no backward\n"
     "    3 | rank 0: 0F0\n"
     "      |         ^~~  (P=1 M=1)\n"},
    {"plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F0 0B0 0I1\n",
     "x.plan:3:21: error: stage 0 on rank 0: microbatch 0 has its forward done twice "
     "(and 1 more like this)\n"
     "    3 | rank 0: 0F0 0F0 0B0 0I1\n"
     "      |                     ^~~  (P=1 M=2)\n"},
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
     "note: rank 1 would send it after 1B0, but waits at 1F1 for the activation of stage 0, "
     "microbatch 1\n"
     "    4 | rank 1: 1F0 1F1 1B0 1B1\n"
     "      |             ^~~  (P=2 M=2)\n"
     "note: rank 0 would send it after 0F1, which comes after 0B0: the circle is closed\n"},
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
     "      |         ^~~~~~~~  (P=2 M=1)\n"},
    {"plan x P=2 M=2 lowered\nstages 0 1\n"
     "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
     "rank 1: 1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n",
     "x.plan:3:13: error: message 0 from rank 0 to rank 1: 0SEND_F0 meets 1RECV_F1\n"
     "    3 | rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
     "      |             ^~~~~~~~  (P=2 M=2)\n"
     "note: the receive\n"
     "    4 | rank 1: 1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n"
     "      |         ^~~~~~~~  (P=2 M=2)\n"},
    {"plan x P=2 M=1 lowered\nstages 0 0\nrank 0: 0F0 0SEND_F0 1F0 1B0 0B0\nrank 1:\n",
     "x.plan:3:13: error: rank 0 waits forever at 0SEND_F0 for the activation of stage 0, "
     "microbatch 0\n"
     "    3 | rank 0: 0F0 0SEND_F0 1F0 1B0 0B0\n"
     "      |             ^~~~~~~~  (P=2 M=1)\n"
     "note: nothing on rank 0 gives it\n"},
};

TEST(Check, SaysWhatIsWrongAndWhere) {
  for (const Case& c : kCases) {
    const Source source("x.plan", c.plan);
    Diagnostics diagnostics;
    const auto plan = ReadPlan(source, &diagnostics);
    ASSERT_TRUE(plan) << Render(diagnostics, source);
    const bool good = Check(plan->lowered ? *plan : Lower(*plan), &diagnostics);
    EXPECT_EQ(good, diagnostics.empty());
    EXPECT_EQ(Render(diagnostics, source), c.findings);
  }
}

TEST(Check, EveryRuleHasAFailingCase) {
  for (const Rule& rule : Rules()) {
    bool fails = false;
    for (const Case& c : kCases) {
      const Source source("x.plan", c.plan);
      Diagnostics diagnostics;
      const auto plan = ReadPlan(source, &diagnostics);
      Check(plan->lowered ? *plan : Lower(*plan), &diagnostics);
      for (const Diagnostic& d : diagnostics.findings()) fails |= d.code == rule.code;
    }
    EXPECT_TRUE(fails) << rule.name;
  }
}

}  // namespace
}  // namespace stringline
