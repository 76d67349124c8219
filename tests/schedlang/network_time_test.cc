// Hidden and exposed all-to-alls: of a written timeline, and against a count of every nanosecond.
#include "schedlang/report/network_time.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/parts.h"
#include "schedlang/report/analysis.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

Timeline TimelineFromText(const std::string& text) {
  const Source source("x.timeline", text);
  Diagnostics diagnostics;
  auto timeline = ReadTimeline(source, &diagnostics);
  EXPECT_TRUE(timeline) << Render(diagnostics, source);
  return timeline ? *std::move(timeline) : Timeline{};
}

std::string Printed(const NetworkTime& time) {
  std::vector<std::string> still;
  for (const auto& [name, ns] : time.still) still.push_back(absl::StrCat(name, " ", ns));
  return absl::StrCat(time.network_ns, " waiting ", time.waiting_ns, " hidden ", time.hidden_ns,
                      " exposed ", time.exposed_ns, ": ", absl::StrJoin(still, ", "));
}

// A lone F with nothing to hide its all-to-alls; a pair that hides most of them; a lone B.
TEST(NetworkTime, SaysWhatStandsStill) {
  const Timeline timeline = TimelineFromText(
      "timeline measured x P=2 M=2\n"
      "rank 0: 0F0@0+100 0SEND_F0@100+5 0F1@100+50 0RECV_B0@260+40 0B0@310+90\n"
      "rank 1: 1RECV_F0@100+5 1F0@105+100 1B0@205+60 1SEND_B0@260+40\n"
      "parts 0: 0F0:F.attn@0+30 0F0:F.dispatch@30+20 0F0:F.experts@50+30 0F0:F.combine@80+20 "
      "0F1:F.attn@100+10 0F1:F.dispatch@110+10 0F1:F.experts@120+10 0F1:F.combine@130+20 "
      "0B0:B.combine@310+20 0B0:B.experts@330+20 0B0:B.dispatch@350+10 0B0:B.attn@360+10 "
      "0B0:W.attn@380+20\n"
      "parts 1: 1F0:F.attn@105+50 1F0:F.dispatch@120+20 1F0:F.experts@150+30 "
      "1F0:F.combine@160+45\n");
  const auto plan = PlanOf(timeline);
  ASSERT_TRUE(plan);
  const NetworkTimes times = MeasureNetwork(*plan, timeline);
  ASSERT_EQ(times.ranks.size(), 2u);
  // The first F.dispatch takes 10 longer than the second, which waited for a partner; B.dispatch is
  // the only one of its part. F.combine of 0F0 delays 0F1; F.combine of 0F1 delays nothing, since
  // 0B0 waits for its gradient anyway.
  EXPECT_EQ(
      Printed(times.ranks[0]),
      "100 waiting 10 hidden 0 exposed 100: F.experts 20, B.attn 10, B.experts 20, partner 10, "
      "gradient 20, next F 20");
  // A B without parts computes all the time.
  EXPECT_EQ(Printed(times.ranks[1]), "65 waiting 0 hidden 40 exposed 25: next B 25");
  EXPECT_EQ(Printed(times.all),
            "165 waiting 10 hidden 40 exposed 125: F.experts 20, B.attn 10, B.experts 20, partner "
            "10, gradient 20, next F 20, next B 25");
}

