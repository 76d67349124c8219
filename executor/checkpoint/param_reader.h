// Reads the parameters of a model for whoever writes them to a file: those of this process, or of
// all processes of a run, from wherever they lie to the first one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/param_places.h"
#include "executor/world.h"

namespace stringline {

class ParamReader {
 public:
  // What travels at once, whatever a parameter's size.
  static constexpr int64_t kMostBytes = int64_t{4} << 20;

  // Without a world everything is here. With one all processes make it, for the same parameters,
  // and make the same calls; errors are those of World::Exchange then.
  static absl::StatusOr<ParamReader> Make(absl::Span<const ParamPlace> places, World* world,
                                          int64_t most_bytes = kMostBytes);

  // Whether this process is the one that gets what is read.
  bool gets() const { return world_ == nullptr || world_->process() == 0; }
  // Whether a piece of places[place] is read from this process's memory.
  bool Gives(size_t place, size_t piece) const {
    return world_ == nullptr || giver_[place][piece] == world_->process();
  }

  // The values of the range, which lies in one piece of places[place], where they are got; nothing
  // elsewhere.
  absl::StatusOr<std::vector<float>> Read(size_t place, const ParamPlace::Range& range) const;

  // The first text of all processes that is not empty.
  absl::StatusOr<std::string> FirstText(const std::string& text) const;

 private:
  ParamReader(absl::Span<const ParamPlace> places, World* world, int64_t most_bytes)
      : places_(places), world_(world), most_values_(most_bytes / int64_t{sizeof(float)}) {}
  absl::Status FindGivers();

  absl::Span<const ParamPlace> places_;
  World* world_;
  int64_t most_values_;
  std::vector<std::vector<int>> giver_;  // by place and piece: the first process that holds it
};

}  // namespace stringline
