// The kernels of executor/nccl: counted rows, packed into pieces of the largest possible size, and
// unpacked again.
//
// A piece begins with a header of kPieceHeader bytes, whose first eight are the number of rows sent
// in the piece. If the call tells counts, those of the piece follow. Then there is room for the
// piece's rows of one array after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/cuda/copies/kernels.h"

namespace stringline {

constexpr int64_t kPieceHeader = 16;
constexpr int kMostPaddedArrays = 4;

struct PaddedArray {
  void* rows = nullptr;  // contiguous, by the counts; only read when packed
  int64_t row_bytes = 0;
  int64_t place = 0;  // offset in a piece
};

// A member's pieces, one for every member.
struct PaddedRows {
  char* pieces = nullptr;           // 16-byte aligned
  const int32_t* counts = nullptr;  // as in RowCounts; null: UnpackRows finds them in the pieces
  int32_t counts_per_piece = 1;
  int32_t members = 0;
  int64_t most_piece_rows = 0;
  PaddedArray array[kMostPaddedArrays];
  int32_t arrays = 0;
  bool tells = false;       // pieces tell counts
  int64_t piece_bytes = 0;  // from a piece to the next

  // For UnpackRows, which writes no rows if pieces differ from the counts or do not fit, and then
  // fills in the report unless it has a fault already.
  int32_t* told = nullptr;
  int64_t most_rows = 0;
  int32_t member = 0;  // the unpacking member
  const void* call = nullptr;
  RowsReport* report = nullptr;  // memory of the host
};
// Computes the arrays' places and the bytes of a piece from the members before `piece_bytes`.
inline void LayOutPieces(PaddedRows* rows) {
  const auto aligned = [](int64_t bytes) { return (bytes + 15) / 16 * 16; };
  int64_t at = kPieceHeader;
  if (rows->tells) at += aligned(rows->counts_per_piece * static_cast<int64_t>(sizeof(int32_t)));
  for (int a = 0; a < rows->arrays; ++a) {
    rows->array[a].place = at;
    at += aligned(rows->most_piece_rows * rows->array[a].row_bytes);
  }
  rows->piece_bytes = at;
}
void LaunchPackRows(const PaddedRows& rows, cudaStream_t stream);
void LaunchUnpackRows(const PaddedRows& rows, cudaStream_t stream);

}  // namespace stringline
