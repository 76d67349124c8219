// Two halves: the start, in which process 0 gathers the processes and the others reach it, and the
// exchanges from then on. All sockets are non-blocking; every wait is a poll with a deadline.
#include "executor/processes/tcp_world.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/lost_process.h"
#include "executor/engine/packed_numbers.h"
#include "executor/processes/open_files.h"
#include "executor/processes/rank_blocks.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kFlushNs = 1'000 * kWorldMs;

// The processes that have not joined; "": none.
std::string Missing(const std::vector<WorldPeer>& peers) {
  std::string missing;
  int count = 0;
  for (size_t p = 1; p < peers.size(); ++p) {
    if (peers[p].socket.open()) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", p);
    ++count;
  }
  return count == 0 ? "" : absl::StrCat(count == 1 ? "process " : "processes ", missing);
}

// The first difference from what the others gave as their hellos.
absl::Status Compare(const Hello& own, const std::vector<WorldPeer>& peers) {
  for (const WorldPeer& peer : peers) {
    if (!peer.gave.has_value()) continue;
    const std::optional<Hello> hello = DecodeHello(*peer.gave);
    SL_RETURN_IF_ERROR(CheckConfig(own, *hello));
  }
  return absl::OkStatus();
}

bool AllGave(const std::vector<WorldPeer>& peers) {
  return std::all_of(peers.begin(), peers.end(),
                     [](const WorldPeer& peer) { return peer.gave.has_value(); });
}

// The end of the first connection from another host, or of any if all are on this host.
std::string OwnAddressIn(const std::vector<WorldPeer>& peers) {
  std::string own;
  for (size_t p = 1; p < peers.size() && (own.empty() || IsLoopback(own)); ++p) {
    own = LocalAddressOf(peers[p].socket.fd());
  }
  return own;
}

std::string DescribeRefused(int64_t refused, const Secret& secret) {
  if (refused == 0) return "";
  return absl::StrCat("; ", refused, refused == 1 ? " connection" : " connections",
                      " did not prove ", secret.Describe(),
                      ", which has to be the same for all processes of a run");
}

std::vector<std::string> TakeParts(std::vector<WorldPeer>* peers) {
  std::vector<std::string> parts;
  for (WorldPeer& peer : *peers) {
    parts.push_back(*std::move(peer.gave));
    peer.gave.reset();
  }
  return parts;
}

}  // namespace

TcpWorld::TcpWorld(const TcpWorldSettings& settings)
    : settings_(settings),
      ranks_(settings.ranks > 0 ? settings.ranks : settings.identity.processes) {
  const int process = settings.identity.process, processes = settings.identity.processes;
  local_ = RanksOf(process, ranks_, processes);
  own_.nonce = settings.identity.nonce;
  own_.process = settings.identity.process;
  own_.processes = settings.identity.processes;
  own_.host = HostName();
  own_.config = settings.config;
  own_.trouble = std::string(settings.trouble.message());
  std::sort(own_.config.begin(), own_.config.end());
  hosts_.resize(own_.processes);
  hosts_[own_.process] = own_.host;
  peers_.resize(own_.processes);
}

TcpWorld::~TcpWorld() {
  if (failure_.ok()) {
    for (WorldPeer& peer : peers_) peer.socket.Put(FrameKind::kBye, "");
  }
  Flush();
}

absl::StatusOr<std::unique_ptr<World>> TcpWorld::Join(const TcpWorldSettings& settings) {
  SL_RETURN_IF_ERROR(settings.identity.no_address);
  SL_RETURN_IF_ERROR(CheckSecret(settings.identity));
  if (settings.identity.processes == 1) return std::unique_ptr<World>(new TcpWorld(settings));
  TcpWorldSettings able = settings;
  able.trouble.Update(RaiseOpenFiles(
      settings.identity.process == 0 ? settings.identity.processes : 1,
      absl::StrCat("connections to the processes of a run of ", settings.identity.processes)));
  return JoinOthers(able);
}

absl::StatusOr<std::unique_ptr<World>> TcpWorld::JoinOthers(const TcpWorldSettings& settings) {
  std::unique_ptr<TcpWorld> world(new TcpWorld(settings));
  ReachedFirst first;
  absl::Status status = settings.identity.process == 0
                            ? world->Gather()
                            : ReachFirst(settings, world->own_, &world->peers_[0].socket, &first);
  if (absl::IsDeadlineExceeded(status)) status = AsLost(status);
  if (!status.ok()) {
    world->SetFailure(status);
    return settings.trouble.ok() ? status : settings.trouble;
  }
  if (settings.identity.process != 0) {
    world->hosts_ = std::move(first.hosts);
    world->first_address_ = std::move(first.address);
  }
  SL_RETURN_IF_ERROR(settings.trouble);
  return std::unique_ptr<World>(std::move(world));
}

