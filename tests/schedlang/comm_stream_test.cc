// Messages that share queues: by hand, and against the figures for torch's own orders.
#include "schedlang/torch/comm_stream.h"

#include <gtest/gtest.h>

#include <string>

#include "schedlang/check/check.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/torch/timed_lower.h"
#include "schedlang/torch/torch_lower.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

// F = I = W = 20, B = 40, a message 1, during which the message occupies its queues.
CostModel TwentyToOne(const Plan& plan) {
  const std::vector<int64_t> one(plan.stages.size(), 20), two(plan.stages.size(), 40);
  const std::vector<Hop> hops(plan.stages.size(), Hop{.transfer_ns = 1});
  return {.forward = one,
          .backward = two,
          .input_gradient = one,
          .weight_gradient = one,
          .activation_hops = hops,
          .gradient_hops = hops};
}

int64_t TimeOf(const Plan& plan, CommLayout queues, const std::vector<MessageWait>& waits = {}) {
  const StreamRun run = RunOnStreams(plan, waits, TwentyToOne(plan), queues);
  EXPECT_EQ(run.ends, run.cycle.empty());
  return run.ends ? run.makespan_ns : -1;
}

struct Figure {
  const char* schedule;
  const char* parameters;
  int64_t shared, pair, edge;  // in units of a message; a forward is 20
};

// The times of torch 2.14's lowering, as they were found by another program.
constexpr Figure kFigures[] = {
    {"interleaved", "P=4 M=8 V=2", 1437, 1154, 1154},
    {"interleaved", "P=8 M=32 V=2", 5467, 4290, 4290},
    {"interleaved", "P=16 M=64 V=4", 31050, 16386, 16386},
    {"interleaved_zb", "P=8 M=32 V=2", 5040, 4024, 4024},
    {"zb_v", "P=8 M=32", 4269, 4013, 4013},
    {"dualpipe_v", "P=8 M=32", 6166, 4247, 4239},
};

TEST(CommStreamTest, TorchsOrderCostsWhatTheLayoutMakesIt) {
  for (const Figure& figure : kFigures) {
    const std::string text =
        Elaborated(ReadTestFile(std::string("schedules/") + figure.schedule + ".sched"),
                   ParametersOf(figure.parameters));
    const auto lowered = LowerAsTorch(AddCollectives(PlanFromText(text)), false);
    ASSERT_TRUE(lowered);
    const Plan& plan = lowered->plan;
    EXPECT_EQ(TimeOf(plan, CommLayout::kShared), figure.shared) << figure.schedule;
    EXPECT_EQ(TimeOf(plan, CommLayout::kPair), figure.pair) << figure.schedule;
    EXPECT_EQ(TimeOf(plan, CommLayout::kEdge), figure.edge) << figure.schedule;
  }
}

// The order by time ends in any layout of queues, and sharing queues costs little time.
TEST(CommStreamTest, TheOrderByTimeIsAsFastWithOneQueue) {
  for (const char* const schedule : {"1f1b", "gpipe", "interleaved", "interleaved_zb", "looped_bfs",
                                     "zb_h1", "zb_h2", "zb_v", "dualpipe_v", "kimi_k2"}) {
    const std::string path = std::string("schedules/") + schedule + ".sched";
    for (const char* const parameters : {"P=2 M=4", "P=4 M=8", "P=4 M=16", "P=8 M=16"}) {
      const std::string text = Elaborated(ReadTestFile(path), ParametersOf(parameters));
      const Plan plan = AddCollectives(PlanFromText(text));
      const auto timed = LowerByTime(plan, TwentyToOne(plan));
      const auto torch = LowerAsTorch(plan, false);
      ASSERT_TRUE(timed && torch) << schedule;
      Diagnostics diagnostics;
      EXPECT_TRUE(Check(*timed, &diagnostics)) << Render(diagnostics, Source("x", text));
      const int64_t edge = TimeOf(*timed, CommLayout::kEdge);
      EXPECT_LE(edge, TimeOf(torch->plan, CommLayout::kEdge)) << schedule << " " << parameters;
      for (const CommLayout queues : {CommLayout::kShared, CommLayout::kPair}) {
        const int64_t time = TimeOf(*timed, queues);
        EXPECT_GT(time, 0) << schedule << " " << parameters;
        EXPECT_LE(time, TimeOf(torch->plan, queues)) << schedule << " " << parameters;
        EXPECT_LE(time, edge * 1.05) << schedule << " " << parameters;
      }
    }
  }
}

