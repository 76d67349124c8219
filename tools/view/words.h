// Numbers as people read them: times, shares and bars.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan/timeline.h"

namespace stringline {

// With at most three decimals, in seconds only from ten of them: "33 ms", "601 us", "1456.749 ms",
// "25 s", "0".
std::string PrintTime(int64_t ns);

// "27.27 %"
std::string PrintShare(double share);

// "bubble 34.92 % (ranks 8.83 to 38.45 %)", from the busiest rank to the idlest; only the first
// number if all ranks idle equally.
std::string PrintBubble(const Bubbles& bubbles);

// A warning: at costs of a stage, schedules with more of them train a larger model.
std::string PrintUnequalWork(const std::string& first, int first_stages, const std::string& second,
                             int second_stages);

// The definition of the bubble, in some lines for help.
extern const char kBubbleMeaning[];

// A bar of `width` columns, filled to `share` (0 .. 1), to an eighth of a column.
std::string PrintBar(double share, int width);

// Rows of cells, of as many each, as lines with columns as wide as their widest cell: `before` the
// first one, `between` the others, to the right; the first one to the left where `first_left`.
struct ColumnStyle {
  const char* before = "";
  const char* between = "  ";
  bool first_left = false;
};
std::string PrintColumns(const std::vector<std::vector<std::string>>& rows,
                         const ColumnStyle& style = {});

// The text in HTML and in the text of an SVG.
std::string EscapeMarkup(const std::string& text);

// The next of 1, 2 and 5 times a power of ten, for the distance of so many grid lines over a range.
double NiceStep(double range, int steps);

// "one_f_one_b P=4 M=8"
std::string TitleOf(const Timeline& timeline);

// "100 of 120 starts reconstructed, by at most 35 us; of 48 messages and reductions only the end
// was observed"; "" if the timeline keeps no observed times.
std::string PrintReconstruction(const Timeline& timeline);

// Lines for a flight record: actions that had begun but not ended, the longest first and at most
// `most`, and the end of all others; none if all had ended.
//
//   not ended: 1RECV_B3 on rank 1, for 1.4 s
//   all else had ended at 27.3 ms
std::vector<std::string> PrintUnfinished(const Timeline& timeline, size_t most);

// The number of computations; each part of `a & b` counts.
int64_t ComputeEvents(const Timeline& timeline);

}  // namespace stringline
