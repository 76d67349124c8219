// Cases for every op of stages/ops.def, and their runs on a GPU or on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/evaluate.h"
#include "executor/cuda/backend/cuda_kernels.h"
#include "stages/graph.h"

namespace stringline {

struct OpCase {
  Op op;
  std::vector<cpu::Array> inputs;
  std::vector<double> attributes;
};

// "add 2 3 5": the op, and the first input's shape.
std::string ToString(const OpCase& op_case);

// F32 and BF16: normal, with this standard deviation. I32: uniform in 0 .. below-1.
cpu::Array RandomArray(const Type& type, std::mt19937_64* random, float factor = 1,
                       int32_t below = 1);

// Small cases, of even and odd sizes, in F32.
std::vector<OpCase> AllOpCases(std::mt19937_64* random);

// The case with every possible input in BF16; nullopt for most ops of routers. InF32: the same
// numbers in F32.
std::optional<OpCase> InBf16(const OpCase& from);
OpCase InF32(OpCase from);
cpu::Array InBf16(const cpu::Array& from);
cpu::Array InF32(const cpu::Array& from);

// The contents of outputs before a run: NaN, or for accumulation numbers from `seed`.
std::vector<cpu::Array> OutputsBefore(const OpCase& from, bool accumulate, unsigned seed);

// For CudaKernels::Make: selects our own kernel of attention.
absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> NoAttentionLibrary();

// The contents of outputs after runs that began with `before`. `accumulate` adds to outputs if
// possible.
struct RanOp {
  std::vector<cpu::Array> outputs;
  int64_t least_ns = 0;  // over all runs but the first, if several
};
absl::StatusOr<RanOp> RunOnDevice(CudaDevice* device, CudaKernels* kernels, const OpCase& from,
                                  const std::vector<cpu::Array>& before, bool accumulate,
                                  int times = 1);
std::vector<cpu::Array> RunOnCpu(const OpCase& from, std::vector<cpu::Array> outputs,
                                 bool accumulate);

}  // namespace stringline
