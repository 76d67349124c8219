// Numbers chosen, read and written by indices that are values themselves. An index outside its
// dimension ends the process: the program is wrong, and no result of it would be right.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

constexpr float kTooLarge = 2147483648;  // 2^31

// The place of an element of an index, (before, size, behind), in a tensor whose dimension has
// another size.
class IndexedPlaces {
 public:
  IndexedPlaces(const Tensor& index, const Tensor& indexed, size_t dim)
      : index_(index.i32()), size_(indexed.type->shape[dim]), count_(index.type->shape[dim]) {
    for (size_t d = dim + 1; d < index.type->shape.size(); ++d) behind_ *= index.type->shape[d];
  }
  int64_t At(int64_t i) const {
    const int64_t at = index_[i];
    SL_CHECK(at >= 0 && at < size_) << "index " << at << " of " << size_;
    return (i / (count_ * behind_) * size_ + at) * behind_ + i % behind_;
  }

 private:
  const int32_t* index_;
  int64_t size_, count_, behind_ = 1;
};

}  // namespace

// x (..) -> y I32 (..), overwritten: toward 0. Without a whole number in I32 -2^31, as processors
// have it: a program may choose another value in its place.
void Run_kWhole(const Node&, In in, Out out, Accumulate, void*) {
  for (int64_t i = 0; i < in[0].type->elements(); ++i) {
    const float x = in[0].f32()[i];
    out[0].i32()[i] =
        std::fabs(x) < kTooLarge ? static_cast<int32_t>(x) : std::numeric_limits<int32_t>::min();
  }
}

// x I32 (..) -> y (..), overwritten.
void Run_kFloat(const Node&, In in, Out out, Accumulate, void*) {
  for (int64_t i = 0; i < in[0].type->elements(); ++i) {
    out[0].f32()[i] = static_cast<float>(in[0].i32()[i]);
  }
}

// The first `count` numbers of each row in descending, or ascending, order, stably; NaN is the
// largest.                     x (..,C) -> y (..,count), index I32 (..,count), both overwritten
void Run_kTopK(const Node& node, In in, Out out, Accumulate, void*) {
  const bool largest = node.attributes[1] != 0;
  const int64_t columns = RowLength(in[0]), count = RowLength(out[0]);
  std::vector<int32_t> order(static_cast<size_t>(columns));
  for (int64_t n = 0; n < RowCount(in[0]); ++n) {
    const float* const x = in[0].f32() + n * columns;
    const auto above = [x](int32_t a, int32_t b) {
      return std::isnan(x[a]) ? !std::isnan(x[b]) : x[a] > x[b];
    };
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
      const bool first = largest ? above(a, b) : above(b, a);
      const bool behind = largest ? above(b, a) : above(a, b);
      return first || (!behind && a < b);
    });
    for (int64_t k = 0; k < count; ++k) {
      out[0].f32()[n * count + k] = x[order[static_cast<size_t>(k)]];
      out[1].i32()[n * count + k] = order[static_cast<size_t>(k)];
    }
  }
}

// y[..,i,..] = x[..,index[..,i,..],..]
//
// x (..), index I32 of its sizes but for one -> y as index, overwritten.
void Run_kGather(const Node& node, In in, Out out, Accumulate, void*) {
  const IndexedPlaces places(in[1], in[0], static_cast<size_t>(node.attributes[0]));
  for (int64_t i = 0; i < in[1].type->elements(); ++i) {
    out[0].f32()[i] = in[0].f32()[places.At(i)];
  }
}

// y[..,index[..,i,..],..] = or += x[..,i,..], in the order of x's memory, into zeros
//
// x (..), index I32 as x -> y, overwritten.
void Run_kScatter(const Node& node, In in, Out out, Accumulate, void*) {
  const IndexedPlaces places(in[1], out[0], static_cast<size_t>(node.attributes[0]));
  const bool add = node.attributes[2] != 0;
  float* const y = out[0].f32();
  std::fill_n(y, out[0].type->elements(), 0.0f);
  for (int64_t i = 0; i < in[1].type->elements(); ++i) {
    const float x = in[0].f32()[i];
    float& to = y[places.At(i)];
    to = add ? to + x : x;
  }
}

}  // namespace stringline::cpu
