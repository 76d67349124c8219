// Inserts the sends and receives that a plan's actions imply.
//
// A message crosses wherever a stage and its neighbour live on two ranks, and nowhere else. A send
// follows the group that gives its value at once. A receive stands as late as it can: right before
// the group that needs it, or before the group that needs a later message of the same channel,
// since a channel delivers in order. The k-th send of a channel is therefore always its k-th
// receive, and a lowered plan hangs only if its compute actions themselves wait for each other in a
// circle.
#pragma once

#include "schedlang/plan.h"

namespace stringline {

// `plan` must not be lowered yet. It need not be correct: a message without a producer or a
// consumer is left out, and Check says what is missing.
Plan Lower(const Plan& plan);

}  // namespace stringline
