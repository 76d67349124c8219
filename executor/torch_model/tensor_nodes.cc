#include "executor/torch_model/tensor_nodes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;

std::vector<double> Doubles(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

// The sizes to which both are broadcast; where they do not fit, an op's shape rule says so.
Sizes Common(const Sizes& a, const Sizes& b) {
  Sizes common = a.size() < b.size() ? b : a;
  const Sizes& other = a.size() < b.size() ? a : b;
  for (size_t i = 1; i <= other.size(); ++i) {
    int64_t& size = common[common.size() - i];
    if (size == 1) size = other[other.size() - i];
  }
  return common;
}

}  // namespace

int64_t DimensionOf(int64_t dim, size_t dimensions) {
  const auto all = static_cast<int64_t>(dimensions);
  const int64_t d = dim < 0 ? dim + all : dim;
  return d >= 0 && d < all ? d : -1;
}

TensorNodes::Made TensorNodes::Append(Op op, std::vector<ValueId> inputs,
                                      std::vector<double> attributes) {
  return nodes_.Append(*from_, op, std::move(inputs), std::move(attributes));
}

TensorNodes::Made TensorNodes::Map(MapFunction function, ValueId x, double a, double b) {
  return Append(Op::kMap, {x}, {static_cast<double>(function), a, b});
}

TensorNodes::Made TensorNodes::Expanded(Op op, ValueId a, ValueId b,
                                        std::vector<double> attributes) {
  const Sizes sizes = Common(SizesOf(a), SizesOf(b));
  SL_ASSIGN_OR_RETURN(a, Expand(a, sizes));
  SL_ASSIGN_OR_RETURN(b, Expand(b, sizes));
  return Append(op, {a, b}, std::move(attributes));
}

TensorNodes::Made TensorNodes::Zip(ZipFunction function, ValueId left, ValueId right,
                                   double number) {
  return Expanded(Op::kZip, left, right, {static_cast<double>(function), number});
}

TensorNodes::Made TensorNodes::Add(ValueId a, ValueId b) { return Expanded(Op::kAdd, a, b, {}); }

TensorNodes::Made TensorNodes::Multiply(ValueId a, ValueId b) {
  return Expanded(Op::kMul, a, b, {});
}

TensorNodes::Made TensorNodes::Scale(ValueId x, double factor) {
  if (factor == 1) return x;
  return Append(Op::kScale, {x}, {factor});
}

TensorNodes::Made TensorNodes::Reshape(ValueId x, const Sizes& sizes) {
  if (SizesOf(x) == sizes) return x;
  return Append(Op::kReshape, {x}, Doubles(sizes));
}

TensorNodes::Made TensorNodes::Permute(ValueId x, const Sizes& order) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  return Append(Op::kPermute, {x}, Doubles(order));
}

TensorNodes::Made TensorNodes::Swap(ValueId x, int64_t a, int64_t b) {
  Sizes order(SizesOf(x).size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return Permute(x, order);
}

TensorNodes::Made TensorNodes::Expand(ValueId x, const Sizes& sizes) {
  if (SizesOf(x) == sizes) return x;
  return Append(Op::kExpand, {x}, Doubles(sizes));
}

TensorNodes::Made TensorNodes::Sum(ValueId x, const Sizes& dims) {
  Sizes sizes = SizesOf(x);
  for (const int64_t dim : dims) sizes[static_cast<size_t>(dim)] = 1;
  if (sizes == SizesOf(x)) return x;
  return Append(Op::kSumTo, {x}, Doubles(sizes));
}

TensorNodes::Made TensorNodes::Mean(ValueId x, const Sizes& dims) {
  SL_ASSIGN_OR_RETURN(const ValueId sum, Sum(x, dims));
  const int64_t of = ElementsOf(x) / ElementsOf(sum);
  return Scale(sum, 1.0 / static_cast<double>(of));
}

TensorNodes::Made TensorNodes::Centred(ValueId x, const Sizes& dims) {
  SL_ASSIGN_OR_RETURN(ValueId mean, Mean(x, dims));
  SL_ASSIGN_OR_RETURN(mean, Scale(mean, -1));
  return Add(x, mean);
}

TensorNodes::Made TensorNodes::Take(ValueId x, int64_t dim, int64_t first, int64_t step,
                                    int64_t count) {
  if (first == 0 && step == 1 && count == SizesOf(x)[static_cast<size_t>(dim)]) return x;
  return Append(Op::kTake, {x}, Doubles({dim, first, step, count}));
}

TensorNodes::Made TensorNodes::Join(const std::vector<ValueId>& parts, int64_t dim) {
  ValueId joined = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    SL_ASSIGN_OR_RETURN(joined, Append(Op::kJoin, {joined, parts[i]}, Doubles({dim})));
  }
  return joined;
}

