// All choices for a model on a cluster: groups that share mesh, microbatch, recomputation and
// sharding, and in each the schedules with their stages. Both in a fixed order.
//
//   mesh        tensor x context x pipeline x data = GPUs. `tensor` divides the heads of queries
//               and of keys (more ranks than these would repeat keys, which costs do not know);
//               twice `context` divides a sequence (each rank has a piece of its beginning and one
//               of its end); `pipeline` is at most the layers; `expert` divides the experts and the
//               ranks of a stage, and is 1 of a dense model
//   microbatch  sequences: all divisors of a pipeline's sequences in a step
//   sharding    all, of several copies
//   schedules   the library's, with TurnsToTry stages of a rank; on one rank, where schedules
//               differ by nothing but slices, 1F1B alone
//   split       even, and with light ends where that differs
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/costs/formula.h"
#include "schedlang/tune/choice.h"

namespace stringline::tune {

// Groups: choices without a schedule. Errors: pins that no choice meets, and a global batch that
// no mesh divides, saying which.
absl::StatusOr<std::vector<Choice>> ChoiceGroups(const ModelShape& model, int64_t gpus,
                                                 int64_t global_batch, const Pins& pins);

// The choices of a group.
std::vector<Choice> ChoicesOf(const Choice& group, const ModelShape& model, const Pins& pins);

}  // namespace stringline::tune
