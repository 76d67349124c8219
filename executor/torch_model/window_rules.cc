// Convolutions have an op of ours, and so has the largest number of each window. Means of windows
// are products with matrices of averages, one along each dimension.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"
#include "stages/windows.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;
using Made = TensorNodes::Made;

// The argument's numbers along each of `dims` dimensions: one stands for all.
absl::StatusOr<Sizes> AlongEach(const TorchOperands& in, const TorchNode& node, const char* name,
                                size_t dims, int64_t otherwise) {
  const TorchArgument* const argument = node.Find(name);
  if (argument == nullptr || argument->kind == TorchArgument::Kind::kNone) {
    return Sizes(dims, otherwise);
  }
  Sizes numbers = node.Ints(name);
  if (numbers.empty() && argument->kind == TorchArgument::Kind::kInts) {
    return Sizes(dims, otherwise);
  }
  if (numbers.size() == 1) numbers.resize(dims, numbers[0]);
  if (numbers.size() == dims) return numbers;
  return in.graph().Unknown(node, absl::StrCat("its ", name, " is of other dimensions"));
}

// Padding of text: none, or as much as keeps the sizes, of which the odd one comes behind.
absl::Status PadByName(const TorchOperands& in, const TorchNode& node, const std::string& name,
                       std::vector<Window>* windows) {
  if (name == "valid") return absl::OkStatus();
  if (name != "same") return in.graph().Unknown(node, absl::StrCat("padding '", name, "'"));
  for (Window& of : *windows) {
    of.before = (of.reach() - 1) / 2;
    of.behind = of.reach() - 1 - of.before;
  }
  return absl::OkStatus();
}

// The windows over the last dimensions of x; `kernel` has their sizes.
absl::StatusOr<std::vector<Window>> WindowsOver(const TorchOperands& in, const TorchNode& node,
                                                const Sizes& x, const Sizes& kernel,
                                                bool strides_by_kernel) {
  const size_t dims = kernel.size();
  if (x.size() < dims) return in.graph().Unknown(node);
  SL_ASSIGN_OR_RETURN(Sizes stride, AlongEach(in, node, "stride", dims, 0));
  SL_ASSIGN_OR_RETURN(const Sizes dilation, AlongEach(in, node, "dilation", dims, 1));
  std::vector<Window> windows;
  for (size_t d = 0; d < dims; ++d) {
    if (stride[d] == 0) stride[d] = strides_by_kernel ? kernel[d] : 1;
    windows.push_back({.size = x[x.size() - dims + d],
                       .kernel = kernel[d],
                       .stride = stride[d],
                       .dilation = dilation[d]});
  }
  const TorchArgument* const padding = node.Find("padding");
  if (padding != nullptr && padding->kind == TorchArgument::Kind::kText) {
    SL_RETURN_IF_ERROR(PadByName(in, node, padding->text, &windows));
    return windows;
  }
  SL_ASSIGN_OR_RETURN(const Sizes pads, AlongEach(in, node, "padding", dims, 0));
  for (size_t d = 0; d < dims; ++d) windows[d].before = windows[d].behind = pads[d];
  return windows;
}

// With ceil_mode a last window may reach over the padding, if it begins before the padding behind.
void ReachOver(std::vector<Window>* windows) {
  for (Window& of : *windows) {
    const int64_t rest = of.size + of.before + of.behind - of.reach();
    int64_t places = (rest + of.stride - 1) / of.stride + 1;
    if ((places - 1) * of.stride >= of.size + of.before) --places;
    of.behind = std::max(of.behind, (places - 1) * of.stride + of.reach() - of.size - of.before);
  }
}

// x (C,D) as (1,C,D).
Made WithBatch(TorchOperands& in, ValueId x, size_t dims) {
  Sizes sizes = in.tensors().SizesOf(x);
  if (sizes.size() != dims + 1) return x;
  sizes.insert(sizes.begin(), 1);
  return in.tensors().Reshape(x, sizes);
}

Made Convolution(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  SL_ASSIGN_OR_RETURN(const ValueId weight, in.Value(node.Tensor("weight")));
  const Sizes of_weight = in.tensors().SizesOf(weight);
  if (of_weight.size() < 3) return in.graph().Unknown(node);
  const Sizes kernel(of_weight.begin() + 2, of_weight.end());
  SL_ASSIGN_OR_RETURN(x, WithBatch(in, x, kernel.size()));
  SL_ASSIGN_OR_RETURN(const auto windows,
                      WindowsOver(in, node, in.tensors().SizesOf(x), kernel, false));
  std::vector<double> attributes = AttributesOf(windows);
  attributes.insert(attributes.begin(), node.Number("groups", 1));
  SL_ASSIGN_OR_RETURN(ValueId y,
                      in.tensors().Append(Op::kConvolution, {x, weight}, std::move(attributes)));
  SL_ASSIGN_OR_RETURN(const auto bias, in.Optional(node, "bias"));
  if (bias) {
    Sizes sizes(kernel.size() + 1, 1);
    sizes[0] = of_weight[0];
    SL_ASSIGN_OR_RETURN(const ValueId shift, in.tensors().Reshape(*bias, sizes));
    SL_ASSIGN_OR_RETURN(y, in.tensors().Add(y, shift));
  }
  return in.tensors().Reshape(y, in.graph().Sizes(node.outputs[output]));
}

