#include "schedlang/check/check.h"

#include "schedlang/check/rules.h"

namespace stringline {

absl::Span<const Rule> Rules() {
  static constexpr Rule kRules[] = {
      {"complete", "every stage does every microbatch exactly once", Code::kIncomplete,
       FindIncomplete},
      {"dataflow", "nothing is used before its rank has it", Code::kDataflow, FindEarlyUse},
      {"updates", "weights are as new as they have to be, and updated behind all gradients",
       Code::kUpdates, FindUpdateFault},
      {"matching", "the k-th send of a channel is its k-th receive", Code::kMatching, FindMismatch},
      {"progress", "no ranks wait for each other in a cycle", Code::kProgress, FindCycle},
      {"ready", "every order that a window allows ends, each stage keeping its own",
       Code::kReadyOrder, FindUnready},
      {"connection", "no ranks wait for each other to connect", Code::kConnection,
       FindConnectionCycle},
      {"collectives", "parameters are there when used, gradients are reduced once, in one order",
       Code::kCollectives, FindCollectiveFault},
      {"memory", "no rank holds more than it may", Code::kMemory, FindOverfullRank},
  };
  return kRules;
}

bool Applies(const Rule& rule, const CheckOptions& options) {
  if (rule.code == Code::kConnection) return options.lazy;
  if (rule.code == Code::kMemory) {
    return options.activations >= 0 || options.memory.is_given() || options.host.is_given();
  }
  return true;
}

namespace {

// True for a rule that finds nothing in a plan of these kinds that was walked at once.
bool IsShown(const Rule& rule, const Plan& plan, const CheckOptions& options, ActionKinds kinds) {
  constexpr ActionKinds kUpdates = SetOf(ActionKind::kUpdate);
  constexpr ActionKinds kCollectives =
      SetOf(ActionKind::kUnshard) | SetOf(ActionKind::kReshard) | SetOf(ActionKind::kReduceGrad);
  switch (rule.code) {
    case Code::kIncomplete:
    case Code::kDataflow:
    case Code::kMatching:
    case Code::kProgress:
      return true;
    case Code::kUpdates:
      return plan.steps == 1 && plan.versions == 1 && (kinds & kUpdates) == 0;
    case Code::kCollectives:
      return !options.sharded && (kinds & (kCollectives | kUpdates)) == 0;
    default:
      return false;
  }
}

}  // namespace

bool Check(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics) {
  const size_t before = diagnostics->findings().size();
  const std::optional<ActionKinds> walked = WalkedAtOnce(lowered, options);
  for (const Rule& rule : Rules()) {
    if (!Applies(rule, options)) continue;
    if (walked && IsShown(rule, lowered, options, *walked)) continue;
    rule.find(lowered, options, diagnostics);
    if (diagnostics->findings().size() != before) return false;
  }
  return true;
}

}  // namespace stringline
