// From the flags of a command line to the values that a session takes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/memory/memory_limit.h"
#include "tools/io/flags.h"
#include "tools/io/output.h"
#include "tools/view/shown_part.h"

namespace stringline {

// "P=4" "M=8" -> values. Errors: InvalidArgument naming the argument.
absl::StatusOr<std::vector<Parameter>> ParseParameters(const std::vector<std::string>& args);

// FILE, NAME=VALUE …, --schedule.
absl::StatusOr<PlanRequest> PlanRequestOf(const Flags& flags);
// --cost, --costs, --mesh, --sharding, --bucket, --slow. Error: a --slow other than RANK=SHARE.
absl::StatusOr<CostRequest> CostRequestOf(const Flags& flags);
// --layout, --buffers, --lazy, --activations, --memory and costs; the caller adds the model of
// --model. Error: an invalid number of bytes.
absl::StatusOr<CheckRequest> CheckRequestOf(const Flags& flags);
// "80GiB", "80GiB,80GiB,40GiB" by rank, or "0:80GiB,3:40GiB". Errors: any other form.
absl::StatusOr<MemoryLimit> ParseMemoryLimit(const std::string& text);
// --ranks, --time, --microbatches of a picture of these steps. Errors: invalid ranges, and ranges
// beyond a step.
absl::StatusOr<ShownPart> ShownPartOf(const Flags& flags, const std::vector<Session>& steps);
// --layout; the flag's values are checked during parsing.
CommLayout LayoutOf(const Flags& flags);
// --layout, --messages.
MessageRequest MessageRequestOf(const Flags& flags);

// OpenPlan, OpenCheckedPlan and OpenStep (session.h) of the flags; the last two with their
// progress.
absl::StatusOr<Session> OpenPlanOf(const Flags& flags);
absl::StatusOr<Session> OpenCheckedPlanOf(const Flags& flags, FindModelSizes model,
                                          const Output& output);
absl::StatusOr<Session> OpenStepOf(const Flags& flags, const Output& output);
// CostsFor (session.h) the flags.
absl::StatusOr<CostModel> CostsOf(const Flags& flags, const Plan& plan);

}  // namespace stringline
