// Orders as a schedule file that a person can read and change: plan -> text.
//
// The result is the first of these forms that gives exactly the orders, with proof: phases with
// `repeat`, in a common form for all ranks; a timetable; a greedy rule; then the shorter of phases
// for single ranks or ranges of ranks and a timetable for each rank; or else plain lists of
// actions.
//
// P is fixed by a `require`. If repeats can grow with the microbatches, and the check passes for
// several other M, the file holds for more than the plan's M; else M is fixed too.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/base/stop.h"
#include "schedlang/check/check.h"
#include "schedlang/plan/plan.h"
#include "schedlang/write/schedule_draft.h"

namespace stringline::search {

struct WriteOptions {
  std::string name;                 // the schedule's
  std::vector<std::string> header;  // comment lines, without `# `
  std::vector<OrderCosts> costs;    // tried for greedy rules, beside F 1, B 2, I 1, W 1
  // Orders for other numbers of microbatches: a file that holds for these gives exactly them.
  std::vector<Plan> others;
  // Limits for plans of more microbatches, too: the activations or bytes of a rank.
  CheckOptions limits;
  // On this wish no more forms are tried, and the plain lists are written. May be null.
  const Stop* stop = nullptr;
};

struct WrittenSchedule {
  std::string text;  // as formatted by `fmt`
  WrittenForm form = WrittenForm::kList;
  // It holds for the M of the plan and multiples of `step` more or fewer, from `least` on; 0: for
  // its M only.
  int64_t step = 0;
  int64_t least = 0;
};

// `plan` is not lowered. The text elaborates to its stages and orders, split, recomputing stages
// and overlaps, for its P and M. InvalidArgument for an invalid name, a lowered plan, and orders
// that the language cannot express. Cost: for 32 ranks of 768 groups well below a second.
absl::StatusOr<WrittenSchedule> WriteSchedule(const Plan& plan, const WriteOptions& options);

}  // namespace stringline::search
