// Torch's own order of sends and receives, as its runtime makes it from a compute-only schedule.
//
// It goes round the ranks, again and again. A rank whose next action has its inputs performs it;
// its message is put at once at the end of the rank's own list (the send) and of the other rank's
// (the receive). So both ends of a pair agree on the order of their messages, and nothing can hang;
// but receives stand long before anybody needs them, and where messages share a queue, later sends
// wait behind them.
#pragma once

#include <optional>

#include "schedlang/formats/torch_csv.h"
#include "schedlang/plan.h"

namespace stringline {

// `plan` is not lowered and may hold collectives. With `waits` it is lowered as torch 2.15 does it,
// where the wait for a REDUCE_GRAD takes a turn of its own and is in the result; without as torch
// 2.14 does. (The waits for sends come later: AllTorchWaits.) Nothing when the computations can
// never end.
std::optional<TorchFile> LowerAsTorch(const Plan& plan, bool waits = true);

}  // namespace stringline
