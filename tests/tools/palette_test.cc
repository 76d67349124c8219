// Readers without a kind of cone tell the kinds of computation apart, in the terminal and in SVG;
// the page's colours are tests/page/browser_test.py's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tools/view/paint.h"
#include "tools/view/svg.h"

namespace stringline {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

// Linear RGB as seen without a kind of cone (Machado, Oliveira and Fernandes, 2009).
struct Sight {
  const char* name;
  Matrix seen;
};
constexpr Sight kSights[] = {
    {"all cones", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868},
       {0.114503, 0.786281, 0.099216},
       {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968},
       {0.280085, 0.672501, 0.047413},
       {-0.011820, 0.042940, 0.968881}}}},
};
constexpr Matrix kToXyz = {{{0.4124564, 0.3575761, 0.1804375},
                            {0.2126729, 0.7151522, 0.0721750},
                            {0.0193339, 0.1191920, 0.9503041}}};
constexpr Vector kWhite = {0.95047, 1, 1.08883};

Vector Times(const Matrix& matrix, const Vector& vector) {
  Vector result = {};
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 3; ++k) result[i] += matrix[i][k] * vector[k];
  }
  return result;
}

double Linear(uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

// CIE L*a*b*.
Vector Lab(Rgb color, const Sight& sight) {
  Vector seen = Times(sight.seen, {Linear(color.red), Linear(color.green), Linear(color.blue)});
  for (double& c : seen) c = std::clamp(c, 0.0, 1.0);
  Vector share = Times(kToXyz, seen);
  for (int i = 0; i < 3; ++i) {
    const double s = share[i] / kWhite[i];
    share[i] = s > 216.0 / 24389 ? std::cbrt(s) : (24389.0 / 27 * s + 16) / 116;
  }
  return {116 * share[1] - 16, 500 * (share[0] - share[1]), 200 * (share[1] - share[2])};
}

double DistanceOf(Rgb one, Rgb other, const Sight& sight) {
  const Vector a = Lab(one, sight), b = Lab(other, sight);
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

Rgb FromHex(const std::string& text) {
  const auto channel = [&text](size_t at) {
    return static_cast<uint8_t>(std::stoi(text.substr(at, 2), nullptr, 16));
  };
  return {channel(1), channel(3), channel(5)};
}

// By kind, all shades of this kind; a schedule's own actions bear their names instead.
constexpr int kToldByColor = static_cast<int>(ActionKind::kUpdate) + 1;
using Shades = std::array<std::vector<Rgb>, kToldByColor>;

void ExpectApart(const Shades& kinds, double least, const std::string& what) {
  for (const Sight& sight : kSights) {
    for (size_t one = 0; one < kinds.size(); ++one) {
      for (size_t other = one + 1; other < kinds.size(); ++other) {
        for (const Rgb a : kinds[one]) {
          for (const Rgb b : kinds[other]) {
            EXPECT_GE(DistanceOf(a, b, sight), least)
                << what << ", " << sight.name << ": " << PrintedKind(static_cast<ActionKind>(one))
                << " " << PrintedKind(static_cast<ActionKind>(other));
          }
        }
      }
    }
  }
}

// Two greens that differ only in red are nearly equal without the cones for red.
TEST(PaletteTest, TheSimulationKnowsRedFromGreen) {
  const Rgb red = {200, 60, 60}, green = {120, 110, 40};
  EXPECT_GT(DistanceOf(red, green, kSights[0]), 50);
  EXPECT_LT(DistanceOf(red, green, kSights[2]), 12);
  EXPECT_NEAR(DistanceOf({0, 0, 0}, {255, 255, 255}, kSights[1]), 100, 0.5);
}

TEST(PaletteTest, KindsInSvg) {
  Shades kinds;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (int shade = 0; shade < 2; ++shade) {
      kinds[kind].push_back(FromHex(SvgFill(static_cast<ActionKind>(kind), shade, false)));
    }
  }
  ExpectApart(kinds, 15, "SVG");
}

TEST(PaletteTest, KindsInTheTerminal) {
  Shades kinds, of_256;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (int m = 0; m < 16; ++m) {
        const Rgb paint = PaintOf(static_cast<ActionKind>(kind), chunk, m, m / 15.0);
        kinds[kind].push_back(paint);
        of_256[kind].push_back(InCube(paint));
      }
    }
  }
  ExpectApart(kinds, 15, "all colours");
  ExpectApart(of_256, 12, "256 colours");
}

// Dark shades are darker in SVG, for everyone and in print; greys of kinds differ as well.
TEST(PaletteTest, StagesInSvg) {
  for (const bool grey : {false, true}) {
    for (const Sight& sight : kSights) {
      std::vector<double> lightness;
      for (int kind = 0; kind < kToldByColor; ++kind) {
        const Rgb light = FromHex(SvgFill(static_cast<ActionKind>(kind), 0, grey));
        const Rgb dark = FromHex(SvgFill(static_cast<ActionKind>(kind), 1, grey));
        EXPECT_GE(DistanceOf(light, dark, sight), 7) << sight.name << " " << kind << grey;
        EXPECT_GT(Lab(light, sight)[0], Lab(dark, sight)[0]);
        lightness.push_back(Lab(light, sight)[0]);
        lightness.push_back(Lab(dark, sight)[0]);
      }
      std::sort(lightness.begin(), lightness.end());
      for (size_t i = 1; grey && i < lightness.size(); ++i) {
        EXPECT_GE(lightness[i] - lightness[i - 1], 7) << sight.name;
      }
    }
  }
}

// A rank's second stage is darker, for everyone.
TEST(PaletteTest, StagesInTheTerminal) {
  for (const Sight& sight : kSights) {
    for (int kind = 0; kind < kToldByColor; ++kind) {
      const Rgb first = PaintOf(static_cast<ActionKind>(kind), 0, 0, 0);
      const Rgb second = PaintOf(static_cast<ActionKind>(kind), 1, 0, 0);
      EXPECT_GE(DistanceOf(first, second, sight), 8) << sight.name << " " << kind;
      EXPECT_GE(DistanceOf(InCube(first), InCube(second), sight), 8) << sight.name << " " << kind;
      EXPECT_GT(Lab(first, sight)[0], Lab(second, sight)[0]);
    }
  }
}

}  // namespace
}  // namespace stringline
