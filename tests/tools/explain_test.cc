// stringline explain: every chain leads back to the start of the step without a hole, so the times
// along it add up to the start that it explains.
#include "schedlang/sim/explain.h"

#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

void CheckChain(const Plan& plan, const Timeline& timeline, const CostModel& costs,
                uint32_t action) {
  const Explanation explanation = Explain(plan, timeline, action);
  ASSERT_FALSE(explanation.chain.empty());
  const auto start = [&](uint32_t i) { return timeline.events[i].start_ns; };
  const auto end = [&](uint32_t i) { return timeline.events[i].end_ns; };
  int64_t along_ns = 0;  // work and hops
  for (size_t i = 0; i < explanation.chain.size(); ++i) {
    const WaitLink& link = explanation.chain[i];
    const bool last = i + 1 == explanation.chain.size();
    ASSERT_EQ(link.reason == WaitReason::kNothing, last);
    if (last) {
      ASSERT_EQ(start(link.group), 0);
      continue;
    }
    ASSERT_EQ(explanation.chain[i + 1].group, link.cause);
    const int64_t hop_ns = link.reason == WaitReason::kMessage ? costs.hop : 0;
    ASSERT_EQ(start(link.group), end(link.cause) + hop_ns);
    along_ns += end(link.cause) - start(link.cause) + hop_ns;
  }
  ASSERT_EQ(along_ns, start(explanation.chain.front().group));
  for (const WaitingGroup& waiting : explanation.after) {
    ASSERT_GE(start(waiting.group), waiting.ready_ns);
    ASSERT_GE(waiting.ready_ns, end(action));
  }
}

struct ExplainCase {
  const char* file;
  int ranks;
  int microbatches;
};

const ExplainCase kExplainCases[] = {
    {"1f1b", 5, 7},       {"dualpipe_v", 4, 9}, {"gpipe", 3, 4},  {"interleaved", 4, 8},
    {"looped_bfs", 3, 5}, {"zb_h1", 4, 6},      {"zb_v", 3, 8},   {"megatron_combined", 2, 6},
    {"kimi_k2", 4, 8},    {"chimera", 4, 8},    {"hanayo", 3, 5}, {"v_min", 4, 9},
    {"zb_h2", 1, 3},
};

TEST(ExplainTest, ChainsHaveNoHoles) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::cout << "seed " << seed << "\n";
  int explained = 0;
  for (const ExplainCase& test : kExplainCases) {
    Diagnostics diagnostics;
    const std::string path = absl::StrCat(SourceFolder(), "/schedules/", test.file, ".sched");
    const auto file = Parse(Source(path, ReadText(path)), &diagnostics);
    ASSERT_TRUE(file);
    const auto plan =
        Elaborate(*file, "", {{"P", test.ranks}, {"M", test.microbatches}}, &diagnostics);
    ASSERT_TRUE(plan) << test.file;
    const Plan lowered = Lower(*plan);
    for (int round = 0; round < 4; ++round) {
      const auto cost = [&] { return absl::StrCat("=", random() % 50, "ns,"); };
      const auto spec = ParseCosts(absl::StrCat("F", cost(), "B", cost(), "I", cost(), "W", cost(),
                                                "FB", cost(), "p2p=", random() % 20, "ns"));
      ASSERT_TRUE(spec.ok());
      const auto costs = ResolveCosts(*spec, lowered);
      ASSERT_TRUE(costs.ok());
      const auto timeline = Simulate(lowered, *costs);
      ASSERT_TRUE(timeline.ok());
      for (uint32_t i = 0; i < lowered.actions.size(); ++i) {
        if (!IsCompute(lowered.actions[i].kind)) continue;
        ++explained;
        CheckChain(lowered, *timeline, *costs, i);
        if (HasFatalFailure()) FAIL() << test.file << " " << Print(lowered, lowered.actions[i]);
      }
    }
  }
  EXPECT_GT(explained, 3000);
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
