// Rows and arrays of float or Bf16 in vectors of 16 bytes if alignment permits, else element by
// element. Arithmetic is always on floats.
#pragma once

#include "executor/cuda/bodies/bf16.h"

namespace stringline::cuda {

// The number of elements of a step, as a type: a constant for the compiler.
template <int N>
struct Width {
  static constexpr int kCount = N;
};

template <int N>
struct Vector {
  float at[N];
  STRINGLINE_BODY float& operator[](int i) { return at[i]; }
  STRINGLINE_BODY float operator[](int i) const { return at[i]; }
};

// Elements in 16 bytes.
template <typename T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));

// N elements as they lie in memory, in vectors of 8 or 16 bytes: those of Bf16 need half the
// registers of a Vector.
template <typename T, int N>
struct Packed {
  static constexpr int kWords = N * static_cast<int>(sizeof(T)) / 4;
  static_assert(kWords == 2 || kWords % 4 == 0);
  uint32_t words[kWords];
};

#ifdef __CUDACC__

template <int N>
STRINGLINE_BODY Vector<N> Load(const float* p, Width<N>) {
  Vector<N> v;
  if constexpr (N == 1) {
    v[0] = *p;
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(p + i);
      v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
  }
  return v;
}

template <typename T, int N>
STRINGLINE_BODY Packed<T, N> LoadPacked(const T* p, Width<N>) {
  Packed<T, N> packed;
  constexpr int kWords = Packed<T, N>::kWords;
  if constexpr (kWords == 2) {
    const uint2 words = *reinterpret_cast<const uint2*>(p);
    packed.words[0] = words.x, packed.words[1] = words.y;
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 words = *reinterpret_cast<const uint4*>(p + i * N / kWords);
      packed.words[i] = words.x, packed.words[i + 1] = words.y;
      packed.words[i + 2] = words.z, packed.words[i + 3] = words.w;
    }
  }
  return packed;
}

template <int N>
STRINGLINE_BODY Vector<N> Unpacked(const Packed<float, N>& packed) {
  Vector<N> v;
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = __uint_as_float(packed.words[i]);
  return v;
}
template <int N>
STRINGLINE_BODY Vector<N> Unpacked(const Packed<Bf16, N>& packed) {
  Vector<N> v;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    v[2 * i] = __uint_as_float(packed.words[i] << 16);
    v[2 * i + 1] = __uint_as_float(packed.words[i] & 0xffff0000u);
  }
  return v;
}

// Elements that are unpacked again after this need no registers until then: otherwise the compiler
// keeps what it unpacked before, and products of it.
template <typename T, int N>
STRINGLINE_BODY void StayPacked(Packed<T, N>& packed) {
#pragma unroll
  for (int i = 0; i < Packed<T, N>::kWords; ++i) asm volatile("" : "+r"(packed.words[i]));
}

template <int N>
STRINGLINE_BODY Vector<N> Load(const Bf16* p, Width<N> width) {
  if constexpr (N == 1) {
    return {{ToFloat(*p)}};
  } else {
    return Unpacked(LoadPacked(p, width));
  }
}

// Stores of 16 and of 8 bytes to global memory, each in one instruction: nvcc makes four of the
// assignment of a uint4 in some kernels.
STRINGLINE_BODY void StoreWords(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
STRINGLINE_BODY void StoreWords(void* p, uint32_t a, uint32_t b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(a), "r"(b)
               : "memory");
}

template <int N>
STRINGLINE_BODY void Store(float* p, const Vector<N>& v) {
  if constexpr (N == 1) {
    *p = v[0];
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      StoreWords(p + i, __float_as_uint(v[i]), __float_as_uint(v[i + 1]), __float_as_uint(v[i + 2]),
                 __float_as_uint(v[i + 3]));
    }
  }
}

// Numbers are rounded in pairs, an instruction for each pair.
template <int N>
STRINGLINE_BODY Packed<Bf16, N> PackedBf16(const Vector<N>& v) {
  Packed<Bf16, N> packed;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed.words[i]) : "f"(v[2 * i + 1]), "f"(v[2 * i]));
  }
  return packed;
}

template <int N>
STRINGLINE_BODY void Store(Bf16* p, const Vector<N>& v) {
  if constexpr (N == 1) {
    *p = ToBf16(v[0]);
  } else {
    static_assert(N == 4 || N == 8);
    const Packed<Bf16, N> packed = PackedBf16(v);
    if constexpr (N == 4) {
      StoreWords(p, packed.words[0], packed.words[1]);
    } else {
      StoreWords(p, packed.words[0], packed.words[1], packed.words[2], packed.words[3]);
    }
  }
}

#else

// Fails on an address on which a GPU would fault.
template <int N, typename T>
void CheckAligned(const T* p) {
  constexpr uintptr_t kBytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  SL_CHECK(N == 1 || reinterpret_cast<uintptr_t>(p) % kBytes == 0) << "vectors do not fit here";
}

