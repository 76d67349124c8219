// Every two members of a group have a lane with the ends that have come to it: sends and receives
// of this process, and receivers of others that are ready. What completes a message is done at once
// by the thread that brought the last end; the reading thread brings those of other processes.
#include "executor/processes/wires.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "executor/packed_numbers.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr uint32_t kWireMark = 0x31525753;  // "SWR1"
constexpr int64_t kMostText = 1 << 16;
constexpr int64_t kLookNs = 100'000'000;  // how often deadlines are looked at
constexpr int64_t kGoodbyeNs = 2'000'000'000;
constexpr int64_t kAnswerNs = 2'000'000'000;  // so long process 0 may take to say what failed

std::string Where(int process, const std::vector<std::string>& hosts) {
  return absl::StrCat("process ", process, " on ", hosts[process]);
}

absl::Status CountsDiffer(const Call& call, const Transfer& send, int64_t room) {
  const int64_t row = std::max<int64_t>(call.bytes, 1);
  return absl::InvalidArgumentError(absl::StrCat(DescribeWithAction(call), ": member ", send.from,
                                                 " sends ", send.bytes / row, " rows to member ",
                                                 send.to, ", which expects ", room / row));
}

}  // namespace

Wires::Wires(CpuDevice* device, World* world, const WireSettings& settings)
    : device_(device), world_(world), settings_(settings), peers_(world->processes()) {
  process_of_rank_.assign(world->ranks(), -1);
  for (const int rank : world->local()) process_of_rank_[rank] = world->process();
}

Wires::~Wires() {
  {
    const Lock lock(mutex_);
    if (failure_.ok()) {
      for (int p = 0; p < static_cast<int>(peers_.size()); ++p) Put(p, {{.kind = FrameKind::kBye}});
    }
    stopping_ = true;
  }
  Wake();
  for (std::thread& thread : thread_) thread.join();
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) (void)close(peer.fd);
  }
  if (wake_fd_ >= 0) (void)close(wake_fd_);
}

int Wires::NewGroup(absl::Span<const int> ranks) {
  const Lock lock(mutex_);
  Members& members = groups_.emplace_back();
  members.ranks.assign(ranks.begin(), ranks.end());
  members.lanes.resize(ranks.size() * ranks.size());
  return static_cast<int>(groups_.size()) - 1;
}

// Coming together.

absl::Status Wires::Connect() {
  if (world_->processes() == 1) return absl::OkStatus();
  if (!connected_) {
    absl::Status status = ConnectAll();
    if (status.ok()) status = StartReading();
    if (!status.ok()) {
      world_->Fail(status);
      return status;
    }
    connected_ = true;
  }
  // Nobody sends before all have made their groups.
  return world_->Exchange("").status();
}

absl::Status Wires::StartReading() {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ResourceExhaustedError(std::strerror(errno));
  return StartThreads(
      1, [this] { Loop(); }, &thread_);
}

absl::StatusOr<std::vector<Wires::Address>> Wires::ShareAddresses(int listener) {
  PackedNumbers mine;
  mine.Add(listener < 0 ? 0 : PortOf(listener));
  mine.Add(static_cast<int32_t>(world_->local().size()));
  for (const int rank : world_->local()) mine.Add(int32_t{rank});
  const std::string host = world_->address(), name = HostName();
  mine.Add(static_cast<int32_t>(host.size()));
  mine.AddAll(absl::MakeConstSpan(host));
  mine.AddAll(absl::MakeConstSpan(name));
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world_->Exchange(mine.bytes()));
  std::vector<Address> addresses(all.size());
  hosts_.resize(all.size());
  for (size_t p = 0; p < all.size(); ++p) {
    NumberReader reader(all[p]);
    addresses[p].port = reader.Take<int>();
    for (int left = reader.Take<int32_t>(); left > 0; --left) {
      process_of_rank_[reader.Take<int32_t>()] = static_cast<int>(p);
    }
    addresses[p].host.resize(reader.Take<int32_t>());
    reader.TakeAll(absl::MakeSpan(addresses[p].host));
    while (!reader.done()) hosts_[p].push_back(reader.Take<char>());
  }
  return addresses;
}

