// Two halves: the start, in which process 0 gathers the processes, the others reach it, and the
// tree is connected; and the words from then on. All sockets are non-blocking; a wait costs what is
// ready, and not what is open.
#include "executor/processes/tcp_world.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/open_files.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kFlushNs = 1'000 * kWorldMs;
constexpr int64_t kMostWaitNs = 1'000 * kWorldMs;

std::string DescribeRefused(int64_t refused, const Secret& secret) {
  if (refused == 0) return "";
  return absl::StrCat("; ", refused, refused == 1 ? " connection" : " connections",
                      " did not prove ", secret.Describe(),
                      ", which has to be the same for all processes of a run");
}

}  // namespace

TcpWorld::TcpWorld(const TcpWorldSettings& settings)
    : TreeWorld({settings.identity.process, settings.identity.processes, settings.ranks,
                 settings.fan_out, settings.identity.host},
                settings.exchange_ms),
      settings_(settings),
      peers_(static_cast<size_t>(settings.identity.processes)) {
  own_.nonce = settings.identity.nonce;
  own_.process = settings.identity.process;
  own_.processes = settings.identity.processes;
  own_.host = HostName();
  own_.config = settings.config;
  own_.trouble = std::string(settings.trouble.message());
  std::sort(own_.config.begin(), own_.config.end());
  SetHost(own_.process, own_.host);
}

TcpWorld::~TcpWorld() {
  if (failure().ok()) {
    for (int p = 0; p < own_.processes; ++p) Send(p, FrameKind::kBye, Goodbye());
  }
  Flush();
}

absl::StatusOr<std::unique_ptr<World>> TcpWorld::Join(const TcpWorldSettings& settings) {
  SL_RETURN_IF_ERROR(settings.identity.no_address);
  SL_RETURN_IF_ERROR(CheckSecret(settings.identity));
  if (settings.identity.processes == 1) return std::unique_ptr<World>(new TcpWorld(settings));
  TcpWorldSettings able = settings;
  const int most = settings.identity.process == 0
                       ? settings.identity.processes
                       : std::min(settings.fan_out + 2, settings.identity.processes - 1);
  able.trouble.Update(RaiseOpenFiles(most, absl::StrCat("connections to the processes of a run of ",
                                                        settings.identity.processes)));
  return JoinOthers(able);
}

absl::StatusOr<std::unique_ptr<World>> TcpWorld::JoinOthers(const TcpWorldSettings& settings) {
  std::unique_ptr<TcpWorld> world(new TcpWorld(settings));
  absl::Status status = world->poll_.Open();
  if (status.ok() && settings.identity.process == 0) {
    status = world->Gather();
    world->start_.reset();
  } else if (status.ok()) {
    FrameSocket to_first;
    status = ReachFirst(settings, world->own_, &to_first, &world->first_address_);
    world->Open(0, std::move(to_first));
  }
  if (absl::IsDeadlineExceeded(status)) status = AsLost(status);
  if (!status.ok()) {
    world->SetFailure(status);
    return settings.trouble.ok() ? status : settings.trouble;
  }
  SL_RETURN_IF_ERROR(settings.trouble);
  SL_RETURN_IF_ERROR(world->MeetFirst());
  return std::unique_ptr<World>(std::move(world));
}

std::string TcpWorld::address() const {
  if (own_.process == 0) return first_address_;
  // A connection over the loopback: on the host of process 0.
  std::string own = LocalAddressOf(peers_[0].socket.fd());
  return IsLoopback(own) ? first_address_ : own;
}

// Process 0.

absl::Status TcpWorld::Gather() {
  const Identity& identity = settings_.identity;
  std::vector<int> listeners = identity.listeners;
  if (listeners.empty()) {
    SL_ASSIGN_OR_RETURN(listeners, ListenOn(identity.host, identity.port));
  }
  start_.emplace(std::move(listeners), &identity.secret);
  NoteTrouble(own_);
  SL_RETURN_IF_ERROR(AcceptAll(NowNs() + settings_.join_ms * kWorldMs));
  std::sort(start_->hellos.begin(), start_->hellos.end(),
            [](const Hello& a, const Hello& b) { return a.process < b.process; });
  for (const Hello& hello : start_->hellos) SL_RETURN_IF_ERROR(CheckConfig(own_, hello));
  first_address_ = OwnAddressInPeers();
  for (int p = 1; p < own_.processes; ++p) Send(p, FrameKind::kWelcome, first_address_);
  return failure();
}

