// Shape rules of the ops on tensors of any shape.
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/functions.h"
#include "stages/shapes.h"
#include "stages/text.h"
#include "stages/windows.h"

namespace stringline {
namespace {

using Shape = std::vector<int64_t>;

constexpr double kMostOfTensor = 2147483648.0;

absl::Status TensorMisfit(absl::string_view what, InputTypes in) {
  std::string seen;
  for (const Type& type : in) absl::StrAppend(&seen, seen.empty() ? "" : ", ", PrintType(type));
  return absl::InvalidArgumentError(absl::StrCat(what, ", seen: ", seen));
}

absl::Status CheckF32(absl::string_view op, InputTypes in) {
  for (const Type& type : in) {
    if (type.dtype != DType::kF32) return TensorMisfit(absl::StrCat(op, " computes in f32"), in);
  }
  return absl::OkStatus();
}

bool IsCount(double value, double least) {
  return value >= least && value <= kMostOfTensor && value == std::floor(value);
}

absl::Status CheckFunction(absl::string_view op, double function, int functions) {
  if (IsCount(function, 0) && function < functions) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(op, " with function ", function));
}

absl::StatusOr<Shape> SizesIn(absl::string_view op, Attributes attributes) {
  Shape shape;
  double elements = 1;
  for (const double size : attributes) {
    if (!IsCount(size, 1)) return absl::InvalidArgumentError(absl::StrCat(op, " to size ", size));
    shape.push_back(static_cast<int64_t>(size));
    elements *= size;
  }
  if (elements <= kMostOfTensor) return shape;
  return absl::InvalidArgumentError(absl::StrCat(op, " to more than 2^31 elements"));
}

absl::StatusOr<size_t> DimensionIn(absl::string_view op, double dim, InputTypes in) {
  if (IsCount(dim, 0) && dim < static_cast<double>(in[0].shape.size())) {
    return static_cast<size_t>(dim);
  }
  return TensorMisfit(absl::StrCat(op, " along dimension ", dim), in);
}

InferredTypes One(Shape shape) { return std::vector<Type>{{DType::kF32, std::move(shape)}}; }

// True if `small` can be expanded to `large`.
bool Expands(const Shape& small, const Shape& large) {
  if (small.size() > large.size()) return false;
  const size_t before = large.size() - small.size();
  for (size_t d = 0; d < small.size(); ++d) {
    if (small[d] != 1 && small[d] != large[before + d]) return false;
  }
  return true;
}

// The windows, which fit somewhere; `dims` dimensions at least, beside those that slide.
absl::StatusOr<std::vector<Window>> WindowsIn(absl::string_view op, Attributes attributes,
                                              size_t dims, InputTypes in) {
  constexpr size_t kMostDims = 3;
  if (attributes.empty() || attributes.size() % Window::kNumbers != 0 ||
      attributes.size() > kMostDims * Window::kNumbers) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, " with ", attributes.size(), " numbers of windows"));
  }
  for (const double number : attributes) {
    if (!IsCount(number, 0)) return TensorMisfit(absl::StrCat(op, " with window ", number), in);
  }
  std::vector<Window> windows = WindowsOf(attributes);
  if (in[0].shape.size() < windows.size() + dims) {
    return TensorMisfit(absl::StrCat(op, " over ", windows.size(), " dimensions"), in);
  }
  for (const Window& of : windows) {
    if (of.size < 1 || of.kernel < 1 || of.stride < 1 || of.dilation < 1 || of.places() < 1) {
      return TensorMisfit(absl::StrCat(op, " with a kernel that does not fit"), in);
    }
  }
  return windows;
}

// The shape with sizes in place of its last dimensions.
Shape WithLast(const Shape& shape, const std::vector<Window>& windows, bool places) {
  Shape with = shape;
  for (size_t w = 0; w < windows.size(); ++w) {
    with[shape.size() - windows.size() + w] = places ? windows[w].places() : windows[w].size;
  }
  return with;
}

