// A change scales the costs of all stages that it is about, and what follows from them: pairs with
// one time for both actions by their shares in it, groups in parts by running their parts again.
#include "schedlang/report/variations.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/own_costs.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

void Scale(std::vector<int64_t>* ns, double factor) {
  for (int64_t& value : *ns) value = std::llround(static_cast<double>(value) * factor);
}

bool AnyAbove(const std::vector<int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t v) { return v > 0; });
}

// B and I of a recomputing stage begin with its F again: adds this F's time `sign` times.
void AddAgain(int64_t sign, CostModel* costs) {
  for (auto* const times : {&costs->backward, &costs->input_gradient}) {
    for (size_t s = 0; s < costs->again.size() && !times->empty(); ++s) {
      (*times)[s] += sign * costs->again[s];
    }
  }
}

// Costs of pairs of an F and one of `backs`, given as a single number: they scale with the share of
// `kind` in the pair's two costs at the stage.
void ScalePair(const CostModel& before, ActionKind kind, const std::vector<int64_t>& backs,
               double factor, std::vector<int64_t>* pairs) {
  for (size_t s = 0; s < pairs->size(); ++s) {
    const auto forward = static_cast<double>(before.forward[s]);
    const auto back = static_cast<double>(backs[s]);
    if (forward + back == 0) continue;
    const double share = (kind == ActionKind::kForward ? forward : back) / (forward + back);
    (*pairs)[s] = std::llround(static_cast<double>((*pairs)[s]) * (1 - share * (1 - factor)));
  }
}

// Scales the parts of this kind, and prices the pairs with them again.
void ScaleParts(const Plan& plan, ActionKind kind, double factor, CostModel* costs) {
  const bool whole = kind == ActionKind::kBackward;
  if (costs->parts.empty()) return;
  CostModel priced = *costs;
  for (PartCosts& parts : priced.parts) {
    for (int part = 0; part < kParts; ++part) {
      const ActionKind of = RowOfPart(part).of;
      if (of != kind && !(whole && of != ActionKind::kForward)) continue;
      parts.ns[part] = std::llround(static_cast<double>(parts.ns[part]) * factor);
    }
  }
  PriceGroups(plan, &priced);
  // Groups without an action of the kind keep their times.
  for (auto& [group, takes_ns] : costs->overlapped) {
    const bool has = std::any_of(group.begin(), group.end(),
                                 [kind](const auto& action) { return action.first == kind; });
    if (has) takes_ns = priced.overlapped.at(group);
  }
}

// Scales the costs of a kind of computation. An F done again scales as F and as R.
void ScaleKind(const Plan& plan, ActionKind kind, double factor, CostModel* costs) {
  if (IsOwn(kind)) return Scale(&costs->own.by_stage[static_cast<size_t>(kind)], factor);
  AddAgain(-1, costs);
  const CostModel before = *costs;
  std::vector<int64_t>* const of[] = {&costs->forward,        &costs->backward,
                                      &costs->input_gradient, &costs->weight_gradient,
                                      &costs->recompute,      &costs->update};
  Scale(of[static_cast<int>(kind)], factor);
  const bool forward = kind == ActionKind::kForward;
  if (forward || kind == ActionKind::kRecompute) Scale(&costs->again, factor);
  if (forward) Scale(&costs->recompute, factor);
  if (forward || kind == ActionKind::kBackward) {
    ScalePair(before, kind, before.backward, factor, &costs->forward_backward);
    ScalePair(before, kind, before.backward, factor, &costs->saved_beside_backward);
  }
  if (forward || kind == ActionKind::kInputGradient) {
    ScalePair(before, kind, before.input_gradient, factor, &costs->forward_input);
    ScalePair(before, kind, before.input_gradient, factor, &costs->saved_beside_input);
  }
  ScaleParts(plan, kind, factor, costs);
  AddAgain(+1, costs);
}

