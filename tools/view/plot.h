// Rows of shares (0 .. 1) as small plots: in the terminal, and as a picture for papers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stringline {

struct PlotLine {
  std::string name;
  std::vector<std::optional<double>> values;  // nothing where there is no value
};

// A line of blocks for each, all on one scale, with its first and last value.
std::string PlotAsText(const std::vector<PlotLine>& lines);

// Where the values of a line stand.
struct PlotAxis {
  std::string name;                 // "M"
  std::vector<double> values;       // of each point, rising; empty: equally wide steps
  std::vector<std::string> labels;  // of each step
};

// Lines over the axis; the scale of shares begins at 0. One colour and one mark a line, so that
// they can be told apart in black and white.
std::string PlotAsSvg(const std::vector<PlotLine>& lines, const PlotAxis& axis);

}  // namespace stringline
