#include "executor/training/row_exchanges.h"

#include <algorithm>
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

}  // namespace

Piece RowExchanges::Bind(const Action& action, LayerPart part, Group* group, int member,
                         absl::Span<const ReadyGraph::Exchange> exchanges) {
  names_.push_back({&plan_, action, part});
  Piece piece;
  std::vector<CountedRows> tails;
  for (const ReadyGraph::Exchange& exchange : exchanges) {
    piece.calls.push_back({group, member, {}});
    Call& call = piece.calls.back().call;
    const auto number = static_cast<int64_t>(piece.calls.size());
    call.name = {PrintExchange, &names_.back(), NumberOf(plan_, action, part, number)};
    call.from = exchange.in[0].data;
    call.to = exchange.out[0].data;
    if (exchange.node->op == Op::kAllToAllCounts) {
      call.kind = CallKind::kAllToAll;
      call.bytes = exchange.in[0].type->bytes() / group->members();
      continue;
    }
    const bool there = exchange.node->op == Op::kDispatch;
    SL_CHECK(there || exchange.node->op == Op::kCombine) << "no exchange of rows";
    const int32_t* const counts = exchange.in[1].i32();
    const int32_t* const received = exchange.in[2].i32();
    const int64_t experts = exchange.in[1].type->elements();
    call.kind = CallKind::kAllToAllCounted;
    call.bytes = exchange.out[0].type->bytes() / exchange.out[0].type->shape[0];
    const int64_t most_rows = exchange.out[0].type->shape[0];
    const int64_t most_piece_rows = std::min(most_rows, exchange.in[0].type->shape[0]);
    row_counts_.push_back({there ? counts : received, there ? received : counts,
                           static_cast<int32_t>(experts / group->members()), most_rows,
                           most_piece_rows});
    call.rows = &row_counts_.back();
    if (there) continue;
    tails.push_back({static_cast<char*>(call.to), call.bytes, most_rows, counts, experts});
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
