// How much of the all-to-alls hides under computation of the same rank, and what stands still under
// the rest. Pure: a lowered plan and its timeline with parts, simulated or measured.
//
// A rank's network time is the time in which at least one of its dispatch and combine parts runs.
// It is hidden where a part of the compute lane runs, or a computation that has no parts; the rest
// is exposed. What stands still meanwhile is what the rank computes next:
//
//   F.experts   a part of the same group: it needs what the network brings
//   next F&B    the next group, though all that it needs from other ranks is there
//   activation  the next group, which waits for an activation too (gradient, collective alike:
//               the causes of analysis.h)
//   end         nothing: the rank's last computation is over
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/timeline.h"

namespace stringline {

struct NetworkTime {
  int64_t network_ns = 0;
  int64_t exposed_ns = 0;
  // Of the exposed time, by what stands still; only what does, in a fixed order. They add up.
  std::vector<std::pair<std::string, int64_t>> still;

  int64_t hidden_ns() const { return network_ns - exposed_ns; }
};

struct NetworkTimes {
  std::vector<NetworkTime> ranks;
  NetworkTime all;
};

// `timeline.events` are those of `lowered`, in the same places. Cost: linear in actions and, up to
// a logarithm, in parts.
NetworkTimes MeasureNetwork(const Plan& lowered, const Timeline& timeline);

}  // namespace stringline
