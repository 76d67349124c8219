// Convolutions by products of matrices: the windows of one sequence and group become the columns
// of a matrix in the workspace. Poolings walk over the windows.
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"
#include "stages/windows.h"

namespace stringline::cpu {
namespace {

constexpr size_t kDims = 3;  // fewer begin with dimensions of size 1

// The windows over three dimensions.
struct Windows {
  explicit Windows(absl::Span<const double> attributes) {
    const std::vector<Window> given = WindowsOf(attributes);
    SL_CHECK(given.size() <= kDims) << given.size();
    std::copy(given.begin(), given.end(), along.end() - static_cast<std::ptrdiff_t>(given.size()));
    for (const Window& of : along) {
      size *= of.size;
      kernel *= of.kernel;
      places *= of.places();
      plain = plain && of.kernel == 1 && of.stride == 1 && of.before == 0 && of.behind == 0;
    }
  }

  std::array<Window, kDims> along;
  int64_t size = 1, kernel = 1, places = 1;  // products over the dimensions
  bool plain = true;                         // each window is its place of x
};

// Calls visit(column, places, at, step) for the places of a row of the result that read x at
// at, at + step, … for one place of the kernel; pad(column, places) for those that read padding.
template <typename Visit, typename Pad>
void WalkPlaces(const Windows& of, const std::array<int64_t, kDims>& kernel, Visit visit, Pad pad) {
  const Window &a = of.along[0], &b = of.along[1], &c = of.along[2];
  const int64_t first = kernel[2] * c.dilation - c.before, places = c.places();
  // The places i with 0 <= first + i stride < size.
  const int64_t begin = first >= 0 ? 0 : std::min(places, (-first + c.stride - 1) / c.stride);
  const int64_t end = first >= c.size
                          ? begin
                          : std::max(begin, std::min(places, (c.size - 1 - first) / c.stride + 1));
  int64_t column = 0;
  for (int64_t i = 0; i < a.places(); ++i) {
    const int64_t at_a = i * a.stride - a.before + kernel[0] * a.dilation;
    for (int64_t j = 0; j < b.places(); ++j, column += places) {
      const int64_t at_b = j * b.stride - b.before + kernel[1] * b.dilation;
      if (at_a < 0 || at_a >= a.size || at_b < 0 || at_b >= b.size) {
        pad(column, places);
        continue;
      }
      pad(column, begin);
      visit(column + begin, end - begin, (at_a * b.size + at_b) * c.size + first + begin * c.stride,
            c.stride);
      pad(column + end, places - end);
    }
  }
}

// Calls visit(row, kernel) for each place of the kernel, in memory order.
template <typename Visit>
void WalkKernel(const Windows& of, Visit visit) {
  int64_t row = 0;
  for (int64_t i = 0; i < of.along[0].kernel; ++i) {
    for (int64_t j = 0; j < of.along[1].kernel; ++j) {
      for (int64_t k = 0; k < of.along[2].kernel; ++k) {
        visit(row++, std::array<int64_t, kDims>{i, j, k});
      }
    }
  }
}

// columns[(c, k), l] = what place l reads of channel c at place k of the kernel; 0 for padding.
void Unfold(const float* x, int64_t channels, const Windows& of, float* columns) {
  for (int64_t c = 0; c < channels; ++c, x += of.size) {
    WalkKernel(of, [&](int64_t k, const std::array<int64_t, kDims>& kernel) {
      float* const row = columns + (c * of.kernel + k) * of.places;
      WalkPlaces(
          of, kernel,
          [&](int64_t column, int64_t count, int64_t at, int64_t step) {
            for (int64_t i = 0; i < count; ++i) row[column + i] = x[at + i * step];
          },
          [&](int64_t column, int64_t count) { std::fill_n(row + column, count, 0.0f); });
    });
  }
}

// Adds the columns to what Unfold reads.
void Fold(const float* columns, int64_t channels, const Windows& of, float* x) {
  for (int64_t c = 0; c < channels; ++c, x += of.size) {
    WalkKernel(of, [&](int64_t k, const std::array<int64_t, kDims>& kernel) {
      const float* const row = columns + (c * of.kernel + k) * of.places;
      WalkPlaces(
          of, kernel,
          [&](int64_t column, int64_t count, int64_t at, int64_t step) {
            for (int64_t i = 0; i < count; ++i) x[at + i * step] += row[column + i];
          },
          [](int64_t, int64_t) {});
    });
  }
}

struct Factor {
  const float* numbers;
  bool turned;
};

// c (M,N) = a b, or c += a b, with a (M,K) and b (K,N), either turned.
void Multiply(Factor a, Factor b, float* c, int64_t m, int64_t n, int64_t k, bool accumulate) {
  thread_local const bool prepared = (PrepareThread(), true);
  SL_CHECK(prepared);
  const dnnl_status_t status =
      dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', m, n, k, 1.0f, a.numbers,
                 a.turned ? m : k, b.numbers, b.turned ? k : n, accumulate ? 1.0f : 0.0f, c, n);
  SL_CHECK(status == dnnl_success) << status;
}

// A convolution's sizes: of the tensors with C and with O channels.
struct ConvolutionSizes {
  ConvolutionSizes(const Node& node, const Type& with_c, const Type& with_o)
      : windows(absl::MakeConstSpan(node.attributes).subspan(1)),
        batch(with_c.shape[0]),
        groups(static_cast<int64_t>(node.attributes[0])),
        in(with_c.shape[1] / groups),
        out(with_o.shape[1] / groups),
        rows(in * windows.kernel) {}

