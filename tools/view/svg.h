// A timeline as a picture for papers: a line per rank, time to the right, in SVG.
//
// Colours can be told apart by the colour-blind, and without colour by lightness: B is lightest,
// then F, I, and W, which is hatched; the stages of a rank are a little darker or bear a bar
// (stage_shades.h). `F a & B b` shows its parts above each other. Boxes of copies to and from the
// host have round corners. Boxes hold their microbatch where there is room. A row whose boxes would
// be narrower than two points is drawn as bands (svg_bands.h).
#pragma once

#include <string>
#include <vector>

#include "schedlang/plan/timeline.h"
#include "tools/view/shown_part.h"

namespace stringline {

struct SvgStyle {
  double width = 720;  // points
  bool title = true;   // the schedule's name, its time and bubble
  bool legend = true;
  bool grey = false;   // for print without colour
  bool lanes = false;  // the rows of lane_rows.h instead of a row for each rank
  bool fold = false;   // bands below each other, as many as legible actions need
  ShownPart part;      // must pass CheckShownPart
};

// The colour of a computation's or a copy's box, "#73baea", for a stage of this shade
// (stage_shades.h).
const char* SvgFill(ActionKind kind, int shade, bool grey);

// A timeline, or several stacked with a common scale of time.
std::string DrawSvg(const std::vector<const Timeline*>& timelines, const SvgStyle& style);

}  // namespace stringline
