// A process that comes back sends its settings and its own address as its hello, and waits for a
// frame: its place in the larger run, a refusal, or the end of the run.
#include "executor/processes/return_door.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/processes/heal_decision.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/reach_member.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr char kPort[] = "its port";
// A run that has lost its process 0 listens again once it has healed.
constexpr int64_t kNobodyNs = 30'000 * kWorldMs;
constexpr int kLooks = 5, kLookMs = 4;  // of process 0, in a step, at a proof under way

Hello HelloAtDoor(const RunAtStart& start) {
  Hello hello;
  hello.nonce = absl::StrCat(start.identity.nonce, "/return");
  hello.process = start.identity.process;
  hello.processes = start.identity.processes;
  hello.host = HostName();
  hello.config = start.config;
  return hello;
}

}  // namespace

int RunAtStart::of_unit() const { return ProcessesOfUnit(data, identity.processes); }

ReturnDoor::~ReturnDoor() = default;

absl::Status ReturnDoor::Open() {
  if (newcomers_.has_value()) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(std::vector<int> listeners,
                      ListenOn(start_->identity.host, start_->identity.port));
  newcomers_.emplace(std::move(listeners), &start_->identity.secret);
  return absl::OkStatus();
}

void ReturnDoor::Take(Newcomers::Arrival arrival) {
  Hello& hello = arrival.hello;
  Hello own = HelloAtDoor(*start_);
  Guest guest = {{NameOf(hello), LocalAddressOf(arrival.socket.fd()), 0}, FrameSocket()};
  const auto port = std::find_if(hello.config.begin(), hello.config.end(),
                                 [](const auto& line) { return line.first == kPort; });
  absl::Status fits = CheckNonce(own, hello);
  if (fits.ok() && hello.processes != own.processes) {
    fits = absl::InvalidArgumentError(absl::StrCat(NameOf(hello), " is one of ", hello.processes,
                                                   ", but the run began with ", own.processes));
  }
  if (fits.ok() && port != hello.config.end()) {
    const std::vector<std::string> parts =
        Unpack(port->second).value_or(std::vector<std::string>());
    hello.config.erase(port);
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &guest.member.port)) {
      fits = absl::InvalidArgumentError("it tells no address");
    } else {
      guest.member.host = parts[0];
      fits = CheckConfig(own, hello);
    }
  }
  if (!fits.ok()) {
    newcomers_->SendAway(std::move(arrival.socket), FrameKind::kReject, fits.message());
    return;
  }
  guest.socket = std::move(arrival.socket);
  guests_.push_back(std::move(guest));
}

int ReturnDoor::Waiting() {
  if (!Open().ok()) return 0;
  for (int look = 0; look < kLooks; ++look) {
    absl::StatusOr<std::vector<Newcomers::Arrival>> arrivals = newcomers_->Admit();
    if (!arrivals.ok()) break;
    for (Newcomers::Arrival& arrival : *arrivals) Take(std::move(arrival));
    std::vector<pollfd> polled;
    newcomers_->AddTo(&polled);
    const bool under_way = std::any_of(polled.begin(), polled.end(), [](const pollfd& one) {
      int accepts = 0;
      socklen_t size = sizeof(accepts);
      (void)getsockopt(one.fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size);
      return accepts == 0;
    });
    if (!under_way) break;
    (void)poll(polled.data(), polled.size(), kLookMs);
  }
  const auto gone = [](Guest& guest) {
    std::string why;
    return !guest.socket.Read(kMostHelloBytes, &why);
  };
  guests_.erase(std::remove_if(guests_.begin(), guests_.end(), gone), guests_.end());
  return static_cast<int>(guests_.size());
}

std::vector<HealMember> ReturnDoor::First(int count) const {
  std::vector<HealMember> members;
  for (int i = 0; i < count; ++i) members.push_back(guests_[static_cast<size_t>(i)].member);
  return members;
}

void ReturnDoor::Admit(HealedPlace place, int count, int from) {
  for (int i = 0; i < count; ++i) {
    place.process = from + i;
    std::string why;
    FrameSocket& socket = guests_[static_cast<size_t>(i)].socket;
    socket.Put(FrameKind::kWelcome, Pack(place));
    (void)socket.Write(&why);
  }
  guests_.erase(guests_.begin(), guests_.begin() + count);
}

