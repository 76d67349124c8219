// Parts of rows and of sequences, copied: what the slices of a sequence leave for one another.
#include <cstring>

#include "executor/cpu/kernels/kernels.h"

namespace stringline::cpu {
namespace {

// Pieces of memory that lie `stride` bytes apart.
struct Pieces {
  char* data;
  int64_t stride;
};

Pieces RowsOf(const Tensor& tensor) { return {RowAt(tensor, 0), RowBytes(tensor)}; }

// The sequences of a tensor (B,T,C), each from position `first` on.
Pieces SequencesOf(const Tensor& tensor, int64_t first) {
  return {RowAt(tensor, first), tensor.type->shape[1] * RowBytes(tensor)};
}

// `count` pieces of `bytes` bytes.
void CopyPieces(Pieces from, Pieces to, int64_t count, int64_t bytes) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to.data + i * to.stride, from.data + i * from.stride, static_cast<size_t>(bytes));
  }
}

// The bytes of a row's queries, which come before its keys and values.
int64_t BytesOfQueries(const Tensor& qkv, const Node& node) {
  const auto queries = static_cast<int64_t>(node.attributes[0]);
  const auto keys = static_cast<int64_t>(node.attributes[1]);
  return RowBytes(qkv) / (queries + 2 * keys) * queries;
}

}  // namespace

// y[n,c] = x[n,HD+c]
//
// qkv (B,T,(H+2K)D) F32 or BF16 -> y (B,T,2KD), overwritten.
void Run_kPackKeys(const Node& node, In in, Out out, Accumulate, void*) {
  Pieces from = RowsOf(in[0]);
  from.data += BytesOfQueries(in[0], node);
  CopyPieces(from, RowsOf(out[0]), RowCount(in[0]), RowBytes(out[0]));
}

// dqkv[n,HD+c] = dy[n,c], and 0 for the queries
//
// dy (B,T,2KD) F32 or BF16 -> dqkv (B,T,(H+2K)D), overwritten.
void Run_kPackKeysGrad(const Node& node, In in, Out out, Accumulate, void*) {
  const int64_t queries = BytesOfQueries(out[0], node);
  Pieces to = RowsOf(out[0]);
  for (int64_t n = 0; n < RowCount(out[0]); ++n) {
    std::memset(to.data + n * to.stride, 0, static_cast<size_t>(queries));
  }
  to.data += queries;
  CopyPieces(RowsOf(in[0]), to, RowCount(in[0]), RowBytes(in[0]));
}

// y[b,t,:] = a[b,t,:] for t < P, b[b,t-P,:] behind them
//
// a (B,P,C), b (B,T,C) F32 or BF16 -> y (B,P+T,C), overwritten.
void Run_kAppendPositions(const Node&, In in, Out out, Accumulate, void*) {
  int64_t first = 0;
  for (const Tensor& part : in) {
    const Pieces from = SequencesOf(part, 0);
    CopyPieces(from, SequencesOf(out[0], first), part.type->shape[0], from.stride);
    first += part.type->shape[1];
  }
}

// y[b,t,:] = x[b,first+t,:]
//
// x (B,T,C) F32 or BF16 -> y (B,count,C), overwritten.
void Run_kTakePositions(const Node& node, In in, Out out, Accumulate, void*) {
  const Pieces to = SequencesOf(out[0], 0);
  CopyPieces(SequencesOf(in[0], static_cast<int64_t>(node.attributes[0])), to, in[0].type->shape[0],
             to.stride);
}

}  // namespace stringline::cpu