TEST(NetworkTime, OfAPairIsWhatThePairDoesNotHide) {
  const char* const costs =
      "F.attn=3us,F.dispatch=4us,F.experts=4us,F.combine=1us,B.attn=3us,B.dispatch=1us,"
      "B.experts=4us,B.combine=5us,W.attn=2us,W.experts=3us,F.post=1us,layers=2";
  const Plan plan = Lower(PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1&0B0 0I1 0W1\n"));
  const Timeline timeline = *Simulate(plan, *ResolveCosts(*ParseCosts(costs), plan));
  const NetworkTimes times = MeasureNetwork(plan, timeline);
  // Alone: 2 x 5 of the F, 2 x 6 of the I. Together 2 x 11, of which computation hides some.
  EXPECT_EQ(times.all.network_ns, 44'000);
  int64_t computes_ns = 0;
  for (const PartEvent& part : timeline.parts) {
    if (LaneOf(part.part) == Lane::kCompute) computes_ns += part.end_ns - part.start_ns;
  }
  // Simulated all-to-alls wait for no partner, and the only pair saves the difference to its sum.
  EXPECT_EQ(times.all.waiting_ns, 0);
  EXPECT_EQ(times.all.hidden_ns, times.all.network_ns - times.all.exposed_ns);
  const CostModel priced = *ResolveCosts(*ParseCosts(costs), plan);
  const auto pair = absl::MakeConstSpan(plan.actions).subspan(1, 2);
  ASSERT_TRUE(pair[1].joined);
  EXPECT_EQ(times.all.pairs, 1);
  EXPECT_EQ(times.all.saved_ns, GroupCost(priced, pair.subspan(0, 1)) +
                                    GroupCost(priced, pair.subspan(1, 1)) -
                                    GroupCost(priced, pair));
  EXPECT_GT(times.all.saved_ns, 0);
  // Here nothing else keeps the rank from computing.
  EXPECT_EQ(times.all.exposed_ns, timeline.events.back().end_ns - computes_ns);
}

// Groups of three forwards and of two backwards on one rank, and a pair: each saves the difference
// to its actions in a row. Chunks of an action save, too.
TEST(NetworkTime, GroupsOfAnySizeSave) {
  const char* const costs =
      "F.attn=3us,F.dispatch=4us,F.experts=4us,F.combine=1us,B.attn=3us,B.dispatch=1us,"
      "B.experts=4us,B.combine=5us,W.attn=2us,W.experts=3us,F.post=1us,layers=2";
  const std::string overlaps = "overlap F&F&F\noverlap B&B\n";
  const std::string rank = "rank 0: 0F0&0F1&0F2 0B0&0B1 0F3&0B2 0B3\n";
  const auto saved_in = [&](const std::string& extra, int groups, int pairs) {
    const Plan plan = Lower(PlanFromText(absl::StrCat("plan x P=1 M=4\nstages 0\n", extra, rank)));
    const CostModel priced = *ResolveCosts(*ParseCosts(costs), plan);
    const Timeline timeline = *Simulate(plan, priced);
    const NetworkTimes times = MeasureNetwork(plan, timeline);
    EXPECT_EQ(times.all.groups, groups) << extra;
    EXPECT_EQ(times.all.pairs, pairs) << extra;
    int64_t in_a_row_ns = 0;
    for (const Action& action : plan.actions) {
      in_a_row_ns += action.kind == ActionKind::kForward ? priced.forward[0] : priced.backward[0];
    }
    EXPECT_EQ(times.all.saved_ns, in_a_row_ns - timeline.events.back().end_ns) << extra;
    return times.all.saved_ns;
  };
  const int64_t of_pair = saved_in("", 1, 1);  // the others' actions follow each other
  const int64_t of_groups = saved_in(overlaps, 3, 2);
  EXPECT_GT(of_groups, of_pair);
  EXPECT_GT(of_pair, 0);
  EXPECT_GT(saved_in(absl::StrCat("chunks 2\n", overlaps), 4, 2), of_groups);
}

// Alone, F.experts waits for a dispatch of 4 us. Meanwhile the next F could run, and behind the
// last one its B could not: it needs that F. A W could run beside another I.
TEST(NetworkTime, SaysWhatWasReady) {
  const auto ready_of = [](const std::string& rank) {
    const char* const costs =
        "F.attn=3us,F.dispatch=4us,F.experts=4us,B.attn=3us,B.dispatch=2us,"
        "B.experts=4us,W.attn=2us";
    const Plan plan = Lower(PlanFromText(absl::StrCat("plan x P=1 M=2\nstages 0\n", rank, "\n")));
    const Timeline timeline = *Simulate(plan, *ResolveCosts(*ParseCosts(costs), plan));
    std::vector<std::string> ready;
    for (const auto& [name, ns] : MeasureNetwork(plan, timeline).all.ready) {
      ready.push_back(absl::StrCat(name, " ", ns));
    }
    return absl::StrJoin(ready, ", ");
  };
  EXPECT_EQ(ready_of("rank 0: 0F0 0F1 0B0 0B1"), "F 4000, B 6000");
  EXPECT_EQ(ready_of("rank 0: 0F0 0B0 0F1 0B1"), "F 2000");
  EXPECT_EQ(ready_of("rank 0: 0F0 0F1 0I0 0I1 0W0 0W1"), "F 4000, I 6000, W 2000");
  EXPECT_EQ(ready_of("rank 0: 0F0 0I0 0W0 0F1 0I1 0W1"), "");
}

// Another rank's message arrives 6 us after the first dispatch begins, and that takes 10 us: the
// next F is ready for the rest.
TEST(NetworkTime, IsReadyWhenItsInputIsThere) {
  const Timeline timeline = TimelineFromText(
      "timeline measured x P=2 M=2\n"
      "rank 0: 0F0@0+4 0SEND_F0@4+1 0F1@4+13 0SEND_F1@17+1 0RECV_B0@60+1 0B0@61+9 0RECV_B1@71+1 "
      "0B1@72+8\n"
      "rank 1: 1RECV_F0@4+1 1F0@5+20 1RECV_F1@17+1 1F1@25+10 1B0@40+20 1SEND_B0@60+1 1B1@61+10 "
      "1SEND_B1@71+1\n"
      "parts 1: 1F0:F.attn@5+7 1F0:F.dispatch@12+10 1F0:F.experts@22+3\n");
  const auto plan = PlanOf(timeline);
  ASSERT_TRUE(plan);
  const NetworkTimes times = MeasureNetwork(*plan, timeline);
  EXPECT_EQ(Printed(times.all), "10 waiting 0 hidden 0 exposed 10: F.experts 10");
  ASSERT_EQ(times.all.ready.size(), 1u);
  EXPECT_EQ(times.all.ready[0].first, "F");
  EXPECT_EQ(times.all.ready[0].second, 4);
}

// Every nanosecond by itself.
TEST(NetworkTime, IsWhatACountOfNanosecondsSays) {
  std::mt19937 random(22);
  const Plan plan = PlanFromText("plan x P=1 M=3\nstages 0\nrank 0: 0F0 0F1&0B0 0B1 0F2 0I2 0W2\n");
  for (int round = 0; round < 300; ++round) {
    Timeline timeline = TimelineOf(plan, "measured");
    constexpr int64_t kEnd = 400;
    int64_t now_ns = 0;
    std::vector<int> computes(kEnd, 0), sends(kEnd, 0);
    for (uint32_t i = 0; i < timeline.events.size(); ++i) {
      Event& event = timeline.events[i];
      if (event.joined) {
        event.start_ns = timeline.events[i - 1].start_ns;
        event.end_ns = timeline.events[i - 1].end_ns;
      } else {
        event.start_ns = now_ns + random() % 10;
        event.end_ns = now_ns = event.start_ns + 20 + random() % 20;
      }
      const bool has_parts = i < 4 || random() % 3 > 0;
      for (int n = 0; n < 5 && has_parts; ++n) {
        const auto part = static_cast<uint8_t>(random() % kParts);
        const int64_t start_ns = event.start_ns + random() % 20;
        timeline.parts.push_back(
            {i, part, 0, start_ns, start_ns + static_cast<int64_t>(random() % 20)});
      }
      const int64_t end_ns = has_parts ? 0 : event.end_ns;
      for (int64_t t = event.start_ns; t < end_ns; ++t) computes[t] = 1;
    }
    for (const PartEvent& part : timeline.parts) {
      std::vector<int>& lane = LaneOf(part.part) == Lane::kNetwork ? sends : computes;
      for (int64_t t = part.start_ns; t < part.end_ns; ++t) lane[t] = 1;
    }
    std::vector<int> moves(kEnd, 0);
    for (const PartEvent& part : timeline.parts) {
      int64_t shortest_ns = kEnd;
      for (const PartEvent& other : timeline.parts) {
        if (other.part != part.part) continue;  // all are of the same stage
        shortest_ns = std::min(shortest_ns, other.end_ns - other.start_ns);
      }
      // Two nanoseconds are rounding.
      const bool waits = part.end_ns - part.start_ns > shortest_ns + 2;
      const int64_t from_ns = waits ? part.end_ns - shortest_ns : part.start_ns;
      for (int64_t t = from_ns; t < part.end_ns; ++t) {
        if (LaneOf(part.part) == Lane::kNetwork) moves[t] = 1;
      }
    }
    int64_t network_ns = 0, exposed_ns = 0, moves_ns = 0, hidden_ns = 0;
    for (int64_t t = 0; t < kEnd; ++t) {
      network_ns += sends[t];
      exposed_ns += sends[t] && !computes[t] ? 1 : 0;
      moves_ns += moves[t];
      hidden_ns += moves[t] && computes[t] ? 1 : 0;
    }
    const NetworkTimes times = MeasureNetwork(plan, timeline);
    ASSERT_EQ(times.all.network_ns, network_ns) << "seed 22, round " << round;
    ASSERT_EQ(times.all.exposed_ns, exposed_ns) << "seed 22, round " << round;
    ASSERT_EQ(times.all.waiting_ns, network_ns - moves_ns) << "seed 22, round " << round;
    ASSERT_EQ(times.all.hidden_ns, hidden_ns) << "seed 22, round " << round;
    int64_t sum_ns = 0;
    for (const auto& [name, ns] : times.all.still) sum_ns += ns;
    ASSERT_EQ(sum_ns, exposed_ns) << "seed 22, round " << round;
  }
}

}  // namespace
}  // namespace stringline
