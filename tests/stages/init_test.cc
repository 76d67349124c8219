#include "stages/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stringline {
namespace {

std::vector<float> Values(const std::string& name, uint64_t seed, int64_t count,
                          Init init = Init::kNormal) {
  Param param{name, {DType::kF32, {count}}, init, 0.5f};
  std::vector<float> data(count, -7);
  Initialize(param, seed, data.data());
  return data;
}

TEST(Init, DependsOnSeedAndNameAlone) {
  const std::vector<float> values = Values("a", 1, 1000);
  EXPECT_EQ(values, Values("a", 1, 1000));
  EXPECT_NE(values, Values("a", 2, 1000));
  EXPECT_NE(values, Values("b", 1, 1000));
  // Element by element: a longer tensor begins with the same values.
  std::vector<float> longer = Values("a", 1, 2000);
  longer.resize(1000);
  EXPECT_EQ(values, longer);
}

// Threads divide long tensors, piece by piece.
TEST(Init, ALongOneGoesOnAsAShortOneBegins) {
  constexpr int64_t kPiece = 1 << 20;
  const std::vector<float> whole = Values("a", 1, 2 * kPiece + 3);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), -7.0f), 0);
  Param expert{"a", {DType::kF32, {kPiece}}, Init::kNormal, 0.5f};
  expert.expert = true;
  for (const int piece : {0, 1}) {
    std::vector<float> data(kPiece);
    Initialize(expert, 1, data.data(), piece);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), whole.begin() + piece * kPiece)) << piece;
  }
  const std::vector<float> last = Values("a", 1, 2 * kPiece + 4);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), last.begin()));
}

TEST(Init, NormalHasItsMoments) {
  const int count = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (float value : Values("a", 3, count)) {
    sum += value;
    squares += double{value} * value;
    fourth += std::pow(value, 4);
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 0.25, 0.005);
  EXPECT_NEAR(fourth / count, 3 * 0.0625, 0.01);
}

TEST(Init, ConstantsAreConstant) {
  EXPECT_EQ(Values("a", 1, 5, Init::kZeros), std::vector<float>(5, 0));
  EXPECT_EQ(Values("a", 1, 5, Init::kOnes), std::vector<float>(5, 1));
}

}  // namespace
}  // namespace stringline
