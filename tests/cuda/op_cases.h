// A case for every op of stages/ops.def, and what runs one: by the CUDA backend's kernels, played
// by the host, or by the CPU's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/cuda/cuda_kernels.h"
#include "stages/graph.h"
#include "tests/stages/random_values.h"

namespace stringline {

struct OpCase {
  Op op;
  std::vector<cpu::Array> inputs;
  std::vector<double> attributes;
};

// "add 2 3 5": the op, and the first input's shape.
std::string ToString(const OpCase& op_case);

// What outputs hold before a run: NaN, or where they are added to numbers of `seed`.
std::vector<cpu::Array> OutputsBefore(const OpCase& from, bool accumulate, unsigned seed);

// What they hold after it. Those that can be added to are, if `accumulate`.
absl::Status RunOnCuda(const OpCase& from, const std::vector<cpu::Array>& before, bool accumulate,
                       std::vector<cpu::Array>* outputs,
                       CudaKernels::AttentionSource attention = cuda::CudnnAttention);
std::vector<cpu::Array> RunOnCpu(const OpCase& from, std::vector<cpu::Array> outputs,
                                 bool accumulate);

class OpCasesTest : public cpu::SeededTest {
 protected:
  OpCasesTest() { MakeCases(); }

  cpu::Array Integers(std::vector<int64_t> shape, int32_t below) {
    return cpu::RandomArray(cpu::I32(std::move(shape)), random_, below);
  }

  std::vector<OpCase> cases_;

 private:
  void Add(Op op, std::vector<cpu::Array> inputs, std::vector<double> attributes = {}) {
    cases_.push_back({op, std::move(inputs), std::move(attributes)});
  }
  void MakeCases();
  void MakeProductCases(int64_t n, int64_t k, int64_t o);
  void MakeRowCases(int64_t b, int64_t t, int64_t c);
  void MakeHeadCases(int64_t heads, int64_t kv_heads, int64_t size);
  void MakeTokenCases(int64_t b, int64_t t, int32_t vocabulary, int64_t c);
  void MakeExpertCases(int64_t rows, int64_t experts, int64_t choices, int64_t width);
};

}  // namespace stringline
