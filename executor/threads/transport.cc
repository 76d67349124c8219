#include "executor/threads/transport.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

std::string DescribeWait(int side, const void* end) {
  return absl::StrCat(side == 0 ? "somebody to receive " : "somebody to send ",
                      Describe(*static_cast<const Message*>(end)));
}

}  // namespace

absl::Status ThreadTransport::Exchange(const void* self, const void* end0, const void* end1) {
  const auto& send = *static_cast<const Message*>(end0);
  const auto& recv = *static_cast<const Message*>(end1);
  SL_RETURN_IF_ERROR(MatchMessages(send, recv));
  if (send.bytes > 0 && send.data != nullptr) std::memcpy(recv.data, send.data, send.bytes);
  if (send.arrived_ns != nullptr || recv.arrived_ns != nullptr) {
    const int64_t now_ns = static_cast<const ThreadTransport*>(self)->device_->NowNs();
    if (send.arrived_ns != nullptr) *send.arrived_ns = now_ns;
    if (recv.arrived_ns != nullptr) *recv.arrived_ns = now_ns;
  }
  return absl::OkStatus();
}

int64_t ThreadTransport::OnTheWay(const void* self, const void* end0, const void* /*end1*/) {
  const MessageTimes& times = static_cast<const ThreadTransport*>(self)->times_;
  const auto& sent = *static_cast<const Message*>(end0);
  return (sent.gradient ? times.gradient_ns : times.activation_ns)[sent.producer.value];
}

ThreadTransport::ThreadTransport(CpuDevice* device, int channels)
    : device_(device), places_(channels, MeetingPlace{Exchange, DescribeWait, nullptr, this}) {}

ThreadTransport::ThreadTransport(CpuDevice* device, int channels, MessageTimes times)
    : device_(device),
      times_(std::move(times)),
      places_(channels, MeetingPlace{Exchange, DescribeWait, OnTheWay, this}) {}

void ThreadTransport::Send(int channel, StreamId stream, const Message* message) {
  device_->Meet(stream, &places_[channel], 0, message);
}

void ThreadTransport::Recv(int channel, StreamId stream, const Message* message) {
  device_->Meet(stream, &places_[channel], 1, message);
}

}  // namespace stringline
