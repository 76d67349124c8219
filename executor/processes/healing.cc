// A process first follows each lower process that lives, and leads if there is none. The decision
// travels as the welcome of a run's start, packed as texts.
#include "executor/processes/healing.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/proof.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kPauseNs = 20 * kWorldMs;   // between two tries of a connection
constexpr int64_t kProbeNs = 200 * kWorldMs;  // between two looks at who has died
constexpr char kSteps[] = "steps";
constexpr size_t kParts = 7;

// "copy 0"; "copies 0, 2".
std::string PrintCopies(const std::vector<int>& copies) {
  return absl::StrCat(copies.size() == 1 ? "copy " : "copies ", absl::StrJoin(copies, ", "));
}

std::string PackPlace(const HealedPlace& place) {
  return Pack({absl::StrCat(place.process), absl::StrCat(place.processes), absl::StrCat(place.data),
               absl::StrCat(place.step), place.told, place.host, absl::StrCat(place.port)});
}

std::optional<HealedPlace> ReadPlace(const std::string& bytes) {
  const auto parts = Unpack(bytes);
  HealedPlace place;
  if (!parts.has_value() || parts->size() != kParts ||
      !absl::SimpleAtoi((*parts)[0], &place.process) ||
      !absl::SimpleAtoi((*parts)[1], &place.processes) ||
      !absl::SimpleAtoi((*parts)[2], &place.data) || !absl::SimpleAtoi((*parts)[3], &place.step) ||
      !absl::SimpleAtoi((*parts)[6], &place.port)) {
    return std::nullopt;
  }
  place.told = (*parts)[4];
  place.host = (*parts)[5];
  return place;
}

std::vector<int64_t> StepsOf(const Hello& hello) {
  std::vector<int64_t> steps;
  for (const auto& [key, value] : hello.config) {
    if (key != kSteps) continue;
    for (const absl::string_view one : absl::StrSplit(value, ',', absl::SkipEmpty())) {
      int64_t step = 0;
      if (absl::SimpleAtoi(one, &step)) steps.push_back(step);
    }
  }
  return steps;
}

// The newest step that all of these hold; -1: none.
int64_t NewestOfAll(absl::Span<const std::optional<std::vector<int64_t>>> held,
                    const std::vector<int>& members) {
  std::map<int64_t, size_t> count;
  for (const int p : members) {
    for (const int64_t step : *held[p]) ++count[step];
  }
  int64_t newest = -1;
  for (const auto& [step, holders] : count) {
    if (holders == members.size()) newest = step;
  }
  return newest;
}

std::string PrintLostOnes(absl::Span<const std::optional<std::vector<int64_t>>> held,
                          absl::Span<const std::string> names) {
  std::vector<std::string> lost;
  for (size_t p = 0; p < held.size(); ++p) {
    if (!held[p].has_value()) lost.push_back(names[p]);
  }
  if (lost.empty()) return "the processes have lost each other";
  return absl::StrCat(absl::StrJoin(lost, " and "), lost.size() == 1 ? " was lost" : " were lost");
}

// False where some may live elsewhere and decide on their own, and the processes here are too few.
bool MayDecide(absl::Span<const std::optional<std::vector<int64_t>>> held,
               const std::vector<bool>& died) {
  size_t came = 0;
  bool certain = true;
  for (size_t p = 0; p < held.size(); ++p) {
    came += held[p].has_value() ? 1 : 0;
    certain = certain && (held[p].has_value() || died[p]);
  }
  return certain || came * 2 > held.size() || (came * 2 == held.size() && held[0].has_value());
}

}  // namespace

absl::Status CheckHealable(int data, int processes) {
  const int units = std::min(data, processes);
  if (data % units == 0 && processes % units == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("heal: ", data, " copies of the pipeline (mesh.data) are in ", processes,
                   " processes, and a process may have ranks of several; a number of processes "
                   "that ",
                   data, " divides, or that divides ", data, ", would help"));
}