// Scales the parts on the network, and with them the actions and groups that they are of.
void ScaleNetwork(const Plan& plan, double factor, CostModel* costs) {
  AddAgain(-1, costs);
  const std::vector<PartCosts> before = costs->parts;
  for (PartCosts& parts : costs->parts) {
    for (int part = 0; part < kParts; ++part) {
      if (LaneOf(part) != Lane::kNetwork) continue;
      parts.ns[part] = std::llround(static_cast<double>(parts.ns[part]) * factor);
    }
  }
  const auto scale = [&](std::vector<int64_t>* times, auto sum) {
    for (size_t s = 0; s < times->size(); ++s) {
      const auto all = static_cast<double>(sum(before[s]));
      if (all == 0) continue;
      (*times)[s] = std::llround(static_cast<double>((*times)[s]) *
                                 static_cast<double>(sum(costs->parts[s])) / all);
    }
  };
  const auto forward = [](const PartCosts& parts) { return parts.Forward(); };
  const auto input = [](const PartCosts& parts) { return parts.InputGradient(); };
  const auto whole = [](const PartCosts& parts) {
    return parts.InputGradient() + parts.WeightGradient();
  };
  scale(&costs->forward, forward);
  scale(&costs->again, forward);
  scale(&costs->recompute, forward);
  scale(&costs->input_gradient, input);
  scale(&costs->backward, whole);
  PriceGroups(plan, costs);
  AddAgain(+1, costs);
}

struct Knob {
  const char* name;
  std::function<bool(const CostModel&)> matters;
  std::function<void(CostModel*)> turn;
};

void ForHops(CostModel* costs, const std::function<void(Hop*)>& change) {
  for (auto* const hops : {&costs->activation_hops, &costs->gradient_hops}) {
    for (Hop& hop : *hops) change(&hop);
  }
}

// The messages over the link, of which each now has a time of its own.
void ForHopsOver(const Plan& plan, const RankLink& link, CostModel* costs,
                 const std::function<void(Hop*)>& change) {
  const std::vector<Edge>& edges = plan.graph.edges();
  if (costs->activation_hops.empty()) {
    costs->activation_hops.assign(edges.size(), {costs->hop, 0});
    costs->gradient_hops = costs->activation_hops;
  }
  for (const Edge& edge : edges) {
    const RankId a = plan.stage(edge.from).rank, b = plan.stage(edge.to).rank;
    if (link.Has(a, b)) change(&costs->activation_hops[static_cast<size_t>(edge.id)]);
    if (link.Has(b, a)) change(&costs->gradient_hops[static_cast<size_t>(edge.id)]);
  }
}

bool AnyHop(const CostModel& costs, int64_t Hop::*part) {
  bool any = false;
  for (const auto* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
    for (const Hop& hop : *hops) any = any || hop.*part > 0;
  }
  return any;
}

std::vector<Knob> MessageKnobs() {
  return {
      {"half the latency",
       [](const CostModel& c) { return c.hop > 0 || AnyHop(c, &Hop::latency_ns); },
       [](CostModel* c) {
         c->hop /= 2;
         ForHops(c, [](Hop* hop) { hop->latency_ns /= 2; });
       }},
      {"twice the bandwidth", [](const CostModel& c) { return AnyHop(c, &Hop::transfer_ns); },
       [](CostModel* c) { ForHops(c, [](Hop* hop) { hop->transfer_ns /= 2; }); }},
      {"copies 10% faster",
       [](const CostModel& c) { return AnyAbove(c.offload) || AnyAbove(c.fetch); },
       [](CostModel* c) {
         Scale(&c->offload, 0.9);
         Scale(&c->fetch, 0.9);
       }},
      {"collectives 10% faster",
       [](const CostModel& c) { return AnyAbove(c.unshard) || AnyAbove(c.reduce); },
       [](CostModel* c) {
         Scale(&c->unshard, 0.9);
         Scale(&c->reduce, 0.9);
       }},
  };
}

// The rank whose computations take longest together.
RankId BusiestRank(const Plan& plan, const CostModel& costs) {
  RankId busiest(0);
  int64_t most_ns = -1;
  for (int r = 0; r < plan.ranks(); ++r) {
    int64_t ns = 0;
    const auto actions = plan.of(RankId(r));
    for (size_t i = 0; i < actions.size(); ++i) {
      if (!IsCompute(actions[i].kind) || actions[i].joined) continue;
      ns += GroupCost(costs, GroupAt(actions, i));
    }
    if (ns <= most_ns) continue;
    most_ns = ns;
    busiest = RankId(r);
  }
  return busiest;
}

// A number that looks random, for two numbers (SplitMix64; Steele, Lea and Flood 2014).
uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t z = a * 0xd1342543de82ef95 + (b + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Drawn from a normal distribution around 1 (Box and Muller 1958), at least 0.5.
double Factor(uint64_t seed, int64_t deviation_millionths) {
  const auto uniform = [seed](uint64_t k) {  // in (0, 1]
    return (static_cast<double>(Mixed(seed, k) >> 11) + 1) * 0x1p-53;
  };
  const double normal =
      std::sqrt(-2 * std::log(uniform(1))) * std::cos(2 * std::acos(-1.0) * uniform(2));
  return std::max(0.5, 1 + normal * static_cast<double>(deviation_millionths) * 1e-6);
}

}  // namespace

