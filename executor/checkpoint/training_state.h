// The state of a training by the whole model's names: code that saves or resumes sees no stages,
// ranks or coordinates.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "executor/training/trainer.h"
#include "stages/stage_program.h"

namespace stringline {

// Every parameter is three arrays of the same size.
enum StateKind { kValues, kFirstMoment, kSecondMoment, kStateKinds };

struct StateTensor {
  Param param;  // with the type of the whole

  // The parts in this process, including copies: values `first`, … of the whole.
  struct Part {
    int64_t first = 0;
    absl::Span<float> of[kStateKinds];  // equal sizes
    int64_t end() const { return first + static_cast<int64_t>(of[kValues].size()); }
  };
  std::vector<Part> parts;
};

// In the order of the model, the same in every process. A parameter tied to another is a copy of
// the other. Parameters of experts are whole here, on any sharding over coordinates.
std::vector<StateTensor> StateOf(const Trainer& trainer);

}  // namespace stringline
