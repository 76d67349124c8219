// Reads the lines of a plan's text form that say more than its orders: `split`, `overlap`, `costs`.
#pragma once

#include <vector>

#include "schedlang/plan.h"
#include "schedlang/text_form.h"

namespace stringline {

// False if the line is none of these, or not of their form.
bool ReadExtra(const std::vector<Word>& words, Plan* plan);

}  // namespace stringline
