// Choices by value (the largest, sorted, one-hot) and places that are values themselves (gather,
// scatter, index). Whole numbers are floats here until an op of ours indexes by them. Of equal
// numbers the one with the lower index comes first, which torch leaves open for topk.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;
using Made = TensorNodes::Made;

int64_t ElementsIn(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Made OnesLike(TensorNodes& tensors, ValueId x) {
  SL_ASSIGN_OR_RETURN(const ValueId one, tensors.Numbers({}, {1}));
  return tensors.Expand(one, tensors.SizesOf(x));
}

Made Whole(TensorNodes& tensors, ValueId x) { return tensors.Append(Op::kWhole, {x}); }

Made Scattered(TensorNodes& tensors, ValueId x, ValueId index, int64_t dim, int64_t size,
               bool add) {
  return tensors.Append(Op::kScatter, {x, index},
                        {static_cast<double>(dim), static_cast<double>(size), add ? 1.0 : 0.0});
}

// Choices

// The values of top_k along a dimension, and their indices as floats.
struct Chosen {
  ValueId values, indices;
};
absl::StatusOr<Chosen> Choose(TorchOperands& in, const TorchNode& node, ValueId x, int64_t dim,
                              int64_t count, bool largest) {
  TensorNodes& tensors = in.tensors();
  const int64_t last = static_cast<int64_t>(tensors.SizesOf(x).size()) - 1;
  SL_ASSIGN_OR_RETURN(x, tensors.Swap(x, dim, last));
  SL_ASSIGN_OR_RETURN(const std::vector<ValueId> both,
                      in.nodes().AppendAll(node, Op::kTopK, {x},
                                           {static_cast<double>(count), largest ? 1.0 : 0.0}));
  Chosen chosen{};
  SL_ASSIGN_OR_RETURN(chosen.values, tensors.Swap(both[0], dim, last));
  SL_ASSIGN_OR_RETURN(const ValueId indices, tensors.Append(Op::kFloat, {both[1]}));
  SL_ASSIGN_OR_RETURN(chosen.indices, tensors.Swap(indices, dim, last));
  return chosen;
}

// Gives the node's first result and notes the second.
Made Both(TorchOperands& in, const TorchNode& node, const Chosen& chosen) {
  if (node.outputs.size() > 1) in.Set(node.outputs[1], chosen.indices);
  return chosen.values;
}

Made TopK(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", -1, sizes));
  SL_ASSIGN_OR_RETURN(const Chosen chosen,
                      Choose(in, node, x, dim, static_cast<int64_t>(node.Number("k", 1)),
                             node.Number("largest", 1) != 0));
  return Both(in, node, chosen);
}

Made Sort(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", -1, sizes));
  SL_ASSIGN_OR_RETURN(const Chosen chosen, Choose(in, node, x, dim, sizes[static_cast<size_t>(dim)],
                                                  node.Number("descending", 0) != 0));
  return node.op == "argsort" ? Made(chosen.indices) : Both(in, node, chosen);
}

// The largest or smallest number along a dimension, or of all, and its index.
Made Extreme(TorchOperands& in, const TorchNode& node, size_t output) {
  const bool largest = node.op == "max" || node.op == "argmax";
  if (node.Find("other") != nullptr) {
    SL_ASSIGN_OR_RETURN(const ValueId left, in.Loose(node.Tensor("self")));
    SL_ASSIGN_OR_RETURN(const ValueId right, in.Loose(node.Tensor("other")));
    return in.tensors().Zip(largest ? ZipFunction::maximum : ZipFunction::minimum, left, right);
  }
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  int64_t dim = 0;
  if (NumberOf(node, "dim")) {
    SL_ASSIGN_OR_RETURN(dim, in.Dimension(node, "dim", -1, in.tensors().SizesOf(x)));
  } else if (node.op == "max" || node.op == "min") {
    return in.graph().Unknown(node, "of all numbers: equal ones share its gradient; give it a dim");
  } else {
    SL_ASSIGN_OR_RETURN(x, in.tensors().Reshape(x, {in.tensors().ElementsOf(x)}));
  }
  SL_ASSIGN_OR_RETURN(Chosen chosen, Choose(in, node, x, dim, 1, largest));
  const Sizes& sizes = in.graph().Sizes(node.outputs[output]);
  SL_ASSIGN_OR_RETURN(chosen.values, in.tensors().Reshape(chosen.values, sizes));
  SL_ASSIGN_OR_RETURN(chosen.indices, in.tensors().Reshape(chosen.indices, sizes));
  return node.op == "argmax" || node.op == "argmin" ? Made(chosen.indices) : Both(in, node, chosen);
}

// x along a new last dimension against 0, 1, ..., count - 1.
Made EqualsEach(TensorNodes& tensors, ValueId x, int64_t count) {
  Sizes apart = tensors.SizesOf(x);
  apart.push_back(1);
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, apart));
  std::vector<double> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  SL_ASSIGN_OR_RETURN(const ValueId each, tensors.Numbers({count}, numbers));
  return tensors.Zip(ZipFunction::equal, x, each);
}