// Everybody listens; each connects to the processes before it and accepts those after it.
absl::Status Wires::ConnectAll() {
  const int64_t deadline_ns = NowNs() + settings_.join_ms * 1'000'000;
  SL_ASSIGN_OR_RETURN(const int listener, ListenOn(world_->address(), 0));
  const absl::StatusOr<std::vector<Address>> addresses = ShareAddresses(listener);
  absl::Status status = addresses.status();
  for (int p = 0; p < world_->process() && status.ok(); ++p) {
    const absl::StatusOr<int> fd =
        ConnectTo((*addresses)[p].host, (*addresses)[p].port, deadline_ns);
    if (fd.ok()) {
      peers_[p].fd = *fd;
      Header hello = {.mark = kWireMark, .from = world_->process()};
      if (send(*fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
        status = absl::UnavailableError(absl::StrCat(Where(p, hosts_), " does not listen"));
      }
    } else {
      status = absl::UnavailableError(absl::StrCat(
          Where(p, hosts_), " cannot be reached at ",
          AddressText((*addresses)[p].host, (*addresses)[p].port), ": ", fd.status().message()));
    }
  }
  if (status.ok()) status = AcceptOthers(listener, deadline_ns);
  (void)close(listener);
  return status;
}

absl::Status Wires::AcceptOthers(int listener, int64_t deadline_ns) {
  int missing = world_->processes() - 1 - world_->process();
  while (missing > 0) {
    if (NowNs() > deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat(missing, " processes did not connect to ",
                                                      Where(world_->process(), hosts_), " within ",
                                                      settings_.join_ms / 1000, " s"));
    }
    SL_RETURN_IF_ERROR(world_->state());
    pollfd waiting = {listener, POLLIN, 0};
    if (poll(&waiting, 1, 50) <= 0) continue;
    const int fd = AcceptFrom(listener);
    if (fd < 0) continue;
    Header hello;
    pollfd said = {fd, POLLIN, 0};
    const bool whole = poll(&said, 1, 2000) > 0 &&
                       recv(fd, &hello, sizeof(hello), 0) == sizeof(hello) &&
                       hello.mark == kWireMark && hello.from > world_->process() &&
                       hello.from < world_->processes() && peers_[hello.from].fd < 0;
    if (!whole) {
      (void)close(fd);  // a stranger
      continue;
    }
    peers_[hello.from].fd = fd;
    --missing;
  }
  return absl::OkStatus();
}

// Ends that come.

void Wires::Start(int group, StreamId stream, absl::Span<const Transfer> sends,
                  absl::Span<const Transfer> receives, int64_t* ended_ns) {
  const Lock lock(mutex_);
  if (!failure_.ok()) return device_->Fail(failure_);
  int waiting = 0;
  if (free_waiting_.empty()) {
    waiting = static_cast<int>(waiting_.size());
    waiting_.emplace_back();
  } else {
    waiting = free_waiting_.back();
    free_waiting_.pop_back();
  }
  // One more, so that nothing is done before everything is posted.
  waiting_[waiting] = {stream, static_cast<int>(sends.size() + receives.size()) + 1, ended_ns};
  for (const Transfer& receive : receives) PostReceive(group, receive, waiting);
  for (const Transfer& send : sends) PostSend(group, send, waiting);
  Done(waiting);
}

void Wires::PostSend(int group, const Transfer& send, int waiting) {
  Lane& lane = LaneOf(group, send.from, send.to);
  lane.sends.push_back({send, waiting, NowNs()});
  if (IsHere(groups_[group].ranks[send.to])) return MeetHere(lane);
  MeetReady(group, lane);
}

void Wires::PostReceive(int group, const Transfer& receive, int waiting) {
  Lane& lane = LaneOf(group, receive.from, receive.to);
  lane.receives.push_back({receive, waiting, NowNs()});
  const int process = process_of_rank_[groups_[group].ranks[receive.from]];
  if (process == world_->process()) return MeetHere(lane);
  const Call& call = *receive.call;
  Put(process, {{.kind = FrameKind::kReady,
                 .call = call.kind,
                 .group = group,
                 .from = receive.from,
                 .to = receive.to,
                 .peer = call.peer,
                 .bytes = call.bytes,
                 .index = call.name.index,
                 .room = receive.target == nullptr ? -1 : receive.bytes}});
}

