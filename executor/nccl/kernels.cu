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

__host__ __device__ int64_t RowsOf(const PaddedRows& rows, int piece) {
  int64_t sum = 0;
  for (int i = 0; i < rows.counts_per_piece; ++i) {
    sum += rows.counts[piece * rows.counts_per_piece + i];
  }
  return sum;
}

__host__ __device__ char* PieceOf(const PaddedRows& rows, int piece) {
  return rows.pieces + piece * rows.piece_bytes;
}

__host__ __device__ int64_t SentIn(const PaddedRows& rows, int piece) {
  return *reinterpret_cast<const int64_t*>(PieceOf(rows, piece));
}

template <typename Unit>
__host__ __device__ void MoveRows(void* to, const void* from, int64_t bytes, int64_t thread,
                                  int64_t threads) {
  for (int64_t i = thread; i < bytes / static_cast<int64_t>(sizeof(Unit)); i += threads) {
    static_cast<Unit*>(to)[i] = static_cast<const Unit*>(from)[i];
  }
}

// A piece that is too large is not packed; its header holds its size.
template <typename Unit>
__host__ __device__ void PackBody(const PaddedRows& rows, int64_t thread, int64_t threads) {
  const char* from = static_cast<const char*>(rows.rows);
  for (int piece = 0; piece < rows.members; ++piece) {
    const int64_t count = RowsOf(rows, piece), bytes = count * rows.row_bytes;
    if (thread == 0) *reinterpret_cast<int64_t*>(PieceOf(rows, piece)) = count;
    if (count <= rows.most_piece_rows) {
      MoveRows<Unit>(PieceOf(rows, piece) + kPieceHeader, from, bytes, thread, threads);
    }
    from += bytes;
  }
}

// Every thread reads all headers, so all agree on faults.
template <typename Unit>
__host__ __device__ void UnpackBody(const PaddedRows& rows, int64_t thread, int64_t threads) {
  RowsReport report;
  int64_t all = 0;
  for (int piece = rows.members - 1; piece >= 0; --piece) {  // backwards, so that the first fault
                                                             // is reported
    const int64_t sent = SentIn(rows, piece), expected = RowsOf(rows, piece);
    all += expected;
    if (sent != expected) {
      report = {RowsFault::kCountsDiffer, piece, rows.member, sent, expected, rows.call};
    } else if (sent > rows.most_piece_rows) {
      report = {RowsFault::kNoRoom, piece, rows.member, sent, rows.most_piece_rows, rows.call};
    }
  }
  if (report.fault == RowsFault::kNone && all > rows.most_rows) {
    report = {RowsFault::kNoRoom, -1, rows.member, all, rows.most_rows, rows.call};
  }
  if (report.fault != RowsFault::kNone) {
    if (thread == 0 && rows.report->fault == RowsFault::kNone) *rows.report = report;
    return;
  }
  char* to = static_cast<char*>(rows.rows);
  for (int piece = 0; piece < rows.members; ++piece) {
    const int64_t bytes = RowsOf(rows, piece) * rows.row_bytes;
    MoveRows<Unit>(to, PieceOf(rows, piece) + kPieceHeader, bytes, thread, threads);
    to += bytes;
  }
}

}  // namespace

namespace {

// Declares the counts, and returns the bytes of all rows.
int64_t UsesOfBoth(const PaddedRows& rows) {
  const int64_t counts = int64_t{rows.members} * rows.counts_per_piece;
  TwinUses(rows.counts, counts * static_cast<int64_t>(sizeof(int32_t)), false);
  int64_t bytes = 0;
  for (int piece = 0; piece < rows.members; ++piece) bytes += RowsOf(rows, piece) * rows.row_bytes;
  return bytes;
}

}  // namespace

namespace padded_kernels {

template <typename Unit>
__global__ void PackRows(PaddedRows rows) {
  PackBody<Unit>(rows, ThreadOfGrid(), ThreadsOfGrid());
}
template <typename Unit>
void HostPackRows(PaddedRows rows) {
  const int64_t bytes = UsesOfBoth(rows);
  TwinUses(rows.rows, bytes, false);
  TwinUses(rows.pieces, rows.members * rows.piece_bytes, true);
  PackBody<Unit>(rows, 0, 1);
}

template <typename Unit>
__global__ void UnpackRows(PaddedRows rows) {
  UnpackBody<Unit>(rows, ThreadOfGrid(), ThreadsOfGrid());
}
template <typename Unit>
void HostUnpackRows(PaddedRows rows) {
  const int64_t bytes = UsesOfBoth(rows);
  TwinUses(rows.pieces, rows.members * rows.piece_bytes, false);
  TwinUses(rows.rows, std::min(bytes, rows.most_rows * rows.row_bytes), true);
  UnpackBody<Unit>(rows, 0, 1);
  if (rows.report->fault != RowsFault::kNone) TwinUses(rows.report, sizeof(RowsReport), true);
}

}  // namespace padded_kernels

namespace {

using namespace padded_kernels;

[[maybe_unused]] const bool kTwins[] = {
    HasTwin<PackRows<char>, HostPackRows<char>>(),
    HasTwin<PackRows<uint32_t>, HostPackRows<uint32_t>>(),
    HasTwin<PackRows<Bytes16>, HostPackRows<Bytes16>>(),
    HasTwin<UnpackRows<char>, HostUnpackRows<char>>(),
    HasTwin<UnpackRows<uint32_t>, HostUnpackRows<uint32_t>>(),
    HasTwin<UnpackRows<Bytes16>, HostUnpackRows<Bytes16>>(),
};

// The largest unit that divides the row size and the addresses.
int UnitOf(const PaddedRows& rows) {
  const auto bits = static_cast<uint64_t>(rows.row_bytes) | reinterpret_cast<uintptr_t>(rows.rows);
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
}

}  // namespace

void LaunchPackRows(const PaddedRows& rows, cudaStream_t stream) {
  switch (UnitOf(rows)) {
    case 16:
      PackRows<Bytes16><<<kBlocks, kThreads, 0, stream>>>(rows);
      return;
    case 4:
      PackRows<uint32_t><<<kBlocks, kThreads, 0, stream>>>(rows);
      return;
    default:
      PackRows<char><<<kBlocks, kThreads, 0, stream>>>(rows);
  }
}

void LaunchUnpackRows(const PaddedRows& rows, cudaStream_t stream) {
  switch (UnitOf(rows)) {
    case 16:
      UnpackRows<Bytes16><<<kBlocks, kThreads, 0, stream>>>(rows);
      return;
    case 4:
      UnpackRows<uint32_t><<<kBlocks, kThreads, 0, stream>>>(rows);
      return;
    default:
      UnpackRows<char><<<kBlocks, kThreads, 0, stream>>>(rows);
  }
}

}  // namespace stringline