// The shape of a convolution's kernels for so many channels in groups: w (O,C/G,K).
Shape KernelOf(int64_t out, int64_t in, int64_t groups, const std::vector<Window>& windows) {
  Shape shape = {out, in / groups};
  for (const Window& of : windows) shape.push_back(of.kernel);
  return shape;
}

struct Sliding {
  int64_t groups;
  std::vector<Window> windows;
};

// The attributes of convolutions, whose first input is (B,C,…).
absl::StatusOr<Sliding> SlidingIn(absl::string_view op, InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32(op, in));
  SL_ASSIGN_OR_RETURN(auto windows, WindowsIn(op, attributes.subspan(1), 2, in));
  if (!IsCount(attributes[0], 1) || in[0].shape.size() != windows.size() + 2) {
    return TensorMisfit(absl::StrCat(op, " of ", attributes[0], " groups"), in);
  }
  return Sliding{static_cast<int64_t>(attributes[0]), std::move(windows)};
}

}  // namespace

InferredTypes ShapeOfMap(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("map", in));
  SL_RETURN_IF_ERROR(CheckFunction("map", attributes[0], kMapFunctions));
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfMapGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("map_grad", in));
  SL_RETURN_IF_ERROR(CheckFunction("map_grad", attributes[0], kMapFunctions));
  if (in[0] != in[1]) return TensorMisfit("map_grad wants dy and x of one shape", in);
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfZip(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("zip", in));
  SL_RETURN_IF_ERROR(CheckFunction("zip", attributes[0], kZipFunctions));
  if (in[0] != in[1]) return TensorMisfit("zip wants two inputs of one shape", in);
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfZipGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("zip_grad", in));
  SL_RETURN_IF_ERROR(CheckFunction("zip_grad", attributes[0], kZipFunctions));
  if (in[0] != in[1] || in[0] != in[2])
    return TensorMisfit("zip_grad wants inputs of one shape", in);
  return std::vector<Type>{in[0], in[0]};
}

InferredTypes ShapeOfReshape(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("reshape", in));
  SL_ASSIGN_OR_RETURN(Shape shape, SizesIn("reshape", attributes));
  const Type made{DType::kF32, shape};
  if (made.elements() == in[0].elements()) return One(std::move(shape));
  return TensorMisfit(absl::StrCat("reshape to ", PrintType(made), " wants as many numbers"), in);
}

InferredTypes ShapeOfPermute(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("permute", in));
  Shape shape;
  std::vector<bool> met(in[0].shape.size(), false);
  for (const double dim : attributes) {
    SL_ASSIGN_OR_RETURN(const size_t d, DimensionIn("permute", dim, in));
    if (met[d]) return TensorMisfit("permute wants each dimension once", in);
    met[d] = true;
    shape.push_back(in[0].shape[d]);
  }
  if (shape.size() != met.size()) return TensorMisfit("permute wants every dimension", in);
  return One(std::move(shape));
}

InferredTypes ShapeOfExpand(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("expand", in));
  SL_ASSIGN_OR_RETURN(Shape shape, SizesIn("expand", attributes));
  if (Expands(in[0].shape, shape)) return One(std::move(shape));
  return TensorMisfit(
      absl::StrCat("expand to ", PrintType({DType::kF32, shape}), " wants sizes of 1 or the same"),
      in);
}

InferredTypes ShapeOfSumTo(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("sum_to", in));
  SL_ASSIGN_OR_RETURN(Shape shape, SizesIn("sum_to", attributes));
  if (Expands(shape, in[0].shape)) return One(std::move(shape));
  return TensorMisfit(absl::StrCat("sum_to ", PrintType({DType::kF32, shape}),
                                   " wants sizes that expand to the input's"),
                      in);
}