absl::Status TcpWorld::AcceptAll(int64_t deadline_ns) {
  while (failure().ok()) {
    const bool all = start_->joined == own_.processes;
    if (!start_->trouble.ok()) {
      deadline_ns = std::min(deadline_ns, start_->trouble_ns + settings_.tell_ms * kWorldMs);
      if (all || NowNs() >= deadline_ns) return start_->trouble;
    }
    if (all) return absl::OkStatus();
    if (NowNs() >= deadline_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat(Missing(), " of ", own_.processes, " did not come to process 0 on ",
                       own_.host, " within ", SecondsOf(settings_.join_ms),
                       DescribeRefused(start_->newcomers.refused(), settings_.identity.secret)));
    }
    Look(deadline_ns - NowNs());
    SL_RETURN_IF_ERROR(Admit());
  }
  return failure();
}

absl::Status TcpWorld::Admit() {
  SL_ASSIGN_OR_RETURN(std::vector<Newcomers::Arrival> arrivals, start_->newcomers.Admit());
  for (Newcomers::Arrival& arrival : arrivals) Place(std::move(arrival));
  return absl::OkStatus();
}

void TcpWorld::Place(Newcomers::Arrival arrival) {
  const Hello& hello = arrival.hello;
  absl::Status status = CheckNonce(own_, hello);
  if (!status.ok()) {
    return start_->newcomers.SendAway(std::move(arrival.socket), FrameKind::kReject,
                                      status.message());
  }
  status = CheckPlace(own_, hello);
  if (status.ok() && peers_[hello.process].socket.open()) {
    const auto first =
        std::find_if(start_->hellos.begin(), start_->hellos.end(),
                     [&](const Hello& other) { return other.process == hello.process; });
    status = absl::InvalidArgumentError(absl::StrCat("two processes say that they are process ",
                                                     hello.process, ": on ", first->host,
                                                     " and on ", hello.host));
  }
  if (!status.ok()) {
    start_->newcomers.SendAway(std::move(arrival.socket), FrameKind::kFail, FailBytes(status));
    return SetFailure(status);
  }
  SetHost(hello.process, hello.host);
  ++start_->joined;
  NoteTrouble(hello);
  Open(hello.process, std::move(arrival.socket));
  start_->hellos.push_back(std::move(arrival.hello));
}

// The first known trouble is told.
void TcpWorld::NoteTrouble(const Hello& of) {
  if (of.trouble.empty() || !start_->trouble.ok()) return;
  start_->trouble = absl::AbortedError(absl::StrCat(NameOf(of), ": ", of.trouble));
  start_->trouble_ns = NowNs();
}

std::string TcpWorld::Missing() const {
  std::string missing;
  int count = 0;
  for (size_t p = 1; p < peers_.size(); ++p) {
    if (peers_[p].socket.open()) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", p);
    ++count;
  }
  return absl::StrCat(count == 1 ? "process " : "processes ", missing);
}

// The end of the first connection from another host, or of any if all are on this host.
std::string TcpWorld::OwnAddressInPeers() const {
  std::string own;
  for (size_t p = 1; p < peers_.size() && (own.empty() || IsLoopback(own)); ++p) {
    own = LocalAddressOf(peers_[p].socket.fd());
  }
  return own;
}

// All.

absl::Status TcpWorld::MeetFirst() {
  // The first meeting is part of the start: a short deadline does not hold yet.
  SetWaitMs(std::max(settings_.exchange_ms, settings_.tell_ms));
  if (!first()) {
    links_.emplace(&settings_.identity, place());
    const auto listens = links_->Listen(address());
    if (!listens.ok()) Fail(listens.status());
    SL_RETURN_IF_ERROR(listens.status());
    if (listens->has_value()) Send(0, FrameKind::kListens, **listens);
    TakeFrames(0);  // those that came with the welcome
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, Exchange(own_.host));
  for (size_t p = 0; p < hosts.size(); ++p) SetHost(static_cast<int>(p), hosts[p]);
  links_.reset();
  SetWaitMs(settings_.exchange_ms);
  return absl::OkStatus();
}

