// How fast messages travel: a message of n bytes takes latency + n / bandwidth from the moment when
// both of its ends are there.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct LinkSpeed {
  int64_t latency_ns = 0;
  double bytes_per_s = 0;  // 0: no limit

  // Rounded to nanoseconds.
  int64_t TransferNs(int64_t bytes) const;
};

// How long messages take, by the stage that computed what they carry.
struct MessageTimes {
  std::vector<int64_t> activation_ns;
  std::vector<int64_t> gradient_ns;
};

// "5us,2GB/s", or the latency alone, in the units of costs (cost_keys.h). InvalidArgument quotes
// what is not understood.
absl::StatusOr<LinkSpeed> ParseLinkSpeed(absl::string_view text);

}  // namespace stringline
