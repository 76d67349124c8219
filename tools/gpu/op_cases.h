// A case for every op of stages/ops.def, and what runs one: on a GPU, or on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/evaluate.h"
#include "executor/cuda/cuda_kernels.h"
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

// Small ones, of even and odd sizes, in F32.
std::vector<OpCase> AllOpCases(std::mt19937_64* random);

// The case with those of its inputs in BF16 that can be, which is one set of them; none for most
// ops of routers. And the same numbers in F32.
std::optional<OpCase> InBf16(const OpCase& from);
OpCase InF32(OpCase from);
cpu::Array InBf16(const cpu::Array& from);
cpu::Array InF32(const cpu::Array& from);

// What outputs hold before a run: NaN, or where they are added to numbers of `seed`.
std::vector<cpu::Array> OutputsBefore(const OpCase& from, bool accumulate, unsigned seed);

// For CudaKernels::Make: our own kernel of attention serves.
absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> NoAttentionLibrary();

// What outputs hold after runs that began with `before`. Those that can be added to are, if
// `accumulate`.
struct RanOp {
  std::vector<cpu::Array> outputs;
  int64_t least_ns = 0;  // of all runs but the first, if there are more
};
absl::StatusOr<RanOp> RunOnDevice(CudaDevice* device, CudaKernels* kernels, const OpCase& from,
                                  const std::vector<cpu::Array>& before, bool accumulate,
                                  int times = 1);
std::vector<cpu::Array> RunOnCpu(const OpCase& from, std::vector<cpu::Array> outputs,
                                 bool accumulate);

}  // namespace stringline
