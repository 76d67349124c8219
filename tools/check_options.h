// What `check` is asked for, from the command line.
#pragma once

#include "absl/status/statusor.h"
#include "schedlang/check/check.h"
#include "schedlang/plan.h"
#include "tools/flags.h"

namespace stringline {

// The layout, buffers and limits of the flags, for this plan. Errors: a number of bytes that is
// none; a model that cannot be read, or that the plan's stages do not divide.
absl::StatusOr<CheckOptions> LoadCheckOptions(const Flags& flags, const Plan& plan);

// --layout; the flag's values are checked when it is parsed.
CommLayout LayoutOf(const Flags& flags);

// What --memory says, in bytes (executor/link.h). Errors: InvalidArgument.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

}  // namespace stringline
