// Sums between the members of a group: in the order of the members, as an exchange of slices, a
// kernel that adds up, and an exchange of the sums, a workspace at a time; or NCCL's own
// (NcclSums::kNccl).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "executor/engine/group.h"
#include "executor/nccl/nccl_member.h"

namespace stringline {

class NcclSummation {
 public:
  explicit NcclSummation(NcclMember* member) : member_(*member) {}

  // Reserves the workspace of a call: CallKind::kAllReduce or kReduceScatter, as all below.
  absl::Status Prepare(const Call& call);
  absl::Status AllReduce(const Call& call, StreamId stream);
  absl::Status ReduceScatter(const Call& call, StreamId stream);

 private:
  absl::Status ReducePieces(const Call& call, StreamId stream);
  absl::Status Sum(const void* own, int64_t slice, void* to, int64_t count, StreamId stream);
  int64_t SliceBytes(const Call& call) const;
  int64_t MostSlice(const Call& call) const;

  NcclMember& member_;
};

}  // namespace stringline
