// Channels between ranks that are streams of one CPU device: the second of a send and a receive to
// arrive copies the bytes. With a link (link.h) they are copied when the message has arrived, and
// both streams are held until then.
#pragma once

#include <vector>

#include "executor/channel.h"
#include "executor/cpu/device.h"
#include "executor/link.h"

namespace stringline {

class ThreadTransport final : public Transport {
 public:
  // `device` runs the streams of all ranks and outlives the transport.
  ThreadTransport(CpuDevice* device, int channels);
  // The same, but every channel is a link of its own.
  ThreadTransport(CpuDevice* device, int channels, const LinkSpeed& link);
  ThreadTransport(const ThreadTransport&) = delete;  // the places point to link_
  ThreadTransport& operator=(const ThreadTransport&) = delete;

  void Send(int channel, StreamId stream, const Message* message) override;
  void Recv(int channel, StreamId stream, const Message* message) override;

 private:
  CpuDevice* device_;
  const LinkSpeed link_;
  std::vector<MeetingPlace> places_;  // side 0 sends, side 1 receives
};

}  // namespace stringline
