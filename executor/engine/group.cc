#include "executor/engine/group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

bool IsPointToPoint(CallKind kind) { return kind == CallKind::kSend || kind == CallKind::kRecv; }

}  // namespace

const char* NameOf(CallKind kind) {
  static constexpr const char* kNames[] = {
      "a send",        "a receive",        "an all-to-all", "a counted all-to-all",
      "an all-reduce", "a reduce-scatter", "an all-gather", "a broadcast"};
  return kNames[static_cast<int>(kind)];
}

std::string Describe(const Call& call) {
  return absl::StrCat(NameOf(call.kind), " of ", DescribeData(call));
}

std::string DescribeData(const Call& call) {
  return absl::StrCat(Print(call.name), " (", call.bytes, " bytes",
                      call.kind == CallKind::kAllToAllCounted ? " a row)" : ")");
}

std::string DescribeWithAction(const Call& call) {
  return absl::StrCat(Describe(call), DescribeAction(call));
}

std::string DescribeAction(const Call& call) {
  return call.action.print == nullptr ? "" : absl::StrCat(" for ", Print(call.action));
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
    case CallKind::kAllToAll:
    case CallKind::kAllGather:
    case CallKind::kReduceScatter:
      return others * call.bytes;
    case CallKind::kAllReduce:  // a reduce-scatter and an all-gather
      return 2 * others * call.bytes / members;
    case CallKind::kAllToAllCounted:
      break;
  }
  int64_t rows[2] = {0, 0};
  const int32_t* const counts[] = {call.rows->from, call.rows->to};
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < members * call.rows->per_piece; ++i) {
      if (i / call.rows->per_piece != member) rows[side] += counts[side][i];
    }
  }
  return std::max(rows[0], rows[1]) * call.bytes;
}

absl::Status MatchCalls(const Call& one, const Call& other) {
  const bool messages = IsPointToPoint(one.kind) && one.kind != other.kind;
  const bool same = messages || (one.kind == other.kind &&
                                 (one.kind != CallKind::kBroadcast || one.peer == other.peer));
  const bool pieces =
      one.pieces == nullptr || other.pieces == nullptr
          ? one.pieces == other.pieces
          : one.pieces->begin == other.pieces->begin && one.pieces->stride == other.pieces->stride;
  if (same && pieces && one.bytes == other.bytes && one.name.index == other.name.index) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(DescribeWithAction(one), " met ", DescribeWithAction(other)));
}

}  // namespace stringline