size_t DimensionsOf(const TorchNode& pool) {
  return static_cast<size_t>(pool.op[pool.op.size() - 2] - '0');  // "max_pool2d"
}

// The windows of a pooling.
absl::StatusOr<std::vector<Window>> PoolWindows(const TorchOperands& in, const TorchNode& node,
                                                const Sizes& x) {
  SL_ASSIGN_OR_RETURN(const Sizes kernel,
                      AlongEach(in, node, "kernel_size", DimensionsOf(node), 1));
  return WindowsOver(in, node, x, kernel, true);
}

Made MaxPool(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(auto windows, PoolWindows(in, node, in.tensors().SizesOf(x)));
  if (node.Number("ceil_mode", 0) != 0) ReachOver(&windows);
  return in.tensors().Append(Op::kMaxPool, {x}, AttributesOf(windows));
}

// The numbers that count in each window: those of x, and with `padded` those of torch's padding,
// `pad` behind.
std::vector<double> Averages(const Window& of, bool padded, int64_t pad, double divisor) {
  std::vector<double> matrix(static_cast<size_t>(of.places() * of.size));
  for (int64_t i = 0; i < of.places(); ++i) {
    const int64_t first = i * of.stride - of.before;
    const int64_t begin = std::max<int64_t>(0, first), end = std::min(of.size, first + of.kernel);
    const int64_t all = std::min(first + of.kernel, of.size + pad) - first;
    const double share =
        divisor != 0 ? 1 / divisor : 1.0 / static_cast<double>(padded ? all : end - begin);
    for (int64_t at = begin; at < end; ++at) matrix[at * of.places() + i] = share;
  }
  return matrix;
}

Made AveragePool(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(auto windows, PoolWindows(in, node, in.tensors().SizesOf(x)));
  std::vector<int64_t> pads;
  for (const Window& of : windows) pads.push_back(of.behind);
  if (node.Number("ceil_mode", 0) != 0) ReachOver(&windows);
  const bool padded = node.Number("count_include_pad", 1) != 0;
  double divisor = node.Number("divisor_override", 0);
  const size_t dims = in.tensors().SizesOf(x).size();
  for (size_t w = 0; w < windows.size(); ++w) {
    const auto dim = static_cast<int64_t>(dims - windows.size() + w);
    if (divisor != 0 && w > 0) divisor = 1;
    SL_ASSIGN_OR_RETURN(x, in.tensors().Mix(x, dim, windows[w].places(),
                                            Averages(windows[w], padded, pads[w], divisor)));
  }
  return x;
}

// Place i of n is the mean of the places from floor(i size / n) to ceil((i + 1) size / n).
Made AdaptivePool(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  const Sizes from = in.tensors().SizesOf(x), &to = in.graph().Sizes(node.outputs[output]);
  const size_t slide = DimensionsOf(node);
  if (from.size() != to.size() || from.size() < slide) return in.graph().Unknown(node);
  for (size_t d = from.size() - slide; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    std::vector<double> matrix(static_cast<size_t>(from[d] * to[d]));
    for (int64_t i = 0; i < to[d]; ++i) {
      const int64_t begin = i * from[d] / to[d], end = ((i + 1) * from[d] + to[d] - 1) / to[d];
      for (int64_t at = begin; at < end; ++at) {
        matrix[at * to[d] + i] = 1 / static_cast<double>(end - begin);
      }
    }
    SL_ASSIGN_OR_RETURN(x, in.tensors().Mix(x, static_cast<int64_t>(d), to[d], matrix));
  }
  return x;
}

}  // namespace

const OpRules& WindowRules() {
  static const OpRules& rules = *new OpRules{
      {"conv1d", Convolution},
      {"conv2d", Convolution},
      {"conv3d", Convolution},
      {"max_pool1d", MaxPool},
      {"max_pool2d", MaxPool},
      {"max_pool3d", MaxPool},
      {"avg_pool1d", AveragePool},
      {"avg_pool2d", AveragePool},
      {"avg_pool3d", AveragePool},
      {"adaptive_avg_pool1d", AdaptivePool},
      {"adaptive_avg_pool2d", AdaptivePool},
      {"adaptive_avg_pool3d", AdaptivePool},
  };
  return rules;
}

}  // namespace stringline
