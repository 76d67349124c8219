#include "executor/nccl/nccl_row_transfers.h"

#include <new>

#include "executor/nccl/kernels.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

static_assert(kMostPaddedArrays == kMostRowArrays);

int64_t MostPieceRows(const RowCounts& rows) {
  return rows.most_piece_rows > 0 ? rows.most_piece_rows : rows.most_rows;
}

// The pieces of a call as far as they are alike for packing and unpacking.
PaddedRows PaddedLike(const Call& call, int members) {
  PaddedRows rows;
  rows.counts_per_piece = call.rows->per_piece;
  rows.members = members;
  rows.most_piece_rows = MostPieceRows(*call.rows);
  rows.arrays = ArraysOf(call);
  for (int a = 0; a < rows.arrays; ++a) rows.array[a].row_bytes = ArrayOf(call, a).bytes;
  rows.tells = call.rows->tells();
  LayOutPieces(&rows);
  return rows;
}

// Rehearsals have no buffers.
bool Moves(const Call& call) {
  for (int a = 0; a < ArraysOf(call); ++a) {
    if (ArrayOf(call, a).from == nullptr || ArrayOf(call, a).to == nullptr) return false;
  }
  return true;
}

}  // namespace

absl::Status NcclRowTransfers::Prepare(const Call& call) {
  const int n = member_.members();
  if (member_.settings().rows == NcclRows::kPadded) {
    SL_RETURN_IF_ERROR(member_.Reserve(2 * n * PaddedLike(call, n).piece_bytes));
    if (report_ != nullptr) return absl::OkStatus();
    SL_ASSIGN_OR_RETURN(void* const report, member_.device()->AllocateHost(sizeof(RowsReport)));
    report_ = new (report) RowsReport;
    return absl::OkStatus();
  }
  const int64_t size = int64_t{2} * n * call.rows->per_piece;
  if (size <= host_counts_size_) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(void* const counts,
                      member_.device()->AllocateHost(size * int64_t{sizeof(int32_t)}));
  host_counts_ = static_cast<int32_t*>(counts);
  host_counts_size_ = size;
  return absl::OkStatus();
}

absl::Status NcclRowTransfers::Padded(const Call& call, StreamId stream) {
  if (!Moves(call)) return absl::OkStatus();
  const int n = member_.members();
  SL_RETURN_IF_ERROR(member_.TakeWorkspace(stream));
  PaddedRows rows = PaddedLike(call, n);
  rows.pieces = member_.workspace();
  rows.counts = call.rows->from;
  for (int a = 0; a < rows.arrays; ++a) {
    rows.array[a].rows = const_cast<void*>(ArrayOf(call, a).from);
  }
  LaunchPackRows(rows, member_.device()->native(stream));
  SL_RETURN_IF_ERROR(member_.device()->LaunchError(stream));
  char* const got = member_.workspace() + n * rows.piece_bytes;
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, got + member_.own() * rows.piece_bytes,
                                            member_.workspace() + member_.own() * rows.piece_bytes,
                                            rows.piece_bytes));
  if (n > 1) {
    SL_RETURN_IF_ERROR(member_.WithOthers([&](int m) {
      SL_RETURN_IF_ERROR(
          member_.Send(m, member_.workspace() + m * rows.piece_bytes, rows.piece_bytes, stream));
      return member_.Recv(m, got + m * rows.piece_bytes, rows.piece_bytes, stream);
    }));
  }
  rows.pieces = got;
  rows.counts = call.rows->to;
  rows.told = call.rows->told;
  for (int a = 0; a < rows.arrays; ++a) rows.array[a].rows = ArrayOf(call, a).to;
  rows.most_rows = call.rows->most_rows;
  rows.member = member_.own();
  rows.call = &call;
  rows.report = report_;
  LaunchUnpackRows(rows, member_.device()->native(stream));
  return member_.device()->LaunchError(stream);
}

// Each member's counts go to their receivers.
absl::Status NcclRowTransfers::Tell(const Call& call, StreamId stream) {
  const int64_t bytes = ToldBytes(call);
  const int own = member_.own();
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, Offset(call.rows->told, own * bytes),
                                            Offset(call.rows->from, own * bytes), bytes));
  if (member_.members() == 1) return absl::OkStatus();
  return member_.WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(member_.Send(m, Offset(call.rows->from, m * bytes), bytes, stream));
    return member_.Recv(m, Offset(call.rows->told, m * bytes), bytes, stream);
  });
}

absl::Status NcclRowTransfers::Counted(const Call& call, StreamId stream,
                                       absl::FunctionRef<absl::Status(StreamId)> wait) {
  if (!Moves(call)) return absl::OkStatus();
  if (call.rows->tells()) SL_RETURN_IF_ERROR(Tell(call, stream));
  const int n = member_.members(), own = member_.own(), per_piece = call.rows->per_piece;
  const int64_t size = int64_t{n} * per_piece * static_cast<int64_t>(sizeof(int32_t));
  int32_t* const from = host_counts_;
  int32_t* const to = host_counts_ + int64_t{n} * per_piece;
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, from, call.rows->from, size));
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, to, call.rows->received(), size));
  SL_RETURN_IF_ERROR(wait(stream));
  const int64_t all = RowsBeforePiece(to, per_piece, n);
  const int64_t sent = RowsOfPiece(from, per_piece, own), kept = RowsOfPiece(to, per_piece, own);
  if (sent != kept) return StatusOf({RowsFault::kCountsDiffer, own, own, sent, kept, &call});
  if (all > call.rows->most_rows) {
    return StatusOf({RowsFault::kNoRoom, -1, own, all, call.rows->most_rows, &call});
  }
  for (int a = 0; a < ArraysOf(call); ++a) {
    const RowArray of = ArrayOf(call, a);
    SL_RETURN_IF_ERROR(member_.device()->Move(
        stream, Offset(of.to, RowsBeforePiece(to, per_piece, own) * of.bytes),
        Offset(of.from, RowsBeforePiece(from, per_piece, own) * of.bytes), kept * of.bytes));
  }
  if (n == 1) return absl::OkStatus();
  return member_.WithOthers([&](int m) {
    const int64_t out = RowsOfPiece(from, per_piece, m), in = RowsOfPiece(to, per_piece, m);
    const int64_t before = RowsBeforePiece(from, per_piece, m);
    const int64_t before_to = RowsBeforePiece(to, per_piece, m);
    for (int a = 0; a < ArraysOf(call); ++a) {
      const RowArray of = ArrayOf(call, a);
      SL_RETURN_IF_ERROR(
          member_.Send(m, Offset(of.from, before * of.bytes), out * of.bytes, stream));
      SL_RETURN_IF_ERROR(
          member_.Recv(m, Offset(of.to, before_to * of.bytes), in * of.bytes, stream));
    }
    return absl::OkStatus();
  });
}

}  // namespace stringline
