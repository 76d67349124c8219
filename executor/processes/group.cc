// A call is one or two waits for messages (CpuDevice::Await), of sums with an addition between
// them. The messages are listed when the stream comes to the call: only then are counts of rows
// known. Rows whose counts are told come to places of the largest size, and are then moved
// together.
#include "executor/processes/group.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr int64_t kFloat = sizeof(float);
// An all-reduce of which a member receives at most so many bytes is added up by each member
// itself: one exchange instead of two.
constexpr int64_t kMostAtOnce = 1 << 16;

const char* At(const void* buffer, int64_t offset) {
  return buffer == nullptr ? nullptr : static_cast<const char*>(buffer) + offset;
}
char* At(void* buffer, int64_t offset) {
  return buffer == nullptr ? nullptr : static_cast<char*>(buffer) + offset;
}

// to[i] = of[0][i] + of[1][i] + …, in this order; `to` may be one of them. Blocks stay in the
// processor's nearest cache while the others are added to them.
void AddUp(absl::Span<const float* const> of, int64_t count, float* to) {
  constexpr int64_t kBlock = 1024;
  float sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    std::copy_n(of[0] + begin, n, sum);
    for (size_t m = 1; m < of.size(); ++m) {
      const float* const other = of[m] + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] += other[i];
    }
    std::copy_n(sum, n, to + begin);
  }
}

}  // namespace

ProcessGroup::ProcessGroup(CpuDevice* device, Wires* wires, absl::Span<const int> ranks,
                           absl::Span<const MemberPair> talks)
    : device_(device),
      wires_(wires),
      members_(static_cast<int>(ranks.size())),
      number_(wires->NewGroup(ranks, talks)),
      by_member_(ranks.size()) {
  for (int m = 0; m < members_; ++m) {
    if (!wires->IsHere(ranks[m])) continue;
    Member& member = local_.emplace_back();
    member.group = this;
    member.member = m;
    member.of.resize(ranks.size());
    member.message = {BeginMessage, &member};
    member.told = {BeginTold, &member};
    member.settled = {SettleTold, &member};
    member.exchange = {BeginExchange, &member};
    member.gather = {BeginGather, &member};
    by_member_[m] = &member;
  }
}

void ProcessGroup::Enqueue(int member, StreamId stream, const Call* call) {
  Member* const own = by_member_[member];
  SL_CHECK(own != nullptr) << "member " << member << " is of another process";
  switch (call->kind) {
    case CallKind::kSend:
    case CallKind::kRecv:
      SL_CHECK(call->peer >= 0 && call->peer < members_) << call->peer;
      return device_->Await(stream, &own->message, call);
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      MakeRoom(own, *call);
      device_->Await(stream, &own->exchange, call);
      device_->Launch(stream, {Sum, own, 0});
      if (HandsOn(*call)) device_->Await(stream, &own->gather, call);
      return;
    case CallKind::kAllToAllCounted:
      if (!call->rows->tells()) return device_->Await(stream, &own->exchange, call);
      SL_CHECK(call->rows->most_piece_rows > 0 &&
               members_ * call->rows->most_piece_rows <= call->rows->most_rows)
          << "no room for the largest pieces of all members";
      device_->Await(stream, &own->told, call);
      return device_->Await(stream, &own->settled, call);
    default:
      return device_->Await(stream, &own->exchange, call);
  }
}

void ProcessGroup::BeginMessage(const void* link, StreamId stream, const void* end) {
  const auto& member = *static_cast<const Member*>(link);
  const auto& call = *static_cast<const Call*>(end);
  const bool sends = call.kind == CallKind::kSend;
  Transfer transfer;
  transfer.from = sends ? member.member : call.peer;
  transfer.to = sends ? call.peer : member.member;
  transfer.source = call.from;
  transfer.target = call.to;
  transfer.bytes = call.bytes;
  transfer.call = &call;
  const absl::Span<const Transfer> one(&transfer, 1), none;
  const ProcessGroup& group = *member.group;
  group.NoteComing(call);
  group.wires_->Start(group.number_, {stream, group.wires_->HeldNs(call.bytes), call.ended_ns},
                      sends ? one : none, sends ? none : one);
}

