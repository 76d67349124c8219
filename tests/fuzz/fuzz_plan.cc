// A plan's text form: read, print, read back, lower and check in every layout.
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedlang/base/sl_check.h"
#include "schedlang/check/check.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stringline;  // NOLINT: a whole program in one function
  const Source source("x.plan", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  const auto file = ReadPlanFile(source, &diagnostics);
  SL_CHECK(file.has_value() == diagnostics.empty()) << "read, or refused with a finding";
  if (!file) {
    Render(diagnostics, source);
    return 0;
  }
  const Plan* const plan = &file->plan;
  // A plan of a few words may name a million stages and microbatches.
  if (plan->stages.size() * static_cast<size_t>(plan->microbatches) > 10'000) return 0;
  if (plan->ranks() > 1'000) return 0;
  const std::string text = Print(*plan, file->issued, file->waits);
  const Source printed("y.plan", text);
  const auto again = ReadPlanFile(printed, &diagnostics);
  SL_CHECK(again && Print(again->plan, again->issued, again->waits) == text)
      << "what is printed reads back";
  for (const CommLayout layout :
       {CommLayout::kShared, CommLayout::kPair, CommLayout::kEdge, CommLayout::kUpDown}) {
    for (const int buffers : {0, 1}) {
      Diagnostics findings;
      const CheckOptions options{
          .layout = layout, .buffers = buffers, .lazy = buffers == 0, .activations = 2};
      Check(plan->lowered ? *plan : Lower(*plan, layout), options, &findings);
      Render(findings, source);
    }
  }
  return 0;
}
