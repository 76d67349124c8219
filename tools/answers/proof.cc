// A proof as lines for people and as JSON: the rules, and what every rank needs at most.
#include "tools/answers/proof.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/threads.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/rules.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/group_order.h"

namespace stringline {
namespace {

int64_t ComputeActions(const Plan& plan) {
  std::atomic<int64_t> count = 0;
  ForEachOnCores(plan.ranks(), plan.actions.size(), [&](int rank) {
    int64_t of_rank = 0;
    for (const Action& action : plan.of(RankId(rank))) of_rank += IsCompute(action.kind) ? 1 : 0;
    count += of_rank;
  });
  return count;
}

int MostReceiveBuffersOf(const Plan& lowered) {
  const std::vector<int> of_ranks = ReceiveBuffersOf(lowered);
  return of_ranks.empty() ? 0 : *std::max_element(of_ranks.begin(), of_ranks.end());
}

// True if the plan would hang if communicators connected at their first call.
bool NeedsConnections(const Plan& lowered, const CheckOptions& options) {
  Diagnostics findings;
  FindConnectionCycle(lowered, options, &findings);
  return !findings.empty();
}

std::vector<const Rule*> Proven(const Plan& lowered, const CheckOptions& options, bool has_steps) {
  std::vector<const Rule*> rules;
  for (const Rule& rule : Rules()) {
    if (rule.code == Code::kUpdates && !has_steps) continue;
    if (rule.code == Code::kReadyOrder && lowered.window == 0) continue;
    if (Applies(rule, options)) rules.push_back(&rule);
  }
  return rules;
}

// The memory of every rank; without ranks where sizes are not known, without places where nothing
// executes the plan.
MemoryPlan MemoryOf(const Plan& lowered, const CheckOptions& options) {
  MemoryPlan memory;
  if (options.sizes.empty()) return memory;
  if (!lowered.rows.empty()) {
    memory.ranks = *MemoryOfRanks(lowered, options.sizes);
    return memory;
  }
  absl::StatusOr<MemoryPlan> planned = PlanMemory(lowered, options.sizes);
  SL_CHECK(planned.ok()) << planned.status();  // the plan passes Check, so the step ends
  return *std::move(planned);
}

// The largest gap of a rank that has some, while the most bytes of it are alive.
BlockGap LargestGapOf(const Plan& lowered, const CheckOptions& options, int rank,
                      const MemoryPlan& memory) {
  if (memory.ranks[rank].gaps() == 0 || memory.offsets.empty()) return {};
  const uint32_t fullest = PeakBytesOf(lowered, RankId(rank), options.sizes).action;
  return LargestGapOf(lowered, RankId(rank), fullest, options.sizes, memory);
}

// "rank 3 holds the most bytes, 79.2 GB of at most 80.0 GB", and so on its host.
void PrintMostBytes(const std::vector<RankMemory>& ranks, int64_t (*of)(const RankMemory&),
                    const char* where, const MemoryLimit& limit, std::ostream& out) {
  const auto most =
      std::max_element(ranks.begin(), ranks.end(),
                       [of](const RankMemory& x, const RankMemory& y) { return of(x) < of(y); });
  const auto rank = static_cast<int>(most - ranks.begin());
  out << "    rank " << rank << " holds the most bytes" << where << ", " << PrintBytes(of(*most));
  if (limit.of(rank) >= 0) out << " of at most " << PrintBytes(limit.of(rank));
}

void PrintBytesOfRanks(const Plan& lowered, const CheckOptions& options, std::ostream& out) {
  const MemoryPlan memory = MemoryOf(lowered, options);
  const std::vector<RankMemory>& ranks = memory.ranks;
  if (ranks.empty()) return;
  const auto all = [](const RankMemory& rank) { return rank.all(); };
  const auto most =
      std::max_element(ranks.begin(), ranks.end(),
                       [](const RankMemory& x, const RankMemory& y) { return x.all() < y.all(); });
  PrintMostBytes(ranks, all, "", options.memory, out);
  if (most->gaps() > 0) out << "; " << PrintBytes(most->gaps()) << " of it are gaps between values";
  out << "\n";
  const BlockGap gap =
      LargestGapOf(lowered, options, static_cast<int>(most - ranks.begin()), memory);
  if (gap.begin < gap.end) {
    out << "    the largest gap at " << Print(lowered, lowered.actions[gap.action])
        << ", bytes of no value alive by its list: " << Describe(gap) << "\n";
  }
  if (!UsesHosts(lowered)) return;
  PrintMostBytes(
      ranks, [](const RankMemory& rank) { return rank.host; }, " on its host", options.host, out);
  out << "\n";
}

// "3 steps, each on the weights of the step before", or how old they are.
std::string PrintAge(const Plan& plan) {
  const std::string steps = absl::StrCat(plan.steps, plan.steps == 1 ? " step" : " steps");
  if (plan.versions == 1) {
    return plan.steps == 1 ? absl::StrCat(steps, " with its updates")
                           : absl::StrCat(steps, ", each on the weights of the update before it");
  }
  const int age = plan.versions - 1;
  return absl::StrCat(steps, ", each on weights that are ", age, age == 1 ? " update" : " updates",
                      " old (the first ones on those that there are); a microbatch reads the same "
                      "weights in all its actions");
}

// A number, or where ranks have their own an array, with null for any number.
Json LimitAsJson(const MemoryLimit& limit, int ranks) {
  if (limit.ranks.empty()) return limit.all;
  Json array = Json::array();
  for (int r = 0; r < ranks; ++r) {
    array.push_back(limit.of(r) >= 0 ? Json(limit.of(r)) : Json());
  }
  return array;
}

// "no group of P=2 M=4 is an 'F & F'"
std::string PrintUnmatched(const Plan& plan, const Overlap& overlap) {
  std::string kinds;
  for (const ActionKind kind : overlap.kinds) {
    absl::StrAppend(&kinds, kinds.empty() ? "" : " & ", PrintedKind(kind));
  }
  const std::string parameters = PrintParameters(plan);
  return absl::StrCat("this overlap changes nothing: ",
                      parameters.empty() ? "the plan" : parameters, " has no group ", kinds);
}

}  // namespace

void PrintProof(const Plan& lowered, const Source& source, const CheckOptions& options,
                std::ostream& out) {
  const std::string parameters = PrintParameters(lowered);
  out << "ok: " << lowered.schedule << (parameters.empty() ? "" : " ") << parameters << ": "
      << ComputeActions(lowered) << " actions on " << lowered.ranks()
      << (lowered.ranks() == 1 ? " rank" : " ranks") << "; proven:";
  const char* separator = " ";
  const bool has_steps = HasSteps(lowered);
  for (const Rule* rule : Proven(lowered, options, has_steps)) {
    out << separator << rule->name;
    separator = ", ";
  }
  const int receive_buffers = MostReceiveBuffersOf(lowered);
  const int activations = MostActivationsOf(lowered);
  out << "\n    layout " << NameOf(options.layout) << ", ";
  if (lowered.window > 0) {
    out << "there is room for every message";
  } else if (options.buffers == 0) {
    out << "a send waits for its receive";
  } else {
    out << options.buffers << (options.buffers == 1 ? " message" : " messages")
        << " buffered a channel";
  }
  out << "; a rank needs at most " << receive_buffers
      << (receive_buffers == 1 ? " receive buffer" : " receive buffers") << " and holds "
      << PrintActivations(lowered.slices, activations)
      << (activations == lowered.slices ? " activation\n" : " activations\n");
  PrintBytesOfRanks(lowered, options, out);
  if (lowered.window > 0) {
    out << "    in ready order, window " << lowered.window << ", slack " << lowered.slack
        << ": this holds for every order that can happen\n";
  }
  if (has_steps) out << "    " << PrintAge(lowered) << "\n";
  if (!options.lazy && NeedsConnections(lowered, options)) {
    out << "    communicators must be connected before the step: it hangs with --lazy\n";
  }
  for (const Overlap* const overlap : UnmatchedOverlaps(lowered)) {
    const LineColumn at = source.Locate(overlap->span.begin);
    out << source.PathAt(overlap->span.begin) << ":" << at.line << ":" << at.column
        << ": note: " << PrintUnmatched(lowered, *overlap) << "\n";
  }
}

Json ProofAsJson(const Plan& lowered, const Source& source, const CheckOptions& options) {
  Json notes = Json::array();
  for (const Overlap* const overlap : UnmatchedOverlaps(lowered)) {
    const LineColumn at = source.Locate(overlap->span.begin);
    notes.push_back({{"message", PrintUnmatched(lowered, *overlap)},
                     {"file", source.PathAt(overlap->span.begin)},
                     {"line", at.line},
                     {"column", at.column}});
  }
  Json rules = Json::array();
  const bool has_steps = HasSteps(lowered);
  for (const Rule* rule : Proven(lowered, options, has_steps)) rules.push_back(rule->name);
  Json json = {{"ok", true},
               {"schedule", lowered.schedule},
               {"parameters", ParametersAsJson(lowered.parameters)},
               {"ranks", lowered.ranks()},
               {"actions", ComputeActions(lowered)},
               {"proven", std::move(rules)},
               {"layout", NameOf(options.layout)},
               {"buffers", options.buffers},
               {"receive_buffers", MostReceiveBuffersOf(lowered)},
               {"activations", ActivationsAsJson(lowered.slices, MostActivationsOf(lowered))},
               {"hangs_when_lazy", NeedsConnections(lowered, options)},
               {"notes", std::move(notes)},
               {"findings", Json::array()}};
  if (has_steps) {
    json["steps"] = lowered.steps;
    json["versions"] = lowered.versions;
  }
  Json bytes = Json::array(), host_bytes = Json::array(), gaps = Json::array();
  const MemoryPlan memory = MemoryOf(lowered, options);
  for (size_t r = 0; r < memory.ranks.size(); ++r) {
    bytes.push_back(memory.ranks[r].all());
    host_bytes.push_back(memory.ranks[r].host);
    const BlockGap gap = LargestGapOf(lowered, options, static_cast<int>(r), memory);
    if (gap.begin == gap.end) continue;
    gaps.push_back({{"rank", r},
                    {"bytes", memory.ranks[r].gaps()},
                    {"action", Print(lowered, lowered.actions[gap.action])},
                    {"begin", gap.begin},
                    {"end", gap.end},
                    {"below", gap.below},
                    {"above", gap.above}});
  }
  if (!options.sizes.empty()) {
    json["bytes"] = std::move(bytes);
    json["gaps"] = std::move(gaps);
  }
  if (options.memory.is_given()) json["memory"] = LimitAsJson(options.memory, lowered.ranks());
  if (!options.sizes.empty() && UsesHosts(lowered)) json["host_bytes"] = std::move(host_bytes);
  if (options.host.is_given()) json["host_memory"] = LimitAsJson(options.host, lowered.ranks());
  return json;
}

}  // namespace stringline
