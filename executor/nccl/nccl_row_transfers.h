// All-to-alls of counted rows between the members of a group: padded into pieces of the largest
// size by a kernel, with counts compared, or told, on the GPU; or exactly the counted rows, for
// whose counts the host waits, told in a call before. All arrays of a call travel together.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "executor/cuda/copies/group.h"
#include "executor/engine/group.h"
#include "executor/nccl/nccl_member.h"

namespace stringline {

class NcclRowTransfers {
 public:
  explicit NcclRowTransfers(NcclMember* member) : member_(*member) {}

  // Reserves the memory of a call.
  absl::Status Prepare(const Call& call);
  absl::Status Padded(const Call& call, StreamId stream);
  // `wait` waits until all work issued to the stream has ended.
  absl::Status Counted(const Call& call, StreamId stream,
                       absl::FunctionRef<absl::Status(StreamId)> wait);
  // The error of padded rows in the last step.
  absl::Status EndStep() const {
    return report_ == nullptr ? absl::OkStatus() : StatusOf(*report_);
  }

 private:
  absl::Status Tell(const Call& call, StreamId stream);

  NcclMember& member_;
  RowsReport* report_ = nullptr;
  int32_t* host_counts_ = nullptr;
  int64_t host_counts_size_ = 0;
};

}  // namespace stringline
