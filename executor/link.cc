#include "executor/link.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/costs.h"

namespace stringline {

int64_t LinkSpeed::TransferNs(int64_t bytes) const {
  if (bytes_per_s <= 0) return latency_ns;
  return latency_ns + std::llround(static_cast<double>(bytes) / bytes_per_s * 1e9);
}

absl::StatusOr<int64_t> ParseByteCount(absl::string_view text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},         {"B", 1},       {"kB", 1e3},     {"MB", 1e6},
                             {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
                             {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const size_t digits = text.find_first_not_of("0123456789.");
  const absl::string_view unit =
      digits == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(text.substr(digits));
  double number = 0;
  if (absl::SimpleAtod(text.substr(0, digits), &number)) {
    for (const Unit& known : kUnits) {
      const double bytes = number * known.bytes;
      if (unit == known.name && bytes >= 0 && bytes < 0x1p62) return std::llround(bytes);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no number of bytes; write it as 80GiB"));
}

absl::StatusOr<LinkSpeed> ParseLinkSpeed(absl::string_view text) {
  const size_t comma = text.find(',');
  const absl::string_view latency = absl::StripAsciiWhitespace(text.substr(0, comma));
  LinkSpeed link;
  const absl::StatusOr<CostSpec> hop = ParseCosts(absl::StrCat("p2p=", latency));
  if (!hop.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", latency, "' is no latency; write a link as 5us,2GB/s"));
  }
  link.latency_ns = hop->values.at("p2p")[0];
  if (comma == absl::string_view::npos) return link;
  absl::string_view bandwidth = absl::StripAsciiWhitespace(text.substr(comma + 1));
  absl::StatusOr<int64_t> bytes = absl::InvalidArgumentError("");
  if (absl::ConsumeSuffix(&bandwidth, "/s")) bytes = ParseByteCount(bandwidth);
  if (!bytes.ok() || *bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::StripAsciiWhitespace(text.substr(comma + 1)),
                     "' is no bandwidth; write a link as 5us,2GB/s"));
  }
  link.bytes_per_s = static_cast<double>(*bytes);
  return link;
}

}  // namespace stringline