  // Calls visit(x, y, w) for each sequence and group, with the first numbers of each there.
  template <typename Visit>
  void Walk(Visit visit) const {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t g = 0; g < groups; ++g) {
        visit((b * groups + g) * in * windows.size, (b * groups + g) * out * windows.places,
              g * out * rows);
      }
    }
  }

  const Windows windows;
  const int64_t batch, groups, in, out;  // channels of a group
  const int64_t rows;                    // of the matrix of columns
};

// The columns of a sequence's group: x itself where each window is its place of x.
const float* ColumnsOf(const float* x, const ConvolutionSizes& of, float* columns) {
  if (of.windows.plain) return x;
  Unfold(x, of.in, of.windows, columns);
  return columns;
}

}  // namespace

int64_t ConvolutionWorkspace(const Node& node, int64_t channels_in_group) {
  const Windows of(absl::MakeConstSpan(node.attributes).subspan(1));
  return channels_in_group * of.kernel * of.places * static_cast<int64_t>(sizeof(float));
}

// y[b,o,l] = sum over c, k of w[o,c,k] x[b,c,l stride - before + k dilation]
//
// x (B,C,D), w (O,C/G,K) -> y (B,O,L), overwritten.
void Run_kConvolution(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const ConvolutionSizes of(node, *in[0].type, *out[0].type);
  auto* const columns = static_cast<float*>(workspace);
  of.Walk([&](int64_t x, int64_t y, int64_t w) {
    const float* const matrix = ColumnsOf(in[0].f32() + x, of, columns);
    Multiply({in[1].f32() + w, false}, {matrix, false}, out[0].f32() + y, of.out, of.windows.places,
             of.rows, false);
  });
}

// dy (B,O,L), w (O,C/G,K) -> dx (B,C,D), overwritten.
void Run_kConvolutionInputGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const ConvolutionSizes of(node, *out[0].type, *in[0].type);
  auto* const columns = static_cast<float*>(workspace);
  of.Walk([&](int64_t x, int64_t y, int64_t w) {
    float* const dx = out[0].f32() + x;
    Multiply({in[1].f32() + w, true}, {in[0].f32() + y, false}, of.windows.plain ? dx : columns,
             of.rows, of.windows.places, of.out, false);
    if (of.windows.plain) return;
    std::fill_n(dx, of.in * of.windows.size, 0.0f);
    Fold(columns, of.in, of.windows, dx);
  });
}

// dy (B,O,L), x (B,C,D) -> dw (O,C/G,K), overwritten or added to: sequence by sequence.
void Run_kConvolutionWeightGrad(const Node& node, In in, Out out, Accumulate accumulate,
                                void* workspace) {
  const ConvolutionSizes of(node, *in[1].type, *in[0].type);
  auto* const columns = static_cast<float*>(workspace);
  of.Walk([&](int64_t x, int64_t y, int64_t w) {
    const float* const matrix = ColumnsOf(in[1].f32() + x, of, columns);
    const bool begins = y < of.groups * of.out * of.windows.places;  // the first sequence
    Multiply({in[0].f32() + y, false}, {matrix, true}, out[0].f32() + w, of.out, of.rows,
             of.windows.places, !begins || accumulate[0]);
  });
}

// y is the largest number of each window, or its first NaN; at: its place among those of x in the
// dimensions that slide.
//
// x (..,D) -> y (..,L), at I32 (..,L), both overwritten.
void Run_kMaxPool(const Node& node, In in, Out out, Accumulate, void*) {
  const Windows of(node.attributes);
  const int64_t planes = in[0].type->elements() / of.size;
  for (int64_t p = 0; p < planes; ++p) {
    const float* const x = in[0].f32() + p * of.size;
    float* const y = out[0].f32() + p * of.places;
    int32_t* const place = out[1].i32() + p * of.places;
    std::fill_n(place, of.places, -1);
    WalkKernel(of, [&](int64_t, const std::array<int64_t, kDims>& kernel) {
      WalkPlaces(
          of, kernel,
          [&](int64_t column, int64_t count, int64_t at, int64_t step) {
            for (int64_t i = 0; i < count; ++i) {
              const float value = x[at + i * step];
              const bool takes = place[column + i] < 0 || value > y[column + i] ||
                                 (std::isnan(value) && !std::isnan(y[column + i]));
              if (!takes) continue;
              y[column + i] = value;
              place[column + i] = static_cast<int32_t>(at + i * step);
            }
          },
          [](int64_t, int64_t) {});
    });
  }
}

// dx[at[l]] = sum of dy[l]
//
// dy (..,L), at I32 (..,L) -> dx (..,D), overwritten.
void Run_kMaxPoolGrad(const Node& node, In in, Out out, Accumulate, void*) {
  const Windows of(node.attributes);
  const int64_t planes = out[0].type->elements() / of.size;
  std::fill_n(out[0].f32(), planes * of.size, 0.0f);
  for (int64_t p = 0; p < planes; ++p) {
    const float* const dy = in[0].f32() + p * of.places;
    const int32_t* const at = in[1].i32() + p * of.places;
    float* const dx = out[0].f32() + p * of.size;
    for (int64_t l = 0; l < of.places; ++l) dx[at[l]] += dy[l];
  }
}

// y has the bits of x.
void Run_kFloatOfBits(const Node&, In in, Out out, Accumulate, void*) {
  std::memcpy(out[0].f32(), in[0].i32(), static_cast<size_t>(out[0].type->bytes()));
}

}  // namespace stringline::cpu
