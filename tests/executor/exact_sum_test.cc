// Exact sums, beside sums in rational arithmetic and in long integers, in any order and grouping.
#include "executor/engine/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace stringline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeast = 0x1p-1074;
constexpr double kMost = std::numeric_limits<double>::max();

double SumOf(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.Add(term);
  return sum.Rounded();
}

TEST(ExactSum, IsRoundedOnceToTheNearestEven) {
  EXPECT_EQ(SumOf({}), 0.0);
  EXPECT_EQ(SumOf({1, 0x1p-53}), 1.0);                     // a tie, to even
  EXPECT_EQ(SumOf({1, 0x1p-53, 0x1p-1074}), 1 + 0x1p-52);  // more than a tie
  EXPECT_EQ(SumOf({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);   // a tie, to even
  EXPECT_EQ(SumOf({1 + 0x1p-52, 0x1p-53, -kLeast}), 1 + 0x1p-52);
  EXPECT_EQ(SumOf({-1, -0x1p-53, -kLeast}), -(1 + 0x1p-52));
  EXPECT_EQ(SumOf({2 - 0x1p-52, 0x1p-53}), 2.0);  // the mantissa overflows
  EXPECT_EQ(SumOf({1e100, 1, -1e100}), 1.0);
  EXPECT_EQ(SumOf({kLeast, kLeast, -3 * kLeast}), -kLeast);
  EXPECT_EQ(SumOf({0x1p-1022, -kLeast}), 0x1p-1022 - kLeast);  // subnormal
  EXPECT_EQ(SumOf({kMost, kMost, -kMost}), kMost);             // beyond a double in between
  EXPECT_EQ(SumOf({-kMost, -kMost}), -kInfinity);
  EXPECT_EQ(SumOf({kMost, 0x1p969}), kMost);
  EXPECT_EQ(SumOf({kMost, 0x1p970}), kInfinity);                              // a tie, to even
  EXPECT_EQ(SumOf({0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}), 1.0);  // as math.fsum
}

TEST(ExactSum, KeepsInfinitiesAndNaN) {
  EXPECT_EQ(SumOf({1, kInfinity, -5, kInfinity}), kInfinity);
  EXPECT_EQ(SumOf({1, -kInfinity}), -kInfinity);
  EXPECT_TRUE(std::isnan(SumOf({kInfinity, 1, -kInfinity})));
  EXPECT_TRUE(std::isnan(SumOf({std::nan(""), 1})));
}

// Every finite double comes back from its own sum.
TEST(ExactSum, HoldsEveryDouble) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(SumOf({value}), value) << "seed 11, " << i;
    EXPECT_EQ(SumOf({value, -value}), 0.0) << "seed 11, " << i;
  }
}

// Beside integers of 128 bits: doubles of 53 bits at up to 60 places. A sum of integers is rounded
// by the compiler's own conversion.
TEST(ExactSum, AgreesWithIntegersInEveryOrderAndGrouping) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<double> terms;
    __int128 expected = 0;
    for (int i = 0; i < 100; ++i) {
      const auto mantissa = static_cast<int64_t>(random() >> 11) * (random() % 2 == 0 ? 1 : -1);
      const int place = static_cast<int>(random() % 60);
      terms.push_back(std::ldexp(static_cast<double>(mantissa), place));
      expected += static_cast<__int128>(mantissa) * (static_cast<__int128>(1) << place);
    }
    EXPECT_EQ(SumOf(terms), static_cast<double>(expected)) << "seed " << seed;
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(SumOf(terms), static_cast<double>(expected)) << "seed " << seed;
    ExactSum::Words words = {};
    for (size_t i = 0; i < terms.size();) {
      ExactSum part;
      for (size_t end = std::min(terms.size(), i + 1 + random() % 30); i < end; ++i) {
        part.Add(terms[i]);
      }
      const ExactSum::Words of = part.words();
      for (size_t w = 0; w < words.size(); ++w) words[w] += of[w];
    }
    EXPECT_EQ(ExactSum::FromWords(words).Rounded(), static_cast<double>(expected))
        << "seed " << seed;
    EXPECT_EQ(ExactSum::FromWords(words).words(),
              ExactSum::FromWords(ExactSum::FromWords(words).words()).words())
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace stringline
