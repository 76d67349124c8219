// Every body is written once, for one of `threads` threads that share the work. On the host a
// single thread does all of it.
#include <algorithm>

#include "executor/cuda/bodies/host_twin.h"
#include "executor/cuda/declared_use.h"
#include "executor/cuda/grid.h"
#include "executor/nccl/kernels.h"

namespace stringline {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 128;

__host__ __device__ char* PieceOf(const PaddedRows& rows, int piece) {
  return rows.pieces + piece * rows.piece_bytes;
}

__host__ __device__ int64_t* SentIn(const PaddedRows& rows, int piece) {
  return reinterpret_cast<int64_t*>(PieceOf(rows, piece));
}

__host__ __device__ int32_t* ToldIn(const PaddedRows& rows, int piece) {
  return reinterpret_cast<int32_t*>(PieceOf(rows, piece) + kPieceHeader);
}

__host__ __device__ int64_t RowsOf(const PaddedRows& rows, int piece) {
  const int32_t* const counts = rows.counts == nullptr
                                    ? ToldIn(rows, piece)
                                    : rows.counts + int64_t{piece} * rows.counts_per_piece;
  int64_t sum = 0;
  for (int i = 0; i < rows.counts_per_piece; ++i) sum += counts[i];
  return sum;
}

template <typename Unit>
__host__ __device__ void MoveUnits(char* to, const char* from, int64_t bytes, int64_t thread,
                                   int64_t threads) {
  for (int64_t i = thread; i < bytes / static_cast<int64_t>(sizeof(Unit)); i += threads) {
    reinterpret_cast<Unit*>(to)[i] = reinterpret_cast<const Unit*>(from)[i];
  }
}

// In the largest units that divide the row size and the addresses, of which those in pieces are
// aligned.
__host__ __device__ void MoveRows(char* to, const char* from, uint64_t unit_of, int64_t bytes,
                                  int64_t thread, int64_t threads) {
  if (unit_of % 16 == 0) {
    MoveUnits<Bytes16>(to, from, bytes, thread, threads);
  } else if (unit_of % 4 == 0) {
    MoveUnits<uint32_t>(to, from, bytes, thread, threads);
  } else {
    MoveUnits<char>(to, from, bytes, thread, threads);
  }
}

// Moves the rows of a piece, before which there are others, into the piece or out of it.
__host__ __device__ void MovePiece(const PaddedRows& rows, int piece, int64_t before, int64_t count,
                                   bool packs, int64_t thread, int64_t threads) {
  for (int a = 0; a < rows.arrays; ++a) {
    const PaddedArray& array = rows.array[a];
    char* const padded = PieceOf(rows, piece) + array.place;
    char* const own = static_cast<char*>(array.rows) + before * array.row_bytes;
    const uint64_t bits = static_cast<uint64_t>(array.row_bytes) |
                          static_cast<uint64_t>(reinterpret_cast<uintptr_t>(array.rows));
    MoveRows(packs ? padded : own, packs ? own : padded, bits, count * array.row_bytes, thread,
             threads);
  }
}

// A piece that is too large is not packed; its header holds its size.
__host__ __device__ void PackBody(const PaddedRows& rows, int64_t thread, int64_t threads) {
  int64_t before = 0;
  for (int piece = 0; piece < rows.members; ++piece) {
    const int64_t count = RowsOf(rows, piece);
    if (thread == 0) *SentIn(rows, piece) = count;
    for (int64_t i = thread; rows.tells && i < rows.counts_per_piece; i += threads) {
      ToldIn(rows, piece)[i] = rows.counts[int64_t{piece} * rows.counts_per_piece + i];
    }
    if (count <= rows.most_piece_rows) {
      MovePiece(rows, piece, before, count, /*packs=*/true, thread, threads);
    }
    before += count;
  }
}

// Every thread reads all headers, so all agree on faults.
__host__ __device__ void UnpackBody(const PaddedRows& rows, int64_t thread, int64_t threads) {
  RowsReport report;
  int64_t all = 0;
  for (int piece = rows.members - 1; piece >= 0; --piece) {  // backwards, so that the first fault
                                                             // is reported
    const int64_t sent = *SentIn(rows, piece), expected = RowsOf(rows, piece);
    all += expected;
    if (sent != expected) {
      report = {RowsFault::kCountsDiffer, piece, rows.member, sent, expected, rows.call};
    } else if (sent > rows.most_piece_rows) {
      report = {RowsFault::kNoRoom, piece, rows.member, sent, rows.most_piece_rows, rows.call};
    }
    for (int64_t i = thread; rows.tells && i < rows.counts_per_piece; i += threads) {
      rows.told[int64_t{piece} * rows.counts_per_piece + i] = ToldIn(rows, piece)[i];
    }
  }
  if (report.fault == RowsFault::kNone && all > rows.most_rows) {
    report = {RowsFault::kNoRoom, -1, rows.member, all, rows.most_rows, rows.call};
  }
  if (report.fault != RowsFault::kNone) {
    if (thread == 0 && rows.report->fault == RowsFault::kNone) *rows.report = report;
    return;
  }
  int64_t before = 0;
  for (int piece = 0; piece < rows.members; ++piece) {
    const int64_t count = RowsOf(rows, piece);
    MovePiece(rows, piece, before, count, /*packs=*/false, thread, threads);
    before += count;
  }
}

// Declares the memory of the counts.
void UsesCounts(const PaddedRows& rows, int32_t* counts, bool writes) {
  const int64_t all = int64_t{rows.members} * rows.counts_per_piece;
  TwinUses(counts, all * static_cast<int64_t>(sizeof(int32_t)), writes);
}

// Declares the memory of all rows, of which there are at most so many.
void UsesRows(const PaddedRows& rows, int64_t most, bool writes) {
  int64_t all = 0;
  for (int piece = 0; piece < rows.members; ++piece) all += RowsOf(rows, piece);
  for (int a = 0; a < rows.arrays; ++a) {
    TwinUses(rows.array[a].rows, std::min(all, most) * rows.array[a].row_bytes, writes);
  }
}

}  // namespace

