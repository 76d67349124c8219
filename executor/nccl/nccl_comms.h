// The communicators of one process: one with all processes, and those that are split from it.
//
// They are made with blocking = 0: every call comes back at once, and whoever waits for what it
// began looks at the clock, at NCCL's errors and at the other processes meanwhile. A process that
// is lost is not reported by NCCL itself: the kernels that wait for it wait forever. So a failure,
// wherever it is seen, is told to the others (World::Fail) and ends in Abort, by everybody.
//
// To be used by one thread, the one that issues.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/nccl/nccl_library.h"
#include "executor/world.h"

namespace stringline {

// Sums of several members' floats.
enum class NcclSums : uint8_t {
  kOrdered,  // in the order of the members, as one process has them: by messages and a kernel
  kNccl,     // as NCCL has them: on large machines faster, and other bits
};
// Rows that travel by counts.
enum class NcclRows : uint8_t {
  kPadded,   // every piece as large as any can be: nothing waits for the counts
  kCounted,  // exactly the rows: the host waits for the counts when it issues the call
};

struct NcclSettings {
  int64_t start_ms = 300'000;  // until communicators are made and connected
  int64_t wait_ms = 600'000;   // for a step's work on the GPU; 0: for ever
  // How many CTAs, and so SMs, a call takes, at least and at most; 0: as NCCL likes.
  int min_ctas = 0;
  int max_ctas = 0;
  NcclSums sums = NcclSums::kOrdered;
  NcclRows rows = NcclRows::kPadded;
  // Calls are captured with the rest of a step. Of those by count only padded rows can be.
  bool capture = false;
  int64_t workspace_bytes = 32 << 20;  // of a group, for sums
};

class NcclComms {
 public:
  // All processes call it. Internal or Unavailable is NCCL's error; DeadlineExceeded, or as
  // World::Exchange.
  static absl::StatusOr<std::unique_ptr<NcclComms>> Make(const nccl::Library& library, World* world,
                                                         const NcclSettings& settings);
  // With the other processes, if nothing has failed.
  ~NcclComms();
  NcclComms(const NcclComms&) = delete;
  NcclComms& operator=(const NcclComms&) = delete;

  // All processes call it, each for the communicator of its color, in which members stand by their
  // keys; null for kNoColor.
  // Its calls take at most so many CTAs, or what the settings say, if that is less.
  absl::StatusOr<nccl::Comm*> Split(int color, int key, absl::string_view name, int most_ctas);

  // Whether the call, which came back with `result`, has been done, when it has been.
  absl::Status Settle(nccl::Comm* comm, nccl::Result result, const char* call);
  // What is known now of NCCL's and of the other processes' failures.
  absl::Status Poll();
  // Tells the others, and ends whatever waits on the GPU. Later calls do nothing.
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
  std::deque<std::string> names_;  // NCCL looks at them later
  nccl::Comm* all_ = nullptr;
  std::vector<nccl::Comm*> comms_;
  bool aborted_ = false;
};

}  // namespace stringline
