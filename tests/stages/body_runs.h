// For the tests of kernel bodies: buffers of either storage type, and comparisons with the CPU's
// kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cuda/bodies/bf16.h"
#include "executor/cuda/bodies/host_block.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"
#ifdef STRINGLINE_PLAYED_BODIES
// The header with PlayBody: with it the same tests launch what nvcc compiled.
#include STRINGLINE_PLAYED_BODIES
#define RunOnHost PlayBody
#endif

namespace stringline::cuda {

using cpu::Array;
using cpu::RunKernel;

inline void Keep(float value, float* to) { *to = value; }
inline void Keep(float value, Bf16* to) { *to = ToBf16(value); }
inline void Keep(int32_t value, int32_t* to) { *to = value; }

// The run of a body: the number of threads, and the offset in elements of every array from 64-byte
// alignment.
struct BodyRun {
  int threads, offset;
};
#ifdef STRINGLINE_PLAYED_BODIES
constexpr BodyRun kBodyRuns[] = {{128, 0}, {128, 1}};  // launches have numbers of their own
#else
constexpr BodyRun kBodyRuns[] = {{32, 0}, {128, 0}, {256, 0}, {128, 1}};
#endif

// An array as a body sees it, inside a larger array: NaN in elements not yet written, and around.
template <typename T>
class Buffer {
 public:
  Buffer(int64_t count, const BodyRun& run)
      : count_(count), offset_(run.offset), memory_(static_cast<size_t>(count + kAround), Odd()) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    offset_ += static_cast<int64_t>((64 - address % 64) % 64 / sizeof(T));
  }
  Buffer(const Array& array, const BodyRun& run) : Buffer(array.type.elements(), run) {
    Put(array);
  }

  void Put(const Array& array) {
    for (int64_t i = 0; i < count_; ++i) {
      if constexpr (std::is_same_v<T, int32_t>) {
        Keep(array.i32()[i], data() + i);
      } else {
        Keep(array.f32()[i], data() + i);
      }
    }
  }
  void Set(float value) {
    for (int64_t i = 0; i < count_; ++i) Keep(value, data() + i);
  }

  T* data() { return memory_.data() + offset_; }
  int64_t count() const { return count_; }

  // The contents, after a check that no memory around was written.
  Array Values() {
    for (int64_t i = 0; i < count_ + kAround; ++i) {
      if (i >= offset_ && i < offset_ + count_) continue;
      const T odd = Odd();
      EXPECT_EQ(std::memcmp(&memory_[static_cast<size_t>(i)], &odd, sizeof odd), 0)
          << "element " << i - offset_ << " of " << count_ << " was written";
    }
    if constexpr (std::is_same_v<T, int32_t>) {
      Array array = cpu::MakeArray(cpu::I32({count_}));
      std::copy_n(data(), count_, array.i32());
      return array;
    } else {
      Array array = cpu::MakeArray(cpu::F32({count_}));
      for (int64_t i = 0; i < count_; ++i) array.f32()[i] = ToFloat(data()[i]);
      return array;
    }
  }

 private:
  static constexpr int64_t kAround = 96;
  static T Odd() {
    T odd;
    if constexpr (std::is_same_v<T, int32_t>) {
      odd = std::numeric_limits<int32_t>::min();
    } else {
      Keep(std::numeric_limits<float>::quiet_NaN(), &odd);
    }
    return odd;
  }

  int64_t count_, offset_;
  std::vector<T> memory_;
};

// The array rounded to its storage type.
template <typename T>
Array Stored(const Array& array) {
  Array rounded = cpu::MakeArray(array.type);
  for (int64_t i = 0; i < array.type.elements(); ++i) {
    T kept;
    Keep(array.f32()[i], &kept);
    rounded.f32()[i] = ToFloat(kept);
  }
  return rounded;
}

inline float Largest(const Array& array) {
  float largest = 0;
  for (int64_t i = 0; i < array.type.elements(); ++i) {
    largest = std::max(largest, std::abs(array.f32()[i]));
  }
  return largest;
}

// Every element within `tolerance` of the largest, or of `term` if larger terms cancel each other,
// plus the rounding to T.
template <typename T>
void ExpectSame(const Array& seen, const Array& expected, float tolerance = 1e-5f, float term = 0) {
  ASSERT_EQ(seen.type.elements(), expected.type.elements());
  const float largest = std::max(Largest(expected), term);
  const float rounding = std::is_same_v<T, Bf16> ? 1.0f / 256 : 0.0f;
  for (int64_t i = 0; i < expected.type.elements(); ++i) {
    const float value = expected.f32()[i];
    ASSERT_NEAR(seen.f32()[i], value, tolerance * largest + rounding * std::abs(value))
        << "element " << i;
  }
}
template <typename T>
void ExpectSame(Buffer<T>& seen, const Array& expected, float tolerance = 1e-5f, float term = 0) {
  ExpectSame<T>(seen.Values(), expected, tolerance, term);
}

inline void ExpectSameIntegers(Buffer<int32_t>& seen, const Array& expected) {
  const Array values = seen.Values();
  ASSERT_EQ(values.type.elements(), expected.type.elements());
  for (int64_t i = 0; i < expected.type.elements(); ++i) {
    ASSERT_EQ(values.i32()[i], expected.i32()[i]) << "element " << i;
  }
}

// Runs bodies on the host, for SumColumns and the like.
struct HostRun {
  int threads;
  template <class Body>
  void operator()(const Body& body) const {
    RunOnHost(body, threads);
  }
};

struct RowShape {
  int64_t rows, columns;
};
constexpr RowShape kRowShapes[] = {{1, 1},   {1, 3},    {5, 17},   {3, 16},  {2, 1000},
                                   {67, 64}, {300, 40}, {4, 1027}, {9, 768}, {1, 4096}};

// check(shape, run, T()) for every shape, kind of run, and storage type.
template <class Check>
void ForEveryRun(Check check) {
  for (const RowShape& shape : kRowShapes) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(absl::StrCat(shape.rows, " x ", shape.columns, ", ", run.threads,
                                " threads, offset ", run.offset));
      check(shape, run, float());
      check(shape, run, Bf16());
    }
  }
}

class BodiesTest : public cpu::SeededTest {
 protected:
  Array RandomIntegers(std::vector<int64_t> shape, int32_t below) {
    return cpu::RandomArray(cpu::I32(std::move(shape)), random_, below);
  }
};

}  // namespace stringline::cuda
