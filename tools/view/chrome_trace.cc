#include "tools/view/chrome_trace.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/trace_lanes.h"

namespace stringline {
namespace {

// A JSON string. The names here are those of schedules, pipes and files.
std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Microseconds, exact to the nanosecond.
std::string Us(int64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

class ChromeWriter {
 public:
  std::string Write(absl::Span<const TracedStep> steps) {
    out_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (const TracedStep& step : steps) WriteStep(step, steps.size() > 1);
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  void Add(const std::string& event) {
    absl::StrAppend(&out_, any_ ? ",\n" : "\n", event);
    any_ = true;
  }

  void WriteStep(const TracedStep& step, bool named) {
    std::multimap<uint32_t, std::pair<int, bool>>
        flow_of;  // by event: its flows, and if they end here
    for (const MessageEvents& message : step.analysis.messages) {
      ++flows_;
      flow_of.insert({message.maker, {flows_, false}});
      flow_of.insert({message.recv, {flows_, true}});
    }
    const std::vector<TraceLane> lanes = TraceLanesOf(step.plan, step.timeline);
    size_t lane = 0;
    for (int r = 0; r < step.timeline.ranks(); ++r) {
      const int pid = processes_++;
      const std::string name = absl::StrCat("rank ", r, named ? ": " : "", named ? step.name : "");
      Add(absl::StrCat(R"({"ph":"M","name":"process_name","pid":)", pid, R"(,"args":{"name":)",
                       Quoted(name), "}}"));
      for (int tid = 0; lane < lanes.size() && lanes[lane].rank == RankId(r); ++lane, ++tid) {
        Add(absl::StrCat(R"({"ph":"M","name":"thread_name","pid":)", pid, R"(,"tid":)", tid,
                         R"(,"args":{"name":)", Quoted(lanes[lane].name), "}}"));
        for (const TraceSlice& slice : lanes[lane].slices) {
          WriteSlice(step, slice, pid, tid);
          if (slice.part >= 0) continue;
          for (auto [flow, end] = flow_of.equal_range(slice.event); flow != end; ++flow) {
            WriteFlow(slice, flow->second, pid, tid);
          }
        }
      }
      WriteCounter(step.memory.in_bytes ? "memory" : "activations", step.memory.ranks[r], pid);
      WriteCounter("microbatches in flight", MicrobatchesInFlight(step.timeline, RankId(r)), pid);
    }
  }

  void WriteSlice(const TracedStep& step, const TraceSlice& slice, int pid, int tid) {
    const Event& event = step.timeline.events[slice.event];
    std::string arguments = absl::StrCat("\"stage\":", event.stage.value);
    if (event.microbatch.valid()) {
      absl::StrAppend(&arguments, ",\"microbatch\":", MicrobatchOf(step.timeline, event));
      if (step.timeline.slices > 1 && IsOfMicrobatch(event.kind)) {
        absl::StrAppend(&arguments, ",\"slice\":", SliceOf(step.timeline, event));
      }
    }
    if (step.source != nullptr) {
      const Action& action = step.plan.actions[slice.event];
      const uint32_t place = SpanOf(step.plan, action).begin;
      absl::StrAppend(
          &arguments, ",\"source\":",
          Quoted(absl::StrCat(step.source->PathAt(place), ":", step.source->Locate(place).line)));
    }
    Add(absl::StrCat(R"({"ph":"X","name":)", Quoted(NameOf(step.timeline, slice)), R"(,"cat":)",
                     Quoted(slice.part >= 0 ? "part" : PrintedKind(step.timeline.rows, event.kind)),
                     R"(,"pid":)", pid, R"(,"tid":)", tid, R"(,"ts":)", Us(slice.start_ns),
                     R"(,"dur":)", Us(slice.end_ns - slice.start_ns), R"(,"args":{)", arguments,
                     "}}"));
  }

  void WriteFlow(const TraceSlice& slice, std::pair<int, bool> flow, int pid, int tid) {
    Add(absl::StrCat(R"({"ph":")", flow.second ? "f" : "s",
                     R"(","name":"message","cat":"message",)", flow.second ? R"("bp":"e",)" : "",
                     R"("id":)", flow.first, R"(,"pid":)", pid, R"(,"tid":)", tid, R"(,"ts":)",
                     Us(slice.start_ns), "}"));
  }

  void WriteCounter(const char* name, const MemoryCurve& curve, int pid) {
    for (const MemoryPoint& point : curve.points) {
      Add(absl::StrCat(R"({"ph":"C","name":)", Quoted(name), R"(,"pid":)", pid, R"(,"ts":)",
                       Us(point.time_ns), R"(,"args":{"value":)", point.amount, "}}"));
    }
  }

  std::string out_;
  bool any_ = false;
  int flows_ = 0;
  int processes_ = 0;
};

}  // namespace

std::string WriteChromeTrace(absl::Span<const TracedStep> steps) {
  return ChromeWriter().Write(steps);
}

}  // namespace stringline
