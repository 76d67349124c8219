// Lower bounds of a choice, from its stages and their costs alone: for every order of its actions.
//
// Three times of every rank that cannot overlap:
//   head  before its first forward: those of the stages before its first one, and hops
//   work  its own computations; where pairs overlap, what is on the compute lane of them
//   tail  after its last backward: those of the stages before, and hops. Where weight gradients may
//         come last, the tail lies beside them
// The bound is the largest sum over the ranks. A group of choices leaves the stages open: its bound
// is the mean work of a rank.
//
// Bytes: of a rank what is always there, and the activations of one microbatch of its largest
// stage; of a group the mean of what is always there.
#pragma once

#include <cstdint>

#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {

struct ChoiceBound {
  int64_t step_ns = 0;
  int64_t bytes = 0;
};

ChoiceBound BoundOf(const StagedCosts& staged, const KnownSchedule& schedule);
ChoiceBound BoundOfGroup(const StagedCosts& staged);

}  // namespace stringline::tune
