// Orders as a schedule file that a person can read and change: plan -> text.
//
// The first of these that gives exactly the orders, and is proven to: phases with `repeat`, one
// form for all ranks; a timetable; a greedy rule; then what is shorter of phases that ranks or
// ranges of ranks have for themselves and a timetable of each rank; or else the plain lists of what
// comes after what.
//
// P is fixed by a `require`. Where repeats can be said to grow with the microbatches, and the check
// passes for several other M, the file holds for more than the plan's M; else M is fixed too.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/check/check.h"
#include "schedlang/plan.h"
#include "schedlang/write/schedule_draft.h"

namespace stringline::search {

struct WriteOptions {
  std::string name;                 // of the schedule
  std::vector<std::string> header;  // comment lines, without `# `
  std::vector<OrderCosts> costs;    // that greedy rules are tried with, beside F 1, B 2, I 1, W 1
  // Orders for other numbers of microbatches: a file that holds for these gives exactly them.
  std::vector<Plan> others;
  // What plans for more microbatches have to keep to as well: the activations or bytes of a rank.
  CheckOptions limits;
};

struct WrittenSchedule {
  std::string text;  // what `fmt` makes of it
  WrittenForm form = WrittenForm::kList;
  // It holds for the M of the plan and `step` more or fewer, from `least` on; 0: for its M only.
  int64_t step = 0;
  int64_t least = 0;
};

// `plan` is not lowered. The text elaborates to its stages and orders, split and overlaps, for its
// P and M. InvalidArgument for a name that is none, for a plan that is lowered, and for orders that
// the language cannot say. Cost: for 32 ranks of 768 groups well below a second.
absl::StatusOr<WrittenSchedule> WriteSchedule(const Plan& plan, const WriteOptions& options);

}  // namespace stringline::search
