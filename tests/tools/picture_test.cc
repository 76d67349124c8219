// The picture in the terminal, and the words around it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/simulated_timeline.h"
#include "tests/tools/tool_run.h"
#include "tools/view/compare.h"
#include "tools/view/paint.h"
#include "tools/view/raster.h"
#include "tools/view/terminal.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

Timeline Read(const std::string& text) {
  const Source source("test.timeline", text);
  Diagnostics diagnostics;
  std::optional<Timeline> timeline = ReadTimeline(source, &diagnostics);
  EXPECT_TRUE(timeline.has_value()) << Render(diagnostics, source);
  return timeline.value_or(Timeline{});
}

constexpr const char* kTwoRanks =
    "timeline simulated s P=2 M=2\n"
    "rank 0: 0F0@0+1000 0F1@1000+1000 0B0@4000+2000 0B1@7000+2000\n"
    "rank 1: 1F0@1000+1000 1B0@2000+2000 1F1@4000+1000 1B1@5000+2000\n";

TEST(RasterTest, StepsGetTheSameWholeNumberOfColumns) {
  const Raster raster = Rasterize(Read(kTwoRanks), 40, 1);
  EXPECT_TRUE(raster.exact);
  EXPECT_EQ(raster.columns, 36);  // 9 steps of 4 columns
  EXPECT_EQ(raster.end_ns, 9000);
  const std::vector<int> first(raster.rows[0].begin(), raster.rows[0].begin() + 9);
  EXPECT_EQ(first, std::vector<int>({0, 0, 0, 0, 1, 1, 1, 1, -1}));
}

TEST(RasterTest, TheShortestActionIsAtMostEightColumns) {
  EXPECT_EQ(Rasterize(Read(kTwoRanks), 1000, 1).columns, 72);
}

TEST(RasterTest, ALongScheduleIsStretchedOverAllColumns) {
  std::string text = "timeline simulated s P=1 M=1000\nrank 0:";
  for (int m = 0; m < 1000; ++m) {
    text += " 0F" + std::to_string(m) + "@" + std::to_string(m * 3000) + "+1000 0B" +
            std::to_string(m) + "@" + std::to_string(m * 3000 + 1000) + "+2000";
  }
  const Timeline timeline = Read(text + "\n");
  const Raster raster = Rasterize(timeline, 60, 1);
  EXPECT_FALSE(raster.exact);
  EXPECT_EQ(raster.columns, 60);
  // Each slice holds dozens of actions; each kind gets its share of the slices.
  const auto forwards = std::count_if(raster.rows[0].begin(), raster.rows[0].end(), [&](int e) {
    return e >= 0 && timeline.events[e].kind == ActionKind::kForward;
  });
  EXPECT_NEAR(forwards, 20, 1);
  EXPECT_EQ(std::count(raster.rows[0].begin(), raster.rows[0].end(), -1), 0);
}

TEST(PictureTest, MonochromeNamesKindAndMicrobatch) {
  const std::vector<std::string> lines = Lines(Draw(Read(kTwoRanks), {60, Colors::kNone}));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "s P=2 M=2  simulated: 9 us, bubble 33.33 %");
  EXPECT_EQ(lines[2].rfind("rank 0  F0──F1──····", 0), 0u) << lines[2];
  EXPECT_NE(lines[2].find("········B0──────····B1──────   67%     2"), std::string::npos)
      << lines[2];
  EXPECT_NE(lines[3].find("····F0──B0──────F1──B1──────········"), std::string::npos) << lines[3];
}

