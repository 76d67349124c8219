#include "executor/processes/newcomers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "schedlang/base/status.h"

namespace stringline {

Newcomers::Newcomers(std::vector<int> listeners, const Secret* secret)
    : gate_(std::move(listeners), secret, {kWorldPurpose, 0, 0}) {}

void Newcomers::AddTo(std::vector<pollfd>* polled) const {
  for (const Newcomer& newcomer : newcomers_) {
    const short events = newcomer.socket.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    polled->push_back({newcomer.socket.fd(), events, 0});
  }
  gate_.AddTo(polled);
}

absl::StatusOr<std::vector<Newcomers::Arrival>> Newcomers::Admit() {
  SL_ASSIGN_OR_RETURN(const std::vector<Gate::Guest> guests, gate_.Admit());
  for (const Gate::Guest& guest : guests) newcomers_.push_back({guest.from, FrameSocket(guest.fd)});
  std::vector<Arrival> arrivals;
  for (Newcomer& newcomer : newcomers_) Read(&newcomer, &arrivals);
  const auto done = [](const Newcomer& newcomer) { return newcomer.done; };
  newcomers_.erase(std::remove_if(newcomers_.begin(), newcomers_.end(), done), newcomers_.end());
  return arrivals;
}

void Newcomers::Read(Newcomer* newcomer, std::vector<Arrival>* arrivals) {
  std::string why;
  const bool open = newcomer->socket.Read(kMostHelloBytes, &why);
  std::optional<Frame> frame;
  if (!newcomer->told) frame = newcomer->socket.Take();
  if (!frame.has_value()) {
    newcomer->done = !open || !newcomer->socket.Write(&why);
    return;
  }
  newcomer->done = true;
  if (frame->kind != FrameKind::kHello) return;
  std::optional<Hello> hello = DecodeHello(frame->bytes);
  if (!hello.has_value()) return;
  // The number of a process of another protocol was not read.
  if (hello->protocol == Hello::kProtocol && hello->process != newcomer->process) return;
  arrivals->push_back({*std::move(hello), std::move(newcomer->socket)});
}

void Newcomers::SendAway(FrameSocket socket, FrameKind kind, absl::string_view bytes) {
  std::string why;
  socket.Put(kind, bytes);
  if (!socket.Write(&why)) return;
  newcomers_.push_back({0, std::move(socket), /*told=*/true});
}

}  // namespace stringline
