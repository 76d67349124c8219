// The communicators of one process: a communicator with all processes, and those split from it.
//
// All are made with blocking = 0: every call returns at once, and the host polls the clock, NCCL's
// errors and the other processes until the operation is done. NCCL itself does not report a lost
// process: the kernels that wait for its messages wait forever. So a failure, wherever detected, is
// reported to the others (World::Fail), and every process calls Abort.
//
// Used by a single thread, which issues.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/engine/world.h"
#include "executor/nccl/nccl_library.h"

namespace stringline {

// Sums of floats of several members.
enum class NcclSums : uint8_t {
  kOrdered,  // in the order of the members, as within a process: by messages and a kernel
  kNccl,     // NCCL's own sums: faster on large machines, with other bits
};
// Exchanges of counted rows.
enum class NcclRows : uint8_t {
  kPadded,   // every piece of the largest possible size: no wait for the counts
  kCounted,  // exactly the rows: the host waits for the counts when issuing the call
};

struct NcclSettings {
  int64_t start_ms = 300'000;  // bound on making and connecting communicators
  int64_t wait_ms = 600'000;   // for a step's work on the GPU; 0: for ever
  // Bounds on the CTAs, and so SMs, of a call; 0: that of nccl_groups.h.
  int min_ctas = 0;
  int max_ctas = 0;
  NcclSums sums = NcclSums::kOrdered;
  NcclRows rows = NcclRows::kPadded;
  // Calls are captured with the rest of a step. Of counted rows only padded ones can be.
  bool capture = false;
  int64_t workspace_bytes = 32 << 20;  // per group, for sums
  // Launches that a stream holds before it blocks the host (stream_window.h): CUDA's about 1,024.
  int64_t stream_launches = 900;
};

class NcclComms {
 public:
  // Called by all processes. NCCL's errors are Internal or Unavailable; DeadlineExceeded, and the
  // errors of World::Exchange.
  static absl::StatusOr<std::unique_ptr<NcclComms>> Make(const nccl::Library& library, World* world,
                                                         const NcclSettings& settings);
  // Ends together with the other processes, if no failure has occurred.
  ~NcclComms();
  NcclComms(const NcclComms&) = delete;
  NcclComms& operator=(const NcclComms&) = delete;

  // Called by all processes, each for the communicator of its color, in which members are ordered
  // by key; null for kNoColor. Its calls take at most `most_ctas` CTAs, or the settings' bound if
  // that is less.
  absl::StatusOr<nccl::Comm*> Split(int color, int key, absl::string_view name, int most_ctas);

  // Waits until the call, which returned `result`, is done; returns its status.
  absl::Status Settle(nccl::Comm* comm, nccl::Result result, const char* call);
  // The failures of NCCL and of the other processes known now.
  absl::Status Poll();
  // Reports the failure to the others, and ends all waits on the GPU. Later calls have no effect.
  void Abort(const absl::Status& failure);
  bool aborted() const { return aborted_; }
  int count() const { return static_cast<int>(comms_.size()); }

  const nccl::Library& library() const { return library_; }
  const NcclSettings& settings() const { return settings_; }
  World* world() const { return world_; }

 private:
  NcclComms(const nccl::Library& library, World* world, const NcclSettings& settings)
      : library_(library), settings_(settings), world_(world) {}
  absl::Status Start();
  absl::Status ErrorOf(nccl::Comm* comm, nccl::Result result, const char* call) const;
  nccl::Config NewConfig(absl::string_view name, int most_ctas);

  const nccl::Library library_;
  const NcclSettings settings_;
  World* const world_;
  std::deque<std::string> names_;  // NCCL keeps pointers into them
  nccl::Comm* all_ = nullptr;
  // In the order of creation, all_ first; null while one is being made, and if that failed.
  std::deque<nccl::Comm*> comms_;
  bool aborted_ = false;
};

}  // namespace stringline