InferredTypes ShapeOfTake(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("take", in));
  SL_ASSIGN_OR_RETURN(const size_t dim, DimensionIn("take", attributes[0], in));
  const double first = attributes[1], step = attributes[2], count = attributes[3];
  if (!IsCount(first, 0) || !IsCount(step, 1) || !IsCount(count, 1) ||
      first + step * (count - 1) >= static_cast<double>(in[0].shape[dim])) {
    return TensorMisfit(absl::StrCat("take of ", count, " parts from ", first, " by ", step), in);
  }
  Shape shape = in[0].shape;
  shape[dim] = static_cast<int64_t>(count);
  return One(std::move(shape));
}

InferredTypes ShapeOfPut(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("put", in));
  SL_ASSIGN_OR_RETURN(const size_t dim, DimensionIn("put", attributes[0], in));
  const double first = attributes[1], step = attributes[2], size = attributes[3];
  const auto count = static_cast<double>(in[0].shape[dim]);
  if (!IsCount(first, 0) || !IsCount(step, 1) || !IsCount(size, 1) ||
      first + step * (count - 1) >= size) {
    return TensorMisfit(absl::StrCat("put from ", first, " by ", step, " into ", size, " parts"),
                        in);
  }
  Shape shape = in[0].shape;
  shape[dim] = static_cast<int64_t>(size);
  return One(std::move(shape));
}

InferredTypes ShapeOfJoin(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("join", in));
  SL_ASSIGN_OR_RETURN(const size_t dim, DimensionIn("join", attributes[0], in));
  Shape a = in[0].shape, b = in[1].shape;
  if (a.size() != b.size()) return TensorMisfit("join wants as many dimensions", in);
  const int64_t size = a[dim] + b[dim];
  a[dim] = b[dim] = size;
  if (a != b) return TensorMisfit("join wants the same sizes in the other dimensions", in);
  return One(std::move(a));
}

InferredTypes ShapeOfMatMul(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("matmul", in));
  Shape a = in[0].shape, b = in[1].shape;
  if (a.size() < 2 || a.size() != b.size())
    return TensorMisfit("matmul wants stacks of matrices", in);
  const size_t row = a.size() - 2, column = a.size() - 1;
  if (attributes[0] != 0) std::swap(a[row], a[column]);
  if (attributes[1] != 0) std::swap(b[row], b[column]);
  const int64_t columns = b[column];
  if (a[column] != b[row] || Shape(a.begin(), a.end() - 2) != Shape(b.begin(), b.end() - 2)) {
    return TensorMisfit("matmul wants (..,M,K) and (..,K,N)", in);
  }
  a[column] = columns;
  return One(std::move(a));
}

InferredTypes ShapeOfSoftmax(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckF32("softmax", in));
  if (in[0].shape.empty()) return TensorMisfit("softmax wants a dimension", in);
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfSoftmaxGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckF32("softmax_grad", in));
  if (in[0] != in[1] || in[0].shape.empty()) {
    return TensorMisfit("softmax_grad wants dy and y of one shape", in);
  }
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfWhole(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckF32("whole", in));
  return std::vector<Type>{{DType::kI32, in[0].shape}};
}

InferredTypes ShapeOfFloat(InputTypes in, Attributes) {
  if (in[0].dtype != DType::kI32) return TensorMisfit("float wants i32", in);
  return One(in[0].shape);
}

InferredTypes ShapeOfTopK(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("top_k", in));
  Shape shape = in[0].shape;
  if (shape.empty() || !IsCount(attributes[0], 1) ||
      attributes[0] > static_cast<double>(shape.back())) {
    return TensorMisfit(absl::StrCat("top_k of ", attributes[0]), in);
  }
  shape.back() = static_cast<int64_t>(attributes[0]);
  return std::vector<Type>{{DType::kF32, shape}, {DType::kI32, shape}};
}

InferredTypes ShapeOfGather(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("gather", in.subspan(0, 1)));
  SL_ASSIGN_OR_RETURN(const size_t dim, DimensionIn("gather", attributes[0], in));
  Shape shape = in[0].shape;
  if (in[1].dtype == DType::kI32 && in[1].shape.size() == shape.size()) {
    shape[dim] = in[1].shape[dim];
    if (in[1].shape == shape) return One(std::move(shape));
  }
  return TensorMisfit("gather wants i32 indices of the same other sizes", in);
}

