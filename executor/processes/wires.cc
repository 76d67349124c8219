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
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"

namespace stringline {
namespace {

constexpr int64_t kLookNs = 100'000'000;  // how often deadlines are looked at
constexpr int64_t kGoodbyeNs = 2'000'000'000;

absl::Status StatusOf(int64_t code, const std::string& text) {
  const bool known = code > 0 && code <= static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
                      text);
}

}  // namespace

Wires::Wires(CpuDevice* device, World* world, const WireSettings& settings)
    : device_(device), world_(world), settings_(settings), peers_(world->processes()) {
  ended_.resize(peers_.size(), {.rank = -1});
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

void Wires::Start(int group, const Onward& onward, absl::Span<const Transfer> sends,
                  absl::Span<const Transfer> receives) {
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
  waiting_[waiting] = {onward, static_cast<int>(sends.size() + receives.size()) + 1};
  for (const Transfer& receive : receives) PostReceive(group, receive, waiting);
  for (const Transfer& send : sends) PostSend(group, send, waiting);
  Done(waiting);
}

void Wires::PostSend(int group, const Transfer& send, int waiting) {
  Lane& lane = LaneOf(group, send.from, send.to);
  lane.sends.push_back({send, waiting, NowNs()});
  if (IsHere(groups_[group].ranks[send.to])) return MeetHere(group, lane);
  MeetReady(group, lane);
}

void Wires::PostReceive(int group, const Transfer& receive, int waiting) {
  Lane& lane = LaneOf(group, receive.from, receive.to);
  lane.receives.push_back({receive, waiting, NowNs()});
  const int process = process_of_rank_[groups_[group].ranks[receive.from]];
  if (process == world_->process()) return MeetHere(group, lane);
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

void Wires::MeetHere(int group, Lane& lane) {
  if (lane.sends.empty() || lane.receives.empty()) return;
  const End send = lane.sends.front(), receive = lane.receives.front();
  const Call &sent = *send.transfer.call, &received = *receive.transfer.call;
  if (!MatchCalls(sent, received).ok()) {
    const std::vector<int>& ranks = groups_[group].ranks;
    return Notice({absl::InvalidArgumentError(absl::StrCat(
        DescribeWithAction(sent), " of ", NameOfRank(ranks[send.transfer.from]), " met ",
        DescribeWithAction(received), " of ", NameOfRank(ranks[send.transfer.to])))});
  }
  if (send.transfer.bytes != receive.transfer.bytes) {
    return Notice({CountsDiffer(group, send.transfer, receive.transfer.bytes)});
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
    const std::string own = NameOfRank(groups_[group].ranks[of.from]);
    return Put(process,
               {.header = header, .text = absl::StrCat(DescribeWithAction(*of.call), " of ", own)});
  }
  const bool moves = ready.room >= 0 && of.source != nullptr;
  if (moves && ready.room != of.bytes) {
    return Notice({CountsDiffer(group, of, ready.room)});
  }
  lane.sends.erase(lane.sends.begin());
  lane.ready.erase(lane.ready.begin());
  NoteEnded(group, of);
  header.kind = FrameKind::kData;
  header.length = moves ? of.bytes : 0;
  Put(process,
      {.header = header, .bytes = static_cast<const char*>(of.source), .waiting = send.waiting});
}

void Wires::Done(int waiting) {
  Waiting& done = waiting_[waiting];
  if (--done.left > 0) return;
  if (done.onward.held_ns == 0) return GoOn(waiting);
  holds_.push_back({NowNs() + done.onward.held_ns, waiting});
  std::push_heap(holds_.begin(), holds_.end(), std::greater<>());
  Wake();
}

void Wires::GoOn(int waiting) {
  const Onward& onward = waiting_[waiting].onward;
  if (onward.ended_ns != nullptr) NoteNs(onward.ended_ns, device_->NowNs());
  free_waiting_.push_back(waiting);
  device_->GoOn(onward.stream);
}

int64_t Wires::EndHolds() {
  while (!holds_.empty() && holds_.front().due_ns <= NowNs()) {
    std::pop_heap(holds_.begin(), holds_.end(), std::greater<>());
    const int waiting = holds_.back().waiting;
    holds_.pop_back();
    GoOn(waiting);
  }
  return holds_.empty() ? 0 : holds_.front().due_ns;
}

void Wires::NoteEnded(int group, const Transfer& transfer) {
  const std::vector<int>& ranks = groups_[group].ranks;
  const bool sends = IsHere(ranks[transfer.from]);
  const int from = ranks[transfer.from], to = ranks[transfer.to];
  const int peer = sends ? to : from;
  ended_[process_of_rank_[peer]] = {sends ? from : to, peer, NowNs(), *transfer.call};
}

absl::Status Wires::CountsDiffer(int group, const Transfer& send, int64_t room) const {
  const Call& call = *send.call;
  const std::vector<int>& ranks = groups_[group].ranks;
  const int64_t row = std::max<int64_t>(call.bytes, 1);
  return absl::InvalidArgumentError(
      absl::StrCat(DescribeWithAction(call), ": member ", send.from, ", ",
                   NameOfRank(ranks[send.from]), ", sends ", send.bytes / row, " rows to member ",
                   send.to, ", ", NameOfRank(ranks[send.to]), ", which expects ", room / row));
}

// Frames.

void Wires::Put(int process, Outgoing outgoing) {
  Peer& peer = peers_[process];
  if (peer.fd < 0 || peer.left || peer.deaf) return;
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
      // What it wrote before it went is read first.
      peer.deaf = true;
      peer.outgoing.clear();
      return Wake();
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
  const bool is_text = header.kind == FrameKind::kFail || header.kind == FrameKind::kNoticed ||
                       header.kind == FrameKind::kAnswer;
  if (is_text) {
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
      NoteEnded(header.group, lane.receives.front().transfer);
      lane.receives.erase(lane.receives.begin());
      return Done(waiting);
    }
    case FrameKind::kDiffers: {
      const Call& own =
          *LaneOf(header.group, header.from, header.to).receives.front().transfer.call;
      const std::string name = NameOfRank(groups_[header.group].ranks[header.to]);
      return Notice({absl::InvalidArgumentError(
          absl::StrCat(peer.text, " met ", DescribeWithAction(own), " of ", name))});
    }
    case FrameKind::kNoticed:
      // Whoever says so takes those before this process for lost.
      for (int p = 0; p < world_->process(); ++p) peers_[p].silent = true;
      return Notice({StatusOf(header.index, peer.text), header.peer,
                     header.to < 0 ? std::vector<int>() : std::vector<int>{header.to}});
    case FrameKind::kFail:
      return Settle(StatusOf(header.index, peer.text));
    case FrameKind::kAsk: {
      Outgoing answer;
      answer.header.kind = FrameKind::kAnswer;
      answer.text = PackAnswer(OwnAnswer(), kMostText);
      return Put(process, std::move(answer));
    }
    case FrameKind::kAnswer:
      peer.answer = UnpackAnswer(peer.text, world_->ranks());
      return;
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
    int64_t due_ns = 0;
    {
      const Lock lock(mutex_);
      due_ns = EndHolds();
      bool unsent = false;
      for (size_t p = 0; p < peers_.size(); ++p) {
        const Peer& peer = peers_[p];
        const bool writes = peer.fd >= 0 && !peer.outgoing.empty();
        unsent = unsent || writes;
        // After a failure nothing is read any more.
        const bool reads = failure_.ok();
        waiting[p] = {reads || writes ? peer.fd : -1,
                      static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0};
      }
      if (stopping_) {
        if (goodbye_ns == 0) goodbye_ns = NowNs() + kGoodbyeNs;
        if (!unsent || NowNs() > goodbye_ns) return;
      }
    }
    waiting.back() = {wake_fd_, POLLIN, 0};
    const int64_t sleep_ns =
        due_ns == 0 ? kLookNs : std::clamp<int64_t>(due_ns - NowNs(), 0, kLookNs);
    const timespec longest = {0, sleep_ns};
    (void)ppoll(waiting.data(), waiting.size(), &longest, nullptr);
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
