// Where the parameters of a model live while it is in memory: each once, whole, with all its
// copies.
//
// Experts are shared out over a mesh's expert coordinates: what they hold is in as many pieces of
// its first dimension. Where data copies share out parameters, each is in pieces too. Any other
// parameter is in one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/trainer.h"
#include "stages/stage_program.h"

namespace stringline {

struct ParamPlace {
  Param param;               // with the type of the whole
  Device* device = nullptr;  // whose memory it lies in; null: the host's
  // In order, without gaps. Each is there with all its copies: on every coordinate that holds it,
  // of every pipe, and of a parameter that is tied to this one. They hold the same numbers. A piece
  // that only other processes hold has no copy.
  struct Piece {
    int64_t first = 0;  // of the whole
    int64_t count = 0;
    std::vector<absl::Span<float>> copies;
  };
  std::vector<Piece> pieces;

  // Values `first` .. `first` + `count` - 1 of the whole, piece by piece.
  struct Range {
    int64_t first = 0;  // of the whole
    int64_t count = 0;
    size_t piece = 0;
    std::vector<absl::Span<float>> copies;
  };
  std::vector<Range> Ranges(int64_t first, int64_t count) const;

  // Copies between a piece, or a part of one, and host memory of the same size; between steps.
  absl::Status Read(absl::Span<const float> values, float* to) const;
  absl::Status Write(const float* from, absl::Span<float> values) const;
};

// Collects places; params with the name of one before, and those tied to one, are its copies.
class ParamPlaces {
 public:
  // In the memory of `device`, or of the host.
  explicit ParamPlaces(Device* device = nullptr) : device_(device) {}

  // `param` as a stage's program has it, the `expert`-th part of the whole: `values` are all of it,
  // or empty when it lies in another process.
  void Add(const Param& param, absl::Span<float> values, int expert = 0) {
    AddPart(param, expert, 0, param.type.elements(), values);
  }
  // The same of `count` values of it. Parts are the same wherever they lie.
  void AddPart(const Param& param, int expert, int64_t first, int64_t count,
               absl::Span<float> values);
  const std::vector<ParamPlace>& all() const { return places_; }

 private:
  Device* const device_;
  std::vector<ParamPlace> places_;       // in the order in which they were first added
  std::map<std::string, size_t> index_;  // by name
};

// Of a model in training, in the order of the model.
ParamPlaces PlacesOf(Trainer& trainer);

}  // namespace stringline