InferredTypes ShapeOfScatter(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("scatter", in.subspan(0, 1)));
  SL_ASSIGN_OR_RETURN(const size_t dim, DimensionIn("scatter", attributes[0], in));
  if (in[1] != Type{DType::kI32, in[0].shape}) {
    return TensorMisfit("scatter wants i32 indices of the same sizes", in);
  }
  if (!IsCount(attributes[1], 1)) {
    return TensorMisfit(absl::StrCat("scatter into ", attributes[1], " parts"), in);
  }
  Shape shape = in[0].shape;
  shape[dim] = static_cast<int64_t>(attributes[1]);
  return One(std::move(shape));
}

InferredTypes ShapeOfPaddedEmbedding(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("padded_embedding", in.subspan(1)));
  if (in[1].shape.empty() || !IsCount(attributes[0], 0) ||
      attributes[0] >= static_cast<double>(in[1].shape[0])) {
    return TensorMisfit(absl::StrCat("padded_embedding of row ", attributes[0]), in);
  }
  return ShapeOfEmbedding(in, {});
}

InferredTypes ShapeOfPaddedEmbeddingGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("padded_embedding_grad", in.subspan(1)));
  if (!IsCount(attributes[1], 0) || attributes[1] >= attributes[0]) {
    return TensorMisfit(absl::StrCat("padded_embedding_grad of row ", attributes[1]), in);
  }
  return ShapeOfEmbeddingGrad(in, attributes.subspan(0, 1));
}

InferredTypes ShapeOfBatchNorm(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckF32("batch_norm", in));
  const Shape& x = in[0].shape;
  const bool has_channels = x.size() >= 2 && in[0].elements() > x[1];
  const Shape channels = {has_channels ? x[1] : 0};
  for (const Type& of : in.subspan(1)) {
    if (of.shape != channels) {
      return TensorMisfit("batch_norm wants x (B,C,..) of several numbers a channel, and (C)", in);
    }
  }
  return std::vector<Type>{in[0], in[1], in[1]};
}

InferredTypes ShapeOfBatchNormGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckF32("batch_norm_grad", in));
  const Shape& x = in[1].shape;
  const Shape channels = {x.size() < 2 ? 0 : x[1]};
  const bool fits = in[0] == in[1] && in[2].shape == channels && in[3].shape == channels &&
                    in[4].shape == channels;
  if (!fits) return TensorMisfit("batch_norm_grad wants dy and x (B,C,..), and (C)", in);
  return std::vector<Type>{in[0], in[2], in[2], in[2], in[2]};
}

InferredTypes ShapeOfFloatOfBits(InputTypes in, Attributes) {
  if (in[0].dtype != DType::kI32) return TensorMisfit("float_of_bits wants i32", in);
  return One(in[0].shape);
}

