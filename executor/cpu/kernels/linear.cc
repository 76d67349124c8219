// The matrix products: oneDNN's sgemm, row-major, on the calling thread.
#include <dnnl.h>

#include <algorithm>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

struct Matrix {
  const Tensor& tensor;
  bool transposed;
  int64_t rows() const { return transposed ? RowLength(tensor) : RowCount(tensor); }
  int64_t columns() const { return transposed ? RowCount(tensor) : RowLength(tensor); }
};

// c = a b, or c += a b.
void Product(Matrix a, Matrix b, const Tensor& c, bool accumulate) {
  thread_local const bool prepared = (PrepareThread(), true);
  SL_CHECK(prepared);
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', a.rows(), b.columns(),
                 a.columns(), 1.0f, a.tensor.f32(), RowLength(a.tensor), b.tensor.f32(),
                 RowLength(b.tensor), accumulate ? 1.0f : 0.0f, c.f32(), RowLength(c));
  SL_CHECK(status == dnnl_success) << status;
}

}  // namespace

// y[n,o] = sum over k of x[n,k] w[o,k]
//
// x (N,K), w (O,K) -> y (N,O), overwritten.
void Run_kLinear(const Node&, In in, Out out, Accumulate, void*) {
  Product({in[0], false}, {in[1], true}, out[0], false);
}

// y[n,o] = b[o] + sum over k of x[n,k] w[o,k]
//
// x (N,K), w (O,K), b (O) -> y (N,O), overwritten: b first, to which the product is added.
void Run_kLinearBias(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(out[0]), columns = RowLength(out[0]);
  for (int64_t n = 0; n < rows; ++n) {
    std::copy_n(in[2].f32(), columns, out[0].f32() + n * columns);
  }
  Product({in[0], false}, {in[1], true}, out[0], true);
}

// y[n,o] = z[n,o] + b[o] + sum over k of x[n,k] w[o,k]
//
// x (N,K), w (O,K), b (O), z (N,O) -> y (N,O), overwritten: z + b first, as above.
void Run_kLinearResidual(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(out[0]), columns = RowLength(out[0]);
  const float* __restrict b = in[2].f32();
  for (int64_t n = 0; n < rows; ++n) {
    const float* __restrict z = in[3].f32() + n * columns;
    float* __restrict y = out[0].f32() + n * columns;
    for (int64_t c = 0; c < columns; ++c) y[c] = z[c] + b[c];
  }
  Product({in[0], false}, {in[1], true}, out[0], true);
}

// y[n,o] = z[n,o] + sum over k of x[n,k] w[o,k]
//
// x (N,K), w (O,K), z (N,O) -> y (N,O), overwritten: z first, as above.
void Run_kLinearAdd(const Node&, In in, Out out, Accumulate, void*) {
  std::copy_n(in[2].f32(), out[0].type->elements(), out[0].f32());
  Product({in[0], false}, {in[1], true}, out[0], true);
}

// dx[n,k] = sum over o of dy[n,o] w[o,k]
//
// dy (N,O), w (O,K) -> dx (N,K), overwritten.
void Run_kLinearInputGrad(const Node&, In in, Out out, Accumulate, void*) {
  Product({in[0], false}, {in[1], false}, out[0], false);
}

// dw[o,k] = sum over n of dy[n,o] x[n,k]
//
// dy (N,O), x (N,K) -> dw (O,K), overwritten or added to.
void Run_kLinearWeightGrad(const Node&, In in, Out out, Accumulate accumulate, void*) {
  Product({in[0], true}, {in[1], false}, out[0], accumulate[0]);
}

}  // namespace stringline::cpu
