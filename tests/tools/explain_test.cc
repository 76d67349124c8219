// stringline explain: every chain leads back to the start of the step without a hole, so the times
// along a chain add up to the start that it explains.
#include "schedlang/report/explain.h"

#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

// Every link but the last, which starts with the step, has a cause: the event of the next link. The
// next event ends when this one begins, so the chain accounts for all of the time up to the end of
// the action.
void CheckChain(const Plan& plan, const Timeline& timeline, const CostModel& costs,
                uint32_t action) {
  const Explanation explanation = Explain(
      plan, timeline, WiringOf(plan, timeline.layout, costs.receive_buffers), costs, action);
  ASSERT_FALSE(explanation.chain.empty());
  const auto& events = timeline.events;
  int64_t end_ns = events[action].end_ns;
  for (size_t i = 0; i < explanation.chain.size(); ++i) {
    const WaitLink& link = explanation.chain[i];
    const bool last = i + 1 == explanation.chain.size();
    ASSERT_EQ(link.reason == WaitReason::kNothing, last);
    ASSERT_EQ(link.end_ns, end_ns);
    ASSERT_LE(link.begin_ns, link.end_ns);
    const bool in_link =
        link.reason == WaitReason::kMessage &&
        IsCompute(plan.actions[link.cause].kind);  // the message has none of its own
    ASSERT_EQ(link.begin_ns, in_link ? link.sent_ns : events[link.action].start_ns);
    end_ns = link.begin_ns;
    if (last) {
      ASSERT_EQ(events[link.action].start_ns, 0);
      continue;
    }
    const WaitLink& next = explanation.chain[i + 1];
    ASSERT_EQ(next.action, link.cause);
    const Event& cause = events[next.action];
    if (link.reason == WaitReason::kQueue) {
      ASSERT_EQ(next.end_ns,
                cause.end_ns - HopOf(plan, costs, plan.actions[next.action]).latency_ns);
    } else if (cause.first_bucket_ns > 0 && IsCompute(plan.actions[link.action].kind)) {
      ASSERT_EQ(next.end_ns, cause.first_bucket_ns);
    } else if (IsCompute(cause.kind) && link.begin_ns < cause.end_ns) {
      // A reduction starts with the first bucket of its gradients.
      ASSERT_EQ(plan.actions[link.action].kind, ActionKind::kReduceGrad);
      ASSERT_GE(link.begin_ns, cause.start_ns);
    } else if (link.reason != WaitReason::kOtherRank) {
      ASSERT_EQ(next.end_ns, cause.end_ns);
    }
  }
  for (const WaitingGroup& waiting : explanation.after) {
    ASSERT_GE(events[waiting.group].start_ns, waiting.ready_ns);
    ASSERT_GE(waiting.ready_ns, events[action].end_ns);
  }
}

constexpr const char* kLibrary[] = {
    "gpipe",      "1f1b",        "1f1b_offload",   "mario",
    "looped_bfs", "interleaved", "interleaved_zb", "megatron_combined",
    "kimi_k2",    "gis",         "zb_h1",          "zb_h2",
    "zb_v",       "dualpipe_v",  "v_half",         "v_min",
    "hanayo",     "chimera",     "dualpipe",       "bpipe",
    "vocab_1f1b", "terapipe",    "seq1f1b",        "svpp",
    "slimpipe",   "inference",   "gems",           "eager_1f1b",
    "kfkb",       "llama3",      "circular",       "ooo_backprop",
    "bitpipe",    "two_bp",
};

struct ExplainTally {
  int explained = 0;
  int reasons[kWaitReasons] = {};
};

// The chains of all computations, at random costs.
void ExplainAll(const Plan& plan, CommLayout layout, bool collects, std::mt19937* random,
                ExplainTally* tally) {
  const auto cost = [&] { return absl::StrCat("=", (*random)() % 50, "ns,"); };
  std::string text =
      absl::StrCat("F", cost(), "B", cost(), "I", cost(), "W", cost(), "FB", cost(), "R", cost(),
                   "D", cost(), "U", cost(), "p2p=", (*random)() % 20, "ns");
  for (const OwnAction& own : plan.rows.actions)
    absl::StrAppend(&text, ",", own.name, "=", (*random)() % 50, "ns");
  const int bytes = static_cast<int>((*random)() % 3) * 20;
  if (bytes > 0) absl::StrAppend(&text, ",bandwidth=1GB/s,message=", bytes);
  if (bytes > 20) absl::StrAppend(&text, ",node.ranks=2,node.bandwidth=3GB/s");
  if (collects) absl::StrAppend(&text, ",unshard=", (*random)() % 60, "ns,reduce", cost());
  if (collects) absl::StrAppend(&text, "buckets=", 1 + (*random)() % 4);
  const auto spec = ParseCosts(text);
  ASSERT_TRUE(spec.ok()) << text << spec.status();
  const Plan lowered = Lower(collects ? AddCollectives(plan, 1 + (*random)() % 3) : plan, layout);
  auto costs = ResolveCosts(*spec, lowered);
  ASSERT_TRUE(costs.ok()) << costs.status();
  if ((*random)() % 2 == 0) {
    for (const int buffers : ReceiveBuffersOf(lowered)) {
      costs->receive_buffers = std::max(costs->receive_buffers, buffers);
    }
  }
  const auto timeline = Simulate(lowered, *costs, layout);
  ASSERT_TRUE(timeline.ok()) << text << timeline.status();
  const Wiring wiring = WiringOf(lowered, layout, costs->receive_buffers);
  for (uint32_t i = 0; i < lowered.actions.size(); ++i) {
    if (!IsCompute(lowered.actions[i].kind)) continue;
    ++tally->explained;
    CheckChain(lowered, *timeline, *costs, i);
    if (testing::Test::HasFatalFailure()) {
      FAIL() << Print(lowered, lowered.actions[i]) << " with " << text << ", "
             << costs->receive_buffers << " receive buffers";
    }
    for (const WaitLink& link : Explain(lowered, *timeline, wiring, *costs, i).chain) {
      ++tally->reasons[static_cast<int>(link.reason)];
    }
  }
}