Made OneHot(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  const auto classes = static_cast<int64_t>(node.Number("num_classes", -1));
  if (classes < 1) {
    return in.graph().Unknown(node, "its num_classes depends on the values: give their number");
  }
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  return EqualsEach(in.tensors(), x, classes);
}

// Counts of the whole numbers 0 .. bins - 1, with a bin for each.
Made Histogram(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  const auto bins = static_cast<int64_t>(node.Number("bins", 100));
  const std::string numbers = in.graph().Strip(node.Tensor("self"));
  const TorchNode* const cast = in.graph().Producer(numbers);
  const bool whole = cast != nullptr && !cast->Tensor("self").empty() &&
                     HoldsTokens(in.graph().program().values.at(cast->Tensor("self")).type);
  if (!whole || node.Number("min", 0) != 0 ||
      node.Number("max", 0) != static_cast<double>(bins) - 1) {
    return in.graph().Unknown(node, "other than of whole numbers 0, 1, ..., with a bin for each");
  }
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Reshape(x, {in.tensors().ElementsOf(x)}));
  SL_ASSIGN_OR_RETURN(x, EqualsEach(in.tensors(), x, bins));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Sum(x, {0}));
  return in.tensors().Reshape(x, {bins});
}

// Places along one dimension

// The part of x that an index of these sizes reaches: x may be larger in the other dimensions.
Made Within(TensorNodes& tensors, ValueId x, Sizes sizes, int64_t dim) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) continue;
    SL_ASSIGN_OR_RETURN(x, tensors.Take(x, static_cast<int64_t>(d), 0, 1, sizes[d]));
  }
  return x;
}

Made Gather(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, in.tensors().SizesOf(x)));
  SL_ASSIGN_OR_RETURN(const ValueId index, in.Indices(node.Tensor("index")));
  SL_ASSIGN_OR_RETURN(x, Within(in.tensors(), x, in.tensors().SizesOf(index), dim));
  return in.tensors().Append(Op::kGather, {x, index}, {static_cast<double>(dim)});
}

// A part from the front among zeros.
Made Widened(TensorNodes& tensors, ValueId x, const Sizes& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (tensors.SizesOf(x)[d] == sizes[d]) continue;
    SL_ASSIGN_OR_RETURN(
        x, tensors.Append(Op::kPut, {x},
                          {static_cast<double>(d), 0, 1, static_cast<double>(sizes[d])}));
  }
  return x;
}

// x with `source`, at the index along the dimension, added or in its place.
Made Overlaid(TensorNodes& tensors, ValueId x, ValueId source, ValueId index, int64_t dim,
              bool add) {
  const Sizes sizes = tensors.SizesOf(x);
  const int64_t size = sizes[static_cast<size_t>(dim)];
  SL_ASSIGN_OR_RETURN(ValueId there, Scattered(tensors, source, index, dim, size, add));
  SL_ASSIGN_OR_RETURN(there, Widened(tensors, there, sizes));
  if (add) return tensors.Add(x, there);
  SL_ASSIGN_OR_RETURN(ValueId mark, OnesLike(tensors, source));
  SL_ASSIGN_OR_RETURN(mark, Scattered(tensors, mark, index, dim, size, add));
  SL_ASSIGN_OR_RETURN(mark, Widened(tensors, mark, sizes));
  SL_ASSIGN_OR_RETURN(x, tensors.Zip(ZipFunction::where_not, x, mark));
  return tensors.Add(x, there);
}

