// Members read and write each other's buffers: none goes on between the two meetings of a
// collective. A sum is divided into slices, and each slice is added up in the order of the members,
// so its bits are always the same.
#include "executor/cpu/threads_group.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

const char* At(const void* buffer, int64_t offset) {
  return static_cast<const char*>(buffer) + offset;
}
char* At(void* buffer, int64_t offset) { return static_cast<char*>(buffer) + offset; }

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != nullptr && from != nullptr && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

ThreadGroup::ThreadGroup(CpuDevice* device, int members, const CallTimes& times)
    : device_(device),
      members_(members),
      times_(times),
      messages_(static_cast<size_t>(members) * static_cast<size_t>(members), MeetingPlace(2, this)),
      arrival_(members, this),
      departure_(members, this) {
  const bool takes_time = times_.duration_ns != nullptr;
  for (MeetingPlace& place : messages_) {
    place.exchange = Message;
    place.describe = DescribeMessage;
    place.waits = NoteComing;
    if (takes_time) place.duration_ns = OnTheWay;
    place.leave = WriteEnds;
  }
  arrival_.exchange = Arrive;
  arrival_.describe = DescribeCollective;
  arrival_.waits = NoteComing;
  departure_.exchange = [](const void*, MeetingPlace::Ends) { return absl::OkStatus(); };
  departure_.describe = DescribeCollective;
  if (takes_time) departure_.duration_ns = LeftOnTheWay;
  departure_.leave = WriteEnds;
  for (int m = 0; m < members; ++m) shares_.push_back({this, m});
}

void ThreadGroup::Enqueue(int member, StreamId stream, const Call* call) {
  const auto place = [&](int from, int to) -> MeetingPlace* {
    SL_CHECK(from >= 0 && from < members_ && to >= 0 && to < members_) << from << " " << to;
    return &messages_[static_cast<size_t>(from) * members_ + to];
  };
  if (call->kind == CallKind::kSend)
    return device_->Meet(stream, place(member, call->peer), 0, call);
  if (call->kind == CallKind::kRecv)
    return device_->Meet(stream, place(call->peer, member), 1, call);
  device_->Meet(stream, &arrival_, member, call);
  device_->Launch(stream, {Perform, &shares_[member], 0});
  device_->Meet(stream, &departure_, member, call);
}

absl::Status ThreadGroup::Message(const void* /*self*/, MeetingPlace::Ends ends) {
  const auto& send = *static_cast<const Call*>(ends[0]);
  const auto& recv = *static_cast<const Call*>(ends[1]);
  SL_RETURN_IF_ERROR(MatchCalls(send, recv));
  Copy(recv.to, send.from, send.bytes);
  return absl::OkStatus();
}

absl::Status ThreadGroup::Arrive(const void* self, MeetingPlace::Ends ends) {
  const auto& first = *static_cast<const Call*>(ends[0]);
  for (const void* const end : ends) {
    SL_RETURN_IF_ERROR(MatchCalls(first, *static_cast<const Call*>(end)));
  }
  auto& group = *const_cast<ThreadGroup*>(static_cast<const ThreadGroup*>(self));
  if (first.kind == CallKind::kAllToAllCounted) {
    if (first.rows->tells()) TellCounts(ends);
    SL_RETURN_IF_ERROR(group.CheckCounts(ends));
  }
  if (group.times_.duration_ns != nullptr) {
    group.due_ns_ = group.device_->NowNs() + OnTheWay(self, ends);
  }
  return absl::OkStatus();
}

void ThreadGroup::TellCounts(MeetingPlace::Ends ends) {
  for (size_t to = 0; to < ends.size(); ++to) {
    int32_t* told = static_cast<const Call*>(ends[to])->rows->told;
    for (const void* const end : ends) {
      const RowCounts& rows = *static_cast<const Call*>(end)->rows;
      told =
          std::copy_n(rows.from + static_cast<int64_t>(to) * rows.per_piece, rows.per_piece, told);
    }
  }
}

// Checks that every member sends the number of rows that its receiver expects, and that they fit.
absl::Status ThreadGroup::CheckCounts(MeetingPlace::Ends ends) const {
  for (int to = 0; to < members_; ++to) {
    const auto& recv = *static_cast<const Call*>(ends[to]);
    int64_t rows = 0;
    for (int from = 0; from < members_; ++from) {
      const auto& send = *static_cast<const Call*>(ends[from]);
      const int64_t sent = RowsOfPiece(send.rows->from, send.rows->per_piece, to);
      const int64_t expected = RowsOfPiece(recv.rows->received(), recv.rows->per_piece, from);
      if (sent != expected) {
        return absl::InvalidArgumentError(absl::StrCat(Describe(send), ": member ", from, " sends ",
                                                       sent, " rows to member ", to,
                                                       ", which expects ", expected));
      }
      rows += sent;
    }
    if (rows > recv.rows->most_rows) {
      return absl::OutOfRangeError(absl::StrCat(Describe(recv), ": member ", to, " is sent ", rows,
                                                " rows and has room for ", recv.rows->most_rows));
    }
  }
  return absl::OkStatus();
}

