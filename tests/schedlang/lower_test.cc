#include "schedlang/lower/lower.h"

#include <gtest/gtest.h>

#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

struct LowerCase {
  const char* plan;
  const char* lowered;
};

const LowerCase kLowerCases[] = {
    // A line: every neighbour is on another rank.
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n",
     "plan x P=2 M=2 lowered\nstages 0 1\n"
     "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
     "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n"},
    // A V: stages 1 and 2 share a rank and send nothing to each other. The gradient of stage 2 goes
    // to stage 1 by hand too.
    {"plan v P=2 M=1\nstages 0 1 1 0\nrank 0: 0F0 3F0 3I0 3W0 0B0\nrank 1: 1F0 2F0 2B0 1B0\n",
     "plan v P=2 M=1 lowered\nstages 0 1 1 0\n"
     "rank 0: 0F0 0SEND_F0 3RECV_F0 3F0 3I0 3SEND_B0 3W0 0RECV_B0 0B0\n"
     "rank 1: 1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0\n"},
    // Groups stay together: receives before them, sends after them.
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1&1B0 1B1\n",
     "plan x P=2 M=2 lowered\nstages 0 1\n"
     "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
     "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1&1B0 1SEND_B0 1B1 1SEND_B1\n"},
    // A receiver that takes its microbatches in another order than their arrival still posts its
    // receives in the order of the channel.
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F1 1F0 1B1 1B0\n",
     "plan x P=2 M=2 lowered\nstages 0 1\n"
     "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0RECV_B0 0B0 0B1\n"
     "rank 1: 1RECV_F0 1RECV_F1 1F1 1F0 1B1 1SEND_B1 1B0 1SEND_B0\n"},
    // A message without a consumer is not sent, a message without a producer is not awaited.
    {"plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F1 1B0\n",
     "plan x P=2 M=2 lowered\nstages 0 1\nrank 0: 0F0 0RECV_B0 0B0\nrank 1: 1F1 1B0 1SEND_B0\n"},
};

TEST(Lower, InsertsSendsAndReceives) {
  for (const LowerCase& c : kLowerCases) EXPECT_EQ(Print(Lower(PlanFromText(c.plan))), c.lowered);
}

TEST(Lower, MessagesKeepThePlaceOfWhatTheyServe) {
  const Plan plan = Lower(PlanFromText(kLowerCases[0].plan));
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (IsSend(plan.actions[i].kind)) {
      EXPECT_EQ(plan.actions[i].place, plan.actions[i - 1].place);
    }
    if (IsRecv(plan.actions[i].kind)) {
      EXPECT_EQ(plan.actions[i].place, plan.actions[i + 1].place);
    }
  }
}

}  // namespace
}  // namespace stringline
