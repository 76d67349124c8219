// The kernels of executor/nccl: counted rows, packed into pieces of the largest possible size, and
// unpacked again.
//
// A piece begins with a header of kPieceHeader bytes, whose first eight are the number of rows sent
// in the piece.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/cuda/copies/kernels.h"

namespace stringline {

constexpr int64_t kPieceHeader = 16;

// The bytes from a piece to the next.
inline int64_t PieceBytes(int64_t most_rows, int64_t row_bytes) {
  return kPieceHeader + (most_rows * row_bytes + 15) / 16 * 16;
}

// A member's pieces, one for every member.
struct PaddedRows {
  char* pieces = nullptr;           // 16-byte aligned
  void* rows = nullptr;             // contiguous, by the counts; only read when packed
  const int32_t* counts = nullptr;  // as in RowCounts
  int32_t counts_per_piece = 1;
  int32_t members = 0;
  int64_t row_bytes = 0;
  int64_t most_piece_rows = 0;
  int64_t piece_bytes = 0;  // PieceBytes of the two members above

  // For UnpackRows, which writes no rows if pieces differ from the counts or do not fit, and then
  // fills in the report unless it has a fault already.
  int64_t most_rows = 0;
  int32_t member = 0;  // the unpacking member
  const void* call = nullptr;
  RowsReport* report = nullptr;  // memory of the host
};
void LaunchPackRows(const PaddedRows& rows, cudaStream_t stream);
void LaunchUnpackRows(const PaddedRows& rows, cudaStream_t stream);

}  // namespace stringline
