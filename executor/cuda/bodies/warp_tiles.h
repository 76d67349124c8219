// Tensor cores for bodies: what a warp does together with matrices of bf16.
//
// Warps<T>      a T of every thread of the block, in registers
// Copies        copies from global to scratch memory that go on while the thread works: Copy has
//               16 bytes, or zeros, Commit ends a group of them, and Wait<n> waits until at most n
//               groups of this thread are under way; other threads see them after a sync()
// LoadMatrices  four matrices of 8 x 8 from scratch memory: lane l gives the word at which row
//               l % 8 of matrix l / 8 begins. The lane gets elements (l / 4, 2 (l % 4)) and the one
//               to its right of each matrix, or of its transpose
// MultiplyAdd   s (16,8) += a (16,16) b (16,8), with sums in float32. Lane l has of s the elements
//               (l / 4, 2 (l % 4)), the one to its right, and both of eight rows below; the four
//               8 x 8 matrices of a and the two of b are as LoadMatrices gives them, a's by columns
//
// On a GPU these are cp.async, ldmatrix and mma.sync, of compute capability 8.0. The host does the
// same lane by lane: a copy has NaN in its place until Wait.
#pragma once

#include "executor/cuda/bodies/bf16.h"

#ifndef __CUDACC__
#include <array>
#include <functional>
#include <vector>

#include "schedlang/base/sl_check.h"
#endif

namespace stringline::cuda {

constexpr int kWarpLanes = 32;

// Registers of a lane: two elements each.
struct Matrices {
  uint32_t at[4];
};
struct ProductSums {
  float at[4];
};

template <class T, int kWarps>
class Warps {
 public:
#ifdef __CUDACC__
  STRINGLINE_BODY T& of(int /*thread*/) { return own_; }

  // f(warp)
  template <class F>
  static STRINGLINE_BODY void each(F f) {
    f(static_cast<int>(threadIdx.x) / kWarpLanes);
  }

 private:
  T own_ = {};
#else
  T& of(int thread) { return at_[static_cast<size_t>(thread)]; }

  template <class F>
  static void each(F f) {
    for (int warp = 0; warp < kWarps; ++warp) f(warp);
  }

 private:
  std::vector<T> at_ = std::vector<T>(size_t{kWarps} * kWarpLanes);
#endif
};
template <class T>
using Lanes = Warps<T, 1>;

class Copies {
 public:
#ifdef __CUDACC__
  template <typename T>
  STRINGLINE_BODY void Copy(int /*thread*/, const GpuScratch<T>& to, int word, const void* from,
                            bool is_there) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to.address(word)));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address),
                 "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
                 : "memory");
  }
  STRINGLINE_BODY void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kLeft, class Block>
  STRINGLINE_BODY void Wait(const Block&) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
  }
#else
  template <class Scratch>
  void Copy(int thread, const Scratch& to, int word, const void* from, bool is_there) {
    SL_CHECK(reinterpret_cast<uintptr_t>(from) % 16 == 0) << "copies do not fit here";
    Words words = {};
    if (is_there) std::memcpy(words.data(), from, sizeof(words));
    const auto put = [to, word](const Words& bits) { to.place(word, bits); };
    put({kNan, kNan, kNan, kNan});
    groups_.back().push_back({thread, [put, words] { put(words); }});
  }
  void Commit() { groups_.emplace_back(); }
  template <int kLeft, class Block>
  void Wait(const Block& block) {
    while (groups_.size() > kLeft + 1) {
      block.each(kMostThreads, [this](int thread) {
        for (const Pending& copy : groups_.front()) {
          if (copy.thread == thread) copy.arrive();
        }
      });
      groups_.erase(groups_.begin());
    }
  }

 private:
  using Words = std::array<uint32_t, 4>;
  static constexpr uint32_t kNan = 0xffffffffu;
  static constexpr int kMostThreads = 1024;
  struct Pending {
    int thread;
    std::function<void()> arrive;
  };
  std::vector<std::vector<Pending>> groups_ = std::vector<std::vector<Pending>>(1);
#endif
};

#ifdef __CUDACC__

template <bool kTransposed, class Scratch, class WordOf>
STRINGLINE_BODY void LoadMatrices(const Scratch& from, WordOf word_of, Lanes<Matrices>* to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(from.address(word_of(lane))));
  uint32_t(&m)[4] = to->of(lane).at;
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
  }
}

// b: matrices first and first + 1. `at` gives a thread's sums.
template <class Sums, class At>
STRINGLINE_BODY void MultiplyAdd(int /*warp*/, Lanes<Matrices>& a, Lanes<Matrices>& b, int first,
                                 Sums& sums, At at) {
  const uint32_t(&x)[4] = a.of(0).at;
  const uint32_t(&y)[4] = b.of(0).at;
  float(&s)[4] = at(sums.of(0)).at;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[first]), "r"(y[first + 1]));
}

#else

template <bool kTransposed, class Scratch, class WordOf>
void LoadMatrices(const Scratch& from, WordOf word_of, Lanes<Matrices>* to) {
  for (int m = 0; m < 4; ++m) {
    uint16_t rows[8][8];
    for (int r = 0; r < 8; ++r) {
      const auto bits = from.template take<std::array<uint32_t, 4>>(word_of(8 * m + r));
      std::memcpy(rows[r], bits.data(), sizeof(bits));
    }
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int r = lane / 4, c = lane % 4 * 2;
      const uint32_t low = kTransposed ? rows[c][r] : rows[r][c];
      const uint32_t high = kTransposed ? rows[c + 1][r] : rows[r][c + 1];
      to->of(lane).at[m] = low | high << 16;
    }
  }
}

template <class Sums, class At>
void MultiplyAdd(int warp, Lanes<Matrices>& a, Lanes<Matrices>& b, int first, Sums& sums, At at) {
  const auto half = [](uint32_t pair, int which) {
    return ToFloat(Bf16{static_cast<uint16_t>(which == 0 ? pair : pair >> 16)});
  };
  // Element (i, k) of a, and (k, j) of b.
  const auto left = [&](int i, int k) {
    return half(a.of(i % 8 * 4 + k % 8 / 2).at[k / 8 * 2 + i / 8], k % 2);
  };
  const auto right = [&](int k, int j) {
    return half(b.of(j * 4 + k % 8 / 2).at[first + k / 8], k % 2);
  };
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    ProductSums& s = at(sums.of(warp * kWarpLanes + lane));
    for (int e = 0; e < 4; ++e) {
      const int i = lane / 4 + e / 2 * 8, j = lane % 4 * 2 + e % 2;
      for (int k = 0; k < 16; ++k) s.at[e] += left(i, k) * right(k, j);
    }
  }
}

#endif

}  // namespace stringline::cuda