void TcpWorld::HandOnPlace(int of, const std::string& told) {
  for (const ProcessBlock& child : PlaceInTree(of, own_.processes, settings_.fan_out).children) {
    Send(child.first, FrameKind::kParent, told);
  }
}

// Bytes that the socket does not take now go out in the next waits.
void TcpWorld::Send(int process, FrameKind kind, absl::string_view bytes) {
  FrameSocket& socket = peers_[process].socket;
  if (!socket.open()) return;
  const bool queued = socket.has_unsent();
  socket.Put(kind, bytes);
  if (queued) return;
  std::string why;  // of a connection that has ended: the next read tells
  (void)socket.Write(&why);
  if (!socket.has_unsent()) return;
  unsent_.push_back(process);
  Watch(process);
}

void TcpWorld::Open(int process, FrameSocket socket) {
  peers_[process].socket = std::move(socket);
  Watch(process);
}

void TcpWorld::Watch(int process) {
  Peer& peer = peers_[process];
  if (!peer.socket.open()) return;
  const uint32_t events = peer.socket.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  poll_.Watch(peer.socket.fd(), process, std::exchange(peer.watched, events), events);
}

absl::Span<const WirePoll::Ready> TcpWorld::Wait(int64_t most_ns) {
  const int64_t wait_ns = std::clamp<int64_t>(most_ns, 0, kMostWaitNs);
  const int64_t whole_ms = (wait_ns + kWorldMs - 1) / kWorldMs;
  if (!start_.has_value() && !links_.has_value()) return poll_.Wait(whole_ms * kWorldMs);
  std::vector<pollfd> polled = {{poll_.fd(), POLLIN, 0}};
  int64_t until_ns = NowNs() + wait_ns;
  if (start_.has_value()) start_->newcomers.AddTo(&polled);
  if (links_.has_value()) {
    links_->AddTo(&polled);
    until_ns = std::min(until_ns, links_->again_ns().value_or(until_ns));
  }
  (void)poll(polled.data(), polled.size(), MsUntil(until_ns));
  return poll_.Wait(0);
}

void TcpWorld::Look(int64_t most_ns) {
  for (const auto [process, events] : Wait(most_ns)) Service(process, events);
  if (links_.has_value()) AdvanceLinks();
}

void TcpWorld::AdvanceLinks() {
  const absl::StatusOr<std::vector<TreeLinks::Made>> made = links_->Advance();
  if (!made.ok()) return SetFailure(made.status());
  for (const auto [process, fd] : *made) Open(process, FrameSocket(fd));
}

void TcpWorld::Service(int process, uint32_t events) {
  Peer& peer = peers_[process];
  if (!peer.socket.open()) return;
  std::string why;
  bool open = true;
  if ((events & EPOLLOUT) != 0) {
    open = peer.socket.Write(&why);
    if (!peer.socket.has_unsent()) {
      unsent_.erase(std::remove(unsent_.begin(), unsent_.end(), process), unsent_.end());
      Watch(process);
    }
  }
  // Its last frames are handled first.
  std::string read_why;
  if (!peer.socket.Read(kMostFrameBytes, &read_why)) {
    if (open) why = read_why;
    open = false;
  }
  TakeFrames(process);
  if (open) return;
  unsent_.erase(std::remove(unsent_.begin(), unsent_.end(), process), unsent_.end());
  poll_.Watch(peer.socket.fd(), process, std::exchange(peer.watched, 0), 0);
  peer.socket.Close();
  Lost(process, why);
}

void TcpWorld::TakeFrames(int process) {
  FrameSocket& socket = peers_[process].socket;
  for (auto frame = socket.Take(); frame.has_value(); frame = socket.Take()) {
    if (frame->kind == FrameKind::kListens && first()) {
      HandOnPlace(process, frame->bytes);
    } else if (frame->kind == FrameKind::kParent && process == 0 && links_.has_value()) {
      const absl::Status found = links_->FindParent(frame->bytes);
      if (!found.ok()) SetFailure(found);
    } else {
      Handle(process, frame->kind, std::move(frame->bytes));
    }
  }
}

// Not for long: a peer that does not read now will not read later.
void TcpWorld::Flush() {
  const int64_t deadline_ns = NowNs() + kFlushNs;
  while (!unsent_.empty() && NowNs() < deadline_ns) Look(deadline_ns - NowNs());
}

}  // namespace stringline
