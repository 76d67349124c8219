// A call is issued to the GPU when all its ends have come to a meeting (cuda/issue.h). The first
// stream waits for all others and they for it, each member's share goes on its own stream, and all
// wait for each other again: so members may use each other's buffers.
#include "executor/cuda/copies/group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

const Call& CallAt(IssueMeeting::Ends ends, int member) {
  return *static_cast<const Call*>(ends[static_cast<size_t>(member)]);
}

const void* Offset(const void* buffer, int64_t bytes) {
  return buffer == nullptr ? nullptr : static_cast<const char*>(buffer) + bytes;
}
void* Offset(void* buffer, int64_t bytes) {
  return buffer == nullptr ? nullptr : static_cast<char*>(buffer) + bytes;
}

}  // namespace

CopyGroup::CopyGroup(CudaDevice* device, int members, const LinkSpeed& link)
    : device_(device),
      members_(members),
      link_(link),
      messages_(static_cast<size_t>(members) * static_cast<size_t>(members), IssueMeeting(2, this)),
      collective_(members, this) {
  for (IssueMeeting& meeting : messages_) {
    meeting.exchange = Message;
    meeting.describe = DescribeMessage;
  }
  collective_.exchange = Collective;
  collective_.describe = DescribeCollective;
}

void CopyGroup::Enqueue(int member, StreamId stream, const Call* call) {
  const auto meeting = [&](int from, int to) -> IssueMeeting* {
    SL_CHECK(from >= 0 && from < members_ && to >= 0 && to < members_) << from << " " << to;
    return &messages_[static_cast<size_t>(from) * members_ + to];
  };
  if (call->kind == CallKind::kSend) {
    return device_->Meet(stream, meeting(member, call->peer), 0, call);
  }
  if (call->kind == CallKind::kRecv) {
    return device_->Meet(stream, meeting(call->peer, member), 1, call);
  }
  if (call->kind == CallKind::kAllToAllCounted && pieces_ == nullptr && unprepared_.ok()) {
    unprepared_ = PrepareRows(device_->place_of(stream));
  }
  device_->Meet(stream, &collective_, member, call);
}

absl::Status CopyGroup::PrepareRows(int place) {
  if (members_ > kMostCopyMembers) return absl::OkStatus();  // refused by Collective
  const auto pieces = static_cast<int64_t>(members_) * members_;
  SL_ASSIGN_OR_RETURN(void* const memory,
                      device_->AllocateOn(place, pieces * sizeof(PieceOfRows) + sizeof(int32_t)));
  SL_ASSIGN_OR_RETURN(void* const report, device_->AllocateHost(sizeof(RowsReport)));
  pieces_ = static_cast<PieceOfRows*>(memory);
  faulty_ = reinterpret_cast<int32_t*>(pieces_ + pieces);
  report_ = new (report) RowsReport;
  device_->AddCheck(CheckRows, this);
  return absl::OkStatus();
}

absl::Status CopyGroup::Message(void* self, Ends ends, Streams streams) {
  auto& group = *static_cast<CopyGroup*>(self);
  CudaDevice& device = *group.device_;
  const Call& send = CallAt(ends, 0);
  const Call& recv = CallAt(ends, 1);
  SL_RETURN_IF_ERROR(MatchCalls(send, recv));
  SL_RETURN_IF_ERROR(device.Order(streams[0], streams[1]));
  SL_RETURN_IF_ERROR(group.Hold(streams[1], send, send.bytes));
  if (send.from != nullptr && recv.to != nullptr) {
    SL_RETURN_IF_ERROR(device.Move(streams[1], recv.to, send.from, send.bytes));
  }
  SL_RETURN_IF_ERROR(device.Order(streams[1], streams[0]));
  for (int side = 0; side < 2; ++side) {
    int64_t* const ended_ns = CallAt(ends, side).ended_ns;
    if (ended_ns != nullptr) SL_RETURN_IF_ERROR(device.NoteTime(streams[side], ended_ns));
  }
  return absl::OkStatus();
}

