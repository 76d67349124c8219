// The column-major product of a row-major one.
#include "executor/cuda/product_shape.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stringline::cuda {
namespace {

// Small integers, whose sums are exact.
std::vector<float> WholeNumbers(int64_t count, std::mt19937* random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>((*random)() % 17) - 8;
  return numbers;
}

// The product by MappingOf, literally.
std::vector<float> ColumnMajor(const ProductMapping& map, const std::vector<float>& a,
                               const std::vector<float>& b) {
  std::vector<float> d(map.n * map.ldd, -1000);
  for (int64_t i = 0; i < map.m; ++i) {
    for (int64_t j = 0; j < map.n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < map.k; ++l) {
        sum += a.at(map.transpose_a ? l + i * map.lda : i + l * map.lda) *
               b.at(map.transpose_b ? j + l * map.ldb : l + j * map.ldb);
      }
      d.at(i + j * map.ldd) = sum;
    }
  }
  return d;
}

// first and second as in ProductRun.
std::vector<float> RowMajor(const ProductShape& shape, const std::vector<float>& first,
                            const std::vector<float>& second) {
  const int64_t rows = shape.rows, inputs = shape.inputs, outputs = shape.outputs;
  const bool forward = shape.kind == ProductKind::kForward;
  const bool input_grad = shape.kind == ProductKind::kInputGrad;
  std::vector<float> out(forward ? rows * outputs : (input_grad ? rows : outputs) * inputs, 0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t x = r * inputs + i, w = o * inputs + i, y = r * outputs + o;
        if (forward) out[y] += first[x] * second[w];
        if (input_grad) out[x] += first[y] * second[w];
        if (shape.kind == ProductKind::kWeightGrad) out[w] += first[y] * second[x];
      }
    }
  }
  return out;
}

TEST(ProductMapping, IsTheRowMajorProduct) {
  std::mt19937 random(7);
  std::vector<std::vector<int64_t>> sizes = {{1, 1, 1}, {1, 64, 48}, {48, 1, 5},
                                             {5, 7, 1}, {1, 9, 1},   {64, 32, 16}};
  for (int i = 0; i < 40; ++i) {
    const auto size = [&random] { return static_cast<int64_t>(1 + random() % 33); };
    sizes.push_back({size(), size(), size()});
  }
  for (const auto& size : sizes) {
    for (const ProductKind kind :
         {ProductKind::kForward, ProductKind::kInputGrad, ProductKind::kWeightGrad}) {
      const ProductShape shape = {kind, size[0], size[1], size[2]};
      SCOPED_TRACE(ToString(shape));
      const ProductMapping map = MappingOf(shape);
      // Leading dimensions are exactly those of dense matrices.
      EXPECT_EQ(map.lda, map.a_rows());
      EXPECT_EQ(map.ldb, map.b_rows());
      EXPECT_EQ(map.ldd, map.m);
      const bool forward = kind == ProductKind::kForward;
      const int64_t x = shape.rows * shape.inputs, w = shape.outputs * shape.inputs;
      const int64_t y = shape.rows * shape.outputs;
      const auto first = WholeNumbers(forward ? x : y, &random);
      const auto second = WholeNumbers(kind == ProductKind::kWeightGrad ? x : w, &random);
      ASSERT_EQ(map.a_rows() * map.a_columns(), static_cast<int64_t>(second.size()));
      ASSERT_EQ(map.b_rows() * map.b_columns(), static_cast<int64_t>(first.size()));
      EXPECT_EQ(ColumnMajor(map, second, first), RowMajor(shape, first, second));
    }
  }
}

TEST(ProductMapping, MessagesNameTheProduct) {
  EXPECT_EQ(ToString({.kind = ProductKind::kForward,
                      .rows = 3,
                      .inputs = 4,
                      .outputs = 5,
                      .bias = true,
                      .residual = true}),
            "y = x w' + bias + z of 3 rows, 4 inputs, 5 outputs");
  EXPECT_EQ(ToString({ProductKind::kInputGrad, 3, 4, 5}),
            "dx = dy w of 3 rows, 4 inputs, 5 outputs");
  EXPECT_EQ(ToString({ProductKind::kWeightGrad, 3, 4, 5}),
            "dw = dy' x of 3 rows, 4 inputs, 5 outputs");
}

}  // namespace
}  // namespace stringline::cuda
