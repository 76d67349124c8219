// The parser hands over token after token. Its position is a path of keys; an event's fields are
// collected while its object is open, and examined when it closes. Launches are kept until the end,
// when each work of the GPU finds its launch.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schedlang/torch/rank_trace.h"

namespace stringline {
namespace {

using Json = nlohmann::json;

// No time is later: sums of three fit 64 bits.
constexpr int64_t kLatestNs = std::numeric_limits<int64_t>::max() / 4;

// "4563746251331.957" microseconds as nanoseconds; digits behind the third are dropped.
std::optional<int64_t> NanosecondsOf(absl::string_view us) {
  const bool negative = absl::ConsumePrefix(&us, "-");
  const size_t point = std::min(us.find('.'), us.size());
  std::string fraction(us.substr(std::min(point + 1, us.size())));
  fraction.resize(3, '0');
  int64_t whole = 0, rest = 0;
  const bool plain = us.find_first_of("eE") == absl::string_view::npos &&
                     absl::SimpleAtoi(us.substr(0, point), &whole) &&
                     absl::SimpleAtoi(fraction, &rest) && whole < kLatestNs / 1000;
  if (!plain) {
    double any = 0;  // 1.5e3
    if (!absl::SimpleAtod(us, &any) || !(any < static_cast<double>(kLatestNs) / 1000)) {
      return std::nullopt;
    }
    whole = static_cast<int64_t>(any);
    rest = static_cast<int64_t>((any - static_cast<double>(whole)) * 1000);
  }
  const int64_t ns = whole * 1000 + rest;
  return negative ? -ns : ns;
}

struct TraceEvent {
  std::string name, category, phase;
  std::optional<int64_t> start_ns, length_ns, correlation, stream;
};

class TraceTokens : public nlohmann::json_sax<Json> {
 public:
  explicit TraceTokens(RankTrace* trace) : trace_(*trace) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(number_float_t, const string_t& digits) override {
    Time(digits);
    return true;
  }

  bool string(string_t& text) override {
    if (IsTop() && key_ == "host_name") trace_.host = text;
    if (!IsEvent()) return true;
    if (key_ == "name") event_.name = text;
    if (key_ == "cat") event_.category = text;
    if (key_ == "ph") event_.phase = text;
    return true;
  }

  bool start_object(size_t) override {
    if (IsList()) event_ = {};
    return Open();
  }
  bool end_object() override {
    Close();
    if (IsList()) KeepEvent();
    return true;
  }
  bool start_array(size_t) override {
    if (IsTop() && key_ == "traceEvents") is_trace_ = true;
    return Open();
  }
  bool end_array() override {
    Close();
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const Json::exception& error) override {
    const absl::string_view said = error.what();
    const bool is_cut =
        absl::StrContains(said, "end of input") || absl::StrContains(said, "missing closing quote");
    fault_ = is_cut ? absl::StrCat("ends in the middle, behind byte ", at,
                                   ": it was cut, or is still being written")
                    : absl::StrCat("is not JSON from byte ", at, " on");
    return false;
  }

  // Completes the trace. Returns its fault, or "".
  std::string Finish() {
    if (!fault_.empty()) return fault_;
    if (!is_trace_) return "is no trace of torch's profiler: it has no traceEvents";
    if (trace_.rank < 0) {
      return "says no rank (distributedInfo): profile while torch.distributed is initialized";
    }
    if (trace_.actions.empty()) {
      return "holds no range PP:…: torch writes them for schedules of _PipelineScheduleRuntime "
             "(all of several stages a rank, and those loaded from a .csv); write the trace in "
             "on_trace_ready, where the profiler has a schedule";
    }
    FindLaunches();
    MoveToBase();
    return "";
  }

 private:
  bool IsTop() const { return path_.size() == 1; }
  // The position: in the list of events; in an event; in an event's `args`.
  bool IsList() const { return path_.size() == 2 && path_[1] == "traceEvents"; }
  bool IsEvent() const { return path_.size() == 3 && path_[1] == "traceEvents"; }
  bool IsArgument() const { return path_.size() == 4 && path_[1] == "traceEvents"; }

