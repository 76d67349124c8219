// A group's calls, when the device issues them: grouped sends and receives, and the kernels between
// them. Nothing here waits, except for counts, and for NCCL where it says so.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/copies/kernels.h"
#include "executor/nccl/kernels.h"
#include "executor/nccl/nccl_groups.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kVector = 4;  // floats; slices of sums begin at whole ones

char* Offset(void* buffer, int64_t bytes) { return static_cast<char*>(buffer) + bytes; }
const char* Offset(const void* buffer, int64_t bytes) {
  return static_cast<const char*>(buffer) + bytes;
}

int64_t RowsOf(const int32_t* counts, int piece, int per_piece) {
  int64_t rows = 0;
  for (int i = 0; i < per_piece; ++i) rows += counts[piece * per_piece + i];
  return rows;
}

int64_t MostPieceRows(const RowCounts& rows) {
  return rows.most_piece_rows > 0 ? rows.most_piece_rows : rows.most_rows;
}

}  // namespace

NcclGroup::NcclGroup(NcclGroups* owner, absl::Span<const int> ranks,
                     absl::Span<const MemberPair> talks)
    : owner_(owner),
      device_(owner->device_),
      ranks_(ranks.begin(), ranks.end()),
      talks_(talks.begin(), talks.end()),
      turn_(1, this) {
  const auto own = std::find(ranks_.begin(), ranks_.end(), owner->world_->process());
  if (own != ranks_.end()) own_ = static_cast<int>(own - ranks_.begin());
  turn_.exchange = Perform;
  device_->AddCheck(EndStep, this);
}

NcclGroup::~NcclGroup() {
  for (const Issued& issued : issued_) (void)cudaEventDestroy(issued.after);
}

std::string NcclGroup::Name() const { return absl::StrCat("ranks ", absl::StrJoin(ranks_, ", ")); }

void NcclGroup::Enqueue(int member, StreamId stream, const Call* call) {
  SL_CHECK(member == own_) << "member " << member << " of " << Name() << " is not of this process";
  if (!checked_) enqueued_.push_back(call);
  if (unprepared_.ok()) Prepare(*call);
  device_->Meet(stream, &turn_, 0, call);
}

// Memory.

void NcclGroup::Prepare(const Call& call) {
  const int64_t n = members();
  const NcclSettings& settings = owner_->comms_->settings();
  const bool sums = call.kind == CallKind::kAllReduce || call.kind == CallKind::kReduceScatter;
  if (sums && n > 1 && settings.sums == NcclSums::kOrdered) {
    unprepared_ = Reserve(n * SliceBytes(call));
    return;
  }
  if (call.kind != CallKind::kAllToAllCounted) return;
  if (settings.rows == NcclRows::kPadded) {
    unprepared_ = Reserve(2 * n * PieceBytes(MostPieceRows(*call.rows), call.bytes));
    if (report_ != nullptr || !unprepared_.ok()) return;
    const absl::StatusOr<void*> report = device_->AllocateHost(sizeof(RowsReport));
    unprepared_ = report.status();
    if (report.ok()) report_ = new (*report) RowsReport;
    return;
  }
  const int64_t size = 2 * n * call.rows->per_piece;
  if (size <= host_counts_size_) return;
  const absl::StatusOr<void*> counts = device_->AllocateHost(size * int64_t{sizeof(int32_t)});
  unprepared_ = counts.status();
  if (!counts.ok()) return;
  host_counts_ = static_cast<int32_t*>(*counts);
  host_counts_size_ = size;
}

// How much of everybody is summed at a time. All members say the same, whatever they have reserved.
int64_t NcclGroup::SliceBytes(const Call& call) const {
  constexpr int64_t kUnit = kVector * kFloat;
  const int64_t n = members(), most = owner_->comms_->settings().workspace_bytes / n;
  const int64_t needed = call.kind == CallKind::kAllReduce ? call.bytes / n + kUnit
                         : call.pieces != nullptr          ? MostSlice(call)
                                                           : call.bytes;
  return std::max<int64_t>(std::min(most, needed + kUnit) / kUnit, 1) * kUnit;
}

int64_t NcclGroup::MostSlice(const Call& call) const {
  int64_t most = 0;
  for (int m = 0; m < members(); ++m) {
    most = std::max(most, SliceOf(call, m, members(), kVector * kFloat).bytes());
  }
  return most;
}