void Wires::MeetHere(Lane& lane) {
  if (lane.sends.empty() || lane.receives.empty()) return;
  const End send = lane.sends.front(), receive = lane.receives.front();
  const absl::Status match = MatchCalls(*send.transfer.call, *receive.transfer.call);
  if (!match.ok()) return SetFailure(match);
  if (send.transfer.bytes != receive.transfer.bytes) {
    return SetFailure(CountsDiffer(*send.transfer.call, send.transfer, receive.transfer.bytes));
  }
  lane.sends.erase(lane.sends.begin());
  lane.receives.erase(lane.receives.begin());
  if (send.transfer.source != nullptr && receive.transfer.target != nullptr) {
    std::memcpy(receive.transfer.target, send.transfer.source, send.transfer.bytes);
  }
  Done(send.waiting);
  Done(receive.waiting);
}

// The bytes go when the receiver is ready; when they are written the send is done.
void Wires::MeetReady(int group, Lane& lane) {
  if (lane.sends.empty() || lane.ready.empty()) return;
  const End send = lane.sends.front();
  const Header ready = lane.ready.front();
  const Transfer& of = send.transfer;
  const int process = process_of_rank_[groups_[group].ranks[of.to]];
  Call other = *of.call;  // as the receiver's is, but for its words
  other.kind = ready.call;
  other.peer = ready.peer;
  other.bytes = ready.bytes;
  other.name.index = ready.index;
  Header header = {.group = group, .from = of.from, .to = of.to};
  if (!MatchCalls(*of.call, other).ok()) {
    // The receiver knows what it is called there, and tells everybody.
    header.kind = FrameKind::kDiffers;
    return Put(process, {.header = header, .text = DescribeWithAction(*of.call)});
  }
  const bool moves = ready.room >= 0 && of.source != nullptr;
  if (moves && ready.room != of.bytes) {
    return SetFailure(CountsDiffer(*of.call, of, ready.room));
  }
  lane.sends.erase(lane.sends.begin());
  lane.ready.erase(lane.ready.begin());
  header.kind = FrameKind::kData;
  header.length = moves ? of.bytes : 0;
  Put(process,
      {.header = header, .bytes = static_cast<const char*>(of.source), .waiting = send.waiting});
}

void Wires::Done(int waiting) {
  const Waiting& done = waiting_[waiting];
  if (--waiting_[waiting].left > 0) return;
  if (done.ended_ns != nullptr) *done.ended_ns = device_->NowNs();
  free_waiting_.push_back(waiting);
  device_->GoOn(done.stream);
}

// Frames.

void Wires::Put(int process, Outgoing outgoing) {
  Peer& peer = peers_[process];
  if (peer.fd < 0 || peer.left) return;
  outgoing.header.mark = kWireMark;
  if (!outgoing.text.empty()) outgoing.header.length = static_cast<int64_t>(outgoing.text.size());
  peer.outgoing.push_back(std::move(outgoing));
  if (peer.outgoing.size() > 1) return;
  Write(process);
  if (!peer.outgoing.empty()) Wake();  // whoever reads writes the rest
}

void Wires::Write(int process) {
  Peer& peer = peers_[process];
  while (peer.fd >= 0 && !peer.outgoing.empty()) {
    Outgoing& first = peer.outgoing.front();
    const char* const bytes = first.text.empty() ? first.bytes : first.text.data();
    constexpr int64_t kHeader = sizeof(Header);
    const int64_t of_header = std::min(peer.written, kHeader);
    const int64_t of_bytes = peer.written - of_header;
    iovec pieces[2] = {
        {reinterpret_cast<char*>(&first.header) + of_header,
         static_cast<size_t>(kHeader - of_header)},
        {const_cast<char*>(bytes) + of_bytes, static_cast<size_t>(first.header.length - of_bytes)}};
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(peer.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      return Lost(process, std::strerror(errno));
    }
    peer.written += sent;
    if (peer.written < kHeader + first.header.length) continue;
    const int waiting = first.waiting;
    peer.outgoing.pop_front();
    peer.written = 0;
    if (waiting >= 0) Done(waiting);
  }
}