  bool Open() {
    path_.push_back(std::exchange(key_, ""));
    return true;
  }
  void Close() {
    key_ = std::move(path_.back());
    path_.pop_back();
  }

  bool Number(int64_t value) {
    const bool is_small = value >= 0 && value < (1 << 30);
    if (path_.size() == 2 && path_[1] == "distributedInfo" && is_small) {
      if (key_ == "rank") trace_.rank = static_cast<int>(value);
      if (key_ == "world_size") trace_.processes = static_cast<int>(value);
    } else if (IsTop() && key_ == "baseTimeNanoseconds") {
      base_ns_ = std::clamp(value, -kLatestNs, kLatestNs);
    } else if (IsArgument() && key_ == "correlation") {
      event_.correlation = value;
    } else if (IsArgument() && key_ == "stream") {
      event_.stream = value;
    } else if (IsEvent() && (key_ == "ts" || key_ == "dur")) {
      Time(absl::StrCat(value));
    }
    return true;
  }

  void Time(absl::string_view digits) {
    if (!IsEvent()) return;
    if (key_ == "ts") event_.start_ns = NanosecondsOf(digits);
    if (key_ == "dur") event_.length_ns = NanosecondsOf(digits);
  }

  void KeepEvent() {
    if (event_.phase != "X" || !event_.start_ns || event_.length_ns.value_or(-1) < 0) return;
    const TimeSpan span{*event_.start_ns, *event_.start_ns + *event_.length_ns};
    absl::string_view name = event_.name;
    if (event_.stream && *event_.stream >= 0) {
      const bool runs = event_.category == "kernel" || event_.category == "gpu_memcpy" ||
                        event_.category == "gpu_memset";
      trace_.device.push_back(
          {span, DeviceWorkOf(name), runs, span.start_ns, event_.correlation.value_or(-1)});
    } else if (event_.category == "cuda_runtime" || event_.category == "cuda_driver") {
      if (event_.correlation) launches_.emplace_back(*event_.correlation, span.start_ns);
    } else if (event_.category == "cpu_op") {
      if (name == "c10d::send") trace_.sends.push_back(span);
    } else if (event_.category == "user_annotation") {
      if (absl::ConsumePrefix(&name, "PP:")) {
        trace_.actions.push_back({span, std::string(name)});
      } else if (absl::ConsumePrefix(&name, "ProfilerStep#")) {
        trace_.steps.push_back({span, std::string(name)});
      } else if (absl::ConsumePrefix(&name, "gloo:")) {
        trace_.gloo.push_back({span, std::string(name)});
      }
    }
  }

  void FindLaunches() {
    std::sort(launches_.begin(), launches_.end());
    for (DeviceSpan& span : trace_.device) {
      const auto launch = std::lower_bound(launches_.begin(), launches_.end(),
                                           std::pair(span.correlation, -kLatestNs));
      if (launch == launches_.end() || launch->first != span.correlation) continue;
      span.launched_ns = launch->second;
    }
  }

  void MoveToBase() {
    const auto move = [&](auto* spans) {
      for (auto& span : *spans) {
        span.start_ns += base_ns_;
        span.end_ns += base_ns_;
      }
      std::stable_sort(spans->begin(), spans->end(), [](const TimeSpan& a, const TimeSpan& b) {
        return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
      });
    };
    for (DeviceSpan& span : trace_.device) span.launched_ns += base_ns_;
    move(&trace_.actions);
    move(&trace_.steps);
    move(&trace_.gloo);
    move(&trace_.sends);
    move(&trace_.device);
  }

  RankTrace& trace_;
  std::vector<std::string> path_;  // the keys of open objects, "" for an item of a list
  std::string key_;                // the last key read
  TraceEvent event_;
  std::vector<std::pair<int64_t, int64_t>> launches_;  // correlation and time
  int64_t base_ns_ = 0;
  bool is_trace_ = false;
  std::string fault_;
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
  TraceTokens tokens(&trace);
  Json::sax_parse(json, &tokens);
  const std::string fault = tokens.Finish();
  if (fault.empty()) return trace;
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", fault));
}

}  // namespace stringline