// A piece comes to where the largest pieces before it would end, behind its counts.
void ProcessGroup::BeginTold(const void* link, StreamId stream, const void* end) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(link));
  const ProcessGroup& group = *member.group;
  const Call& call = *static_cast<const Call*>(end);
  member.call = &call;
  group.NoteComing(call);
  member.sends.clear();
  member.receives.clear();
  const RowCounts& rows = *call.rows;
  const int64_t bytes = ToldBytes(call);
  int64_t sent = 0;
  for (int m = 0; m < group.members_; ++m) {
    const int64_t out = RowsOfPiece(rows.from, rows.per_piece, m);
    if (out > rows.most_piece_rows) {
      return group.wires_->Fail(absl::OutOfRangeError(
          absl::StrCat(Describe(call), ": member ", member.member, " sends ", out,
                       " rows to member ", m, ", which has room for ", rows.most_piece_rows)));
    }
    group.AddUpTo(&member, m, At(rows.from, m * bytes), bytes, At(rows.told, m * bytes), bytes);
    for (int a = 0; a < ArraysOf(call); ++a) {
      const RowArray of = ArrayOf(call, a);
      const int64_t room = rows.most_piece_rows * of.bytes;
      group.AddUpTo(&member, m, At(of.from, sent * of.bytes), out * of.bytes, At(of.to, m * room),
                    room);
    }
    sent += out;
  }
  group.wires_->Start(group.number_, {stream, 0, nullptr}, member.sends, member.receives);
}

// Moves the pieces together, now that their counts are there. They are of another process.
void ProcessGroup::SettleTold(const void* link, StreamId stream, const void* /*end*/) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(link));
  const ProcessGroup& group = *member.group;
  const Call& call = *member.call;
  const RowCounts& rows = *call.rows;
  int64_t before = 0;
  for (int m = 0; m < group.members_; ++m) {
    const int64_t piece = RowsOfPiece(rows.told, rows.per_piece, m);
    if (piece < 0 || piece > rows.most_piece_rows) {
      return group.wires_->Fail(absl::OutOfRangeError(
          absl::StrCat(Describe(call), ": member ", member.member, " is told ", piece,
                       " rows of member ", m, ", and has room for ", rows.most_piece_rows)));
    }
    for (int a = 0; a < ArraysOf(call); ++a) {
      const RowArray of = ArrayOf(call, a);
      if (of.to == nullptr) continue;
      std::memmove(At(of.to, before * of.bytes), At(of.to, m * rows.most_piece_rows * of.bytes),
                   static_cast<size_t>(piece * of.bytes));
    }
    before += piece;
  }
  group.wires_->Start(group.number_, {stream, group.HeldNs(member), call.ended_ns}, {}, {});
}

void ProcessGroup::BeginExchange(const void* link, StreamId stream, const void* end) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(link));
  const ProcessGroup& group = *member.group;
  member.call = static_cast<const Call*>(end);
  group.NoteComing(*member.call);
  member.sends.clear();
  member.receives.clear();
  const CallKind kind = member.call->kind;
  if (group.IsSliced(*member.call)) {
    group.ListSlices(&member);
  } else if (kind == CallKind::kAllToAllCounted) {
    const absl::Status status = group.ListRows(&member);
    if (!status.ok()) return group.wires_->Fail(status);
  } else {
    group.List(&member);
  }
  const bool sums = kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter;
  group.wires_->Start(
      group.number_,
      {stream,
       kind == CallKind::kAllReduce && group.IsSliced(*member.call) ? 0 : group.HeldNs(member),
       sums ? nullptr : member.call->ended_ns},
      member.sends, member.receives);
}

