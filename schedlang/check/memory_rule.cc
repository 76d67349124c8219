// The rule `memory`: the most bytes of a rank, against its limit. Bytes are those of the memory
// plan. With a model they are the executor's allocation for the rank from start to end, by its
// kernels for the CPU: parameters, gradients, moments, values, messages, temporaries, a step's
// tokens; not the host's own copies of tokens and losses, nor memory of libraries. With costs they
// are the given bytes of stages and microbatches, without temporaries. The place shown is the
// action with the most bytes in use. Copies on the host have a limit of their own.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/rules.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

void Find(const Plan& plan, RankId rank, uint32_t index, std::string text, Diagnostics* diagnostics,
          const std::string& gap = "", const std::string& order = "") {
  const Action& action = plan.actions[index];
  Diagnostic& finding = diagnostics->Add(Code::kMemory, SpanOf(plan, action), std::move(text));
  if (!finding.notes.empty()) return;
  finding.where = WhereOf(plan, action);
  finding.notes.push_back(
      {.text = absl::StrCat("alive then: ", DescribeAlive(plan, rank, index)), .has_place = false});
  if (!order.empty()) finding.notes.push_back({.text = order, .has_place = false});
  if (gap.empty()) return;
  finding.notes.push_back(
      {.text = absl::StrCat("the largest gap then, bytes of no value alive by its list: ", gap),
       .has_place = false});
}

// The last actions of the rank's list up to one of them: "… 0F1 0F2".
std::string PrintUpTo(const Plan& plan, RankId rank, uint32_t last) {
  constexpr uint32_t kMost = 24;
  const uint32_t begin = plan.first[rank.value];
  uint32_t i = last + 1 - begin > kMost ? last + 1 - kMost : begin;
  std::string text = i > begin ? "…" : "";
  for (; i <= last; ++i)
    absl::StrAppend(&text, text.empty() ? "" : " ", Print(plan, plan.actions[i]));
  return text;
}

// A rank with more copies on its host than it may have; the place is the F with which
// the most bytes have room there, by the order of the list.
void FindOverfullHost(const Plan& plan, RankId rank, int64_t bytes, const CheckOptions& options,
                      Diagnostics* diagnostics) {
  const int64_t most = options.host.of(rank.value);
  if (bytes <= most) return;
  const uint32_t fullest = PeakOnHostOf(plan, rank, options.sizes).action;
  const Action& action = plan.actions[fullest];
  Diagnostic& finding = diagnostics->Add(
      Code::kMemory, SpanOf(plan, action),
      absl::StrCat("rank ", rank.value, " holds ", PrintBytes(bytes), " on its host at ",
                   Print(plan, action), ", more than ", PrintBytes(most)));
  if (!finding.notes.empty()) return;
  finding.where = WhereOf(plan, action);
  finding.notes.push_back({.text = absl::StrCat("on the host then, or on their way: ",
                                                DescribeOnHost(plan, rank, fullest)),
                           .has_place = false});
}

// A rank that may hold more activations in ready order than it may; with an order that can happen
// in which it does, if one is found.
void FindReadyPeak(const Plan& plan, RankId rank, int most, const CheckOptions& options,
                   Diagnostics* diagnostics) {
  for (const Plan& order : {InListOrder(plan), WithLateGradients(plan)}) {
    const PeakActivations peak = PeakActivationsOf(order, rank);
    if (peak.count <= options.activations) continue;
    Find(order, rank, peak.action,
         absl::StrCat("rank ", rank.value, " holds ", peak.count, " stage activations at ",
                      Print(order, order.actions[peak.action]),
                      " in an order that can happen, more than ", options.activations),
         diagnostics, "", "the order: " + PrintUpTo(order, rank, peak.action));
    return;
  }
  diagnostics
      ->Add(Code::kMemory, plan.header,
            absl::StrCat("rank ", rank.value, " may hold up to ", most,
                         " stage activations in ready order, more than ", options.activations))
      .where = PrintParameters(plan);
}

// The same in bytes: the memory of its values is set aside for every order that can happen.
void FindReadyBytes(const Plan& plan, RankId rank, int64_t bytes, int64_t most,
                    Diagnostics* diagnostics) {
  diagnostics
      ->Add(Code::kMemory, plan.header,
            absl::StrCat("rank ", rank.value, " takes ", PrintBytes(bytes),
                         " for all orders that can happen, more than ", PrintBytes(most)))
      .where = PrintParameters(plan);
}

}  // namespace

void FindOverfullRank(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  const bool in_bytes = options.memory.is_given() || options.host.is_given();
  SL_CHECK(!in_bytes || options.sizes.size() == static_cast<size_t>(plan.graph.entries()))
      << "a limit in bytes needs the bytes of every stage";
  absl::StatusOr<MemoryPlan> memory = MemoryPlan();
  if (in_bytes && plan.rows.empty()) {
    memory = PlanMemory(plan, options.sizes);
  } else if (in_bytes) {
    memory->ranks = *MemoryOfRanks(plan, options.sizes);
  }
  SL_CHECK(memory.ok()) << memory.status();  // the plan ends by an earlier rule
  const bool ready = plan.window > 0;
  const ReadyRoom room = ready ? RoomOf(plan) : ReadyRoom();
  for (int r = 0; r < plan.ranks(); ++r) {
    const RankId rank(r);
    if (plan.of(rank).empty()) continue;
    if (ready) {
      const int most = room.ranks[static_cast<size_t>(r)];
      if (options.activations >= 0 && most > options.activations) {
        FindReadyPeak(plan, rank, most, options, diagnostics);
      }
      const int64_t bytes = in_bytes ? memory->ranks[r].all() : 0;
      if (options.memory.of(r) >= 0 && bytes > options.memory.of(r)) {
        FindReadyBytes(plan, rank, bytes, options.memory.of(r), diagnostics);
      }
      continue;
    }
    const PeakActivations peak = PeakActivationsOf(plan, rank);
    if (options.activations >= 0 && peak.count > int64_t{options.activations} * plan.slices) {
      Find(plan, rank, peak.action,
           absl::StrCat("rank ", r, " holds ", PrintActivations(plan.slices, peak.count),
                        " stage activations at ", Print(plan, plan.actions[peak.action]),
                        ", more than ", options.activations),
           diagnostics);
    }
    if (options.host.of(r) >= 0)
      FindOverfullHost(plan, rank, memory->ranks[r].host, options, diagnostics);
    const int64_t most = options.memory.of(r);
    if (most < 0 || memory->ranks[r].all() <= most) continue;
    const uint32_t fullest = PeakBytesOf(plan, rank, options.sizes).action;
    const int64_t gaps = memory->ranks[r].gaps();
    Find(plan, rank, fullest,
         absl::StrCat("rank ", r, " holds ", PrintBytes(memory->ranks[r].all()), " at ",
                      Print(plan, plan.actions[fullest]), ", more than ", PrintBytes(most),
                      gaps == 0
                          ? ""
                          : absl::StrCat("; ", PrintBytes(gaps), " of it are gaps between values")),
         diagnostics,
         gaps == 0 ? "" : Describe(LargestGapOf(plan, rank, fullest, options.sizes, *memory)));
  }
}

}  // namespace stringline
