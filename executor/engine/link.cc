#include "executor/engine/link.h"

#include <cmath>

#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"

namespace stringline {

int64_t LinkSpeed::TransferNs(int64_t bytes) const {
  if (bytes_per_s <= 0) return latency_ns;
  return latency_ns + std::llround(static_cast<double>(bytes) / bytes_per_s * 1e9);
}

absl::StatusOr<LinkSpeed> ParseLinkSpeed(absl::string_view text) {
  const size_t comma = text.find(',');
  LinkSpeed link;
  SL_ASSIGN_OR_RETURN(link.latency_ns, ParseWithUnit(CostUnit::kTime, text.substr(0, comma)));
  if (comma == absl::string_view::npos) return link;
  SL_ASSIGN_OR_RETURN(const int64_t bandwidth,
                      ParseInUnit(CostUnit::kBandwidth, text.substr(comma + 1)));
  if (bandwidth == 0) return absl::InvalidArgumentError("the bandwidth is 0");
  link.bytes_per_s = static_cast<double>(bandwidth);
  return link;
}

}  // namespace stringline