// Everything that is there.
void Wires::Read(int process) {
  Peer& peer = peers_[process];
  constexpr int64_t kHeader = sizeof(Header);
  while (peer.fd >= 0 && failure_.ok()) {
    const bool in_header = peer.read < kHeader;
    char* const to = in_header ? reinterpret_cast<char*>(&peer.header) + peer.read
                               : peer.target + (peer.read - kHeader);
    const int64_t most = in_header ? kHeader - peer.read : kHeader + peer.header.length - peer.read;
    const ssize_t got = recv(peer.fd, to, static_cast<size_t>(most), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0)
      return Lost(process, got == 0 ? "the connection was closed" : std::strerror(errno));
    peer.read += got;
    if (peer.read == kHeader && !BeginFrame(&peer)) {
      return Lost(process, "it sent something else than a message");
    }
    if (peer.read >= kHeader && peer.read == kHeader + peer.header.length) {
      EndFrame(process);
      peer.read = 0;
    }
  }
}

bool Wires::BeginFrame(Peer* peer) {
  const Header& header = peer->header;
  if (header.mark != kWireMark || header.length < 0) return false;
  if (header.kind == FrameKind::kBye) return header.length == 0;
  if (header.kind == FrameKind::kFail) {
    if (header.length > kMostText) return false;
    peer->text.resize(static_cast<size_t>(header.length));
    peer->target = peer->text.data();
    return true;
  }
  if (header.group < 0 || header.group >= static_cast<int>(groups_.size())) return false;
  const auto members = static_cast<int>(groups_[header.group].ranks.size());
  if (header.from < 0 || header.from >= members || header.to < 0 || header.to >= members) {
    return false;
  }
  if (header.kind == FrameKind::kReady) return header.length == 0;
  const Lane& lane = LaneOf(header.group, header.from, header.to);
  if (lane.receives.empty()) return false;  // nobody was said to be ready
  if (header.kind == FrameKind::kDiffers) {
    if (header.length > kMostText) return false;
    peer->text.resize(static_cast<size_t>(header.length));
    peer->target = peer->text.data();
    return true;
  }
  const Transfer& receive = lane.receives.front().transfer;
  peer->target = static_cast<char*>(receive.target);
  return header.kind == FrameKind::kData &&
         (header.length == 0 || (receive.target != nullptr && header.length == receive.bytes));
}

void Wires::EndFrame(int process) {
  Peer& peer = peers_[process];
  const Header& header = peer.header;
  switch (header.kind) {
    case FrameKind::kReady: {
      Lane& lane = LaneOf(header.group, header.from, header.to);
      lane.ready.push_back(header);
      return MeetReady(header.group, lane);
    }
    case FrameKind::kData: {
      Lane& lane = LaneOf(header.group, header.from, header.to);
      const int waiting = lane.receives.front().waiting;
      lane.receives.erase(lane.receives.begin());
      return Done(waiting);
    }
    case FrameKind::kDiffers: {
      const Call& own =
          *LaneOf(header.group, header.from, header.to).receives.front().transfer.call;
      return SetFailure(
          absl::InvalidArgumentError(absl::StrCat(peer.text, " met ", DescribeWithAction(own))));
    }
    case FrameKind::kFail:
      return SetFailure(absl::Status(static_cast<absl::StatusCode>(header.index), peer.text),
                        process);
    case FrameKind::kBye:
      peer.left = true;
      return;
  }
}

// Failure.

void Wires::Lost(int process, const std::string& why) {
  Peer& peer = peers_[process];
  (void)close(peer.fd);
  peer.fd = -1;
  peer.outgoing.clear();
  if (peer.left || stopping_) {
    if (AwaitedFrom(process).empty()) return;
    return SetFailure(absl::UnavailableError(
        absl::StrCat(Where(process, hosts_), " has ended its run", AwaitedFrom(process))));
  }
  SetFailure(absl::UnavailableError(absl::StrCat(
      Where(process, hosts_), " died, or ended without a word: ", why, AwaitedFrom(process))));
}

// "; a receive of … waited for it", or "".
std::string Wires::AwaitedFrom(int process) const {
  for (const Members& group : groups_) {
    const size_t n = group.ranks.size();
    for (size_t i = 0; i < group.lanes.size(); ++i) {
      const auto waits = [&](const absl::InlinedVector<End, 1>& ends, size_t other) {
        return !ends.empty() && process_of_rank_[group.ranks[other]] == process;
      };
      const Lane& lane = group.lanes[i];
      const End* const end = waits(lane.receives, i / n) ? &lane.receives.front()
                             : waits(lane.sends, i % n)  ? &lane.sends.front()
                                                         : nullptr;
      if (end != nullptr) {
        return absl::StrCat("; ", DescribeWithAction(*end->transfer.call), " waited for it");
      }
    }
  }
  return "";
}

