// Types and random arrays for the tests of stages and kernels.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "executor/cpu/evaluate.h"

namespace stringline::cpu {

inline Type F32(std::vector<int64_t> shape) { return {DType::kF32, std::move(shape)}; }
inline Type I32(std::vector<int64_t> shape) { return {DType::kI32, std::move(shape)}; }

// STRINGLINE_SEED from the environment, or a fixed number. Put it into SCOPED_TRACE.
uint64_t TestSeed();

// F32: normal with standard deviation 1. I32: uniform in 0 .. below-1.
Array RandomArray(const Type& type, std::mt19937_64& random, int32_t below = 1);

}  // namespace stringline::cpu
