// Every kernel against the CPU's in small shapes of odd sizes; then, in the sizes of a training
// step, its share of the memory's rate, or of the rate of a large product.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"
#include "tools/gpu/copy_rate.h"
#include "tools/gpu/op_cases.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

using cpu::Array;

constexpr double kMostOfLargest = 1e-5;     // relative to the largest value
constexpr double kLeastOfMemoryRate = 0.7;  // relative to a copy's
constexpr int kTimes = 6;

// The largest error as a share of the tolerance: half a step of BF16 plus kMostOfLargest. Infinity
// if only one of the two is NaN, or integers differ. `bias`, where it is not null, is added to
// every row: some of the library's algorithms round the sum without it to BF16, too.
double HowWrong(const Array& seen, const Array& expected, const Array* bias) {
  const int64_t count = expected.type.elements();
  if (expected.type.dtype == DType::kI32) {
    return std::equal(seen.i32(), seen.i32() + count, expected.i32()) ? 0 : INFINITY;
  }
  const bool bf16 = seen.type.dtype == DType::kBF16;
  const Array wide = bf16 ? InF32(seen) : seen;
  double largest = 1, wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::fabs(double{expected.f32()[i]});
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double want = expected.f32()[i], got = wide.f32()[i];
    if (std::isnan(want) && std::isnan(got)) continue;  // not written
    const auto step = [bf16](double value) {
      return bf16 && value != 0 ? std::ldexp(1.0, std::ilogb(value) - 7) : 0;
    };
    const double before =
        bias == nullptr ? 0 : step(want - double{bias->f32()[i % bias->type.elements()]});
    const double off =
        std::fabs(got - want) / ((step(want) + before) / 2 + kMostOfLargest * largest);
    if (!(off <= wrong)) wrong = std::isnan(off) ? INFINITY : off;
  }
  return wrong;
}

// The worst of an op's cases.
struct WorstCase {
  double wrong = 0;
  std::string name;
};

// The library's choice for a case, or "" if it has none.
std::string ChoiceFor(CudaDevice* device, const OpCase& from) {
  const auto kernels = CudaKernels::Make(device, {.attention = NoAttentionLibrary});
  if (!kernels.ok()) return "";
  const auto ran = RunOnDevice(device, kernels->get(), from, OutputsBefore(from, false, 7), false);
  if (!ran.ok()) return "";
  const std::vector<std::string> lines =
      absl::StrSplit((*kernels)->Describe(), '\n', absl::SkipEmpty());
  return lines.size() < 2 ? "" : lines[1];  // behind the library's version
}