void Wires::Fail(const absl::Status& status) {
  const Lock lock(mutex_);
  SetFailure(status);
}

// Failures may be noticed in several places at once. Process 0 says which one it is: the first that
// it has noticed or was told of.
void Wires::SetFailure(absl::Status status, int told_by) {
  if (!failure_.ok()) return;
  const bool settled = world_->process() == 0 || told_by == 0 || peers_[0].fd < 0;
  if (!settled) {
    if (!noticed_.ok()) return;
    noticed_ = std::move(status);
    noticed_ns_ = NowNs();
    return Tell(0, noticed_);
  }
  failure_ = noticed_.ok() || told_by == 0 ? std::move(status) : noticed_;
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
    if (world_->process() == 0 || peers_[0].fd < 0) Tell(p, failure_);
  }
  device_->Fail(failure_);
}

void Wires::Tell(int process, const absl::Status& status) {
  Outgoing fail;
  fail.header.kind = FrameKind::kFail;
  fail.header.index = static_cast<int64_t>(status.code());
  fail.text = std::string(status.message().substr(0, kMostText));
  Put(process, std::move(fail));
}

void Wires::CheckDeadline() {
  if (!failure_.ok()) return;
  if (!noticed_.ok() && NowNs() > noticed_ns_ + kAnswerNs) {
    (void)close(peers_[0].fd);  // it does not answer
    peers_[0].fd = -1;
    return SetFailure(noticed_);
  }
  if (settings_.wait_ms == 0 || !noticed_.ok()) return;
  const int64_t before_ns = NowNs() - settings_.wait_ms * 1'000'000;
  for (const Members& group : groups_) {
    const size_t n = group.ranks.size();
    for (size_t i = 0; i < group.lanes.size(); ++i) {
      const Lane& lane = group.lanes[i];
      for (const auto* const ends : {&lane.receives, &lane.sends}) {
        if (ends->empty() || ends->front().since_ns > before_ns) continue;
        const Transfer& of = ends->front().transfer;
        const int own = group.ranks[ends == &lane.sends ? i / n : i % n];
        const int other = group.ranks[ends == &lane.sends ? i % n : i / n];
        return SetFailure(absl::DeadlineExceededError(absl::StrCat(
            "rank ", own, " on ", hosts_[world_->process()], " waited ",
            static_cast<double>(settings_.wait_ms) / 1000, " s in ", DescribeWithAction(*of.call),
            " for rank ", other, " on ", hosts_[process_of_rank_[other]])));
      }
    }
  }
}

// The thread.

void Wires::Wake() {
  const uint64_t one = 1;
  if (wake_fd_ >= 0) (void)!write(wake_fd_, &one, sizeof(one));
}

void Wires::Loop() {
  std::vector<pollfd> waiting(peers_.size() + 1);
  int64_t goodbye_ns = 0;
  for (;;) {
    {
      const Lock lock(mutex_);
      bool unsent = false;
      for (size_t p = 0; p < peers_.size(); ++p) {
        const Peer& peer = peers_[p];
        unsent = unsent || (peer.fd >= 0 && !peer.outgoing.empty());
        waiting[p] = {peer.fd, static_cast<short>(POLLIN | (peer.outgoing.empty() ? 0 : POLLOUT)),
                      0};
      }
      if (stopping_) {
        if (goodbye_ns == 0) goodbye_ns = NowNs() + kGoodbyeNs;
        if (!unsent || NowNs() > goodbye_ns) return;
      }
    }
    waiting.back() = {wake_fd_, POLLIN, 0};
    (void)poll(waiting.data(), waiting.size(), kLookNs / 1'000'000);
    uint64_t woken = 0;
    if (waiting.back().revents != 0) (void)!read(wake_fd_, &woken, sizeof(woken));
    const Lock lock(mutex_);
    for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
      if ((waiting[p].revents & POLLOUT) != 0) Write(p);
      if ((waiting[p].revents & (POLLIN | POLLHUP | POLLERR)) != 0) Read(p);
    }
    CheckDeadline();
  }
}

}  // namespace stringline