absl::Status NcclGroup::Reserve(int64_t bytes) {
  if (bytes <= workspace_bytes_) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(void* const memory, device_->Allocate(bytes));
  workspace_ = static_cast<char*>(memory);
  workspace_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status NcclGroup::TakeWorkspace(StreamId stream) {
  const StreamId before = std::exchange(workspace_on_, stream);
  if (!before.valid() || before == stream) return absl::OkStatus();
  return device_->Order(before, stream);
}

// What NCCL is told.

absl::Status NcclGroup::Done(nccl::Result result, const char* call) {
  return owner_->comms_->Settle(comm_, result, call);
}

// In a group calls only note what is to be done; GroupEnd does it, and is called in any case.
template <typename Body>
absl::Status NcclGroup::WithOthers(Body body) {
  const nccl::Library& library = owner_->comms_->library();
  SL_RETURN_IF_ERROR(Done(library.GroupStart(), "ncclGroupStart"));
  absl::Status status;
  for (int m = 0; m < members() && status.ok(); ++m) {
    if (m != own_) status = body(m);
  }
  const nccl::Result ended = library.GroupEnd();
  return status.ok() ? Done(ended, "ncclGroupEnd") : status;
}

absl::Status NcclGroup::Send(int member, const void* from, int64_t bytes, StreamId stream) {
  if (bytes == 0) return absl::OkStatus();
  return Done(owner_->comms_->library().Send(from, static_cast<size_t>(bytes), nccl::kInt8, member,
                                             comm_, device_->native(stream)),
              "ncclSend");
}

absl::Status NcclGroup::Recv(int member, void* to, int64_t bytes, StreamId stream) {
  if (bytes == 0) return absl::OkStatus();
  return Done(owner_->comms_->library().Recv(to, static_cast<size_t>(bytes), nccl::kInt8, member,
                                             comm_, device_->native(stream)),
              "ncclRecv");
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
    if (status == group.owner_->world_->state()) return status;  // another's, which says it all
    return absl::Status(status.code(), absl::StrCat(DescribeWithAction(call), " among ",
                                                    group.Name(), ": ", status.message()));
  }
  SL_RETURN_IF_ERROR(group.NoteIssued(call, stream));
  return call.ended_ns == nullptr ? absl::OkStatus()
                                  : group.device_->NoteTime(stream, call.ended_ns);
}

absl::Status NcclGroup::Capturable(const Call& call) const {
  const NcclSettings& settings = owner_->comms_->settings();
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
  if (owner_->comms_->aborted()) return absl::AbortedError("the communicators were aborted");
  SL_RETURN_IF_ERROR(unprepared_);
  if (comm_ == nullptr && members() > 1) {
    return absl::FailedPreconditionError("the group is not connected");
  }
  switch (call.kind) {
    case CallKind::kSend:
    case CallKind::kRecv:
      return Message(call, stream);
    case CallKind::kAllToAll:
      return AllToAll(call, stream);
    case CallKind::kAllToAllCounted:
      return owner_->comms_->settings().rows == NcclRows::kPadded ? PaddedRowsOf(call, stream)
                                                                  : CountedRows(call, stream);
    case CallKind::kAllReduce:
      return AllReduce(call, stream);
    case CallKind::kReduceScatter:
      return ReduceScatter(call, stream);
    case CallKind::kAllGather:
      return AllGather(call, stream);
    case CallKind::kBroadcast:
      return Broadcast(call, stream);
  }
  return absl::OkStatus();
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
  return group.report_ == nullptr ? absl::OkStatus() : StatusOf(*group.report_);
}

std::string NcclGroup::Awaited() const {
  for (size_t i = 0; i < (device_->replaying() ? captured_count_ : issued_count_); ++i) {
    const Issued& issued = issued_[i];
    if (cudaEventQuery(issued.after) != cudaErrorNotReady) continue;
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

// The calls.

absl::Status NcclGroup::Message(const Call& call, StreamId stream) {
  if (call.kind == CallKind::kSend) {
    return call.from == nullptr ? absl::OkStatus() : Send(call.peer, call.from, call.bytes, stream);
  }
  return call.to == nullptr ? absl::OkStatus() : Recv(call.peer, call.to, call.bytes, stream);
}

absl::Status NcclGroup::AllToAll(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int64_t b = call.bytes;
  SL_RETURN_IF_ERROR(
      device_->Move(stream, Offset(call.to, own_ * b), Offset(call.from, own_ * b), b));
  if (members() == 1) return absl::OkStatus();
  return WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(Send(m, Offset(call.from, m * b), b, stream));
    return Recv(m, Offset(call.to, m * b), b, stream);
  });
}

