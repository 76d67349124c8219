// Every two members of a group have a lane with the ends that have come to it: sends and receives
// of this process, and receivers of others that are ready. What completes a message is done at once
// by the thread that brought the last end; the reading thread brings those of other processes.
#include "executor/processes/wires.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"

namespace stringline {
namespace {

constexpr int64_t kLookNs = 100'000'000;  // how often deadlines are looked at
constexpr int64_t kGoodbyeNs = 2'000'000'000;

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
  outgoing.header.mark = kMark;
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
  if (header.mark != kMark || header.length < 0) return false;
  if (header.kind == FrameKind::kBye || header.kind == FrameKind::kAsk) return header.length == 0;
  if (header.kind == FrameKind::kFail || header.kind == FrameKind::kWaits) {
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
    case FrameKind::kAsk: {
      Outgoing answer;
      answer.header.kind = FrameKind::kWaits;
      answer.text = PackWaits(OwnWaits(), kMostText);
      return Put(process, std::move(answer));
    }
    case FrameKind::kWaits: {
      peer.waits = UnpackWaits(peer.text);
      const auto is_none = [&](const RankWait& wait) {
        return wait.rank < 0 || wait.rank >= world_->ranks() || wait.peer < 0 ||
               wait.peer >= world_->ranks();
      };
      if (peer.waits && std::any_of(peer.waits->begin(), peer.waits->end(), is_none)) {
        peer.waits.reset();
      }
      return;
    }
    case FrameKind::kBye:
      peer.left = true;
      return;
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
