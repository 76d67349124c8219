// Traces of torch's profiler, one per rank, with form feeds between them: read, imported, printed,
// read back.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "schedlang/report/analysis.h"
#include "schedlang/torch/import_step.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stringline;  // NOLINT: a whole program in one function
  std::istringstream texts(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<RankTrace> traces;
  for (std::string text; std::getline(texts, text, '\f');) {
    std::istringstream json(text);
    absl::StatusOr<RankTrace> trace = ReadRankTrace(json, "x.json");
    if (!trace.ok()) return 0;
    traces.push_back(*std::move(trace));
  }
  const auto imported = ImportStep(std::move(traces), std::nullopt);
  if (!imported.ok()) return 0;
  const std::string text = Print(imported->timeline);
  Diagnostics diagnostics;
  const auto again = ReadTimeline(Source("x.timeline", text), &diagnostics);
  SL_CHECK(again && Print(*again) == text) << text;
  const auto plan = PlanOf(*again);
  SL_CHECK(plan) << text;
  Analyze(*plan, *again);
  for (const ImportedRank& rank : imported->ranks) {
    const BusyTimes& busy = rank.busy;
    SL_CHECK(busy.computation_ns + busy.other_ns + busy.idle_ns == busy.total_ns) << text;
  }
  return 0;
}
