// A receiver in another process says that it is ready; the sending process answers with the bytes,
// straight out of the sender's memory into the receiver's. Messages of collectives go unasked.
// Ends in one process meet without a connection.
#include "executor/processes/wire_lanes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// The most bytes that are sent unasked; in large groups fewer, so that those of all members that
// come early take at most kMostEarly times kMostSlots.
constexpr int64_t kMostUnasked = 4096;
constexpr int64_t kMostSlots = 1 << 18;
constexpr int64_t kLateNs = 100'000'000;

// A frame that describes the call of a message's end.
WireHeader HeaderOf(WireFrame kind, int group, const Transfer& of) {
  const Call& call = *of.call;
  return {.kind = kind,
          .call = call.kind,
          .group = group,
          .from = of.from,
          .to = of.to,
          .peer = call.peer,
          .bytes = call.bytes,
          .index = call.name.index,
          .shape = ShapeOfRows(call)};
}

// True if the call that such a frame describes meets this one.
bool Matches(const WireHeader& header, const Call& call) {
  Call other = call;  // but for its words
  other.kind = header.call;
  other.peer = header.peer;
  other.bytes = header.bytes;
  other.name.index = header.index;
  return MatchCalls(call, other).ok() && header.shape == ShapeOfRows(call);
}

}  // namespace

int WireLanes::NewGroup(absl::Span<const int> ranks) {
  Members& members = groups_.emplace_back();
  members.seats.assign(ranks.size(), -1);
  size_t here = 0;
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (names_->IsHere(ranks[m])) members.seats[m] = static_cast<int>(here++);
  }
  if (here > 0) members.ranks.assign(ranks.begin(), ranks.end());
  members.lanes.resize(2 * here * ranks.size());
  const auto most =
      std::min<int64_t>(kMostUnasked, kMostSlots / std::max<int64_t>(ranks.size(), 1));
  members.slot_bytes = most / 4 * 4;
  const size_t slots = kMostEarly * here * (ranks.size() - here);
  if (slots == 0) return static_cast<int>(groups_.size()) - 1;
  // Not written here: memory is taken when messages come early.
  members.slots.reset(new char[kMostEarly * here * ranks.size() * members.slot_bytes]);
  early_.MakeRoom(slots);
  return static_cast<int>(groups_.size()) - 1;
}

// Slots of lanes are in the order of seats and senders.
char* WireLanes::SlotOf(const WireHeader& header, int slot) {
  Members& group = groups_[header.group];
  const int64_t lane = group.seats[header.to] * static_cast<int64_t>(group.ranks.size());
  return group.slots.get() + ((lane + header.from) * kMostEarly + slot) * group.slot_bytes;
}

WireConnection& WireLanes::ConnectionOf(int group, int member) {
  WireConnection& connection = (*connections_)[names_->ProcessOf(groups_[group].ranks[member])];
  SL_CHECK(connection.opened()) << "group " << group << " was said not to talk to member "
                                << member;
  return connection;
}

// True if the message goes before its receiver is known to be ready; `other` is the member of
// another process. Of a message of at most so many bytes, both ends need not agree.
bool WireLanes::IsUnasked(int group, const Transfer& transfer, int other) {
  return transfer.mutual && (transfer.bytes <= groups_[group].slot_bytes ||
                             ConnectionOf(group, other).carrier() != nullptr);
}

absl::Status WireLanes::PostSend(int group, const Transfer& send, int waiting) {
  Lane& lane = LaneOf(group, send.from, send.to);
  ends_.Append(&lane.sends, {.transfer = send, .group = group, .sends = true, .waiting = waiting});
  if (groups_[group].seats[send.to] >= 0) return MeetHere(group, lane);
  return SendOn(group, lane);
}

absl::Status WireLanes::PostReceive(int group, const Transfer& receive, int waiting) {
  Lane& lane = LaneOf(group, receive.from, receive.to);
  const bool here = groups_[group].seats[receive.from] >= 0;
  const bool asks = here || !IsUnasked(group, receive, receive.from);
  const int at = ends_.Append(&lane.receives, {.transfer = receive,
                                               .group = group,
                                               .asks = asks,
                                               .turn = lane.posted++,
                                               .waiting = waiting});
  if (here) return MeetHere(group, lane);
  if (asks) Report(group, &ends_.at(at));
  return MeetEarly(group, lane);
}

// Tells the sender's process that the receiver is ready.
void WireLanes::Report(int group, WireEnd* receive) {
  receive->asks = true;
  const Transfer& of = receive->transfer;
  WireHeader ready = HeaderOf(WireFrame::kReady, group, of);
  ready.room = of.target == nullptr ? -1 : of.bytes;
  ready.turn = receive->turn;
  ConnectionOf(group, of.from).Put({ready});
}

