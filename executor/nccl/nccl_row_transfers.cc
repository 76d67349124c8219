#include "executor/nccl/nccl_row_transfers.h"

#include <new>
#include <vector>

#include "executor/nccl/kernels.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

int64_t RowsOf(const int32_t* counts, int piece, int per_piece) {
  int64_t rows = 0;
  for (int i = 0; i < per_piece; ++i) rows += counts[piece * per_piece + i];
  return rows;
}

int64_t MostPieceRows(const RowCounts& rows) {
  return rows.most_piece_rows > 0 ? rows.most_piece_rows : rows.most_rows;
}

}  // namespace

absl::Status NcclRowTransfers::Prepare(const Call& call) {
  const int64_t n = member_.members();
  if (member_.settings().rows == NcclRows::kPadded) {
    SL_RETURN_IF_ERROR(member_.Reserve(2 * n * PieceBytes(MostPieceRows(*call.rows), call.bytes)));
    if (report_ != nullptr) return absl::OkStatus();
    SL_ASSIGN_OR_RETURN(void* const report, member_.device()->AllocateHost(sizeof(RowsReport)));
    report_ = new (report) RowsReport;
    return absl::OkStatus();
  }
  const int64_t size = 2 * n * call.rows->per_piece;
  if (size <= host_counts_size_) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(void* const counts,
                      member_.device()->AllocateHost(size * int64_t{sizeof(int32_t)}));
  host_counts_ = static_cast<int32_t*>(counts);
  host_counts_size_ = size;
  return absl::OkStatus();
}

absl::Status NcclRowTransfers::Padded(const Call& call, StreamId stream) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int n = member_.members();
  SL_RETURN_IF_ERROR(member_.TakeWorkspace(stream));
  PaddedRows rows;
  rows.pieces = member_.workspace();
  rows.rows = const_cast<void*>(call.from);
  rows.counts = call.rows->from;
  rows.counts_per_piece = call.rows->per_piece;
  rows.members = n;
  rows.row_bytes = call.bytes;
  rows.most_piece_rows = MostPieceRows(*call.rows);
  rows.piece_bytes = PieceBytes(rows.most_piece_rows, rows.row_bytes);
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
  rows.rows = call.to;
  rows.counts = call.rows->to;
  rows.most_rows = call.rows->most_rows;
  rows.member = member_.own();
  rows.call = &call;
  rows.report = report_;
  LaunchUnpackRows(rows, member_.device()->native(stream));
  return member_.device()->LaunchError(stream);
}

absl::Status NcclRowTransfers::Counted(const Call& call, StreamId stream,
                                       absl::FunctionRef<absl::Status(StreamId)> wait) {
  if (call.from == nullptr || call.to == nullptr) return absl::OkStatus();
  const int n = member_.members(), per_piece = call.rows->per_piece;
  const int64_t size = int64_t{n} * per_piece * static_cast<int64_t>(sizeof(int32_t));
  int32_t* const from = host_counts_;
  int32_t* const to = host_counts_ + int64_t{n} * per_piece;
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, from, call.rows->from, size));
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, to, call.rows->to, size));
  SL_RETURN_IF_ERROR(wait(stream));
  // Rows before each piece.
  std::vector<int64_t> before_from = {0}, before_to = {0};
  for (int m = 0; m < n; ++m) {
    before_from.push_back(before_from[m] + RowsOf(from, m, per_piece));
    before_to.push_back(before_to[m] + RowsOf(to, m, per_piece));
  }
  const int64_t b = call.bytes, all = before_to[n];
  const int64_t sent = before_from[member_.own() + 1] - before_from[member_.own()];
  const int64_t kept = before_to[member_.own() + 1] - before_to[member_.own()];
  if (sent != kept) {
    return StatusOf({RowsFault::kCountsDiffer, member_.own(), member_.own(), sent, kept, &call});
  }
  if (all > call.rows->most_rows) {
    return StatusOf({RowsFault::kNoRoom, -1, member_.own(), all, call.rows->most_rows, &call});
  }
  SL_RETURN_IF_ERROR(member_.device()->Move(stream, Offset(call.to, before_to[member_.own()] * b),
                                            Offset(call.from, before_from[member_.own()] * b),
                                            kept * b));
  if (n == 1) return absl::OkStatus();
  return member_.WithOthers([&](int m) {
    SL_RETURN_IF_ERROR(member_.Send(m, Offset(call.from, before_from[m] * b),
                                    (before_from[m + 1] - before_from[m]) * b, stream));
    return member_.Recv(m, Offset(call.to, before_to[m] * b), (before_to[m + 1] - before_to[m]) * b,
                        stream);
  });
}

}  // namespace stringline
