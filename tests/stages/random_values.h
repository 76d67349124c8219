// Types and random arrays for the tests of stages and kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/cpu/evaluate.h"

namespace stringline::cpu {

inline Type F32(std::vector<int64_t> shape) { return {DType::kF32, std::move(shape)}; }
inline Type BF16(std::vector<int64_t> shape) { return {DType::kBF16, std::move(shape)}; }
inline Type I32(std::vector<int64_t> shape) { return {DType::kI32, std::move(shape)}; }

// STRINGLINE_SEED from the environment, or a fixed number. Put it into SCOPED_TRACE.
uint64_t TestSeed();

// True for the ops of packed sequences, whose integers are DocumentPositions.
inline bool IsPacked(Op op) {
  return op == Op::kPackedAttention || op == Op::kPackedAttentionGrad || op == Op::kPackedRotary;
}

// Floats: normal with standard deviation 1. I32: uniform in 0 .. below-1.
Array RandomArray(const Type& type, std::mt19937_64& random, int32_t below = 1);

// I32 (batch, positions): of packed sequences, each token's position in its document. Every
// sequence has a document of one token, if it has more than one, and the others are `mean` long on
// average.
Array DocumentPositions(int64_t batch, int64_t positions, int64_t mean, std::mt19937_64& random);

// Random numbers from TestSeed(), which a failure names.
class SeededTest : public testing::Test {
 protected:
  SeededTest()
      : random_(TestSeed()),
        trace_(__FILE__, __LINE__, "STRINGLINE_SEED=" + std::to_string(TestSeed())) {}
  Array Random(std::vector<int64_t> shape, float factor = 1) {
    Array array = RandomArray(F32(std::move(shape)), random_);
    for (int64_t i = 0; i < array.type.elements(); ++i) array.f32()[i] *= factor;
    return array;
  }
  std::mt19937_64 random_;
  testing::ScopedTrace trace_;
};

}  // namespace stringline::cpu
