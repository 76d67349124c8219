// Reads the parameters of a model to write them to a file: from this process, or from all processes
// of a run to the first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/param_places.h"
#include "executor/engine/world.h"

namespace stringline {

class ParamReader {
 public:
  // The size of a transfer, for parameters of any size.
  static constexpr int64_t kMostBytes = int64_t{4} << 20;

  // Without a world everything is in this process. With a world all processes make the reader, for
  // the same parameters, and make the same calls; errors are then those of World::Exchange.
  static absl::StatusOr<ParamReader> Make(absl::Span<const ParamPlace> places, World* world,
                                          int64_t most_bytes = kMostBytes);

  // True if this process gets the values.
  bool gets() const { return IsFirst(world_); }
  // True if a piece of places[place] is read from this process's memory.
  bool Gives(size_t place, size_t piece) const {
    return world_ == nullptr || giver_[place][piece] == world_->process();
  }

  // The values of the range, which lies in a single piece of places[place], in the process that
  // gets them; nothing elsewhere.
  absl::StatusOr<std::vector<float>> Read(size_t place, const ParamPlace::Range& range) const;

  // The first text of all processes not empty.
  absl::StatusOr<std::string> FirstText(const std::string& text) const;

 private:
  ParamReader(absl::Span<const ParamPlace> places, World* world, int64_t most_bytes)
      : places_(places), world_(world), most_values_(most_bytes / int64_t{sizeof(float)}) {}
  absl::Status FindGivers();

  absl::Span<const ParamPlace> places_;
  World* world_;
  int64_t most_values_;
  std::vector<std::vector<int>> giver_;  // by place and piece: the first holder
};

}  // namespace stringline
