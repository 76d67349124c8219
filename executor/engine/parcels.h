// Bytes that go straight from one process to another, for state that is kept in another process's
// memory. A World would carry them through process 0.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/engine/world.h"

namespace stringline {

class Parcels {
 public:
  virtual ~Parcels() = default;

  // Sends texts to other processes, by their numbers, and returns those of the processes in `from`.
  // Each of them calls it too, with the counterpart. `world` is asked whether the run has failed;
  // null after it has. Errors are marked as those of a lost process.
  virtual absl::StatusOr<std::map<int, std::string>> Move(const std::map<int, std::string>& to,
                                                          const std::vector<int>& from,
                                                          World* world) = 0;
};

}  // namespace stringline
