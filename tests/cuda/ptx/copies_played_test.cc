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
  std::vector<int64_t> row_bytes;  // by array
  int64_t offset;                  // of the rows, in bytes
  std::vector<int32_t> counts;
  int64_t most_rows, most_piece_rows;
  bool tells = false;
};

struct Unpacked {
  RowsReport report;
  std::vector<std::vector<char>> rows, unpacked;  // by array
  std::vector<int32_t> told;
};

// Packs the rows, and unpacks the pieces, as if every member had sent what it gets.
Unpacked PackAndUnpack(const PackedCase& c) {
  const int64_t count = std::accumulate(c.counts.begin(), c.counts.end(), int64_t{0});
  const auto all = static_cast<int64_t>(c.counts.size());
  auto* const counts = Take<int32_t>(all);
  std::copy(c.counts.begin(), c.counts.end(), counts);
  PaddedRows padded;
  padded.counts = counts;
  padded.counts_per_piece = 2;
  padded.members = static_cast<int32_t>(all / 2);
  padded.most_piece_rows = c.most_piece_rows;
  padded.most_rows = c.most_rows;
  padded.member = 1;
  padded.tells = c.tells;
  padded.report = Take<RowsReport>(1);
  *padded.report = {};
  std::vector<char*> from, to;
  for (const int64_t row_bytes : c.row_bytes) {
    from.push_back(Take<char>(count * row_bytes + 64) + c.offset);
    to.push_back(Take<char>(count * row_bytes + 64) + c.offset);
    for (int64_t i = 0; i < count * row_bytes; ++i) {
      from.back()[i] = static_cast<char>(i * 7 + static_cast<int64_t>(from.size()));
    }
    padded.array[padded.arrays++] = {from.back(), row_bytes};
  }
  LayOutPieces(&padded);
  padded.pieces = Take<char>(padded.members * padded.piece_bytes);
  LaunchPackRows(padded, nullptr);
  for (size_t a = 0; a < to.size(); ++a) padded.array[a].rows = to[a];
  int32_t* const told = padded.told = Take<int32_t>(all);
  if (c.tells) padded.counts = nullptr;
  LaunchUnpackRows(padded, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin_fault();
  Unpacked result;
  result.report = *padded.report;
  for (size_t a = 0; a < to.size(); ++a) {
    result.rows.emplace_back(from[a], from[a] + count * c.row_bytes[a]);
    result.unpacked.emplace_back(to[a], to[a] + count * c.row_bytes[a]);
  }
  if (c.tells) result.told.assign(told, told + all);
  return result;
}

TEST(PlayedCopies, PackedRowsAreUnpackedInUnitsOfEverySize) {
  const std::pair<std::vector<int64_t>, int64_t> kinds[] = {
      {{32}, 0}, {{12}, 4}, {{6}, 0}, {{16}, 2}, {{48, 4, 6}, 0}, {{16, 4}, 4}};
  for (const auto& [row_bytes, offset] : kinds) {
    for (const bool tells : {false, true}) {
      SCOPED_TRACE(testing::Message() << row_bytes[0] << " bytes at " << offset << tells);
      standin_reset(1);
      const PackedCase c = {row_bytes, offset, {3, 2, 0, 0, 40, 7}, 60, 47, tells};
      const Unpacked got = PackAndUnpack(c);
      EXPECT_EQ(got.report.fault, RowsFault::kNone);
      EXPECT_EQ(got.unpacked, got.rows);
      if (tells) {
        EXPECT_EQ(got.told, c.counts);
      }
    }
  }
}

TEST(PlayedCopies, RowsWithoutRoomAreReported) {
  for (const int64_t row_bytes : {16, 4, 2}) {
    for (const bool tells : {false, true}) {
      standin_reset(1);
      const Unpacked got = PackAndUnpack({{row_bytes}, 0, {3, 2, 5, 0}, 9, 8, tells});
      EXPECT_EQ(got.report.fault, RowsFault::kNoRoom);
      EXPECT_EQ(got.report.rows, 10);
      EXPECT_EQ(got.report.expected, 9);
      EXPECT_NE(got.unpacked, got.rows);
    }
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
