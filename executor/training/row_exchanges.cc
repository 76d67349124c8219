#include "executor/training/row_exchanges.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// A number that identifies an exchange: common to its ends, and different for all others.
int64_t NumberOf(const Plan& plan, const Action& action, LayerPart part, int64_t exchange) {
  int64_t number = static_cast<int64_t>(action.kind);
  number = number * static_cast<int64_t>(plan.stages.size()) + action.stage.value;
  number = number * plan.microbatches + action.microbatch.value;
  number = (number << 20) + part.layer;
  return ((number * kParts + part.part) * kMostChunks + part.chunk) * 8 + exchange;
}

// True if a dispatch beside them tells these counts.
bool GoWithRows(const ReadyGraph::Exchange& counts, absl::Span<const ReadyGraph::Exchange> beside) {
  return std::any_of(beside.begin(), beside.end(), [&](const ReadyGraph::Exchange& other) {
    return other.node->op == Op::kDispatch && other.in[2].data == counts.out[0].data;
  });
}

// The counts of a dispatch or combine. A dispatch beside the exchange of its counts is told them.
RowCounts CountsOf(const ReadyGraph::Exchange& exchange,
                   absl::Span<const ReadyGraph::Exchange> beside, int members) {
  const bool there = exchange.node->op == Op::kDispatch;
  const int32_t* const sent = exchange.in[1].i32();
  const int32_t* const received = exchange.in[2].i32();
  RowCounts counts;
  counts.from = there ? sent : received;
  counts.to = there ? received : sent;
  counts.per_piece = static_cast<int32_t>(exchange.in[1].type->elements() / members);
  counts.most_rows = exchange.out[0].type->shape[0];
  // No rank sends another more than an even share of the room for all.
  const int64_t from_rows = exchange.in[0].type->shape[0];
  counts.most_piece_rows = there ? std::min(from_rows, counts.most_rows / members)
                                 : std::min(counts.most_rows, from_rows / members);
  for (const ReadyGraph::Exchange& other : beside) {
    if (other.node->op != Op::kAllToAllCounts || other.out[0].i32() != received) continue;
    SL_CHECK(there) << "rows return before their counts are known";
    counts.told = other.out[0].i32();
    counts.to = nullptr;
  }
  return counts;
}

// Adds the array to a call with these counts, if it has the same and takes one more.
bool Join(const RowCounts& counts, const RowArray& array, RowCounts* call) {
  const auto key = [](const RowCounts& of) {
    return std::tie(of.from, of.to, of.told, of.per_piece, of.most_rows, of.most_piece_rows);
  };
  if (key(counts) != key(*call) || call->more.size() + 2 > kMostRowArrays) return false;
  call->more.push_back(array);
  return true;
}

}  // namespace

Piece RowExchanges::Bind(const Action& action, LayerPart part, Group* group, int member,
                         absl::Span<const ReadyGraph::Exchange> exchanges) {
  names_.push_back({&plan_, action, part});
  Piece piece;
  std::vector<CountedRows> tails;
  for (const ReadyGraph::Exchange& exchange : exchanges) {
    if (exchange.node->op == Op::kAllToAllCounts) {
      SL_CHECK(GoWithRows(exchange, exchanges)) << "no rows tell their counts";
      continue;
    }
    const bool there = exchange.node->op == Op::kDispatch;
    SL_CHECK(there || exchange.node->op == Op::kCombine) << "no exchange of rows";
    const RowArray array = {exchange.in[0].data, exchange.out[0].data,
                            exchange.out[0].type->bytes() / exchange.out[0].type->shape[0]};
    const RowCounts counts = CountsOf(exchange, exchanges, group->members());
    if (piece.calls.empty() || !Join(counts, array, &row_counts_.back())) {
      row_counts_.push_back(counts);
      piece.calls.push_back({group, member, {}});
      Call& call = piece.calls.back().call;
      const auto number = static_cast<int64_t>(piece.calls.size());
      call.kind = CallKind::kAllToAllCounted;
      call.name = {PrintExchange, &names_.back(), NumberOf(plan_, action, part, number)};
      call.from = array.from;
      call.to = array.to;
      call.bytes = array.bytes;
      call.rows = &row_counts_.back();
    }
    if (there) continue;
    tails.push_back({static_cast<char*>(array.to), array.bytes, counts.most_rows, counts.to,
                     exchange.in[1].type->elements()});
  }
  if (tails.empty()) return piece;
  tails_.push_back({kernels_, std::move(tails)});
  piece.after = {ClearTails, &tails_.back(), 0};
  return piece;
}

void RowExchanges::ClearTails(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& tails = *static_cast<const Tails*>(self);
  for (const CountedRows& rows : tails.all) tails.kernels->ClearBehind(rows, stream);
}

std::string RowExchanges::PrintExchange(const void* self, int64_t /*index*/) {
  const auto& name = *static_cast<const ExchangeName*>(self);
  return absl::StrCat("the rows of ", Print(*name.plan, name.action), ":", Print(name.part));
}

}  // namespace stringline
