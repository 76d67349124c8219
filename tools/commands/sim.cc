// stringline sim: how long a step takes in virtual time, and who waits for what.
#include "schedlang/sim/analysis.h"
#include "tools/bubble_table.h"
#include "tools/command.h"
#include "tools/memory_table.h"
#include "tools/requests.h"

namespace stringline {

int RunSim(const Flags& flags, const Output& output) {
  if (!flags.ranges.empty()) return RunSimFor(flags, output);
  if (flags.files.size() > 1) {
    return Fail(output, "several files are simulated with --for NAME=RANGE, or compared");
  }
  if (KindOfFile(flags.file) == FileKind::kTimeline) {
    return Fail(output, flags.file + ": a timeline needs no simulation; see stringline show");
  }
  const absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) {
    return ShowFindings(output, output.err, step->diagnostics, step->source);
  }
  const Timeline& timeline = *step->timeline;
  if (!flags.timeline_out.empty()) {
    const absl::Status written = WriteAsked(output, flags.timeline_out, Print(timeline));
    if (!written.ok()) return Fail(output, written.message());
  }
  const Bubbles bubbles = MeasureBubbles(timeline);
  const Analysis analysis = AnalysisOf(*step);
  const MemoryCurves memory = MemoryOver(*step->plan, timeline, step->costs->memory);
  const int64_t capacity = memory.in_bytes ? step->costs->capacity : 0;
  const std::vector<OverfullRank> overfull = FindOverfull(memory, capacity);
  if (output.json) {
    Json json = BubblesAsJson(timeline, bubbles, analysis);
    AddOverfull(overfull, capacity, &json);
    WriteJson(output.out, json);
  } else {
    PrintBubbles(timeline, bubbles, output.out);
    PrintCauses(analysis, output.out);
    PrintOverfull(overfull, capacity, output.out);
  }
  return kOk;
}

}  // namespace stringline