absl::Status CopyGroup::Collective(void* self, Ends ends, Streams streams) {
  auto& group = *static_cast<CopyGroup*>(self);
  const Call& first = CallAt(ends, 0);
  if (group.members_ > kMostCopyMembers) {
    return absl::UnimplementedError(absl::StrCat(Describe(first), " among ", group.members_,
                                                 " ranks of one process: at most ",
                                                 kMostCopyMembers, " are possible"));
  }
  for (int m = 1; m < group.members_; ++m) SL_RETURN_IF_ERROR(MatchCalls(first, CallAt(ends, m)));
  SL_RETURN_IF_ERROR(group.CheckReach(first, streams));
  SL_RETURN_IF_ERROR(group.Gather(streams));
  if (first.kind == CallKind::kAllToAllCounted) {
    SL_RETURN_IF_ERROR(group.PlanRows(ends, streams[0]));
  }
  if (const int n = group.members_; n > 1) {
    const bool counted = first.kind == CallKind::kAllToAllCounted;
    SL_RETURN_IF_ERROR(group.Hold(
        streams[0], first, counted ? (n - 1) * ToldBytes(first) : BytesOnTheWay(first, 0, n)));
  }
  SL_RETURN_IF_ERROR(group.Release(streams));
  for (int m = 0; m < group.members_; ++m) {
    SL_RETURN_IF_ERROR(group.Share(ends, m, streams[m]));
  }
  SL_RETURN_IF_ERROR(group.Gather(streams));
  SL_RETURN_IF_ERROR(group.Release(streams));
  for (int m = 0; m < group.members_; ++m) {
    int64_t* const ended_ns = CallAt(ends, m).ended_ns;
    if (ended_ns != nullptr) SL_RETURN_IF_ERROR(group.device_->NoteTime(streams[m], ended_ns));
  }
  return absl::OkStatus();
}

// Sums and counted rows are kernels that use other members' memory.
absl::Status CopyGroup::CheckReach(const Call& call, Streams streams) const {
  const bool by_kernels = call.kind == CallKind::kAllToAllCounted ||
                          call.kind == CallKind::kAllReduce ||
                          call.kind == CallKind::kReduceScatter;
  for (int m = 0; m < members_ && by_kernels; ++m) {
    for (int other = 0; other < members_; ++other) {
      if (device_->Reaches(streams[m], streams[other])) continue;
      const int gpu = device_->ordinal(device_->place_of(streams[m]));
      const int their = device_->ordinal(device_->place_of(streams[other]));
      return absl::FailedPreconditionError(absl::StrCat(
          Describe(call), ": GPU ", gpu, " has no access to the memory of GPU ", their,
          ", which sums and counted rows between GPUs of one process need; GPUs joined by NVLink, "
          "'gpus: 1' in the run file, or a process for each GPU would help"));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyGroup::Hold(StreamId stream, const Call& call, int64_t bytes) {
  if (link_.latency_ns == 0 && link_.bytes_per_s <= 0) return absl::OkStatus();
  WireHold hold;
  hold.latency_ns = link_.latency_ns;
  hold.bytes_per_s = link_.bytes_per_s;
  hold.bytes = bytes;
  if (call.kind == CallKind::kAllToAllCounted) {
    hold.pieces = pieces_;
    hold.faulty = faulty_;
    hold.members = members_;
    hold.row_bytes = RowBytes(call);
  }
  return device_->Launched(stream, [&](cudaStream_t native) { LaunchHold(hold, native); });
}

absl::Status CopyGroup::Gather(Streams streams) {
  for (int m = 1; m < members_; ++m) SL_RETURN_IF_ERROR(device_->Order(streams[m], streams[0]));
  return absl::OkStatus();
}

absl::Status CopyGroup::Release(Streams streams) {
  for (int m = 1; m < members_; ++m) SL_RETURN_IF_ERROR(device_->Order(streams[0], streams[m]));
  return absl::OkStatus();
}

absl::Status CopyGroup::PlanRows(Ends ends, StreamId stream) {
  SL_RETURN_IF_ERROR(unprepared_);
  // The previous call may still read its plan.
  if (planned_on_.valid() && planned_on_ != stream) {
    SL_RETURN_IF_ERROR(device_->Order(planned_on_, stream));
  }
  planned_on_ = stream;
  RowsPlan plan;
  for (int m = 0; m < members_; ++m) {
    const Call& call = CallAt(ends, m);
    const RowCounts& rows = *call.rows;
    plan.member[m] = {rows.from, rows.to, rows.most_rows, &call, rows.told};
  }
  plan.members = members_;
  plan.counts_per_piece = CallAt(ends, 0).rows->per_piece;
  plan.pieces = pieces_;
  plan.faulty = faulty_;
  plan.report = report_;
  return device_->Launched(stream, [&](cudaStream_t native) { LaunchPlanRows(plan, native); });
}

absl::Status CopyGroup::CheckRows(const void* self) {
  return StatusOf(*static_cast<const CopyGroup*>(self)->report_);
}

absl::Status StatusOf(const RowsReport& report) {
  if (report.fault == RowsFault::kNone) return absl::OkStatus();
  const std::string call = Describe(*static_cast<const Call*>(report.call));
  if (report.fault == RowsFault::kCountsDiffer) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": member ", report.from, " sends ",
                                                   report.rows, " rows to member ", report.to,
                                                   ", which expects ", report.expected));
  }
  return absl::OutOfRangeError(absl::StrCat(call, ": member ", report.to, " is sent ", report.rows,
                                            " rows and has room for ", report.expected));
}

