// Colours for the terminal: a hue for each kind of action, light or dark by the stage's shade,
// drifting a little from microbatch to microbatch. Colour-blind readers can tell the kinds apart.
#pragma once

#include <cstdint>
#include <string>

#include "schedlang/plan/plan.h"

namespace stringline {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

enum class Colors { kNone, k256, kTrue };

// The colours that this terminal can show. `when` is auto or "", always or never; auto means a
// terminal other than "dumb", and no NO_COLOR in the environment.
Colors ChooseColors(const std::string& when, bool is_terminal);

// A dark `shade` (stage_shades.h) is darker; `progress` runs from 0 to 1 over the
// microbatches, and `slice` over the slices of one, of which later ones are lighter.
Rgb PaintOf(ActionKind kind, int shade, int microbatch, double progress, double slice = 0);

// The nearest colour of a terminal with 256 colours.
Rgb InCube(Rgb color);

// Black or white, by legibility on `paint`.
Rgb TextOn(Rgb paint);

// The escape sequences for foreground or background; "" without colours.
std::string Foreground(Rgb color, Colors colors);
std::string Background(Rgb color, Colors colors);
std::string Dim(Colors colors);
std::string Bold(Colors colors);
std::string Underline(Colors colors);
std::string Plain(Colors colors);  // ends all of them

}  // namespace stringline
