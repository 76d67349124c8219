// The rules of Check, one function each. Each adds its findings; check.h says in which order they
// run and that a later one may rely on the earlier ones.
#pragma once

#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/check/check.h"
#include "schedlang/plan.h"

namespace stringline {

// Every stage does every microbatch of its pipe once: F, and either B or both I and W. (rules.cc)
void FindIncomplete(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// Every action stands behind what gives its needs on its own rank (for a value that comes from
// another rank: behind the receive), and no value is used up twice. (rules.cc)
void FindEarlyUse(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// On every channel, the k-th receive is what the k-th send is for. (rules.cc)
void FindMismatch(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// No circle of ranks and communicator streams that wait for each other. (progress.cc)
void FindCircle(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// No circle of ranks that wait for each other to connect a communicator. (connection.cc)
void FindConnectionCircle(const Plan& lowered, const CheckOptions& options,
                          Diagnostics* diagnostics);

// Stages are used while their parameters are there, gradients are reduced once, behind the last of
// them, and ranks that reduce together do so in one order. (collective_rule.cc)
void FindCollectiveFault(const Plan& lowered, const CheckOptions& options,
                         Diagnostics* diagnostics);

// The last part of that: nothing is gathered behind a reduction that waits for it. For a plan that
// has passed all else. (progress.cc)
void FindGatherCircle(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// No rank holds more activations, or bytes, than it may. (memory_rule.cc)
void FindOverfullRank(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// "1.50 GiB", as that rule writes it.
std::string PrintBytes(int64_t bytes);

// A note at the place where the action was written.
Note NoteAt(const Plan& plan, const Action& action, std::string text);

}  // namespace stringline