Made Scatter(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, tensors.SizesOf(x)));
  SL_ASSIGN_OR_RETURN(const ValueId index, in.Indices(node.Tensor("index")));
  const Sizes sizes = tensors.SizesOf(index);
  SL_ASSIGN_OR_RETURN(ValueId source, in.Operand(node, node.Find("src") ? "src" : "value"));
  if (node.Find("src") == nullptr) {
    SL_ASSIGN_OR_RETURN(source, tensors.Expand(source, sizes));
  } else {
    SL_ASSIGN_OR_RETURN(source, in.Value(node.Tensor("src")));
    SL_ASSIGN_OR_RETURN(source, Within(tensors, source, sizes, -1));
  }
  return Overlaid(tensors, x, source, index, dim, node.op == "scatter_add");
}

// index_add, index_copy, index_fill: one index for all places beside the dimension.
Made Indexed(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = tensors.SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, sizes));
  SL_ASSIGN_OR_RETURN(ValueId index, in.Value(node.Tensor("index")));
  Sizes at = sizes, alone(sizes.size(), 1);
  at[static_cast<size_t>(dim)] = alone[static_cast<size_t>(dim)] = tensors.ElementsOf(index);
  SL_ASSIGN_OR_RETURN(index, tensors.Reshape(index, alone));
  SL_ASSIGN_OR_RETURN(index, tensors.Expand(index, at));
  SL_ASSIGN_OR_RETURN(index, Whole(tensors, index));
  ValueId source = kNone;
  if (node.op == "index_fill") {
    SL_ASSIGN_OR_RETURN(source, in.Operand(node, "value"));
  } else {
    SL_ASSIGN_OR_RETURN(source, in.Value(node.Tensor("source")));
    SL_ASSIGN_OR_RETURN(source, tensors.Scale(source, node.Number("alpha", 1)));
  }
  SL_ASSIGN_OR_RETURN(source, tensors.Expand(source, at));
  return Overlaid(tensors, x, source, index, dim, node.op == "index_add");
}

// Places along several dimensions

// x[.., index, .., index, ..] as rows of a table: the indexed dimensions first, as one.
struct IndexedRows {
  Sizes order;       // x's dimensions, the indexed ones first
  Sizes whole;       // x's sizes in this order
  Sizes rest;        // those behind the indexed ones
  Sizes index;       // the common sizes of the indices
  ValueId at;        // (index..), a float: the row
  size_t front = 0;  // of the result's dimensions behind the index, those that come before it
  int64_t rows = 1;
};

absl::StatusOr<IndexedRows> RowsOf(TorchOperands& in, const TorchNode& node, ValueId x) {
  TensorNodes& tensors = in.tensors();
  const Sizes sizes = tensors.SizesOf(x);
  const TorchArgument* const indices = node.Find("indices");
  if (indices == nullptr || indices->tensors.empty() || indices->tensors.size() > sizes.size()) {
    return in.graph().Unknown(node, "its indices are not those of the value");
  }
  IndexedRows rows{};
  Sizes rest;
  std::vector<size_t> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool indexed = d < indices->tensors.size() && !indices->tensors[d].empty();
    if (!indexed) {
      rest.push_back(static_cast<int64_t>(d));
      continue;
    }
    const std::string& index = indices->tensors[d];
    if (!HoldsTokens(in.graph().program().values.at(index).type)) {
      return in.graph().Unknown(node, "by a mask: write torch.where or masked_fill instead");
    }
    dims.push_back(d);
    SL_ASSIGN_OR_RETURN(ValueId at, in.Value(index));
    // Negative indices count from the end.
    SL_ASSIGN_OR_RETURN(const ValueId zero, tensors.Numbers({}, {0}));
    SL_ASSIGN_OR_RETURN(ValueId below, tensors.Zip(ZipFunction::less, at, zero));
    SL_ASSIGN_OR_RETURN(below, tensors.Scale(below, static_cast<double>(sizes[d])));
    SL_ASSIGN_OR_RETURN(at, tensors.Add(at, below));
    if (dims.size() > 1) {
      SL_ASSIGN_OR_RETURN(rows.at, tensors.Scale(rows.at, static_cast<double>(sizes[d])));
      SL_ASSIGN_OR_RETURN(at, tensors.Add(rows.at, at));
    }
    rows.at = at;
    rows.rows *= sizes[d];
  }
  if (dims.empty()) return in.graph().Unknown(node, "without an index");
  rows.order.assign(dims.begin(), dims.end());
  rows.order.insert(rows.order.end(), rest.begin(), rest.end());
  for (const int64_t d : rows.order) rows.whole.push_back(sizes[static_cast<size_t>(d)]);
  rows.rest.assign(rows.whole.begin() + static_cast<std::ptrdiff_t>(dims.size()), rows.whole.end());
  rows.index = tensors.SizesOf(rows.at);
  // Indices side by side stay in their place; others come first.
  if (dims.back() - dims.front() + 1 == dims.size()) rows.front = dims.front();
  return rows;
}

