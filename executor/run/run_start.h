// The state with which a run begins: first values drawn from the seed, the parameters of a folder
// or of an exported program, or a checkpoint; and the checkpoints that it will take.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/checkpoint/checkpoints.h"
#include "executor/checkpoint/held_state.h"
#include "executor/engine/available_memory.h"
#include "executor/run/run_config.h"
#include "executor/run/train.h"
#include "executor/training/data.h"
#include "executor/training/trainer.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct RunStart {
  ResumedRun resumed;                        // with its history
  std::unique_ptr<Checkpoints> checkpoints;  // null: none are taken
};

// Writes the first parameters into the trainer. All processes call it. A checkpoint of the last
// step is resumed by kResumeAuto alone: nothing is left to train, only to save. Errors: those of
// checkpoint/checkpoints.h and resume.h, and of the folder. Where the run goes on from `held`, its
// state comes from there.
absl::StatusOr<RunStart> StartRun(const RunConfig& config, const TrainingData& data,
                                  Trainer* trainer, const AvailableMemory& before,
                                  HeldState* held = nullptr);

// A plan performs all of its steps, or none: InvalidArgument names the key of a number of steps
// that is no multiple of them.
absl::Status CheckSteps(const char* name, int64_t steps, const Plan& plan);

}  // namespace stringline
