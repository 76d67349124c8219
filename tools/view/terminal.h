// A timeline as a picture in the terminal: a line or two per rank, time to the right.
//
// With colours a cell's hue is the kind of action and its number the microbatch; without, a cell
// begins with the action's letter. Stages of a rank differ by small and dotted letters, or by
// darkness and underlines (stage_shades.h). `F a & B b` shows its parts above each other, however
// many; two parts on more than 24 ranks share a line. Idle ranks show dots. With lanes, a rank's
// computation stands part by part, below it the lanes for which it may wait (lane_rows.h), and
// behind each lane its share of the step.
#pragma once

#include <string>
#include <vector>

#include "schedlang/plan/timeline.h"
#include "tools/view/paint.h"
#include "tools/view/shown_part.h"

namespace stringline {

struct Picture {
  int width = 100;  // columns in all
  Colors colors = Colors::kNone;
  bool fold = false;   // bands below each other, as many as legible actions need
  bool lanes = false;  // the rows of lane_rows.h instead of a row for each rank
  ShownPart part;      // must pass CheckShownPart
};

std::string Draw(const Timeline& timeline, const Picture& picture);
// Pictures below each other on a common scale of time, with a single legend.
std::string DrawTogether(const std::vector<const Timeline*>& timelines, const Picture& picture);

// The columns of the terminal on standard output: COLUMNS in the environment, or else the
// terminal's answer, or 100.
int TerminalWidth();

}  // namespace stringline
