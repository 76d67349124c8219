// Attention's bodies against the CPU's kernels.
#include "executor/cuda/bodies/attention.h"
#include "tests/stages/body_runs.h"

namespace stringline::cuda {
namespace {

struct AttentionCase {
  int64_t batch, positions, queries, keys, size;
  int64_t past = 0;    // rows before the sequence's
  int64_t mean = 0;    // of the lengths of packed documents; 0: none
  bool cross = false;  // queries have no keys of their own
};
// Tiles have 64 rows, 32 of heads of more than 128 channels. With a past, tiles of keys hold rows
// of the past, of the sequence, or of both. Documents end within tiles and span several.
constexpr AttentionCase kAttentionCases[] = {
    {1, 1, 1, 1, 8},
    {2, 1, 4, 2, 64},
    {1, 5, 2, 2, 10},
    {1, 64, 1, 1, 32},
    {2, 65, 2, 1, 16},
    {1, 33, 6, 2, 40},
    {1, 131, 2, 2, 8},
    {1, 70, 1, 1, 64},
    {1, 67, 3, 1, 80},
    {1, 66, 2, 1, 128},
    {1, 3, 1, 1, 129},
    {1, 37, 2, 1, 256},
    {1, 1, 1, 1, 8, 1},
    {2, 5, 2, 2, 10, 3},
    {2, 64, 4, 2, 16, 64},
    {1, 65, 2, 1, 20, 131},
    {2, 130, 1, 1, 8, 40},
    {1, 66, 2, 1, 128, 65},
    {1, 37, 2, 1, 200, 33},
    {1, 1, 1, 1, 8, 0, 1},
    {2, 9, 2, 2, 10, 0, 3},
    {2, 65, 4, 2, 16, 0, 8},
    {1, 200, 2, 1, 20, 0, 60},
    {1, 131, 1, 1, 8, 0, 1000},
    {1, 130, 2, 1, 128, 0, 20},
    {1, 70, 2, 1, 200, 0, 15},
    {1, 1, 1, 1, 8, 2, 0, true},
    {2, 5, 2, 2, 10, 3, 0, true},
    {2, 64, 4, 2, 16, 64, 0, true},
    {1, 65, 2, 1, 20, 131, 0, true},
    {2, 130, 1, 1, 8, 40, 0, true},
    {1, 66, 2, 1, 128, 65, 0, true},
    {1, 37, 2, 1, 200, 33, 0, true},
};

template <class Check>
void ForEveryAttention(Check check) {
  for (const AttentionCase& c : kAttentionCases) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(absl::StrCat(c.batch, " sequences of ", c.positions, " after ", c.past,
                                ", documents of ", c.mean, ", heads ", c.queries, " ", c.keys,
                                " of ", c.size, ", ", run.threads, " threads, offset ",
                                run.offset));
      const AttentionShape shape = {
          c.batch, c.positions, {c.queries, c.keys, c.size}, c.past, c.cross};
      check(c, shape, run, float());
      check(c, shape, run, Bf16());
    }
  }
}

class AttentionBodiesTest : public BodiesTest {
 protected:
  Array Packed(const AttentionCase& c, float below) {
    const int64_t own = c.cross ? 0 : 2 * c.keys;
    return Random({c.batch, c.positions, (c.queries + own) * c.size}, below);
  }
  // The rows of the past; where the case has none, a row that must not be read.
  Array Past(const AttentionCase& c, float below) {
    return Random({c.batch, std::max<int64_t>(1, c.past), 2 * c.keys * c.size}, below);
  }
  Array Positions(const AttentionCase& c) {
    return cpu::DocumentPositions(c.batch, c.positions, std::max<int64_t>(1, c.mean), random_);
  }
  static std::vector<Array> Forward(const AttentionCase& c, const Array& qkv, const Array& past,
                                    const Array& positions) {
    if (c.cross) return RunKernel(Op::kCrossAttention, {qkv, past}, Heads(c));
    if (c.mean > 0) return RunKernel(Op::kPackedAttention, {qkv, positions}, Heads(c));
    return c.past == 0 ? RunKernel(Op::kAttention, {qkv}, Heads(c))
                       : RunKernel(Op::kAttentionPast, {qkv, past}, Heads(c));
  }
  static std::vector<double> Heads(const AttentionCase& c) {
    return {double(c.queries), double(c.keys)};
  }
};

