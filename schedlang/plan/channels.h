// The channels of a plan in the communicator layout `edge`: one for every ordered pair of ranks
// with an edge between their stages. The k-th send of a channel meets its k-th receive, whatever
// they carry.
//
// In a plan with a window the order of a rank's stages is not known, and that of each stage is
// (ready.h): every stage has a channel for its activations, and one for its input gradients.
#pragma once

#include <array>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

struct Channel {
  RankId from;
  RankId to;
  // Twice the sending stage, and 1 for gradients, in a plan with a window. Else -1.
  int32_t of = -1;
  friend bool operator==(const Channel&, const Channel&) = default;
};

struct Channels {
  std::vector<Channel> all;        // ordered by (from, to, of)
  std::vector<int> of_activation;  // by edge: the channel of its activations; -1: of one rank
  std::vector<int> of_gradient;    // by edge: the channel of its gradients; -1: of one rank

  // In a chain, by stage and kind of message (MessageIndex): the channel, or -1.
  std::vector<std::array<int32_t, 4>> at_stage;

  // The channel of a send or a receive; -1 when its peer lives on the same rank or does not exist,
  // and for other actions.
  int Of(const Plan& plan, const Action& action) const {
    if (!IsMessage(action.kind)) return -1;
    if (at_stage.empty()) [[unlikely]]
      return OfNamedEdge(plan, action);
    return at_stage[static_cast<size_t>(action.stage.value)][MessageIndex(action.kind)];
  }
  static size_t MessageIndex(ActionKind message) {
    return static_cast<size_t>(message) - static_cast<size_t>(ActionKind::kSendForward);
  }

 private:
  int OfNamedEdge(const Plan& plan, const Action& message) const;
};

Channels ChannelsOf(const Plan& plan);

// True if `recv` receives the value that `send` sends.
inline bool Match(const Plan& plan, const Action& send, const Action& recv) {
  return CarriesActivation(send.kind) == CarriesActivation(recv.kind) &&
         recv.microbatch == send.microbatch && recv.stage == PeerStage(plan, send) &&
         (plan.graph.is_chain() || send.stage == PeerStage(plan, recv));
}

}  // namespace stringline