HealDecision DecideHealing(int data, absl::Span<const std::optional<std::vector<int64_t>>> held,
                           const std::vector<bool>& died, absl::Span<const std::string> names) {
  const auto processes = static_cast<int>(held.size());
  const int units = std::min(data, processes);
  const int in_unit = processes / units, copies_of_unit = data / units;
  const std::string lost = PrintLostOnes(held, names);
  if (!MayDecide(held, died)) {
    return {{},
            0,
            0,
            absl::StrCat(lost,
                         ", but may live where it cannot be reached, and too few "
                         "are left here to go on without it")};
  }
  std::vector<int> whole;
  for (int u = 0; u < units; ++u) {
    const auto first = held.begin() + int64_t{u} * in_unit;
    const bool all =
        std::all_of(first, first + in_unit, [](const auto& steps) { return steps.has_value(); });
    if (all) whole.push_back(u);
  }
  if (whole.empty()) return {{}, 0, 0, absl::StrCat(lost, ": no copy of the pipeline is whole")};
  size_t go_on = whole.size();
  while (static_cast<size_t>(units) % go_on != 0) --go_on;
  HealDecision decision;
  std::vector<int> copies, leave;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int c = 0; c < copies_of_unit; ++c) {
      (i < go_on ? copies : leave).push_back(whole[i] * copies_of_unit + c);
    }
    for (int p = 0; i < go_on && p < in_unit; ++p) {
      decision.members.push_back(whole[i] * in_unit + p);
    }
  }
  decision.data = static_cast<int>(copies.size());
  decision.step = NewestOfAll(held, decision.members);
  if (decision.step < 0) {
    return {{}, 0, 0, absl::StrCat(lost, " before the others held the state of the same step")};
  }
  decision.told = absl::StrCat(
      lost, ": ", PrintCopies(copies), " of ", data, copies.size() == 1 ? " goes" : " go",
      " on from step ", decision.step, " in ", decision.members.size(),
      decision.members.size() == 1 ? " process" : " processes",
      leave.empty()
          ? ""
          : absl::StrCat("; ", PrintCopies(leave), leave.size() == 1 ? " leaves" : " leave",
                         ", since ", whole.size() * static_cast<size_t>(copies_of_unit),
                         " is no divisor of ", data));
  return decision;
}

Healing::~Healing() {
  for (const int listener : listeners_) (void)close(listener);
}

absl::Status Healing::Introduce(World* world) {
  if (world == nullptr) return absl::OkStatus();
  absl::Status opened;
  if (listeners_.empty()) {
    absl::StatusOr<std::vector<int>> listeners = ListenOn(world->address(), 0);
    opened = listeners.status();
    if (opened.ok()) listeners_ = *std::move(listeners);
  }
  const int port = opened.ok() ? PortOf(listeners_.front()) : 0;
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      world->Exchange(Pack({world->address(), absl::StrCat(port)})));
  SL_RETURN_IF_ERROR(opened);
  members_.clear();
  for (size_t p = 0; p < all.size(); ++p) {
    const auto parts = Unpack(all[p]);
    Member member = {world->NameOfProcess(static_cast<int>(p)), "", 0};
    if (!parts.has_value() || parts->size() != 2 || !absl::SimpleAtoi((*parts)[1], &member.port)) {
      return absl::InternalError(absl::StrCat(member.name, " tells no address"));
    }
    member.host = (*parts)[0];
    members_.push_back(std::move(member));
  }
  return absl::OkStatus();
}

std::string Healing::Nonce() const { return absl::StrCat(identity_.nonce, "/heal"); }

std::vector<int> Healing::Listeners() const {
  std::vector<int> copies;
  for (const int listener : listeners_) copies.push_back(fcntl(listener, F_DUPFD_CLOEXEC, 0));
  return copies;
}

absl::StatusOr<HealedPlace> Healing::Meet(const std::vector<int64_t>& held, int data,
                                          int64_t wait_ms) {
  if (members_.empty()) {
    return absl::UnavailableError("it was lost before all processes knew each other's addresses");
  }
  const int64_t wait_ns = wait_ms * kWorldMs;
  for (int leader = 0; leader < identity_.process; ++leader) {
    Seen seen = Seen::kComes;
    const int64_t until_ns = NowNs() + wait_ns + kWorldGraceNs;
    absl::StatusOr<HealedPlace> place = Follow(leader, held, until_ns, &seen);
    if (seen == Seen::kComes) return GoTo(std::move(place));
  }
  return GoTo(Lead(held, data, NowNs() + wait_ns));
}

absl::StatusOr<HealedPlace> Healing::GoTo(absl::StatusOr<HealedPlace> place) {
  if (!place.ok() || place->process < 0) return place;
  identity_.nonce = absl::StrCat(identity_.nonce, "+");
  identity_.process = place->process;
  identity_.processes = place->processes;
  identity_.host = place->host;
  identity_.port = place->port;
  identity_.listeners.clear();
  if (place->process == 0 && place->processes > 1) identity_.listeners = Listeners();
  identity_.healed = ++times_;
  return place;
}

