// The channels of a plan in the communicator layout `edge`: one for every ordered pair of ranks
// with neighbouring stages. The k-th send of a channel meets its k-th receive, whatever they carry.
#pragma once

#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

struct Channel {
  RankId from;
  RankId to;
  friend bool operator==(const Channel&, const Channel&) = default;
};

struct Channels {
  std::vector<Channel> all;        // ordered by (from, to)
  std::vector<int> of_activation;  // by sending stage: the channel of its activations; -1: none
  std::vector<int> of_gradient;    // by sending stage: the channel of its input gradients; -1: none

  // The channel of a send or a receive; -1 when its peer lives on the same rank or does not exist.
  int Of(const Plan& plan, const Action& action) const;
};

Channels ChannelsOf(const Plan& plan);

// True if `recv` receives the value that `send` sends.
bool Match(const Plan& plan, const Action& send, const Action& recv);

}  // namespace stringline
