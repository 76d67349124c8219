// Axes begin at 0, or where all values are large by their range, below the least one.
#include "tools/view/pareto.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr double kAcross = 880, kPlotEnd = 340, kPlotLeft = 64, kPlotTop = 18, kBelowPlot = 44,
                 kBesidePlot = 24, kNameRow = 17;

// The begin of an axis of values from `least` to `most`.
double BeginOf(double least, double most) {
  if (least < most / 2 || least > most) return 0;
  const double step = NiceStep(std::max(most - least, most / 50), 6);
  return std::max(0.0, std::floor(least / step - 0.5) * step);
}

class ParetoPicture {
 public:
  ParetoPicture(const std::vector<ParetoPoint>& points, const ParetoAxes& axes)
      : points_(points), axes_(axes) {
    most_cost_ = axes.limit;
    for (const ParetoPoint& point : points) {
      most_cost_ = std::max(most_cost_, point.cost);
      most_value_ = std::max(most_value_, point.value);
      least_cost_ = std::min(least_cost_, point.cost);
      least_value_ = std::min(least_value_, point.value);
      if (!point.name.empty()) ++rows_;
    }
    least_cost_ = BeginOf(least_cost_, most_cost_);
    least_value_ = BeginOf(least_value_, most_value_);
    most_cost_ = std::max(most_cost_ + 0.03 * (most_cost_ - least_cost_), 1e-9);
    most_value_ = std::max(most_value_ + 0.05 * (most_value_ - least_value_), 1e-9);
  }

  std::string Draw() {
    const double height = kPlotEnd + kNameRow * (rows_ + 1);
    text_ = absl::StrFormat(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' "
        "height='%.0f' font-family='Helvetica, Arial, sans-serif' font-size='11'>\n"
        "<rect width='100%%' height='100%%' fill='#ffffff'/>\n",
        kAcross, height, kAcross, height);
    DrawGrid();
    for (const ParetoPoint& point : points_) {
      absl::StrAppendFormat(&text_, "<circle cx='%.1f' cy='%.1f' r='2' fill='#9aa7b4'/>\n",
                            X(point.cost), Y(point.value));
    }
    DrawFront();
    DrawNamed();
    return text_ + "</svg>\n";
  }

 private:
  double X(double cost) const {
    return kPlotLeft +
           (cost - least_cost_) / (most_cost_ - least_cost_) * (kAcross - kPlotLeft - kBesidePlot);
  }
  double Y(double value) const {
    return kPlotEnd - kBelowPlot -
           (value - least_value_) / (most_value_ - least_value_) *
               (kPlotEnd - kPlotTop - kBelowPlot);
  }

  void Text(double x, double y, const char* anchor, const std::string& words,
            const char* more = "") {
    absl::StrAppendFormat(&text_, "<text x='%.1f' y='%.1f' text-anchor='%s'%s>%s</text>\n", x, y,
                          anchor, more, EscapeMarkup(words));
  }

  void DrawGrid() {
    const double x_step = NiceStep(most_cost_ - least_cost_, 6);
    const double y_step = NiceStep(most_value_ - least_value_, 6);
    for (double at = least_value_; at <= most_value_; at += y_step) {
      absl::StrAppendFormat(&text_, "<path d='M%.1f %.1fH%.1f' stroke='#dddddd'/>\n", kPlotLeft,
                            Y(at), kAcross - kBesidePlot);
      Text(kPlotLeft - 6, Y(at) + 4, "end", absl::StrFormat("%g", at));
    }
    for (double at = least_cost_; at <= most_cost_; at += x_step) {
      absl::StrAppendFormat(&text_, "<path d='M%.1f %.1fv4' stroke='#888888'/>\n", X(at),
                            Y(least_value_));
      Text(X(at), Y(least_value_) + 16, "middle", absl::StrFormat("%g", at));
    }
    Text((kPlotLeft + kAcross - kBesidePlot) / 2, Y(least_value_) + 34, "middle", axes_.cost);
    Text(kPlotLeft - 44, kPlotTop - 5, "start", axes_.value);
    if (axes_.limit <= 0) return;
    absl::StrAppendFormat(&text_,
                          "<path d='M%.1f %.1fV%.1f' stroke='#d55e00' stroke-dasharray='5 3'/>\n",
                          X(axes_.limit), kPlotTop + 4, Y(least_value_));
    Text(X(axes_.limit) - 4, Y(least_value_) - 6, "end", axes_.limit_name, " fill='#b04a00'");
  }

  void DrawFront() {
    std::string path;
    for (const size_t i : ParetoFront(points_)) {
      const ParetoPoint& point = points_[i];
      // Until the next point more memory brings nothing.
      if (path.empty()) {
        path = absl::StrFormat("M%.1f %.1f", X(point.cost), Y(point.value));
      } else {
        absl::StrAppendFormat(&path, "H%.1fV%.1f", X(point.cost), Y(point.value));
      }
      absl::StrAppendFormat(&text_, "<circle cx='%.1f' cy='%.1f' r='3' fill='#0072b2'/>\n",
                            X(point.cost), Y(point.value));
    }
    absl::StrAppendFormat(&text_,
                          "<path d='%s' fill='none' stroke='#0072b2' stroke-width='1.5'/>\n", path);
  }

  void DrawNamed() {
    int number = 0;
    for (const ParetoPoint& point : points_) {
      if (point.name.empty()) continue;
      ++number;
      absl::StrAppendFormat(&text_,
                            "<circle cx='%.1f' cy='%.1f' r='7' fill='#ffffff' stroke='#000000'/>\n",
                            X(point.cost), Y(point.value));
      Text(X(point.cost), Y(point.value) + 3.5, "middle", absl::StrCat(number), " font-size='9'");
      Text(kPlotLeft, kPlotEnd + kNameRow * number, "start",
           absl::StrCat(number, "  ", point.name));
    }
  }

  const std::vector<ParetoPoint>& points_;
  const ParetoAxes& axes_;
  double most_cost_ = 0, most_value_ = 0, least_cost_ = 1e300, least_value_ = 1e300;
  int rows_ = 0;
  std::string text_;
};

}  // namespace

std::vector<size_t> ParetoFront(const std::vector<ParetoPoint>& points) {
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (points[a].cost != points[b].cost) return points[a].cost < points[b].cost;
    return points[a].value > points[b].value;
  });
  std::vector<size_t> front;
  for (const size_t i : order) {
    if (front.empty() || points[i].value > points[front.back()].value) front.push_back(i);
  }
  return front;
}

std::string ParetoAsSvg(const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  return ParetoPicture(points, axes).Draw();
}

}  // namespace stringline
