#include "tools/summary.h"

#include <vector>

#include "schedlang/sim/analysis.h"
#include "schedlang/sim/memory_curve.h"
#include "tools/bubble_table.h"
#include "tools/memory_table.h"

namespace stringline {
namespace {

// Of a rank; 0 where bytes or the limit are not known.
struct KnownMemory {
  int64_t capacity = 0;
  std::vector<OverfullRank> overfull;
};

KnownMemory MemoryOf(const Session& step) {
  KnownMemory known;
  if (!step.costs) return known;
  const MemoryCurves memory = MemoryOver(*step.plan, *step.timeline, step.costs->memory);
  known.capacity = memory.in_bytes ? step.costs->capacity : 0;
  known.overfull = FindOverfull(memory, known.capacity);
  return known;
}

}  // namespace

void PrintSummary(const Session& step, std::ostream& out) {
  PrintBubbles(*step.timeline, MeasureBubbles(*step.timeline), out);
  PrintCauses(AnalysisOf(step), out);
  const KnownMemory memory = MemoryOf(step);
  PrintOverfull(memory.overfull, memory.capacity, out);
}

Json SummaryAsJson(const Session& step) {
  Json json = BubblesAsJson(*step.timeline, MeasureBubbles(*step.timeline), AnalysisOf(step));
  const KnownMemory memory = MemoryOf(step);
  AddOverfull(memory.overfull, memory.capacity, &json);
  return json;
}

}  // namespace stringline
