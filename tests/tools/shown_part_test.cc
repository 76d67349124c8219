// The shown part of a step: the limits, and every part of the groups inside.
#include "tools/view/shown_part.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/tools/simulated_timeline.h"
#include "tests/tools/tool_run.h"
#include "tools/view/lane_rows.h"

namespace stringline {
namespace {

Timeline StepIn(const std::string& text) {
  const Source source("test.timeline", text);
  Diagnostics diagnostics;
  std::optional<Timeline> timeline = ReadTimeline(source, &diagnostics);
  EXPECT_TRUE(timeline.has_value()) << Render(diagnostics, source);
  return timeline.value_or(Timeline{});
}

constexpr const char* kStep =
    "timeline simulated s P=2 M=2\n"
    "rank 0: 0F0@0+1000 0F1@1000+1000 0B0@4000+2000 0B1@7000+2000\n"
    "rank 1: 1F0@1000+1000 1B0@2000+2000 1F1@4000+1000 1B1@5000+2000\n";

TEST(ShownPartTest, ReadsRanges) {
  const auto part = ParseShownPart("0..15", "50..200ms", "3");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->first_rank, 0);
  EXPECT_EQ(part->last_rank, 15);
  // A number without a unit takes the other number's unit.
  EXPECT_EQ(part->from_ns, 50'000'000);
  EXPECT_EQ(part->to_ns, 200'000'000);
  EXPECT_EQ(part->first_microbatch, 3);
  EXPECT_EQ(part->last_microbatch, 3);
  EXPECT_EQ(ParseShownPart("", "1.5us..2ms", "")->from_ns, 1500);
  EXPECT_EQ(ParseShownPart("", "1us..2us", "")->to_ns, 2000);
  EXPECT_TRUE(ParseShownPart("", "", "")->IsWhole());
}

TEST(ShownPartTest, RefusesWhatIsNoRange) {
  for (const char* const text : {"..", "a", "3..", "..3", "2..1", "-1..2", "1..2..3", "1,2"}) {
    EXPECT_FALSE(ParseShownPart(text, "", "").ok()) << text;
    EXPECT_FALSE(ParseShownPart("", text, "").ok()) << text;
    EXPECT_FALSE(ParseShownPart("", "", text).ok()) << text;
  }
}

TEST(ShownPartTest, CropsAndMovesToTheBeginning) {
  ShownPart part;
  part.from_ns = 1500;
  part.to_ns = 5000;
  const Timeline cropped = Crop(StepIn(kStep), 0, 1, part);
  EXPECT_EQ(Print(cropped),
            "timeline simulated s P=2 M=2\n"
            "rank 0: 0F1@0+500 0B0@2500+1000\n"
            "rank 1: 1F0@0+500 1B0@500+2000 1F1@2500+1000\n");
  EXPECT_EQ(Print(Crop(StepIn(kStep), 1, 1, ShownPart{})),
            "timeline simulated s P=2 M=2\n"
            "rank 0: 1F0@1000+1000 1B0@2000+2000 1F1@4000+1000 1B1@5000+2000\n");
}

// The figures beside the picture are of the whole step; the picture names its part.
TEST(ShownPartTest, ThePicturesSayThatTheyShowAPart) {
  const std::string path = ScratchFolder() + "/part.svg";
  const std::string step = "show schedules/1f1b.sched P=4 M=8";
  const std::string some = " --ranks 1..2 --time 2..12ms --microbatches 0..3";
  const auto run = [](const std::string& words) {
    const Answer answer = RunToolIn(SourceFolder(), Words(words));
    EXPECT_EQ(answer.status, 0) << answer.err;
    return answer.out;
  };
  const std::string words = "shown: ranks 1 to 2, 2 ms to 12 ms, microbatches 0 to 3 of the step";
  const std::string text = run(step + some);
  EXPECT_NE(text.find("33 ms, bubble 27.27 %\n" + words), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 3"), std::string::npos) << text;
  EXPECT_EQ(text.find("F4"), std::string::npos) << text;
  for (const char* const options : {"", " --no-title"}) {
    run(absl::StrCat(step, some, " --svg ", path, options));
    const std::string svg = ReadText(path);
    EXPECT_NE(svg.find(words), std::string::npos) << options;
    EXPECT_NE(svg.find(">rank 2</text>"), std::string::npos);
    EXPECT_EQ(svg.find(">rank 3</text>"), std::string::npos);
    EXPECT_NE(svg.find(">2 ms</text>"), std::string::npos);
    EXPECT_EQ(svg.find(">7</text>"), std::string::npos);
  }
}

// The cause of a gap stands below: the message or collective that arrives when the rank goes on.
TEST(LaneRowsTest, MessagesAndCollectivesHaveRows) {
  const Timeline timeline = StepIn(
      "timeline simulated s P=2 M=2\n"
      "rank 0: 0UNSHARD@0+500 0F0@500+1000 0SEND_F0@1500+300 0F1@1500+1000 0SEND_F1@2500+300 "
      "0RECV_B0@4800+300 0B0@5100+2000 0RECV_B1@7800+300 0B1@8100+2000 0REDUCE_GRAD@10100+700\n"
      "rank 1: 0RECV_F0@1500+300 1F0@1800+1000 1B0@2800+2000 0RECV_F1@2500+300 1SEND_B0@4800+300 "
      "1F1@4800+1000 1B1@5800+2000 1SEND_B1@7800+300\n");
  ASSERT_TRUE(HasLanes(timeline));
  const LaneRows rows = RowsByLane(timeline);
  EXPECT_EQ(rows.names, std::vector<std::string>(
                            {"rank 0", "gradients", "collectives", "rank 1", "activations"}));
  EXPECT_EQ(rows.ranks, std::vector<int>({0, 0, 0, 1, 1}));
  EXPECT_EQ(Print(rows.timeline),
            "timeline simulated s P=2 M=2\n"
            "rank 0: 0F0@500+1000 0F1@1500+1000 0B0@5100+2000 0B1@8100+2000\n"
            "rank 1: 0B0@4800+300 0B1@7800+300\n"
            "rank 2: 0F0@0+500 0W0@10100+700\n"
            "rank 3: 1F0@1800+1000 1B0@2800+2000 1F1@4800+1000 1B1@5800+2000\n"
            "rank 4: 0F0@1500+300 0F1@2500+300\n");
  EXPECT_FALSE(HasLanes(StepIn(kStep)));
}

// Copies to the host and from the host overlap each other, so each way has a row.
TEST(LaneRowsTest, CopiesHaveRows) {
  const Timeline timeline = TimelineWithCopies();
  ASSERT_TRUE(HasLanes(timeline));
  const LaneRows rows = RowsByLane(timeline);
  EXPECT_EQ(rows.names, std::vector<std::string>({"rank 0", "to host", "from host", "rank 1"}));
  EXPECT_EQ(rows.kinds, std::vector<LaneKind>({LaneKind::kCompute, LaneKind::kToHost,
                                               LaneKind::kFromHost, LaneKind::kCompute}));
  EXPECT_EQ(rows.ranks, std::vector<int>({0, 0, 0, 1}));
  EXPECT_EQ(Print(rows.timeline),
            "timeline simulated offloaded P=2 M=2\n"
            "rank 0: 0F0@0+1000 0F1@1000+1000 0B0@5000+2000 0B1@7500+2000\n"
            "rank 1: 0F0@1000+1500 0F1@2500+1500\n"
            "rank 2: 0F0@2500+2500 0F1@5000+2500\n"
            "rank 3: 1F0@1000+1000 1B0@2000+2000 1F1@4000+1000 1B1@5000+2000\n");
  EXPECT_EQ(DrawnKind(LaneKind::kToHost, ActionKind::kForward), ActionKind::kOffload);
  EXPECT_EQ(DrawnKind(LaneKind::kFromHost, ActionKind::kForward), ActionKind::kFetch);
  EXPECT_EQ(DrawnKind(LaneKind::kCompute, ActionKind::kForward), ActionKind::kForward);
  // Copies that take no time have no row.
  EXPECT_FALSE(
      HasLanes(StepIn("timeline simulated s P=1 M=1\n"
                      "rank 0: 0F0@0+1000 0D0@1000+0 0U0@1000+0 0B0@1000+2000\n")));
}

// Every wait of a library schedule ends or begins with an event on its lanes.
TEST(LaneRowsTest, WhatARankWaitsForStandsBelowIt) {
  for (const char* const schedule : {"1f1b", "zb_h1", "interleaved", "chimera"}) {
    const std::string path = ScratchFolder() + "/waits.timeline";
    const std::string words = absl::StrCat(
        "sim ", schedule, " P=4 M=8 --cost F=10,I=11,W=9,B=20,p2p=4 --timeline ", path);
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(words)).status, 0);
    const LaneRows rows = RowsByLane(StepIn(ReadText(path)));
    int waits = 0;
    for (int r = 0; r < rows.timeline.ranks(); ++r) {
      if (rows.kinds[r] != LaneKind::kCompute) continue;
      int64_t now_ns = 0;
      for (const Event& event : rows.timeline.of(RankId(r))) {
        if (event.start_ns > now_ns) {
          bool is_explained = false;
          for (int below = r + 1; below < rows.timeline.ranks(); ++below) {
            if (rows.ranks[below] != rows.ranks[r]) break;
            for (const Event& lane : rows.timeline.of(RankId(below))) {
              is_explained = is_explained || lane.end_ns == event.start_ns;
            }
          }
          EXPECT_TRUE(is_explained) << schedule << " " << r << " " << event.start_ns;
          ++waits;
        }
        now_ns = std::max(now_ns, event.end_ns);
      }
    }
    EXPECT_GT(waits, 8) << schedule;
  }
}

}  // namespace
}  // namespace stringline
