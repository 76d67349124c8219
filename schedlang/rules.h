// The rules of Check, one function each. Each adds its findings; check.h says in which order they
// run and that a later one may rely on the earlier ones.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"

namespace stringline {

// Every stage does every microbatch once: F, and either B or both I and W.
void FindIncomplete(const Plan& lowered, Diagnostics* diagnostics);

// Every action stands behind what gives its needs on its own rank (for a value that comes from
// another rank: behind the receive), and no value is used up twice.
void FindEarlyUse(const Plan& lowered, Diagnostics* diagnostics);

// On every channel, the k-th receive is what the k-th send is for.
void FindMismatch(const Plan& lowered, Diagnostics* diagnostics);

// No circle of ranks that wait for each other's messages. Relies on the other three.
void FindCircle(const Plan& lowered, Diagnostics* diagnostics);

}  // namespace stringline
