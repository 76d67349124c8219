// Launches are kept until the end, when each work of the GPU finds its launch.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/torch/rank_trace.h"
#include "schedlang/torch/trace_events.h"

namespace stringline {
namespace {

// The kind of a record that tells an action; nothing for any other event.
std::optional<HostRecord::Kind> RecordKindOf(const TraceEvent& event) {
  using enum HostRecord::Kind;
  const absl::string_view name = event.name;
  if (event.category == "python_function") {
    if (!absl::StrContains(name, "/pipelining/")) return std::nullopt;
    if (absl::EndsWith(name, ": forward_one_chunk")) return kForwardCall;
    if (absl::EndsWith(name, ": backward_one_chunk")) return kBackwardCall;
    if (absl::EndsWith(name, ": _maybe_compute_loss")) return kLossCall;
    return std::nullopt;
  }
  if (event.category != "cpu_op") return std::nullopt;
  if (name == "c10d::send") return kSend;
  if (name == "c10d::recv_") return kRecv;
  if (absl::StartsWith(name, "autograd::engine::evaluate_function")) return kNode;
  const bool is_numbered = event.sequence.value_or(-1) >= 0;
  if (is_numbered && event.forward_thread.value_or(0) == 0) return kOperator;
  return std::nullopt;
}

class TraceKeeper {
 public:
  explicit TraceKeeper(RankTrace* trace) : trace_(*trace) {}

  void Keep(const TraceEvent& event) {
    if (!event.is_span()) return;
    const TimeSpan span{*event.start_ns, *event.start_ns + *event.length_ns};
    absl::string_view name = event.name;
    if (event.stream.value_or(-1) >= 0) {
      const bool runs = event.category == "kernel" || event.category == "gpu_memcpy" ||
                        event.category == "gpu_memset";
      trace_.device.push_back(
          {span, DeviceWorkOf(name), runs, span.start_ns, event.correlation.value_or(-1)});
    } else if (event.category == "cuda_runtime" || event.category == "cuda_driver") {
      if (event.correlation) launches_.emplace_back(*event.correlation, span.start_ns);
    } else if (event.category == "user_annotation") {
      if (absl::ConsumePrefix(&name, "PP:")) {
        trace_.actions.push_back({span, std::string(name)});
        trace_.records = {};
      } else if (absl::ConsumePrefix(&name, "ProfilerStep#")) {
        trace_.steps.push_back({span, std::string(name)});
      } else if (absl::ConsumePrefix(&name, "gloo:")) {
        trace_.gloo.push_back({span, std::string(name)});
      }
    } else if (const auto kind = RecordKindOf(event)) {
      if (*kind == HostRecord::Kind::kSend) trace_.sends.push_back(span);
      if (!trace_.actions.empty()) return;
      trace_.records.push_back(
          {span, *kind, event.sequence.value_or(-1), event.thread.value_or(0)});
    }
  }

  void Finish(int64_t base_ns) {
    FindLaunches();
    const auto move = [&](auto* spans) {
      for (auto& span : *spans) {
        span.start_ns += base_ns;
        span.end_ns += base_ns;
      }
      std::stable_sort(spans->begin(), spans->end(), [](const TimeSpan& a, const TimeSpan& b) {
        return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
      });
    };
    for (DeviceSpan& span : trace_.device) span.launched_ns += base_ns;
    move(&trace_.actions);
    move(&trace_.steps);
    move(&trace_.gloo);
    move(&trace_.sends);
    move(&trace_.records);
    move(&trace_.device);
  }

 private:
  void FindLaunches() {
    std::sort(launches_.begin(), launches_.end());
    for (DeviceSpan& span : trace_.device) {
      const auto launch =
          std::lower_bound(launches_.begin(), launches_.end(),
                           std::pair(span.correlation, std::numeric_limits<int64_t>::min()));
      if (launch == launches_.end() || launch->first != span.correlation) continue;
      span.launched_ns = launch->second;
    }
  }

  RankTrace& trace_;
  std::vector<std::pair<int64_t, int64_t>> launches_;  // correlation and time
};

}  // namespace

DeviceWork DeviceWorkOf(absl::string_view name) {
  const bool is_nccl = absl::StartsWith(name, "nccl") && absl::StrContains(name, "Kernel");
  if (is_nccl) return DeviceWork::kCommunication;
  for (const char* const start : {"Memcpy", "Memset", "dma"}) {
    if (absl::StartsWith(name, start)) return DeviceWork::kMemory;
  }
  const bool is_other = absl::StrContains(name, "Memcpy") || absl::StrContains(name, "Sync");
  return is_other ? DeviceWork::kOther : DeviceWork::kComputation;
}

absl::StatusOr<RankTrace> ReadRankTrace(std::istream& json, const std::string& file) {
  RankTrace trace;
  trace.file = file;
  TraceKeeper keeper(&trace);
  TraceHeader header;
  SL_RETURN_IF_ERROR(
      ReadTraceEvents(json, file, &header, [&](const TraceEvent& event) { keeper.Keep(event); }));
  keeper.Finish(header.base_ns);
  trace.rank = header.rank;
  trace.processes = header.processes;
  trace.host = header.host;
  return trace;
}

}  // namespace stringline
