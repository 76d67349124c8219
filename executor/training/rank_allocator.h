// Device memory for the ranks of one copy of the pipeline, each at its rank's place, with the bytes
// that every rank has taken.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/engine/device.h"
#include "schedlang/base/ids.h"
#include "schedlang/base/status.h"

namespace stringline {

class RankAllocator {
 public:
  // Rank r of the copy is rank first_rank + r of the mesh.
  RankAllocator(Device* device, int first_rank, int ranks)
      : device_(device), first_rank_(first_rank), taken_(ranks, 0) {}

  absl::StatusOr<char*> Take(RankId rank, int64_t bytes) {
    device_->MakeFor(first_rank_ + rank.value);
    SL_ASSIGN_OR_RETURN(void* const memory, device_->Allocate(bytes));
    taken_[rank.value] += bytes;
    return static_cast<char*>(memory);
  }
  int64_t taken(RankId rank) const { return taken_[rank.value]; }
  Device* device() const { return device_; }

 private:
  Device* const device_;
  const int first_rank_;
  std::vector<int64_t> taken_;  // bytes, by rank
};

}  // namespace stringline
