// The share of the communication inside stages (all-to-alls, and collectives of tensor-parallel
// ranks) under computation of the same rank, and the idle parties under the rest. Pure: a lowered
// plan and its timeline with parts, simulated or measured.
//
// A rank's network time is the time in which at least one of its dispatch and combine parts runs.
// An all-to-all begins when its last member comes, and a timeline holds only the times when its
// rank came and when it ended. So the shortest time of each part of a stage counts as its transfer,
// and the excess of a longer one, at its beginning, as waiting for a partner. Simulated
// ones are all transfer.
//
// Transfer is hidden while a part of the compute lane runs, or a computation without parts. All
// network time beside computation is exposed. The idle party meanwhile:
//
//   partner     waiting: the network is idle, too
//   F.experts   a part of the same group: it needs the network's value
//   next F&B    the next group, though all its needs from other ranks are met
//   activation  the next group, which waits for an activation too (gradient, collective alike:
//               the causes of analysis.h)
//   end         nothing: the rank's last computation is over
//
// Exposed transfer that leaves the next group waiting, or a part of its own group, could have been
// hidden by another group: the next one of the rank, from when all that it needs from other ranks
// is there, unless it needs a value of the group on the network. That time counts as `ready`, by
// the kinds of that group.
//
// Groups in parts (of two and more actions, or of one whose microbatch is in chunks) save the sum
// of their parts' times, each as long as the shortest of its stage, less what the groups took.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// Network time, of a rank or a step, or the sum of several.
struct NetworkSums {
  int64_t network_ns = 0;
  int64_t waiting_ns = 0;  // the share of network_ns that waits, no transfer
  int64_t hidden_ns = 0;   // transfer under computation
  int64_t exposed_ns = 0;  // network time under no computation

  int64_t transfer_ns() const { return network_ns - waiting_ns; }
  double hidden_share() const;  // of the transfer; 0 without any
  void Add(const NetworkSums& other);
  NetworkSums PerStep(size_t steps) const;  // the mean; zeros of no steps
};

struct NetworkTime : NetworkSums {
  // The exposed time by idle party, without zeros, in a fixed order. The entries add up.
  std::vector<std::pair<std::string, int64_t>> still;
  // The exposed time in which another group was ready, by its kinds ("F&B"), without zeros.
  std::vector<std::pair<std::string, int64_t>> ready;
  int64_t saved_ns = 0;  // by groups; below 0 where they took longer
  int groups = 0;        // with known parts
  int pairs = 0;         // of two actions, among them
};

struct NetworkTimes {
  std::vector<NetworkTime> ranks;
  NetworkTime all;
};

// `timeline.events` are those of `lowered`, in the same places. Cost: linear in actions and, up to
// a logarithm, in parts.
NetworkTimes MeasureNetwork(const Plan& lowered, const Timeline& timeline, const Wiring& wiring);
// The same with links made for it.
NetworkTimes MeasureNetwork(const Plan& lowered, const Timeline& timeline);

}  // namespace stringline
