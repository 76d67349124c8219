// The parser hands over token after token. Its position is a path of keys; an event's fields are
// collected while its object is open, and the event is handed on when it closes.
#include "schedlang/torch/trace_events.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

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

// The whole numbers among an event's fields, by their keys.
struct WholeField {
  const char* key;
  std::optional<int64_t> TraceEvent::*of;
};
constexpr WholeField kOfEvent[] = {{"pid", &TraceEvent::process}, {"tid", &TraceEvent::thread}};
constexpr WholeField kOfArguments[] = {{"correlation", &TraceEvent::correlation},
                                       {"stream", &TraceEvent::stream},
                                       {"Sequence number", &TraceEvent::sequence},
                                       {"Fwd thread id", &TraceEvent::forward_thread},
                                       {"Device Id", &TraceEvent::device},
                                       {"Device Type", &TraceEvent::device_type},
                                       {"Bytes", &TraceEvent::bytes},
                                       {"Total Allocated", &TraceEvent::allocated_bytes},
                                       {"Total Reserved", &TraceEvent::reserved_bytes}};

class TraceTokens : public nlohmann::json_sax<Json> {
 public:
  TraceTokens(TraceHeader* header, const std::function<void(const TraceEvent&)>& keep)
      : header_(*header), keep_(keep) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (IsArgument() && key_ == kBandwidth) event_.bandwidth = value;
    Time(digits);
    return true;
  }

  bool string(string_t& text) override {
    if (IsTop() && key_ == "host_name") header_.host = text;
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
    if (IsList()) keep_(event_);
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

  // The fault of the whole file, or "".
  std::string Fault() const {
    if (!fault_.empty()) return fault_;
    if (!is_trace_) return "is no trace of torch's profiler: it has no traceEvents";
    if (header_.rank < 0) {
      return "says no rank (distributedInfo): profile while torch.distributed is initialized";
    }
    return "";
  }

 private:
  static constexpr char kBandwidth[] = "memory bandwidth (GB/s)";

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
      if (key_ == "rank") header_.rank = static_cast<int>(value);
      if (key_ == "world_size") header_.processes = static_cast<int>(value);
    } else if (IsTop() && key_ == "baseTimeNanoseconds") {
      header_.base_ns = std::clamp(value, -kLatestNs, kLatestNs);
    } else if (IsArgument()) {
      if (key_ == kBandwidth) event_.bandwidth = static_cast<double>(value);
      for (const WholeField& field : kOfArguments) {
        if (key_ == field.key) event_.*field.of = value;
      }
    } else if (IsEvent()) {
      for (const WholeField& field : kOfEvent) {
        if (key_ == field.key) event_.*field.of = value;
      }
      Time(absl::StrCat(value));
    }
    return true;
  }

  void Time(absl::string_view digits) {
    if (!IsEvent()) return;
    if (key_ == "ts") event_.start_ns = NanosecondsOf(digits);
    if (key_ == "dur") event_.length_ns = NanosecondsOf(digits);
  }

  TraceHeader& header_;
  const std::function<void(const TraceEvent&)>& keep_;
  std::vector<std::string> path_;  // the keys of open objects, "" for an item of a list
  std::string key_;                // the last key read
  TraceEvent event_;
  bool is_trace_ = false;
  std::string fault_;
};

}  // namespace

absl::Status ReadTraceEvents(std::istream& json, const std::string& file, TraceHeader* header,
                             const std::function<void(const TraceEvent&)>& keep) {
  TraceTokens tokens(header, keep);
  Json::sax_parse(json, &tokens);
  const std::string fault = tokens.Fault();
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", fault));
}

}  // namespace stringline
