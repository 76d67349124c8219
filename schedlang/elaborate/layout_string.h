// Megatron's layout strings, the contents of every pipeline stage: "Et*3|(tt|)*29,m|L".
//
//   layout = { item [ '*' number ] }
//   item   = 'E' embedding | 't' transformer layer | 'm' multi-token prediction | 'L' loss
//          | '|' the next stage begins | '(' layout ')'
//
// Commas and spaces only separate. Groups may nest. (Megatron-LM,
// --pipeline-model-parallel-layout.)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"

namespace stringline {

// The contents of each stage, written out: {"Ettt", "tt", …, "L"}. `quoted` is the string with its
// quotes, which begins at `begin` of the source. The embedding comes first, the loss last, and each
// once; of stages that are no `chain` any number, an embedding first in its stage and a loss last.
// Nothing after a finding, which marks the character.
std::optional<std::vector<std::string>> ReadLayout(absl::string_view quoted, uint32_t begin,
                                                   bool chain, Diagnostics* diagnostics);

}  // namespace stringline
