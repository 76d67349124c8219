// The products of rows with the weights of their experts: oneDNN's sgemm per segment of rows.
#include <dnnl.h>

#include <algorithm>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

// Calls body(expert, first row, rows) for each non-empty segment, in memory order.
template <typename Body>
void ForSegments(const Tensor& received, int64_t most, Body body) {
  thread_local const bool prepared = (PrepareThread(), true);
  SL_CHECK(prepared);
  const int64_t experts = RowLength(received), segments = received.type->elements();
  int64_t first = 0;
  for (int64_t i = 0; i < segments; ++i) {
    const int64_t rows = received.i32()[i];
    SL_CHECK(rows >= 0 && first + rows <= most) << first << " + " << rows << " rows of " << most;
    if (rows > 0) body(i % experts, first, rows);
    first += rows;
  }
}

void Succeed(dnnl_status_t status) { SL_CHECK(status == dnnl_success) << status; }

}  // namespace

// y[r,o] = sum over k of x[r,k] w[j,o,k] for the rows r of expert j
//
// x (R,K), w (e,O,K), received I32 (X,e) -> y (R,O), overwritten where there are rows.
void Run_kGroupedLinear(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t size = RowLength(in[0]), width = RowLength(out[0]);
  ForSegments(in[2], in[0].type->shape[0], [&](int64_t expert, int64_t first, int64_t rows) {
    Succeed(dnnl_sgemm('N', 'T', rows, width, size, 1.0f, in[0].f32() + first * size, size,
                       in[1].f32() + expert * width * size, size, 0.0f,
                       out[0].f32() + first * width, width));
  });
}

// dx[r,k] = sum over o of dy[r,o] w[j,o,k] for the rows r of expert j
//
// dy (R,O), w (e,O,K), received I32 (X,e) -> dx (R,K), overwritten where there are rows.
void Run_kGroupedLinearInputGrad(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t size = RowLength(out[0]), width = RowLength(in[0]);
  ForSegments(in[2], in[0].type->shape[0], [&](int64_t expert, int64_t first, int64_t rows) {
    Succeed(dnnl_sgemm('N', 'N', rows, size, width, 1.0f, in[0].f32() + first * width, width,
                       in[1].f32() + expert * width * size, size, 0.0f, out[0].f32() + first * size,
                       size));
  });
}

// dw[j,o,k] = sum over the rows r of expert j of dy[r,o] x[r,k]
//
// dy (R,O), x (R,K), received I32 (X,e) -> dw (e,O,K), overwritten or added to, segment by segment.
void Run_kGroupedLinearWeightGrad(const Node&, In in, Out out, Accumulate accumulate, void*) {
  const int64_t size = RowLength(in[1]), width = RowLength(in[0]);
  if (!accumulate[0]) std::fill_n(out[0].f32(), out[0].type->elements(), 0.0f);
  ForSegments(in[2], in[0].type->shape[0], [&](int64_t expert, int64_t first, int64_t rows) {
    Succeed(dnnl_sgemm('T', 'N', width, size, rows, 1.0f, in[0].f32() + first * width, width,
                       in[1].f32() + first * size, size, 1.0f, out[0].f32() + expert * width * size,
                       size));
  });
}

}  // namespace stringline::cpu