TensorNodes::Made TensorNodes::MatMul(ValueId a, ValueId b) {
  const Sizes of_a = SizesOf(a), of_b = SizesOf(b);
  const Sizes leading = Common({of_a.begin(), of_a.end() - 2}, {of_b.begin(), of_b.end() - 2});
  const auto expanded = [&](ValueId x, const Sizes& of) {
    Sizes sizes = leading;
    sizes.insert(sizes.end(), of.end() - 2, of.end());
    return Expand(x, sizes);
  };
  SL_ASSIGN_OR_RETURN(a, expanded(a, of_a));
  SL_ASSIGN_OR_RETURN(b, expanded(b, of_b));
  return Append(Op::kMatMul, {a, b}, {0, 0});
}

TensorNodes::Made TensorNodes::Mix(ValueId x, int64_t dim, int64_t size,
                                   const std::vector<double>& matrix) {
  const auto last = static_cast<int64_t>(SizesOf(x).size()) - 1;
  SL_ASSIGN_OR_RETURN(x, Swap(x, dim, last));
  Sizes sizes = SizesOf(x);
  const int64_t from = sizes.back();
  sizes.back() = size;
  SL_ASSIGN_OR_RETURN(const ValueId factor, Numbers({from, size}, matrix));
  SL_ASSIGN_OR_RETURN(x, Reshape(x, {ElementsOf(x) / from, from}));
  SL_ASSIGN_OR_RETURN(x, MatMul(x, factor));
  SL_ASSIGN_OR_RETURN(x, Reshape(x, sizes));
  return Swap(x, dim, last);
}

TensorNodes::Made TensorNodes::Softmax(ValueId x, int64_t dim, bool log) {
  const int64_t last = static_cast<int64_t>(SizesOf(x).size()) - 1;
  SL_ASSIGN_OR_RETURN(x, Swap(x, dim, last));
  SL_ASSIGN_OR_RETURN(x, Append(Op::kSoftmax, {x}, {log ? 1.0 : 0.0}));
  return Swap(x, dim, last);
}

TensorNodes::Made TensorNodes::Dropout(ValueId x, double p) {
  return p == 0 ? Made(x) : nodes_.AppendDropout(*from_, x, p);
}

TensorNodes::Made TensorNodes::Normalised(ValueId x, const Sizes& dims, double epsilon,
                                          bool centre) {
  if (centre) {
    SL_ASSIGN_OR_RETURN(x, Centred(x, dims));
  }
  SL_ASSIGN_OR_RETURN(ValueId square, Multiply(x, x));
  SL_ASSIGN_OR_RETURN(square, Mean(square, dims));
  SL_ASSIGN_OR_RETURN(square, Map(MapFunction::add_number, square, epsilon));
  SL_ASSIGN_OR_RETURN(const ValueId root, Map(MapFunction::rsqrt, square));
  return Multiply(x, root);
}

TensorNodes::Made TensorNodes::RepeatEach(ValueId x, int64_t dim, int64_t times) {
  Sizes apart = SizesOf(x);
  Sizes joined = apart;
  const auto place = apart.begin() + dim + 1;
  joined[static_cast<size_t>(dim)] *= times;
  apart.insert(place, 1);
  SL_ASSIGN_OR_RETURN(x, Reshape(x, apart));
  apart[static_cast<size_t>(dim) + 1] = times;
  SL_ASSIGN_OR_RETURN(x, Expand(x, apart));
  return Reshape(x, joined);
}

TensorNodes::Made TensorNodes::Numbers(const Sizes& sizes, const std::vector<double>& values,
                                       bool integer) {
  std::vector<double> attributes = {integer ? 1.0 : 0.0, static_cast<double>(sizes.size())};
  attributes.insert(attributes.end(), sizes.begin(), sizes.end());
  attributes.insert(attributes.end(), values.begin(), values.end());
  return Append(Op::kNumbers, {}, std::move(attributes));
}

}  // namespace stringline
