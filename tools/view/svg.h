// A timeline as a picture for papers: a line per rank, time to the right, in SVG.
//
// Colours can be told apart by the colour-blind, and without colour by lightness: B is lightest,
// then F, I, and W, which is hatched; a rank's every second stage is a little darker. `F a & B b`
// shows its parts above each other. Boxes hold their microbatch where there is room. A row
// whose boxes would be narrower than two points is drawn as bands (svg_bands.h).
#pragma once

#include <string>
#include <vector>

#include "schedlang/timeline.h"

namespace stringline {

struct SvgStyle {
  double width = 720;  // points
  bool title = true;   // the schedule's name, its time and bubble
  bool legend = true;
  bool grey = false;   // for print without colour
  bool lanes = false;  // a rank's computation part by part, and its all-to-alls below it
};

// One timeline, or several stacked with one scale of time.
std::string DrawSvg(const std::vector<const Timeline*>& timelines, const SvgStyle& style);

}  // namespace stringline
