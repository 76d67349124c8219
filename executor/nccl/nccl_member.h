// This process as a member of a group's communicator: sends and receives to the other members, each
// settled as NCCL's call, and a workspace that one stream uses at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "executor/cuda/device.h"
#include "executor/nccl/nccl_comms.h"
#include "schedlang/base/status.h"

namespace stringline {

class NcclMember {
 public:
  // `own`: this process's member; -1: not a member.
  NcclMember(NcclComms* comms, CudaDevice* device, int members, int own)
      : comms_(comms), device_(device), members_(members), own_(own) {}

  // Null until connected, and for a group of one.
  nccl::Comm* comm() const { return comm_; }
  void set_comm(nccl::Comm* comm) { comm_ = comm; }
  int members() const { return members_; }
  int own() const { return own_; }
  CudaDevice* device() const { return device_; }
  NcclComms& comms() const { return *comms_; }
  const NcclSettings& settings() const { return comms_->settings(); }

  // The status of an NCCL call, once it is done.
  absl::Status Done(nccl::Result result, const char* call) const {
    return comms_->Settle(comm_, result, call);
  }
  absl::Status Send(int member, const void* from, int64_t bytes, StreamId stream) const;
  absl::Status Recv(int member, void* to, int64_t bytes, StreamId stream) const;
  // body(m) for every other member, all in one NCCL group. Between GroupStart and GroupEnd, calls
  // are only recorded; GroupEnd runs them, and is always called.
  template <typename Body>
  absl::Status WithOthers(Body body) const {
    const nccl::Library& library = comms_->library();
    SL_RETURN_IF_ERROR(Done(library.GroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (int m = 0; m < members_ && status.ok(); ++m) {
      if (m != own_) status = body(m);
    }
    const nccl::Result ended = library.GroupEnd();
    return status.ok() ? Done(ended, "ncclGroupEnd") : status;
  }

  // Memory beside the arenas, of the largest size asked for.
  absl::Status Reserve(int64_t bytes);
  // Makes the stream wait until the workspace's last user is done.
  absl::Status TakeWorkspace(StreamId stream);
  char* workspace() const { return workspace_; }

 private:
  NcclComms* const comms_;
  CudaDevice* const device_;
  const int members_;
  const int own_;
  nccl::Comm* comm_ = nullptr;
  char* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  StreamId workspace_on_;  // its last user
};

// The bytes of a buffer from an offset on.
inline char* Offset(void* buffer, int64_t bytes) { return static_cast<char*>(buffer) + bytes; }
inline const char* Offset(const void* buffer, int64_t bytes) {
  return static_cast<const char*>(buffer) + bytes;
}

}  // namespace stringline
