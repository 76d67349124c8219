// Channels between ranks that are streams of one CPU device: the second of a send and a receive to
// arrive copies the bytes. Where messages take time (link.h), they are copied when that has passed
// since both were there, and both streams are held until then.
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
  // The same, but messages take time.
  ThreadTransport(CpuDevice* device, int channels, MessageTimes times);
  ThreadTransport(const ThreadTransport&) = delete;  // the places point to it
  ThreadTransport& operator=(const ThreadTransport&) = delete;

  void Send(int channel, StreamId stream, const Message* message) override;
  void Recv(int channel, StreamId stream, const Message* message) override;

 private:
  static absl::Status Exchange(const void* self, const void* end0, const void* end1);
  static int64_t OnTheWay(const void* self, const void* end0, const void* end1);

  CpuDevice* device_;
  const MessageTimes times_;
  std::vector<MeetingPlace> places_;  // side 0 sends, side 1 receives
};

}  // namespace stringline
