// The exact sum of doubles, rounded once.
//
// A sum of doubles that rounds after each addition depends on the order of its terms. This one is a
// fixed-point number wide enough for every finite double (a superaccumulator: U. Kulisch), so it is
// the same for every order and every grouping: processes add their own terms, and the sums of their
// words are those of all terms. That gives losses and norms the same bits for every cut of a model,
// without anybody who has to know all terms.
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace stringline {

class ExactSum {
 public:
  // 68 digits of 32 bits each, from 2^-1074 on, and the numbers of +infinity, -infinity and NaN.
  static constexpr int kDigits = 68;
  static constexpr int kWords = kDigits + 3;
  using Words = std::array<uint64_t, kWords>;

  void Add(double value);
  // The sum as words. The sums of the words of at most 2^31 sums, each modulo 2^64, are words of
  // the sum of their terms.
  Words words() const;
  static ExactSum FromWords(absl::Span<const uint64_t> words);
  // Nearest double, ties to even; infinite where a double cannot hold it. With infinities or NaN
  // among the terms, the result of adding doubles. An empty sum is +0.
  double Rounded() const;

 private:
  void Carry();

  // Digits may exceed 32 bits, and be negative, until the next carry.
  std::array<int64_t, kDigits> digits_ = {};
  std::array<uint64_t, kWords - kDigits> not_finite_ = {};
  int64_t added_ = 0;  // terms since the last carry
};

}  // namespace stringline
