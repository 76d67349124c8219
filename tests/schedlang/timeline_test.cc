#include "schedlang/plan/timeline.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

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

TEST(Timeline, BucketsReadBack) {
  const std::string text =
      "timeline measured x P=1 M=2\n"
      "observed\n"
      "rank 0: 0UNSHARD@0+500>100 0F0@100+700~200[110+690] 0F1@800+10~10 0REDUCE_GRAD@805+9~3\n";
  const auto timeline = Read(text);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->events[0].first_bucket_ns, 100);
  EXPECT_EQ(timeline->events[1].waited_ns, 200);
  EXPECT_EQ(timeline->events[1].worked_ns(), 500);
  EXPECT_EQ(Print(*timeline), text);
  EXPECT_EQ(MeasureBubbles(*timeline).ranks[0].busy_ns, 500);
  std::string message;
  for (const char* const bad : {"0UNSHARD@0+500>501", "0F0@0+5~6", "0F0@0+5~", "0F0@0+5>",
                                "0F0@0+5~-1", "0F0@0+5~1>2", "0F0@0+5?~1"}) {
    EXPECT_FALSE(Read(absl::StrCat("timeline simulated x\nrank 0: ", bad, "\n"), &message)) << bad;
    EXPECT_EQ(message, "expected an event like 3F7@1000+500") << bad;
  }
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
  // Observed times are read only where the file says `observed`.
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

// Two computations of a rank at once would make it busy for more than the whole step.
TEST(Timeline, ARankComputesOneGroupAtATime) {
  const char* const head = "timeline measured x P=1 M=2\nrank 0: ";
  // Computations that touch, a group, messages and collectives beside them, one of no length.
  for (const char* rank :
       {"0F0@0+10 0B0@10+5", "0F0@0+10&0B1@2+20 0B0@22+5", "0F0@0+10 0SEND_F0@2+30 0F1@10+5",
        "0REDUCE_GRAD@0+50 0F0@0+10", "0F0@0+10 0F1@10+0 0B0@10+5"}) {
    EXPECT_TRUE(Read(std::string(head) + rank + "\n")) << rank;
  }
  std::string message;
  for (const char* rank : {"0F0@0+10 0B0@9+5", "0F0@5+10 0B0@0+4", "0F0@0+10&0B1@2+20 0B0@12+15",
                           "0F0@0+10 0SEND_F0@2+30 0F1@7+5", "0F0@0+10 0F1@10+5&0B0@9+5"}) {
    EXPECT_FALSE(Read(std::string(head) + rank + "\n", &message)) << rank;
    EXPECT_EQ(message,
              "rank 0 still computes what stands before when this begins; a rank does one "
              "computation at a time");
  }
}

TEST(Timeline, HasALineForEachOfItsRanks) {
  std::string message;
  const std::string two = "rank 0: 0F0@0+1\nrank 1: 1F0@1+1\n";
  EXPECT_TRUE(Read("timeline measured x P=2 M=1\n" + two));
  EXPECT_FALSE(Read("timeline measured x P=3 M=1\n" + two, &message));
  EXPECT_EQ(message, "the last of 2 ranks, and P is 3");
  EXPECT_FALSE(Read("timeline measured x P=1 M=1\n" + two, &message));
  EXPECT_EQ(message, "the last of 2 ranks, and P is 1");
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

// A reduction behind the last computation ends the step and the rank's span.
TEST(Timeline, MakespanAndSpanCountCollectivesAlike) {
  const struct {
    const char* ranks;
    int64_t makespan_ns, span_ns;
  } rows[] = {
      {"rank 0: 0F0@0+10 0B0@30+10 0REDUCE_GRAD@40+20\nrank 1: 1F0@10+10 1B0@20+10\n", 60, 60},
      {"rank 0: 0F0@0+10 0B0@30+10\nrank 1: 1F0@10+10 1B0@20+10 1REDUCE_GRAD@30+90\n", 120, 110},
      {"rank 0: 0UNSHARD@0+5 0F0@5+10 0B0@30+10\nrank 1: 1F0@15+10 1B0@25+5\n", 40, 40},
      // A message is neither a rank's beginning nor its end.
      {"rank 0: 0F0@0+10 0B0@50+10\nrank 1: 1RECV_F0@10+20 1F0@30+5 1B0@35+5 1SEND_B0@40+10\n", 60,
       60},
      {"rank 0:\nrank 1: 1RECV_F0@0+20 1F0@20+5 1SEND_F0@25+10\n", 35, 5},
  };
  for (const auto& row : rows) {
    const auto timeline = Read(absl::StrCat("timeline simulated x P=2 M=1\n", row.ranks));
    ASSERT_TRUE(timeline) << row.ranks;
    EXPECT_EQ(MakespanOf(*timeline), row.makespan_ns) << row.ranks;
    const Bubbles bubbles = MeasureBubbles(*timeline);
    EXPECT_EQ(bubbles.makespan_ns, row.makespan_ns) << row.ranks;
    EXPECT_EQ(bubbles.span_ns, row.span_ns) << row.ranks;
  }
}

// Sums of times beyond 64 bits: of events, of parts, of all ranks.
TEST(Timeline, TimesThatAddUpToTooMuchAreRefused) {
  const std::string long_ns = "1500000000000000000";
  std::string message;
  const std::string texts[] = {
      absl::StrCat("timeline simulated x P=4 M=1\nrank 0: 0F0@0+", long_ns, "\nrank 1: 1F0@0+",
                   long_ns, "\nrank 2: 2F0@0+", long_ns, "\nrank 3: 3F0@0+", long_ns, "\n"),
      absl::StrCat("timeline simulated x P=4 M=1\nrank 0: 0F0@", long_ns,
                   "+1\nrank 1:\nrank 2:\nrank 3:\n"),
      absl::StrCat("timeline simulated x P=1 M=1\nrank 0: 0F0@0+9\nparts 0: 0F0:F.attn@0+", long_ns,
                   " 0F0:F.experts@0+", long_ns, " 0F0:F.post@0+", long_ns, " 0F0:F.combine@0+",
                   long_ns, "\n"),
  };
  for (const std::string& text : texts) {
    EXPECT_FALSE(Read(text, &message)) << text;
    EXPECT_EQ(message, "the times of this timeline add up to more than 2^62 ns, 146 years");
  }
  EXPECT_TRUE(
      Read(absl::StrCat("timeline simulated x P=2 M=1\nrank 0: 0F0@0+", long_ns, "\nrank 1:\n")));
}

}  // namespace
}  // namespace stringline
