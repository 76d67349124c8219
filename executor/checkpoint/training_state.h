// What a training is made of, by the names that the whole model has for it: whoever saves or
// resumes sees no stages, ranks or coordinates.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "executor/trainer.h"
#include "stages/stage_program.h"

namespace stringline {

// Every parameter is three arrays of the same size.
enum StateKind { kValues, kFirstMoment, kSecondMoment, kStateKinds };

struct StateTensor {
  Param param;  // with the type of the whole

  // What lies in this process, copies too: values `first`, … of the whole.
  struct Part {
    int64_t first = 0;
    absl::Span<float> of[kStateKinds];  // of equal size
    int64_t end() const { return first + static_cast<int64_t>(of[kValues].size()); }
  };
  std::vector<Part> parts;
};

// In the order of the model, the same in every process. A parameter that is tied to another one is
// a copy of that. Experts' are whole here, whatever coordinates hold of them.
std::vector<StateTensor> StateOf(const Trainer& trainer);

}  // namespace stringline
