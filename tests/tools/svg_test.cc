// Pictures checked as text: boxes and ticks stand at their times, folds leave nothing out, and the
// legend explains exactly the drawn boxes.
#include "tools/view/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/tools/simulated_timeline.h"
#include "tests/tools/tool_run.h"
#include "tools/view/plot.h"

namespace stringline {
namespace {

struct Tick {
  double x = 0;
  double y = 0;
  double time_ns = 0;
};

// "20 ms" -> 20e6.
double TimeOf(const std::string& label) {
  if (label == "0") return 0;
  const std::map<std::string, double> units = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  const size_t space = label.find(' ');
  return std::stod(label.substr(0, space)) * units.at(label.substr(space + 1));
}

std::vector<Tick> TicksOf(const std::string& svg) {
  static const std::regex tick(
      "<path d='M([0-9.]+) ([0-9.]+)v4'[^>]*/>\n<text x='[0-9.]+' y='[0-9.]+' "
      "text-anchor='[a-z]+'>([0-9.]+( [nmu]?s)?)</text>");
  std::vector<Tick> ticks;
  for (std::sregex_iterator at(svg.begin(), svg.end(), tick), end; at != end; ++at) {
    ticks.push_back({std::stod((*at)[1]), std::stod((*at)[2]), TimeOf((*at)[3])});
  }
  return ticks;
}

struct SvgBox {
  double x = 0, y = 0, width = 0;
};

// Boxes of this colour, without those of the legend (14 by 10 points).
std::vector<SvgBox> BoxesOf(const std::string& svg, const std::string& fill) {
  const std::regex box(absl::StrCat(
      "<rect x='([0-9.]+)' y='([0-9.]+)' width='([0-9.]+)' height='([0-9.]+)' fill='", fill, "'"));
  std::vector<SvgBox> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at) {
    if ((*at)[3] == "14.00" && (*at)[4] == "10.00") continue;
    boxes.push_back({std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3])});
  }
  return boxes;
}

// A time's place by the axis alone: on the line through its first and its last tick.
double PlaceOf(const std::vector<Tick>& ticks, double ns) {
  const Tick& first = ticks.front();
  const Tick& last = ticks.back();
  return first.x + (last.x - first.x) * (ns - first.time_ns) / (last.time_ns - first.time_ns);
}

// The boxes are those of the step's events of this kind, in their order, each at its time.
void ExpectAtTheirTimes(const Timeline& step, ActionKind kind, const std::vector<SvgBox>& boxes,
                        const std::vector<Tick>& ticks) {
  size_t seen = 0;
  for (const Event& event : step.events) {
    if (event.kind != kind) continue;
    ASSERT_LT(seen, boxes.size());
    EXPECT_NEAR(boxes[seen].x, PlaceOf(ticks, event.start_ns), 0.05);
    EXPECT_NEAR(boxes[seen].x + boxes[seen].width, PlaceOf(ticks, event.end_ns), 0.05);
    ++seen;
  }
  EXPECT_EQ(seen, boxes.size());
}

TEST(SvgTest, BoxesStandAtTheTimesOfTheAxis) {
  for (const char* const words :
       {"1f1b P=3 M=5 --cost F=7,B=13,p2p=2", "gpipe P=2 M=3 --cost F=1ms,B=2ms"}) {
    const Timeline step = SimulatedTimeline(words);
    for (const double width : {400.0, 720.0, 1300.0}) {
      SvgStyle style;
      style.width = width;
      const std::string svg = DrawSvg({&step}, style);
      const std::vector<Tick> ticks = TicksOf(svg);
      ASSERT_GE(ticks.size(), 3u) << svg;
      EXPECT_EQ(ticks[0].time_ns, 0);
      for (const Tick& tick : ticks) EXPECT_NEAR(tick.x, PlaceOf(ticks, tick.time_ns), 0.02);
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
        ExpectAtTheirTimes(step, kind, BoxesOf(svg, SvgFill(kind, 0, false)), ticks);
      }
    }
  }
}

