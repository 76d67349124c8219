// The proven properties of a plan, in words and as JSON: the answer of `check`.
#pragma once

#include <ostream>

#include "schedlang/check/check.h"
#include "schedlang/plan/plan.h"
#include "tools/io/json.h"

namespace stringline {

// `lowered` has passed Check with these options.
void PrintProof(const Plan& lowered, const CheckOptions& options, std::ostream& out);
Json ProofAsJson(const Plan& lowered, const CheckOptions& options);

}  // namespace stringline