void WireLanes::AskLate() {
  const int64_t now_ns = NowNs();
  if (now_ns < asked_ns_ + kLateNs) return;
  asked_ns_ = now_ns;
  for (int at = ends_.oldest(); at >= 0; at = ends_.at(at).newer) {
    WireEnd& end = ends_.at(at);
    if (end.since_ns > now_ns - kLateNs) return;
    if (!end.sends && !end.asks) Report(end.group, &end);
  }
}

absl::Status WireLanes::MeetHere(int group, Lane& lane) {
  if (lane.sends.empty() || lane.receives.empty()) return absl::OkStatus();
  const WireEnd send = ends_.Front(lane.sends), receive = ends_.Front(lane.receives);
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
  ends_.Take(&lane.sends);
  ends_.Take(&lane.receives);
  if (send.transfer.source != nullptr && receive.transfer.target != nullptr) {
    std::memcpy(receive.transfer.target, send.transfer.source, send.transfer.bytes);
  }
  waits_->Done(send.waiting);
  waits_->Done(receive.waiting);
  return absl::OkStatus();
}

// The first send goes by itself or meets a receiver that is ready, and then the next one.
absl::Status WireLanes::SendOn(int group, Lane& lane) {
  for (int64_t done = -1; done != lane.done && !lane.sends.empty();) {
    done = lane.done;
    const Transfer of = ends_.Front(lane.sends).transfer;
    if (IsUnasked(group, of, of.to)) {
      SendUnasked(group, lane);
      continue;
    }
    SL_RETURN_IF_ERROR(MeetReady(group, lane));
  }
  return absl::OkStatus();
}

void WireLanes::SendUnasked(int group, Lane& lane) {
  const WireEnd send = ends_.Front(lane.sends);
  const Transfer& of = send.transfer;
  WireHeader header = HeaderOf(WireFrame::kUnasked, group, of);
  header.room = of.source == nullptr ? -1 : of.bytes;
  header.length = of.source == nullptr ? 0 : of.bytes;
  header.tag = header.length > groups_[group].slot_bytes ? 1 : 0;  // of its own choice
  ends_.Take(&lane.sends);
  ++lane.done;
  ConnectionOf(group, of.to)
      .Put({.header = header,
            .bytes = static_cast<const char*>(of.source),
            .waiting = send.waiting});
}

// The bytes go when the receiver is ready; when they are written the send is done.
absl::Status WireLanes::MeetReady(int group, Lane& lane) {
  while (!lane.ready.empty() && readies_.Front(lane.ready).turn < lane.done) {
    (void)readies_.Pop(&lane.ready);  // of a message that has gone unasked
  }
  if (lane.sends.empty() || lane.ready.empty()) return absl::OkStatus();
  const WireEnd send = ends_.Front(lane.sends);
  const WireHeader ready = readies_.Front(lane.ready);
  if (ready.turn != lane.done) return absl::OkStatus();  // its receiver awaits an unasked one
  const Transfer& of = send.transfer;
  if (!Matches(ready, *of.call)) {
    // The receiver knows the name of its own call, and tells everybody.
    TellDiffers(group, of.from, of.to, *of.call);
    return absl::OkStatus();
  }
  const bool moves = ready.room >= 0 && of.source != nullptr;
  Transfer receive = of;
  receive.bytes = ready.room;
  if (moves && !receive.Takes(of.bytes)) return CountsDiffer(group, of, ready.room);
  ends_.Take(&lane.sends);
  (void)readies_.Pop(&lane.ready);
  ++lane.done;
  NoteEnded(group, of);
  WireHeader header = {.kind = WireFrame::kData, .group = group, .from = of.from, .to = of.to};
  header.length = moves ? of.bytes : 0;
  ConnectionOf(group, of.to)
      .Put({.header = header,
            .bytes = static_cast<const char*>(of.source),
            .waiting = send.waiting});
  return absl::OkStatus();
}