std::string TcpWorld::address() const {
  if (own_.process == 0) return first_address_;
  // A connection over the loopback: on the host of process 0.
  std::string own = LocalAddressOf(peers_[0].socket.fd());
  return IsLoopback(own) ? first_address_ : own;
}

std::string TcpWorld::NameOfRank(int rank) const {
  return absl::StrCat("rank ", rank, " on ", hosts_[ProcessOf(rank, ranks_, own_.processes)]);
}

// Process 0.

absl::Status TcpWorld::Gather() {
  const Identity& identity = settings_.identity;
  std::vector<int> listeners = identity.listeners;
  if (listeners.empty()) {
    SL_ASSIGN_OR_RETURN(listeners, ListenOn(identity.host, identity.port));
  }
  NoteTrouble(own_);
  {
    Newcomers newcomers(std::move(listeners), &identity.secret);
    SL_RETURN_IF_ERROR(AcceptAll(&newcomers, NowNs() + settings_.join_ms * kWorldMs));
  }
  SL_RETURN_IF_ERROR(Compare(own_, peers_));
  first_address_ = OwnAddressIn(peers_);
  std::vector<std::string> told = hosts_;
  told.push_back(first_address_);
  const std::string welcome = Pack(told);
  for (WorldPeer& peer : peers_) {
    peer.gave.reset();
    peer.socket.Put(FrameKind::kWelcome, welcome);
  }
  Flush();
  return failure_;
}

absl::Status TcpWorld::AcceptAll(Newcomers* newcomers, int64_t deadline_ns) {
  while (failure_.ok()) {
    const std::string missing = Missing(peers_);
    if (!trouble_.ok()) {
      deadline_ns = std::min(deadline_ns, trouble_ns_ + settings_.tell_ms * kWorldMs);
      if (missing.empty() || NowNs() >= deadline_ns) return trouble_;
    }
    if (missing.empty()) return absl::OkStatus();
    if (NowNs() >= deadline_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat(missing, " of ", own_.processes, " did not come to process 0 on ", own_.host,
                       " within ", SecondsOf(settings_.join_ms),
                       DescribeRefused(newcomers->refused(), settings_.identity.secret)));
    }
    SL_RETURN_IF_ERROR(WaitForNews(newcomers, deadline_ns));
  }
  return failure_;
}

absl::Status TcpWorld::WaitForNews(Newcomers* newcomers, int64_t deadline_ns) {
  std::vector<pollfd> polled;
  for (const WorldPeer& peer : peers_) polled.push_back({peer.socket.fd(), POLLIN, 0});
  newcomers->AddTo(&polled);
  if (poll(polled.data(), polled.size(), MsUntil(deadline_ns)) < 0) return absl::OkStatus();
  for (int p = 1; p < own_.processes; ++p) {
    if (polled[p].revents != 0) Service(p, polled[p].revents);
  }
  SL_ASSIGN_OR_RETURN(std::vector<Newcomers::Arrival> arrivals, newcomers->Admit());
  for (Newcomers::Arrival& arrival : arrivals) Place(std::move(arrival), newcomers);
  return absl::OkStatus();
}

void TcpWorld::Place(Newcomers::Arrival arrival, Newcomers* newcomers) {
  const Hello& hello = arrival.hello;
  absl::Status status = CheckNonce(own_, hello);
  if (!status.ok()) {
    return newcomers->SendAway(std::move(arrival.socket), FrameKind::kReject, status.message());
  }
  status = CheckPlace(own_, hello);
  if (status.ok() && peers_[hello.process].socket.open()) {
    status = absl::InvalidArgumentError(absl::StrCat("two processes say that they are process ",
                                                     hello.process, ": on ", hosts_[hello.process],
                                                     " and on ", hello.host));
  }
  if (!status.ok()) {
    newcomers->SendAway(std::move(arrival.socket), FrameKind::kFail, FailBytes(status));
    return SetFailure(status);
  }
  hosts_[hello.process] = hello.host;
  WorldPeer& peer = peers_[hello.process];
  peer.socket = std::move(arrival.socket);
  peer.gave = Encode(hello);  // kept until all have joined
  NoteTrouble(hello);
}

// The first known trouble is told.
void TcpWorld::NoteTrouble(const Hello& of) {
  if (of.trouble.empty() || !trouble_.ok()) return;
  trouble_ = absl::AbortedError(absl::StrCat(NameOf(of), ": ", of.trouble));
  trouble_ns_ = NowNs();
}

// All.

absl::StatusOr<std::vector<std::string>> TcpWorld::Exchange(absl::string_view mine) {
  return ExchangeParts(mine, /*to_all=*/true);
}

absl::StatusOr<std::vector<std::string>> TcpWorld::GiveToFirst(absl::string_view mine) {
  return ExchangeParts(mine, /*to_all=*/false);
}