TEST(PictureTest, GroupsStandAboveEachOther) {
  const Timeline timeline = Read(
      "timeline measured s P=1 M=2\n"
      "rank 0: 0F0@0+1000 0F1@1000+2000&1B0@1000+2000\n");
  const std::vector<std::string> lines = Lines(Draw(timeline, {60, Colors::kNone}));
  EXPECT_NE(lines[2].find("F1──────────────"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("b0──────────────"), std::string::npos) << lines[3];
}

TEST(PictureTest, EveryPartOfAGroupIsDrawn) {
  const Timeline timeline = Read(
      "timeline measured s P=1 M=3\n"
      "rank 0: 0F0@0+1000 0F2@1000+2000&0I1@1000+2000&0W0@1000+2000 0B2@3000+1000&0F1@3000+1000\n");
  const std::vector<std::string> plain = Lines(Draw(timeline, {60, Colors::kNone}));
  EXPECT_EQ(plain[2].rfind("rank 0  F0──────F2──────────────B2──────", 0), 0u) << plain[2];
  EXPECT_EQ(plain[3], "                I1──────────────F1──────");
  EXPECT_EQ(plain[4], "                W0──────────────");
  // Each part of a group has its own colour, and two parts fill three lines.
  const std::vector<std::string> colored = Lines(Draw(timeline, {60, Colors::kTrue}));
  for (const auto& [line, kinds] :
       {std::pair(2, "FFB"), std::pair(3, "FIB"), std::pair(4, "FWF")}) {
    size_t at = 0;
    for (const char* kind = kinds; *kind != '\0'; ++kind) {
      at = colored[line].find("\x1b[48;2;", at);
      ASSERT_NE(at, std::string::npos) << line;
      const std::string letter(1, *kind);
      bool found = false;
      for (int m = 0; m < 3; ++m) {
        for (int k = 0; k < 4; ++k) {
          const auto action = static_cast<ActionKind>(k);
          found = found || (letter == PrintedKind(action) &&
                            colored[line].substr(at).rfind(
                                Background(PaintOf(action, 0, m, m / 2.0), Colors::kTrue), 0) == 0);
        }
      }
      EXPECT_TRUE(found) << line << letter;
      ++at;
    }
  }
}

// 500 ns are four columns. Each copy bears its letter and its microbatch, and with colours a colour
// that no computation has.
TEST(PictureTest, CopiesHaveLanes) {
  const Timeline timeline = TimelineWithCopies();
  Picture picture{100, Colors::kNone};
  const std::string without = Draw(timeline, picture);
  EXPECT_EQ(without.find("host"), std::string::npos) << without;
  EXPECT_EQ(without.find_first_of("DU"), std::string::npos) << without;
  picture.lanes = true;
  const std::string text = Draw(timeline, picture);
  const std::vector<std::string> lines = Lines(text);
  const auto dots = [](int count) {
    std::string line;
    for (int i = 0; i < count; ++i) line += "·";
    return line;
  };
  EXPECT_EQ(lines[3], "to host    " + dots(8) + "D0──────────D1──────────" + dots(44) + "   32%");
  EXPECT_EQ(lines[4], "from host  " + dots(20) + "U0──────────────────U1──────────────────" +
                          dots(16) + "   53%");
  EXPECT_NE(text.find("to host, from host: copies to and from the host\n"), std::string::npos);
  EXPECT_NE(text.find("F forward   B backward   · idle"), std::string::npos) << text;
  picture.colors = Colors::kTrue;
  const std::vector<std::string> colored = Lines(Draw(timeline, picture));
  for (const auto& [line, kind] :
       {std::pair(3, ActionKind::kOffload), std::pair(4, ActionKind::kFetch)}) {
    for (int m = 0; m < 2; ++m) {
      const std::string paint = Background(PaintOf(kind, 0, m, m), Colors::kTrue);
      EXPECT_NE(colored[line].find(paint), std::string::npos) << colored[line];
      for (int other = 0; other < kComputeKinds; ++other) {
        EXPECT_NE(PaintOf(static_cast<ActionKind>(other), 0, m, m), PaintOf(kind, 0, m, m));
      }
    }
  }
}

TEST(PictureTest, NoLineIsWiderThanAsked) {
  for (const int width : {40, 60, 100, 200}) {
    const std::vector<std::string> lines = Lines(Draw(Read(kTwoRanks), {width, Colors::kNone}));
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_LE(Width(lines[i]), static_cast<size_t>(width)) << lines[i];
    }
  }
}

