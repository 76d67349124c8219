// Messages between ranks, with NCCL's matching rules and no kinder ones.
//
// Every ordered pair of ranks that exchanges messages has a channel: a communicator of its own,
// with a stream of its own on each rank (the layout `edge`). Messages have no tags: the k-th send
// of a channel meets the k-th receive. A send is complete only when its receive is: nothing is
// buffered, and whoever comes second copies the bytes.
//
// Every message says what it is and how long it is. That plays no part in the matching; a send that
// meets a receive of something else is an error (InvalidArgument, naming both) instead of an
// activation taken for a gradient.
#pragma once

#include <cstdint>
#include <string>

#include "executor/device.h"
#include "schedlang/plan.h"

namespace stringline {

// One end of a message: what a rank sends, or where it wants to receive.
struct Message {
  bool gradient = false;  // an input gradient going back, or an activation going on
  StageId producer;       // the stage that computed it
  MicrobatchId microbatch;
  void* data = nullptr;
  int64_t bytes = 0;
  int64_t* arrived_ns = nullptr;  // where to write when the exchange ended; null: nowhere
};

// "the activation of stage 1, microbatch 0 (64 bytes)".
std::string Describe(const Message& message);

// Whether a send and a receive mean the same message; InvalidArgument names both when not.
absl::Status MatchMessages(const Message& send, const Message& recv);

// All channels of a plan; `channel` is an index into ChannelsOf(plan).all.
class Transport {
 public:
  virtual ~Transport() = default;

  // Enqueues one end of the channel's next message. All sends of a channel are on one stream, all
  // its receives on another. `message` stays alive until the exchange is over.
  virtual void Send(int channel, StreamId stream, const Message* message) = 0;
  virtual void Recv(int channel, StreamId stream, const Message* message) = 0;
};

}  // namespace stringline
