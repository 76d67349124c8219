// The way of a token's row to its experts and back: sorting the slots, copying rows, and the
// collectives of a single rank, which are copies.
#include <algorithm>
#include <cstring>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

int64_t SumOf(const Tensor& integers) {
  int64_t sum = 0;
  for (int64_t i = 0; i < integers.type->elements(); ++i) {
    SL_CHECK(integers.i32()[i] >= 0) << "a count of " << integers.i32()[i];
    sum += integers.i32()[i];
  }
  return sum;
}

// Checks that this rank has all experts; returns the number of rows that travel.
int64_t RowsOfOneRank(In in, Out out) {
  SL_CHECK(in[2].type->shape[0] == 1)
      << "rows for " << in[2].type->shape[0] << " ranks: only a group of ranks can exchange them";
  const int64_t rows = SumOf(in[1]);
  SL_CHECK(rows == SumOf(in[2])) << rows << " rows go, " << SumOf(in[2]) << " come";
  SL_CHECK(rows <= in[0].type->shape[0] && rows <= out[0].type->shape[0]) << rows << " rows";
  return rows;
}

size_t BytesOf(const Tensor& rows, int64_t count) {
  return static_cast<size_t>(rows.type->bytes() / rows.type->shape[0] * count);
}

// The j-th slot in the order.
int64_t SlotAt(const Tensor& order, int64_t j) {
  const int64_t slot = order.i32()[j];
  SL_CHECK(slot >= 0 && slot < order.type->elements()) << "slot " << slot;
  return slot;
}

}  // namespace

int64_t DispatchPlanWorkspace(const Node& node) {
  return static_cast<int64_t>(node.attributes[0]) * 4;
}

// order: the slots sorted by expert, stably, the first `capacity` of each (0: all), then the
// others; counts[e]: number of slots for expert e; dropped: number of others.
//
// choice I32 (N,K) -> order I32 (N,K), counts I32 (E), dropped (), all overwritten.
void Run_kDispatchPlan(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t slots = in[0].type->elements(), experts = out[1].type->elements();
  const auto capacity = static_cast<int32_t>(node.attributes[1]);
  const int32_t* choice = in[0].i32();
  int32_t* order = out[0].i32();
  int32_t* counts = out[1].i32();
  int32_t* place = static_cast<int32_t*>(workspace);  // the next slot of each expert in the order
  std::fill_n(counts, experts, 0);
  for (int64_t s = 0; s < slots; ++s) {
    SL_CHECK(choice[s] >= 0 && choice[s] < experts) << "expert " << choice[s];
    ++counts[choice[s]];
  }
  int32_t kept = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (capacity > 0) counts[e] = std::min(counts[e], capacity);
    place[e] = kept;
    kept += counts[e];
  }
  int32_t end = kept, before = 0;  // `before`: the first place of an expert, counted back from its
                                   // end
  for (int64_t s = 0; s < slots; ++s) {
    const int32_t e = choice[s];
    // An expert's places end where those of the next begin; taken ones count up to `counts`.
    if (counts[e] > 0) {
      order[place[e]++] = static_cast<int32_t>(s);
      --counts[e];
    } else {
      order[end++] = static_cast<int32_t>(s);
    }
  }
  for (int64_t e = 0; e < experts; ++e) {
    counts[e] = place[e] - before;
    before = place[e];
  }
  *out[2].f32() = static_cast<float>(slots - kept);
}

// y[j,:] = x[order[j] / K,:]
//
// x (N,C) F32 or BF16, order I32 (N,K) -> y (N K,C), overwritten.
void Run_kGatherRows(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t slots = in[1].type->elements(), choices = RowLength(in[1]);
  for (int64_t j = 0; j < slots; ++j) {
    const char* const row = RowAt(in[0], SlotAt(in[1], j) / choices);
    std::memcpy(RowAt(out[0], j), row, static_cast<size_t>(RowBytes(in[0])));
  }
}

int64_t SumRowsWorkspace(const Type& order) { return order.elements() * 4; }

// y[n,:] = sum over k = 0 .. K-1 of x[j,:] with order[j] = n K + k
//
// x (N K,C), order I32 (N,K) -> y (N,C), overwritten.
void Run_kSumRows(const Node&, In in, Out out, Accumulate, void* workspace) {
  const int64_t slots = in[1].type->elements(), choices = RowLength(in[1]);
  const int64_t width = RowLength(in[0]);
  int32_t* place = static_cast<int32_t*>(workspace);  // a slot's place in the order
  for (int64_t j = 0; j < slots; ++j) place[SlotAt(in[1], j)] = static_cast<int32_t>(j);
  for (int64_t n = 0; n < slots / choices; ++n) {
    float* __restrict y = out[0].f32() + n * width;
    std::copy_n(in[0].f32() + place[n * choices] * width, width, y);
    for (int64_t k = 1; k < choices; ++k) {
      const float* __restrict x = in[0].f32() + place[n * choices + k] * width;
      for (int64_t c = 0; c < width; ++c) y[c] += x[c];
    }
  }
}

// y[j] = x[order[j]]
//
// x (N,K), order I32 (N,K) -> y (N K), overwritten.
void Run_kGatherWeights(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t slots = in[1].type->elements();
  for (int64_t j = 0; j < slots; ++j) out[0].f32()[j] = in[0].f32()[SlotAt(in[1], j)];
}

// y[order[j]] = x[j]
//
// x (N K), order I32 (N,K) -> y (N,K), overwritten.
void Run_kScatterWeights(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t slots = in[1].type->elements();
  for (int64_t j = 0; j < slots; ++j) out[0].f32()[SlotAt(in[1], j)] = in[0].f32()[j];
}

// received[0,e] = counts[e]; for a single rank.
//
// counts I32 (E) -> received I32 (1,E), overwritten.
void Run_kAllToAllCounts(const Node&, In in, Out out, Accumulate, void*) {
  SL_CHECK(out[0].type->shape[0] == 1) << "counts of " << out[0].type->shape[0] << " ranks";
  std::copy_n(in[0].i32(), in[0].type->elements(), out[0].i32());
}

// y[i,:] = x[i,:] for the rows taken by experts; for a single rank.
//
// x (S,C) or (S), F32 or BF16, counts I32 (E), received I32 (1,E) -> y (R,C) or (R): as many rows
// overwritten.
void Run_kDispatch(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowsOfOneRank(in, out);
  std::memcpy(out[0].data, in[0].data, BytesOf(in[0], rows));
}

// y[i,:] = x[i,:] for the rows taken by experts, 0 for the others; for a single rank.
//
// x (R,C) or (R), F32 or BF16, counts I32 (E), received I32 (1,E) -> y (S,C) or (S), overwritten.
void Run_kCombine(const Node&, In in, Out out, Accumulate, void*) {
  const size_t taken = BytesOf(in[0], RowsOfOneRank(in, out));
  std::memcpy(out[0].data, in[0].data, taken);
  std::memset(static_cast<char*>(out[0].data) + taken, 0,
              static_cast<size_t>(out[0].type->bytes()) - taken);
}

}  // namespace stringline::cpu
