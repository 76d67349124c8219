// Every op's cases on the CUDA backend, run by the host beside the stand-ins.
#pragma once

#include <utility>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/stages/random_values.h"
#include "tools/gpu/op_cases.h"

namespace stringline {

// The contents of the outputs after a run that began with `before`.
inline absl::Status RunOnCuda(const OpCase& from, const std::vector<cpu::Array>& before,
                              bool accumulate, std::vector<cpu::Array>* outputs,
                              CudaKernels::AttentionSource attention = cuda::CudnnAttention) {
  standin_reset(1);
  standin_cublas_reset();
  auto device = CudaDevice::Make();
  SL_CHECK(device.ok()) << device.status();
  const auto kernels = CudaKernels::Make(device->get(), {.attention = attention});
  SL_CHECK(kernels.ok()) << kernels.status();
  auto ran = RunOnDevice(device->get(), kernels->get(), from, before, accumulate);
  if (ran.ok()) *outputs = std::move(ran->outputs);
  return ran.status();
}

class OpCasesTest : public cpu::SeededTest {
 protected:
  OpCasesTest() : cases_(AllOpCases(&random_)) {}

  cpu::Array Integers(std::vector<int64_t> shape, int32_t below) {
    return cpu::RandomArray(cpu::I32(std::move(shape)), random_, below);
  }

  std::vector<OpCase> cases_;
};

}  // namespace stringline
