// Ops on tensors of any shape. Layouts are walks over the result's places, which keep the place in
// the operand beside them; functions are one loop each, chosen once for a node.
#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"
#include "stages/functions.h"

namespace stringline::cpu {
namespace {

using Shape = std::vector<int64_t>;

// Constants and parts of functions.def.
constexpr float kTwoOverRootPi = 1.1283791670955126f, kRootHalf = 0.7071067811865476f;
constexpr float kRootOfTwoPi = 0.3989422804014327f;  // 1 / sqrt(2 pi)
constexpr float kSeluScale = 1.0507009873554805f, kSeluAlpha = 1.6732632423543772f;
constexpr float kSixth = 1.0f / 6;

float Logistic(float x) { return 1 / (1 + std::exp(-x)); }
float Sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }
// log(1 + e^x)
float SoftPlus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }

using MapLoop = void (*)(const float* x, float* y, int64_t count, float a, float b);
using MapGradLoop = void (*)(const float* dy, const float* x, float* dx, int64_t count, float a,
                             float b);
using ZipLoop = void (*)(const float* l, const float* r, float* y, int64_t count, float a);
using ZipGradLoop = void (*)(const float* dy, const float* l, const float* r, float* dl, float* dr,
                             int64_t count, float a);

constexpr MapLoop kMapLoops[] = {
#define MAP(name, value, ...)                                              \
  [](const float* in, float* out, int64_t count, [[maybe_unused]] float a, \
     [[maybe_unused]] float b) {                                           \
    for (int64_t i = 0; i < count; ++i) {                                  \
      const float x = in[i];                                               \
      out[i] = value;                                                      \
    }                                                                      \
  },
#define ZIP(...)
#include "stages/functions.def"
#undef MAP
#undef ZIP
};

constexpr MapGradLoop kMapGradLoops[] = {
#define MAP(name, value, slope)                                                            \
  [](const float* dy, const float* in, float* dx, int64_t count, [[maybe_unused]] float a, \
     [[maybe_unused]] float b) {                                                           \
    for (int64_t i = 0; i < count; ++i) {                                                  \
      const float x = in[i];                                                               \
      [[maybe_unused]] const float y = value;                                              \
      dx[i] = dy[i] * (slope);                                                             \
    }                                                                                      \
  },
#define ZIP(...)
#include "stages/functions.def"
#undef MAP
#undef ZIP
};

constexpr ZipLoop kZipLoops[] = {
#define MAP(...)
#define ZIP(name, value, ...)                                                                      \
  [](const float* left, const float* right, float* out, int64_t count, [[maybe_unused]] float a) { \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      const float l = left[i], r = right[i];                                                       \
      out[i] = value;                                                                              \
    }                                                                                              \
  },
#include "stages/functions.def"
#undef MAP
#undef ZIP
};

constexpr ZipGradLoop kZipGradLoops[] = {
#define MAP(...)
#define ZIP(name, value, slope_l, slope_r)                                                        \
  [](const float* dy, const float* left, const float* right, float* dl, float* dr, int64_t count, \
     [[maybe_unused]] float a) {                                                                  \
    for (int64_t i = 0; i < count; ++i) {                                                         \
      [[maybe_unused]] const float l = left[i], r = right[i];                                     \
      [[maybe_unused]] const float y = value;                                                     \
      dl[i] = dy[i] * (slope_l);                                                                  \
      dr[i] = dy[i] * (slope_r);                                                                  \
    }                                                                                             \
  },
#include "stages/functions.def"
#undef MAP
#undef ZIP
};

float NumberOf(const Node& node, size_t i) { return static_cast<float>(node.attributes[i]); }
size_t FunctionOf(const Node& node) { return static_cast<size_t>(node.attributes[0]); }

