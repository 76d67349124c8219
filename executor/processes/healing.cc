// A process first follows each lower process that lives, and leads if there is none. The decision
// travels as the welcome of a run's start, packed as texts.
#include "executor/processes/healing.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/reach_member.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kProbeNs = 200 * kWorldMs;  // between two looks at who has died
constexpr char kVersions[] = "versions";

std::vector<HeldVersion> VersionsOf(const Hello& hello) {
  for (const auto& [key, value] : hello.config) {
    if (key == kVersions) return ReadHeldVersions(value);
  }
  return {};
}

}  // namespace

Healing::~Healing() {
  for (const int listener : listeners_) (void)close(listener);
}

absl::Status Healing::Listen(const std::string& address) {
  if (!listeners_.empty()) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(listeners_, ListenOn(address, 0));
  return absl::OkStatus();
}

int Healing::port() const { return listeners_.empty() ? 0 : PortOf(listeners_.front()); }

absl::Status Healing::Introduce(World* world) {
  if (world == nullptr) return absl::OkStatus();
  const absl::Status listens = Listen(world->address());
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      world->Exchange(Pack({world->address(), absl::StrCat(port())})));
  SL_RETURN_IF_ERROR(listens);
  members_.clear();
  for (size_t p = 0; p < all.size(); ++p) {
    const auto parts = Unpack(all[p]);
    HealMember member = {world->NameOfProcess(static_cast<int>(p)), "", 0};
    if (!parts.has_value() || parts->size() != 2 || !absl::SimpleAtoi((*parts)[1], &member.port)) {
      return absl::InternalError(absl::StrCat(member.name, " tells no address"));
    }
    member.host = (*parts)[0];
    members_.push_back(std::move(member));
  }
  return absl::OkStatus();
}

Hello Healing::HelloFor(const std::string& purpose) const {
  Hello own;
  own.nonce = absl::StrCat(identity_.nonce, "/", purpose);
  own.process = identity_.process;
  own.processes = identity_.processes;
  own.host = HostName();
  return own;
}

Hello Healing::HelloOfMeeting(const Meeting& meeting) const {
  Hello own = HelloFor("heal");
  own.config = {{kVersions, Print(meeting.held)}};
  return own;
}

std::vector<int> Healing::Listeners() const {
  std::vector<int> copies;
  for (const int listener : listeners_) copies.push_back(fcntl(listener, F_DUPFD_CLOEXEC, 0));
  return copies;
}

absl::StatusOr<HealedPlace> Healing::Meet(const Meeting& meeting) {
  if (members_.empty()) {
    return absl::UnavailableError("it was lost before all processes knew each other's addresses");
  }
  const int64_t wait_ns = meeting.wait_ms * kWorldMs;
  for (int leader = 0; leader < identity_.process; ++leader) {
    Seen seen = Seen::kComes;
    absl::StatusOr<HealedPlace> place =
        Follow(leader, meeting, NowNs() + wait_ns + kWorldGraceNs, &seen);
    if (seen == Seen::kComes) return place;
  }
  return Lead(meeting, NowNs() + wait_ns);
}

void Healing::Enter(const HealedPlace& place) {
  identity_.process = place.process;
  identity_.processes = static_cast<int>(place.members.size());
  identity_.host = place.members[0].host;
  identity_.port = place.members[0].port;
  identity_.listeners.clear();
  if (place.process == 0 && identity_.processes > 1) identity_.listeners = Listeners();
  identity_.healed = place.times;
  identity_.nonce = place.nonce;
  members_ = place.members;
}

absl::StatusOr<HealedPlace> Healing::Follow(int leader, const Meeting& meeting, int64_t until_ns,
                                            Seen* seen) {
  const HealMember& member = members_[leader];
  const Hello own = HelloOfMeeting(meeting);
  *seen = Seen::kSilent;
  for (; NowNs() < until_ns; (void)poll(nullptr, 0, MsUntil(NowNs() + kReachPauseNs))) {
    ReachedMember reached = ReachMember(member.host, member.port, identity_.secret, own, until_ns);
    if (reached.refused) *seen = Seen::kRefuses;
    if (reached.refused) break;
    if (!reached.socket.open()) continue;
    std::string why;
    const std::optional<Frame> frame = AwaitFrame(&reached.socket, until_ns, &why);
    if (!frame.has_value()) continue;
    *seen = Seen::kComes;
    if (frame->kind == FrameKind::kReject) return absl::UnavailableError(frame->bytes);
    if (frame->kind == FrameKind::kFail) return ReadFail(frame->bytes);
    std::optional<HealedPlace> place = ReadHealedPlace(frame->bytes);
    if (place.has_value()) return *std::move(place);
    return absl::InternalError(absl::StrCat(member.name, " decides what cannot be read"));
  }
  return absl::UnavailableError(absl::StrCat(member.name, " does not answer"));
}

