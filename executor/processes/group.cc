// A call is one or two waits for messages (CpuDevice::Await) with a sum between them. Which
// messages those are is listed when the stream comes to the call: only then counts of rows are
// known.
#include "executor/processes/group.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr int64_t kFloat = sizeof(float);

const char* At(const void* buffer, int64_t offset) {
  return buffer == nullptr ? nullptr : static_cast<const char*>(buffer) + offset;
}
char* At(void* buffer, int64_t offset) {
  return buffer == nullptr ? nullptr : static_cast<char*>(buffer) + offset;
}

int64_t RowsOf(const int32_t* counts, int per_piece, int piece) {
  int64_t rows = 0;
  for (int i = 0; i < per_piece; ++i) rows += counts[piece * per_piece + i];
  return rows;
}

}  // namespace

ProcessGroup::ProcessGroup(CpuDevice* device, Wires* wires, absl::Span<const int> ranks)
    : device_(device),
      wires_(wires),
      members_(static_cast<int>(ranks.size())),
      number_(wires->NewGroup(ranks)),
      by_member_(ranks.size()) {
  for (int m = 0; m < members_; ++m) {
    if (!wires->IsHere(ranks[m])) continue;
    Member& member = local_.emplace_back();
    member.group = this;
    member.member = m;
    member.message = {BeginMessage, &member};
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
      device_->Await(stream, &own->exchange, call);
      device_->Launch(stream, {Sum, own, 0});
      return device_->Await(stream, &own->gather, call);
    case CallKind::kReduceScatter:
      device_->Await(stream, &own->exchange, call);
      return device_->Launch(stream, {Sum, own, 0});
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
  group.wires_->Start(group.number_, stream, sends ? one : none, sends ? none : one, call.ended_ns);
}

void ProcessGroup::BeginExchange(const void* link, StreamId stream, const void* end) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(link));
  const ProcessGroup& group = *member.group;
  member.call = static_cast<const Call*>(end);
  group.NoteComing(*member.call);
  member.sends.clear();
  member.receives.clear();
  const CallKind kind = member.call->kind;
  if (kind == CallKind::kAllReduce) {
    group.ListSlices(&member);
  } else if (kind == CallKind::kAllToAllCounted) {
    const absl::Status status = group.ListRows(&member);
    if (!status.ok()) return group.wires_->Fail(status);
  } else {
    group.List(&member);
  }
  const bool sums = kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter;
  group.wires_->Start(group.number_, stream, member.sends, member.receives,
                      sums ? nullptr : member.call->ended_ns);
}

void ProcessGroup::BeginGather(const void* link, StreamId stream, const void* /*end*/) {
  auto& member = *const_cast<Member*>(static_cast<const Member*>(link));
  const ProcessGroup& group = *member.group;
  const Call& call = *member.call;
  member.sends.clear();
  member.receives.clear();
  const auto begin = [&](int m) { return group.SliceBegin(call, m) * kFloat; };
  const auto bytes = [&](int m) { return begin(m + 1) - begin(m); };
  const int own = member.member;
  for (int m = 0; m < group.members_; ++m) {
    if (m == own) continue;
    group.Add(&member, m, At(call.to, begin(own)), bytes(own), At(call.to, begin(m)), bytes(m));
  }
  group.wires_->Start(group.number_, stream, member.sends, member.receives, call.ended_ns);
}

// What goes to the other member, and what comes from it.
void ProcessGroup::Add(Member* member, int other, const void* source, int64_t sent, void* target,
                       int64_t received) const {
  member->sends.push_back({member->member, other, source, nullptr, sent, member->call});
  member->receives.push_back({other, member->member, nullptr, target, received, member->call});
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
  const bool sums = call.kind == CallKind::kReduceScatter;
  void* to = call.to;
  if (sums && to != nullptr) {
    member->summands.resize(static_cast<size_t>(members_ * b / kFloat));
    to = member->summands.data();
  }
  if (!sums) keep(At(call.from, gathers ? 0 : own * b), At(to, own * b));
  for (int m = 0; m < members_; ++m) {
    if (m != own) Add(member, m, At(call.from, gathers ? 0 : m * b), b, At(to, m * b), b);
  }
}

void ProcessGroup::ListSlices(Member* member) const {
  const Call& call = *member->call;
  const int own = member->member;
  const auto begin = [&](int m) { return SliceBegin(call, m) * kFloat; };
  const int64_t slice = begin(own + 1) - begin(own);
  const bool moves = call.from != nullptr && call.to != nullptr;
  if (moves) member->summands.resize(static_cast<size_t>(members_ * slice / kFloat));
  void* const summands = moves ? member->summands.data() : nullptr;
  for (int m = 0; m < members_; ++m) {
    if (m == own) continue;
    Add(member, m, At(call.from, begin(m)), begin(m + 1) - begin(m), At(summands, m * slice),
        slice);
  }
}

absl::Status ProcessGroup::ListRows(Member* member) const {
  const Call& call = *member->call;
  const RowCounts& rows = *call.rows;
  const int own = member->member;
  int64_t all = 0;
  for (int m = 0; m < members_; ++m) all += RowsOf(rows.to, rows.per_piece, m);
  if (all > rows.most_rows) {
    return absl::OutOfRangeError(absl::StrCat(Describe(call), ": member ", own, " is sent ", all,
                                              " rows and has room for ", rows.most_rows));
  }
  int64_t sent = 0, received = 0;
  for (int m = 0; m < members_; ++m) {
    const int64_t out = RowsOf(rows.from, rows.per_piece, m) * call.bytes;
    const int64_t in = RowsOf(rows.to, rows.per_piece, m) * call.bytes;
    const char* const source = At(call.from, sent);
    char* const target = At(call.to, received);
    if (m != own) {
      Add(member, m, source, out, target, in);
    } else if (out != in) {
      return absl::InvalidArgumentError(
          absl::StrCat(DescribeWithAction(call), ": member ", own, " sends ", out / call.bytes,
                       " rows to member ", own, ", which expects ", in / call.bytes));
    } else if (source != nullptr && target != nullptr) {
      std::memcpy(target, source, static_cast<size_t>(in));
    }
    sent += out;
    received += in;
  }
  return absl::OkStatus();
}

// In the order of the members, this one's own floats among the others'.
void ProcessGroup::Sum(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
  const auto& member = *static_cast<const Member*>(self);
  const ProcessGroup& group = *member.group;
  const Call& call = *member.call;
  const bool all = call.kind == CallKind::kAllReduce;
  const int own = member.member;
  const int64_t first = all ? group.SliceBegin(call, own) : own * (call.bytes / kFloat);
  const int64_t count = all ? group.SliceBegin(call, own + 1) - first : call.bytes / kFloat;
  if (call.from != nullptr && call.to != nullptr) {
    const auto* const from = static_cast<const float*>(call.from) + first;
    auto* const to = static_cast<float*>(call.to) + (all ? first : 0);
    const auto of = [&](int m) { return m == own ? from : member.summands.data() + m * count; };
    for (int64_t i = 0; i < count; ++i) {
      float sum = of(0)[i];
      for (int m = 1; m < group.members_; ++m) sum += of(m)[i];
      to[i] = sum;
    }
  }
  if (!all && call.ended_ns != nullptr) NoteNs(call.ended_ns, group.device_->NowNs());
}

}  // namespace stringline
