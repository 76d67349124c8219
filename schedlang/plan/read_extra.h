// Reads the further lines of a plan's text form: `split`, `recompute`, `overlap`, `costs`,
// `search`.
#pragma once

#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/plan/text_form.h"

namespace stringline {

// False if the line is none of these, or not of their form.
bool ReadExtra(const std::vector<Word>& words, Plan* plan);

}  // namespace stringline
