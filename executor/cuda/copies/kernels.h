// The kernels of cuda/copies/group: sums over the members of a group, rows whose counts only the
// GPU knows, and a slow wire.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stringline {

// The largest group that fits into a kernel's arguments.
constexpr int kMostCopyMembers = 64;

// to[k][i] = sum over m, in order, of from[m][i], for all k and all i < `count`. A target may be
// one of the summands.
struct SumShare {
  const float* from[kMostCopyMembers];
  float* to[kMostCopyMembers];
  int32_t summands = 0;
  int32_t targets = 0;
  int64_t count = 0;
};
void LaunchSum(const SumShare& share, cudaStream_t stream);

// The rows from one member to another, as computed by PlanRows.
struct PieceOfRows {
  int64_t sent = 0;         // by the sender's counts
  int64_t expected = 0;     // by the receiver's counts
  int64_t before_from = 0;  // rows before the piece in the sender's `from`
  int64_t before_to = 0;    // rows before the piece in the receiver's `to`
};

enum class RowsFault : int32_t { kNone, kCountsDiffer, kNoRoom };

// The first call with wrong counts.
struct RowsReport {
  RowsFault fault = RowsFault::kNone;
  int32_t from = -1;  // for kCountsDiffer
  int32_t to = -1;
  int64_t rows = 0;            // sent to `to`, by `from` or by all
  int64_t expected = 0;        // by `to`; of kNoRoom, the room
  const void* call = nullptr;  // the call of `from`; for kNoRoom, of `to`
};

// The input of PlanRows from a member, as in RowCounts.
struct RowsMember {
  const int32_t* from_counts = nullptr;
  const int32_t* to_counts = nullptr;
  int64_t most_rows = 0;
  const void* call = nullptr;  // for the report only
  int32_t* told = nullptr;
};

// Fills pieces[from * members + to], and tells counts. If counts disagree or do not fit, *faulty is
// set, and the report is written unless it has a fault already.
struct RowsPlan {
  RowsMember member[kMostCopyMembers];
  int32_t members = 0;
  int32_t counts_per_piece = 1;
  PieceOfRows* pieces = nullptr;
  int32_t* faulty = nullptr;
  RowsReport* report = nullptr;  // memory of the host
};
void LaunchPlanRows(const RowsPlan& plan, cudaStream_t stream);

// Holds the stream while bytes are on a slow wire: the latency, then the bytes at the given rate.
// Counted rows are as many more bytes as a member sends to others or gets from them at most.
struct WireHold {
  int64_t latency_ns = 0;
  double bytes_per_s = 0;  // 0: no limit
  int64_t bytes = 0;
  const PieceOfRows* pieces = nullptr;  // for all members; null: no rows
  const int32_t* faulty = nullptr;      // a fault in the pieces: if *faulty, no rows travel
  int32_t members = 0;
  int64_t row_bytes = 0;
};
void LaunchHold(const WireHold& hold, cudaStream_t stream);

// A member writes its rows of an array to their places; nothing if *faulty.
struct RowsShare {
  const void* from = nullptr;
  void* to[kMostCopyMembers];  // by member
  int32_t members = 0;
  int64_t row_bytes = 0;
  const PieceOfRows* pieces = nullptr;  // this member's
  const int32_t* faulty = nullptr;
};
void LaunchSendRows(const RowsShare& share, cudaStream_t stream);

}  // namespace stringline