// A part of the step keeps its times.
TEST(SvgTest, ThePartThatIsShownKeepsItsTimes) {
  const Timeline step = SimulatedTimeline("1f1b P=2 M=8 --cost F=10,B=20");
  SvgStyle style;
  style.part.from_ns = 55'000;
  style.part.to_ns = 135'000;
  const std::string svg = DrawSvg({&step}, style);
  const std::vector<Tick> ticks = TicksOf(svg);
  ASSERT_GE(ticks.size(), 2u);
  for (const Tick& tick : ticks) {
    EXPECT_GE(tick.time_ns, 55'000);
    EXPECT_LE(tick.time_ns, 135'000);
  }
  for (const SvgBox& box : BoxesOf(svg, SvgFill(ActionKind::kBackward, 0, false))) {
    bool is_known = false;
    for (const Event& event : step.events) {
      const double from = PlaceOf(ticks, std::max<double>(55'000, event.start_ns));
      is_known =
          is_known || (event.kind == ActionKind::kBackward && std::fabs(from - box.x) < 0.05);
    }
    EXPECT_TRUE(is_known) << box.x;
  }
}

// Bands follow each other in time without a gap, and together show every action for its whole time.
TEST(SvgTest, FoldedBandsAreTheWholeStep) {
  const Timeline step = SimulatedTimeline("zb_h1 P=2 M=40 --cost F=10,I=10,W=10");
  SvgStyle style;
  style.fold = true;
  const std::string svg = DrawSvg({&step}, style);
  const std::vector<Tick> ticks = TicksOf(svg);
  std::map<double, std::vector<Tick>> axes;  // by height
  for (const Tick& tick : ticks) axes[tick.y].push_back(tick);
  EXPECT_GE(axes.size(), 2u);
  double last_ns = -1;
  for (const Tick& tick : ticks) {
    EXPECT_GT(tick.time_ns, last_ns);
    last_ns = tick.time_ns;
  }
  // A point is as long in every band; the work of a kind is drawn to its full length.
  ASSERT_GE(axes.begin()->second.size(), 2u);
  const std::vector<Tick>& first = axes.begin()->second;
  const double point_ns =
      (first.back().time_ns - first.front().time_ns) / (first.back().x - first.front().x);
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
    double drawn = 0, work_ns = 0;
    for (const SvgBox& box : BoxesOf(svg, SvgFill(kind, 0, false))) {
      EXPECT_GE(box.width, 0.1);
      drawn += box.width;
    }
    for (const Event& event : step.events) {
      if (event.kind == kind) work_ns += static_cast<double>(event.end_ns - event.start_ns);
    }
    EXPECT_NEAR(drawn * point_ns / work_ns, 1, 1e-3);
  }
  style.fold = false;
  EXPECT_NE(DrawSvg({&step}, style), svg);
}

// A box for each copy, at its time and with its number, in a row for each way.
TEST(SvgTest, CopiesHaveLanes) {
  const Timeline step = TimelineWithCopies();
  for (const bool grey : {false, true}) {
    SvgStyle style;
    style.grey = grey;
    style.lanes = true;
    const std::string svg = DrawSvg({&step}, style);
    const std::vector<Tick> ticks = TicksOf(svg);
    ASSERT_GE(ticks.size(), 2u) << svg;
    std::map<ActionKind, double> height;
    for (const ActionKind kind : {ActionKind::kOffload, ActionKind::kFetch}) {
      const std::string fill = SvgFill(kind, 0, grey);
      const std::vector<SvgBox> boxes = BoxesOf(svg, fill);
      ExpectAtTheirTimes(step, kind, boxes, ticks);
      for (const SvgBox& box : boxes) {
        EXPECT_EQ(box.y, boxes[0].y);
        height[kind] = box.y;
      }
      for (const char* const number : {"0", "1"}) {
        const std::regex numbered(
            absl::StrCat("fill='", fill, "'[^>]* rx='3'/>\n<text [^>]*>", number, "</text>"));
        EXPECT_TRUE(std::regex_search(svg, numbered)) << svg;
      }
    }
    EXPECT_LT(height[ActionKind::kOffload], height[ActionKind::kFetch]);
    for (const char* const words : {">to host<", ">from host<", "copies to and from the host",
                                    ">forward<", ">backward<", "numbers: microbatch"}) {
      EXPECT_TRUE(absl::StrContains(svg, words)) << words;
    }
  }
}

// Rows of copies too narrow to tell apart become bands, in the copies' colour.
TEST(SvgTest, ManyCopiesBecomeBands) {
  Timeline step = TimelineWithCopies();
  const Event copy = step.events[4];
  ASSERT_EQ(copy.kind, ActionKind::kOffload);
  std::vector<Event> copies(2'000, copy);
  for (size_t i = 0; i < copies.size(); ++i) {
    copies[i].start_ns = static_cast<int64_t>(2 * i);
    copies[i].end_ns = copies[i].start_ns + 1;
  }
  step.events.insert(step.events.begin() + 5, copies.begin(), copies.end());
  step.first = {0, step.first[1] + 2'000, step.first[2] + 2'000};
  SvgStyle style;
  style.lanes = true;
  const std::string svg = DrawSvg({&step}, style);
  const std::regex band(
      absl::StrCat("<path d='[^']*' fill='", SvgFill(ActionKind::kOffload, 1, false), "'/>"));
  EXPECT_TRUE(std::regex_search(svg, band)) << svg;
  EXPECT_TRUE(absl::StrContains(svg, "heights: shares of time"));
}

// Without lanes the picture is that of the computations.
TEST(SvgTest, CopiesLeaveOtherPicturesAsTheyAre) {
  const Timeline step = TimelineWithCopies();
  Timeline computed = step;
  computed.events.clear();
  computed.first = {0};
  for (int r = 0; r < step.ranks(); ++r) {
    for (const Event& event : step.of(RankId(r))) {
      if (!IsCopy(event.kind)) computed.events.push_back(event);
    }
    computed.first.push_back(static_cast<uint32_t>(computed.events.size()));
  }
  ASSERT_LT(computed.events.size(), step.events.size());
  for (const bool fold : {false, true}) {
    SvgStyle style;
    style.fold = fold;
    EXPECT_EQ(DrawSvg({&step}, style), DrawSvg({&computed}, style));
  }
}

TEST(SvgTest, HasABackgroundOfItsOwn) {
  const Timeline step = SimulatedTimeline("1f1b P=2 M=4");
  SvgStyle style;
  style.width = 500;
  const std::string svg = DrawSvg({&step}, style);
  const size_t background = svg.find("<rect width='500.0' height='");
  ASSERT_NE(background, std::string::npos) << svg;
  // As large as the picture, and below everything else.
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox='0 0 500.0 ([0-9.]+)'")));
  EXPECT_EQ(
      svg.find(absl::StrCat("<rect width='500.0' height='", size[1].str(), "' fill='#ffffff'/>")),
      background);
  EXPECT_LT(background, svg.find("<text"));
  EXPECT_LT(background, svg.find("<rect x="));
}

TEST(SvgTest, TheLegendSpeaksOfNumbersWhereThereAreAny) {
  const Timeline few = SimulatedTimeline("1f1b P=2 M=4"),
                 many = SimulatedTimeline("1f1b P=2 M=4000");
  EXPECT_TRUE(absl::StrContains(DrawSvg({&few}, {}), "numbers: microbatch"));
  const std::string bands = DrawSvg({&many}, {});
  EXPECT_FALSE(absl::StrContains(bands, "numbers: microbatch"));
  EXPECT_TRUE(absl::StrContains(bands, "heights: shares of time"));
  // Boxes too small for a number, and not yet bands.
  const Timeline narrow = SimulatedTimeline("1f1b P=2 M=60 --cost F=1,B=1");
  const std::string unnumbered = DrawSvg({&narrow}, {});
  EXPECT_FALSE(absl::StrContains(unnumbered, "heights"));
  EXPECT_EQ(absl::StrContains(unnumbered, "numbers: microbatch"),
            absl::StrContains(unnumbered, "text-anchor='middle' fill="));
}

// A plot's ticks and its marks share a scale.
TEST(SvgTest, MarksOfAPlotStandAtTheirValues) {
  const std::vector<PlotLine> lines = {{"a", {{3, 0.1}, {10, 0.25}, {31, 0.5}}},
                                       {"b", {{31, 0.05}, {7, 0.4}}}};
  const std::string svg = PlotAsSvg(lines, "M");
  static const std::regex tick("<path d='M([0-9.]+) [0-9]+v4'[^>]*/>\n<text [^>]*>([0-9]+)</text>");
  static const std::regex grid("<path d='M58 ([0-9.]+)H[^>]*/>\n<text [^>]*>([0-9.]+) %</text>");
  std::vector<std::pair<double, double>> across, up;
  for (std::sregex_iterator at(svg.begin(), svg.end(), tick), end; at != end; ++at) {
    across.emplace_back(std::stod((*at)[2]), std::stod((*at)[1]));
  }
  for (std::sregex_iterator at(svg.begin(), svg.end(), grid), end; at != end; ++at) {
    up.emplace_back(std::stod((*at)[2]) / 100, std::stod((*at)[1]));
  }
  ASSERT_GE(across.size(), 2u) << svg;
  ASSERT_GE(up.size(), 2u) << svg;
  const auto place = [](const std::vector<std::pair<double, double>>& axis, double value) {
    const auto& [low, from] = axis.front();
    const auto& [high, to] = axis.back();
    return from + (to - from) * (value - low) / (high - low);
  };
  for (const PlotPoint& point : lines[0].points) {
    // The first line's marks are circles.
    bool is_there = false;
    static const std::regex circle("<circle cx='([0-9.]+)' cy='([0-9.]+)'");
    for (std::sregex_iterator at(svg.begin(), svg.end(), circle), end; at != end; ++at) {
      is_there = is_there || (std::fabs(std::stod((*at)[1]) - place(across, point.at)) < 0.3 &&
                              std::fabs(std::stod((*at)[2]) - place(up, *point.value)) < 0.3);
    }
    EXPECT_TRUE(is_there) << point.at << "\n" << svg;
  }
  // A line goes from left to right, however its points came.
  std::smatch second;
  ASSERT_TRUE(std::regex_search(
      svg, second,
      std::regex("<path d='M([0-9.]+) [0-9.]+L([0-9.]+) [0-9.]+' fill='none' stroke='#d55e00'")));
  EXPECT_LT(std::stod(second[1]), std::stod(second[2]));
}

}  // namespace
}  // namespace stringline