// Messages that have come meet their receives, in turn.
absl::Status WireLanes::MeetEarly(int group, Lane& lane) {
  while (!lane.receives.empty() && !lane.early.empty() && !lane.taking) {
    const Transfer receive = ends_.Front(lane.receives).transfer;
    const Early& early = early_.Front(lane.early);
    const WireHeader header = early.header;
    if (header.kind == WireFrame::kData && header.length > 0 &&
        (receive.target == nullptr || !receive.Takes(header.length))) {
      return absl::InternalError(
          absl::StrCat(header.length, " bytes came for ", DescribeWithAction(*receive.call)));
    }
    if (header.kind == WireFrame::kUnasked) {
      if (!Matches(header, *receive.call)) {
        TellDiffers(group, receive.to, receive.from, *receive.call);
        return absl::OkStatus();
      }
      if (header.room >= 0 && receive.target != nullptr && !receive.Takes(header.room)) {
        Transfer sent = receive;
        sent.bytes = header.room;
        return CountsDiffer(group, sent, receive.bytes);
      }
    }
    if (header.tag == 0 && header.length > 0 && receive.target != nullptr) {
      const char* const from = early.slot < 0 ? early.bytes.data() : SlotOf(header, early.slot);
      std::memcpy(receive.target, from, static_cast<size_t>(header.length));
    }
    if (early.slot >= 0) lane.slots = static_cast<uint8_t>(lane.slots & ~(1U << early.slot));
    (void)early_.Pop(&lane.early);
    if (header.tag == 0) {
      EndReceive(group, lane);
      continue;
    }
    lane.taking = true;
    ConnectionOf(group, receive.from)
        .carrier()
        ->TakeBytes(names_->ProcessOf(groups_[group].ranks[receive.from]), header, receive.target);
  }
  return absl::OkStatus();
}

absl::Status WireLanes::Took(const WireHeader& header) {
  Lane& lane = LaneOf(header);
  lane.taking = false;
  EndReceive(header.group, lane);
  return MeetEarly(header.group, lane);
}

void WireLanes::EndReceive(int group, Lane& lane) {
  const WireEnd receive = ends_.Front(lane.receives);
  NoteEnded(group, receive.transfer);
  ends_.Take(&lane.receives);
  ++lane.done;
  waits_->Done(receive.waiting);
}

// Tells the other member's process, which knows the name of its own call and tells everybody.
void WireLanes::TellDiffers(int group, int own, int other, const Call& call) {
  const WireHeader header = {.kind = WireFrame::kDiffers, .group = group, .from = own, .to = other};
  ConnectionOf(group, other)
      .Put({.header = header,
            .text = absl::StrCat(DescribeWithAction(call), " of ",
                                 names_->NameOfRank(groups_[group].ranks[own]))});
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

bool WireLanes::MayCome(int process, const WireHeader& header, void** target) {
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
  if (header.kind == WireFrame::kDiffers) return true;
  const bool unasked = header.kind == WireFrame::kUnasked;
  Lane& lane = LaneOf(header);
  // Its receiver was said to be ready, or comes to the next call.
  if (lane.came >= lane.posted + (unasked ? kMostEarly : 0)) return false;
  lane.slot = -1;
  lane.direct = false;
  const bool far = header.tag != 0;
  if (unasked && header.length > 0 && header.length != header.room) return false;
  if (far || header.length == 0) return !far || header.length > 0;
  if (!lane.receives.empty() && lane.early.empty() && !lane.taking) {
    const Transfer& receive = ends_.Front(lane.receives).transfer;
    const bool fits = receive.target != nullptr && receive.Takes(header.length);
    lane.direct = fits && (!unasked || Matches(header, *receive.call));
    if (lane.direct) *target = receive.target;
    if (lane.direct || !unasked) return lane.direct;
  }
  if (!unasked) return header.length <= kMostWireText;
  if (header.length > group.slot_bytes) return false;
  lane.slot = 0;
  while ((lane.slots >> lane.slot & 1) != 0) ++lane.slot;
  if (lane.slot >= kMostEarly) return false;
  *target = SlotOf(header, lane.slot);
  return true;
}

absl::Status WireLanes::Come(const WireHeader& header, const std::string& text) {
  Lane& lane = LaneOf(header);
  if (header.kind == WireFrame::kReady) {
    readies_.Push(&lane.ready, header);
    return SendOn(header.group, lane);
  }
  if (header.kind == WireFrame::kDiffers) {
    const std::string own = lane.receives.empty()
                                ? "another call"
                                : DescribeWithAction(*ends_.Front(lane.receives).transfer.call);
    return absl::InvalidArgumentError(absl::StrCat(
        text, " met ", own, " of ", names_->NameOfRank(groups_[header.group].ranks[header.to])));
  }
  ++lane.came;
  if (std::exchange(lane.direct, false)) {
    EndReceive(header.group, lane);
    return absl::OkStatus();
  }
  Early early = {.header = header, .slot = std::exchange(lane.slot, -1)};
  if (early.slot >= 0) {
    lane.slots = static_cast<uint8_t>(lane.slots | 1U << early.slot);
  } else if (header.tag == 0 && header.length > 0) {
    early.bytes = text;
  }
  early_.Push(&lane.early, std::move(early));
  return MeetEarly(header.group, lane);
}

}  // namespace stringline