std::vector<Variation> WhatIf(const Plan& plan, const CostModel& costs) {
  std::vector<Variation> variations;
  for (int k = 0; k < kActionKinds; ++k) {
    const auto kind = static_cast<ActionKind>(k);
    if (!IsCompute(kind) && !IsOwn(kind)) continue;
    const bool performed =
        std::any_of(plan.actions.begin(), plan.actions.end(),
                    [kind](const Action& action) { return action.kind == kind; });
    if (!performed) continue;
    variations.push_back({absl::StrCat(PrintedKind(plan.rows, kind), " 10% faster"), costs});
    ScaleKind(plan, kind, 0.9, &variations.back().costs);
  }
  for (const Knob& knob : MessageKnobs()) {
    if (!knob.matters(costs)) continue;
    variations.push_back({knob.name, costs});
    knob.turn(&variations.back().costs);
  }
  if (std::any_of(costs.parts.begin(), costs.parts.end(),
                  [](const PartCosts& parts) { return parts.OnLane(Lane::kNetwork) > 0; })) {
    variations.push_back({"network parts 10% faster", costs});
    ScaleNetwork(plan, 0.9, &variations.back().costs);
  }
  const RankId rank = BusiestRank(plan, costs);
  variations.push_back(
      {absl::StrCat("rank ", rank.value, " 10% faster"), WithSlowRank(plan, costs, rank, -0.1)});
  return variations;
}

CostModel WithSlowRank(const Plan& plan, CostModel costs, RankId rank, double share) {
  const size_t stages = plan.stages.size();
  for (size_t s = 0; s < stages; ++s) {
    if (plan.stages[s].rank != rank) continue;
    const auto scale = [&](std::vector<int64_t>* list, size_t at) {
      if (list->empty()) return;
      (*list)[at] = std::llround(static_cast<double>((*list)[at]) * (1 + share));
    };
    for (auto* const list :
         {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient,
          &costs.forward_backward, &costs.forward_input, &costs.saved_beside_backward,
          &costs.saved_beside_input, &costs.again, &costs.recompute, &costs.update}) {
      scale(list, s);
    }
  }
  // Groups take the time of their parts, also where another plan's are priced.
  for (size_t s = 0; s < costs.parts.size(); ++s) {
    if (plan.stages[s].rank != rank) continue;
    for (int64_t& ns : costs.parts[s].ns) {
      ns = std::llround(static_cast<double>(ns) * (1 + share));
    }
  }
  PriceGroups(plan, &costs);
  return costs;
}

absl::Status CheckSlowLink(const Plan& plan, const CostModel& costs, const RankLink& link) {
  SL_RETURN_IF_ERROR(CheckLink(plan, link));
  for (const OwnAction& row : plan.rows.actions) {
    if (!MovesAway(row)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        row.name, " of the schedule's own copies to another rank, too, and its time is not known ",
        "by link"));
  }
  CostModel known = costs;
  bool takes_time = false;
  ForHopsOver(plan, link, &known, [&](Hop* hop) { takes_time = takes_time || hop->all_ns() > 0; });
  if (takes_time) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("messages over ", Print(link),
                                                 " take no time, so none takes longer; give costs "
                                                 "with p2p, or with bandwidth and message"));
}

CostModel WithSlowLink(const Plan& plan, CostModel costs, const RankLink& link, double share) {
  ForHopsOver(plan, link, &costs, [share](Hop* hop) {
    for (int64_t* const ns : {&hop->latency_ns, &hop->transfer_ns}) {
      *ns = std::llround(static_cast<double>(*ns) * (1 + share));
    }
  });
  return costs;
}

CostModel WithNoise(const Plan& plan, CostModel costs, uint64_t seed) {
  costs.noise.factors.clear();
  for (const Action& action : plan.actions) {
    const auto microbatch = static_cast<uint64_t>(action.microbatch.value);
    const uint64_t of_action =
        Mixed(Mixed(microbatch, static_cast<uint64_t>(action.stage.value)) + seed,
              1 + static_cast<uint64_t>(action.kind));
    const double own = Factor(of_action, costs.jitter);
    const double shared = Factor(Mixed(microbatch + seed, 0), costs.microbatch_jitter);
    costs.noise.factors.push_back(static_cast<float>(own * shared));
  }
  return costs;
}

}  // namespace stringline
