// Parts of rows and of sequences, copied: what the slices of a sequence leave for one another.
#pragma once

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

// The part of a tensor (B,positions,width) from position `first` and channel `channel` on.
template <typename T>
struct Part {
  T* data;
  int64_t positions, width, first = 0, channel = 0;

  STRINGLINE_BODY T* Row(int64_t sequence, int64_t position) const {
    return data + (sequence * positions + first + position) * width + channel;
  }
  STRINGLINE_BODY bool fit() const { return VectorsFit(width, data + channel); }
};

// to[b,t,c] = from[b,t,c] for t < count, c < columns, counted from where the parts begin. Without
// `from` (data is null): 0.
template <typename T>
struct CopyPart {
  Part<const T> from;
  Part<T> to;
  int64_t batch, count, columns;

  int64_t blocks() const { return batch * count; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t b = block.index() / count, t = block.index() % count;
    const bool is_there = from.data != nullptr;
    const T* const x = is_there ? from.Row(b, t) : nullptr;
    T* const y = to.Row(b, t);
    const Steps<kWide<T>> steps(columns, to.fit() && (!is_there || from.fit()));
    EachStep(block, steps, [&](int c, auto width) {
      Vector<width.kCount> v = {};
      if (is_there) v = Load(x + c, width);
      Store(y + c, v);
    });
  }
};

}  // namespace stringline::cuda
