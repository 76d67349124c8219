// The places of a model's parameters in memory: each parameter once, whole, with all its copies.
//
// Experts are sharded over a mesh's expert coordinates: their parameter has as many pieces along
// its first dimension. If data copies shard parameters, each parameter is in pieces too. Any other
// parameter is in a single piece.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/training/trainer.h"
#include "stages/stage_program.h"

namespace stringline {

struct ParamPlace {
  Param param;               // with the type of the whole
  Device* device = nullptr;  // the device of its memory; null: the host
  // In order, without gaps. Each piece has all its copies: on every coordinate that holds the
  // piece, of every pipe, and of every parameter tied to this parameter. Copies hold the same
  // numbers. A piece that only other processes hold has no copy.
  struct Piece {
    int64_t first = 0;  // offset in the whole
    int64_t count = 0;
    std::vector<absl::Span<float>> copies;
  };
  std::vector<Piece> pieces;

  // Values `first` .. `first` + `count` - 1 of the whole, piece by piece.
  struct Range {
    int64_t first = 0;  // offset in the whole
    int64_t count = 0;
    size_t piece = 0;
    std::vector<absl::Span<float>> copies;
  };
  std::vector<Range> Ranges(int64_t first, int64_t count) const;

  // Copies between a piece, or a part of a piece, and host memory of the same size; called between
  // steps.
  absl::Status Read(absl::Span<const float> values, float* to) const;
  absl::Status Write(const float* from, absl::Span<float> values) const;
};

// Collects places; parameters with an earlier parameter's name, or tied to an earlier one, are its
// copies.
class ParamPlaces {
 public:
  // In the memory of `device`, or of the host.
  explicit ParamPlaces(Device* device = nullptr) : device_(device) {}

  // `param` as in a stage's program, the `expert`-th part of the whole: `values` are all of this
  // part, or empty if the part lies in another process.
  void Add(const Param& param, absl::Span<float> values, int expert = 0) {
    AddPart(param, expert, 0, param.type.elements(), values);
  }
  // The same for `count` values of this part. Cuts must be equal wherever the values lie.
  void AddPart(const Param& param, int expert, int64_t first, int64_t count,
               absl::Span<float> values);
  const std::vector<ParamPlace>& all() const { return places_; }

 private:
  Device* const device_;
  std::vector<ParamPlace> places_;       // in the order in which they were first added
  std::map<std::string, size_t> index_;  // by name
};

// All parameters of a model in training, in the order of the model.
ParamPlaces PlacesOf(Trainer& trainer);

}  // namespace stringline
