// A Block that is a warp or a thread block of a GPU; see block.h. Compiled by nvcc, and by a test
// that defines its CUDA words for threads of the host.
#pragma once

#include <cstdint>
#include <cstring>

namespace stringline::cuda {

// Scratch memory is shared memory.
template <typename T>
class GpuScratch {
 public:
  __device__ explicit GpuScratch(T* words) : words_(words) {}
  __device__ T get(int i) const { return words_[i]; }
  __device__ void put(int i, T value) const { words_[i] = value; }
  __device__ void add(int i, T value) const { words_[i] += value; }
  __device__ T* address(int i) const { return words_ + i; }

  template <class V>
  __device__ V take(int i) const {
    const int4 bits = *reinterpret_cast<const int4*>(words_ + i);
    V value;
    static_assert(sizeof value == sizeof bits);
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  template <class V>
  __device__ void place(int i, const V& value) const {
    int4 bits;
    static_assert(sizeof value == sizeof bits);
    memcpy(&bits, &value, sizeof value);
    *reinterpret_cast<int4*>(words_ + i) = bits;
  }

 private:
  T* words_;
};

// With 32 threads a warp is the Block, and a thread block has blockDim.y of them.
template <int kThreads>
class GpuBlock {
 public:
  static constexpr bool kIsWarp = kThreads == 32;
  static constexpr int kWarps = kThreads / 32;
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);

  __device__ GpuBlock(int64_t count, int scratch_words)
      : count_(count), scratch_words_(scratch_words) {}

  __device__ int64_t index() const {
    return kIsWarp ? int64_t{blockIdx.x} * blockDim.y + threadIdx.y : int64_t{blockIdx.x};
  }
  __device__ int64_t count() const { return count_; }

  template <class F>
  __device__ void each(int n, F f) const {
    for (int i = threadIdx.x; i < n; i += kThreads) f(i);
  }

  template <class S, int N>
  struct Own {
    S at[(N + kThreads - 1) / kThreads];
  };
  template <class S, int N>
  __device__ Own<S, N> own() const {
    return {};
  }
  // Unrolled, so that a thread's elements stay in registers.
  template <class S, int N, class F>
  __device__ void each(Own<S, N>& own, F f) const {
    STRINGLINE_UNROLL
    for (int k = 0; k * kThreads < N; ++k) {
      const int i = k * kThreads + threadIdx.x;
      if (N % kThreads == 0 || i < N) f(i, own.at[k]);
    }
  }

  template <class F>
  __device__ void once(F f) const {
    if (threadIdx.x == 0) f();
  }

  __device__ void sync() const {
    if constexpr (kIsWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  template <class S, class Step, class Combine>
  __device__ S reduce(int n, S start, Step step, Combine combine) const {
    S s = start;
    for (int i = threadIdx.x; i < n; i += kThreads) step(i, s);
    return Joined(s, start, combine);
  }
  template <class S, int N, class R, class Step, class Combine>
  __device__ R reduce(Own<S, N>& own, R start, Step step, Combine combine) const {
    R s = start;
    each(own, [&](int i, S& of_i) { step(i, of_i, s); });
    return Joined(s, start, combine);
  }

  template <typename T>
  __device__ GpuScratch<T> scratch(int at) const {
    extern __shared__ int4 memory[];
    static_assert(sizeof(T) == 4);
    T* const words = reinterpret_cast<T*>(memory);
    return GpuScratch<T>(words + (kIsWarp ? threadIdx.y * scratch_words_ : 0) + at);
  }

 private:
  // The tree over all threads' s, for all of them.
  template <class S, class Combine>
  __device__ S Joined(S s, S start, Combine combine) const {
    OverWarp(combine, s);
    if constexpr (kIsWarp) {
      __syncwarp();
    } else {
      // Two rows of places alternate: a thread that writes to either has passed the barrier after
      // the other was read, so a single barrier per reduction is enough.
      alignas(S) static __shared__ unsigned char bytes[2][kWarps * sizeof(S)];
      S* const places = reinterpret_cast<S*>(bytes[turn_]);
      turn_ ^= 1;
      const int lane = threadIdx.x % 32;
      if (lane == 0) places[threadIdx.x / 32] = s;
      __syncthreads();
      s = lane < kWarps ? places[lane] : start;
      OverWarp(combine, s);
    }
    return Shuffled(s, [](int word) { return __shfl_sync(~0u, word, 0); });
  }

  template <class S, class Move>
  static __device__ S Shuffled(S s, Move move) {
    static_assert(sizeof(S) % sizeof(int) == 0);
    int words[sizeof(S) / sizeof(int)];
    memcpy(words, &s, sizeof s);
    for (int& word : words) word = move(word);
    memcpy(&s, words, sizeof s);
    return s;
  }

  // Lane 0 ends with the tree's root.
  template <class Combine, class S>
  static __device__ void OverWarp(Combine combine, S& s) {
    for (int step = 16; step > 0; step /= 2) {
      const S other = Shuffled(s, [step](int word) { return __shfl_down_sync(~0u, word, step); });
      combine(s, other);
    }
  }

  const int64_t count_;
  const int scratch_words_;
  mutable int turn_ = 0;
};

}  // namespace stringline::cuda
