// From FILE and P=4 M=8 to a plan: what every command but `run` begins with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/formats/torch_csv.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"
#include "tools/flags.h"

namespace stringline {

// A text, what it means, and what is wrong with it. Without findings `plan` is there.
struct LoadedPlan {
  Source source;
  std::optional<Plan> plan;
  Diagnostics diagnostics;
  std::vector<TorchWait> waits;  // those of a torch `.csv`
};

// Reads flags.file: a `.plan` or a torch `.csv` as it is, any other file as a schedule, elaborated
// with the parameters of the command line. Errors: the file cannot be read, a parameter is not
// NAME=INTEGER or given twice, parameters or --schedule given for one of the former.
absl::StatusOr<LoadedPlan> LoadPlan(const Flags& flags);

// LoadPlan, and then lowered and checked: the plan is there only if the checker has nothing to say.
absl::StatusOr<LoadedPlan> LoadCheckedPlan(const Flags& flags);

// "P=4" "M=8" -> values. Errors: InvalidArgument naming the argument.
absl::StatusOr<std::vector<Parameter>> ParseParameters(const std::vector<std::string>& args);

// The costs that --cost or --costs give; unit costs without either.
absl::StatusOr<CostSpec> LoadCostSpec(const Flags& flags);

// The costs that --cost or --costs give, for this plan, unit costs without either; with the ranks
// of
// --slow slower. Errors: those of the costs, a --slow that is not RANK=SHARE or names no rank.
absl::StatusOr<CostModel> LoadCosts(const Flags& flags, const Plan& plan);

// The same, but without either a message takes 50 us: where it waits matters more than how long.
absl::StatusOr<CostModel> LoadTorchCosts(const Flags& flags, const Plan& plan);

// Is the file's name one of this kind? HasExtension("a.plan", ".plan")
bool HasExtension(const std::string& path, const char* extension);

}  // namespace stringline
