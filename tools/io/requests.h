// From the flags of a command line to the values that a session takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/session.h"
#include "tools/io/flags.h"
#include "tools/io/output.h"
#include "tools/io/picture_options.h"

namespace stringline {

// "P=4" "M=8" -> values. Errors: InvalidArgument naming the argument.
absl::StatusOr<std::vector<Parameter>> ParseParameters(const std::vector<std::string>& args);

// NAME=VALUE …, and --steps of a plan. Error, too: both say how many steps there are.
absl::StatusOr<std::vector<Parameter>> ParametersOf(const Flags& flags);

// FILE, NAME=VALUE …, --schedule.
absl::StatusOr<PlanRequest> PlanRequestOf(const Flags& flags);
// --cost, --costs, --mesh, --sharding, --bucket, --slow. Error: a --slow other than RANK=SHARE and
// LINK=SHARE.
absl::StatusOr<CostRequest> CostRequestOf(const Flags& flags);
// --jitter, which takes its place in *costs, and --seeds; nothing without both. Errors: a share
// that is none, or draws without any jitter.
absl::StatusOr<std::optional<JitterRuns>> JitterOf(const Flags& flags, CostModel* costs);
// --layout, --buffers, --lazy, --activations, --memory and costs; the caller adds the model of
// --model. Error: an invalid number of bytes.
absl::StatusOr<CheckRequest> CheckRequestOf(const Flags& flags);
// The options of pictures.
PictureQuestion PictureQuestionOf(const Flags& flags);
// --layout; the flag's values are checked during parsing.
CommLayout LayoutOf(const Flags& flags);
// --layout, --messages.
MessageRequest MessageRequestOf(const Flags& flags);
// The options of a search. Errors: invalid parameters, costs and bytes.
absl::StatusOr<SearchQuestion> SearchQuestionOf(const Flags& flags);
// The command of a search, as a line for people, without what it writes.
std::string AskedBy(const Flags& flags);

// OpenPlan, OpenCheckedPlan and OpenStep (session.h) of the flags; the last two with their
// progress.
absl::StatusOr<Session> OpenPlanOf(const Flags& flags);
absl::StatusOr<Session> OpenCheckedPlanOf(const Flags& flags, FindModelSizes model,
                                          const Output& output);
absl::StatusOr<Session> OpenStepOf(const Flags& flags, const Output& output);
// CostsFor (session.h) the flags.
absl::StatusOr<CostModel> CostsOf(const Flags& flags, const Plan& plan);

}  // namespace stringline