absl::Status CopyGroup::Share(Ends ends, int member, StreamId stream) {
  const Call& call = CallAt(ends, member);
  switch (call.kind) {
    case CallKind::kAllToAllCounted:
      return SendRows(ends, member, stream);
    case CallKind::kAllReduce:
      return Reduce(ends, member, stream);
    case CallKind::kReduceScatter:
      return call.pieces == nullptr ? Scatter(ends, member, stream) : Reduce(ends, member, stream);
    case CallKind::kAllGather:
      for (int m = 0; m < members_; ++m) {
        const int64_t begin = call.pieces == nullptr ? m * call.bytes : call.pieces->begin[m];
        const int64_t bytes = call.pieces == nullptr ? call.bytes : call.pieces->bytes(m);
        SL_RETURN_IF_ERROR(Copy(stream, Offset(call.to, begin), CallAt(ends, m).from, bytes));
      }
      return absl::OkStatus();
    case CallKind::kBroadcast:
      return Copy(stream, call.to, CallAt(ends, call.peer).from, call.bytes);
    case CallKind::kSend:
    case CallKind::kRecv:
      break;
  }
  SL_CHECK(false) << "no collective";
  return absl::OkStatus();
}

absl::Status CopyGroup::Copy(StreamId stream, void* to, const void* from, int64_t bytes) {
  if (to == nullptr || from == nullptr || to == from || bytes == 0) return absl::OkStatus();
  return device_->Move(stream, to, from, bytes);
}

absl::Status CopyGroup::SendRows(Ends ends, int member, StreamId stream) {
  const Call& own = CallAt(ends, member);
  for (int a = 0; a < ArraysOf(own); ++a) {
    const RowArray of = ArrayOf(own, a);
    RowsShare share;
    share.from = of.from;
    share.members = members_;
    share.row_bytes = of.bytes;
    share.pieces = pieces_ + static_cast<ptrdiff_t>(member) * members_;
    share.faulty = faulty_;
    bool moves = of.from != nullptr;
    for (int m = 0; m < members_; ++m) {
      share.to[m] = ArrayOf(CallAt(ends, m), a).to;
      moves = moves && share.to[m] != nullptr;
    }
    if (!moves) continue;
    SL_RETURN_IF_ERROR(
        device_->Launched(stream, [&](cudaStream_t native) { LaunchSendRows(share, native); }));
  }
  return absl::OkStatus();
}

// The member adds up its slice of the numbers and writes the sum to all receivers. Slices begin at
// whole vectors.
absl::Status CopyGroup::Reduce(Ends ends, int member, StreamId stream) {
  constexpr int64_t kVectorBytes = 4 * sizeof(float);
  const SumSlice slice = SliceOf(CallAt(ends, member), member, members_, kVectorBytes);
  SumShare share;
  share.summands = members_;
  share.count = slice.bytes() / static_cast<int64_t>(sizeof(float));
  if (share.count == 0) return absl::OkStatus();
  for (int m = 0; m < members_; ++m) {
    const Call& call = CallAt(ends, m);
    if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
    share.from[m] = static_cast<const float*>(Offset(call.from, slice.begin));
    if (!GetAlike(call, member, m)) continue;
    share.to[share.targets++] =
        static_cast<float*>(Offset(call.to, PlaceInSum(call, m, slice.begin)));
  }
  return device_->Launched(stream, [&](cudaStream_t native) { LaunchSum(share, native); });
}

absl::Status CopyGroup::Scatter(Ends ends, int member, StreamId stream) {
  const Call& own = CallAt(ends, member);
  SumShare share;
  share.summands = members_;
  share.targets = 1;
  share.count = own.bytes / static_cast<int64_t>(sizeof(float));
  share.to[0] = static_cast<float*>(own.to);
  if (own.to == nullptr) return absl::OkStatus();
  for (int m = 0; m < members_; ++m) {
    share.from[m] = static_cast<const float*>(Offset(CallAt(ends, m).from, member * own.bytes));
    if (share.from[m] == nullptr) return absl::OkStatus();
  }
  return device_->Launched(stream, [&](cudaStream_t native) { LaunchSum(share, native); });
}

std::string CopyGroup::DescribeMessage(const void* /*self*/, int side, const void* end) {
  return absl::StrCat(side == 0 ? "somebody to receive " : "somebody to send ",
                      DescribeData(*static_cast<const Call*>(end)),
                      DescribeAction(*static_cast<const Call*>(end)));
}

std::string CopyGroup::DescribeCollective(const void* /*self*/, int /*side*/, const void* end) {
  return absl::StrCat("the other members in ", DescribeWithAction(*static_cast<const Call*>(end)));
}

}  // namespace stringline
