// A sequence in slices against the sequence as a whole: results and gradients of attention, rotary
// positions and position tables, and the ops that cut and append.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

Array Take(const Array& x, int64_t first, int64_t count) {
  return std::move(
      RunKernel(Op::kTakePositions, {x}, {static_cast<double>(first), static_cast<double>(count)})
          .front());
}
Array Append(const Array& a, const Array& b) {
  return std::move(RunKernel(Op::kAppendPositions, {a, b}, {}).front());
}
Array Sum(const Array& a, const Array& b) {
  return std::move(RunKernel(Op::kAdd, {a, b}, {}).front());
}

void ExpectNear(const Array& seen, const Array& expected, double tolerance) {
  ASSERT_EQ(seen.type.shape, expected.type.shape);
  const float* const from = expected.f32();
  ExpectClose(seen, std::vector<double>(from, from + expected.type.elements()), tolerance);
}

// lse (B,H,T) has its positions last.
Array TakeLast(const Array& lse, int64_t first, int64_t count) {
  const int64_t positions = lse.type.shape[2];
  Array some = MakeArray(F32({lse.type.shape[0], lse.type.shape[1], count}));
  for (int64_t i = 0; i < some.type.elements(); ++i) {
    some.f32()[i] = lse.f32()[i / count * positions + first + i % count];
  }
  return some;
}

class Slices : public SeededTest {};

// The attention of a slice, with the keys of the slices before it.
struct Attended {
  Array qkv, past;  // past: none for the first slice
  Array y, lse;
};

struct Case {
  int64_t batch, heads, kv_heads, size;
  std::vector<int64_t> slices;  // positions of each

  int64_t positions() const { return std::accumulate(slices.begin(), slices.end(), int64_t{0}); }
  std::vector<double> both() const {
    return {static_cast<double>(heads), static_cast<double>(kv_heads)};
  }
};

// Forwards from the first slice on: keys and values are appended to those of the slices before.
std::vector<Attended> Forwards(const Case& c, const Array& qkv) {
  std::vector<Attended> attended;
  Array past;
  int64_t first = 0;
  for (const int64_t count : c.slices) {
    Attended slice;
    slice.qkv = Take(qkv, first, count);
    const Array keys = std::move(RunKernel(Op::kPackKeys, {slice.qkv}, c.both()).front());
    std::vector<Array> out = first == 0
                                 ? RunKernel(Op::kAttention, {slice.qkv}, c.both())
                                 : RunKernel(Op::kAttentionPast, {slice.qkv, past}, c.both());
    slice.y = std::move(out[0]);
    slice.lse = std::move(out[1]);
    Array all = first == 0 ? Take(keys, 0, count) : Append(past, keys);
    slice.past = std::exchange(past, std::move(all));
    attended.push_back(std::move(slice));
    first += count;
  }
  return attended;
}

// Backwards from the last slice on: each adds to the gradients of the keys before it. The result is
// dqkv.
Array Backwards(const Case& c, const std::vector<Attended>& attended, const Array& dy) {
  Array dqkv, dkeys;  // of the slices done; of the keys up to the slice
  int64_t end = c.positions();
  for (size_t k = attended.size(); k-- > 0;) {
    const Attended& slice = attended[k];
    const int64_t count = c.slices[k], first = end - count;
    const Array own_dy = Take(dy, first, count);
    std::vector<Array> grads =
        k == 0 ? RunKernel(Op::kAttentionGrad, {own_dy, slice.qkv, slice.y, slice.lse}, c.both())
               : RunKernel(Op::kAttentionPastGrad,
                           {own_dy, slice.qkv, slice.past, slice.y, slice.lse}, c.both());
    const bool is_last = k + 1 == attended.size();
    if (!is_last) {
      const Array of_keys = Take(dkeys, first, count);
      grads[0] = Sum(grads[0], RunKernel(Op::kPackKeysGrad, {of_keys}, c.both()).front());
    }
    dqkv = is_last ? Take(grads[0], 0, count) : Append(grads[0], dqkv);
    if (k > 0) dkeys = is_last ? Take(grads[1], 0, first) : Sum(grads[1], Take(dkeys, 0, first));
    end = first;
  }
  return dqkv;
}