// The whole library, in every layout, with messages that occupy their queues and bounded receive
// buffers, with and without collectives.
TEST(ExplainTest, ChainsHaveNoHoles) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::cout << "seed " << seed << "\n";
  ExplainTally tally;
  // Ranks with replicas meet in reductions, with gathers behind them.
  Diagnostics none;
  const auto replicas =
      ReadPlan(Source("replicas.plan",
                      "plan v P=2 M=3\n"
                      "pipe a M=1 stages 0 1\npipe b M=1 stages 1 0\npipe c M=1 stages 1 0\n"
                      "rank 0: a[0]F0 b[1]F0 b[1]B0 a[0]B0 c[1]F0 c[1]B0\n"
                      "rank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0 c[0]F0 c[0]B0\n"),
               &none);
  ASSERT_TRUE(replicas);
  for (int round = 0; round < 40; ++round) {
    const auto layout = static_cast<CommLayout>(round % kCommLayouts);
    ExplainAll(*replicas, layout, /*collects=*/true, &random, &tally);
    if (HasFatalFailure()) FAIL() << "replicas in layout " << NameOf(layout);
  }
  for (const char* const name : kLibrary) {
    Diagnostics diagnostics;
    const std::string path = absl::StrCat(SourceFolder(), "/schedules/", name, ".sched");
    const auto file = Parse(Source(path, ReadText(path)), &diagnostics);
    ASSERT_TRUE(file);
    const auto plan = Elaborate(*file, "", {{"P", 4}, {"M", 8}}, &diagnostics);
    ASSERT_TRUE(plan) << name;
    for (int round = 0; round < 16; ++round) {
      const auto layout = static_cast<CommLayout>(round % kCommLayouts);
      ExplainAll(*plan, layout, /*collects=*/round >= 8, &random, &tally);
      if (HasFatalFailure()) FAIL() << name << " in layout " << NameOf(layout);
    }
  }
  EXPECT_GT(tally.explained, 10'000);
  // For other ranks' reductions nothing here always waits: the test of a reduction does.
  for (int reason = 0; reason < kWaitReasons; ++reason) {
    if (reason == static_cast<int>(WaitReason::kOtherRank)) continue;
    EXPECT_GT(tally.reasons[reason], 0) << "of reason " << reason;
  }
}

// The chain of an action as text: each link's event, with its start and end.
std::string ChainOf(const std::string& plan_text, const std::string& costs_text, CommLayout layout,
                    const std::string& action) {
  Diagnostics diagnostics;
  const auto plan = ReadPlan(Source("test.plan", plan_text), &diagnostics);
  EXPECT_TRUE(plan.has_value() && diagnostics.empty());
  const Plan lowered = plan->lowered ? *plan : Lower(*plan, layout);
  const auto costs = ResolveCosts(*ParseCosts(costs_text), lowered);
  EXPECT_TRUE(costs.ok()) << costs.status();
  const auto timeline = Simulate(lowered, *costs, layout);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  std::string text;
  const auto asked = FindAction(lowered, action);
  EXPECT_TRUE(asked.ok()) << asked.status();
  const Wiring wiring = WiringOf(lowered, layout, costs->receive_buffers);
  for (const WaitLink& link : Explain(lowered, *timeline, wiring, *costs, *asked).chain) {
    absl::StrAppend(&text, text.empty() ? "" : " ", Print(lowered, lowered.actions[link.action]),
                    "@", link.begin_ns / 1000, "-", link.end_ns / 1000);
  }
  return text;
}

