// The promises of every kernel besides its formula.
#include <gtest/gtest.h>

#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

class Kernels : public testing::Test {
 protected:
  Kernels()
      : random_(TestSeed()),
        trace_(__FILE__, __LINE__, "STRINGLINE_SEED=" + std::to_string(TestSeed())) {}
  Array Random(std::vector<int64_t> shape) {
    return RandomArray({DType::kF32, std::move(shape)}, random_);
  }
  std::mt19937_64 random_;
  testing::ScopedTrace trace_;
};

TEST_F(Kernels, SameInputsGiveTheSameBits) {
  const Array qkv = Random({3, 50, 3 * 24}), dy = Random({3, 50, 24});
  const std::vector<Array> once = RunKernel(Op::kAttention, {qkv}, {4, 4});
  const std::vector<Array> twice = RunKernel(Op::kAttention, {qkv}, {4, 4});
  const Array grad = RunKernel(Op::kAttentionGrad, {dy, qkv, once[0], once[1]}, {4, 4})[0];
  const Array again = RunKernel(Op::kAttentionGrad, {dy, qkv, twice[0], twice[1]}, {4, 4})[0];
  for (int64_t i = 0; i < grad.type.elements(); ++i) ASSERT_EQ(grad.f32()[i], again.f32()[i]);
  const Array dw = RunKernel(Op::kLinearWeightGrad, {dy, qkv}, {})[0];
  const Array dw_again = RunKernel(Op::kLinearWeightGrad, {dy, qkv}, {})[0];
  for (int64_t i = 0; i < dw.type.elements(); ++i) ASSERT_EQ(dw.f32()[i], dw_again.f32()[i]);
}

}  // namespace
}  // namespace stringline::cpu
