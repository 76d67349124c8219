// A timeline's text form: read, measure, print, read back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedlang/base/sl_check.h"
#include "schedlang/plan/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stringline;  // NOLINT: a whole program in one function
  const Source source("x.timeline", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  const auto timeline = ReadTimeline(source, &diagnostics);
  SL_CHECK(timeline.has_value() == diagnostics.empty()) << "read, or refused with a finding";
  if (!timeline) {
    Render(diagnostics, source);
    return 0;
  }
  MeasureBubbles(*timeline);
  const std::string text = Print(*timeline);
  const Source printed("y.timeline", text);
  const auto again = ReadTimeline(printed, &diagnostics);
  SL_CHECK(again && Print(*again) == text) << "what is printed reads back";
  return 0;
}
