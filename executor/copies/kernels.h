// The kernels of copies/group: sums over the members of a group, rows that travel by counts which
// only the GPU knows, and a wire that is slow.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stringline {

// The most members of a group: what fits into a kernel's arguments.
constexpr int kMostCopyMembers = 64;

// to[k][i] = sum over m, in their order, of from[m][i], for all k and for i below `count`. What is
// summed into may be one of the summands.
struct SumShare {
  const float* from[kMostCopyMembers];
  float* to[kMostCopyMembers];
  int32_t summands = 0;
  int32_t targets = 0;
  int64_t count = 0;
};
void LaunchSum(const SumShare& share, cudaStream_t stream);

// Rows from one member to another, as PlanRows finds them.
struct PieceOfRows {
  int64_t sent = 0;         // by the counts of the one that sends
  int64_t expected = 0;     // by those of the other
  int64_t before_from = 0;  // rows before it in `from` of the one
  int64_t before_to = 0;    // and in `to` of the other
};

enum class RowsFault : int32_t { kNone, kCountsDiffer, kNoRoom };

// The first call whose counts were wrong.
struct RowsReport {
  RowsFault fault = RowsFault::kNone;
  int32_t from = -1;  // of kCountsDiffer
  int32_t to = -1;
  int64_t rows = 0;            // sent to `to`, by `from` or by all
  int64_t expected = 0;        // or, of kNoRoom, what there is room for
  const void* call = nullptr;  // of `from`; of kNoRoom that of `to`
};

// What PlanRows reads of a member. Counts and most_rows are those of Call.
struct RowsMember {
  const int32_t* from_counts = nullptr;
  const int32_t* to_counts = nullptr;
  int64_t most_rows = 0;
  const void* call = nullptr;  // only named
};

// Fills pieces[from * members + to]. Where counts do not agree, or there is no room, *faulty is set
// and the report written, if it is the first one.
struct RowsPlan {
  RowsMember member[kMostCopyMembers];
  int32_t members = 0;
  int32_t counts_per_piece = 1;
  PieceOfRows* pieces = nullptr;
  int32_t* faulty = nullptr;
  RowsReport* report = nullptr;  // memory of the host
};
void LaunchPlanRows(const RowsPlan& plan, cudaStream_t stream);

// Holds the stream as long as bytes are on a slow wire: the latency, and then the bytes at that
// rate. Rows that travel by counts are as many bytes as the member sends to others, or gets from
// them, that has most.
struct WireHold {
  int64_t latency_ns = 0;
  double bytes_per_s = 0;  // 0: no limit
  int64_t bytes = 0;
  const PieceOfRows* pieces = nullptr;  // of all members; null: `bytes`
  const int32_t* faulty = nullptr;      // of pieces: if *faulty, no bytes travel
  int32_t members = 0;
  int64_t row_bytes = 0;
};
void LaunchHold(const WireHold& hold, cudaStream_t stream);

// A member writes its rows to where they belong; nothing if *faulty.
struct RowsShare {
  const void* from = nullptr;
  void* to[kMostCopyMembers];  // by member
  int32_t members = 0;
  int64_t row_bytes = 0;
  const PieceOfRows* pieces = nullptr;  // of this member
  const int32_t* faulty = nullptr;
};
void LaunchSendRows(const RowsShare& share, cudaStream_t stream);

}  // namespace stringline