absl::StatusOr<HealedPlace> Healing::Follow(int leader, const std::vector<int64_t>& held,
                                            int64_t until_ns, Seen* seen) {
  const Member& member = members_[leader];
  Hello own;
  own.nonce = Nonce();
  own.process = identity_.process;
  own.processes = identity_.processes;
  own.host = HostName();
  own.config = {{kSteps, absl::StrJoin(held, ",")}};
  *seen = Seen::kSilent;
  for (; NowNs() < until_ns; (void)poll(nullptr, 0, MsUntil(NowNs() + kPauseNs))) {
    const Connected connected = TryConnect(member.host, member.port, until_ns);
    if (connected.refused) *seen = Seen::kRefuses;
    if (connected.refused) break;
    if (connected.fd < 0) continue;
    Prover prover(connected.fd, &identity_.secret, {kWorldPurpose, own.process, 0});
    Prover::State state = prover.Advance();
    for (; state == Prover::State::kUnderWay && NowNs() < until_ns; state = prover.Advance()) {
      pollfd waiting = {prover.fd(), POLLIN, 0};
      (void)poll(&waiting, 1, MsUntil(until_ns));
    }
    if (state != Prover::State::kProven) continue;
    FrameSocket socket(prover.Release());
    socket.Put(FrameKind::kHello, Encode(own));
    std::string why;
    for (bool open = true; open && NowNs() < until_ns;) {
      open = socket.Write(&why) && socket.Read(kMostHelloBytes, &why);
      const std::optional<Frame> frame = socket.Take();
      if (frame.has_value()) {
        *seen = Seen::kComes;
        if (frame->kind == FrameKind::kReject) return absl::UnavailableError(frame->bytes);
        if (frame->kind == FrameKind::kFail) return ReadFail(frame->bytes);
        const std::optional<HealedPlace> place = ReadPlace(frame->bytes);
        if (place.has_value()) return *place;
        return absl::InternalError(absl::StrCat(member.name, " decides what cannot be read"));
      }
      pollfd waiting = {socket.fd(), POLLIN, 0};
      if (open) (void)poll(&waiting, 1, MsUntil(until_ns));
    }
  }
  return absl::UnavailableError(absl::StrCat(member.name, " does not answer"));
}

absl::StatusOr<HealedPlace> Healing::Lead(const std::vector<int64_t>& held, int data,
                                          int64_t until_ns) {
  const size_t count = members_.size();
  std::vector<std::optional<std::vector<int64_t>>> came(count);
  std::vector<FrameSocket> sockets(count);
  std::vector<bool> died(count);
  came[identity_.process] = held;
  Newcomers newcomers(Listeners(), &identity_.secret);
  Hello own;
  own.nonce = Nonce();
  own.process = identity_.process;
  own.processes = identity_.processes;
  own.host = HostName();
  int64_t probe_ns = 0;
  while (NowNs() < until_ns) {
    if (NowNs() >= probe_ns) {
      bool all = true;
      for (size_t p = 0; p < count; ++p) {
        if (static_cast<int>(p) == identity_.process || died[p]) continue;
        std::string why;
        if (sockets[p].open() && sockets[p].Read(kMostHelloBytes, &why)) continue;
        sockets[p].Close();
        came[p].reset();
        const Connected probe =
            TryConnect(members_[p].host, members_[p].port, NowNs() + 5 * kProbeNs);
        if (probe.fd >= 0) (void)close(probe.fd);
        died[p] = probe.refused;
        all = all && died[p];
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
      came[hello.process] = StepsOf(hello);
      sockets[hello.process] = std::move(arrival.socket);
      probe_ns = 0;
    }
  }
  std::vector<std::string> names;
  for (const Member& member : members_) names.push_back(member.name);
  const HealDecision decision = DecideHealing(data, came, died, names);
  const absl::Status none = absl::UnavailableError(decision.told);
  HealedPlace place;
  place.processes = static_cast<int>(decision.members.size());
  place.data = decision.data;
  place.step = decision.step;
  place.told = decision.told;
  if (!decision.members.empty()) {
    place.host = members_[decision.members[0]].host;
    place.port = members_[decision.members[0]].port;
  }
  HealedPlace mine = place;
  for (size_t p = 0; p < count; ++p) {
    const auto at =
        std::find(decision.members.begin(), decision.members.end(), static_cast<int>(p));
    place.process =
        at == decision.members.end() ? -1 : static_cast<int>(at - decision.members.begin());
    if (static_cast<int>(p) == identity_.process) mine = place;
    if (!sockets[p].open()) continue;
    std::string why;
    sockets[p].Put(decision.members.empty() ? FrameKind::kFail : FrameKind::kWelcome,
                   decision.members.empty() ? FailBytes(none) : PackPlace(place));
    (void)sockets[p].Write(&why);
  }
  if (decision.members.empty()) return none;
  return mine;
}

}  // namespace stringline