absl::Status NcclGroup::AllGather(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  if (call.pieces != nullptr) return GatherPieces(call, stream);
  const int64_t b = call.bytes;
  const NcclComms& comms = *owner_->comms_;
  if (comms.settings().sums == NcclSums::kNccl && members() > 1) {
    return Done(comms.library().AllGather(call.from, call.to, static_cast<size_t>(b), nccl::kInt8,
                                          comm_, device_->native(stream)),
                "ncclAllGather");
  }
  SL_RETURN_IF_ERROR(device_->Move(stream, Offset(call.to, own_ * b), call.from, b));
  if (members() == 1) return absl::OkStatus();
  return WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(Send(m, call.from, b, stream));
    return Recv(m, Offset(call.to, m * b), b, stream);
  });
}

absl::Status NcclGroup::GatherPieces(const Call& call, StreamId stream) {
  const Pieces& pieces = *call.pieces;
  char* const place = Offset(call.to, pieces.begin[own_]);
  if (place != call.from) {
    SL_RETURN_IF_ERROR(device_->Move(stream, place, call.from, pieces.bytes(own_)));
  }
  if (members() == 1) return absl::OkStatus();
  return WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(Send(m, call.from, pieces.bytes(own_), stream));
    return Recv(m, Offset(call.to, pieces.begin[m]), pieces.bytes(m), stream);
  });
}

absl::Status NcclGroup::Broadcast(const Call& call, StreamId stream) {
  const bool root = call.peer == own_;
  if ((root ? call.from : call.to) == nullptr) return absl::OkStatus();
  if (root && call.to != nullptr) {
    SL_RETURN_IF_ERROR(device_->Move(stream, call.to, call.from, call.bytes));
  }
  if (members() == 1) return absl::OkStatus();
  if (!root) return Recv(call.peer, call.to, call.bytes, stream);
  return WithOthers([&](int m) { return Send(m, call.from, call.bytes, stream); });
}

// A workspace at a time: member m adds up the m-th slice of it, and gives the sum to all. What is
// sent of `from` is not the own slice, which the sum may be written to.
absl::Status NcclGroup::AllReduce(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int n = members();
  if (n == 1) return device_->Move(stream, call.to, call.from, call.bytes);
  const NcclComms& comms = *owner_->comms_;
  if (comms.settings().sums == NcclSums::kNccl) {
    return Done(
        comms.library().AllReduce(call.from, call.to, static_cast<size_t>(call.bytes / kFloat),
                                  nccl::kFloat32, nccl::kSum, comm_, device_->native(stream)),
        "ncclAllReduce");
  }
  SL_RETURN_IF_ERROR(TakeWorkspace(stream));
  const int64_t floats = call.bytes / kFloat;
  const int64_t slice = SliceBytes(call);
  const int64_t most = n * slice / kFloat;
  for (int64_t first = 0; first < floats; first += most) {
    const int64_t count = std::min(most, floats - first);
    const int64_t vectors = (count + kVector - 1) / kVector;
    const auto begin_of = [&](int m) { return std::min(count, vectors * m / n * kVector); };
    const auto bytes_of = [&](int m) { return (begin_of(m + 1) - begin_of(m)) * kFloat; };
    const auto* const from = static_cast<const float*>(call.from) + first;
    auto* const to = static_cast<float*>(call.to) + first;
    SL_RETURN_IF_ERROR(WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(Send(m, from + begin_of(m), bytes_of(m), stream));
      return Recv(m, workspace_ + m * slice, bytes_of(own_), stream);
    }));
    SL_RETURN_IF_ERROR(
        Sum(from + begin_of(own_), slice, to + begin_of(own_), bytes_of(own_) / kFloat, stream));
    SL_RETURN_IF_ERROR(WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(Send(m, to + begin_of(own_), bytes_of(own_), stream));
      return Recv(m, to + begin_of(m), bytes_of(m), stream);
    }));
  }
  return absl::OkStatus();
}

