// Kernels that only groups of processes or slow wires launch, as compiled code: packed rows are
// unpacked again, in units of every size; and a wire holds its stream. Their twins have run before,
// and the stand-in compares the results.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "executor/cuda/copies/kernels.h"
#include "executor/nccl/kernels.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

template <typename T>
T* Take(int64_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMallocHost(&memory, static_cast<size_t>(count) * sizeof(T)), cudaSuccess);
  return static_cast<T*>(memory);
}

struct PackedCase {
  int64_t row_bytes;
  int64_t offset;  // of the rows, in bytes
  std::vector<int32_t> counts;
  int64_t most_rows, most_piece_rows;
};

// Packs the rows, and unpacks the pieces, as if every member had sent what it gets.
void PackAndUnpack(const PackedCase& c, RowsReport* report, std::vector<char>* rows,
                   std::vector<char>* unpacked) {
  const auto members = static_cast<int32_t>(c.counts.size() / 2);
  const int64_t count = std::accumulate(c.counts.begin(), c.counts.end(), int64_t{0});
  const int64_t bytes = count * c.row_bytes;
  char* const from = Take<char>(bytes + 64) + c.offset;
  char* const to = Take<char>(bytes + 64) + c.offset;
  for (int64_t i = 0; i < bytes; ++i) from[i] = static_cast<char>(i * 7 + 3);
  auto* const counts = Take<int32_t>(static_cast<int64_t>(c.counts.size()));
  std::copy(c.counts.begin(), c.counts.end(), counts);
  PaddedRows padded;
  padded.piece_bytes = PieceBytes(c.most_piece_rows, c.row_bytes);
  padded.pieces = Take<char>(members * padded.piece_bytes);
  padded.rows = from;
  padded.counts = counts;
  padded.counts_per_piece = 2;
  padded.members = members;
  padded.row_bytes = c.row_bytes;
  padded.most_piece_rows = c.most_piece_rows;
  padded.most_rows = c.most_rows;
  padded.member = 1;
  padded.report = Take<RowsReport>(1);
  *padded.report = {};
  LaunchPackRows(padded, nullptr);
  padded.rows = to;
  LaunchUnpackRows(padded, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin_fault();
  *report = *padded.report;
  rows->assign(from, from + bytes);
  unpacked->assign(to, to + bytes);
}

TEST(PlayedCopies, PackedRowsAreUnpackedInUnitsOfEverySize) {
  for (const auto& [row_bytes, offset] : {std::pair(32, 0), {12, 4}, {6, 0}, {16, 2}}) {
    SCOPED_TRACE(testing::Message() << row_bytes << " bytes at " << offset);
    standin_reset(1);
    const PackedCase c = {row_bytes, offset, {3, 2, 0, 0, 40, 7}, 60, 47};
    RowsReport report;
    std::vector<char> rows, unpacked;
    PackAndUnpack(c, &report, &rows, &unpacked);
    EXPECT_EQ(report.fault, RowsFault::kNone);
    EXPECT_EQ(unpacked, rows);
  }
}

TEST(PlayedCopies, RowsWithoutRoomAreReported) {
  for (const int64_t row_bytes : {16, 4, 2}) {
    standin_reset(1);
    const PackedCase c = {row_bytes, 0, {3, 2, 5, 0}, 9, 8};
    RowsReport report;
    std::vector<char> rows, unpacked;
    PackAndUnpack(c, &report, &rows, &unpacked);
    EXPECT_EQ(report.fault, RowsFault::kNoRoom);
    EXPECT_EQ(report.rows, 10);
    EXPECT_EQ(report.expected, 9);
    EXPECT_NE(unpacked, rows);
  }
}

TEST(PlayedCopies, AWireHoldsItsStream) {
  standin_reset(1);
  WireHold hold;
  hold.latency_ns = 30'000;
  hold.bytes_per_s = 1e9;
  hold.bytes = 50'000;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&begin, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(begin, stream, cudaEventRecordDefault), cudaSuccess);
  LaunchHold(hold, stream);
  ASSERT_EQ(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess) << standin_fault();
  float ms = 0;
  ASSERT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 0.080f);
  EXPECT_LE(ms, 0.081f);
  standin_reset(1);
}

}  // namespace
}  // namespace stringline