TEST(PictureTest, ComparedTimelinesShareOneScale) {
  const Timeline simulated = Read(kTwoRanks);
  const Timeline measured = Read(
      "timeline measured s P=2 M=2\n"
      "rank 0: 0F0@0+1000 0F1@1000+1000 0B0@4000+2000 0B1@8000+2000\n"
      "rank 1: 1F0@1000+1000 1B0@2000+2000 1F1@4000+1000 1B1@5000+2000\n");
  EXPECT_DOUBLE_EQ(Misprediction(measured, simulated), -0.1);
  const std::string text = Compare(measured, simulated, {60, Colors::kNone});
  EXPECT_NE(text.find("predicted 9 us, took 10 us: 10.0 % too short\n"), std::string::npos) << text;
  const std::vector<std::string> lines = Lines(text);
  EXPECT_EQ(lines[0], "s P=2 M=2  measured: 10 us, bubble 40.00 %");
  EXPECT_NE(lines[2].find("B1──────   60%"), std::string::npos) << lines[2];
  EXPECT_EQ(lines[5], "s P=2 M=2  simulated: 9 us, bubble 33.33 %");
  EXPECT_NE(lines[7].find("B1──────····   67%"), std::string::npos) << lines[7];
}

TEST(PictureTest, NothingToDrawIsNoPicture) {
  EXPECT_NE(Draw(Read("timeline simulated s P=1 M=1\nrank 0:\n"), {60, Colors::kNone}), "");
}

TEST(PictureTest, ColorsEndOnEveryLine) {
  for (const Colors colors : {Colors::k256, Colors::kTrue}) {
    for (const std::string& line : Lines(Draw(Read(kTwoRanks), {80, colors}))) {
      const size_t last = line.rfind("\x1b[");
      if (last != std::string::npos) {
        EXPECT_EQ(line.substr(last, 4), "\x1b[0m") << line;
      }
    }
  }
}

TEST(PaintTest, TextCanBeRead) {
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (int m = 0; m < 8; ++m) {
        const Rgb paint = PaintOf(kind, chunk, m, m / 7.0);
        const Rgb text = TextOn(paint);
        const auto light = [](Rgb c) { return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue; };
        EXPECT_GT(std::abs(light(paint) - light(text)), 80) << static_cast<int>(kind) << " " << m;
      }
    }
  }
}

TEST(PaintTest, ColorsAreChosenByWishThenTerminal) {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  unsetenv("COLORTERM");
  EXPECT_EQ(ChooseColors("never", true), Colors::kNone);
  EXPECT_EQ(ChooseColors("auto", false), Colors::kNone);
  EXPECT_EQ(ChooseColors("auto", true), Colors::k256);
  EXPECT_EQ(ChooseColors("always", false), Colors::k256);
  setenv("COLORTERM", "truecolor", 1);
  EXPECT_EQ(ChooseColors("auto", true), Colors::kTrue);
  setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(ChooseColors("auto", true), Colors::kNone);
  EXPECT_EQ(ChooseColors("always", true), Colors::kTrue);
  setenv("TERM", "dumb", 1);
  unsetenv("NO_COLOR");
  EXPECT_EQ(ChooseColors("auto", true), Colors::kNone);
}

TEST(WordsTest, TimesShareTheirUnits) {
  EXPECT_EQ(PrintTime(0), "0");
  EXPECT_EQ(PrintTime(999), "999 ns");
  EXPECT_EQ(PrintTime(601'000), "601 us");
  EXPECT_EQ(PrintTime(18'522'000), "18.522 ms");
  EXPECT_EQ(PrintTime(1'456'749'000), "1456.749 ms");
  EXPECT_EQ(PrintTime(25'000'000'000), "25 s");
  EXPECT_EQ(PrintTime(33'000'000), "33 ms");
}

TEST(WordsTest, BarsAreAsWideAsAsked) {
  EXPECT_EQ(PrintBar(0, 4), "····");
  EXPECT_EQ(PrintBar(0.5, 4), "██··");
  EXPECT_EQ(PrintBar(1, 4), "████");
  EXPECT_EQ(PrintBar(0.125, 4), "▌···");
  EXPECT_EQ(PrintBar(7, 4), "████");
  for (double share = 0; share <= 1; share += 0.01) EXPECT_EQ(Width(PrintBar(share, 13)), 13u);
}

}  // namespace
}  // namespace stringline