absl::Status NcclGroup::ReduceScatter(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  if (call.pieces != nullptr) return ReducePieces(call, stream);
  const int n = members();
  if (n == 1) return device_->Move(stream, call.to, call.from, call.bytes);
  const NcclComms& comms = *owner_->comms_;
  if (comms.settings().sums == NcclSums::kNccl) {
    return Done(
        comms.library().ReduceScatter(call.from, call.to, static_cast<size_t>(call.bytes / kFloat),
                                      nccl::kFloat32, nccl::kSum, comm_, device_->native(stream)),
        "ncclReduceScatter");
  }
  SL_RETURN_IF_ERROR(TakeWorkspace(stream));
  const int64_t most = SliceBytes(call);
  for (int64_t first = 0; first < call.bytes; first += most) {
    const int64_t bytes = std::min(most, call.bytes - first);
    SL_RETURN_IF_ERROR(WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(Send(m, Offset(call.from, m * call.bytes + first), bytes, stream));
      return Recv(m, workspace_ + m * most, bytes, stream);
    }));
    SL_RETURN_IF_ERROR(Sum(Offset(call.from, own_ * call.bytes + first), most,
                           Offset(call.to, first), bytes / kFloat, stream));
  }
  return absl::OkStatus();
}

// In rounds of what the workspace holds of every slice: each member adds up its own, and gives the
// sum to those who get it too. NCCL's own sums are made of the whole, in its place.
absl::Status NcclGroup::ReducePieces(const Call& call, StreamId stream) {
  const int n = members();
  char* const to = static_cast<char*>(call.to);
  const NcclComms& comms = *owner_->comms_;
  if (n > 1 && comms.settings().sums == NcclSums::kNccl) {
    SL_RETURN_IF_ERROR(
        Done(comms.library().AllReduce(call.from, const_cast<void*>(call.from),
                                       static_cast<size_t>(call.bytes / kFloat), nccl::kFloat32,
                                       nccl::kSum, comm_, device_->native(stream)),
             "ncclAllReduce"));
  }
  if (n == 1 || comms.settings().sums == NcclSums::kNccl) {
    const int piece = call.pieces->Of(own_);
    const char* const from = Offset(call.from, call.pieces->begin[piece]);
    return from == to ? absl::OkStatus()
                      : device_->Move(stream, to, from, call.pieces->bytes(piece));
  }
  SL_RETURN_IF_ERROR(TakeWorkspace(stream));
  const int64_t round = SliceBytes(call), most = MostSlice(call);
  for (int64_t first = 0; first < most; first += round) {
    const auto part_of = [&](int m) {
      const SumSlice slice = SliceOf(call, m, n, kVector * kFloat);
      const int64_t begin = std::min(slice.begin + first, slice.end);
      return SumSlice{begin, std::min(begin + round, slice.end)};
    };
    const SumSlice own = part_of(own_);
    SL_RETURN_IF_ERROR(WithOthers([&](int m) {
      const SumSlice part = part_of(m);
      SL_RETURN_IF_ERROR(Send(m, Offset(call.from, part.begin), part.bytes(), stream));
      return Recv(m, workspace_ + m * round, own.bytes(), stream);
    }));
    char* const sum = to + PlaceInSum(call, own_, own.begin);
    if (own.bytes() > 0) {
      SL_RETURN_IF_ERROR(
          Sum(Offset(call.from, own.begin), round, sum, own.bytes() / kFloat, stream));
    }
    SL_RETURN_IF_ERROR(WithOthers([&](int m) {
      if (!GetAlike(call, own_, m)) return absl::OkStatus();
      const SumSlice part = part_of(m);
      SL_RETURN_IF_ERROR(Send(m, sum, own.bytes(), stream));
      return Recv(m, to + PlaceInSum(call, own_, part.begin), part.bytes(), stream);
    }));
  }
  return absl::OkStatus();
}

