// Both kinds of plot go from 0 to the largest value of all lines. In SVG a line is broken where a
// value is missing.
#include "tools/view/plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

double Largest(const std::vector<PlotLine>& lines) {
  double most = 0;
  for (const PlotLine& line : lines) {
    for (const PlotPoint& point : line.points) most = std::max(most, point.value.value_or(0));
  }
  return most;
}

constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#000000", "#7a7a7a"};
constexpr int kWidth = 560, kHeight = 320, kLeft = 58, kTop = 16, kBottom = 46, kRight = 130,
              kNameLine = 18;

// A mark in the line's shape. Shapes shift by one with each round of colours.
std::string Mark(size_t line, double x, double y) {
  const char* const color = kColors[line % 8];
  const char* const fill = line % 8 < 4 ? color : "#ffffff";
  switch ((line + line / 8) % 4) {
    case 0:
      return absl::StrFormat("<circle cx='%.1f' cy='%.1f' r='3' fill='%s' stroke='%s'/>\n", x, y,
                             fill, color);
    case 1:
      return absl::StrFormat(
          "<rect x='%.1f' y='%.1f' width='6' height='6' fill='%s' stroke='%s'/>\n", x - 3, y - 3,
          fill, color);
    case 2:
      return absl::StrFormat("<path d='M%.1f %.1fl4 7h-8z' fill='%s' stroke='%s'/>\n", x, y - 4,
                             fill, color);
    default:
      return absl::StrFormat("<path d='M%.1f %.1fl4 4l-4 4l-4 -4z' fill='%s' stroke='%s'/>\n", x,
                             y - 4, fill, color);
  }
}

class SvgPlot {
 public:
  SvgPlot(const std::vector<PlotLine>& lines, const std::string& axis)
      : lines_(lines), axis_(axis), step_(NiceStep(Largest(lines), 5)) {
    top_ = std::max(step_, std::ceil(Largest(lines) / step_ - 1e-9) * step_);
    first_ = lines[0].points[0].at;
    last_ = first_;
    for (const PlotLine& line : lines) {
      for (const PlotPoint& point : line.points) {
        first_ = std::min(first_, point.at);
        last_ = std::max(last_, point.at);
      }
    }
  }

  std::string Draw() {
    const int height = std::max(kHeight, kTop + kNameLine * (static_cast<int>(lines_.size()) + 1));
    out_ = absl::StrFormat(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
        "font-family='system-ui, sans-serif' font-size='11'>\n"
        "<rect width='%d' height='%d' fill='#ffffff'/>\n",
        kWidth, height, kWidth, height, kWidth, height);
    DrawGrid();
    for (size_t line = 0; line < lines_.size(); ++line) DrawLine(line);
    absl::StrAppend(&out_, "</svg>\n");
    return std::move(out_);
  }

 private:
  double X(double at) const {
    const double place = last_ == first_ ? 0.5 : (at - first_) / (last_ - first_);
    return kLeft + (kWidth - kLeft - kRight) * place;
  }
  double Y(double value) const { return kTop + (kHeight - kTop - kBottom) * (1 - value / top_); }

  void DrawGrid() {
    for (int k = 0; k * step_ <= top_ * 1.0001; ++k) {
      const double y = Y(k * step_);
      absl::StrAppendFormat(&out_,
                            "<path d='M%d %.1fH%d' stroke='#dddddd'/>\n<text x='%d' y='%.1f' "
                            "text-anchor='end'>%g %%</text>\n",
                            kLeft, y, kWidth - kRight, kLeft - 6, y + 4, 100 * k * step_);
    }
    const double step = std::max(1.0, NiceStep(last_ - first_, 7));
    for (double at = std::ceil(first_ / step) * step; at <= last_; at += step) {
      DrawTick(X(at), absl::StrFormat("%g", at));
    }
    absl::StrAppendFormat(&out_, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
                          (kLeft + kWidth - kRight) / 2.0, kHeight - 10, EscapeMarkup(axis_));
    absl::StrAppendFormat(&out_,
                          "<text x='14' y='%d' text-anchor='middle' transform='rotate(-90 14 %d)'>"
                          "bubble</text>\n",
                          (kHeight - kBottom) / 2, (kHeight - kBottom) / 2);
  }

  void DrawTick(double x, const std::string& label) {
    absl::StrAppendFormat(&out_,
                          "<path d='M%.1f %dv4' stroke='#555555'/>\n<text x='%.1f' y='%d' "
                          "text-anchor='middle'>%s</text>\n",
                          x, kHeight - kBottom, x, kHeight - kBottom + 17, EscapeMarkup(label));
  }

  void DrawLine(size_t index) {
    const PlotLine& line = lines_[index];
    std::string path, marks;
    bool begun = false;
    const size_t every = std::max<size_t>(1, line.points.size() / 24);
    for (size_t p = 0; p < line.points.size(); ++p) {
      const PlotPoint& point = line.points[p];
      if (!point.value) {
        begun = false;
        continue;
      }
      const double x = X(point.at), y = Y(*point.value);
      absl::StrAppendFormat(&path, "%s%.1f %.1f", begun ? "L" : "M", x, y);
      if (p % every == 0 || p + 1 == line.points.size()) {
        absl::StrAppend(&marks, Mark(index, x, y));
      }
      begun = true;
    }
    absl::StrAppendFormat(&out_, "<path d='%s' fill='none' stroke='%s' stroke-width='1.5'/>\n%s",
                          path, kColors[index % 8], marks);
    const double y = kTop + 14 + kNameLine * static_cast<double>(index);
    absl::StrAppend(&out_, Mark(index, kWidth - kRight + 16, y - 4));
    absl::StrAppendFormat(&out_, "<text x='%d' y='%.1f'>%s</text>\n", kWidth - kRight + 26, y,
                          EscapeMarkup(line.name));
  }

  const std::vector<PlotLine>& lines_;
  const std::string& axis_;
  const double step_;
  double top_ = 1;
  double first_ = 0, last_ = 0;  // on the axis
  std::string out_;
};

}  // namespace

std::string PlotAsText(const std::vector<PlotLine>& lines) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr size_t kMost = 80;
  const double top = std::max(Largest(lines), 1e-9);
  size_t width = 20;
  for (const PlotLine& line : lines) width = std::max(width, line.name.size());
  std::string out;
  for (const PlotLine& line : lines) {
    absl::StrAppendFormat(&out, "  %-*s ", static_cast<int>(width), line.name);
    const size_t every = std::max<size_t>(1, (line.points.size() + kMost - 1) / kMost);
    std::optional<double> first, last;
    for (size_t p = 0; p < line.points.size(); ++p) {
      const std::optional<double>& value = line.points[p].value;
      if (value && !first) first = value;
      if (value) last = value;
      if (p % every != 0) continue;
      const int level = std::clamp(static_cast<int>(value.value_or(0) / top * 8), 0, 7);
      absl::StrAppend(&out, value ? kBlocks[level] : "·");
    }
    if (first) absl::StrAppend(&out, "  ", PrintShare(*first), " .. ", PrintShare(*last));
    absl::StrAppend(&out, "\n");
  }
  return out;
}

std::string PlotAsSvg(std::vector<PlotLine> lines, const std::string& axis) {
  for (PlotLine& line : lines) {
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const PlotPoint& a, const PlotPoint& b) { return a.at < b.at; });
  }
  return SvgPlot(lines, axis).Draw();
}

}  // namespace stringline
