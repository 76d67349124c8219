// The files of a choice: its costs, hardware and schedule, with which `stringline sim` says the
// planner's step; a run file; and the flags of other frameworks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"
#include "schedlang/tune/choice.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/cluster.h"
#include "schedlang/tune/tune.h"
#include "schedlang/tune/tune_question.h"

namespace stringline::tune {

struct EmitQuestion {
  Source model = Source("", "");  // MODEL.yaml
  Cluster cluster;
  BaseCosts base;  // with ReadModel's of these two
  int64_t global_batch = 0;
  Choice choice;
  const Plan* found = nullptr;  // an order that the optimiser found; null: the library's
};

// The question about an outcome of the planner, which must outlive it.
EmitQuestion EmitQuestionOf(const TuneQuestion& question, const OpenedQuestion& opened,
                            const Outcome& outcome);

// Errors: an order that cannot be written. Names and texts: costs.yaml, hardware.yaml,
// schedule.sched, run.yaml, megatron.txt and torchtitan.toml.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> EmittedFiles(
    const EmitQuestion& question);

}  // namespace stringline::tune
