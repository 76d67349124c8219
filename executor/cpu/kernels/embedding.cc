#include <algorithm>
#include <cstring>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {

// y[n,:] = table[token[n],:]
//
// token I32 (N) in 0 .. V-1, table (V,C) F32 or BF16 -> y (N,C), overwritten.
void Run_kEmbedding(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(in[1]), count = in[0].type->elements();
  for (int64_t n = 0; n < count; ++n) {
    const int32_t token = in[0].i32()[n];
    SL_CHECK(token >= 0 && token < rows) << "token " << token;
    std::memcpy(RowAt(out[0], n), RowAt(in[1], token), static_cast<size_t>(RowBytes(in[1])));
  }
}

// As kEmbedding; the two differ in their gradients.
void Run_kPaddedEmbedding(const Node& node, In in, Out out, Accumulate accumulate,
                          void* workspace) {
  Run_kEmbedding(node, in, out, accumulate, workspace);
}

namespace {

// dtable[token[n],:] += dy[n,:] for n in ascending order, but for the tokens `padding`.
void AddRows(In in, const Tensor& dtable, bool accumulate, int32_t padding) {
  const int64_t width = RowLength(dtable), rows = RowCount(dtable);
  const int64_t count = in[0].type->elements();
  if (!accumulate) std::fill_n(dtable.f32(), rows * width, 0.0f);
  for (int64_t n = 0; n < count; ++n) {
    const int32_t token = in[0].i32()[n];
    SL_CHECK(token >= 0 && token < rows) << "token " << token;
    if (token == padding) continue;
    const float* __restrict dy = in[1].f32() + n * width;
    float* __restrict row = dtable.f32() + token * width;
    for (int64_t c = 0; c < width; ++c) row[c] += dy[c];
  }
}

}  // namespace

// dtable[token[n],:] += dy[n,:]               for n in ascending order
//
// token I32 (N), dy (N,C) -> dtable (V,C), overwritten or added to.
void Run_kEmbeddingGrad(const Node&, In in, Out out, Accumulate accumulate, void*) {
  AddRows(in, out[0], accumulate[0], /*padding=*/-1);
}

// The same without the rows of the padding.
void Run_kPaddedEmbeddingGrad(const Node& node, In in, Out out, Accumulate accumulate, void*) {
  AddRows(in, out[0], accumulate[0], static_cast<int32_t>(node.attributes[1]));
}

}  // namespace stringline::cpu
