// Starts reconstructed by the rules of a plan, and the observed starts beside them.
#include "executor/engine/when_ready.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedlang/plan/parts.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

// One processor for two ranks: rank 1 has its activation at 120, and gets the processor at 150.
TEST(WhenReady, MovesStartsAndKeepsWhatWasObserved) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=1\n"
      "stages 0 1\n"
      "rank 0: 0F0 0B0\n"
      "rank 1: 1F0 1B0\n");
  Timeline observed = TimelineOf(plan, "measured");
  const auto at = [&](const std::string& action) -> Event& {
    for (size_t i = 0; i < plan.actions.size(); ++i) {
      if (Print(plan, plan.actions[i]) == action) return observed.events[i];
    }
    SL_CHECK(false) << action;
    return observed.events[0];
  };
  const auto ran = [&](const std::string& action, int64_t start_ns, int64_t end_ns) {
    at(action).start_ns = start_ns;
    at(action).end_ns = end_ns;
  };
  ran("0F0", 10, 100);
  ran("0SEND_F0", 120, 120);
  ran("1RECV_F0", 120, 120);
  ran("1F0", 150, 250);
  ran("1B0", 255, 400);
  ran("1SEND_B0", 410, 410);
  ran("0RECV_B0", 410, 410);
  ran("0B0", 410, 600);
  const std::vector<Event> before = observed.events;
  const Timeline told = WhenReady(plan, WiringOf(plan, CommLayout::kEdge), observed);
  ASSERT_EQ(told.observed.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(told.observed[i], (ObservedTimes{before[i].start_ns, before[i].end_ns})) << i;
    EXPECT_EQ(told.events[i].end_ns, before[i].end_ns) << i;
  }
  EXPECT_EQ(Print(told),
            "timeline measured v P=2 M=1\n"
            "observed\n"
            "rank 0: 0F0@0+100[10+90] 0SEND_F0@100+20 0RECV_B0@400+10 0B0@410+190\n"
            "rank 1: 1RECV_F0@100+20 1F0@120+130[150+100] 1B0@250+150[255+145] 1SEND_B0@400+10\n");
  const auto all = ReconstructionOf(told);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->seen, 4);
  EXPECT_EQ(all->moved, 3);
  EXPECT_EQ(all->most_ns, 30);
  EXPECT_EQ(all->unseen, 2);
}

// Parts are sorted anew, and those that took no time are dropped: their observed times go with
// them.
TEST(WhenReady, KeepsWhatWasObservedOfParts) {
  const Plan plan = LoweredFrom(
      "plan v P=1 M=1\n"
      "stages 0\n"
      "rank 0: 0F0 0B0\n");
  Timeline observed = TimelineOf(plan, "measured");
  observed.events[0].start_ns = 10;
  observed.events[0].end_ns = observed.events[1].start_ns = 100;
  observed.events[1].end_ns = 200;
  observed.parts = {{0, kFAttn, 0, 10, 40}, {0, kFDispatch, 0, 60, 60}, {0, kFExperts, 0, 65, 100}};
  const Timeline told = WhenReady(plan, WiringOf(plan, CommLayout::kEdge), observed);
  ASSERT_EQ(told.parts.size(), told.observed_parts.size());
  std::string text;
  for (size_t i = 0; i < told.parts.size(); ++i) {
    const PartEvent& part = told.parts[i];
    absl::StrAppend(&text, PartName(part.part), "@", part.start_ns, "-", part.end_ns, "[",
                    told.observed_parts[i].start_ns, "-", told.observed_parts[i].end_ns, "] ");
  }
  EXPECT_EQ(text, "F.attn@0-40[10-40] F.dispatch@40-60[60-60] F.experts@60-100[65-100] ");
}

// A RESHARD without a command was not recorded: it has no observed times of its own.
TEST(WhenReady, WhatWasNotRecordedHasNoObservedTimes) {
  const Plan plan = LoweredFrom(
      "plan v P=1 M=1\n"
      "stages 0\n"
      "rank 0: 0UNSHARD 0F0 0B0 0RESHARD\n");
  Timeline observed = TimelineOf(plan, "measured");
  int64_t now_ns = 0;
  for (Event& event : observed.events) {
    event.start_ns = now_ns;
    event.end_ns = now_ns += 100;
  }
  Event& reshard = observed.events.back();
  ASSERT_EQ(reshard.kind, ActionKind::kReshard);
  reshard.start_ns = reshard.end_ns = -1;
  const Timeline told = WhenReady(plan, WiringOf(plan, CommLayout::kEdge), observed);
  EXPECT_NE(Print(told).find(" 0RESHARD@300+0\n"), std::string::npos) << Print(told);
}

}  // namespace
}  // namespace stringline
