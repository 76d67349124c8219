// A receiver in another process says that it is ready; the sending process answers with the bytes,
// straight out of the sender's memory into the receiver's. Ends in one process meet without a
// connection.
#include "executor/processes/wire_lanes.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

int WireLanes::NewGroup(absl::Span<const int> ranks) {
  Members& members = groups_.emplace_back();
  members.seats.assign(ranks.size(), -1);
  size_t here = 0;
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (names_->IsHere(ranks[m])) members.seats[m] = static_cast<int>(here++);
  }
  if (here > 0) members.ranks.assign(ranks.begin(), ranks.end());
  members.lanes.resize(2 * here * ranks.size());
  return static_cast<int>(groups_.size()) - 1;
}

void WireLanes::Append(Ends::Queue* queue, End end) {
  end.since_ns = NowNs();
  end.first = queue->empty();
  end.older = newest_;
  const int at = ends_.Push(queue, end);
  (newest_ < 0 ? oldest_ : ends_.at(newest_).newer) = at;
  newest_ = at;
}

// The first of the queue waits no more.
void WireLanes::Take(Ends::Queue* queue) {
  const End end = ends_.Pop(queue);
  (end.older < 0 ? oldest_ : ends_.at(end.older).newer) = end.newer;
  (end.newer < 0 ? newest_ : ends_.at(end.newer).older) = end.older;
  if (!queue->empty()) ends_.at(queue->first).first = true;
}

WireConnection& WireLanes::ConnectionOf(int group, int member) {
  WireConnection& connection = (*connections_)[names_->ProcessOf(groups_[group].ranks[member])];
  SL_CHECK(connection.opened()) << "group " << group << " was said not to talk to member "
                                << member;
  return connection;
}

absl::Status WireLanes::PostSend(int group, const Transfer& send, int waiting) {
  Lane& lane = LaneOf(group, send.from, send.to);
  Append(&lane.sends, {.transfer = send, .group = group, .sends = true, .waiting = waiting});
  if (groups_[group].seats[send.to] >= 0) return MeetHere(group, lane);
  return MeetReady(group, lane);
}

absl::Status WireLanes::PostReceive(int group, const Transfer& receive, int waiting) {
  Lane& lane = LaneOf(group, receive.from, receive.to);
  Append(&lane.receives, {.transfer = receive, .group = group, .waiting = waiting});
  if (groups_[group].seats[receive.from] >= 0) return MeetHere(group, lane);
  const Call& call = *receive.call;
  ConnectionOf(group, receive.from)
      .Put({{.kind = WireFrame::kReady,
             .call = call.kind,
             .group = group,
             .from = receive.from,
             .to = receive.to,
             .peer = call.peer,
             .bytes = call.bytes,
             .index = call.name.index,
             .shape = ShapeOfRows(call),
             .room = receive.target == nullptr ? -1 : receive.bytes}});
  return absl::OkStatus();
}

absl::Status WireLanes::MeetHere(int group, Lane& lane) {
  if (lane.sends.empty() || lane.receives.empty()) return absl::OkStatus();
  const End send = ends_.Front(lane.sends), receive = ends_.Front(lane.receives);
  const Call &sent = *send.transfer.call, &received = *receive.transfer.call;
  if (!MatchCalls(sent, received).ok()) {
    const std::vector<int>& ranks = groups_[group].ranks;
    return absl::InvalidArgumentError(absl::StrCat(
        DescribeWithAction(sent), " of ", names_->NameOfRank(ranks[send.transfer.from]), " met ",
        DescribeWithAction(received), " of ", names_->NameOfRank(ranks[send.transfer.to])));
  }
  if (!receive.transfer.Takes(send.transfer.bytes)) {
    return CountsDiffer(group, send.transfer, receive.transfer.bytes);
  }
  Take(&lane.sends);
  Take(&lane.receives);
  if (send.transfer.source != nullptr && receive.transfer.target != nullptr) {
    std::memcpy(receive.transfer.target, send.transfer.source, send.transfer.bytes);
  }
  waits_->Done(send.waiting);
  waits_->Done(receive.waiting);
  return absl::OkStatus();
}