// The members' work is done meanwhile.
int64_t ThreadGroup::LeftOnTheWay(const void* self, MeetingPlace::Ends /*ends*/) {
  const auto& group = *static_cast<const ThreadGroup*>(self);
  return std::max<int64_t>(group.due_ns_ - group.device_->NowNs(), 0);
}

void ThreadGroup::WriteEnds(const void* self, MeetingPlace::Ends ends) {
  int64_t now_ns = 0;
  for (const void* const end : ends) {
    const auto& call = *static_cast<const Call*>(end);
    if (call.ended_ns == nullptr) continue;
    if (now_ns == 0) now_ns = static_cast<const ThreadGroup*>(self)->device_->NowNs();
    NoteNs(call.ended_ns, now_ns);
  }
}

int64_t ThreadGroup::OnTheWay(const void* self, MeetingPlace::Ends ends) {
  const CallTimes& times = static_cast<const ThreadGroup*>(self)->times_;
  const auto* const met = reinterpret_cast<const Call* const*>(ends.data());
  return times.duration_ns(times.self, absl::MakeConstSpan(met, ends.size()));
}

void ThreadGroup::NoteComing(const void* self, const void* end) {
  const auto& call = *static_cast<const Call*>(end);
  if (call.came_ns == nullptr) return;
  NoteNs(call.came_ns, static_cast<const ThreadGroup*>(self)->device_->NowNs());
}

std::string ThreadGroup::DescribeMessage(const void* /*self*/, int side, const void* end) {
  return absl::StrCat(side == 0 ? "somebody to receive " : "somebody to send ",
                      DescribeData(*static_cast<const Call*>(end)),
                      DescribeAction(*static_cast<const Call*>(end)));
}

std::string ThreadGroup::DescribeCollective(const void* /*self*/, int /*side*/, const void* end) {
  return absl::StrCat("the other members in ", DescribeWithAction(*static_cast<const Call*>(end)));
}

void ThreadGroup::Perform(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
  const auto& share = *static_cast<const Share*>(self);
  const ThreadGroup& group = *share.group;
  const Call& call = group.call_of(share.member);
  switch (call.kind) {
    case CallKind::kAllToAllCounted:
      return group.Exchange(share.member);
    case CallKind::kAllReduce:
      return group.Reduce(share.member);
    case CallKind::kReduceScatter:
      return call.pieces == nullptr ? group.Scatter(share.member) : group.Reduce(share.member);
    case CallKind::kAllGather:
      for (int m = 0; m < group.members_; ++m) {
        const int64_t begin = call.pieces == nullptr ? m * call.bytes : call.pieces->begin[m];
        const int64_t bytes = call.pieces == nullptr ? call.bytes : call.pieces->bytes(m);
        Copy(At(call.to, begin), group.call_of(m).from, bytes);
      }
      return;
    case CallKind::kBroadcast:
      return Copy(call.to, group.call_of(call.peer).from, call.bytes);
    case CallKind::kSend:
    case CallKind::kRecv:
      SL_CHECK(false) << "no collective";
  }
}

// The member copies all the others' rows for it.
void ThreadGroup::Exchange(int member) const {
  const Call& own = call_of(member);
  int64_t at = 0;
  for (int m = 0; m < members_; ++m) {
    const Call& other = call_of(m);
    const int per_piece = own.rows->per_piece;
    const int64_t rows = RowsOfPiece(own.rows->received(), per_piece, m);
    const int64_t before = RowsBeforePiece(other.rows->from, per_piece, member);
    for (int a = 0; a < ArraysOf(own); ++a) {
      const RowArray to = ArrayOf(own, a);
      Copy(At(to.to, at * to.bytes), At(ArrayOf(other, a).from, before * to.bytes),
           rows * to.bytes);
    }
    at += rows;
  }
}

// The member adds up its slice of the numbers and writes the sum to all receivers.
void ThreadGroup::Reduce(int member) const {
  constexpr int64_t kFloat = sizeof(float), kBlock = 1024 * kFloat;
  const SumSlice slice = SliceOf(call_of(member), member, members_, kFloat);
  float sum[kBlock / kFloat];
  for (int64_t begin = slice.begin; begin < slice.end; begin += kBlock) {
    const int64_t bytes = std::min(kBlock, slice.end - begin), count = bytes / kFloat;
    std::memcpy(sum, At(call_of(0).from, begin), bytes);
    for (int m = 1; m < members_; ++m) {
      const auto* const from = reinterpret_cast<const float*>(At(call_of(m).from, begin));
      for (int64_t i = 0; i < count; ++i) sum[i] += from[i];
    }
    for (int m = 0; m < members_; ++m) {
      const Call& call = call_of(m);
      if (!GetAlike(call, member, m)) continue;
      std::memcpy(At(call.to, PlaceInSum(call, m, begin)), sum, bytes);
    }
  }
}

void ThreadGroup::Scatter(int member) const {
  const Call& own = call_of(member);
  const int64_t floats = own.bytes / static_cast<int64_t>(sizeof(float));
  auto* const to = static_cast<float*>(own.to);
  for (int m = 0; m < members_; ++m) {
    const float* const from = static_cast<const float*>(call_of(m).from) + member * floats;
    for (int64_t i = 0; i < floats; ++i) to[i] = m == 0 ? from[i] : to[i] + from[i];
  }
}

}  // namespace stringline
