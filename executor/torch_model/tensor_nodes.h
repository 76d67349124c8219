// Ops on tensors of any shape, appended with torch's conventions: operands are broadcast,
// dimensions counted from the end if negative, and what changes nothing appends nothing.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "executor/torch_model/raised_nodes.h"
#include "stages/functions.h"

namespace stringline {

class TensorNodes {
 public:
  using Sizes = std::vector<int64_t>;
  using Made = absl::StatusOr<ValueId>;

  // `nodes` outlives the object.
  explicit TensorNodes(RaisedNodes* nodes) : nodes_(*nodes) {}

  // All nodes that follow stand in place of this one.
  void From(const TorchNode& node) { from_ = &node; }
  const Sizes& SizesOf(ValueId value) const { return nodes_.TypeOf(value).shape; }

  int64_t ElementsOf(ValueId value) const { return nodes_.TypeOf(value).elements(); }

  Made Append(Op op, std::vector<ValueId> inputs, std::vector<double> attributes = {});
  Made Map(MapFunction function, ValueId x, double a = 0, double b = 0);
  // Operands expand to their common sizes.
  Made Zip(ZipFunction function, ValueId left, ValueId right, double number = 0);
  Made Add(ValueId a, ValueId b);
  Made Multiply(ValueId a, ValueId b);
  Made Scale(ValueId x, double factor);
  Made Reshape(ValueId x, const Sizes& sizes);
  Made Permute(ValueId x, const Sizes& order);
  Made Swap(ValueId x, int64_t a, int64_t b);
  Made Expand(ValueId x, const Sizes& sizes);
  // Over these dimensions, which stay with size 1.
  Made Sum(ValueId x, const Sizes& dims);
  Made Mean(ValueId x, const Sizes& dims);
  // x less its mean.
  Made Centred(ValueId x, const Sizes& dims);
  Made Take(ValueId x, int64_t dim, int64_t first, int64_t step, int64_t count);
  Made Join(const std::vector<ValueId>& parts, int64_t dim);
  // (..,M,K) by (..,K,N); leading dimensions are broadcast.
  Made MatMul(ValueId a, ValueId b);
  // Multiplies x along a dimension by a constant matrix (size of the dimension, `size` of the
  // result).
  Made Mix(ValueId x, int64_t dim, int64_t size, const std::vector<double>& matrix);
  Made Softmax(ValueId x, int64_t dim, bool log);
  // The mask has all sizes of x: numbers that all sequences share are dropped alike. For 0 it is x.
  Made Dropout(ValueId x, double p);
  // (x - mean) / sqrt(variance + epsilon) over these dimensions; without `centre` x / sqrt(mean of
  // x^2 + epsilon).
  Made Normalised(ValueId x, const Sizes& dims, double epsilon, bool centre);
  // Each part along the dimension so many times in a row.
  Made RepeatEach(ValueId x, int64_t dim, int64_t times);
  Made Numbers(const Sizes& sizes, const std::vector<double>& values, bool integer = false);

 private:
  Made Expanded(Op op, ValueId a, ValueId b, std::vector<double> attributes);

  RaisedNodes& nodes_;
  const TorchNode* from_ = nullptr;
};

// A dimension of so many, counted from the end if negative; -1 if there is none.
int64_t DimensionOf(int64_t dim, size_t dimensions);

}  // namespace stringline