template <int N, typename T>
Vector<N> Load(const T* p, Width<N>) {
  CheckAligned<N>(p);
  Vector<N> v;
  for (int i = 0; i < N; ++i) v[i] = ToFloat(p[i]);
  return v;
}
template <typename T, int N>
Packed<T, N> LoadPacked(const T* p, Width<N>) {
  CheckAligned<N>(p);
  Packed<T, N> packed;
  std::memcpy(packed.words, p, sizeof packed.words);
  return packed;
}
template <typename T, int N>
Vector<N> Unpacked(const Packed<T, N>& packed) {
  T elements[N];
  std::memcpy(elements, packed.words, sizeof elements);
  Vector<N> v;
  for (int i = 0; i < N; ++i) v[i] = ToFloat(elements[i]);
  return v;
}
template <typename T, int N>
void StayPacked(const Packed<T, N>&) {}
template <int N>
Packed<Bf16, N> PackedBf16(const Vector<N>& v) {
  alignas(16) Bf16 elements[N];
  for (int i = 0; i < N; ++i) elements[i] = ToBf16(v[i]);
  return LoadPacked(elements, Width<N>());
}
template <int N>
void Store(float* p, const Vector<N>& v) {
  CheckAligned<N>(p);
  for (int i = 0; i < N; ++i) p[i] = v[i];
}
template <int N>
void Store(Bf16* p, const Vector<N>& v) {
  CheckAligned<N>(p);
  for (int i = 0; i < N; ++i) p[i] = ToBf16(v[i]);
}

#endif

// Elements as they come back from memory.
template <int N>
STRINGLINE_BODY Vector<N> Rounded(const Vector<N>& v, float) {
  return v;
}
template <int N>
STRINGLINE_BODY Vector<N> Rounded(const Vector<N>& v, Bf16) {
  if constexpr (N == 1) {
    return {{ToFloat(ToBf16(v[0]))}};
  } else {
    auto packed = PackedBf16(v);
    StayPacked(packed);
    return Unpacked(packed);
  }
}

template <typename T>
STRINGLINE_BODY void StoreOne(T* p, float value) {
  Store(p, Vector<1>{{value}});
}

template <int N>
STRINGLINE_BODY float Total(const Vector<N>& v) {
  float sum = v[0];
  for (int i = 1; i < N; ++i) sum += v[i];
  return sum;
}

// True if the arrays can be read in 16 bytes at every multiple of `stride` elements.
template <typename... T>
STRINGLINE_BODY bool VectorsFit(int64_t stride, const T*... arrays) {
  return (
      ((reinterpret_cast<uintptr_t>(arrays) | static_cast<uintptr_t>(stride) * sizeof(T)) % 16 ==
       0) &&
      ...);
}

// `count` elements in steps of N if vectors fit, and of one element for the rest.
template <int N>
class Steps {
 public:
  STRINGLINE_BODY Steps(int64_t count, bool vectors_fit)
      : whole_(vectors_fit ? static_cast<int>(count) / N : 0),
        steps_(whole_ + static_cast<int>(count) - whole_ * N) {}

  STRINGLINE_BODY int count() const { return steps_; }

  // f(first element, Width) for step i.
  template <class F>
  STRINGLINE_BODY void Visit(int i, F&& f) const {
    if (i < whole_) {
      f(i * N, Width<N>());
    } else {
      f(whole_ * N + (i - whole_), Width<1>());
    }
  }

 private:
  int whole_, steps_;
};

template <class Block, int N, class F>
STRINGLINE_BODY void EachStep(const Block& block, const Steps<N>& steps, F f) {
  block.each(steps.count(), [&](int i) { steps.Visit(i, f); });
}

// Several sums at once.
template <int K, typename R = float>
struct Sums {
  R at[K];
  STRINGLINE_BODY R& operator[](int i) { return at[i]; }
  STRINGLINE_BODY R operator[](int i) const { return at[i]; }
};
struct AddSums {
  template <int K, typename R>
  STRINGLINE_BODY void operator()(Sums<K, R>& a, const Sums<K, R>& b) const {
    for (int k = 0; k < K; ++k) a[k] += b[k];
  }
};

// K sums over the elements of a row: f(first element, width, sums) adds a step's terms.
template <int K, class Block, int N, class F>
STRINGLINE_BODY Sums<K> SumsOverSteps(const Block& block, const Steps<N>& steps, F f) {
  return block.reduce(
      steps.count(), Sums<K>{},
      [&](int i, Sums<K>& s) { steps.Visit(i, [&](int at, auto width) { f(at, width, s); }); },
      AddSums());
}

// Elements of a task in elementwise bodies over arrays of any length.
constexpr int kElementsOfTask = 4096;
constexpr int64_t TasksOf(int64_t count) { return (count + kElementsOfTask - 1) / kElementsOfTask; }

// f(first element, width) over the elements of this task.
template <int N, class Block, class F>
STRINGLINE_BODY void EachOfTask(const Block& block, int64_t count, bool vectors_fit, F f) {
  const int64_t begin = block.index() * kElementsOfTask, left = count - begin;
  const Steps<N> steps(left < kElementsOfTask ? left : kElementsOfTask, vectors_fit);
  EachStep(block, steps, [&](int at, auto width) { f(begin + at, width); });
}

}  // namespace stringline::cuda
