// The rules of Check, one function each, which adds its findings. check.h has their order; a later
// rule may rely on the earlier ones.
#pragma once

#include <optional>
#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/check/check.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The kinds of the plan's actions if one walk shows that the rules `complete`, `dataflow`,
// `matching` and `progress` find nothing; else nothing, and the rules have to say. (at_once.cc)
std::optional<ActionKinds> WalkedAtOnce(const Plan& lowered, const CheckOptions& options);

// Every stage does every microbatch of its pipe once: F, and either B or both I and W. (rules.cc)
void FindIncomplete(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// Every action follows the producers of its needs on its own rank (for a value of another rank: the
// receive), and no value is used up twice. (rules.cc)
void FindEarlyUse(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// The parts of both for a schedule's own actions, nothing in a plan without any: each is done once
// by every rank that has to, and values of the schedule's own are given when they are not there,
// and freed. (own_actions.cc)
void FindOwnRepeated(const Plan& lowered, Diagnostics* diagnostics);
void FindOwnLeftOver(const Plan& lowered, Diagnostics* diagnostics);

// On every channel, the k-th receive takes the value of the k-th send. (rules.cc)
void FindMismatch(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// No cycle of ranks and communicator streams that wait for each other. (progress.cc)
void FindCycle(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// A plan with a window has what ready order performs, and proves (plan/ready.h); nothing for other
// plans. (ready_rule.cc)
void FindUnready(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// No cycle of ranks that wait for each other to connect a communicator. (connection.cc)
void FindConnectionCycle(const Plan& lowered, const CheckOptions& options,
                         Diagnostics* diagnostics);

// Stages compute only while their parameters are unsharded, gradients are reduced once, behind the
// last of them, and ranks that reduce together do so in one order. (collective_rule.cc)
void FindCollectiveFault(const Plan& lowered, const CheckOptions& options,
                         Diagnostics* diagnostics);

// The last part of `collectives`: no gather stands behind a reduction that waits for it. For a plan
// without other findings. (progress.cc)
void FindGatherCycle(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// Weights are as old as the plan says, gradients of one step are added up at a time, and every
// stage has an UPDATE of every step behind them, if the plan has steps or any UPDATE.
// (update_rule.cc)
void FindUpdateFault(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// The rules on the lists alone that no run of the streams shows, for what performs plans without
// Check: those of updates and of a schedule's own actions. (rules.cc)
void FindListFault(const Plan& lowered, Diagnostics* diagnostics);

// The plan whose lists are performed in ready order where gradients come as late as they can:
// an order that can happen, with many activations. `lowered` has a window, and passes the rules
// before `memory`. (ready_rule.cc)
Plan WithLateGradients(const Plan& lowered);

// No rank holds more activations, or bytes, than its limit. (memory_rule.cc)
void FindOverfullRank(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);

// A note at the action's place in the source.
Note NoteAt(const Plan& plan, const Action& action, std::string text);

}  // namespace stringline
