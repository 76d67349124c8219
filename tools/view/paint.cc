#include "tools/view/paint.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

struct Hue {
  double degrees;
  double drift;  // degrees from the first microbatch to the last
  double saturation;
};

Hue HueOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {202, 18, 0.80};
    case ActionKind::kBackward:
      return {40, -20, 0.92};
    case ActionKind::kInputGradient:
      return {352, -24, 0.74};
    default:
      return {128, 28, 0.45};
  }
}

// Hue in degrees, the others 0 .. 1.
Rgb FromHsl(double hue, double saturation, double lightness) {
  const double chroma = (1 - std::fabs(2 * lightness - 1)) * saturation;
  const auto channel = [&](double shift) {
    const double k = std::fmod(hue / 60 + shift + 12, 6);
    const double ramp = std::clamp(std::fabs(k - 3) - 1, 0.0, 1.0);
    return static_cast<uint8_t>(std::lround(255 * (lightness + chroma * (ramp - 0.5))));
  };
  return {channel(0), channel(4), channel(2)};
}

// The nearest colour of the 6 x 6 x 6 cube that terminals with 256 colours have.
int CubeIndex(Rgb color) {
  const auto level = [](uint8_t value) {
    return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40;
  };
  return 16 + 36 * level(color.red) + 6 * level(color.green) + level(color.blue);
}

std::string Set(int ground, Rgb color, Colors colors) {
  if (colors == Colors::kNone) return "";
  if (colors == Colors::k256) return absl::StrCat("\x1b[", ground, ";5;", CubeIndex(color), "m");
  return absl::StrCat("\x1b[", ground, ";2;", color.red, ";", color.green, ";", color.blue, "m");
}

bool Has(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

Colors ChooseColors(const std::string& when, bool is_terminal) {
  if (when == "never") return Colors::kNone;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string(term) == "dumb";
  if (when == "auto" && (!is_terminal || dumb || Has("NO_COLOR"))) return Colors::kNone;
  const char* color_term = std::getenv("COLORTERM");
  const std::string deep = color_term == nullptr ? "" : color_term;
  return deep == "truecolor" || deep == "24bit" ? Colors::kTrue : Colors::k256;
}

Rgb PaintOf(ActionKind kind, int chunk, int microbatch, double progress) {
  const Hue hue = HueOf(kind);
  const double base = chunk % 2 == 0 ? 0.66 : 0.37;
  const double lightness = base + (microbatch % 2 == 0 ? 0.035 : -0.035);
  return FromHsl(std::fmod(hue.degrees + hue.drift * progress + 360, 360), hue.saturation,
                 lightness);
}

Rgb TextOn(Rgb paint) {
  const double light = 0.299 * paint.red + 0.587 * paint.green + 0.114 * paint.blue;
  return light > 128 ? Rgb{16, 18, 24} : Rgb{255, 255, 255};
}

std::string Foreground(Rgb color, Colors colors) { return Set(38, color, colors); }
std::string Background(Rgb color, Colors colors) { return Set(48, color, colors); }
std::string Dim(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[2m"; }
std::string Bold(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[1m"; }
std::string Plain(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[0m"; }

}  // namespace stringline