// The order of the result's dimensions behind (index.., rest..).
Sizes OrderOfResult(const IndexedRows& rows) {
  Sizes order;
  const auto indexed = static_cast<int64_t>(rows.index.size());
  for (size_t d = 0; d < rows.front; ++d) order.push_back(indexed + static_cast<int64_t>(d));
  for (int64_t d = 0; d < indexed; ++d) order.push_back(d);
  for (size_t d = rows.front; d < rows.rest.size(); ++d) {
    order.push_back(indexed + static_cast<int64_t>(d));
  }
  return order;
}

Sizes Inverse(const Sizes& order) {
  Sizes back(order.size());
  for (size_t d = 0; d < order.size(); ++d) {
    back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  }
  return back;
}

Made Index(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const IndexedRows rows, RowsOf(in, node, x));
  SL_ASSIGN_OR_RETURN(x, tensors.Permute(x, rows.order));
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, {rows.rows, ElementsIn(rows.rest)}));
  SL_ASSIGN_OR_RETURN(const ValueId at, Whole(tensors, rows.at));
  SL_ASSIGN_OR_RETURN(x, tensors.Append(Op::kEmbedding, {at, x}));
  Sizes sizes = rows.index;
  sizes.insert(sizes.end(), rows.rest.begin(), rows.rest.end());
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, sizes));
  return tensors.Permute(x, OrderOfResult(rows));
}

Made IndexPut(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const IndexedRows rows, RowsOf(in, node, x));
  const Sizes order = OrderOfResult(rows);
  Sizes sizes = rows.index;
  sizes.insert(sizes.end(), rows.rest.begin(), rows.rest.end());
  Sizes ordered;
  for (const int64_t d : order) ordered.push_back(sizes[static_cast<size_t>(d)]);
  SL_ASSIGN_OR_RETURN(ValueId source, in.Value(node.Tensor("values")));
  SL_ASSIGN_OR_RETURN(source, tensors.Expand(source, ordered));
  SL_ASSIGN_OR_RETURN(source, tensors.Permute(source, Inverse(order)));
  const int64_t count = ElementsIn(rows.index), columns = ElementsIn(rows.rest);
  SL_ASSIGN_OR_RETURN(source, tensors.Reshape(source, {count, columns}));
  SL_ASSIGN_OR_RETURN(ValueId at, tensors.Reshape(rows.at, {count, 1}));
  SL_ASSIGN_OR_RETURN(at, tensors.Expand(at, {count, columns}));
  SL_ASSIGN_OR_RETURN(at, Whole(tensors, at));
  SL_ASSIGN_OR_RETURN(x, tensors.Permute(x, rows.order));
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, {rows.rows, columns}));
  SL_ASSIGN_OR_RETURN(x, Overlaid(tensors, x, source, at, 0, node.Number("accumulate", 0) != 0));
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, rows.whole));
  return tensors.Permute(x, Inverse(rows.order));
}

// Writes through views

// The written values; beside the first dimension they may be the same for all sequences.
Made Written(TorchOperands& in, const TorchNode& node, int64_t dim) {
  return dim == 0 ? in.Value(node.Tensor("src")) : in.Loose(node.Tensor("src"));
}

// x with `source` in place of every step-th part along the dimension.
Made Replaced(TensorNodes& tensors, ValueId x, ValueId source, int64_t dim, int64_t first,
              int64_t step) {
  const auto d = static_cast<size_t>(dim);
  const Sizes sizes = tensors.SizesOf(x);
  const int64_t count = tensors.SizesOf(source)[d];
  if (count == sizes[d]) return source;
  std::vector<double> mark(static_cast<size_t>(sizes[d]), 0);
  for (int64_t i = 0; i < count; ++i) mark[static_cast<size_t>(first + i * step)] = 1;
  Sizes along(sizes.size(), 1);
  along[d] = sizes[d];
  SL_ASSIGN_OR_RETURN(const ValueId there, tensors.Numbers(along, mark));
  SL_ASSIGN_OR_RETURN(x, tensors.Zip(ZipFunction::where_not, x, there));
  SL_ASSIGN_OR_RETURN(source,
                      tensors.Append(Op::kPut, {source},
                                     {static_cast<double>(dim), static_cast<double>(first),
                                      static_cast<double>(step), static_cast<double>(sizes[d])}));
  return tensors.Add(x, source);
}