// Three messages of 10 us leave in turn; the activations are ready after 1, 2 and 3 us.
TEST(ExplainTest, AQueueIsFollowedToWhatOccupiedIt) {
  const std::string plan =
      "plan queue P=2 M=3 lowered\n"
      "stages 0 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0RECV_B0 0B0 0RECV_B1 0B1 0RECV_B2 0B2\n"
      "rank 1: 1RECV_F0 1RECV_F1 1RECV_F2 1F0 1F1 1F2 1B0 1SEND_B0 1B1 1SEND_B1 1B2 1SEND_B2\n";
  const std::string costs = "F=1,B=1,p2p=2,message=10kB,bandwidth=1GB/s";
  EXPECT_EQ(ChainOf(plan, costs, CommLayout::kShared, "1F2"),
            "1F2@33-34 0SEND_F2@21-33 0SEND_F1@11-21 0SEND_F0@1-11 0F0@0-1");
  EXPECT_EQ(ChainOf(plan, costs, CommLayout::kEdge, "1F2"),
            "1F2@33-34 0SEND_F2@21-33 0SEND_F1@11-21 0SEND_F0@1-11 0F0@0-1");
}

// The second activation is received in a call together with the send of a gradient that 1B0
// produces.
TEST(ExplainTest, ACallIsFollowedToWhatItsOtherPartWaitedFor) {
  const std::string plan =
      "plan call P=2 M=2 lowered\n"
      "stages 0 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1&0RECV_B0 0B0 0RECV_B1 0B1\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0&1RECV_F1 1F1 1B1 1SEND_B1\n";
  EXPECT_EQ(ChainOf(plan, "F=1,B=5,p2p=2", CommLayout::kPair, "1F1"),
            "1F1@11-12 0SEND_F1@9-11 1B0@4-9 1F0@1-4 0F0@0-1");
}

// With a single receive buffer the second activation leaves when 1B0 no longer needs the first.
TEST(ExplainTest, ABufferIsFollowedToWhatHeldIt) {
  const std::string plan =
      "plan buffer P=2 M=2 lowered\n"
      "stages 0 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
      "rank 1: 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n";
  EXPECT_EQ(ChainOf(plan, "F=[1,20],B=1,p2p=2,receive_buffers=1", CommLayout::kEdge, "1F1"),
            "1F1@25-45 0SEND_F1@23-25 1F0@1-23 0F0@0-1");
}

// Rank 0 has gathered late, because its reduction waited for rank 1, whose backward takes long.
TEST(ExplainTest, AReductionIsFollowedToTheRankThatCameLast) {
  const std::string plan =
      "plan replicas P=2 M=2\n"
      "pipe a M=1 stages 0 1\n"
      "pipe b M=1 stages 1 0\n"
      "rank 0: a[0]UNSHARD a[0]F0 a[0]RESHARD b[1]UNSHARD b[1]F0 b[1]B0 b[1]RESHARD "
      "b[1]REDUCE_GRAD a[0]UNSHARD a[0]B0 a[0]RESHARD a[0]REDUCE_GRAD\n"
      "rank 1: b[0]UNSHARD b[0]F0 b[0]RESHARD a[1]UNSHARD a[1]F0 a[1]B0 a[1]RESHARD "
      "a[1]REDUCE_GRAD b[0]UNSHARD b[0]B0 b[0]RESHARD b[0]REDUCE_GRAD\n";
  EXPECT_EQ(ChainOf(plan, "F=1,B=[1,9,1,1],unshard=1,reduce=4", CommLayout::kEdge, "a[0]B0"),
            "a[0]B0@18-19 a[0]UNSHARD@17-18 b[1]REDUCE_GRAD@13-17 a[1]REDUCE_GRAD@13-13 "
            "a[1]B0@4-13 a[1]F0@3-4 a[1]UNSHARD@2-3 b[0]F0@1-2 b[0]UNSHARD@0-1");
}

TEST(ExplainTest, Json) {
  const Answer answer =
      RunToolIn(SourceFolder(),
                Words("explain schedules/1f1b.sched 1F1 P=2 M=2 --cost F=2,B=3,p2p=1 --json"));
  EXPECT_EQ(answer.status, 0);
  const auto json = nlohmann::json::parse(answer.out);
  ASSERT_EQ(json["chain"].size(), 4u) << answer.out;
  EXPECT_EQ(json["chain"][0]["action"], "1F1");
  EXPECT_EQ(json["chain"][0]["waited_for"], "rank");
  EXPECT_EQ(json["chain"][0]["cause"], "1B0");
  EXPECT_EQ(json["chain"][2]["waited_for"], "message");
  EXPECT_EQ(json["chain"][2]["value"], "activation of stage 0, microbatch 0");
  EXPECT_EQ(json["chain"][2]["sent_us"], 2);
  EXPECT_EQ(json["chain"][2]["arrived_us"], 3);
  EXPECT_EQ(json["chain"][3]["waited_for"], "start");
  EXPECT_EQ(json["after"][0]["action"], "1B1");
}

}  // namespace
}  // namespace stringline