// The bytes go when the receiver is ready; when they are written the send is done.
absl::Status WireLanes::MeetReady(int group, Lane& lane) {
  if (lane.sends.empty() || lane.ready.empty()) return absl::OkStatus();
  const End send = ends_.Front(lane.sends);
  const WireHeader ready = readies_.Front(lane.ready);
  const Transfer& of = send.transfer;
  const std::vector<int>& ranks = groups_[group].ranks;
  WireConnection& receiver = ConnectionOf(group, of.to);
  Call other = *of.call;  // as the receiver's is, but for its words
  other.kind = ready.call;
  other.peer = ready.peer;
  other.bytes = ready.bytes;
  other.name.index = ready.index;
  WireHeader header = {.group = group, .from = of.from, .to = of.to};
  if (!MatchCalls(*of.call, other).ok() || ready.shape != ShapeOfRows(*of.call)) {
    // The receiver knows the name of its own call, and tells everybody.
    header.kind = WireFrame::kDiffers;
    receiver.Put({.header = header,
                  .text = absl::StrCat(DescribeWithAction(*of.call), " of ",
                                       names_->NameOfRank(ranks[of.from]))});
    return absl::OkStatus();
  }
  const bool moves = ready.room >= 0 && of.source != nullptr;
  Transfer receive = of;
  receive.bytes = ready.room;
  if (moves && !receive.Takes(of.bytes)) return CountsDiffer(group, of, ready.room);
  Take(&lane.sends);
  (void)readies_.Pop(&lane.ready);
  NoteEnded(group, of);
  header.kind = WireFrame::kData;
  header.length = moves ? of.bytes : 0;
  receiver.Put(
      {.header = header, .bytes = static_cast<const char*>(of.source), .waiting = send.waiting});
  return absl::OkStatus();
}

void WireLanes::NoteEnded(int group, const Transfer& transfer) {
  const std::vector<int>& ranks = groups_[group].ranks;
  const int from = ranks[transfer.from], to = ranks[transfer.to];
  const bool sends = names_->IsHere(from);
  const int peer = sends ? to : from;
  ended_[names_->ProcessOf(peer)] = {sends ? from : to, peer, NowNs(), *transfer.call};
}

absl::Status WireLanes::CountsDiffer(int group, const Transfer& send, int64_t room) const {
  const Call& call = *send.call;
  const std::vector<int>& ranks = groups_[group].ranks;
  const int64_t row = std::max<int64_t>(call.bytes, 1);
  return absl::InvalidArgumentError(absl::StrCat(
      DescribeWithAction(call), ": member ", send.from, ", ", names_->NameOfRank(ranks[send.from]),
      ", sends ", send.bytes / row, " rows to member ", send.to, ", ",
      names_->NameOfRank(ranks[send.to]), ", which expects ", room / row));
}

bool WireLanes::MayCome(int process, const WireHeader& header, void** target) const {
  if (header.group < 0 || header.group >= static_cast<int>(groups_.size())) return false;
  const Members& group = groups_[header.group];
  const auto members = static_cast<int>(group.ranks.size());
  if (header.from < 0 || header.from >= members || header.to < 0 || header.to >= members) {
    return false;
  }
  const bool ready = header.kind == WireFrame::kReady;
  const int here = ready ? header.from : header.to, there = ready ? header.to : header.from;
  if (group.seats[here] < 0 || names_->ProcessOf(group.ranks[there]) != process) return false;
  if (ready) return header.length == 0;
  const Lane& lane = group.lanes[PlaceOfLane(group, header.from, header.to)];
  if (lane.receives.empty()) return false;  // no receiver was said to be ready
  if (header.kind == WireFrame::kDiffers) return true;
  const Transfer& receive = ends_.Front(lane.receives).transfer;
  *target = receive.target;
  return header.kind == WireFrame::kData &&
         (header.length == 0 || (receive.target != nullptr && receive.Takes(header.length)));
}

absl::Status WireLanes::Come(const WireHeader& header, const std::string& text) {
  Lane& lane = LaneOf(header);
  if (header.kind == WireFrame::kReady) {
    readies_.Push(&lane.ready, header);
    return MeetReady(header.group, lane);
  }
  const End receive = ends_.Front(lane.receives);
  if (header.kind == WireFrame::kDiffers) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, " met ", DescribeWithAction(*receive.transfer.call), " of ",
                     names_->NameOfRank(groups_[header.group].ranks[header.to])));
  }
  NoteEnded(header.group, receive.transfer);
  Take(&lane.receives);
  waits_->Done(receive.waiting);
  return absl::OkStatus();
}

}  // namespace stringline
