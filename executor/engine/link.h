// The speed of messages: a message of n bytes takes latency + n / bandwidth from the moment when
// both of its ends have been reached.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct LinkSpeed {
  int64_t latency_ns = 0;
  double bytes_per_s = 0;  // 0: no limit

  // Rounded to nanoseconds.
  int64_t TransferNs(int64_t bytes) const;
};

// Parses "5us,2GB/s", or the latency alone, in the units of costs (cost_keys.h). InvalidArgument
// quotes the text that is not understood.
absl::StatusOr<LinkSpeed> ParseLinkSpeed(absl::string_view text);

}  // namespace stringline
