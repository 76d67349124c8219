// Rows of shares (0 .. 1) as small plots: in the terminal, and as a picture for papers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stringline {

struct PlotPoint {
  double at = 0;                // on the axis
  std::optional<double> value;  // a share; nothing for a missing value
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
};

// A row of blocks for each line, all on one scale, with first and last value.
std::string PlotAsText(const std::vector<PlotLine>& lines);

// Lines over a common axis with this name, "M"; a line goes through its points from left to right.
// The scale of shares begins at 0. Up to 32 lines differ in colour and mark.
std::string PlotAsSvg(std::vector<PlotLine> lines, const std::string& axis);

}  // namespace stringline
