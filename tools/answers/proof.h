// The proven properties of a plan, in words and as JSON: the answer of `check`.
#pragma once

#include <ostream>

#include "schedlang/base/source.h"
#include "schedlang/check/check.h"
#include "schedlang/plan/plan.h"
#include "tools/io/json.h"

namespace stringline {

// `lowered`, a plan of `source`, has passed Check with these options. Notes name what is no error
// and yet changes nothing: an `overlap` that no group of the plan has.
void PrintProof(const Plan& lowered, const Source& source, const CheckOptions& options,
                std::ostream& out);
Json ProofAsJson(const Plan& lowered, const Source& source, const CheckOptions& options);

}  // namespace stringline