namespace padded_kernels {

__global__ void PackRows(PaddedRows rows) { PackBody(rows, ThreadOfGrid(), ThreadsOfGrid()); }
void HostPackRows(PaddedRows rows) {
  UsesCounts(rows, const_cast<int32_t*>(rows.counts), false);
  UsesRows(rows, INT64_MAX, false);
  TwinUses(rows.pieces, rows.members * rows.piece_bytes, true);
  PackBody(rows, 0, 1);
}

__global__ void UnpackRows(PaddedRows rows) { UnpackBody(rows, ThreadOfGrid(), ThreadsOfGrid()); }
void HostUnpackRows(PaddedRows rows) {
  TwinUses(rows.pieces, rows.members * rows.piece_bytes, false);
  UsesCounts(rows, rows.tells ? rows.told : const_cast<int32_t*>(rows.counts), rows.tells);
  UsesRows(rows, rows.most_rows, true);
  UnpackBody(rows, 0, 1);
  if (rows.report->fault != RowsFault::kNone) TwinUses(rows.report, sizeof(RowsReport), true);
}

}  // namespace padded_kernels

namespace {

using namespace padded_kernels;

[[maybe_unused]] const bool kTwins[] = {
    HasTwin<PackRows, HostPackRows>(),
    HasTwin<UnpackRows, HostUnpackRows>(),
};

}  // namespace

void LaunchPackRows(const PaddedRows& rows, cudaStream_t stream) {
  PackRows<<<kBlocks, kThreads, 0, stream>>>(rows);
}

void LaunchUnpackRows(const PaddedRows& rows, cudaStream_t stream) {
  UnpackRows<<<kBlocks, kThreads, 0, stream>>>(rows);
}

}  // namespace stringline
