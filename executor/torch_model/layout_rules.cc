// Layouts are ops that copy: a value of ours has no views.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;
using Made = TensorNodes::Made;

const Sizes& SizesOfResult(const TorchOperands& in, const TorchNode& node, size_t output) {
  return in.graph().Sizes(node.outputs[output]);
}

Made Reshape(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  return in.tensors().Reshape(x, SizesOfResult(in, node, output));
}

Made Expand(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  return in.tensors().Expand(x, SizesOfResult(in, node, output));
}

Made Permute(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes& sizes = in.tensors().SizesOf(x);
  Sizes order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (node.op == "permute") {
    order = node.Ints("dims");
    for (int64_t& dim : order) dim = DimensionOf(dim, sizes.size());
    if (order.size() != sizes.size() || std::count(order.begin(), order.end(), -1) > 0) {
      return in.graph().Unknown(node, "its dims are not those of the value");
    }
  } else if (node.op == "t" || node.op == "numpy_T") {
    std::reverse(order.begin(), order.end());
  } else {
    SL_ASSIGN_OR_RETURN(const int64_t a, in.Dimension(node, "dim0", 0, sizes));
    SL_ASSIGN_OR_RETURN(const int64_t b, in.Dimension(node, "dim1", 1, sizes));
    std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  }
  return in.tensors().Permute(x, order);
}

Made Slice(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, sizes));
  const int64_t size = sizes[static_cast<size_t>(dim)];
  auto start = static_cast<int64_t>(node.Number("start", 0));
  if (start < 0) start = std::max<int64_t>(0, start + size);
  return in.tensors().Take(x, dim, start, static_cast<int64_t>(node.Number("step", 1)),
                           SizesOfResult(in, node, output)[static_cast<size_t>(dim)]);
}

Made Select(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  const Sizes sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, sizes));
  int64_t index = node.op == "unbind" ? static_cast<int64_t>(output)
                                      : static_cast<int64_t>(node.Number("index", 0));
  if (index < 0) index += sizes[static_cast<size_t>(dim)];
  SL_ASSIGN_OR_RETURN(x, in.tensors().Take(x, dim, index, 1, 1));
  return in.tensors().Reshape(x, SizesOfResult(in, node, output));
}

// The parts of split, split_with_sizes and chunk stand one behind the other.
Made SplitPart(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, in.tensors().SizesOf(x)));
  const auto size_of = [&](size_t part) {
    return SizesOfResult(in, node, part)[static_cast<size_t>(dim)];
  };
  int64_t first = 0;
  for (size_t part = 0; part < output; ++part) first += size_of(part);
  return in.tensors().Take(x, dim, first, 1, size_of(output));
}

// cat, and stack, along a new dimension.
Made Join(TorchOperands& in, const TorchNode& node, size_t output) {
  const Sizes& sizes = SizesOfResult(in, node, output);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, sizes));
  std::vector<ValueId> parts;
  const TorchArgument* const tensors = node.Find("tensors");
  if (tensors == nullptr || tensors->tensors.empty()) return in.graph().Unknown(node);
  for (const std::string& tensor : tensors->tensors) {
    const Sizes& own = in.graph().Sizes(tensor);
    if (std::count(own.begin(), own.end(), 0) > 0) continue;
    SL_ASSIGN_OR_RETURN(ValueId part, in.Value(tensor));
    if (node.op == "stack") {
      Sizes one = sizes;
      one[static_cast<size_t>(dim)] = 1;
      SL_ASSIGN_OR_RETURN(part, in.tensors().Reshape(part, one));
    }
    parts.push_back(part);
  }
  if (parts.empty()) return in.graph().Unknown(node, "of nothing");
  return in.tensors().Join(parts, dim);
}

// Zeros around a value, or less of it; the last dimensions come first.
Made Pad(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  if (node.Number("value", 0) != 0) return in.graph().Unknown(node, "it pads with other than 0");
  const Sizes pad = node.Ints("pad");
  const size_t dims = in.tensors().SizesOf(x).size();
  if (pad.size() % 2 != 0 || pad.size() > 2 * dims) return in.graph().Unknown(node);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const auto dim = static_cast<int64_t>(dims - 1 - i);
    const int64_t before = pad[2 * i], behind = pad[2 * i + 1];
    int64_t size = in.tensors().SizesOf(x)[static_cast<size_t>(dim)];
    const int64_t cut_before = std::max<int64_t>(0, -before);
    const int64_t kept = size - cut_before - std::max<int64_t>(0, -behind);
    SL_ASSIGN_OR_RETURN(x, in.tensors().Take(x, dim, cut_before, 1, kept));
    size = kept + std::max<int64_t>(0, before) + std::max<int64_t>(0, behind);
    if (size == kept) continue;
    SL_ASSIGN_OR_RETURN(x, in.tensors().Append(Op::kPut, {x},
                                               {static_cast<double>(dim),
                                                static_cast<double>(std::max<int64_t>(0, before)),
                                                1, static_cast<double>(size)}));
  }
  return x;
}

