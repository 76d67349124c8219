#include "schedlang/timeline.h"

#include <gtest/gtest.h>

namespace stringline {
namespace {

std::optional<Timeline> Read(const std::string& text, std::string* message = nullptr) {
  const Source source("x.timeline", text);
  Diagnostics diagnostics;
  auto timeline = ReadTimeline(source, &diagnostics);
  EXPECT_EQ(timeline.has_value(), diagnostics.empty());
  if (message && !diagnostics.empty()) *message = diagnostics.findings()[0].text;
  return timeline;
}

TEST(Timeline, TextFormPrintsAndReadsBack) {
  const std::string text =
      "timeline measured x P=2 M=2\n"
      "rank 0: 0F0@0+1000 0SEND_F0@1000+5 0F1@1000+1000&0B0@1000+1000\n"
      "rank 1:\n";
  const auto timeline = Read(text);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(Print(*timeline), text);
}

TEST(Timeline, AFlightRecordReadsBack) {
  const std::string text =
      "timeline flight x P=2 M=2\n"
      "rank 0: 0F0@0+1000 0SEND_F0@1000+5 0F1@1000+1000?&0B0@1000+1000? 0F0@2500+10\n"
      "rank 1: 1RECV_F1@1500+1010?\n";
  const auto timeline = Read(text);
  ASSERT_TRUE(timeline);
  EXPECT_FALSE(timeline->events[1].unfinished);
  EXPECT_TRUE(timeline->events[3].unfinished);
  EXPECT_TRUE(timeline->events[5].unfinished);
  EXPECT_EQ(Print(*timeline), text);
  EXPECT_FALSE(Read("timeline flight x\nrank 0: 0F0?@0+1\n"));
}

TEST(Timeline, LayoutAndPartsReadBack) {
  const std::string text =
      "timeline simulated x P=2 M=2\n"
      "layout pair\n"
      "rank 0: 0F0@0+10 0F1@10+30&0B0@10+30 0B1@40+5\n"
      "rank 1: 1F0@0+10\n"
      "parts 0: 0F1:F.attn@10+10 0F1:F.dispatch@20+5 0B0:B.combine.1@10+5 0B0:W.attn@35+5\n";
  const auto timeline = Read(text);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->layout, CommLayout::kPair);
  ASSERT_EQ(timeline->parts.size(), 4u);
  EXPECT_EQ(timeline->parts[2].event, 2u);
  EXPECT_EQ(timeline->parts[2].layer, 1);
  EXPECT_EQ(Print(*timeline), text);
  std::string message;
  const std::string head = text.substr(0, text.find("parts"));
  for (const char* part : {"0F1:F.attn", "0F1:x@1+2", "0F1:F.attn.0@1+2", "9F9:F.attn@1+2",
                           "0F1@1+2:F.attn", ":@+", "0B0:W.attn@1+2 0F1:F.attn@1+2"}) {
    EXPECT_FALSE(Read(head + "parts 0: " + part + "\n", &message)) << part;
    EXPECT_EQ(message, "expected a part of an event like 3F7:F.attn@0+5");
  }
  EXPECT_FALSE(Read(head + "parts 2: 0F1:F.attn@1+2\n", &message));
  EXPECT_EQ(message, "expected 'parts RANK:', ranks in order");
  EXPECT_FALSE(Read("timeline simulated x\nlayout ring\nrank 0: 0F0@0+1\n", &message));
  EXPECT_EQ(message, "expected 'layout shared', 'pair', 'updown' or 'edge'");
}

TEST(Timeline, WhatWasObservedReadsBack) {
  const std::string text =
      "timeline measured x P=2 M=2\n"
      "layout pair\n"
      "observed\n"
      "rank 0: 0F0@0+1000[20+980] 0SEND_F0@1000+50 0F1@1000+900&0B0@1000+900[-5+905]\n"
      "rank 1: 1RECV_F0@1000+50[1030+20] 1F0@1050+10\n"
      "parts 0: 0F1:F.attn@1000+100[1010+80] 0F1:F.experts@1100+800\n";
  const auto timeline = Read(text);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(Print(*timeline), text);
  const std::vector<ObservedTimes> observed = {{20, 1000}, {1050, 1050}, {1000, 1900},
                                               {-5, 900},  {1030, 1050}, {1050, 1060}};
  EXPECT_EQ(timeline->observed, observed);
  EXPECT_EQ(timeline->observed_parts, (std::vector<ObservedTimes>{{1010, 1090}, {1100, 1900}}));
  std::string message;
  for (const char* event : {"0F0@0+1[", "0F0@0+1[1]", "0F0@0+1[1+1", "0F0@0+1[+1]", "0F0@0+1[1+-1]",
                            "0F0@0+1[1+1]]", "0F0@0+1[1+1]x"}) {
    const std::string head = "timeline measured x P=1\nobserved\nrank 0: ";
    EXPECT_FALSE(Read(head + event, &message)) << event;
    EXPECT_EQ(message, "expected an event like 3F7@1000+500");
  }
  // Only where the file says that it keeps it.
  EXPECT_FALSE(Read("timeline measured x P=1\nrank 0: 0F0@0+1[1+0]\n"));
}

TEST(Timeline, ReconstructedStartsAreCounted) {
  const auto timeline = Read(
      "timeline measured x P=2 M=2\n"
      "observed\n"
      "rank 0: 0UNSHARD@0+9[4+5] 0F0@9+10[21+0] 0SEND_F0@19+5 0F1@19+11[25+5]&0B0@19+11[22+3] "
      "0REDUCE_GRAD@30+8[38+0] 0REDUCE_GRAD@38+0\n"
      "rank 1: 1RECV_F0@19+5 1F0@24+10 1F1@34+10[34+8]\n");
  ASSERT_TRUE(timeline);
  const auto all = ReconstructionOf(*timeline);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->seen, 5);   // the UNSHARD, two groups and two computations
  EXPECT_EQ(all->moved, 3);  // of the group by 3, for its first part counts
  EXPECT_EQ(all->most_ns, 12);
  EXPECT_EQ(all->unseen, 2);  // the message, and the reduction that took time
  EXPECT_FALSE(ReconstructionOf(*Read("timeline measured x P=1\nrank 0: 0F0@0+1\n")));
}

