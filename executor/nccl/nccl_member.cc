#include "executor/nccl/nccl_member.h"

#include <utility>

namespace stringline {

absl::Status NcclMember::Send(int member, const void* from, int64_t bytes, StreamId stream) const {
  if (bytes == 0) return absl::OkStatus();
  return Done(comms_->library().Send(from, static_cast<size_t>(bytes), nccl::kInt8, member, comm_,
                                     device_->native(stream)),
              "ncclSend");
}

absl::Status NcclMember::Recv(int member, void* to, int64_t bytes, StreamId stream) const {
  if (bytes == 0) return absl::OkStatus();
  return Done(comms_->library().Recv(to, static_cast<size_t>(bytes), nccl::kInt8, member, comm_,
                                     device_->native(stream)),
              "ncclRecv");
}

absl::Status NcclMember::Reserve(int64_t bytes) {
  if (bytes <= workspace_bytes_) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(void* const memory, device_->Allocate(bytes));
  workspace_ = static_cast<char*>(memory);
  workspace_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status NcclMember::TakeWorkspace(StreamId stream) {
  const StreamId before = std::exchange(workspace_on_, stream);
  if (!before.valid() || before == stream) return absl::OkStatus();
  return device_->Order(before, stream);
}

}  // namespace stringline
