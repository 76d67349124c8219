// A node of attention, and a node of its gradient, are prepared twice: with the library and
// without. The gradients start from our own kernel's results, so that each is compared by itself.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/backend/ops.h"
#include "schedlang/base/status.h"
#include "tools/gpu/op_cases.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// Some steps of bf16: the library rounds the factors of values, our own kernel does not.
constexpr double kMostApart = 2e-2;
constexpr int kRuns = 4;

using cpu::Array;

std::vector<float> FloatsOf(const Array& array) {
  const Array wide = array.type.dtype == DType::kBF16 ? InF32(array) : array;
  return {wide.f32(), wide.f32() + wide.type.elements()};
}

// The larger of two measures: the largest difference as a share of the largest value, and twice the
// root mean square of differences as a share of that of the values; infinity if a difference is
// NaN.
double HowFarApart(const Array& seen, const Array& expected) {
  const std::vector<float> a = FloatsOf(seen), b = FloatsOf(expected);
  double largest = 0, off = 0, squares = 0, off_squares = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double value = b[i], difference = std::fabs(double{a[i]} - value);
    if (!std::isfinite(difference)) return INFINITY;
    largest = std::max(largest, std::fabs(value));
    off = std::max(off, difference);
    squares += value * value;
    off_squares += difference * difference;
  }
  return std::max(off / largest, 2 * std::sqrt(off_squares / squares));
}

struct RanOften {
  RanOp ran;
  bool same_bits = true;  // in all runs
};

bool SameBits(const std::vector<Array>& one, const std::vector<Array>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), [](const Array& a, const Array& b) {
    return std::memcmp(a.data.get(), b.data.get(), static_cast<size_t>(a.type.bytes())) == 0;
  });
}

// Some runs from the same inputs: each by itself, and then in a row to be timed.
absl::StatusOr<RanOften> RunWith(const OpCase& attention, CudaKernels::AttentionSource source) {
  SL_ASSIGN_OR_RETURN(const auto device, CudaDevice::Make());
  SL_ASSIGN_OR_RETURN(const auto kernels, CudaKernels::Make(device.get(), {.attention = source}));
  const std::vector<Array> before = OutputsBefore(attention, false, 1);
  RanOften often;
  SL_ASSIGN_OR_RETURN(often.ran,
                      RunOnDevice(device.get(), kernels.get(), attention, before, false, kRuns));
  for (int time = 0; time < kRuns; ++time) {
    SL_ASSIGN_OR_RETURN(const RanOp again,
                        RunOnDevice(device.get(), kernels.get(), attention, before, false));
    often.same_bits = often.same_bits && SameBits(again.outputs, often.ran.outputs);
  }
  return often;
}

// Runs the library and our own kernel; reports a row with the comparison.
absl::Status CompareWithOwn(const cuda::AttentionProblem& problem, const OpCase& attention,
                            CudaKernels::AttentionSource library, std::vector<Array>* own_outputs,
                            CheckRows* rows) {
  SL_ASSIGN_OR_RETURN(const RanOften own, RunWith(attention, NoAttentionLibrary));
  SL_ASSIGN_OR_RETURN(const RanOften seen, RunWith(attention, library));
  double apart = 0;
  for (size_t i = 0; i < own.ran.outputs.size(); ++i) {
    apart = std::max(apart, HowFarApart(seen.ran.outputs[i], own.ran.outputs[i]));
  }
  const std::string name = ToString(problem);
  const std::string figure = absl::StrFormat("%.1e from our own", apart);
  const double ratio = apart / kMostApart;
  if (!(ratio <= 1)) {
    rows->Hold(name, ratio, figure);
  } else if (!seen.same_bits || !own.same_bits) {
    rows->Fail(name, absl::StrCat("two runs of ", seen.same_bits ? "our own" : "the library's",
                                  " gave different bits"));
  } else {
    // Products over the pairs that attend, half of all: two, and five for the gradient.
    const double flops = (problem.gradient ? 5.0 : 2.0) *
                         static_cast<double>(problem.batch * problem.heads * problem.size) *
                         static_cast<double>(problem.positions * problem.positions);
    const auto rate = [flops](int64_t ns) {
      return flops / static_cast<double>(std::max<int64_t>(1, ns)) * 1e-3;
    };
    rows->Hold(name, ratio,
               absl::StrFormat("%s; %.0f TFLOP/s, our own %.0f", figure, rate(seen.ran.least_ns),
                               rate(own.ran.least_ns)));
  }
  *own_outputs = own.ran.outputs;
  return absl::OkStatus();
}

// Attention, then its gradient.
absl::Status CheckProblem(cuda::AttentionProblem problem, CudaKernels::AttentionSource library,
                          CheckRows* rows) {
  const std::vector<double> heads = {static_cast<double>(problem.heads),
                                     static_cast<double>(problem.kv_heads)};
  const Type packed = {
      DType::kBF16,
      {problem.batch, problem.positions, (problem.heads + 2 * problem.kv_heads) * problem.size}};
  std::mt19937_64 random(1);
  const Array qkv = RandomArray(packed, &random);
  std::vector<Array> mixed, gradients;
  SL_RETURN_IF_ERROR(
      CompareWithOwn(problem, {Op::kAttention, {qkv}, heads}, library, &mixed, rows));
  const Array dy = RandomArray(mixed[0].type, &random);
  problem.gradient = true;
  return CompareWithOwn(problem, {Op::kAttentionGrad, {dy, qkv, mixed[0], mixed[1]}, heads},
                        library, &gradients, rows);
}

}  // namespace

void CheckAttention(const std::vector<cuda::AttentionProblem>& problems,
                    CudaKernels::AttentionSource library, CheckRows* rows) {
  {
    const absl::Status there = library().status();
    if (!there.ok()) return rows->Skip("attention by cuDNN", std::string(there.message()));
  }
  for (const cuda::AttentionProblem& problem : problems) {
    const absl::Status status = CheckProblem(problem, library, rows);
    if (!status.ok()) rows->Fail(ToString(problem), std::string(status.message()));
  }
}

}  // namespace stringline
