// Timetables: orders given by integer slots, as the building-block schedules are in their papers
// (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024). Only the order counts
// in the end; an empty slot is a gap for a weight gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

// The numbered actions of all ranks, each rank's in the order of its slots. Parts of a group are
// adjacent and share a slot; no two groups of a rank have the same.
struct Timetable {
  std::vector<uint32_t> first = {0};  // for rank r: actions[first[r]] .. actions[first[r + 1] - 1]
  std::vector<Action> actions;
  std::vector<int64_t> slots;  // by action
};

// Moves groups to earlier slots. In the order of (slot, rank), each goes to the earliest slot that
// is free on its rank, behind its dependencies on any rank and behind the same action of the
// microbatch before, if the rank's peak of activations (weight gradients filled in) does not rise.
// Groups between the first input gradient and the last forward of a pipe's first stage stay, so the
// repeating block is unchanged. A peak takes a look at all slots of its rank; false if more than
// `most_slots` looks are needed.
bool Tighten(const Plan& stages, int64_t most_slots, Timetable* timetable);

// Puts missing weight gradients into the free slots of their ranks: between a rank's first and last
// slot the oldest whose I lies in an earlier slot, the others at the end. A weight gradient has the
// place and the iteration of its I.
void FillWeightGradients(Timetable* timetable);

}  // namespace stringline