TEST(Timeline, BadTextIsOneFinding) {
  std::string message;
  EXPECT_FALSE(Read("", &message));
  EXPECT_EQ(message, "expected 'timeline ORIGIN SCHEDULE P=… M=…'");
  EXPECT_FALSE(Read("timeline measured x P=2\n", &message));
  EXPECT_EQ(message, "expected 'rank 0:'");
  for (const char* event : {"0F0", "0F0@", "0F0@1", "0F0@1+", "0F0@-1+2", "0F0@1+2x", "@1+2",
                            "0F0@99999999999999999999+1", "0F0@1+2&"}) {
    EXPECT_FALSE(Read(std::string("timeline measured x P=1\nrank 0: ") + event, &message)) << event;
    EXPECT_EQ(message, "expected an event like 3F7@1000+500");
  }
}

TEST(Bubbles, CountWorkIdleAndPeaks) {
  const auto timeline = Read(
      "timeline simulated x P=2 M=2\n"
      "rank 0: 0F0@0+10 0SEND_F0@10+5 0F1&0F2@10+10 0B0@30+20 0B1@50+20\n"
      "rank 1: 1F0@15+10 1F1@25+5&1B0@25+5\n"
      "rank 2:\n");
  ASSERT_FALSE(timeline);  // the & above lacks its times
  const auto good = Read(
      "timeline simulated x P=3 M=2\n"
      "rank 0: 0F0@0+10 0SEND_F0@10+5 0F1@10+10&0F2@10+10 0B0@30+20 0B1@50+20\n"
      "rank 1: 1F0@15+10 1F1@25+5&1B0@25+5\n"
      "rank 2:\n");
  ASSERT_TRUE(good);
  const Bubbles bubbles = MeasureBubbles(*good);
  EXPECT_EQ(bubbles.makespan_ns, 70);
  EXPECT_EQ(bubbles.span_ns, 70);
  EXPECT_DOUBLE_EQ(bubbles.rate, (10.0 + 55 + 70) / 3 / 70);
  EXPECT_EQ(bubbles.busiest, 0);
  EXPECT_DOUBLE_EQ(bubbles.busiest_rate, 10.0 / 70);
  EXPECT_EQ(bubbles.idlest, 2);
  EXPECT_DOUBLE_EQ(bubbles.idlest_rate, 1);
  EXPECT_DOUBLE_EQ(bubbles.span_rate, 10.0 / 70);
  EXPECT_EQ(bubbles.ranks[0].busy_ns, 60);
  EXPECT_EQ(bubbles.ranks[0].idle_ns, 10);
  EXPECT_EQ(bubbles.ranks[0].peak_activations, 3);
  EXPECT_EQ(bubbles.ranks[1].busy_ns, 15);
  // Inside F & B the F counts before the B releases.
  EXPECT_EQ(bubbles.ranks[1].peak_activations, 2);
  EXPECT_EQ(bubbles.ranks[2].busy_ns, 0);
  EXPECT_EQ(bubbles.ranks[2].idle_ns, 70);
}

}  // namespace
}  // namespace stringline
