// Channels between ranks that are streams of one CPU device: the second of a send and a receive to
// arrive copies the bytes.
#pragma once

#include <vector>

#include "executor/channel.h"
#include "executor/cpu/device.h"

namespace stringline {

class ThreadTransport final : public Transport {
 public:
  // `device` runs the streams of all ranks and outlives the transport.
  ThreadTransport(CpuDevice* device, int channels);

  void Send(int channel, StreamId stream, const Message* message) override;
  void Recv(int channel, StreamId stream, const Message* message) override;

 private:
  CpuDevice* device_;
  std::vector<MeetingPlace> places_;  // side 0 sends, side 1 receives
};

}  // namespace stringline
