// The stages of a rank are told apart in every form of picture, also where a rank has four, and
// where two pipes have two each.
#include "tools/view/stage_shades.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/tools/simulated_timeline.h"
#include "tests/tools/tool_run.h"
#include "tools/view/page/page_data.h"
#include "tools/view/svg.h"
#include "tools/view/terminal.h"

namespace stringline {
namespace {

constexpr const char* kTwoPipes =
    "schedule two(P, M) {\n"
    "  pipe down { stages 2 * P on v; microbatches M / 2; }\n"
    "  pipe up { stages 2 * P on s -> P - 1 - (s < P ? s : 2 * P - 1 - s); microbatches M / 2; }\n"
    "  rank r greedy { prefer B, F; }\n"
    "}\n";

Timeline TwoPipes() {
  WriteText(ScratchFolder() + "/two.sched", kTwoPipes);
  return SimulatedTimeline("two.sched P=4 M=8");
}

// Up to four stages of a rank differ, and the fifth is like the first.
TEST(StageShadesTest, StagesOfARankDiffer) {
  for (const int stages : {1, 2, 3, 4, 6}) {
    const Timeline step = SimulatedTimeline(absl::StrCat("looped_bfs P=3 M=4 V=", stages));
    const StageShades shades = ShadesOf(step);
    EXPECT_EQ(shades.names.size(), static_cast<size_t>(std::min(stages, kShades)));
    for (int rank = 0; rank < 3; ++rank) {
      for (int k = 0; k < stages; ++k) {
        EXPECT_EQ(shades.of[static_cast<size_t>(k * 3 + rank)], k % kShades) << stages;
      }
    }
  }
  EXPECT_EQ(ShadesOf(SimulatedTimeline("zb_v P=2 M=4")).names[1], "every second stage of a rank");
  EXPECT_EQ(ShadesOf(SimulatedTimeline("looped_bfs P=2 M=4 V=3")).names[2],
            "third stage of a rank");
  EXPECT_EQ(ShadesOf(SimulatedTimeline("looped_bfs P=2 M=4 V=5")).names[0],
            "first stage of a rank, or 5th stage of a rank");
}

TEST(StageShadesTest, PipesDifferAndTheirStages) {
  const StageShades one = ShadesOf(SimulatedTimeline("chimera P=4 M=8"));
  EXPECT_EQ(one.names, std::vector<std::string>({"pipe down", "pipe up"}));
  const Timeline step = TwoPipes();
  const StageShades two = ShadesOf(step);
  EXPECT_EQ(two.names, std::vector<std::string>(
                           {"pipe down, first stage of a rank", "pipe down, second stage of a rank",
                            "pipe up, first stage of a rank", "pipe up, second stage of a rank"}));
  for (int r = 0; r < step.ranks(); ++r) {
    std::set<int> stages, shades;
    for (const Event& event : step.of(RankId(r))) {
      stages.insert(event.stage.value);
      shades.insert(two.of[static_cast<size_t>(event.stage.value)]);
    }
    EXPECT_EQ(stages.size(), 4u);
    EXPECT_EQ(shades.size(), 4u);
  }
}

// Letters of cells, and how the legend explains them.
TEST(StageShadesTest, InTheTerminal) {
  for (const Timeline& step : {SimulatedTimeline("interleaved P=4 M=8 V=4"), TwoPipes()}) {
    const std::string plain = Draw(step, {.width = 200});
    for (const char* const letter : {"F", "f", "Ḟ", "ḟ", "B", "b", "Ḃ", "ḃ"}) {
      EXPECT_TRUE(absl::StrContains(plain, letter)) << letter << "\n" << plain;
    }
    for (const char* const words :
         {"small letters: ", "dotted letters: ", "small dotted letters: "}) {
      EXPECT_TRUE(absl::StrContains(plain, words)) << words << "\n" << plain;
    }
    const std::string colored = Draw(step, {.width = 200, .colors = Colors::kTrue});
    EXPECT_TRUE(absl::StrContains(colored, "\x1b[4m"));
    EXPECT_TRUE(absl::StrContains(colored, "dark and underlined: "));
    // Letters are a column wide, whatever bytes they take: all lines of ranks end together.
    std::set<size_t> widths;
    for (const std::string& line : Lines(plain)) {
      if (absl::StartsWith(line, "rank ")) widths.insert(Width(line));
    }
    EXPECT_EQ(widths.size(), 1u) << plain;
  }
  const std::string two = Draw(SimulatedTimeline("zb_v P=2 M=4"), {.width = 100});
  EXPECT_FALSE(absl::StrContains(two, "dotted")) << two;
  const std::string none = Draw(SimulatedTimeline("1f1b P=2 M=4"), {.width = 100});
  EXPECT_FALSE(absl::StrContains(none, "letters")) << none;
}

// Boxes with the same microbatch and kind on a rank: a different look for each stage.
TEST(StageShadesTest, InSvg) {
  for (const bool grey : {false, true}) {
    SvgStyle style;
    style.grey = grey;
    const Timeline step = SimulatedTimeline("interleaved P=2 M=4 V=4");
    const std::string svg = DrawSvg({&step}, style);
    static const std::regex box(
        "<rect x='[0-9.]+' y='([0-9.]+)' width='[0-9.]+' height='[0-9.]+' "
        "fill='(#[0-9a-f]+)'[^>]*/>"
        "(\n<rect [^>]*class='mark'/>)?\n<text [^>]*>([0-9]+)</text>");
    std::map<std::string, std::set<std::string>> looks;  // by row and microbatch
    for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at) {
      const std::string fill = (*at)[2];
      const bool is_forward = fill == SvgFill(ActionKind::kForward, 0, grey) ||
                              fill == SvgFill(ActionKind::kForward, 1, grey);
      if (is_forward)
        looks[(*at)[1].str() + " " + (*at)[4].str()].insert(fill + (*at)[3].str().substr(0, 1));
    }
    EXPECT_EQ(looks.size(), 8u) << svg;  // two ranks, four microbatches
    for (const auto& [where, seen] : looks) EXPECT_EQ(seen.size(), 4u) << where;
    EXPECT_TRUE(absl::StrContains(svg, ">fourth stage of a rank<")) << svg;
  }
}

TEST(StageShadesTest, OnThePage) {
  const Timeline step = TwoPipes();
  Analysis analysis;
  analysis.causes.resize(static_cast<size_t>(step.ranks()));
  analysis.first_idle.assign(static_cast<size_t>(step.ranks()) + 1, 0);
  const auto header = PageDataOf({nullptr, nullptr, step, analysis, nullptr, "two"}).header;
  const StageShades shades = ShadesOf(step);
  EXPECT_EQ(header["shades"].get<std::vector<int>>(), shades.of);
  EXPECT_EQ(header["shade_names"].get<std::vector<std::string>>(), shades.names);
}

// A single legend explains two pictures, one below the other.
TEST(StageShadesTest, ALegendIsOfAllThatIsDrawn) {
  const Timeline first = SimulatedTimeline("interleaved P=2 M=4 V=2"),
                 second = SimulatedTimeline("zb_h1 P=2 M=4");
  const std::string text = DrawTogether({&first, &second}, {.width = 100});
  for (const char* const words :
       {"B backward", "I input gradient", "small letters: every second"}) {
    EXPECT_TRUE(absl::StrContains(text, words)) << words << "\n" << text;
  }
}

// Numbers are not explained if no cell has room for a number.
TEST(StageShadesTest, NumbersAreExplainedWhereThereAreAny) {
  const Timeline few = SimulatedTimeline("1f1b P=2 M=4"),
                 many = SimulatedTimeline("1f1b P=2 M=400");
  for (const Colors colors : {Colors::kNone, Colors::kTrue}) {
    EXPECT_TRUE(absl::StrContains(Draw(few, {.width = 100, .colors = colors}), "numbers"));
    EXPECT_FALSE(absl::StrContains(Draw(many, {.width = 60, .colors = colors}), "numbers"));
  }
}

}  // namespace
}  // namespace stringline
