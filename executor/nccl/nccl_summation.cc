#include "executor/nccl/nccl_summation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/cuda/copies/kernels.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kVector = 4;  // floats; slices of sums begin at multiples

}  // namespace

absl::Status NcclSummation::Prepare(const Call& call) {
  if (member_.members() == 1 || member_.settings().sums != NcclSums::kOrdered) {
    return absl::OkStatus();
  }
  return member_.Reserve(member_.members() * SliceBytes(call));
}

// The bytes of a member's slice summed at a time: the same for all members, whatever they have
// reserved.
int64_t NcclSummation::SliceBytes(const Call& call) const {
  constexpr int64_t kUnit = kVector * kFloat;
  const int64_t n = member_.members(), most = member_.settings().workspace_bytes / n;
  const int64_t needed = call.kind == CallKind::kAllReduce ? call.bytes / n + kUnit
                         : call.pieces != nullptr          ? MostSlice(call)
                                                           : call.bytes;
  return std::max<int64_t>(std::min(most, needed + kUnit) / kUnit, 1) * kUnit;
}

int64_t NcclSummation::MostSlice(const Call& call) const {
  int64_t most = 0;
  for (int m = 0; m < member_.members(); ++m) {
    most = std::max(most, SliceOf(call, m, member_.members(), kVector * kFloat).bytes());
  }
  return most;
}

// Runs a workspace at a time: member m adds up the m-th slice, and sends the sum to all. The slices
// sent from `from` exclude the own slice, to which the sum may be written.
absl::Status NcclSummation::AllReduce(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int n = member_.members();
  if (n == 1) return member_.device()->Move(stream, call.to, call.from, call.bytes);
  const NcclComms& comms = member_.comms();
  if (member_.settings().sums == NcclSums::kNccl) {
    return member_.Done(
        comms.library().AllReduce(call.from, call.to, static_cast<size_t>(call.bytes / kFloat),
                                  nccl::kFloat32, nccl::kSum, member_.comm(),
                                  member_.device()->native(stream)),
        "ncclAllReduce");
  }
  SL_RETURN_IF_ERROR(member_.TakeWorkspace(stream));
  const int64_t floats = call.bytes / kFloat;
  const int64_t slice = SliceBytes(call);
  const int64_t most = n * slice / kFloat;
  for (int64_t first = 0; first < floats; first += most) {
    const int64_t count = std::min(most, floats - first);
    const int64_t vectors = (count + kVector - 1) / kVector;
    const auto begin_of = [&](int m) { return std::min(count, vectors * m / n * kVector); };
    const auto bytes_of = [&](int m) { return (begin_of(m + 1) - begin_of(m)) * kFloat; };
    const auto* const from = static_cast<const float*>(call.from) + first;
    auto* const to = static_cast<float*>(call.to) + first;
    SL_RETURN_IF_ERROR(member_.WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(member_.Send(m, from + begin_of(m), bytes_of(m), stream));
      return member_.Recv(m, member_.workspace() + m * slice, bytes_of(member_.own()), stream);
    }));
    SL_RETURN_IF_ERROR(Sum(from + begin_of(member_.own()), slice, to + begin_of(member_.own()),
                           bytes_of(member_.own()) / kFloat, stream));
    SL_RETURN_IF_ERROR(member_.WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(
          member_.Send(m, to + begin_of(member_.own()), bytes_of(member_.own()), stream));
      return member_.Recv(m, to + begin_of(m), bytes_of(m), stream);
    }));
  }
  return absl::OkStatus();
}

absl::Status NcclSummation::ReduceScatter(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  if (call.pieces != nullptr) return ReducePieces(call, stream);
  const int n = member_.members();
  if (n == 1) return member_.device()->Move(stream, call.to, call.from, call.bytes);
  const NcclComms& comms = member_.comms();
  if (member_.settings().sums == NcclSums::kNccl) {
    return member_.Done(
        comms.library().ReduceScatter(call.from, call.to, static_cast<size_t>(call.bytes / kFloat),
                                      nccl::kFloat32, nccl::kSum, member_.comm(),
                                      member_.device()->native(stream)),
        "ncclReduceScatter");
  }
  SL_RETURN_IF_ERROR(member_.TakeWorkspace(stream));
  const int64_t most = SliceBytes(call);
  for (int64_t first = 0; first < call.bytes; first += most) {
    const int64_t bytes = std::min(most, call.bytes - first);
    SL_RETURN_IF_ERROR(member_.WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(member_.Send(m, Offset(call.from, m * call.bytes + first), bytes, stream));
      return member_.Recv(m, member_.workspace() + m * most, bytes, stream);
    }));
    SL_RETURN_IF_ERROR(Sum(Offset(call.from, member_.own() * call.bytes + first), most,
                           Offset(call.to, first), bytes / kFloat, stream));
  }
  return absl::OkStatus();
}

