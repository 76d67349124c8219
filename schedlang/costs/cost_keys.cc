// Tables of keys and of units. A text is compared with the suffixes of its unit, and what is no
// number of it is looked at again for what may have been meant.
#include "schedlang/costs/cost_keys.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/base/written_out.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/rows.h"

namespace stringline {
namespace {

constexpr CostKey kKeysBeforeParts[] = {
    {"F", CostUnit::kTime, true, "a forward"},
    {"B", CostUnit::kTime, true, "a whole backward; I + W if not given"},
    {"I", CostUnit::kTime, true, "an input gradient"},
    {"W", CostUnit::kTime, true, "a weight gradient"},
    {"R", CostUnit::kTime, true, "of a stage that recomputes, its F done again; F if not given"},
    {"UPDATE", CostUnit::kTime, true, "the optimizer's step of a stage; nothing if not given"},
    {"D", CostUnit::kTime, true, "a copy to the host; its bytes over host.bandwidth if not given"},
    {"U", CostUnit::kTime, true, "the copy back; as long as D if not given"},
    {"FB", CostUnit::kTime, true, "an F a & B b, by stage a; F + B if not given"},
    {"p2p", CostUnit::kTime, false, "latency of a message; it does not occupy the communicator"},
    {"bandwidth", CostUnit::kBandwidth, false, "of a link; without it bytes take no time"},
    {"host.bandwidth", CostUnit::kBandwidth, false, "of a rank's link to its host, each way"},
    {"host.sharing", CostUnit::kCount, false,
     "how many ranks, in order, share it: each has its part, whether others copy or not; 1"},
    {"host.capacity", CostUnit::kBytes, false, "of copies that a rank can hold on its host"},
    {"message", CostUnit::kBytes, true, "an activation that the stage sends; its gradient as much"},
    {"node.ranks", CostUnit::kCount, false, "how many ranks share a node, in order"},
    {"node.p2p", CostUnit::kTime, false, "latency of a message inside a node"},
    {"node.bandwidth", CostUnit::kBandwidth, false, "of a link inside a node"},
    {"node.sharing", CostUnit::kCount, false,
     "1: messages from one node to another share one link and slow each other"},
    {"links.A-B.p2p", CostUnit::kTime, false,
     "latency of a message between ranks A and B, in a node or not; A->B: of one direction"},
    {"links.A-B.bandwidth", CostUnit::kBandwidth, false,
     "of the link between ranks A and B; with node.sharing it is shared by their messages alone"},
    {"unshard", CostUnit::kTime, true, "gathering a stage's parameters"},
    {"reduce", CostUnit::kTime, true, "reducing a stage's gradients"},
    {"buckets", CostUnit::kCount, true,
     "in how many pieces they are gathered and reduced, each beside computation; 1"},
};
constexpr CostKey kKeysAfterParts[] = {
    {"attention", CostUnit::kShare, true,
     "the share of attention in F, B, I and R: it grows with the square of a sequence's length, "
     "and "
     "of slices with the keys before them"},
    {"microbatch", CostUnit::kFactor, false,
     "by microbatch of a step, how much longer it is than the one that costs are of; 1 for all"},
    {"microbatch.tokens", CostUnit::kCount, false,
     "or its tokens, as a list or a file: 4096, or [1024, 3072] for sequences packed together"},
    {"layers", CostUnit::kCount, true, "how many layers with such parts a stage has; 1"},
    {"slowdown", CostUnit::kShare, false, "how much longer computation takes under communication"},
    {"part_jitter", CostUnit::kShare, false,
     "standard deviation of a part's duration: lanes that run side by side wait for the later one"},
#define STATE(memory_class, printed, key, meaning) {key, CostUnit::kBytes, true, meaning},
#define KEPT(value, printed, again, given, needed, last, words, whose, at_end, key, meaning) \
  {key, CostUnit::kBytes, true, meaning},
#define HOSTED(...) KEPT(__VA_ARGS__)
#include "schedlang/plan/values.def"
    {"memory.capacity", CostUnit::kBytes, false, "that a rank can hold"},
    {"recompute", CostUnit::kCount, true,
     "1: of a microbatch the stage keeps what entered it, and does its F again for its B or I"},
    {"receive_buffers", CostUnit::kCount, false,
     "how many received values a rank can hold that are not used yet; any number if not given"},
    {"jitter", CostUnit::kShare, false, "standard deviation of every duration"},
    {"jitter.microbatch", CostUnit::kShare, false,
     "the same of a microbatch's durations, all of which it makes longer or shorter alike"},
};

struct Suffix {
  absl::string_view text;
  double factor;
};
constexpr Suffix kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1e3}};
constexpr Suffix kByteSizes[] = {{"KiB", 1024.0},
                                 {"MiB", 1024.0 * 1024},
                                 {"GiB", 1024.0 * 1024 * 1024},
                                 {"TiB", 1099511627776},
                                 {"kB", 1e3},
                                 {"MB", 1e6},
                                 {"GB", 1e9},
                                 {"TB", 1e12},
                                 {"B", 1},
                                 {"", 1}};