// to = the sum, in the order of the members, of this one's floats and those in the workspace, of
// which member m's are `slice` bytes times m from its beginning.
absl::Status NcclGroup::Sum(const void* own, int64_t slice, void* to, int64_t count,
                            StreamId stream) {
  if (members() > kMostCopyMembers) {
    return absl::UnimplementedError(
        absl::StrCat("sums in the order of at most ", kMostCopyMembers, " members are possible"));
  }
  SumShare share;
  share.summands = members();
  share.targets = 1;
  share.count = count;
  share.to[0] = static_cast<float*>(to);
  for (int m = 0; m < members(); ++m) {
    share.from[m] = static_cast<const float*>(m == own_ ? own : workspace_ + m * slice);
  }
  LaunchSum(share, device_->native(stream));
  return device_->LaunchError(stream);
}

absl::Status NcclGroup::PaddedRowsOf(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int n = members();
  SL_RETURN_IF_ERROR(TakeWorkspace(stream));
  PaddedRows rows;
  rows.pieces = workspace_;
  rows.rows = const_cast<void*>(call.from);
  rows.counts = call.rows->from;
  rows.counts_per_piece = call.rows->per_piece;
  rows.members = n;
  rows.row_bytes = call.bytes;
  rows.most_piece_rows = MostPieceRows(*call.rows);
  rows.piece_bytes = PieceBytes(rows.most_piece_rows, rows.row_bytes);
  LaunchPackRows(rows, device_->native(stream));
  SL_RETURN_IF_ERROR(device_->LaunchError(stream));
  char* const got = workspace_ + n * rows.piece_bytes;
  SL_RETURN_IF_ERROR(device_->Move(stream, got + own_ * rows.piece_bytes,
                                   workspace_ + own_ * rows.piece_bytes, rows.piece_bytes));
  if (n > 1) {
    SL_RETURN_IF_ERROR(WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(Send(m, workspace_ + m * rows.piece_bytes, rows.piece_bytes, stream));
      return Recv(m, got + m * rows.piece_bytes, rows.piece_bytes, stream);
    }));
  }
  rows.pieces = got;
  rows.rows = call.to;
  rows.counts = call.rows->to;
  rows.most_rows = call.rows->most_rows;
  rows.member = own_;
  rows.call = &call;
  rows.report = report_;
  LaunchUnpackRows(rows, device_->native(stream));
  return device_->LaunchError(stream);
}

absl::Status NcclGroup::CountedRows(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int n = members(), per_piece = call.rows->per_piece;
  const int64_t size = int64_t{n} * per_piece * static_cast<int64_t>(sizeof(int32_t));
  int32_t* const from = host_counts_;
  int32_t* const to = host_counts_ + int64_t{n} * per_piece;
  SL_RETURN_IF_ERROR(device_->Move(stream, from, call.rows->from, size));
  SL_RETURN_IF_ERROR(device_->Move(stream, to, call.rows->to, size));
  SL_RETURN_IF_ERROR(NcclGroups::Checked(cudaEventRecord(owner_->counted_, device_->native(stream)),
                                         "cudaEventRecord"));
  SL_RETURN_IF_ERROR(owner_->WaitFor(owner_->counted_));
  // Rows before each piece.
  std::vector<int64_t> before_from = {0}, before_to = {0};
  for (int m = 0; m < n; ++m) {
    before_from.push_back(before_from[m] + RowsOf(from, m, per_piece));
    before_to.push_back(before_to[m] + RowsOf(to, m, per_piece));
  }
  const int64_t b = call.bytes, all = before_to[n];
  const int64_t sent = before_from[own_ + 1] - before_from[own_];
  const int64_t kept = before_to[own_ + 1] - before_to[own_];
  if (sent != kept) {
    return StatusOf({RowsFault::kCountsDiffer, own_, own_, sent, kept, &call});
  }
  if (all > call.rows->most_rows) {
    return StatusOf({RowsFault::kNoRoom, -1, own_, all, call.rows->most_rows, &call});
  }
  SL_RETURN_IF_ERROR(device_->Move(stream, Offset(call.to, before_to[own_] * b),
                                   Offset(call.from, before_from[own_] * b), kept * b));
  if (n == 1) return absl::OkStatus();
  return WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(Send(m, Offset(call.from, before_from[m] * b),
                            (before_from[m + 1] - before_from[m]) * b, stream));
    return Recv(m, Offset(call.to, before_to[m] * b), (before_to[m + 1] - before_to[m]) * b,
                stream);
  });
}

}  // namespace stringline