// The last `shift` parts come before the others.
Made Roll(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  const Sizes shifts = node.Ints("shifts"), dims = node.Ints("dims");
  if (shifts.size() != dims.size()) return in.graph().Unknown(node, "without dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = DimensionOf(dims[i], in.tensors().SizesOf(x).size());
    if (dim < 0) return in.graph().Unknown(node, "its dims are not those of the value");
    const int64_t size = in.tensors().SizesOf(x)[static_cast<size_t>(dim)];
    const int64_t shift = (shifts[i] % size + size) % size;
    if (shift == 0) continue;
    SL_ASSIGN_OR_RETURN(const ValueId last, in.tensors().Take(x, dim, size - shift, 1, shift));
    SL_ASSIGN_OR_RETURN(const ValueId first, in.tensors().Take(x, dim, 0, 1, size - shift));
    SL_ASSIGN_OR_RETURN(x, in.tensors().Join({last, first}, dim));
  }
  return x;
}

Made RepeatEach(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const std::optional<double> repeats = NumberOf(node, "repeats");
  if (!repeats || node.Find("dim") == nullptr) return in.graph().Unknown(node);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, in.tensors().SizesOf(x)));
  return in.tensors().RepeatEach(x, dim, static_cast<int64_t>(*repeats));
}

// The whole value so many times along each dimension.
Made Repeat(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  const Sizes repeats = node.Ints("repeats");
  Sizes own = in.tensors().SizesOf(x);
  if (repeats.size() < own.size()) return in.graph().Unknown(node);
  own.insert(own.begin(), repeats.size() - own.size(), 1);
  Sizes apart, whole;
  for (size_t d = 0; d < own.size(); ++d) {
    apart.insert(apart.end(), {1, own[d]});
    whole.insert(whole.end(), {repeats[d], own[d]});
  }
  SL_ASSIGN_OR_RETURN(x, in.tensors().Reshape(x, apart));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Expand(x, whole));
  return in.tensors().Reshape(x, SizesOfResult(in, node, output));
}

// Parts along a dimension, by their numbers, as rows of a table.
Made IndexSelect(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", 0, tensors.SizesOf(x)));
  SL_ASSIGN_OR_RETURN(const ValueId at, in.Indices(node.Tensor("index")));
  SL_ASSIGN_OR_RETURN(x, tensors.Swap(x, 0, dim));
  Sizes sizes = tensors.SizesOf(x);
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, {sizes[0], tensors.ElementsOf(x) / sizes[0]}));
  SL_ASSIGN_OR_RETURN(x, tensors.Append(Op::kEmbedding, {at, x}));
  sizes[0] = tensors.ElementsOf(at);
  SL_ASSIGN_OR_RETURN(x, tensors.Reshape(x, sizes));
  return tensors.Swap(x, 0, dim);
}

}  // namespace

const OpRules& LayoutRules() {
  static const OpRules& rules = *new OpRules{
      {"reshape", Reshape},
      {"view", Reshape},
      {"view_as", Reshape},
      {"reshape_as", Reshape},
      {"_unsafe_view", Reshape},
      {"flatten", Reshape},
      {"unflatten", Reshape},
      {"squeeze", Reshape},
      {"unsqueeze", Reshape},
      {"clone", Reshape},
      {"contiguous", Reshape},
      {"alias", Reshape},
      {"expand", Expand},
      {"expand_as", Expand},
      {"broadcast_to", Expand},
      {"permute", Permute},
      {"transpose", Permute},
      {"t", Permute},
      {"numpy_T", Permute},
      {"slice", Slice},
      {"select", Select},
      {"unbind", Select},
      {"split", SplitPart},
      {"split_with_sizes", SplitPart},
      {"chunk", SplitPart},
      {"cat", Join},
      {"stack", Join},
      {"pad", Pad},
      {"constant_pad_nd", Pad},
      {"roll", Roll},
      {"repeat_interleave", RepeatEach},
      {"repeat", Repeat},
      {"index_select", IndexSelect},
  };
  return rules;
}

}  // namespace stringline
