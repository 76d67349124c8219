// The stage programs of a plan: the model of a run file, cut as in the schedule or the file.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "executor/run/run_config.h"
#include "executor/training/sharding.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan/plan.h"
#include "stages/stage_program.h"

namespace stringline {

// Layers per stage of a pipe. The run file's `model.split` comes before the schedule's `split`.
// Errors: InvalidArgument for layers that do not fit the stages, Unimplemented for a layout with
// parts that the model does not have.
absl::StatusOr<std::vector<int>> LayersOfStages(const RunConfig& config, const Plan& plan);

// One program per stage of the plan, for a chunk of a microbatch (Plan::chunks); the k-th stages of
// all pipes hold the same part. Errors: those of LayersOfStages, and InvalidArgument for an
// impossible shape, sequences that are no multiple of the chunks, or a stage with R in the plan
// for which the file says that it recomputes nothing, or that its W recomputes.
absl::StatusOr<std::vector<StageProgram>> BuildStages(const RunConfig& config, const Plan& plan);

// The bytes of each stage as the executor holds them. Resident are parameters, gradients, AdamW's
// two moments, as far as a rank keeps them, and a step's tokens, targets and losses. `plan` need
// not be lowered.
std::vector<StageSizes> SizesOf(const Plan& plan, const std::vector<StageProgram>& programs,
                                const StateSharing& sharing = {});

}  // namespace stringline
