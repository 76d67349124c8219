// Colours for the terminal: one hue a kind of action, light for a rank's first stage and darker for
// its next ones, drifting a little from microbatch to microbatch. They can be told apart by
// colour-blind readers.
#pragma once

#include <cstdint>
#include <string>

#include "schedlang/plan.h"

namespace stringline {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

enum class Colors { kNone, k256, kTrue };

// What this terminal can do. `when` is auto, always or never; auto means a terminal that is not
// "dumb", and no NO_COLOR in the environment.
Colors ChooseColors(const std::string& when, bool is_terminal);

// `chunk` counts the stages of the action's rank; `progress` runs from 0 to 1 over the
// microbatches.
Rgb PaintOf(ActionKind kind, int chunk, int microbatch, double progress);

// The one of a terminal with 256 colours that stands for it.
Rgb InCube(Rgb color);

// Black or white, whichever can be read on it.
Rgb TextOn(Rgb paint);

// The escape sequences that set foreground or background; "" without colours.
std::string Foreground(Rgb color, Colors colors);
std::string Background(Rgb color, Colors colors);
std::string Dim(Colors colors);
std::string Bold(Colors colors);
std::string Plain(Colors colors);  // ends all of them

}  // namespace stringline
