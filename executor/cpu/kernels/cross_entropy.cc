#include <cmath>
#include <cstring>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/vec.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/align.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

// log of the sum over v of e^x[v].
float LogSumExp(const float* x, int64_t count) {
  const int64_t whole = count / kLanes * kLanes;
  float most = x[0];
  if (whole > 0) {
    Vec best = Load(x);
    for (int64_t v = kLanes; v < whole; v += kLanes) best = Max(best, Load(x + v));
    most = MaxOf(best);
  }
  for (int64_t v = whole; v < count; ++v) most = std::max(most, x[v]);
  Vec sum = {};
  ForVectors<4>(whole, [&]<int N>(int64_t at, int64_t) {
    Vec e[N];
    LoadAll(x + at, kLanes, e);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) e[i] -= most;
    ExpAll(e);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) sum += e[i];
  });
  float total = Sum(sum);
  if (whole < count) {
    const Vec tail = Exp(LoadPart(x + whole, count - whole) - most);
    for (int64_t v = whole; v < count; ++v) total += tail[v - whole];
  }
  return most + std::log(total);
}

// A row of logits as F32: a BF16 row is widened into `wide`, which has room for one row.
const float* WideRow(const Tensor& logits, int64_t n, float* wide) {
  const int64_t columns = RowLength(logits);
  if (logits.type->dtype == DType::kF32) return logits.f32() + n * columns;
  FromBf16(logits.bf16() + n * columns, columns, wide);
  return wide;
}

}  // namespace

int64_t CrossEntropyWorkspace(const Type& logits) {
  return logits.dtype == DType::kF32 ? 0 : AlignUp(logits.shape.back() * BytesOf(DType::kF32));
}

// lse[n] = log of the sum over v of e^logits[n,v]
// loss = sum over n of lse[n] - logits[n,target[n]]         summed in double, ascending
//
// over the rows that have a target. logits (N,V) F32 or BF16, target I32 (N) in 0 .. V-1 or
// kNoTarget -> loss (), lse (N), both overwritten.
void Run_kCrossEntropy(const Node&, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  double loss = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const float* logits = WideRow(in[0], n, static_cast<float*>(workspace));
    const int32_t target = in[1].i32()[n];
    const float lse = LogSumExp(logits, columns);
    out[1].f32()[n] = lse;
    if (target == kNoTarget) continue;
    SL_CHECK(target >= 0 && target < columns) << "target " << target;
    loss += static_cast<double>(lse) - static_cast<double>(logits[target]);
  }
  *out[0].f32() = static_cast<float>(loss);
}

// dlogits[n,v] = dloss (e^(logits[n,v] - lse[n]) - [v = target[n]]), or 0 in a row without a target
//
// dloss (), logits (N,V) F32 or BF16, target I32 (N) or kNoTarget, lse (N) -> dlogits (N,V),
// overwritten.
void Run_kCrossEntropyGrad(const Node&, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[1]), columns = RowLength(in[1]);
  const float scale = *in[0].f32();
  const bool narrow = out[0].type->dtype == DType::kBF16;
  float* const wide_row = static_cast<float*>(workspace);  // logits, then their gradient
  for (int64_t n = 0; n < rows; ++n) {
    if (in[2].i32()[n] == kNoTarget) {
      std::memset(RowAt(out[0], n), 0, static_cast<size_t>(RowBytes(out[0])));
      continue;
    }
    const float* logits = WideRow(in[1], n, wide_row);
    float* dlogits = narrow ? wide_row : out[0].f32() + n * columns;
    const float lse = in[3].f32()[n];
    ForVectors<4>(columns, [&]<int N>(int64_t at, int64_t width) {
      Vec e[N];
      LoadAll(logits + at, width, e);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) e[i] -= lse;
      ExpAll(e);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) e[i] *= scale;
      StoreAll(dlogits + at, width, e);
    });
    dlogits[in[2].i32()[n]] -= scale;
    if (narrow) ToBf16(dlogits, columns, out[0].bf16() + n * columns);
  }
}

}  // namespace stringline::cpu
