// A parcel is a frame with its size and frames of pieces. Both directions of a connection move at
// once, so no order of the processes can make them wait for each other.
#include "executor/processes/member_parcels.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/reach_member.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// A move after a loss begins on new connections, since a move before it may have ended half way.
const char* PurposeOf(World* world) { return world == nullptr ? "shares" : "parcels"; }

constexpr size_t kPieceBytes = size_t{1} << 18;
constexpr int kLookMs = 50;  // between two looks at the run's state
constexpr int64_t kTryNs = 500 * kWorldMs;

absl::Status StateOfRun(World* world) {
  return world == nullptr ? absl::OkStatus() : world->state();
}

}  // namespace

bool MemberParcels::Under::done() const {
  const bool sent = out == nullptr || (told_size && put == out->size());
  return sent && (!awaits || (size >= 0 && static_cast<int64_t>(in.size()) == size));
}

// The others learn who was lost from the world, and then so does this process.
absl::Status MemberParcels::Lost(int process, const std::string& why, World* world) {
  const int64_t until_ns = NowNs() + kWorldGraceNs;
  while (world != nullptr && NowNs() < until_ns) {
    SL_RETURN_IF_ERROR(world->state());
    (void)poll(nullptr, 0, 5);
  }
  return AsLost(absl::UnavailableError(absl::StrCat("the connection for the state in memory to ",
                                                    NameOf(process), " ended: ", why)));
}

absl::Status MemberParcels::Connect(const std::map<int, Under>& others, World* world) {
  const Hello own = healing_->HelloFor(PurposeOf(world));
  if (nonce_ != own.nonce) sockets_.clear();
  nonce_ = own.nonce;
  std::vector<int> higher;
  for (const auto& [process, under] : others) {
    if (sockets_[process].open()) continue;
    if (process > own.process) {
      higher.push_back(process);
      continue;
    }
    const HealMember& member = healing_->members()[process];
    const int64_t until_ns = NowNs() + wait_ms_ * kWorldMs;
    while (!sockets_[process].open()) {
      SL_RETURN_IF_ERROR(StateOfRun(world));
      ReachedMember reached = ReachMember(member.host, member.port, healing_->identity().secret,
                                          own, std::min(until_ns, NowNs() + kTryNs));
      if (reached.refused) return Lost(process, "it has ended", world);
      if (NowNs() >= until_ns) return Lost(process, "it does not answer", world);
      sockets_[process] = std::move(reached.socket);
      if (!sockets_[process].open()) (void)poll(nullptr, 0, MsUntil(NowNs() + kReachPauseNs));
    }
  }
  return higher.empty() ? absl::OkStatus() : AwaitOthers(higher, world);
}

absl::Status MemberParcels::AwaitOthers(const std::vector<int>& higher, World* world) {
  const Hello own = healing_->HelloFor(PurposeOf(world));
  Newcomers newcomers(healing_->Listeners(), &healing_->identity().secret);
  int64_t until_ns = NowNs() + wait_ms_ * kWorldMs;
  while (true) {
    const auto missing =
        std::find_if(higher.begin(), higher.end(), [this](int p) { return !sockets_[p].open(); });
    if (missing == higher.end()) return absl::OkStatus();
    SL_RETURN_IF_ERROR(StateOfRun(world));
    if (NowNs() >= until_ns) return Lost(*missing, "it does not come", world);
    std::vector<pollfd> polled;
    newcomers.AddTo(&polled);
    (void)poll(polled.data(), polled.size(), kLookMs);
    SL_ASSIGN_OR_RETURN(std::vector<Newcomers::Arrival> arrivals, newcomers.Admit());
    for (Newcomers::Arrival& arrival : arrivals) {
      const Hello& hello = arrival.hello;
      // Others, such as one that has already noticed a loss, try again.
      if (hello.nonce != own.nonce || !CheckPlace(own, hello).ok()) continue;
      sockets_[hello.process] = std::move(arrival.socket);
      until_ns = NowNs() + wait_ms_ * kWorldMs;
    }
  }
}

absl::Status MemberParcels::Advance(int process, Under* under, bool* moved) {
  FrameSocket& socket = sockets_[process];
  std::string why;
  while (under->out != nullptr && !socket.has_unsent() &&
         (!under->told_size || under->put < under->out->size())) {
    if (!under->told_size) {
      socket.Put(FrameKind::kAll, absl::StrCat(under->out->size()));
    } else {
      const absl::string_view piece =
          absl::string_view(*under->out).substr(under->put, kPieceBytes);
      socket.Put(FrameKind::kGive, piece);
      under->put += piece.size();
    }
    under->told_size = *moved = true;
    if (!socket.Write(&why)) return absl::UnavailableError(why);
  }
  bool open = socket.Write(&why);
  // Frames of the next move may be there already: they stay until it begins.
  const bool reads = under->awaits && !under->done();
  if (reads) open = open && socket.Read(kMostHelloBytes, &why);
  while (reads && !(under->size >= 0 && static_cast<int64_t>(under->in.size()) == under->size)) {
    const std::optional<Frame> frame = socket.Take();
    if (!frame.has_value()) break;
    *moved = true;
    if (frame->kind == FrameKind::kAll && under->size < 0 &&
        absl::SimpleAtoi(frame->bytes, &under->size)) {
      continue;
    }
    if (frame->kind != FrameKind::kGive || under->size < 0) {
      return absl::UnavailableError("it sends something else than state");
    }
    under->in += frame->bytes;
  }
  return open || under->done() ? absl::OkStatus() : absl::UnavailableError(why);
}

absl::StatusOr<std::map<int, std::string>> MemberParcels::Move(const std::map<int, std::string>& to,
                                                               const std::vector<int>& from,
                                                               World* world) {
  std::map<int, Under> others;
  for (const auto& [process, bytes] : to) others[process].out = &bytes;
  for (const int process : from) others[process].awaits = true;
  SL_RETURN_IF_ERROR(Connect(others, world));
  int64_t until_ns = NowNs() + wait_ms_ * kWorldMs;
  while (true) {
    bool moved = false;
    int waits_for = -1;
    std::vector<pollfd> polled;
    for (auto& [process, under] : others) {
      const absl::Status advanced = Advance(process, &under, &moved);
      if (!advanced.ok()) return Lost(process, std::string(advanced.message()), world);
      FrameSocket& socket = sockets_[process];
      if (under.done() && !socket.has_unsent()) continue;
      waits_for = process;
      polled.push_back(
          {socket.fd(), static_cast<short>(socket.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (waits_for < 0) break;
    if (moved) {
      until_ns = NowNs() + wait_ms_ * kWorldMs;
      continue;
    }
    SL_RETURN_IF_ERROR(StateOfRun(world));
    if (NowNs() >= until_ns) return Lost(waits_for, "nothing moves", world);
    (void)poll(polled.data(), polled.size(), kLookMs);
  }
  std::map<int, std::string> came;
  for (auto& [process, under] : others) {
    if (under.awaits) came[process] = std::move(under.in);
  }
  return came;
}

}  // namespace stringline
