// A kernel that waits until all branches of a graph have begun: it tells how many run side by side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stringline {

struct WaitingBranch {
  int32_t* begun;    // counts the branches that have begun; on the device, 0 before
  int32_t* late;     // 1 if a branch waited too long: then no other waits on
  int32_t branches;  // all of them
  int64_t limit_ns;  // of a branch's wait
};
cudaError_t LaunchWaitingBranch(const WaitingBranch& branch, cudaStream_t stream);

// For tests: the kernel's twin on the host plays a GPU that runs so many side by side.
extern int32_t twin_branches_side_by_side;

}  // namespace stringline
