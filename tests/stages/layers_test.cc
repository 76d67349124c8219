#include "stages/layers.h"

#include <gtest/gtest.h>

namespace stringline {
namespace {

TEST(Layers, EvenSplits) {
  EXPECT_EQ(*SplitEven(8, 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(*SplitEven(10, 4), (std::vector<int>{3, 3, 2, 2}));
  EXPECT_EQ(*SplitEven(3, 1), (std::vector<int>{3}));
  EXPECT_EQ(SplitEven(3, 4).status().message(), "cannot split 3 layers into 4 stages");
  EXPECT_EQ(SplitEven(3, 0).status().message(), "0 stages");
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
