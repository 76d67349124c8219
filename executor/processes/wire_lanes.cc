// A receiver in another process says that it is ready; the sending process answers with the bytes,
// straight out of the sender's memory into the receiver's. Ends in one process meet without a
// connection.
#include "executor/processes/wire_lanes.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"

namespace stringline {

int WireLanes::NewGroup(absl::Span<const int> ranks) {
  Members& members = groups_.emplace_back();
  members.ranks.assign(ranks.begin(), ranks.end());
  members.lanes.resize(ranks.size() * ranks.size());
  return static_cast<int>(groups_.size()) - 1;
}

absl::Status WireLanes::PostSend(int group, const Transfer& send, int waiting) {
  Lane& lane = LaneOf(group, send.from, send.to);
  lane.sends.push_back({send, waiting, NowNs()});
  if (names_->IsHere(groups_[group].ranks[send.to])) return MeetHere(group, lane);
  return MeetReady(group, lane);
}

absl::Status WireLanes::PostReceive(int group, const Transfer& receive, int waiting) {
  Lane& lane = LaneOf(group, receive.from, receive.to);
  lane.receives.push_back({receive, waiting, NowNs()});
  const int process = names_->ProcessOf(groups_[group].ranks[receive.from]);
  if (process == names_->own()) return MeetHere(group, lane);
  const Call& call = *receive.call;
  (*connections_)[process].Put({{.kind = WireFrame::kReady,
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
  const End send = lane.sends.front(), receive = lane.receives.front();
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
  lane.sends.erase(lane.sends.begin());
  lane.receives.erase(lane.receives.begin());
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
  const End send = lane.sends.front();
  const WireHeader ready = lane.ready.front();
  const Transfer& of = send.transfer;
  const std::vector<int>& ranks = groups_[group].ranks;
  WireConnection& receiver = (*connections_)[names_->ProcessOf(ranks[of.to])];
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
  lane.sends.erase(lane.sends.begin());
  lane.ready.erase(lane.ready.begin());
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

bool WireLanes::MayCome(const WireHeader& header, void** target) {
  if (header.group < 0 || header.group >= static_cast<int>(groups_.size())) return false;
  const auto members = static_cast<int>(groups_[header.group].ranks.size());
  if (header.from < 0 || header.from >= members || header.to < 0 || header.to >= members) {
    return false;
  }
  if (header.kind == WireFrame::kReady) return header.length == 0;
  const Lane& lane = LaneOf(header);
  if (lane.receives.empty()) return false;  // no receiver was said to be ready
  if (header.kind == WireFrame::kDiffers) return true;
  const Transfer& receive = lane.receives.front().transfer;
  *target = receive.target;
  return header.kind == WireFrame::kData &&
         (header.length == 0 || (receive.target != nullptr && receive.Takes(header.length)));
}

absl::Status WireLanes::Come(const WireHeader& header, const std::string& text) {
  Lane& lane = LaneOf(header);
  if (header.kind == WireFrame::kReady) {
    lane.ready.push_back(header);
    return MeetReady(header.group, lane);
  }
  const End receive = lane.receives.front();
  if (header.kind == WireFrame::kDiffers) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, " met ", DescribeWithAction(*receive.transfer.call), " of ",
                     names_->NameOfRank(groups_[header.group].ranks[header.to])));
  }
  NoteEnded(header.group, receive.transfer);
  lane.receives.erase(lane.receives.begin());
  waits_->Done(receive.waiting);
  return absl::OkStatus();
}

}  // namespace stringline
