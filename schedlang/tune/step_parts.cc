#include "schedlang/tune/step_parts.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/status.h"
#include "schedlang/report/collective_waits.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/evaluate.h"

namespace stringline::tune {
namespace {

// The costs on links that are free.
BaseCosts WithFreeLinks(BaseCosts base) {
  for (const char* const key : {"p2p", "bandwidth", "node.p2p", "node.bandwidth"}) {
    const auto link = base.spec.values.find(key);
    if (link != base.spec.values.end()) link->second = {0};
  }
  base.slow_links.clear();
  return base;
}

CostModel WithoutMessages(CostModel costs) {
  costs.hop = 0;
  for (auto* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
    for (Hop& hop : *hops) hop = {};
  }
  return costs;
}

// The mean time that a rank computes.
int64_t MeanBusyNs(const Timeline& timeline) {
  const Bubbles bubbles = MeasureBubbles(timeline);
  int64_t busy = 0;
  for (const Bubbles::Rank& rank : bubbles.ranks) busy += rank.busy_ns;
  return busy / std::max<int64_t>(1, static_cast<int64_t>(bubbles.ranks.size()));
}

// The mean time of a rank's forwards that the schedule itself does again.
int64_t MeanAgainNs(const Plan& lowered, const CostModel& costs) {
  int64_t sum = 0;
  for (const Action& action : lowered.actions) {
    const auto s = static_cast<size_t>(action.stage.value);
    const bool back =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
    if (back && !costs.again.empty()) sum += OfMicrobatch(costs, action, costs.again[s]);
    if (action.kind == ActionKind::kRecompute && !costs.recompute.empty()) {
      sum += OfMicrobatch(costs, action, costs.recompute[s]);
    }
  }
  return sum / lowered.ranks();
}

// "tensor- and context-parallel": of the collectives inside layers.
std::string LayerKinds(const Choice& choice) {
  std::vector<std::string> kinds;
  if (choice.tensor > 1) kinds.emplace_back("tensor");
  if (choice.context > 1) kinds.emplace_back("context");
  if (choice.expert > 1) kinds.emplace_back("expert");
  return kinds.empty() ? "inner" : absl::StrCat(absl::StrJoin(kinds, "-, "), "-parallel");
}

}  // namespace

std::string NameOf(StepPart part, const Choice& choice) {
  switch (part) {
    case StepPart::kCompute:
      return "computation";
    case StepPart::kAgain:
      return "recomputation";
    case StepPart::kBubble:
      return "bubble";
    case StepPart::kLayers:
      return absl::StrCat("exposed ", LayerKinds(choice), " communication");
    case StepPart::kPipeline:
      return "exposed messages of the pipeline";
    case StepPart::kData:
      return "exposed data-parallel communication";
    case StepPart::kBehind:
      return "of the optimizer's step";
    case StepPart::kJitter:
      return "waits for uneven times";
  }
  return "";
}

absl::StatusOr<StepParts> StepPartsOf(const BaseCosts& base, const Choice& choice,
                                      const PreparedPlan& prepared) {
  const Plan& plan = prepared.lowered;
  const auto simulated = [&](const CostModel& costs) {
    return Simulate(plan, prepared.wiring, costs);
  };
  SL_ASSIGN_OR_RETURN(const CostModel all, CostsOfChoice(base, choice, prepared.written));
  SL_ASSIGN_OR_RETURN(const CostModel free,
                      CostsOfChoice(WithFreeLinks(base), choice, prepared.written));
  // Parameters that copies share out may make computations wait, too (WaitsOf).
  Choice unshared = choice;
  unshared.sharding = Sharding::kNone;
  SL_ASSIGN_OR_RETURN(const CostModel whole, CostsOfChoice(base, unshared, prepared.written));
  const CostModel local = WithoutCollectives(whole);
  SL_ASSIGN_OR_RETURN(const Timeline step, simulated(all));
  SL_ASSIGN_OR_RETURN(const Timeline without_data, simulated(local));
  SL_ASSIGN_OR_RETURN(const Timeline without_messages, simulated(WithoutMessages(local)));
  SL_ASSIGN_OR_RETURN(const Timeline alone, simulated(WithoutCollectives(free)));
  Choice once = choice;
  once.recompute = Recompute::kNone;
  once.quarters = 4;
  SL_ASSIGN_OR_RETURN(const CostModel free_once,
                      CostsOfChoice(WithFreeLinks(base), once, prepared.written));
  SL_ASSIGN_OR_RETURN(const Timeline alone_once, simulated(WithoutCollectives(free_once)));
  const int64_t busy = MeanBusyNs(alone);
  StepParts parts;
  parts.step_ns = StepNs(plan, all, step);
  parts[StepPart::kAgain] = busy - MeanBusyNs(alone_once) + MeanAgainNs(plan, free_once);
  parts[StepPart::kCompute] = busy - parts[StepPart::kAgain];
  parts[StepPart::kBubble] = MakespanOf(alone) - busy;
  parts[StepPart::kLayers] = MakespanOf(without_messages) - MakespanOf(alone);
  parts[StepPart::kPipeline] = MakespanOf(without_data) - MakespanOf(without_messages);
  parts[StepPart::kData] = MakespanOf(step) - MakespanOf(without_data);
  parts[StepPart::kBehind] = parts.step_ns - MakespanOf(step);
  return parts;
}

std::string WhyWorse(const StepParts& best, const StepParts& other, const Choice& choice) {
  const auto whole = static_cast<double>(best.step_ns);
  const auto more = [&](StepPart part) {
    return static_cast<double>(other[part] - best[part]) / whole;
  };
  std::vector<StepPart> parts;
  for (int p = 0; p < kStepParts; ++p) parts.push_back(static_cast<StepPart>(p));
  std::stable_sort(parts.begin(), parts.end(),
                   [&](StepPart a, StepPart b) { return more(a) > more(b); });
  const double slower = static_cast<double>(other.step_ns - best.step_ns) / whole;
  std::string text = absl::StrFormat("%.1f %% slower: ", 100 * slower);
  int said = 0;
  for (const StepPart part : parts) {
    if (said == 2 || (said > 0 && more(part) < slower / 4)) break;
    absl::StrAppendFormat(&text, "%s%.1f %% more %s", said > 0 ? ", " : "", 100 * more(part),
                          NameOf(part, choice));
    ++said;
  }
  const StepPart less = parts.back();
  if (more(less) < -0.001) {
    absl::StrAppendFormat(&text, "; %.1f %% less %s", -100 * more(less), NameOf(less, choice));
  }
  return text;
}

}  // namespace stringline::tune