TEST_F(AttentionBodiesTest, Attention) {
  ForEveryAttention(
      [this](const AttentionCase& c, const AttentionShape& shape, BodyRun run, auto type) {
        using T = decltype(type);
        const Array qkv = Stored<T>(Packed(c, 2));
        const Array past = Stored<T>(Past(c, 2));
        const Array positions = Positions(c);
        const std::vector<Array> expected = Forward(c, qkv, past, positions);
        Buffer<int32_t> in_documents(positions, run);
        Buffer<T> from(qkv, run), before(past, run), y(expected[0].type.elements(), run);
        Buffer<float> lse(expected[1].type.elements(), run);
        RunAttention(HostRun{run.threads},
                     AttentionArguments<T>{from.data(), y.data(), lse.data(), shape, before.data(),
                                           c.mean > 0 ? in_documents.data() : nullptr});
        ExpectSame(y, expected[0]);
        ExpectSame(lse, expected[1]);
      });
}

TEST_F(AttentionBodiesTest, AttentionGrad) {
  ForEveryAttention([this](const AttentionCase& c, const AttentionShape& shape, BodyRun run,
                           auto type) {
    using T = decltype(type);
    const Array qkv = Stored<T>(Packed(c, 2));
    const Array dy = Stored<T>(Random({c.batch, c.positions, c.queries * c.size}));
    const Array past = Stored<T>(Past(c, 2));
    const Array positions = Positions(c);
    const std::vector<Array> forward = Forward(c, qkv, past, positions);
    const Array y = Stored<T>(forward[0]);
    const std::vector<Array> expected =
        c.mean > 0
            ? RunKernel(Op::kPackedAttentionGrad, {dy, qkv, positions, y, forward[1]}, Heads(c))
        : c.cross     ? RunKernel(Op::kCrossAttentionGrad, {dy, qkv, past, y, forward[1]}, Heads(c))
        : c.past == 0 ? RunKernel(Op::kAttentionGrad, {dy, qkv, y, forward[1]}, Heads(c))
                      : RunKernel(Op::kAttentionPastGrad, {dy, qkv, past, y, forward[1]}, Heads(c));
    Buffer<T> from(qkv, run), grad(dy, run), mixed(y, run), dqkv(qkv.type.elements(), run);
    Buffer<T> before(past, run), dpast(past.type.elements(), run);
    Buffer<int32_t> in_documents(positions, run);
    Buffer<float> lse(forward[1], run), delta(AttentionGradFloats(shape), run);
    RunAttentionGrad(
        HostRun{run.threads},
        AttentionGradArguments<T>{grad.data(), from.data(), mixed.data(), lse.data(), delta.data(),
                                  dqkv.data(), shape, before.data(), dpast.data(),
                                  c.mean > 0 ? in_documents.data() : nullptr});
    delta.Values();
    ExpectSame(dqkv, expected[0]);
    if (c.past > 0) ExpectSame(dpast, expected[1]);
  });
}

// Large scores, in an order such that every tile's largest score is the largest so far, or none is.
TEST_F(AttentionBodiesTest, LargeScores) {
  const AttentionCase c = {1, 200, 1, 1, 16};
  const AttentionShape shape = {c.batch, c.positions, {c.queries, c.keys, c.size}};
  const BodyRun run = {128, 0};
  for (const float slope : {2.0f, -2.0f}) {
    const Array qkv = Packed(c, 1);
    for (int64_t t = 0; t < c.positions; ++t) {
      qkv.f32()[t * 48] = 30;
      qkv.f32()[t * 48 + 16] = slope * static_cast<float>(t);
    }
    const std::vector<Array> expected = RunKernel(Op::kAttention, {qkv}, Heads(c));
    Buffer<float> from(qkv, run), y(expected[0].type.elements(), run), lse(c.positions, run);
    RunAttention(HostRun{run.threads},
                 AttentionArguments<float>{from.data(), y.data(), lse.data(), shape});
    ExpectSame(y, expected[0], 1e-4f);
    ExpectSame(lse, expected[1]);
  }
}

}  // namespace
}  // namespace stringline::cuda
