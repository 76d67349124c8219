// A group's calls at issue: grouped sends and receives, and kernels between them. The host never
// waits here, except for counts, and for NCCL's calls in progress.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/cuda/copies/kernels.h"
#include "executor/cuda/cuda_error.h"
#include "executor/nccl/kernels.h"
#include "executor/nccl/nccl_groups.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// -1: not a member.
int MemberOf(absl::Span<const int> ranks, int rank) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank);
  return own == ranks.end() ? -1 : static_cast<int>(own - ranks.begin());
}

}  // namespace

NcclGroup::NcclGroup(NcclGroups* owner, absl::Span<const int> ranks,
                     absl::Span<const MemberPair> talks)
    : owner_(owner),
      device_(owner->device_),
      ranks_(ranks.begin(), ranks.end()),
      talks_(talks.begin(), talks.end()),
      member_(owner->comms_.get(), device_, static_cast<int>(ranks.size()),
              MemberOf(ranks, owner->world_->process())),
      sums_(&member_),
      rows_(&member_),
      turn_(1, this) {
  turn_.exchange = Perform;
  device_->AddCheck(EndStep, this);
}

NcclGroup::~NcclGroup() {
  for (const Issued& issued : issued_) (void)cudaEventDestroy(issued.after);
}

std::string NcclGroup::Name() const { return absl::StrCat("ranks ", absl::StrJoin(ranks_, ", ")); }

void NcclGroup::Enqueue(int member, StreamId stream, const Call* call) {
  SL_CHECK(member == member_.own())
      << "member " << member << " of " << Name() << " is not of this process";
  if (!checked_) enqueued_.push_back(call);
  if (unprepared_.ok()) unprepared_ = Prepare(*call);
  device_->Meet(stream, &turn_, 0, call);
}

absl::Status NcclGroup::Prepare(const Call& call) {
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      return sums_.Prepare(call);
    case CallKind::kAllToAllCounted:
      return rows_.Prepare(call);
    default:
      return absl::OkStatus();
  }
}

absl::Status NcclGroup::Perform(void* self, IssueMeeting::Ends ends,
                                IssueMeeting::Streams streams) {
  auto& group = *static_cast<NcclGroup*>(self);
  const Call& call = *static_cast<const Call*>(ends[0]);
  const StreamId stream = streams[0];
  SL_RETURN_IF_ERROR(group.owner_->calls_differ_);
  const absl::Status status = group.Give(call, stream);
  if (!status.ok()) {
    if (absl::StartsWith(status.message(), Describe(call))) return status;
    if (status == group.owner_->world_->state())
      return status;  // another process's failure, which
                      // is complete already
    return absl::Status(status.code(), absl::StrCat(DescribeWithAction(call), " among ",
                                                    group.Name(), ": ", status.message()));
  }
  SL_RETURN_IF_ERROR(group.NoteIssued(call, stream));
  return call.ended_ns == nullptr ? absl::OkStatus()
                                  : group.device_->NoteTime(stream, call.ended_ns);
}

absl::Status NcclGroup::Capturable(const Call& call) const {
  const NcclSettings& settings = member_.settings();
  if (!settings.capture) {
    return absl::FailedPreconditionError(
        "calls between processes are not captured without 'nccl: {capture: true}'");
  }
  if (call.kind == CallKind::kAllToAllCounted && settings.rows == NcclRows::kCounted) {
    return absl::FailedPreconditionError(
        "the host waits for the counts; 'nccl: {rows: padded}' would not");
  }
  return absl::OkStatus();
}

absl::Status NcclGroup::Give(const Call& call, StreamId stream) {
  if (device_->capturing()) SL_RETURN_IF_ERROR(Capturable(call));
  if (member_.comms().aborted()) return absl::AbortedError("the communicators were aborted");
  SL_RETURN_IF_ERROR(unprepared_);
  if (member_.comm() == nullptr && members() > 1) {
    return absl::FailedPreconditionError("the group is not connected");
  }
  switch (call.kind) {
    case CallKind::kSend:
    case CallKind::kRecv:
      return Message(call, stream);
    case CallKind::kAllToAllCounted:
      if (member_.settings().rows == NcclRows::kPadded) return rows_.Padded(call, stream);
      return rows_.Counted(call, stream, [this](StreamId of) { return WaitForStream(of); });
    case CallKind::kAllReduce:
      return sums_.AllReduce(call, stream);
    case CallKind::kReduceScatter:
      return sums_.ReduceScatter(call, stream);
    case CallKind::kAllGather:
      return AllGather(call, stream);
    case CallKind::kBroadcast:
      return Broadcast(call, stream);
  }
  return absl::OkStatus();
}

