#include "tools/view/paint.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tools/view/stage_shades.h"

namespace stringline {
namespace {

// Lightness and chroma of OKLCH, and the hue in degrees. Every kind differs from the others for
// colour-blind readers too, also among 256 colours: chosen by search, held by a test.
struct Tone {
  double lightness;
  double chroma;
  double degrees;
  double drift;  // degrees from the first microbatch to the last
};

Tone ToneOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {0.81, 0.125, 243, 4};
    case ActionKind::kBackward:
      return {0.916, 0.107, 86, -4};
    case ActionKind::kInputGradient:
      return {0.736, 0.15, 10, -4};
    case ActionKind::kRecompute:
      return {0.51, 0.2, 291, -4};
    case ActionKind::kUpdate:
      return {0.3, 0.13, 330, 0};
    case ActionKind::kOffload:
      return {0.87, 0.15, 101, 0};
    case ActionKind::kFetch:
      return {0.4, 0.055, 134, 0};
    case ActionKind::kWeightGradient:
      return {0.52, 0.165, 135, 4};
    default:
      break;
  }
  if (IsCopy(kind)) return ToneOf(CopiesOut(kind) ? ActionKind::kOffload : ActionKind::kFetch);
  // A schedule's own actions, which bear their names.
  constexpr Tone kOwn[] = {{0.68, 0.12, 185, 0}, {0.7, 0.16, 50, 0},   {0.76, 0.13, 345, 0},
                           {0.58, 0.05, 265, 0}, {0.84, 0.16, 125, 0}, {0.5, 0.08, 60, 0}};
  return kOwn[static_cast<size_t>(NumberOnLane(kind)) % std::size(kOwn)];
}
constexpr double kLaterStage = -0.13, kMicrobatch = 0.02,
                 kLastSlice = 0.07;  // additions to the lightness

Rgb FromOklch(const Tone& tone) {
  constexpr double kDegree = 0.017453292519943295;
  const double a = tone.chroma * std::cos(tone.degrees * kDegree);
  const double b = tone.chroma * std::sin(tone.degrees * kDegree);
  const double l = std::pow(tone.lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(tone.lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(tone.lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto channel = [](double linear) {
    const double c = std::clamp(linear, 0.0, 1.0);
    const double gamma = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
    return static_cast<uint8_t>(std::lround(255 * gamma));
  };
  return {channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

// The nearest step of a channel in the 6 x 6 x 6 cube of terminals with 256 colours.
int CubeLevel(uint8_t value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; }

int CubeIndex(Rgb color) {
  return 16 + 36 * CubeLevel(color.red) + 6 * CubeLevel(color.green) + CubeLevel(color.blue);
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
  const bool is_auto = when.empty() || when == "auto";
  if (is_auto && (!is_terminal || dumb || Has("NO_COLOR"))) return Colors::kNone;
  const char* color_term = std::getenv("COLORTERM");
  const std::string deep = color_term == nullptr ? "" : color_term;
  return deep == "truecolor" || deep == "24bit" ? Colors::kTrue : Colors::k256;
}

Rgb PaintOf(ActionKind kind, int shade, int microbatch, double progress, double slice) {
  Tone tone = ToneOf(kind);
  tone.lightness += microbatch % 2 == 0 ? kMicrobatch : -kMicrobatch;
  if (IsDark(shade)) tone.lightness += kLaterStage;
  tone.lightness += kLastSlice * slice;
  tone.degrees += tone.drift * progress;
  return FromOklch(tone);
}

Rgb TextOn(Rgb paint) {
  const double light = 0.299 * paint.red + 0.587 * paint.green + 0.114 * paint.blue;
  return light > 128 ? Rgb{16, 18, 24} : Rgb{255, 255, 255};
}

Rgb InCube(Rgb color) {
  const auto value = [](uint8_t channel) {
    const int level = CubeLevel(channel);
    return static_cast<uint8_t>(level == 0 ? 0 : 55 + 40 * level);
  };
  return {value(color.red), value(color.green), value(color.blue)};
}

std::string Foreground(Rgb color, Colors colors) { return Set(38, color, colors); }
std::string Background(Rgb color, Colors colors) { return Set(48, color, colors); }
std::string Dim(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[2m"; }
std::string Bold(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[1m"; }
std::string Underline(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[4m"; }
std::string Plain(Colors colors) { return colors == Colors::kNone ? "" : "\x1b[0m"; }

}  // namespace stringline