// Runs in rounds of as much of every slice as fits the workspace: each member adds up its own
// slice, and sends the sum to the members with the same piece. NCCL's own sums are of the whole, in
// place.
absl::Status NcclSummation::ReducePieces(const Call& call, StreamId stream) {
  const int n = member_.members();
  char* const to = static_cast<char*>(call.to);
  const NcclComms& comms = member_.comms();
  if (n > 1 && member_.settings().sums == NcclSums::kNccl) {
    SL_RETURN_IF_ERROR(member_.Done(
        comms.library().AllReduce(call.from, const_cast<void*>(call.from),
                                  static_cast<size_t>(call.bytes / kFloat), nccl::kFloat32,
                                  nccl::kSum, member_.comm(), member_.device()->native(stream)),
        "ncclAllReduce"));
  }
  if (n == 1 || member_.settings().sums == NcclSums::kNccl) {
    const int piece = call.pieces->Of(member_.own());
    const char* const from = Offset(call.from, call.pieces->begin[piece]);
    return from == to ? absl::OkStatus()
                      : member_.device()->Move(stream, to, from, call.pieces->bytes(piece));
  }
  SL_RETURN_IF_ERROR(member_.TakeWorkspace(stream));
  const int64_t round = SliceBytes(call), most = MostSlice(call);
  for (int64_t first = 0; first < most; first += round) {
    const auto part_of = [&](int m) {
      const SumSlice slice = SliceOf(call, m, n, kVector * kFloat);
      const int64_t begin = std::min(slice.begin + first, slice.end);
      return SumSlice{begin, std::min(begin + round, slice.end)};
    };
    const SumSlice own = part_of(member_.own());
    SL_RETURN_IF_ERROR(member_.WithOthers([&](int m) {
      const SumSlice part = part_of(m);
      SL_RETURN_IF_ERROR(member_.Send(m, Offset(call.from, part.begin), part.bytes(), stream));
      return member_.Recv(m, member_.workspace() + m * round, own.bytes(), stream);
    }));
    char* const sum = to + PlaceInSum(call, member_.own(), own.begin);
    if (own.bytes() > 0) {
      SL_RETURN_IF_ERROR(
          Sum(Offset(call.from, own.begin), round, sum, own.bytes() / kFloat, stream));
    }
    SL_RETURN_IF_ERROR(member_.WithOthers([&](int m) {
      if (!GetAlike(call, member_.own(), m)) return absl::OkStatus();
      const SumSlice part = part_of(m);
      SL_RETURN_IF_ERROR(member_.Send(m, sum, own.bytes(), stream));
      return member_.Recv(m, to + PlaceInSum(call, member_.own(), part.begin), part.bytes(),
                          stream);
    }));
  }
  return absl::OkStatus();
}

// to = the sum, in the order of the members, of this member's floats `own` and those in the
// workspace, in which member m's begin at m times `slice` bytes.
absl::Status NcclSummation::Sum(const void* own, int64_t slice, void* to, int64_t count,
                                StreamId stream) {
  if (member_.members() > kMostCopyMembers) {
    return absl::UnimplementedError(
        absl::StrCat("sums in the order of at most ", kMostCopyMembers, " members are possible"));
  }
  SumShare share;
  share.summands = member_.members();
  share.targets = 1;
  share.count = count;
  share.to[0] = static_cast<float*>(to);
  for (int m = 0; m < member_.members(); ++m) {
    share.from[m] =
        static_cast<const float*>(m == member_.own() ? own : member_.workspace() + m * slice);
  }
  LaunchSum(share, member_.device()->native(stream));
  return member_.device()->LaunchError(stream);
}

}  // namespace stringline
