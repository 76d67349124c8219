// The text is copied with an eye on its brackets and strings, until the list of the key traceEvents
// ends.
#include "schedlang/kernels/write_counters.h"

#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/kernels/trace_counters.h"

namespace stringline {
namespace {

// The end of the list traceEvents of a JSON object: the index of its bracket; npos if there is
// none. *is_empty: nothing stands in it.
size_t EndOfEvents(const std::string& text, bool* is_empty) {
  int depth = 0;
  size_t begun = std::string::npos, quote = 0;
  bool in_text = false, in_events = false;
  std::string last;  // the last text of the object itself: a key, if a list follows
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c != '"') continue;
      in_text = false;
      if (depth == 1) last = text.substr(quote + 1, i - quote - 1);
    } else if (c == '"') {
      in_text = true;
      quote = i;
    } else if (c == '{' || c == '[') {
      ++depth;
      if (depth != 2 || c != '[' || last != "traceEvents") continue;
      in_events = true;
      begun = i;
    } else if (c == '}' || c == ']') {
      --depth;
      if (!in_events || depth != 1) continue;
      *is_empty = text.find_first_not_of(" \t\r\n", begun + 1) == i;
      return i;
    }
  }
  return std::string::npos;
}

std::string Counter(const char* what, const std::string& name, const TraceCurve& curve,
                    const CurveSample& sample, int64_t base_ns) {
  const int64_t ns = sample.at_ns - base_ns;
  std::string text =
      absl::StrFormat(R"({"ph": "C", "name": "%s", "pid": %d, "ts": %s%d.%03d, )", name,
                      curve.process, ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
  if (curve.stream >= 0) absl::StrAppend(&text, "\"id\": ", curve.stream, ", ");
  absl::StrAppend(&text, "\"args\": {\"", what, "\": ", absl::StrFormat("%.17g", sample.value),
                  "}}");
  return text;
}

}  // namespace

absl::StatusOr<std::string> WithCounters(std::istream& json, const KernelTrace& part) {
  std::string text{std::istreambuf_iterator<char>(json), std::istreambuf_iterator<char>()};
  bool is_empty = false;
  const size_t end = EndOfEvents(text, &is_empty);
  if (end == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(part.file, ": has no list traceEvents"));
  }
  std::string counters;
  const auto add = [&](const std::string& counter) {
    absl::StrAppend(&counters, is_empty && counters.empty() ? "\n" : ",\n", counter);
  };
  for (const TraceCurve& queue : QueueLengthsOf(part)) {
    for (const CurveSample& sample : queue.samples) {
      add(Counter("Queue Length", "Queue Length", queue, sample, part.base_ns));
    }
  }
  for (const TraceCurve& rate : CopyRatesOf(part)) {
    for (const CurveSample& sample : rate.samples) {
      add(Counter("Memcpy BW", rate.name, rate, sample, part.base_ns));
    }
  }
  return absl::StrCat(absl::string_view(text).substr(0, end), counters, "\n",
                      absl::string_view(text).substr(end));
}

}  // namespace stringline