absl::Status CheckCase(const OpCase& from, bool accumulate, CudaDevice* device,
                       CudaKernels* kernels, std::map<Op, WorstCase>* worst) {
  std::vector<Array> before = OutputsBefore(from, accumulate, 7);
  SL_ASSIGN_OR_RETURN(const RanOp seen, RunOnDevice(device, kernels, from, before, accumulate));
  const OpCase wide = InF32(from);
  bool adds = accumulate;
  for (Array& output : before) {
    const bool bf16 = output.type.dtype == DType::kBF16;
    if (bf16) output = InF32(output);
    // Outputs in BF16, which cannot be added to, are overwritten.
    adds = adds && !(bf16 && before.size() == 1);
  }
  const std::vector<Array> expected = RunOnCpu(wide, before, adds);
  const Array* const bias = from.op == Op::kLinearResidual ? &wide.inputs[2] : nullptr;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double wrong = HowWrong(seen.outputs[i], expected[i], bias);
    WorstCase& of = (*worst)[from.op];
    if (!of.name.empty() && wrong <= of.wrong) continue;
    of = {wrong, absl::StrCat(ToString(from), accumulate ? ", added" : "")};
    if (!(wrong <= 1)) absl::StrAppend(&of.name, "; ", ChoiceFor(device, from));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(bool bf16, CheckRows* rows) {
  SL_ASSIGN_OR_RETURN(const auto device, CudaDevice::Make());
  // The library's attention rounds in between, and has a section of its own.
  SL_ASSIGN_OR_RETURN(const auto kernels,
                      CudaKernels::Make(device.get(), {.attention = NoAttentionLibrary}));
  std::mt19937_64 random(1);
  std::map<Op, WorstCase> worst;
  for (const OpCase& any : AllOpCases(&random)) {
    const std::optional<OpCase> one = bf16 ? InBf16(any) : std::optional<OpCase>(any);
    if (!one.has_value()) continue;
    for (const bool accumulate : {false, true}) {
      if (accumulate && RowOf(one->op).accumulates == 0) continue;
      const absl::Status status = CheckCase(*one, accumulate, device.get(), kernels.get(), &worst);
      if (status.ok()) continue;
      SL_RETURN_IF_ERROR(device->Synchronize());  // after an error of the device no further case
                                                  // can run
      worst[one->op] = {INFINITY, absl::StrCat(ToString(*one), ", ", status.message())};
    }
  }
  const char* const type = bf16 ? "bf16" : "fp32";
  for (const auto& [op, of] : worst) {
    rows->Hold(absl::StrCat(RowOf(op).name, " in ", type), of.wrong,
               absl::StrCat("the worst: ", of.name));
  }
  return absl::OkStatus();
}

// Larger than any cache, with varying values.
Array Large(DType dtype, std::vector<int64_t> shape, int32_t below = 1) {
  std::mt19937_64 random(2);
  Array array = cpu::MakeArray({dtype, std::move(shape)});
  const Array block = RandomArray({dtype, {1 << 16}}, &random, 1, below);
  auto* const to = static_cast<char*>(array.data.get());
  for (int64_t at = 0; at < array.type.bytes(); at += block.type.bytes()) {
    std::memcpy(to + at, block.data.get(),
                static_cast<size_t>(std::min(block.type.bytes(), array.type.bytes() - at)));
  }
  return array;
}
Array Bf16(std::vector<int64_t> shape) { return Large(DType::kBF16, std::move(shape)); }
Array Floats(std::vector<int64_t> shape) { return Large(DType::kF32, std::move(shape)); }
Array Integers(std::vector<int64_t> shape, int32_t below) {
  return Large(DType::kI32, std::move(shape), below);
}

// A memory-bound op, with the bytes that it has to move: all operands once, but of a table only the
// rows read.
struct MemoryCase {
  OpCase op;
  int64_t unread_bytes = 0;
  bool accumulate = false;
};

std::vector<MemoryCase> MemoryCases(const RateSizes& sizes) {
  const int64_t b = sizes.batch, t = sizes.positions, h = sizes.heads, d = 64, c = h * d;
  const int64_t v = sizes.vocabulary, few = std::max<int64_t>(1, b / 16);
  const auto x = [&] { return Bf16({b, t, c}); };
  const auto row = [&] { return Floats({c}); };
  const auto stat = [&] { return Floats({b, t}); };
  const auto qkv = [&] { return Bf16({b, t, 3 * h * d}); };
  const auto tokens = [&] { return Integers({b, t}, v); };
  const std::vector<double> heads = {double(h), double(h), 10000, 1, 0};
  const Array logits = Bf16({few, t, v});
  return {
      {{Op::kAdd, {x(), x()}, {}}},
      {{Op::kCast, {x()}, {32}}},
      {{Op::kGelu, {Bf16({b / 4, t, 4 * c})}, {}}},
      {{Op::kGeluGrad, {Bf16({b / 4, t, 4 * c}), Bf16({b / 4, t, 4 * c})}, {}}},
      {{Op::kSwiglu, {Bf16({b / 4, t, 8 * c})}, {}}},
      {{Op::kSwigluGrad, {Bf16({b / 4, t, 4 * c}), Bf16({b / 4, t, 8 * c})}, {}}},
      {{Op::kLayerNorm, {x(), row(), row()}, {1e-5}}},
      {{Op::kLayerNormGrad, {x(), x(), row(), stat(), stat()}, {}}, 0, true},
      {{Op::kRmsNorm, {x(), row()}, {1e-5}}},
      {{Op::kRmsNormGrad, {x(), x(), row(), stat()}, {}}, 0, true},
      {{Op::kRotary, {qkv()}, heads}},
      {{Op::kColumnSum, {Bf16({b, t, 3 * c})}, {}}, 0, true},
      {{Op::kPositionAdd, {x(), Bf16({t, c})}, {0}}},
      {{Op::kEmbedding, {tokens(), Bf16({v, c})}, {}}, (v - b * t) * c * 2},
      {{Op::kCrossEntropy, {logits, Integers({few, t}, v)}, {}}},
      {{Op::kCrossEntropyGrad, {Floats({}), logits, Integers({few, t}, v), Floats({few, t})}, {}}},
  };
}

int64_t BytesMoved(const MemoryCase& one, const RanOp& ran) {
  int64_t bytes = -one.unread_bytes;
  for (const Array& input : one.op.inputs) bytes += input.type.bytes();
  for (const Array& output : ran.outputs) bytes += output.type.bytes();
  return bytes;
}

absl::Status CheckMemoryRate(const MemoryCase& one, double copy_rate, CheckRows* rows) {
  SL_ASSIGN_OR_RETURN(const auto device, CudaDevice::Make());
  SL_ASSIGN_OR_RETURN(const auto kernels, CudaKernels::Make(device.get()));
  SL_ASSIGN_OR_RETURN(const RanOp ran, RunOnDevice(device.get(), kernels.get(), one.op,
                                                   OutputsBefore(one.op, one.accumulate, 3),
                                                   one.accumulate, kTimes));
  const double rate =
      static_cast<double>(BytesMoved(one, ran)) / (static_cast<double>(ran.least_ns) * 1e-9);
  const std::string figure =
      absl::StrFormat("%.0f GB/s, %.0f %% of a copy's", rate * 1e-9, 100 * rate / copy_rate);
  if (rate >= kLeastOfMemoryRate * copy_rate) {
    rows->Pass(ToString(one.op), figure);
  } else {
    rows->Fail(ToString(one.op), figure);
  }
  return absl::OkStatus();
}

absl::Status CheckMemoryRates(const RateSizes& sizes, CheckRows* rows) {
  double copy_rate = 0;
  {
    SL_ASSIGN_OR_RETURN(const auto device, CudaDevice::Make());
    SL_ASSIGN_OR_RETURN(copy_rate, CopyRate(device.get()));
  }
  for (const MemoryCase& one : MemoryCases(sizes)) {
    const absl::Status status = CheckMemoryRate(one, copy_rate, rows);
    if (!status.ok()) rows->Fail(ToString(one.op), std::string(status.message()));
  }
  return absl::OkStatus();
}

// x (n,k), w (o,k).
struct ProductCase {
  const char* name;
  int64_t n, k, o;
};

absl::StatusOr<double> FlopsOf(Op op, const ProductCase& shape) {
  SL_ASSIGN_OR_RETURN(const auto device, CudaDevice::Make());
  SL_ASSIGN_OR_RETURN(const auto kernels, CudaKernels::Make(device.get()));
  const Array x = Bf16({shape.n, shape.k}), w = Bf16({shape.o, shape.k});
  const Array y = Bf16({shape.n, shape.o});
  const OpCase product = {op,
                          op == Op::kLinear            ? std::vector<Array>{x, w}
                          : op == Op::kLinearInputGrad ? std::vector<Array>{y, w}
                                                       : std::vector<Array>{y, x},
                          {}};
  const bool adds = op == Op::kLinearWeightGrad;
  SL_ASSIGN_OR_RETURN(const RanOp ran, RunOnDevice(device.get(), kernels.get(), product,
                                                   OutputsBefore(product, adds, 3), adds, kTimes));
  return 2.0 * static_cast<double>(shape.n * shape.k * shape.o) /
         (static_cast<double>(ran.least_ns) * 1e-9);
}

absl::Status CheckProductRates(const RateSizes& sizes, CheckRows* rows) {
  const int64_t n = sizes.batch * sizes.positions, c = sizes.heads * int64_t{64};
  const int64_t m = sizes.large;
  SL_ASSIGN_OR_RETURN(const double large, FlopsOf(Op::kLinear, {"", m, m, m}));
  rows->Pass(absl::StrFormat("a product of %d x %d x %d", m, m, m),
             absl::StrFormat("%.0f TFLOP/s", large * 1e-12));
  const ProductCase shapes[] = {{"the hidden layer", n, c, 4 * c},
                                {"the head", n / 4, c, sizes.vocabulary},
                                {"a wide SwiGLU", n / 4, 2 * c, 24 * c}};
  for (const ProductCase& shape : shapes) {
    std::string figure;
    for (const Op op : {Op::kLinear, Op::kLinearInputGrad, Op::kLinearWeightGrad}) {
      SL_ASSIGN_OR_RETURN(const double flops, FlopsOf(op, shape));
      absl::StrAppendFormat(&figure, "%s%s %.0f TFLOP/s (%.0f %%)", figure.empty() ? "" : ", ",
                            RowOf(op).name, flops * 1e-12, 100 * flops / large);
    }
    rows->Pass(shape.name, figure);
  }
  return absl::OkStatus();
}

}  // namespace

void CheckKernelNumbers(CheckRows* rows) {
  for (const bool bf16 : {false, true}) {
    const absl::Status status = CheckNumbers(bf16, rows);
    if (!status.ok()) rows->Fail(bf16 ? "bf16" : "fp32", std::string(status.message()));
  }
}

void CheckKernelRates(const RateSizes& sizes, CheckRows* rows) {
  const absl::Status memory = CheckMemoryRates(sizes, rows);
  if (!memory.ok()) rows->Fail("what is bound by memory", std::string(memory.message()));
  const absl::Status products = CheckProductRates(sizes, rows);
  if (!products.ok()) rows->Fail("products", std::string(products.message()));
}

}  // namespace stringline