absl::StatusOr<HealedPlace> Healing::Lead(const Meeting& meeting, int64_t until_ns) {
  const size_t count = members_.size();
  FoundProcesses found = {.data = meeting.data,
                          .held = {},
                          .ended = std::vector<bool>(count),
                          .names = {},
                          .stood_still = false,
                          .returns = returns_};
  found.held.resize(count);
  std::vector<FrameSocket> sockets(count);
  found.held[identity_.process] = meeting.held;
  Newcomers newcomers(Listeners(), &identity_.secret);
  const Hello own = HelloOfMeeting(meeting);
  int64_t probe_ns = 0;
  while (NowNs() < until_ns) {
    if (NowNs() >= probe_ns) {
      bool all = true;
      for (size_t p = 0; p < count; ++p) {
        if (static_cast<int>(p) == identity_.process || found.ended[p]) continue;
        std::string why;
        if (sockets[p].open() && sockets[p].Read(kMostHelloBytes, &why)) continue;
        sockets[p].Close();
        found.held[p].reset();
        const Connected probe =
            TryConnect(members_[p].host, members_[p].port, NowNs() + 5 * kProbeNs);
        if (probe.fd >= 0) (void)close(probe.fd);
        found.ended[p] = probe.refused;
        all = all && found.ended[p];
      }
      if (all) break;
      probe_ns = NowNs() + kProbeNs;
    }
    std::vector<pollfd> polled;
    newcomers.AddTo(&polled);
    (void)poll(polled.data(), polled.size(), MsUntil(std::min(probe_ns, until_ns)));
    SL_ASSIGN_OR_RETURN(std::vector<Newcomers::Arrival> arrivals, newcomers.Admit());
    for (Newcomers::Arrival& arrival : arrivals) {
      const Hello& hello = arrival.hello;
      absl::Status fits = CheckNonce(own, hello);
      if (fits.ok()) fits = CheckPlace(own, hello);
      if (!fits.ok()) {
        newcomers.SendAway(std::move(arrival.socket), FrameKind::kReject, fits.message());
        continue;
      }
      found.held[hello.process] = VersionsOf(hello);
      sockets[hello.process] = std::move(arrival.socket);
      probe_ns = 0;
    }
  }
  found.stood_still = NowNs() - meeting.met_ns > meeting.wait_ms * kWorldMs;
  for (const HealMember& member : members_) found.names.push_back(member.name);
  return Tell(DecideHealing(found), &sockets);
}

absl::StatusOr<HealedPlace> Healing::Tell(const HealDecision& decision,
                                          std::vector<FrameSocket>* sockets) {
  const absl::Status none = absl::UnavailableError(decision.told);
  HealedPlace place;
  place.data = decision.data;
  place.times = identity_.healed + 1;
  place.nonce = absl::StrCat(identity_.nonce, "+");
  place.age = decision.age;
  place.told = decision.told;
  for (const int member : decision.members) place.members.push_back(members_[member]);
  HealedPlace mine = place;
  for (size_t i = 0; i < sockets->size(); ++i) {
    const auto p = static_cast<int>(i);
    const auto at = std::find(decision.members.begin(), decision.members.end(), p);
    const bool leaves = at == decision.members.end();
    place.process = leaves ? -1 : static_cast<int>(at - decision.members.begin());
    place.gives_to = -1;
    place.takes_from.clear();
    for (const auto& [from, to] : decision.gifts) {
      if (from == p) place.gives_to = to;
      if (to == p) place.takes_from.push_back(from);
    }
    if (p == identity_.process) mine = place;
    FrameSocket& socket = (*sockets)[i];
    if (!socket.open()) continue;
    std::string why;
    socket.Put(decision.members.empty() ? FrameKind::kFail : FrameKind::kWelcome,
               decision.members.empty() ? FailBytes(none) : Pack(place));
    (void)socket.Write(&why);
  }
  if (decision.members.empty()) return none;
  return mine;
}

}  // namespace stringline
