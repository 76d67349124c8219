#include "executor/engine/group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/fnv.h"

namespace stringline {
namespace {

bool IsPointToPoint(CallKind kind) { return kind == CallKind::kSend || kind == CallKind::kRecv; }

// "384 + 4 bytes a row, and counts".
std::string DescribeRows(const Call& call) {
  if (call.rows == nullptr) return absl::StrCat(call.bytes, " bytes a row");
  std::string text;
  for (int a = 0; a < ArraysOf(call); ++a) {
    absl::StrAppend(&text, a == 0 ? "" : " + ", ArrayOf(call, a).bytes);
  }
  absl::StrAppend(&text, " bytes a row", call.rows->tells() ? ", and counts" : "");
  return text;
}

// Bytes of rows to or from others.
int64_t BytesOfOthers(const Call& call, const int32_t* counts, int member, int members) {
  int64_t rows = 0;
  for (int m = 0; m < members; ++m) {
    if (m != member) rows += RowsOfPiece(counts, call.rows->per_piece, m);
  }
  return rows * RowBytes(call);
}

}  // namespace

const char* NameOf(CallKind kind) {
  static constexpr const char* kNames[] = {
      "a send",           "a receive",     "a counted all-to-all", "an all-reduce",
      "a reduce-scatter", "an all-gather", "a broadcast"};
  return kNames[static_cast<int>(kind)];
}

std::string Describe(const Call& call) {
  return absl::StrCat(NameOf(call.kind), " of ", DescribeData(call));
}

std::string DescribeData(const Call& call) {
  const bool counted = call.kind == CallKind::kAllToAllCounted;
  return absl::StrCat(Print(call.name), " (",
                      counted ? DescribeRows(call) : absl::StrCat(call.bytes, " bytes"), ")");
}

std::string DescribeWithAction(const Call& call) {
  return absl::StrCat(Describe(call), DescribeAction(call));
}

std::string DescribeAction(const Call& call) {
  return call.action.print == nullptr ? "" : absl::StrCat(" for ", Print(call.action));
}

int64_t RowBytes(const Call& call) {
  int64_t bytes = 0;
  for (int a = 0; a < ArraysOf(call); ++a) bytes += ArrayOf(call, a).bytes;
  return bytes;
}

int64_t ToldBytes(const Call& call) {
  return call.rows->tells() ? call.rows->per_piece * static_cast<int64_t>(sizeof(int32_t)) : 0;
}

uint64_t ShapeOfRows(const Call& call) {
  if (call.kind != CallKind::kAllToAllCounted || call.rows == nullptr) return 0;
  Fnv hash;
  hash.Add(static_cast<uint64_t>(ToldBytes(call)));
  for (int a = 0; a < ArraysOf(call); ++a) {
    hash.Add(static_cast<uint64_t>(ArrayOf(call, a).bytes));
  }
  return hash.value();
}

int64_t RowsOfPiece(const int32_t* counts, int per_piece, int piece) {
  int64_t rows = 0;
  for (int i = 0; i < per_piece; ++i) rows += counts[piece * per_piece + i];
  return rows;
}

int64_t RowsBeforePiece(const int32_t* counts, int per_piece, int piece) {
  int64_t rows = 0;
  for (int p = 0; p < piece; ++p) rows += RowsOfPiece(counts, per_piece, p);
  return rows;
}

SumSlice SliceOf(const Call& call, int member, int members, int64_t unit) {
  int64_t begin = 0, bytes = call.bytes;
  int place = member, alike = members;
  if (call.pieces != nullptr) {
    const Pieces& pieces = *call.pieces;
    const int piece = pieces.Of(member);
    begin = pieces.begin[piece];
    bytes = pieces.bytes(piece);
    alike = HowManyGet(call, members);
    place = member / (pieces.stride * pieces.count()) * pieces.stride + member % pieces.stride;
  }
  const int64_t units = bytes / unit;
  const auto at = [&](int of) { return begin + (of == alike ? bytes : units * of / alike * unit); };
  return {at(place), at(place + 1)};
}

bool GetAlike(const Call& call, int one, int other) {
  return call.pieces == nullptr || call.pieces->Of(one) == call.pieces->Of(other);
}

int HowManyGet(const Call& call, int members) {
  return call.pieces == nullptr ? members : members / call.pieces->count();
}

int64_t PlaceInSum(const Call& call, int member, int64_t at) {
  return call.pieces == nullptr ? at : at - call.pieces->begin[call.pieces->Of(member)];
}

int64_t BytesOnTheWay(const Call& call, int member, int members) {
  const int64_t others = members - 1;
  if (call.pieces != nullptr) {
    const int64_t piece = call.pieces->bytes(call.pieces->Of(member));
    if (call.kind == CallKind::kAllGather) return std::max(others * piece, call.bytes - piece);
    const int64_t own = SliceOf(call, member, members, sizeof(float)).bytes();
    const int64_t sent = call.bytes - own + (HowManyGet(call, members) - 1) * own;
    return std::max(sent, others * own + piece - own);
  }
  switch (call.kind) {
    case CallKind::kSend:
    case CallKind::kRecv:
    case CallKind::kBroadcast:
      return call.bytes;
    case CallKind::kAllGather:
    case CallKind::kReduceScatter:
      return others * call.bytes;
    case CallKind::kAllReduce:  // a reduce-scatter and an all-gather
      return 2 * others * call.bytes / members;
    case CallKind::kAllToAllCounted:
      break;
  }
  return others * ToldBytes(call) +
         std::max(BytesOfOthers(call, call.rows->from, member, members),
                  BytesOfOthers(call, call.rows->received(), member, members));
}

// Rows that a member receives are counted by those who send them.
int64_t MostBytesOnTheWay(absl::Span<const Call* const> met) {
  const auto members = static_cast<int>(met.size());
  const Call& first = *met[0];
  const bool counted = first.kind == CallKind::kAllToAllCounted;
  int64_t most = 0;
  for (int m = 0; m < members; ++m) {
    if (!counted) {
      most = std::max(most, BytesOnTheWay(*met[m], m, members));
      continue;
    }
    int64_t received = 0;
    for (int from = 0; from < members; ++from) {
      const RowCounts& rows = *met[from]->rows;
      if (from != m) received += RowsOfPiece(rows.from, rows.per_piece, m);
    }
    const int64_t sent = BytesOfOthers(*met[m], met[m]->rows->from, m, members);
    most = std::max({most, sent, received * RowBytes(first)});
  }
  return counted ? most + (members - 1) * ToldBytes(first) : most;
}

absl::Status MatchCalls(const Call& one, const Call& other) {
  const bool messages =
      IsPointToPoint(one.kind) && IsPointToPoint(other.kind) && one.kind != other.kind;
  const bool same = messages || (one.kind == other.kind &&
                                 (one.kind != CallKind::kBroadcast || one.peer == other.peer));
  const bool pieces =
      one.pieces == nullptr || other.pieces == nullptr
          ? one.pieces == other.pieces
          : one.pieces->begin == other.pieces->begin && one.pieces->stride == other.pieces->stride;
  if (same && pieces && one.bytes == other.bytes && one.name.index == other.name.index &&
      ShapeOfRows(one) == ShapeOfRows(other)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(DescribeWithAction(one), " met ", DescribeWithAction(other)));
}

}  // namespace stringline