TEST_F(Slices, AttendAsTheWholeDoes) {
  for (const Case& c : {Case{2, 2, 2, 16, {64, 64, 64}},
                        {1, 4, 2, 20, {32, 7, 1, 60}},
                        {2, 3, 1, 5, {1, 40, 33}},
                        {1, 2, 1, 64, {100, 28}}}) {
    SCOPED_TRACE(absl::StrCat("slices of ", absl::StrJoin(c.slices, " "), ", heads of ", c.size));
    const Array qkv = Random({c.batch, c.positions(), (c.heads + 2 * c.kv_heads) * c.size});
    const Array dy = Random({c.batch, c.positions(), c.heads * c.size});
    const std::vector<Array> whole = RunKernel(Op::kAttention, {qkv}, c.both());
    const std::vector<Attended> attended = Forwards(c, qkv);
    int64_t first = 0;
    for (size_t k = 0; k < c.slices.size(); ++k) {
      ExpectNear(attended[k].y, Take(whole[0], first, c.slices[k]), 1e-6);
      ExpectNear(attended[k].lse, TakeLast(whole[1], first, c.slices[k]), 1e-6);
      first += c.slices[k];
    }
    ExpectNear(Backwards(c, attended, dy),
               RunKernel(Op::kAttentionGrad, {dy, qkv, whole[0], whole[1]}, c.both()).front(),
               5e-6);
  }
}

TEST_F(Slices, TurnAsTheWholeDoes) {
  const Array qkv = Random({2, 90, 4 * 34});
  for (const double direction : {1.0, -1.0}) {
    const auto turned = [&](const Array& x, int64_t first) {
      return std::move(
          RunKernel(Op::kRotary, {x}, {2, 1, 1e4, direction, static_cast<double>(first)}).front());
    };
    const Array whole = turned(qkv, 0);
    for (const auto& [first, count] : {std::pair{0, 30}, {30, 60}, {89, 1}}) {
      ExpectNear(turned(Take(qkv, first, count), first), Take(whole, first, count), 5e-7);
    }
  }
}

// The same bits: nothing is added up over positions.
TEST_F(Slices, HavePositionsOfATable) {
  const Array x = Random({3, 20, 37}), table = Random({25, 37});
  const Array whole = std::move(RunKernel(Op::kPositionAdd, {x, table}, {0}).front());
  const Array dtable = std::move(RunKernel(Op::kPositionGrad, {x}, {25, 0}).front());
  Array sum = MakeArray(dtable.type);
  std::fill_n(sum.f32(), sum.type.elements(), 0.0f);
  for (const auto& [first, count] : {std::pair{0, 7}, {7, 12}, {19, 1}}) {
    const double at = first;
    const Array slice = Take(x, first, count);
    ExpectNear(RunKernel(Op::kPositionAdd, {slice, table}, {at}).front(), Take(whole, first, count),
               0);
    sum = Sum(sum, RunKernel(Op::kPositionGrad, {slice}, {25, at}).front());
  }
  ExpectNear(sum, dtable, 0);
  const int64_t size = 20 * 37;  // of the rows that are used
  for (int64_t i = 0; i < dtable.type.elements(); ++i) {
    float expected = 0;
    for (int64_t b = 0; b < 3 && i < size; ++b) expected += x.f32()[b * size + i];
    ASSERT_EQ(dtable.f32()[i], expected) << i;
  }
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    ASSERT_EQ(whole.f32()[i], x.f32()[i] + table.f32()[i % size]) << i;
  }
}

TEST_F(Slices, AreCutAndAppended) {
  const int64_t heads = 6, kv_heads = 2, size = 5, width = (heads + 2 * kv_heads) * size;
  const std::vector<double> both = {6, 2};
  const Array x = Random({2, 9, width});
  const Array keys = std::move(RunKernel(Op::kPackKeys, {x}, both).front());
  const Array back = std::move(RunKernel(Op::kPackKeysGrad, {keys}, both).front());
  ASSERT_EQ(keys.type, F32({2, 9, 2 * kv_heads * size}));
  ASSERT_EQ(back.type, x.type);
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const int64_t key = i % width - heads * size;
    ASSERT_EQ(back.f32()[i], key < 0 ? 0 : x.f32()[i]) << i;
    if (key < 0) continue;
    ASSERT_EQ(keys.f32()[i / width * 2 * kv_heads * size + key], x.f32()[i]) << i;
  }
  const Array some = Take(x, 3, 4);
  for (int64_t i = 0; i < some.type.elements(); ++i) {
    const int64_t b = i / (4 * width), rest = i % (4 * width);
    ASSERT_EQ(some.f32()[i], x.f32()[(b * 9 + 3) * width + rest]) << i;
  }
  ExpectNear(Append(Append(Take(x, 0, 3), some), Take(x, 7, 2)), x, 0);
}

}  // namespace
}  // namespace stringline::cpu
