// Parcels over connections of their own between the processes of a run that heals, to the addresses
// at which they listen: proved like all others. The process with the higher number connects, at the
// first parcel between two; connections stay until the run changes its processes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/engine/parcels.h"
#include "executor/processes/frames.h"
#include "executor/processes/healing.h"

namespace stringline {

class MemberParcels final : public Parcels {
 public:
  // Waits so long for a process without a sign of it.
  MemberParcels(const Healing* healing, int64_t wait_ms) : healing_(healing), wait_ms_(wait_ms) {}

  absl::StatusOr<std::map<int, std::string>> Move(const std::map<int, std::string>& to,
                                                  const std::vector<int>& from,
                                                  World* world) override;

 private:
  // The parcels of one move under way to and from a process.
  struct Under {
    const std::string* out = nullptr;
    size_t put = 0;
    bool told_size = false;
    bool awaits = false;
    int64_t size = -1;  // of what comes; -1: not told yet
    std::string in;
    bool done() const;
  };

  absl::Status Connect(const std::map<int, Under>& others, World* world);
  absl::Status AwaitOthers(const std::vector<int>& lower, World* world);
  absl::Status Advance(int process, Under* under, bool* moved);
  absl::Status Lost(int process, const std::string& why, World* world);
  std::string NameOf(int process) const { return healing_->members()[process].name; }

  const Healing* const healing_;
  const int64_t wait_ms_;
  std::string nonce_;  // of the run that the connections belong to
  std::map<int, FrameSocket> sockets_;
};

}  // namespace stringline
