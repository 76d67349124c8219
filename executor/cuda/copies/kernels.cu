// Every body is written once, for one of `threads` threads that share the work. On the host a
// single thread does all of it.
#include <algorithm>

#include "executor/cuda/bodies/host_twin.h"
#include "executor/cuda/copies/kernels.h"
#include "executor/cuda/declared_use.h"
#include "executor/cuda/grid.h"

namespace stringline {
namespace {

constexpr int kThreads = 256;
// Enough to fill a GPU's memory pipes, and few enough to leave room for concurrent kernels.
constexpr int kMostBlocks = 128;

template <int kWidth>
struct alignas(sizeof(float) * kWidth) FloatVec {
  float lane[kWidth];
};

template <int kWidth>
__host__ __device__ void SumBody(const SumShare& share, int64_t thread, int64_t threads) {
  using Vec = FloatVec<kWidth>;
  for (int64_t i = thread; i < share.count / kWidth; i += threads) {
    Vec sum = reinterpret_cast<const Vec*>(share.from[0])[i];
    for (int m = 1; m < share.summands; ++m) {
      const Vec next = reinterpret_cast<const Vec*>(share.from[m])[i];
      for (int lane = 0; lane < kWidth; ++lane) sum.lane[lane] += next.lane[lane];
    }
    for (int m = 0; m < share.targets; ++m) reinterpret_cast<Vec*>(share.to[m])[i] = sum;
  }
}

__host__ __device__ int64_t RowsIn(const int32_t* counts, int pieces_before, int pieces,
                                   int per_piece) {
  int64_t rows = 0;
  for (int i = pieces_before * per_piece; i < (pieces_before + pieces) * per_piece; ++i) {
    rows += counts[i];
  }
  return rows;
}

// Nobody reads what is told: that may come later.
__host__ __device__ void TellPiece(const RowsPlan& plan, int from, int to, PieceOfRows* piece) {
  const int k = plan.counts_per_piece;
  piece->expected = piece->sent;
  piece->before_to = 0;
  for (int m = 0; m < from; ++m) {
    piece->before_to += RowsIn(plan.member[m].from_counts, to, 1, k);
  }
  for (int i = 0; i < k; ++i) {
    plan.member[to].told[from * k + i] = plan.member[from].from_counts[to * k + i];
  }
}

__host__ __device__ void PiecesBody(const RowsPlan& plan, int thread, int threads) {
  const int n = plan.members, k = plan.counts_per_piece;
  for (int p = thread; p < n * n; p += threads) {
    const int from = p / n, to = p % n;
    PieceOfRows& piece = plan.pieces[p];
    piece.sent = RowsIn(plan.member[from].from_counts, to, 1, k);
    piece.before_from = RowsIn(plan.member[from].from_counts, 0, to, k);
    const int32_t* const to_counts = plan.member[to].to_counts;
    if (to_counts == nullptr) {
      TellPiece(plan, from, to, &piece);
      continue;
    }
    piece.expected = RowsIn(to_counts, from, 1, k);
    piece.before_to = RowsIn(to_counts, 0, from, k);
  }
}

__host__ __device__ void ReportRows(const RowsPlan& plan, const RowsReport& report) {
  *plan.faulty = 1;
  if (plan.report->fault == RowsFault::kNone) *plan.report = report;
}

// Run by one thread, when all pieces are planned: the first fault is always the same.
__host__ __device__ void FaultsBody(const RowsPlan& plan) {
  *plan.faulty = 0;
  const int n = plan.members;
  for (int to = 0; to < n; ++to) {
    int64_t rows = 0;
    for (int from = 0; from < n; ++from) {
      const PieceOfRows& piece = plan.pieces[from * n + to];
      if (piece.sent != piece.expected) {
        return ReportRows(plan, {RowsFault::kCountsDiffer, from, to, piece.sent, piece.expected,
                                 plan.member[from].call});
      }
      rows += piece.sent;
    }
    const RowsMember& member = plan.member[to];
    if (rows > member.most_rows) {
      return ReportRows(plan, {RowsFault::kNoRoom, -1, to, rows, member.most_rows, member.call});
    }
  }
}

__host__ __device__ int64_t HoldNs(const WireHold& hold) {
  int64_t rows = 0;
  const bool counted = hold.pieces != nullptr && *hold.faulty == 0;
  for (int m = 0; counted && m < hold.members; ++m) {
    int64_t sent = 0, got = 0;
    for (int other = 0; other < hold.members; ++other) {
      if (other == m) continue;
      sent += hold.pieces[m * hold.members + other].sent;
      got += hold.pieces[other * hold.members + m].sent;
    }
    const int64_t most = sent > got ? sent : got;
    if (most > rows) rows = most;
  }
  if (hold.bytes_per_s <= 0) return hold.latency_ns;
  const int64_t bytes = hold.bytes + rows * hold.row_bytes;
  return hold.latency_ns + llround(static_cast<double>(bytes) / hold.bytes_per_s * 1e9);
}

__device__ int64_t GlobalNs() {
  int64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// In units as large as the addresses allow.
template <typename Unit>
__host__ __device__ void SendRowsBody(const RowsShare& share, int64_t thread, int64_t threads) {
  if (*share.faulty != 0) return;
  const int64_t per_row = share.row_bytes / static_cast<int64_t>(sizeof(Unit));
  for (int to = 0; to < share.members; ++to) {
    const PieceOfRows& piece = share.pieces[to];
    const Unit* const source = static_cast<const Unit*>(share.from) + piece.before_from * per_row;
    Unit* const target = static_cast<Unit*>(share.to[to]) + piece.before_to * per_row;
    for (int64_t i = thread; i < piece.sent * per_row; i += threads) target[i] = source[i];
  }
}

}  // namespace

namespace copy_kernels {

template <int kWidth>
__global__ void Sum(SumShare share) {
  SumBody<kWidth>(share, ThreadOfGrid(), ThreadsOfGrid());
}
template <int kWidth>
void HostSum(SumShare share) {
  const int64_t bytes = share.count * static_cast<int64_t>(sizeof(float));
  for (int m = 0; m < share.summands; ++m) TwinUses(share.from[m], bytes, false);
  for (int m = 0; m < share.targets; ++m) TwinUses(share.to[m], bytes, true);
  SumBody<kWidth>(share, 0, 1);
}

__global__ void PlanRows(RowsPlan plan) {
  PiecesBody(plan, threadIdx.x, blockDim.x);
  __syncthreads();
  if (threadIdx.x == 0) FaultsBody(plan);
}
void HostPlanRows(RowsPlan plan) {
  const int64_t pieces = int64_t{plan.members} * plan.members;
  const int64_t counts = int64_t{plan.members} * plan.counts_per_piece;
  for (int m = 0; m < plan.members; ++m) {
    const RowsMember& member = plan.member[m];
    const bool tells = member.to_counts == nullptr;
    TwinUses(member.from_counts, counts * sizeof(int32_t), false);
    TwinUses(tells ? member.told : member.to_counts, counts * sizeof(int32_t), tells);
  }
  TwinUses(plan.pieces, pieces * sizeof(PieceOfRows), true);
  TwinUses(plan.faulty, sizeof(int32_t), true);
  PiecesBody(plan, 0, 1);
  FaultsBody(plan);
  if (*plan.faulty != 0) TwinUses(plan.report, sizeof(RowsReport), true);
}

template <typename Unit>
__global__ void SendRows(RowsShare share) {
  SendRowsBody<Unit>(share, ThreadOfGrid(), ThreadsOfGrid());
}
template <typename Unit>
void HostSendRows(RowsShare share) {
  TwinUses(share.faulty, sizeof(int32_t), false);
  TwinUses(share.pieces, share.members * sizeof(PieceOfRows), false);
  for (int to = 0; to < share.members && *share.faulty == 0; ++to) {
    const PieceOfRows& piece = share.pieces[to];
    const int64_t bytes = piece.sent * share.row_bytes;
    TwinUses(static_cast<const char*>(share.from) + piece.before_from * share.row_bytes, bytes,
             false);
    TwinUses(static_cast<char*>(share.to[to]) + piece.before_to * share.row_bytes, bytes, true);
  }
  SendRowsBody<Unit>(share, 0, 1);
}

// One block: a multiprocessor's slot, and few other resources.
__global__ void Hold(WireHold hold) {
  const int64_t begin = GlobalNs();
  const int64_t ns = HoldNs(hold);
  while (GlobalNs() - begin < ns) __nanosleep(200);
}
void HostHold(WireHold hold) {
  if (hold.pieces != nullptr) {
    const int64_t pieces = int64_t{hold.members} * hold.members;
    TwinUses(hold.faulty, sizeof(int32_t), false);
    TwinUses(hold.pieces, pieces * sizeof(PieceOfRows), false);
  }
  if (stringline_twin_takes != nullptr) stringline_twin_takes(HoldNs(hold));
}

}  // namespace copy_kernels

namespace {

using namespace copy_kernels;

[[maybe_unused]] const bool kTwins[] = {
    HasTwin<Sum<1>, HostSum<1>>(),
    HasTwin<Sum<4>, HostSum<4>>(),
    HasTwin<PlanRows, HostPlanRows>(),
    HasTwin<Hold, HostHold>(),
    HasTwin<SendRows<char>, HostSendRows<char>>(),
    HasTwin<SendRows<uint32_t>, HostSendRows<uint32_t>>(),
    HasTwin<SendRows<Bytes16>, HostSendRows<Bytes16>>(),
};

int BlocksFor(int64_t items) {
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<int>(std::clamp<int64_t>(blocks, 1, kMostBlocks));
}

uint64_t BitsOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

void LaunchSum(const SumShare& share, cudaStream_t stream) {
  if (share.count == 0) return;
  uint64_t bits = static_cast<uint64_t>(share.count) * sizeof(float);
  for (int m = 0; m < share.summands; ++m) bits |= BitsOf(share.from[m]);
  for (int m = 0; m < share.targets; ++m) bits |= BitsOf(share.to[m]);
  if (bits % 16 == 0) {
    Sum<4><<<BlocksFor(share.count / 4), kThreads, 0, stream>>>(share);
  } else {
    Sum<1><<<BlocksFor(share.count), kThreads, 0, stream>>>(share);
  }
}

void LaunchPlanRows(const RowsPlan& plan, cudaStream_t stream) {
  PlanRows<<<1, kThreads, 0, stream>>>(plan);
}

void LaunchHold(const WireHold& hold, cudaStream_t stream) { Hold<<<1, 1, 0, stream>>>(hold); }

// Only the GPU knows the number of rows.
void LaunchSendRows(const RowsShare& share, cudaStream_t stream) {
  uint64_t bits = static_cast<uint64_t>(share.row_bytes) | BitsOf(share.from);
  for (int m = 0; m < share.members; ++m) bits |= BitsOf(share.to[m]);
  if (bits % 16 == 0) {
    SendRows<Bytes16><<<kMostBlocks, kThreads, 0, stream>>>(share);
  } else if (bits % 4 == 0) {
    SendRows<uint32_t><<<kMostBlocks, kThreads, 0, stream>>>(share);
  } else {
    SendRows<char><<<kMostBlocks, kThreads, 0, stream>>>(share);
  }
}

}  // namespace stringline
