#include "stages/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "tests/stages/random_values.h"

namespace stringline {
namespace {

TEST(Layers, EvenSplits) {
  EXPECT_EQ(*SplitEven(8, 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(*SplitEven(10, 4), (std::vector<int>{3, 3, 2, 2}));
  EXPECT_EQ(*SplitEven(3, 1), (std::vector<int>{3}));
  EXPECT_EQ(SplitEven(3, 4).status().message(), "cannot split 3 layers into 4 stages");
  EXPECT_EQ(SplitEven(3, 0).status().message(), "0 stages");
}

// The best of all splits, by brute force.
double SlowestOf(const std::vector<int>& layers, double first, double layer, double last) {
  double slowest = 0;
  for (size_t s = 0; s < layers.size(); ++s) {
    const double load =
        layers[s] * layer + (s == 0 ? first : 0) + (s + 1 == layers.size() ? last : 0);
    slowest = std::max(slowest, load);
  }
  return slowest;
}

TEST(Layers, BalancedSplitsHaveTheFastestSlowestStage) {
  EXPECT_EQ(*SplitBalanced(8, 4, 0, 1, 0), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(*SplitBalanced(8, 4, 0, 1, 2.5), (std::vector<int>{3, 3, 2, 0}));
  EXPECT_FALSE(SplitBalanced(3, 4, 0, 1, 0).ok());
  for (const double first : {0.0, 0.5, 2.0, 7.0}) {
    for (const double last : {0.0, 0.7, 3.0}) {
      for (int layers = 3; layers <= 9; ++layers) {
        const std::vector<int> split = *SplitBalanced(layers, 3, first, 1, last);
        EXPECT_TRUE(CheckLayers(layers, split).ok());
        double best = 1e9;
        for (int a = 0; a <= layers; ++a) {
          for (int b = 1; a + b <= layers; ++b) {
            best = std::min(best, SlowestOf({a, b, layers - a - b}, first, 1, last));
          }
        }
        EXPECT_EQ(SlowestOf(split, first, 1, last), best) << layers << " " << first << " " << last;
      }
    }
  }
}

// Against every split of layers of random times.
TEST(Layers, BalancedSplitsOfUnevenLayersHaveTheFastestSlowestStage) {
  EXPECT_EQ(*SplitBalanced({1, 1, 1, 9}, 2, 0, 0), (std::vector<int>{3, 1}));
  EXPECT_EQ(*SplitBalanced({1, 1, 1}, 3, 5, 0), (std::vector<int>{0, 3, 0}));
  EXPECT_FALSE(SplitBalanced({1, 1}, 3, 0, 0).ok());
  const uint64_t seed = cpu::TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    const int count = 3 + static_cast<int>(random() % 6);
    std::vector<double> layers;
    for (int l = 0; l < count; ++l) layers.push_back(static_cast<double>(1 + random() % 9));
    const auto first = static_cast<double>(random() % 12),
               last = static_cast<double>(random() % 12);
    const auto slowest = [&](int a, int b) {
      const auto sum = [&](int from, int to) {
        return std::accumulate(layers.begin() + from, layers.begin() + to, 0.0);
      };
      return std::max({first + sum(0, a), sum(a, a + b), last + sum(a + b, count)});
    };
    const std::vector<int> split = *SplitBalanced(layers, 3, first, last);
    EXPECT_TRUE(CheckLayers(count, split).ok());
    double best = 1e9;
    for (int a = 0; a < count; ++a) {
      for (int b = 1; a + b <= count; ++b) best = std::min(best, slowest(a, b));
    }
    EXPECT_EQ(slowest(split[0], split[1]), best);
  }
}

TEST(Layers, ListsAreChecked) {
  EXPECT_TRUE(CheckLayers(4, {4}).ok());
  EXPECT_TRUE(CheckLayers(4, {0, 4, 0}).ok());
  EXPECT_TRUE(CheckLayers(4, {0, 4}).ok());
  EXPECT_EQ(CheckLayers(4, {}).message(), "split [] has no stage");
  EXPECT_EQ(CheckLayers(4, {1, 2}).message(), "split [1, 2] has 3 layers, the model has 4");
  EXPECT_EQ(CheckLayers(4, {5, -1}).message(), "split [5, -1]: stage 1 has -1 layers");
  EXPECT_EQ(CheckLayers(4, {2, 0, 2}).message(),
            "split [2, 0, 2]: stage 1 has no layer, only the first and last may");
}

}  // namespace
}  // namespace stringline
