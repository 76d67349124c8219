#include "tools/answers/summary.h"

#include <optional>
#include <vector>

#include "schedlang/report/analysis.h"
#include "schedlang/report/balance.h"
#include "schedlang/report/memory_curve.h"
#include "tools/answers/balance_line.h"
#include "tools/answers/bubble_table.h"
#include "tools/answers/memory_table.h"
#include "tools/answers/ready_lines.h"

namespace stringline {
namespace {

// A rank's memory; 0 if bytes or the limit are not known.
struct KnownMemory {
  int64_t capacity = 0;
  std::vector<OverfullRank> overfull;
};

KnownMemory MemoryOf(const Session& step) {
  KnownMemory known;
  if (!step.costs || step.costs->memory.empty() || step.costs->capacity == 0) return known;
  const MemoryCurves memory = MemoryOver(*step.plan, *step.timeline, step.costs->memory);
  known.capacity = step.costs->capacity;
  known.overfull = FindOverfull(memory, known.capacity);
  return known;
}

CausesByRank CausesOf(const Session& step, const Bubbles& bubbles) {
  return CausesOfIdle(*step.plan, *step.timeline, *step.links, bubbles.makespan_ns);
}

std::optional<MicrobatchBalance> BalanceOf(const Session& step) {
  if (!step.costs) return std::nullopt;
  return BalanceOf(*step.plan, *step.links, *step.costs);
}

}  // namespace

void PrintSummary(const Session& step, std::ostream& out) {
  const Bubbles bubbles = MeasureBubbles(*step.timeline);
  PrintBubbles(step, bubbles, out);
  PrintCauses(CausesOf(step, bubbles), out);
  if (const auto balance = BalanceOf(step)) {
    out << "\n";
    PrintBalance(*balance, bubbles.makespan_ns, "  ", out);
  }
  PrintReady(step, out);
  const KnownMemory memory = MemoryOf(step);
  PrintOverfull(memory.overfull, memory.capacity, out);
}

Json SummaryAsJson(const Session& step) {
  const Bubbles bubbles = MeasureBubbles(*step.timeline);
  Json json = BubblesAsJson(step, bubbles, CausesOf(step, bubbles));
  if (const auto balance = BalanceOf(step)) AddBalance(*balance, &json);
  AddReady(step, &json);
  const KnownMemory memory = MemoryOf(step);
  AddOverfull(memory.overfull, memory.capacity, &json);
  return json;
}

}  // namespace stringline