void ReturnDoor::Close() {
  for (Guest& guest : guests_) {
    std::string why;
    guest.socket.Put(FrameKind::kBye, "");
    (void)guest.socket.Write(&why);
  }
  guests_.clear();
  newcomers_.reset();
}

int CopiesWith(int waiting, int processes, const RunAtStart& start) {
  const int of_unit = start.of_unit(), units = start.identity.processes / of_unit;
  const int now = processes / of_unit;
  const int more = MostDividing(std::min(units, now + waiting / of_unit), units);
  return std::max(now, more) * (start.data / units);
}

absl::StatusOr<HealedPlace> Grow(const RunAtStart& start, const Healing& healing, ReturnDoor* door,
                                 const std::pair<int, int64_t>& age, World* world) {
  const int processes = healing.identity().processes;
  std::string bytes;
  HealedPlace place;
  int more = 0;
  if (IsFirst(world)) {
    const int of_unit = start.of_unit(), units = start.identity.processes / of_unit;
    place.data = CopiesWith(door->Waiting(), processes, start);
    more = place.data * units / start.data * of_unit - processes;
    place.times = healing.identity().healed + 1;
    place.nonce = absl::StrCat(healing.identity().nonce, "^");
    place.age = age;
    place.members = healing.members();
    std::vector<std::string> names;
    for (HealMember& member : door->First(more)) {
      names.push_back(member.name);
      place.members.push_back(std::move(member));
    }
    std::vector<int> copies(static_cast<size_t>(place.data));
    std::iota(copies.begin(), copies.end(), 0);
    place.told =
        absl::StrCat(more == 0 ? "those that waited to come back are gone"
                               : absl::StrCat(absl::StrJoin(names, ", "), " came back"),
                     ": ", PrintGoingOn(copies, start.data, age.second, place.members.size()));
    bytes = Pack(place);
    // A guest that finds nobody, since process 0 is lost now, leaves again.
    door->Admit(place, more, processes);
  }
  if (world != nullptr) {
    SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(bytes));
    bytes = all[0];
  }
  std::optional<HealedPlace> told = ReadHealedPlace(bytes);
  if (!told.has_value()) return absl::InternalError("process 0 decides what cannot be read");
  told->process = healing.identity().process;
  return *std::move(told);
}

absl::StatusOr<HealedPlace> KnockToReturn(const RunAtStart& start, Healing* healing) {
  const Identity& identity = start.identity;
  Hello own = HelloAtDoor(start);
  int64_t until_ns = NowNs() + kNobodyNs;
  for (; NowNs() < until_ns; (void)poll(nullptr, 0, MsUntil(NowNs() + kReachPauseNs))) {
    // The address at which the run reaches this process is the one from which it goes there.
    const Connected probe = TryConnect(identity.host, identity.port, until_ns);
    if (probe.fd < 0) continue;
    const std::string address = LocalAddressOf(probe.fd);
    (void)close(probe.fd);
    SL_RETURN_IF_ERROR(healing->Listen(address));
    own.config = start.config;
    own.config.emplace_back(kPort, Pack({address, absl::StrCat(healing->port())}));
    ReachedMember reached =
        ReachMember(identity.host, identity.port, identity.secret, own, NowNs() + kNobodyNs);
    if (!reached.socket.open()) continue;
    constexpr int64_t kForeverNs = int64_t{1} << 62;
    std::string why;
    const std::optional<Frame> frame = AwaitFrame(&reached.socket, kForeverNs, &why);
    until_ns = NowNs() + kNobodyNs;
    if (!frame.has_value()) continue;
    if (frame->kind == FrameKind::kReject) return absl::InvalidArgumentError(frame->bytes);
    if (frame->kind == FrameKind::kBye) return absl::CancelledError("the run has ended");
    std::optional<HealedPlace> place = ReadHealedPlace(frame->bytes);
    if (place.has_value()) return *std::move(place);
    return absl::InternalError("process 0 decides what cannot be read");
  }
  return absl::CancelledError(
      absl::StrCat("no run takes processes back at ", AddressText(identity.host, identity.port)));
}

}  // namespace stringline
