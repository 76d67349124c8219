// Rotary positions (RoFormer, Su et al. 2021), with the two channels of a pair half a head apart.
//
// Only the angles of the first position and of a single step are computed: cosines and sines are
// rotated by the step's from position to position, in double, so that a million rotations err by
// less than a float's rounding.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/row_vectors.h"

namespace stringline::cpu {
namespace {

// Cosines and sines of every pair's angle, for one position after the other from `first` on.
class Turns {
 public:
  Turns(int64_t half, double theta, double direction, double first, void* workspace)
      : half_(half),
        cosines_(static_cast<float*>(workspace)),
        sines_(cosines_ + RoundUp(half)),
        now_(reinterpret_cast<double*>(sines_ + RoundUp(half))),
        step_(now_ + 2 * half) {
    std::fill_n(cosines_, 2 * RoundUp(half), 0.0f);
    for (int64_t d = 0; d < half; ++d) {
      const double angle = std::pow(theta, -static_cast<double>(d) / static_cast<double>(half));
      step_[d] = std::cos(angle);
      step_[half + d] = direction * std::sin(angle);
      now_[d] = std::cos(first * angle);
      now_[half + d] = direction * std::sin(first * angle);
      Keep(d);
    }
  }

  static int64_t Bytes(int64_t half) {
    return 2 * RoundUp(half) * static_cast<int64_t>(sizeof(float)) +
           4 * half * static_cast<int64_t>(sizeof(double));
  }

  // Goes back to position 0, with the cosines and sines of a new object whose first position it is.
  void Restart() {
    for (int64_t d = 0; d < half_; ++d) {
      now_[d] = 1;
      now_[half_ + d] = 0;
      Keep(d);
    }
  }

  // Advances to the next position.
  void Next() {
    for (int64_t d = 0; d < half_; ++d) {
      const double c = now_[d], s = now_[half_ + d];
      now_[d] = c * step_[d] - s * step_[half_ + d];
      now_[half_ + d] = s * step_[d] + c * step_[half_ + d];
      Keep(d);
    }
  }

  // y = x, one head, rotated.
  void Turn(const float* x, float* y) const {
    ForRow(half_, [&](int64_t d, auto width) {
      const Vec low = Get(x + d, width), high = Get(x + half_ + d, width);
      const Vec c = Load(cosines_ + d), s = Load(sines_ + d);
      Put(y + d, low * c - high * s, width);
      Put(y + half_ + d, high * c + low * s, width);
    });
  }

 private:
  void Keep(int64_t d) {
    cosines_[d] = static_cast<float>(now_[d]);
    sines_[d] = static_cast<float>(now_[half_ + d]);
  }

  const int64_t half_;
  float* const cosines_;  // half_ each, rounded up to whole vectors
  float* const sines_;
  double* const now_;  // cosines, then sines: of the position, and of a single step
  double* const step_;
};

// y = x, a row, with the first `turned` heads rotated, or copied at position 0.
void TurnRow(const Turns* turns, int64_t turned, int64_t size, const float* x, float* y,
             int64_t width) {
  int64_t at = 0;
  for (; turns != nullptr && at < turned * size; at += size) turns->Turn(x + at, y + at);
  std::copy(x + at, x + width, y + at);
}

int64_t HalfOf(const Type& qkv, absl::Span<const double> attributes) {
  return qkv.shape[2] / static_cast<int64_t>(attributes[0] + 2 * attributes[1]) / 2;
}

}  // namespace

int64_t RotaryWorkspace(const Type& qkv, absl::Span<const double> attributes) {
  return Turns::Bytes(HalfOf(qkv, attributes));
}

// For each head of queries and keys, d < D/2, with a[t,d] = direction (first + t) theta^(-2d/D):
//
// y[t,d] = x[t,d] cos a[t,d] - x[t,d+D/2] sin a[t,d]
// y[t,d+D/2] = x[t,d+D/2] cos a[t,d] + x[t,d] sin a[t,d]
//
// qkv (B,T,(H+2K)D) -> y as qkv, overwritten; values are copied, and so is position 0.
void Run_kRotary(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t batch = in[0].type->shape[0], positions = in[0].type->shape[1];
  const int64_t width = RowLength(in[0]), half = HalfOf(*in[0].type, node.attributes);
  const int64_t turned = static_cast<int64_t>(node.attributes[0] + node.attributes[1]);
  const double first = node.attributes[4];
  Turns turns(half, node.attributes[2], node.attributes[3], first, workspace);
  for (int64_t t = 0; t < positions; ++t) {
    if (t > 0) turns.Next();
    const bool is_turned = t > 0 || first > 0;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t row = (b * positions + t) * width;
      TurnRow(is_turned ? &turns : nullptr, turned, 2 * half, in[0].f32() + row, out[0].f32() + row,
              width);
    }
  }
}

// As rotary, at the position of every row in its document: 0, or one more than that of the row
// before.
//
// qkv (B,T,(H+2K)D), positions I32 (B,T) -> y as qkv, overwritten.
void Run_kPackedRotary(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[0]), width = RowLength(in[0]);
  const int64_t half = HalfOf(*in[0].type, node.attributes);
  const int64_t turned = static_cast<int64_t>(node.attributes[0] + node.attributes[1]);
  Turns turns(half, node.attributes[2], node.attributes[3], /*first=*/0, workspace);
  for (int64_t n = 0; n < rows; ++n) {
    const bool begins = in[1].i32()[n] == 0;
    begins ? turns.Restart() : turns.Next();
    TurnRow(begins ? nullptr : &turns, turned, 2 * half, in[0].f32() + n * width,
            out[0].f32() + n * width, width);
  }
}

}  // namespace stringline::cpu