void ProcessGroup::BeginGather(const void* link, StreamId stream, const void* /*end*/) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(link));
  const ProcessGroup& group = *member.group;
  const Call& call = *member.call;
  member.sends.clear();
  member.receives.clear();
  const int own = member.member;
  const SumSlice mine = group.SliceFor(call, own);
  const char* const sum = At(call.to, PlaceInSum(call, own, mine.begin));
  for (int m = 0; m < group.members_; ++m) {
    if (m == own || !GetAlike(call, own, m)) continue;
    const SumSlice other = group.SliceFor(call, m);
    group.Add(&member, m, sum, mine.bytes(), At(call.to, PlaceInSum(call, own, other.begin)),
              other.bytes());
  }
  group.wires_->Start(group.number_, {stream, group.HeldNs(member), call.ended_ns}, member.sends,
                      member.receives);
}

int64_t ProcessGroup::HeldNs(const Member& member) const {
  return members_ == 1 ? 0 : wires_->HeldNs(BytesOnTheWay(*member.call, member.member, members_));
}

// An enqueued call has not begun: nothing is allocated during a step.
void ProcessGroup::MakeRoom(Member* member, const Call& call) const {
  const int64_t slice = IsSliced(call) ? SliceFor(call, member->member).bytes() : call.bytes;
  const auto floats = static_cast<size_t>(members_ * slice / kFloat);
  if (call.to != nullptr && floats > member->summands.size()) member->summands.resize(floats);
}

// True if each member sums a slice for all receivers.
bool ProcessGroup::IsSliced(const Call& call) const {
  return (call.kind == CallKind::kAllReduce && (members_ - 1) * call.bytes > kMostAtOnce) ||
         (call.kind == CallKind::kReduceScatter && call.pieces != nullptr);
}

bool ProcessGroup::HandsOn(const Call& call) const {
  return IsSliced(call) && HowManyGet(call, members_) > 1;
}

// Adds the message to the other member and the message from it.
void ProcessGroup::Add(Member* member, int other, const void* source, int64_t sent, void* target,
                       int64_t received) const {
  member->sends.push_back({member->member, other, source, nullptr, sent, member->call});
  member->receives.push_back({other, member->member, nullptr, target, received, member->call});
  member->sends.back().mutual = member->receives.back().mutual = true;
}

// The same with a message of any size up to `room`; the member's own is copied.
void ProcessGroup::AddUpTo(Member* member, int other, const void* source, int64_t sent,
                           void* target, int64_t room) const {
  if (other == member->member) {
    if (source != nullptr && target != nullptr) {
      std::memcpy(target, source, static_cast<size_t>(sent));
    }
    return;
  }
  Add(member, other, source, sent, target, room);
  member->sends.back().at_most = member->receives.back().at_most = true;
}

void ProcessGroup::List(Member* member) const {
  const Call& call = *member->call;
  const int own = member->member;
  const int64_t b = call.bytes;
  const auto keep = [&](const void* source, void* target) {
    if (source != nullptr && target != nullptr && source != target) std::memcpy(target, source, b);
  };
  if (call.kind == CallKind::kBroadcast) {
    if (own != call.peer) {
      member->receives.push_back({call.peer, own, nullptr, call.to, b, &call});
      return;
    }
    keep(call.from, call.to);
    for (int m = 0; m < members_; ++m) {
      if (m != own) member->sends.push_back({own, m, call.from, nullptr, b, &call});
    }
    return;
  }
  const bool gathers = call.kind == CallKind::kAllGather;
  if (call.pieces != nullptr) return ListPieces(member);
  // A gather, or a sum of each member's piece, or of all that the members have.
  const bool whole = gathers || call.kind == CallKind::kAllReduce;
  void* const to = gathers || call.to == nullptr ? call.to : member->summands.data();
  if (gathers) keep(call.from, At(to, own * b));
  for (int m = 0; m < members_; ++m) {
    if (m != own) Add(member, m, At(call.from, whole ? 0 : m * b), b, At(to, m * b), b);
  }
}