absl::StatusOr<std::vector<std::string>> TcpWorld::ExchangeParts(absl::string_view mine,
                                                                 bool to_all) {
  if (own_.processes == 1) return std::vector<std::string>{std::string(mine)};
  SL_RETURN_IF_ERROR(Meet(mine));
  const auto count = static_cast<size_t>(own_.processes);
  if (own_.process == 0) {
    std::vector<std::string> parts = TakeParts(&peers_);
    Answer(to_all ? Pack(parts) : "");
    return parts;
  }
  const std::string answer = *std::exchange(all_, std::nullopt);
  if (!to_all && answer.empty()) return std::vector<std::string>(count);
  auto all = Unpack(answer);
  if (!to_all || !all.has_value() || all->size() != count) return Unreadable();
  return *std::move(all);
}

// Process 0 adds up; the answer has the size of one part.
absl::Status TcpWorld::Sum(absl::Span<uint64_t> numbers) {
  if (own_.processes == 1) return absl::OkStatus();
  PackedNumbers mine;
  mine.AddAll<uint64_t>(numbers);
  SL_RETURN_IF_ERROR(Meet(mine.bytes()));
  if (own_.process != 0) {
    const std::string answer = *std::exchange(all_, std::nullopt);
    if (answer.size() != mine.bytes().size()) return Unreadable();
    NumberReader(answer).TakeAll(numbers);
    return absl::OkStatus();
  }
  std::fill(numbers.begin(), numbers.end(), 0);
  for (const std::string& part : TakeParts(&peers_)) {
    if (part.size() != mine.bytes().size()) return Unreadable();
    NumberReader theirs(part);
    for (uint64_t& number : numbers) number += theirs.Take<uint64_t>();
  }
  PackedNumbers sums;
  sums.AddAll<uint64_t>(numbers);
  Answer(sums.bytes());
  return absl::OkStatus();
}

absl::Status TcpWorld::Meet(absl::string_view mine) {
  SL_RETURN_IF_ERROR(failure_);
  const bool first = own_.process == 0;
  WaitAnew();
  if (first) {
    peers_[0].gave = std::string(mine);
  } else {
    peers_[0].socket.Put(FrameKind::kGive, mine);
  }
  exchanging_ = true;
  while (failure_.ok() && !(first ? AllGave(peers_) : all_.has_value())) {
    CheckAwaited();
    if (failure_.ok()) Pump(times_.waiting_until_ns - NowNs());
  }
  exchanging_ = false;
  // Parts that came before a failure came to all.
  if (first || !all_.has_value()) SL_RETURN_IF_ERROR(failure_);
  return absl::OkStatus();
}

// Checks that the awaited processes can still come.
void TcpWorld::CheckAwaited() {
  std::vector<int> late;
  for (int p = 0; p < (own_.process == 0 ? own_.processes : 1); ++p) {
    if (peers_[p].gave.has_value()) continue;
    if (peers_[p].left) {
      return SetFailure(AsLost(absl::UnavailableError(
          absl::StrCat(NameOfPeer(p), " has ended its run, and the others go on"))));
    }
    late.push_back(p);
  }
  if (NowNs() < times_.waiting_until_ns) return;
  late_ = std::move(late);
  const auto name = [this](std::string* text, int p) { text->append(NameOfPeer(p)); };
  SetFailure(AsLost(absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(late_, ", ", name),
                                                             " did not come within ",
                                                             SecondsOf(settings_.exchange_ms)))));
}

// Bytes that the sockets do not take now go out with the next wait of this process.
void TcpWorld::Answer(absl::string_view bytes) {
  std::string why;  // of a connection that has ended: the next read tells
  for (WorldPeer& peer : peers_) {
    peer.socket.Put(FrameKind::kAll, bytes);
    (void)peer.socket.Write(&why);
  }
  Pump(0);
}

absl::Status TcpWorld::Unreadable() {
  SetFailure(absl::InternalError("what all gave cannot be read"));
  return failure_;
}

absl::Status TcpWorld::state() {
  Pump(0);
  return failure_;
}

void TcpWorld::Fail(const absl::Status& status) {
  if (!failure_.ok() || own_.processes == 1) return;
  SetFailure(ToldBy(NameOfPeer(own_.process), status));
  Pump(0);
}

void TcpWorld::Working() {
  const int64_t pause_ns = std::min(kTellWorkNs, settings_.exchange_ms * kWorldMs / 4);
  if (own_.processes == 1 || NowNs() < times_.told_working_ns + pause_ns) return;
  times_.told_working_ns = NowNs();
  for (WorldPeer& peer : peers_) peer.socket.Put(FrameKind::kWaiting, "");
  Pump(0);
}

