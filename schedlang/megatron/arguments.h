// Megatron-LM's arguments, from a YAML file: what they say of a step's order.
//
// Keys are spelled as options or as fields of Megatron's configuration
// (`--pipeline-model-parallel-size`, `pipeline_model_parallel_size`), at the top of the file or in
// sections of any name, as MODEL_ARGS. A key that could shape the order and is not honoured is
// refused by name; so is an unknown one whose name speaks of pipelines. All others are counted.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"
#include "schedlang/megatron/issued_order.h"

namespace stringline {

// A key given beside the file, which goes before the file's: world_size=16.
struct GivenArgument {
  std::string key;
  std::string value;
};

struct MegatronArguments {
  MegatronOrder order;
  // By stage, E embedding, t layer, m multi-token prediction, L loss; empty if nothing says how
  // many layers there are.
  std::vector<std::string> layers;
  std::vector<int> recompute;  // by stage, 1 if it recomputes; empty: none does
  int unconcerned = 0;         // keys that do not concern the order
  std::vector<std::string> notes;
};

// Errors, each naming file, line and key: InvalidArgument for a text that is not YAML, a key that
// is refused or given twice, a value that it cannot have, and what Megatron itself refuses.
absl::StatusOr<MegatronArguments> ReadMegatronArguments(const Source& source,
                                                        const std::vector<GivenArgument>& given);

// The plan of the arguments, with its split.
PlanFile PlanOfMegatron(const MegatronArguments& arguments);

}  // namespace stringline