// Lists the messages of a gather.
void ProcessGroup::ListPieces(Member* member) const {
  const Call& call = *member->call;
  const Pieces& pieces = *call.pieces;
  const int own = member->member;
  void* const place = At(call.to, pieces.begin[own]);
  if (call.from != nullptr && place != nullptr && call.from != place) {
    std::memcpy(place, call.from, static_cast<size_t>(pieces.bytes(own)));
  }
  for (int m = 0; m < members_; ++m) {
    if (m == own) continue;
    Add(member, m, call.from, pieces.bytes(own), At(call.to, pieces.begin[m]), pieces.bytes(m));
  }
}

void ProcessGroup::ListSlices(Member* member) const {
  const Call& call = *member->call;
  const int own = member->member;
  const int64_t slice = SliceFor(call, own).bytes();
  const bool moves = call.from != nullptr && call.to != nullptr;
  void* const summands = moves ? member->summands.data() : nullptr;
  for (int m = 0; m < members_; ++m) {
    if (m == own) continue;
    const SumSlice theirs = SliceFor(call, m);
    Add(member, m, At(call.from, theirs.begin), theirs.bytes(), At(summands, m * slice), slice);
  }
}

absl::Status ProcessGroup::ListRows(Member* member) const {
  const Call& call = *member->call;
  const RowCounts& rows = *call.rows;
  const int own = member->member;
  const int64_t all = RowsBeforePiece(rows.to, rows.per_piece, members_);
  if (all > rows.most_rows) {
    return absl::OutOfRangeError(absl::StrCat(Describe(call), ": member ", own, " is sent ", all,
                                              " rows and has room for ", rows.most_rows));
  }
  int64_t sent = 0, received = 0;
  for (int m = 0; m < members_; ++m) {
    const int64_t out = RowsOfPiece(rows.from, rows.per_piece, m);
    const int64_t in = RowsOfPiece(rows.to, rows.per_piece, m);
    if (m == own && out != in) {
      return absl::InvalidArgumentError(absl::StrCat(DescribeWithAction(call), ": member ", own,
                                                     " sends ", out, " rows to member ", own,
                                                     ", which expects ", in));
    }
    for (int a = 0; a < ArraysOf(call); ++a) {
      const RowArray of = ArrayOf(call, a);
      const char* const source = At(of.from, sent * of.bytes);
      char* const target = At(of.to, received * of.bytes);
      if (m != own) {
        Add(member, m, source, out * of.bytes, target, in * of.bytes);
      } else if (source != nullptr && target != nullptr) {
        std::memcpy(target, source, static_cast<size_t>(in * of.bytes));
      }
    }
    sent += out;
    received += in;
  }
  return absl::OkStatus();
}

// Adds in the order of the members, this member's own floats among the others'.
void ProcessGroup::Sum(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(self));
  const ProcessGroup& group = *member.group;
  const Call& call = *member.call;
  const int own = member.member;
  const bool sliced = group.IsSliced(call);
  const int64_t begin = call.kind == CallKind::kAllReduce ? 0 : own * call.bytes;
  const SumSlice slice = sliced ? group.SliceFor(call, own) : SumSlice{begin, begin + call.bytes};
  const int64_t count = slice.bytes() / kFloat;
  if (call.from != nullptr && call.to != nullptr) {
    const int64_t place = sliced ? PlaceInSum(call, own, slice.begin) : 0;
    const auto* const from = reinterpret_cast<const float*>(At(call.from, slice.begin));
    auto* const to = reinterpret_cast<float*>(At(call.to, place));
    std::vector<const float*>& of = member.of;
    for (int m = 0; m < group.members_; ++m) {
      of[m] = m == own ? from : member.summands.data() + m * count;
    }
    AddUp(of, count, to);
  }
  if (!group.HandsOn(call) && call.ended_ns != nullptr) {
    NoteNs(call.ended_ns, group.device_->NowNs());
  }
}

}  // namespace stringline