constexpr Suffix kBandwidths[] = {{"KiB/s", 1024.0},
                                  {"MiB/s", 1024.0 * 1024},
                                  {"GiB/s", 1024.0 * 1024 * 1024},
                                  {"TiB/s", 1099511627776},
                                  {"kB/s", 1e3},
                                  {"MB/s", 1e6},
                                  {"GB/s", 1e9},
                                  {"TB/s", 1e12},
                                  {"B/s", 1}};
constexpr Suffix kShares[] = {{"%", 1e4}, {"", 1e6}};
constexpr Suffix kCounts[] = {{"", 1}};
constexpr Suffix kFactors[] = {{"%", 1e4}, {"", 1e6}};

struct UnitRow {
  absl::Span<const Suffix> suffixes;
  double most;
  const char* what;
  const char* what_with_unit;  // where a plain number is refused
  const char* too_large;
  const char* likely[3];  // units proposed for a number without a unit
};

UnitRow RowOf(CostUnit unit) {
  switch (unit) {
    case CostUnit::kTime:
      return {kTimes,
              1e15,
              "a time (a number of microseconds, or one with ns, us, ms or s)",
              "a time (5us, 2ms, 60s)",
              "longer than eleven days",
              {"us", "ms", "s"}};
    case CostUnit::kBytes:
      return {kByteSizes,
              1e15,
              "a number of bytes (16MiB, 2GB, 4096)",
              "a number of bytes (16MiB, 2GB)",
              "more than a petabyte",
              {"kB", "MB", "GB"}};
    case CostUnit::kBandwidth:
      return {kBandwidths,
              1e15,
              "a bandwidth (25GB/s)",
              "a bandwidth (25GB/s)",
              "more than a petabyte a second",
              {"kB/s", "MB/s", "GB/s"}};
    case CostUnit::kShare:
      return {kShares, 1e8, "a share (5% or 0.05)", "a share (5%)", "more than a hundredfold",
              {"%"}};
    case CostUnit::kFactor:
      return {kFactors, 1e8, "a factor (1.3 or 130%)", "a factor (130%)", "more than a hundredfold",
              {"%"}};
    case CostUnit::kCount:
      break;
  }
  return {kCounts, 1e6, "a whole number", "a whole number", "too large", {}};
}

// "'600' has no unit: write 600us, 600ms or 600s"
absl::Status HasNoUnit(const UnitRow& row, absl::string_view number) {
  std::string units;
  for (const char* const unit : row.likely) {
    if (unit == nullptr) break;
    const bool is_last = unit == row.likely[2] || row.likely[1] == nullptr;
    absl::StrAppend(&units, units.empty() ? "" : is_last ? " or " : ", ", number, unit);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", number, "' has no unit: write ", units));
}

// The notation that is read here for a number in another common notation; "" if there is none.
std::string HintFor(CostUnit unit, absl::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789.eE_+"), text.size());
  const absl::string_view digits = text.substr(0, end), rest = text.substr(end);
  const std::string whole = WrittenOut(digits);
  if (!whole.empty()) return absl::StrCat("; write ", whole, rest);
  constexpr std::pair<absl::string_view, absl::string_view> kBits[] = {
      {"kb/s", "kB/s"}, {"Mb/s", "MB/s"}, {"Gb/s", "GB/s"}, {"Tb/s", "TB/s"},
      {"kbps", "kB/s"}, {"Mbps", "MB/s"}, {"Gbps", "GB/s"}, {"Tbps", "TB/s"}};
  double value = 0;
  if (unit != CostUnit::kBandwidth || !absl::SimpleAtod(digits, &value)) return "";
  for (const auto& [bits, bytes] : kBits) {
    if (rest != bits) continue;
    return absl::StrFormat("; it counts bytes, and %s are %.10g%s", text, value / 8, bytes);
  }
  return "";
}

absl::StatusOr<int64_t> Parse(CostUnit unit, absl::string_view text, bool needs_unit) {
  const UnitRow row = RowOf(unit);
  const absl::string_view all = absl::StripAsciiWhitespace(text);
  for (const Suffix& suffix : row.suffixes) {
    absl::string_view digits = all;
    if (!absl::ConsumeSuffix(&digits, suffix.text)) continue;
    digits = absl::StripTrailingAsciiWhitespace(digits);
    double value = 0;
    const char* const allowed = unit == CostUnit::kCount ? "0123456789" : "0123456789.";
    if (digits.empty() || digits.find_first_not_of(allowed) != absl::string_view::npos ||
        !absl::SimpleAtod(digits, &value)) {
      break;
    }
    const bool is_share = unit == CostUnit::kShare;
    if (suffix.text.empty() && ((is_share && value >= 1) || (needs_unit && value > 0))) {
      return HasNoUnit(row, all);
    }
    if (value * suffix.factor > row.most) {
      return absl::InvalidArgumentError(absl::StrCat("'", all, "' is ", row.too_large));
    }
    return std::llround(value * suffix.factor);
  }
  const char* const what = needs_unit ? row.what_with_unit : row.what;
  return absl::InvalidArgumentError(absl::StrCat("'", all, "' is not ", what, HintFor(unit, all)));
}

}  // namespace

