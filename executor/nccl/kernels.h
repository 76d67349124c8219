// The kernels of executor/nccl: rows that travel by counts, packed into pieces that are all as
// large as any can be, and unpacked again.
//
// A piece begins with a header of kPieceHeader bytes, whose first eight are the number of rows that
// the sender sent in it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/copies/kernels.h"

namespace stringline {

constexpr int64_t kPieceHeader = 16;

// The bytes from one piece to the next.
inline int64_t PieceBytes(int64_t most_rows, int64_t row_bytes) {
  return kPieceHeader + (most_rows * row_bytes + 15) / 16 * 16;
}

// Pieces of this member, one for every member.
struct PaddedRows {
  char* pieces = nullptr;           // 16-byte aligned
  void* rows = nullptr;             // without gaps, as the counts say; only read when packed
  const int32_t* counts = nullptr;  // as in RowCounts
  int32_t counts_per_piece = 1;
  int32_t members = 0;
  int64_t row_bytes = 0;
  int64_t most_piece_rows = 0;
  int64_t piece_bytes = 0;  // PieceBytes of the two before

  // Of UnpackRows, which writes nothing where pieces are not as expected or do not fit, and says so
  // if it is the first time.
  int64_t most_rows = 0;
  int32_t member = 0;  // this one
  const void* call = nullptr;
  RowsReport* report = nullptr;  // memory of the host
};
void LaunchPackRows(const PaddedRows& rows, cudaStream_t stream);
void LaunchUnpackRows(const PaddedRows& rows, cudaStream_t stream);

}  // namespace stringline