// By dimension, the distance of neighbours in memory.
Shape StridesOf(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Calls visit(i, at) for every place of `shape` in memory order: i counts them, and `at` is the sum
// of the place times these strides.
template <typename Visit>
void Walk(const Shape& shape, const Shape& strides, Visit visit) {
  const size_t dims = shape.size();
  Shape place(dims, 0);
  int64_t count = 1, at = 0;
  for (const int64_t size : shape) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    visit(i, at);
    for (size_t d = dims; d-- > 0;) {
      at += strides[d];
      if (++place[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      place[d] = 0;
    }
  }
}

// Strides of `small` for a walk over `large`, to which it expands.
Shape ExpandedStrides(const Shape& small, const Shape& large) {
  const Shape own = StridesOf(small);
  Shape strides(large.size(), 0);
  const size_t before = large.size() - small.size();
  for (size_t d = 0; d < small.size(); ++d) {
    strides[before + d] = small[d] == 1 ? 0 : own[d];
  }
  return strides;
}

// A tensor as (before, size, behind) a dimension.
struct Along {
  Along(const Type& type, size_t dim) : size(type.shape[dim]) {
    for (size_t d = 0; d < type.shape.size(); ++d) {
      if (d < dim) before *= type.shape[d];
      if (d > dim) behind *= type.shape[d];
    }
  }
  int64_t before = 1, size, behind = 1;
};

// Copies `count` parts along the dimension: part i of `from` at first_from + i step_from.
struct Parts {
  int64_t first = 0, step = 1;
};
void CopyParts(const float* from, const Along& a, Parts in_a, float* to, const Along& b, Parts in_b,
               int64_t count) {
  for (int64_t o = 0; o < a.before; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + (o * b.size + in_b.first + i * in_b.step) * b.behind,
                  from + (o * a.size + in_a.first + i * in_a.step) * a.behind,
                  static_cast<size_t>(a.behind) * sizeof(float));
    }
  }
}

Parts PartsOf(const Node& node) {
  return {static_cast<int64_t>(node.attributes[1]), static_cast<int64_t>(node.attributes[2])};
}

}  // namespace

// y = f(x)                                   both of one shape, y overwritten
void Run_kMap(const Node& node, In in, Out out, Accumulate, void*) {
  kMapLoops[FunctionOf(node)](in[0].f32(), out[0].f32(), out[0].type->elements(), NumberOf(node, 1),
                              NumberOf(node, 2));
}

// dx = dy f'(x)                              all of one shape, dx overwritten
void Run_kMapGrad(const Node& node, In in, Out out, Accumulate, void*) {
  kMapGradLoops[FunctionOf(node)](in[0].f32(), in[1].f32(), out[0].f32(), out[0].type->elements(),
                                  NumberOf(node, 1), NumberOf(node, 2));
}

// y = f(a, b)                                all of one shape, y overwritten
void Run_kZip(const Node& node, In in, Out out, Accumulate, void*) {
  kZipLoops[FunctionOf(node)](in[0].f32(), in[1].f32(), out[0].f32(), out[0].type->elements(),
                              NumberOf(node, 1));
}

// dy, a, b -> da, db                         all of one shape, both overwritten
void Run_kZipGrad(const Node& node, In in, Out out, Accumulate, void*) {
  kZipGradLoops[FunctionOf(node)](in[0].f32(), in[1].f32(), in[2].f32(), out[0].f32(), out[1].f32(),
                                  out[0].type->elements(), NumberOf(node, 1));
}

// The same numbers in another shape, y overwritten.
void Run_kReshape(const Node&, In in, Out out, Accumulate, void*) {
  std::copy_n(in[0].f32(), out[0].type->elements(), out[0].f32());
}

// Dimension d of y is dimension order[d] of x; y overwritten.
void Run_kPermute(const Node& node, In in, Out out, Accumulate, void*) {
  const Shape own = StridesOf(in[0].type->shape);
  Shape strides;
  for (const double dim : node.attributes) strides.push_back(own[static_cast<size_t>(dim)]);
  const float* const x = in[0].f32();
  float* const y = out[0].f32();
  Walk(out[0].type->shape, strides, [&](int64_t i, int64_t at) { y[i] = x[at]; });
}

// y repeats x; y overwritten.
void Run_kExpand(const Node&, In in, Out out, Accumulate, void*) {
  const float* const x = in[0].f32();
  float* const y = out[0].f32();
  Walk(out[0].type->shape, ExpandedStrides(in[0].type->shape, out[0].type->shape),
       [&](int64_t i, int64_t at) { y[i] = x[at]; });
}

// y sums what would be repeated, in double, each sum in memory order; y overwritten.
void Run_kSumTo(const Node&, In in, Out out, Accumulate, void*) {
  const Shape &from = in[0].type->shape, &to = out[0].type->shape;
  const Shape strides = StridesOf(from), kept = ExpandedStrides(to, from);
  Shape outer, outer_strides, inner, inner_strides;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool sums = kept[d] == 0 && from[d] != 1;
    (sums ? inner : outer).push_back(from[d]);
    (sums ? inner_strides : outer_strides).push_back(strides[d]);
  }
  const float* const x = in[0].f32();
  float* const y = out[0].f32();
  Walk(outer, outer_strides, [&](int64_t i, int64_t begin) {
    double sum = 0;
    Walk(inner, inner_strides,
         [&](int64_t, int64_t at) { sum += static_cast<double>(x[begin + at]); });
    y[i] = static_cast<float>(sum);
  });
}