Made SliceScatter(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, sizes));
  SL_ASSIGN_OR_RETURN(const ValueId source, Written(in, node, dim));
  auto first = static_cast<int64_t>(node.Number("start", 0));
  if (first < 0) first = std::max<int64_t>(0, first + sizes[static_cast<size_t>(dim)]);
  return Replaced(in.tensors(), x, source, dim, first,
                  static_cast<int64_t>(node.Number("step", 1)));
}

Made SelectScatter(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, sizes));
  auto index = static_cast<int64_t>(node.Number("index", 0));
  if (index < 0) index += sizes[static_cast<size_t>(dim)];
  SL_ASSIGN_OR_RETURN(ValueId source, Written(in, node, dim));
  Sizes one = in.tensors().SizesOf(source);
  one.insert(one.begin() + dim, 1);
  SL_ASSIGN_OR_RETURN(source, in.tensors().Reshape(source, one));
  return Replaced(in.tensors(), x, source, dim, index, 1);
}

// Experts

// Rows in order of their experts times each expert's matrix: x (S,K), weight (E,K,N), and by expert
// the end of its rows. Transformers' experts have (E,N,K) turned.
Made GroupedProduct(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  const bool own = node.op == "_grouped_mm";
  const std::string matrices = node.Tensor(own ? "mat2" : "weight");
  if (in.graph().Sizes(matrices).size() != 3 || node.Tensor("offs").empty()) {
    return in.graph().Unknown(node, "its matrices have other than three dimensions");
  }
  // Rows behind the last offset would have no expert.
  const TorchNode* const sum = in.graph().Match(node.Tensor("offs"), "cumsum");
  if (sum == nullptr || in.graph().Match(sum->Tensor("self"), "histc") == nullptr) {
    return in.graph().Unknown(node, "its offs are no running sum of a histogram of experts");
  }
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor(own ? "self" : "input")));
  const TorchNode* const turned = in.graph().Producer(in.graph().Strip(matrices));
  ValueId weight = kNone;
  if (turned != nullptr && SwapsDimensions(*turned, 3, 1, 2)) {
    SL_ASSIGN_OR_RETURN(weight, in.Value(turned->Tensor("self")));
  } else {
    SL_ASSIGN_OR_RETURN(weight, in.Value(matrices));
    SL_ASSIGN_OR_RETURN(weight, tensors.Swap(weight, 1, 2));
  }
  SL_ASSIGN_OR_RETURN(ValueId counts, in.Value(node.Tensor("offs")));
  const int64_t experts = tensors.ElementsOf(counts);
  if (experts > 1) {
    SL_ASSIGN_OR_RETURN(ValueId before, tensors.Take(counts, 0, 0, 1, experts - 1));
    SL_ASSIGN_OR_RETURN(
        before, tensors.Append(Op::kPut, {before}, {0, 1, 1, static_cast<double>(experts)}));
    SL_ASSIGN_OR_RETURN(before, tensors.Scale(before, -1));
    SL_ASSIGN_OR_RETURN(counts, tensors.Add(counts, before));
  }
  SL_ASSIGN_OR_RETURN(counts, tensors.Reshape(counts, {1, experts}));
  SL_ASSIGN_OR_RETURN(counts, Whole(tensors, counts));
  return tensors.Append(Op::kGroupedLinear, {x, weight, counts});
}

}  // namespace

const OpRules& IndexRules() {
  static const OpRules& rules = *new OpRules{
      {"topk", TopK},
      {"sort", Sort},
      {"argsort", Sort},
      {"max", Extreme},
      {"min", Extreme},
      {"argmax", Extreme},
      {"argmin", Extreme},
      {"one_hot", OneHot},
      {"histc", Histogram},
      {"gather", Gather},
      {"scatter", Scatter},
      {"scatter_add", Scatter},
      {"index_add", Indexed},
      {"index_copy", Indexed},
      {"index_fill", Indexed},
      {"index", Index},
      {"index_put", IndexPut},
      {"slice_scatter", SliceScatter},
      {"select_scatter", SelectScatter},
      {"transformers.grouped_mm_fallback", GroupedProduct},
      {"_grouped_mm", GroupedProduct},
  };
  return rules;
}

}  // namespace stringline
