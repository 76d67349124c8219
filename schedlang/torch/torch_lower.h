// Torch's own order of sends and receives, as its runtime derives it from a compute-only schedule.
//
// It goes round the ranks repeatedly. A rank performs its next action if the inputs have arrived;
// the action's message is put at once at the end of the rank's own list (the send) and of the other
// rank's (the receive). So both ends of a pair agree on the order of their messages, and nothing
// can hang; but receives stand long before their consumers, and later sends in a shared queue wait
// behind them.
#pragma once

#include <optional>

#include "schedlang/plan/plan.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {

// `plan` is not lowered and may hold collectives. With `waits` it is lowered as by torch 2.15,
// where the wait for a REDUCE_GRAD takes its own turn and is in the result; without as by torch
// 2.14. (The waits for sends come later: AllTorchWaits.) Nothing if the computations can never end.
std::optional<TorchFile> LowerAsTorch(const Plan& plan, bool waits = true);

}  // namespace stringline