InferredTypes ShapeOfDropout(InputTypes in, Attributes attributes) {
  const double p = attributes[0];
  SL_RETURN_IF_ERROR(CheckF32("dropout", in.subspan(0, 1)));
  if (in[1] != Type{DType::kI32, {4}}) return TensorMisfit("dropout wants a key i32[4]", in);
  if (!(p >= 0 && p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout of ", p, ", which is no probability from 0 to 1"));
  }
  if (!IsCount(attributes[1], 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout with site ", attributes[1], ", which is no number of an op"));
  }
  return One(in[0].shape);
}

InferredTypes ShapeOfConvolution(InputTypes in, Attributes attributes) {
  SL_ASSIGN_OR_RETURN(const Sliding of, SlidingIn("convolution", in, attributes));
  const Shape &x = in[0].shape, &w = in[1].shape;
  const int64_t channels = x[1], out = w.empty() ? 0 : w[0];
  if (x != WithLast(x, of.windows, false) || channels % of.groups != 0 || out % of.groups != 0 ||
      w != KernelOf(out, channels, of.groups, of.windows)) {
    return TensorMisfit("convolution wants x (B,C,D) and w (O,C/G,K)", in);
  }
  Shape y = WithLast(x, of.windows, true);
  y[1] = out;
  return One(std::move(y));
}

InferredTypes ShapeOfConvolutionInputGrad(InputTypes in, Attributes attributes) {
  SL_ASSIGN_OR_RETURN(const Sliding of, SlidingIn("convolution_input_grad", in, attributes));
  const Shape &dy = in[0].shape, &w = in[1].shape;
  const int64_t channels = w.size() < 2 ? 0 : w[1] * of.groups;
  if (dy != WithLast(dy, of.windows, true) || dy[1] % of.groups != 0 ||
      w != KernelOf(dy[1], channels, of.groups, of.windows)) {
    return TensorMisfit("convolution_input_grad wants dy (B,O,L) and w (O,C/G,K)", in);
  }
  Shape dx = WithLast(dy, of.windows, false);
  dx[1] = channels;
  return One(std::move(dx));
}

InferredTypes ShapeOfConvolutionWeightGrad(InputTypes in, Attributes attributes) {
  SL_ASSIGN_OR_RETURN(const Sliding of, SlidingIn("convolution_weight_grad", in, attributes));
  const Shape &dy = in[0].shape, &x = in[1].shape;
  if (x.size() != dy.size() || x[0] != dy[0] || dy != WithLast(dy, of.windows, true) ||
      x != WithLast(x, of.windows, false) || x[1] % of.groups != 0 || dy[1] % of.groups != 0) {
    return TensorMisfit("convolution_weight_grad wants dy (B,O,L) and x (B,C,D)", in);
  }
  return One(KernelOf(dy[1], x[1], of.groups, of.windows));
}

InferredTypes ShapeOfMaxPool(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("max_pool", in));
  SL_ASSIGN_OR_RETURN(const auto windows, WindowsIn("max_pool", attributes, 0, in));
  for (const Window& of : windows) {
    // A window has a number of x where it begins at most at the last one, and ends at the first.
    const int64_t last = (of.places() - 1) * of.stride - of.before;
    if (of.before >= of.reach() || last >= of.size || of.dilation > of.size) {
      return TensorMisfit("max_pool with a window of padding alone", in);
    }
  }
  const Shape& x = in[0].shape;
  if (x != WithLast(x, windows, false)) return TensorMisfit("max_pool of other sizes", in);
  const Shape y = WithLast(x, windows, true);
  return std::vector<Type>{{DType::kF32, y}, {DType::kI32, y}};
}

InferredTypes ShapeOfMaxPoolGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckF32("max_pool_grad", in.subspan(0, 1)));
  SL_ASSIGN_OR_RETURN(const auto windows, WindowsIn("max_pool_grad", attributes, 0, in));
  const Shape& dy = in[0].shape;
  if (in[1].dtype != DType::kI32 || in[1].shape != dy || dy != WithLast(dy, windows, true)) {
    return TensorMisfit("max_pool_grad wants dy (..,L) and places i32 (..,L)", in);
  }
  return One(WithLast(dy, windows, false));
}

InferredTypes ShapeOfNumbers(InputTypes, Attributes attributes) {
  const Attributes rest = attributes.subspan(2);
  if (!IsCount(attributes[1], 0) || attributes[1] > static_cast<double>(rest.size())) {
    return absl::InvalidArgumentError(absl::StrCat("numbers of ", attributes[1], " dimensions"));
  }
  const auto dims = static_cast<size_t>(attributes[1]);
  SL_ASSIGN_OR_RETURN(Shape shape, SizesIn("numbers", rest.subspan(0, dims)));
  const Type made{attributes[0] != 0 ? DType::kI32 : DType::kF32, std::move(shape)};
  if (made.elements() != static_cast<int64_t>(rest.size() - dims)) {
    return absl::InvalidArgumentError(
        absl::StrCat(rest.size() - dims, " numbers for ", PrintType(made)));
  }
  return std::vector<Type>{made};
}

}  // namespace stringline
