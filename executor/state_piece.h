// The state of a training in one place's memory: some values of a parameter, with the moments that
// AdamW keeps of them. Whatever is saved and resumed is made of these.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "schedlang/base/ids.h"

namespace stringline {

struct StatePiece {
  StageId stage;
  int param = 0;  // of the stage's program
  int coordinate = 0;
  int64_t begin = 0;         // elements, from the first that this coordinate has of it
  absl::Span<float> values;  // in the device's memory, F32, as the two that follow
  absl::Span<float> m, v;
};

}  // namespace stringline
