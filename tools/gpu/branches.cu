// One thread a branch. The counter is raised, and then read until it has counted all, or until a
// branch has waited for the limit, by the GPU's own clock.
#include "executor/cuda/bodies/host_twin.h"
#include "tools/gpu/branches.h"

namespace stringline {

int32_t twin_branches_side_by_side = 1;

namespace branch_kernels {

__device__ int64_t TimerNs() {
  int64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void WaitForAll(WaitingBranch branch) {
  const int64_t began = TimerNs();
  atomicAdd(branch.begun, 1);
  volatile const int32_t* const begun = branch.begun;
  volatile const int32_t* const late = branch.late;
  while (*begun < branch.branches && *late == 0) {
    if (TimerNs() - began > branch.limit_ns) atomicExch(branch.late, 1);
    __nanosleep(500);
  }
}

// Kernels of the stand-in run one after the other, so the twin does not wait.
void HostWaitForAll(WaitingBranch branch) {
  ++*branch.begun;
  if (branch.branches > twin_branches_side_by_side) *branch.late = 1;
}

}  // namespace branch_kernels

namespace {

[[maybe_unused]] const bool kTwins[] = {
    HasTwin<branch_kernels::WaitForAll, branch_kernels::HostWaitForAll>()};

}  // namespace

cudaError_t LaunchWaitingBranch(const WaitingBranch& branch, cudaStream_t stream) {
  branch_kernels::WaitForAll<<<1, 1, 0, stream>>>(branch);
  return cudaPeekAtLastError();
}

}  // namespace stringline