absl::Status NcclGroup::WaitForStream(StreamId stream) {
  SL_RETURN_IF_ERROR(NcclGroups::Checked(cudaEventRecord(owner_->counted_, device_->native(stream)),
                                         "cudaEventRecord"));
  return owner_->WaitFor(owner_->counted_);
}

absl::Status NcclGroup::NoteIssued(const Call& call, StreamId stream) {
  if (issued_count_ == issued_.size()) {
    cudaEvent_t after = nullptr;
    SL_RETURN_IF_ERROR(NcclGroups::Checked(cudaEventCreateWithFlags(&after, cudaEventDisableTiming),
                                           "cudaEventCreateWithFlags"));
    issued_.push_back({after, nullptr});
  }
  Issued& issued = issued_[issued_count_++];
  issued.call = &call;
  if (device_->capturing()) captured_count_ = issued_count_;
  return NcclGroups::Checked(
      cudaEventRecordWithFlags(
          issued.after, device_->native(stream),
          device_->capturing() ? cudaEventRecordExternal : cudaEventRecordDefault),
      "cudaEventRecord");
}

absl::Status NcclGroup::EndStep(const void* self) {
  auto& group = *const_cast<NcclGroup*>(static_cast<const NcclGroup*>(self));
  group.issued_count_ = 0;
  return group.rows_.EndStep();
}

std::string NcclGroup::Awaited() const {
  for (size_t i = 0; i < (device_->replaying() ? captured_count_ : issued_count_); ++i) {
    const Issued& issued = issued_[i];
    if (cuda::Query(issued.after) != cudaErrorNotReady) continue;
    const Call& call = *issued.call;
    const bool message = call.kind == CallKind::kSend || call.kind == CallKind::kRecv;
    const std::string with =
        message ? absl::StrCat(call.kind == CallKind::kSend ? " to rank " : " from rank ",
                               ranks_[call.peer])
                : absl::StrCat(" among ", Name());
    return absl::StrCat(Describe(call), with, DescribeAction(call));
  }
  return "";
}

absl::Status NcclGroup::Message(const Call& call, StreamId stream) {
  if (call.kind == CallKind::kSend) {
    return call.from == nullptr ? absl::OkStatus()
                                : member_.Send(call.peer, call.from, call.bytes, stream);
  }
  return call.to == nullptr ? absl::OkStatus()
                            : member_.Recv(call.peer, call.to, call.bytes, stream);
}

absl::Status NcclGroup::AllGather(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  if (call.pieces != nullptr) return GatherPieces(call, stream);
  const int64_t b = call.bytes;
  const NcclComms& comms = member_.comms();
  if (member_.settings().sums == NcclSums::kNccl && members() > 1) {
    return member_.Done(
        comms.library().AllGather(call.from, call.to, static_cast<size_t>(b), nccl::kInt8,
                                  member_.comm(), device_->native(stream)),
        "ncclAllGather");
  }
  SL_RETURN_IF_ERROR(device_->Move(stream, Offset(call.to, member_.own() * b), call.from, b));
  if (members() == 1) return absl::OkStatus();
  return member_.WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(member_.Send(m, call.from, b, stream));
    return member_.Recv(m, Offset(call.to, m * b), b, stream);
  });
}

absl::Status NcclGroup::GatherPieces(const Call& call, StreamId stream) {
  const Pieces& pieces = *call.pieces;
  char* const place = Offset(call.to, pieces.begin[member_.own()]);
  if (place != call.from) {
    SL_RETURN_IF_ERROR(device_->Move(stream, place, call.from, pieces.bytes(member_.own())));
  }
  if (members() == 1) return absl::OkStatus();
  return member_.WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(member_.Send(m, call.from, pieces.bytes(member_.own()), stream));
    return member_.Recv(m, Offset(call.to, pieces.begin[m]), pieces.bytes(m), stream);
  });
}

absl::Status NcclGroup::Broadcast(const Call& call, StreamId stream) {
  const bool root = call.peer == member_.own();
  if ((root ? call.from : call.to) == nullptr) return absl::OkStatus();
  if (root && call.to != nullptr) {
    SL_RETURN_IF_ERROR(device_->Move(stream, call.to, call.from, call.bytes));
  }
  if (members() == 1) return absl::OkStatus();
  if (!root) return member_.Recv(call.peer, call.to, call.bytes, stream);
  return member_.WithOthers([&](int m) { return member_.Send(m, call.from, call.bytes, stream); });
}

}  // namespace stringline