absl::Span<const CostKey> CostKeys() {
  static const auto* const keys = [] {
    auto* const all =
        new std::vector<CostKey>(std::begin(kKeysBeforeParts), std::end(kKeysBeforeParts));
    for (int part = 0; part < kParts; ++part) {
      all->push_back({PartName(part), CostUnit::kTime, true, RowOfPart(part).meaning});
    }
    all->insert(all->end(), std::begin(kKeysAfterParts), std::end(kKeysAfterParts));
    return all;
  }();
  return *keys;
}

const char* KeyOf(MemoryClass memory_class) {
  static constexpr const char* kKeys[] = {
#define STATE(memory_class, printed, key, meaning) key,
#define KEPT(value, printed, again, given, needed, last, words, whose, at_end, key, meaning) key,
#define HOSTED(...) KEPT(__VA_ARGS__)
#define OWN(value) "",
#include "schedlang/plan/values.def"
      "message",
  };
  return kKeys[static_cast<int>(memory_class)];
}

bool IsSharedByStages(const CostKey& key) {
  const absl::string_view name = key.name;
  if (!key.per_stage || name == KeyOf(MemoryClass::kMessages) || name == "layers" ||
      name == "recompute" || name == "buckets" || name == "attention")
    return false;
  for (int part = 0; part < kParts; ++part) {
    if (name == PartName(part)) return false;
  }
  return true;
}

const CostKey* FindCostKey(absl::string_view name) {
  // "F.mlp" is F.experts.
  const size_t rest = name.find('.') + 1;
  const std::string of_part =
      absl::StrCat(name.substr(0, rest), ShortNameOfWord(name.substr(rest)));
  for (const CostKey& key : CostKeys()) {
    if (of_part == key.name) return &key;
  }
  return nullptr;
}

std::string EdgeKey(const Edge& edge) {
  return absl::StrCat("message.", edge.from.value, ">", edge.to.value);
}

bool IsOwnCostKey(absl::string_view name) {
  if (absl::ConsumePrefix(&name, "message.")) {
    const size_t mark = name.find('>');
    int32_t from = 0, to = 0;
    return mark != absl::string_view::npos && absl::SimpleAtoi(name.substr(0, mark), &from) &&
           absl::SimpleAtoi(name.substr(mark + 1), &to);
  }
  if (absl::ConsumePrefix(&name, "memory.")) return IsValueName(name);
  return IsActionName(name);
}

absl::StatusOr<int64_t> ParseInUnit(CostUnit unit, absl::string_view text) {
  return Parse(unit, text, /*needs_unit=*/false);
}

absl::StatusOr<int64_t> ParseWithUnit(CostUnit unit, absl::string_view text) {
  return Parse(unit, text, /*needs_unit=*/true);
}

absl::StatusOr<int64_t> ParseCost(const CostKey& key, absl::string_view text) {
  const absl::StatusOr<int64_t> value = ParseInUnit(key.unit, text);
  if (value.ok()) return value;
  return absl::InvalidArgumentError(absl::StrCat(key.name, ": ", value.status().message()));
}

}  // namespace stringline