bool TcpWorld::FirstAnswers(int64_t most_ms) {
  if (own_.process == 0) return true;
  const int64_t asked_ns = NowNs(), until_ns = asked_ns + most_ms * kWorldMs;
  peers_[0].socket.Put(FrameKind::kWaiting, "");
  while (failure_.ok() && times_.first_heard_ns < asked_ns && NowNs() < until_ns) {
    Pump(until_ns - NowNs());
  }
  return !failure_.ok() || times_.first_heard_ns >= asked_ns;
}

void TcpWorld::WaitAnew() {
  const bool first = own_.process == 0;
  times_.waiting_until_ns =
      NowNs() + settings_.exchange_ms * kWorldMs + (first ? 0 : kWorldGraceNs);
  for (WorldPeer& peer : peers_) {
    if (first && peer.gave.has_value()) peer.socket.Put(FrameKind::kWaiting, "");
  }
}

void TcpWorld::SetFailure(absl::Status status, int except) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  const std::string bytes = FailBytes(failure_, late_);
  for (int p = 0; p < own_.processes; ++p) {
    if (p != except) peers_[p].socket.Put(FrameKind::kFail, bytes);
  }
}

void TcpWorld::Pump(int64_t wait_ns) {
  std::vector<pollfd> polled;
  std::vector<int> of;
  for (int p = 0; p < own_.processes; ++p) {
    const FrameSocket& socket = peers_[p].socket;
    if (!socket.open()) continue;
    polled.push_back({socket.fd(), POLLIN, 0});
    if (socket.has_unsent()) polled.back().events |= POLLOUT;
    of.push_back(p);
  }
  const int wait_ms = wait_ns <= 0 ? 0 : MsUntil(NowNs() + wait_ns);
  if (poll(polled.data(), polled.size(), wait_ms) <= 0) return;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) Service(of[i], polled[i].revents);
  }
  for (WorldPeer& peer : peers_) {  // frames queued by the handlers
    std::string why;
    if (peer.socket.has_unsent()) (void)peer.socket.Write(&why);
  }
}

void TcpWorld::Service(int peer, short events) {
  FrameSocket& socket = peers_[peer].socket;
  std::string why;
  bool open = true;
  if ((events & POLLOUT) != 0) open = socket.Write(&why);
  // Its last frames are handled first.
  std::string read_why;
  if (!socket.Read(kMostFrameBytes, &read_why)) {
    if (open) why = read_why;
    open = false;
  }
  for (auto frame = socket.Take(); frame.has_value(); frame = socket.Take()) {
    Handle(peer, *std::move(frame));
  }
  if (!open) Lost(peer, why);
}

void TcpWorld::Handle(int peer, Frame frame) {
  const bool first = own_.process == 0;
  if (peer == 0) times_.first_heard_ns = NowNs();
  if (frame.kind == FrameKind::kGive && first && !peers_[peer].gave.has_value()) {
    peers_[peer].gave = std::move(frame.bytes);
    if (exchanging_) peers_[peer].socket.Put(FrameKind::kWaiting, "");
  } else if (frame.kind == FrameKind::kAll && !first && exchanging_ && !all_.has_value()) {
    all_ = std::move(frame.bytes);
  } else if (frame.kind == FrameKind::kWaiting) {
    if (exchanging_) WaitAnew();
    if (first) peers_[peer].socket.Put(FrameKind::kWaiting, "");
  } else if (frame.kind == FrameKind::kFail) {
    SetFailure(AsTold(ReadFail(frame.bytes, failure_.ok() ? &late_ : nullptr)), peer);
  } else if (frame.kind == FrameKind::kBye) {
    peers_[peer].left = true;
  } else {
    SetFailure(absl::InternalError(absl::StrCat(NameOfPeer(peer), " says what it should not now")));
  }
}

void TcpWorld::Lost(int peer, const std::string& why) {
  WorldPeer& lost = peers_[peer];
  lost.socket.Close();
  if (lost.left || !failure_.ok()) return;
  SetFailure(AsLost(absl::UnavailableError(
      absl::StrCat(NameOfPeer(peer), " died, or ended without a word: ", why))));
}

// Not for long: a peer that does not read now will not read later.
void TcpWorld::Flush() {
  const auto unsent = [](const WorldPeer& peer) { return peer.socket.has_unsent(); };
  const int64_t deadline_ns = NowNs() + kFlushNs;
  while (std::any_of(peers_.begin(), peers_.end(), unsent) && NowNs() < deadline_ns) {
    Pump(deadline_ns - NowNs());
  }
}

std::string TcpWorld::NameOfPeer(int peer) const {
  const std::string host = hosts_[peer].empty() ? settings_.identity.host : hosts_[peer];
  return NameOfBlock(peer, host, ranks_, own_.processes);
}

}  // namespace stringline
