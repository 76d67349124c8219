#include "executor/processes/reach_member.h"

#include <poll.h>

#include <algorithm>

#include "executor/processes/newcomers.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"

namespace stringline {

Prover::State AwaitProof(Prover* prover, int64_t until_ns) {
  Prover::State state = prover->Advance();
  for (; state == Prover::State::kUnderWay && NowNs() < until_ns; state = prover->Advance()) {
    pollfd waiting = {prover->fd(), POLLIN, 0};
    (void)poll(&waiting, 1, MsUntil(until_ns));
  }
  return state;
}

ReachedMember ReachMember(const std::string& host, int port, const Secret& secret,
                          const Hello& hello, int64_t until_ns) {
  ReachedMember reached;
  const Connected connected = TryConnect(host, port, until_ns);
  reached.refused = connected.refused;
  if (connected.fd < 0) return reached;
  Prover prover(connected.fd, &secret, {kWorldPurpose, hello.process, 0});
  if (AwaitProof(&prover, until_ns) != Prover::State::kProven) return reached;
  reached.socket = FrameSocket(prover.Release());
  reached.socket.Put(FrameKind::kHello, Encode(hello));
  return reached;
}

std::optional<Frame> AwaitFrame(FrameSocket* socket, int64_t until_ns, std::string* why) {
  for (bool open = socket->open(); open && NowNs() < until_ns;) {
    open = socket->Write(why) && socket->Read(kMostHelloBytes, why);
    std::optional<Frame> frame = socket->Take();
    if (frame.has_value()) return frame;
    const bool unsent = socket->has_unsent();
    pollfd waiting = {socket->fd(), static_cast<short>(unsent ? POLLIN | POLLOUT : POLLIN), 0};
    if (open) (void)poll(&waiting, 1, MsUntil(until_ns));
  }
  return std::nullopt;
}

}  // namespace stringline
