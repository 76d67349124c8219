// A timeline as a picture in the terminal: a line or two per rank, time to the right.
//
// With colours a cell's hue is the kind of action and its number the microbatch; without, it begins
// with the action's letter (small for the second, fourth, … stage of a rank). `F a & B b` shows its
// parts above each other, however many; of two on more than 24 ranks both are in one line. Where a
// rank has no work, dots. With lanes, what the rank computes stands part by part, below it what it
// may wait for (lane_rows.h), and how much of the step each lane works behind it.
#pragma once

#include <string>

#include "schedlang/timeline.h"
#include "tools/view/paint.h"
#include "tools/view/shown_part.h"

namespace stringline {

struct Picture {
  int width = 100;  // columns in all
  Colors colors = Colors::kNone;
  int64_t end_ns = 0;  // the right edge; 0: the last end
  bool fold = false;   // as many bands, one below the other, as it takes to tell actions apart
  bool legend = true;
  bool lanes = false;  // the rows of lane_rows.h instead of one a rank
  ShownPart part;      // CheckShownPart has nothing against it
};

std::string Draw(const Timeline& timeline, const Picture& picture);

// The columns of the terminal on standard output: COLUMNS in the environment, what the terminal
// says, or 100.
int TerminalWidth();

}  // namespace stringline