// Parts of x; y overwritten.
void Run_kTake(const Node& node, In in, Out out, Accumulate, void*) {
  const auto dim = static_cast<size_t>(node.attributes[0]);
  const Along a(*in[0].type, dim), b(*out[0].type, dim);
  CopyParts(in[0].f32(), a, PartsOf(node), out[0].f32(), b, {}, b.size);
}

// x among zeros; y overwritten.
void Run_kPut(const Node& node, In in, Out out, Accumulate, void*) {
  const auto dim = static_cast<size_t>(node.attributes[0]);
  const Along a(*in[0].type, dim), b(*out[0].type, dim);
  std::fill_n(out[0].f32(), out[0].type->elements(), 0.0f);
  CopyParts(in[0].f32(), a, {}, out[0].f32(), b, PartsOf(node), a.size);
}

// The parts of a, then those of b; y overwritten.
void Run_kJoin(const Node& node, In in, Out out, Accumulate, void*) {
  const auto dim = static_cast<size_t>(node.attributes[0]);
  const Along y(*out[0].type, dim);
  int64_t first = 0;
  for (const Tensor& tensor : in) {
    const Along part(*tensor.type, dim);
    CopyParts(tensor.f32(), part, {}, out[0].f32(), y, {first, 1}, part.size);
    first += part.size;
  }
}

// a (..,M,K), b (..,K,N) -> y (..,M,N), overwritten; one product for each place before.
void Run_kMatMul(const Node& node, In in, Out out, Accumulate, void*) {
  thread_local const bool prepared = (PrepareThread(), true);
  SL_CHECK(prepared);
  const bool turn_a = node.attributes[0] != 0, turn_b = node.attributes[1] != 0;
  const Shape &a = in[0].type->shape, &b = in[1].type->shape, &y = out[0].type->shape;
  const size_t last = y.size() - 1;
  const int64_t rows = y[last - 1], columns = y[last], inner = turn_a ? a[last - 1] : a[last];
  const int64_t products = out[0].type->elements() / (rows * columns);
  for (int64_t i = 0; i < products; ++i) {
    const dnnl_status_t status =
        dnnl_sgemm(turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', rows, columns, inner, 1.0f,
                   in[0].f32() + i * rows * inner, a[last], in[1].f32() + i * inner * columns,
                   b[last], 0.0f, out[0].f32() + i * rows * columns, columns);
    SL_CHECK(status == dnnl_success) << status;
  }
}

// y = e^(x - max) / sum, or its logarithm; of a row of -inf 0. y overwritten.
void Run_kSoftmax(const Node& node, In in, Out out, Accumulate, void*) {
  const bool log = node.attributes[0] != 0;
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  for (int64_t n = 0; n < rows; ++n) {
    const float* const x = in[0].f32() + n * columns;
    float* const y = out[0].f32() + n * columns;
    const float most = *std::max_element(x, x + columns);
    if (most == -std::numeric_limits<float>::infinity()) {
      std::fill_n(y, columns, 0.0f);
      continue;
    }
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      y[c] = std::exp(x[c] - most);
      sum += static_cast<double>(y[c]);
    }
    const auto scale = static_cast<float>(1 / sum), shift = static_cast<float>(std::log(sum));
    for (int64_t c = 0; c < columns; ++c) y[c] = log ? x[c] - most - shift : y[c] * scale;
  }
}

// dx = y (dy - sum of y dy), or dy - e^y times the sum of dy; dx overwritten.
void Run_kSoftmaxGrad(const Node& node, In in, Out out, Accumulate, void*) {
  const bool log = node.attributes[0] != 0;
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  for (int64_t n = 0; n < rows; ++n) {
    const float *const dy = in[0].f32() + n * columns, *const y = in[1].f32() + n * columns;
    float* const dx = out[0].f32() + n * columns;
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += static_cast<double>(log ? dy[c] : y[c] * dy[c]);
    const auto all = static_cast<float>(sum);
    for (int64_t c = 0; c < columns; ++c) {
      dx[c] = log ? dy[c] - std::exp(y[c]) * all : y[c] * (dy[c] - all);
    }
  }
}

// The node's numbers, behind the sizes; y overwritten.
void Run_kNumbers(const Node& node, In, Out out, Accumulate, void*) {
  const double* const values = node.attributes.data() + 2 + out[0].type->shape.size();
  const int64_t count = out[0].type->elements();
  if (out[0].type->dtype == DType::kI32) {
    for (int64_t i = 0; i < count; ++i) out[0].i32()[i] = static_cast<int32_t>(values[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[0].f32()[i] = static_cast<float>(values[i]);
  }
}

}  // namespace stringline::cpu
