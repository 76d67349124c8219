// Stages become problems by adding up, for each, the times of its computations and the bytes that
// they hold; orders go over to words action by action, and back.
#include "schedlang/search/problem_of.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/step_length.h"

namespace stringline::search {
namespace {

int64_t ResidentBytes(const StageMemory& memory) {
  return memory[MemoryClass::kWeights] + memory[MemoryClass::kGradients] +
         memory[MemoryClass::kOptimizer] + memory.unreduced;
}

MessageTime TimeOfMessage(const Plan& stages, const CostModel& costs, ActionKind send, int stage,
                          MicrobatchId microbatch) {
  const Action message{.kind = send, .stage = StageId(stage), .microbatch = microbatch};
  if (EdgeOf(stages, message) == nullptr) return {};
  const Hop hop = HopOf(stages, costs, message);
  return {hop.latency_ns, hop.transfer_ns};
}

// The stage's times for the microbatch; for the usual one if that is none.
MicrobatchWork WorkOf(const Plan& stages, const CostModel& costs, int stage,
                      MicrobatchId microbatch) {
  const auto cost = [&](ActionKind kind, const std::vector<int64_t>& of) {
    const Action alone[] = {{.kind = kind, .stage = StageId(stage), .microbatch = microbatch}};
    return of.empty() ? 0 : GroupCost(costs, alone);
  };
  return {{cost(ActionKind::kForward, costs.forward), cost(ActionKind::kBackward, costs.backward),
           cost(ActionKind::kInputGradient, costs.input_gradient),
           cost(ActionKind::kWeightGradient, costs.weight_gradient)},
          TimeOfMessage(stages, costs, ActionKind::kSendForward, stage, microbatch),
          TimeOfMessage(stages, costs, ActionKind::kSendBackward, stage, microbatch)};
}

// Every group that an order of these stages may have: actions alone, and every F beside every B and
// I of its rank.
Plan EveryGroup(const Plan& stages) {
  Plan plan = stages;
  plan.actions.clear();
  plan.first = {0};
  for (int r = 0; r < stages.ranks(); ++r) {
    std::vector<StageId> here;
    for (size_t s = 0; s < stages.stages.size(); ++s) {
      if (stages.stages[s].rank.value == r) here.emplace_back(static_cast<int32_t>(s));
    }
    for (const StageId a : here) {
      for (const ActionKind kind : kLetterKinds) plan.actions.push_back({.kind = kind, .stage = a});
      for (const StageId b : here) {
        for (const ActionKind back : {ActionKind::kBackward, ActionKind::kInputGradient}) {
          plan.actions.push_back({.kind = ActionKind::kForward, .stage = a});
          plan.actions.push_back({.kind = back, .joined = true, .stage = b});
        }
      }
    }
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }
  return plan;
}

std::vector<int64_t> PairTimesAt(const Problem& problem, const CostModel& costs, ActionKind back) {
  return PairTimes(problem, [&](int a, int b) {
    const Action group[] = {{.kind = ActionKind::kForward, .stage = StageId(a)},
                            {.kind = back, .joined = true, .stage = StageId(b)}};
    return GroupCost(costs, group);
  });
}

// Refuses pairs of kinds that have a cost, but none of a part: such pairs have no time.
absl::Status CheckPairs(const CostModel& costs, const Limits& limits) {
  if (!limits.pairs || costs.parts.empty()) return absl::OkStatus();
  const std::vector<int64_t>* const of[] = {&costs.forward, nullptr, &costs.input_gradient,
                                            &costs.weight_gradient};
  const bool whole = limits.whole && costs.forward_backward.empty();
  for (const ActionKind kind : kLetterKinds) {
    if (kind == ActionKind::kBackward || costs.by_parts[Index(kind)]) continue;
    if (kind == ActionKind::kWeightGradient && !whole) continue;
    const std::vector<int64_t>& takes = *of[Index(kind)];
    if (std::all_of(takes.begin(), takes.end(), [](int64_t ns) { return ns == 0; })) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("pairs take the time of their parts, but of ", PrintedKind(kind),
                     " there is no cost of a part; give them", whole ? ", or FB" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

StageWork WorkOf(const Plan& stages, StageId id) {
  StageWork work;
  work.rank = stages.stage(id).rank.value;
  work.previous = stages.graph.Before(id).value;
  work.next = stages.graph.Behind(id).value;
  work.microbatches = stages.microbatches_of(id);
  return work;
}

void HoldActivations(StageWork* work) {
  work->during = {1, 0, 0, 0};
  work->after = {1, -1, 0, -1};
}

void HoldBytes(const HeldBytes& held, StageWork* work) {
  const int64_t saved = held.for_input + held.for_weight;
  const int64_t messages = held.input + held.output;  // of an F; their gradients of a B or I
  work->during = {saved + messages, messages + held.remade_for_input + held.remade_for_weight,
                  held.stash + messages + held.remade_for_input, 0};
  work->after = {saved, -saved, held.stash - held.for_input, -held.stash - held.for_weight};
}

void HoldShare(const HeldBytes& held, double share, StageWork* work) {
  HoldBytes(held, work);
  auto& [forward, whole, input, weight] = work->after;
  const int64_t gone = forward - std::llround(share * static_cast<double>(forward));
  work->during[kWholeAt] += gone;
  work->during[kInputAt] += gone;
  forward -= gone;
  whole += gone;
  input += gone;
}

HeldBytes HeldOf(const StageMemory& memory) {
  return {memory[MemoryClass::kSavedForInput],
          memory[MemoryClass::kSavedForWeight],
          memory[MemoryClass::kStash],
          /*input=*/0,
          /*output=*/0,
          memory.remade_for_input,
          memory.remade_for_weight};
}

HeldBytes HeldOf(const Plan& stages, const std::vector<StageMemory>& memory, StageId id) {
  const StageId before = stages.graph.Before(id);
  const auto message_of = [&](StageId sender) {
    return memory[static_cast<size_t>(sender.value)][MemoryClass::kMessages];
  };
  HeldBytes held = HeldOf(memory[static_cast<size_t>(id.value)]);
  if (before.valid()) held.input = message_of(before);
  if (stages.graph.Behind(id).valid()) held.output = message_of(id);
  return held;
}

std::vector<int> RecomputeOfPlan(absl::Span<const int64_t> recomputes) {
  if (std::count(recomputes.begin(), recomputes.end(), 1) == 0) return {};
  return {recomputes.begin(), recomputes.end()};
}

std::string WhyTooLarge(const Plan& stages) {
  int64_t letters = 0;
  for (int s = 0; s < static_cast<int>(stages.stages.size()); ++s) {
    letters += int64_t{3} * stages.microbatches_of(StageId(s));
  }
  return WhyTooLarge(static_cast<int64_t>(stages.stages.size()), letters);
}

absl::StatusOr<Problem> ProblemOf(const Plan& stages, const CostModel& costs,
                                  const Limits& limits) {
  if (!costs.shares.tokens.empty() && limits.pairs) {
    return absl::InvalidArgumentError(
        "the costs have unequal microbatches (microbatch), and a search makes no pairs of them; "
        "search without pairs");
  }
  SL_RETURN_IF_ERROR(CheckStepLength(stages, costs, kMostSearchedNs));
  const bool in_bytes = !limits.memory.empty();
  if (limits.activations >= 0 && in_bytes) {
    return absl::InvalidArgumentError("a limit of activations and one of bytes: give one of them");
  }
  if (in_bytes && costs.memory.empty()) {
    return absl::InvalidArgumentError(
        "a limit of bytes needs costs that say what stages hold (memory.saved_for_W …, or a "
        "model)");
  }
  Problem problem;
  problem.ranks = stages.ranks();
  problem.whole = limits.whole;
  problem.split = limits.split;
  problem.objective = limits.objective;
  for (int r = 0; r < problem.ranks; ++r) {
    const int64_t most = in_bytes ? limits.memory[static_cast<size_t>(r)] : limits.activations;
    problem.capacity.push_back(most >= 0 ? most : kNoLimit);
  }
  SL_RETURN_IF_ERROR(CheckPairs(costs, limits));
  CostModel priced = costs;
  if (limits.pairs || stages.chunks > 1) PriceGroups(EveryGroup(stages), &priced);
  bool knows_split = false;  // for any stage: a stage without layers takes no time
  for (size_t s = 0; s < stages.stages.size(); ++s) {
    StageWork work = WorkOf(stages, StageId(static_cast<int32_t>(s)));
    const int id = static_cast<int>(s);
    const MicrobatchWork usual = WorkOf(stages, priced, id, MicrobatchId());
    work.time = usual.time;
    work.activation = usual.activation;
    work.gradient = usual.gradient;
    knows_split = knows_split || work.time[kInputAt] > 0 || work.time[kWeightAt] > 0;
    if (!costs.shares.tokens.empty()) {
      std::vector<MicrobatchWork> each;
      for (int m = 0; m < work.microbatches; ++m) {
        each.push_back(WorkOf(stages, priced, id, MicrobatchId(m)));
      }
      work.SetEach(std::move(each));
    }
    if (in_bytes) {
      const StageMemory& memory = costs.memory[s];
      HoldBytes(HeldOf(stages, costs.memory, StageId(id)), &work);
      int64_t& capacity = problem.capacity[static_cast<size_t>(work.rank)];
      if (capacity < kNoLimit) capacity -= ResidentBytes(memory);
    } else {
      HoldActivations(&work);
    }
    problem.stages.push_back(work);
  }
  if (limits.split && !knows_split && !problem.stages.empty()) {
    return absl::InvalidArgumentError(
        "nothing says what I and W take: give them, or search without them (`kinds=F,B`)");
  }
  for (size_t r = 0; r < problem.capacity.size() && in_bytes; ++r) {
    if (problem.capacity[r] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", r, " holds ", limits.memory[r] - problem.capacity[r],
                     " bytes at all times, and may hold ", limits.memory[r]));
  }
  if (!limits.pairs) return problem;
  if (limits.whole) problem.whole_pairs = PairTimesAt(problem, priced, ActionKind::kBackward);
  if (limits.split) problem.input_pairs = PairTimesAt(problem, priced, ActionKind::kInputGradient);
  return problem;
}

absl::StatusOr<Words> WordsOf(const Plan& plan) {
  Words words(static_cast<size_t>(plan.ranks()));
  if (plan.forward_only) {
    return absl::InvalidArgumentError("it is forward only, and a search orders backwards, too");
  }
  if (plan.window > 0) {
    return absl::InvalidArgumentError(
        "its orders are preferences, and a search finds orders that are kept; begin without "
        "'window'");
  }
  if (plan.slices > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its microbatches have ", plan.slices,
                     " slices, and a search orders whole ones; begin without `slices`"));
  }
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto actions = plan.of(RankId(r));
    for (size_t i = 0; i < actions.size();) {
      if (actions[i].kind == ActionKind::kUpdate) {
        return absl::InvalidArgumentError(
            absl::StrCat(Print(plan, actions[i]),
                         ": a search orders one step and places no update; "
                         "search without `update`"));
      }
      if (actions[i].kind == ActionKind::kRecompute || IsCopy(actions[i].kind)) {
        return absl::InvalidArgumentError(
            absl::StrCat(Print(plan, actions[i]),
                         ": a search begins with an order of F, B, I and W; leave out R, D and "
                         "U, which `recompute=any` and `offload=any` place anew"));
      }
      if (!IsCompute(actions[i].kind)) {
        ++i;
        continue;
      }
      const auto parts = GroupAt(actions, i);
      Group group{LetterOf(parts[0].kind, parts[0].stage.value)};
      if (parts.size() == 2) group.second = LetterOf(parts[1].kind, parts[1].stage.value);
      if (group.is_pair() && KindOf(group.first) != ActionKind::kForward) {
        std::swap(group.first, group.second);
      }
      const bool is_pair_of_two_directions = group.is_pair() &&
                                             KindOf(group.first) == ActionKind::kForward &&
                                             (KindOf(group.second) == ActionKind::kBackward ||
                                              KindOf(group.second) == ActionKind::kInputGradient);
      if (parts.size() > 2 || (parts.size() == 2 && !is_pair_of_two_directions)) {
        return absl::InvalidArgumentError(absl::StrCat(PrintGroup(plan, actions, i),
                                                       " is no pair of an F and a B or I; a search "
                                                       "knows no other groups, as F & F or B & B"));
      }
      words[static_cast<size_t>(r)].push_back(group);
      i += parts.size();
    }
  }
  return words;
}

Plan PlanOf(Plan stages, const Words& words) {
  stages.actions.clear();
  stages.first = {0};
  stages.iterations.clear();
  stages.places = {stages.header};
  stages.lowered = false;
  stages.costs = {};  // costs for which another order was made
  stages.searched = {};
  std::vector<int32_t> forwards(stages.stages.size(), 0), inputs = forwards, weights = forwards;
  // A W takes the oldest deferred I, so the microbatches of I are noted.
  std::vector<std::vector<int32_t>> deferred(stages.stages.size());
  for (const std::vector<Group>& word : words) {
    for (const Group group : word) {
      for (const Letter letter : {group.first, group.second}) {
        if (letter == kNoLetter) continue;
        const auto s = static_cast<size_t>(StageOf(letter));
        Action action{.kind = KindOf(letter), .joined = letter == group.second};
        action.stage = StageId(static_cast<int32_t>(s));
        int32_t microbatch = 0;
        if (action.kind == ActionKind::kForward) {
          microbatch = forwards[s]++;
        } else if (action.kind == ActionKind::kWeightGradient) {
          microbatch = deferred[s][static_cast<size_t>(weights[s]++)];
        } else {
          microbatch = inputs[s]++;
          if (action.kind == ActionKind::kInputGradient) deferred[s].push_back(microbatch);
        }
        action.microbatch = MicrobatchId(microbatch);
        stages.actions.push_back(action);
      }
    }
    stages.first.push_back(static_cast<uint32_t>(stages.actions.size()));
  }
  return stages;
}

}  // namespace stringline::search
