// The ranks and links that a step's costs make slow (--slow).
#pragma once

#include <string>

#include "schedlang/ask/session.h"
#include "tools/io/json.h"

namespace stringline {

// "rank 2 computes 10 % longer, messages over 3-4 take 50 % longer"; "": none is slow.
std::string SlowNote(const StepCosts& costs);

// `slow`: the shares by rank and link, {"2": 0.1, "3-4": 0.5}; nothing where none is slow.
void AddSlow(const StepCosts& costs, Json* json);

}  // namespace stringline
