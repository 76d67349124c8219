// Where the parameters of a model live while it is in memory: each once, with all its copies.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/trainer.h"
#include "stages/stage_program.h"

namespace stringline {

// A parameter of the model. `values` are its copies: of every pipe, and of a parameter that is tied
// to it. They hold the same numbers.
struct ParamPlace {
  const Param* param = nullptr;
  std::vector<absl::Span<float>> values;
};

// Collects places; params with the name of one before, and those tied to one, are its copies.
class ParamPlaces {
 public:
  void Add(const Param& param, absl::Span<float> values);
  const std::vector<ParamPlace>& all() const { return places_; }

 private:
  std::vector<ParamPlace> places_;       // in the order in which they were first added
  std::map<std::string, size_t> index_;  // by name
};

// Of a model in training, in the order of the model.
ParamPlaces PlacesOf(Trainer& trainer);

}  // namespace stringline
