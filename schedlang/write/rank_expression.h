// Integers that depend on the rank r of P, written as a person would: `2 * (P - 1 - r)`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace stringline::search {

// at_zero + slope * r.
struct Affine {
  int64_t at_zero = 0;
  int64_t slope = 0;
  int64_t At(int64_t r) const { return at_zero + slope * r; }
  bool is(int64_t number) const { return slope == 0 && at_zero == number; }
  friend Affine operator-(Affine a) { return {-a.at_zero, -a.slope}; }
  friend bool operator==(Affine a, Affine b) {
    return a.at_zero == b.at_zero && a.slope == b.slope;
  }
};

// The line through the values at the ranks from `first` on; nothing if they are on no line. Missing
// values may be any.
std::optional<Affine> AffineThrough(absl::Span<const std::optional<int64_t>> values, int first = 0);

// "P - 1 - r". `ranks` is the P to write the number with; 0: numbers only.
std::string WriteAffine(Affine a, int ranks, const std::string& r = "r");
// "2 * P - 1": the number, by P if it is a small multiple.
std::string WriteNumber(int64_t number, int ranks);
// "M - P + r + 1": `lead` plus `a`.
std::string WriteSum(const std::string& lead, Affine a, int ranks);

// The values of `variable` = 0, 1, …, line by line: "s < 4 ? s : s == 4 ? 0 : 7 - s".
std::string WriteCases(absl::Span<const std::optional<int64_t>> values, const std::string& variable,
                       int ranks);

}  // namespace stringline::search
