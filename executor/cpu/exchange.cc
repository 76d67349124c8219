#include "executor/cpu/exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

using Operands = absl::Span<const absl::Span<const Tensor>>;

void ExchangeCounts(Operands in, Operands out) {
  const size_t ranks = in.size();
  const int64_t own = in[0][0].type->elements() / static_cast<int64_t>(ranks);  // experts
  for (size_t x = 0; x < ranks; ++x) {
    for (size_t y = 0; y < ranks; ++y) {
      std::copy_n(in[x][0].i32() + static_cast<int64_t>(y) * own, own,
                  out[y][0].i32() + static_cast<int64_t>(x) * own);
    }
  }
}

// Calls body(x, y, from, to, rows): the piece that x sends to y, by rows of x's slots and of y's
// receipt.
template <typename Body>
void ForPieces(Operands in, Body body) {
  const size_t ranks = in.size();
  std::vector<int64_t> end(ranks, 0);  // of what y has received
  for (size_t x = 0; x < ranks; ++x) {
    const int32_t* counts = in[x][1].i32();
    const int64_t own = in[x][1].type->elements() / static_cast<int64_t>(ranks);
    int64_t from = 0;
    for (size_t y = 0; y < ranks; ++y) {
      const int32_t* piece = counts + static_cast<int64_t>(y) * own;
      const int64_t rows = std::accumulate(piece, piece + own, int64_t{0});
      SL_CHECK(std::equal(piece, piece + own, in[y][2].i32() + static_cast<int64_t>(x) * own))
          << "rank " << x << " sends what rank " << y << " does not expect";
      body(x, y, from, end[y], rows);
      from += rows;
      end[y] += rows;
    }
  }
}

void CopyRows(const Tensor& from, int64_t from_row, const Tensor& to, int64_t to_row,
              int64_t rows) {
  const int64_t row_bytes = from.type->bytes() / from.type->shape[0];
  SL_CHECK(from_row + rows <= from.type->shape[0] && to_row + rows <= to.type->shape[0])
      << rows << " rows from " << from_row << " to " << to_row;
  std::memcpy(static_cast<char*>(to.data) + to_row * row_bytes,
              static_cast<const char*>(from.data) + from_row * row_bytes,
              static_cast<size_t>(rows * row_bytes));
}

}  // namespace

void Exchange(const Node& node, Operands in, Operands out) {
  switch (node.op) {
    case Op::kAllToAllCounts:
      return ExchangeCounts(in, out);
    case Op::kDispatch:
      return ForPieces(in, [&](size_t x, size_t y, int64_t from, int64_t to, int64_t rows) {
        CopyRows(in[x][0], from, out[y][0], to, rows);
      });
    case Op::kCombine:
      for (absl::Span<const Tensor> rank : out) {
        std::memset(rank[0].data, 0, static_cast<size_t>(rank[0].type->bytes()));
      }
      return ForPieces(in, [&](size_t x, size_t y, int64_t from, int64_t to, int64_t rows) {
        CopyRows(in[y][0], to, out[x][0], from, rows);
      });
    default:
      SL_CHECK(false) << "not a collective";
  }
}

}  // namespace stringline::cpu