// Rank 0 posts the receive of the answer before the send of the question: a deadlock on a single
// queue.
constexpr const char* kEarlyReceive =
    "plan early P=2 M=2 lowered\n"
    "stages 0 1\n"
    "rank 0: 0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0 0RECV_B1 0B1\n"
    "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n";

TEST(CommStreamTest, AnEarlyReceiveHoldsTheSendBehindIt) {
  const Plan plan = PlanFromText(kEarlyReceive);
  // 0SEND_F1 is issued at 40, and leaves when 1SEND_B0 has arrived, at 20 + 1 + 60 + 1.
  const StreamRun pair = RunOnStreams(plan, {}, TwentyToOne(plan), CommLayout::kPair);
  ASSERT_TRUE(pair.ends && pair.worst);
  EXPECT_EQ(Print(plan, plan.actions[pair.worst->send]), "0SEND_F1");
  EXPECT_EQ(Print(plan, plan.actions[pair.worst->recv]), "0RECV_B0");
  EXPECT_EQ(pair.worst->held_ns, 42);
  EXPECT_EQ(pair.makespan_ns, 82 + 1 + 60 + 1 + 40);
  const StreamRun edge = RunOnStreams(plan, {}, TwentyToOne(plan), CommLayout::kEdge);
  ASSERT_TRUE(edge.ends);
  EXPECT_FALSE(edge.worst);
  EXPECT_EQ(edge.makespan_ns, 82 + 60 + 1 + 40);
}

TEST(CommStreamTest, CrossedOrdersEndOnlyWithAQueuePerDirection) {
  const Plan plan = PlanFromText(
      "plan crossed P=2 M=2 lowered\n"
      "stages 0 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
  EXPECT_EQ(TimeOf(plan, CommLayout::kShared), -1);
  EXPECT_EQ(TimeOf(plan, CommLayout::kPair), -1);
  EXPECT_GT(TimeOf(plan, CommLayout::kEdge), 0);
}

MessageWait WaitFor(const Plan& plan, uint32_t send, uint32_t before) {
  const Action& action = plan.actions[send];
  return {.of = action.kind,
          .stage = action.stage,
          .microbatch = action.microbatch,
          .rank = plan.stage(action.stage).rank,
          .before = before};
}

TEST(CommStreamTest, WaitsWhereTorchPutsThemCostNothingHere) {
  const Plan plan = PlanFromText(kEarlyReceive);
  const std::vector<MessageWait> waits = AllTorchWaits(plan, {});
  EXPECT_EQ(waits.size(), 4u);
  EXPECT_EQ(TimeOf(plan, CommLayout::kEdge, waits), 82 + 60 + 1 + 40);
}

TEST(CommStreamTest, WaitsCanCostAndHang) {
  const Plan plan = PlanFromText(
      "plan waits P=2 M=2 lowered\n"
      "stages 0 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
  const MessageWait first = WaitFor(plan, 3, 4);     // 0SEND_F1, before 0RECV_B0
  const MessageWait second = WaitFor(plan, 11, 12);  // 1SEND_B0, before 1RECV_F1
  EXPECT_EQ(TimeOf(plan, CommLayout::kEdge), 183);
  EXPECT_EQ(TimeOf(plan, CommLayout::kEdge, {second}), 184);
  // Either is fine; together each keeps the other's receive from being posted.
  EXPECT_GT(TimeOf(plan, CommLayout::kEdge, {first}), 0);
  EXPECT_EQ(TimeOf(plan, CommLayout::kEdge, {first, second}), -1);
  // A wait for a later send of the same list never ends either.
  EXPECT_EQ(TimeOf(plan, CommLayout::kEdge, {WaitFor(plan, 3, 1)}), -1);
}

}  // namespace
}  // namespace stringline
