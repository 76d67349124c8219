// Bodies specific to kinds of rows: tokens, logits, heads.
#include "executor/cuda/bodies/column_sum.h"
#include "executor/cuda/bodies/cross_entropy.h"
#include "executor/cuda/bodies/embedding.h"
#include "executor/cuda/bodies/rotary.h"
#include "tests/stages/body_runs.h"

namespace stringline::cuda {
namespace {

TEST_F(BodiesTest, Embedding) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const int64_t count = 2 * shape.rows + 1;
    const Array table = Stored<T>(Random({shape.rows, shape.columns}));
    const Array token = RandomIntegers({count}, static_cast<int32_t>(shape.rows));
    Buffer<T> rows(table, run), y(count * shape.columns, run);
    Buffer<int32_t> ids(token, run);
    RunOnHost(Embedding<T>{ids.data(), rows.data(), y.data(), count, shape.rows, shape.columns},
              run.threads);
    ExpectSame(y, RunKernel(Op::kEmbedding, {token, table}, {})[0], 0);
  });
}

TEST_F(BodiesTest, NoSuchTokenGivesNaN) {
  const BodyRun run = {32, 0};
  Buffer<float> table(Random({5, 8}), run), y(3 * 8, run);
  const int32_t tokens[] = {-1, 5, 4};
  RunOnHost(Embedding<float>{tokens, table.data(), y.data(), 3, 5, 8}, run.threads);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(y.data()[i]), i < 16) << i;
}

// Few and many distinct tokens, in tables that need one, two and three digits.
TEST_F(BodiesTest, EmbeddingGrad) {
  const struct {
    int64_t count, columns;
    int32_t vocabulary, kinds;
  } kCases[] = {{1, 3, 1, 1},       {40, 5, 300, 1},    {700, 8, 257, 3},
                {1100, 16, 50, 50}, {513, 8, 300, 300}, {600, 24, 70000, 70000}};
  for (const auto& c : kCases) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(absl::StrCat(c.count, " tokens of ", c.kinds, ", ", run.threads, " threads"));
      const Array token = RandomIntegers({c.count}, c.kinds);
      const Array dy = Stored<Bf16>(Random({c.count, c.columns}));
      Buffer<int32_t> ids(token, run), integers(EmbeddingGradIntegers(c.count), run);
      Buffer<float> floats(EmbeddingGradFloats(c.count, c.columns), run);
      Buffer<float> dtable(int64_t{c.vocabulary} * c.columns, run);
      Buffer<Bf16> grad(dy, run);
      dtable.Set(0.5f);
      AddEmbeddingGrad(HostRun{run.threads}, ids.data(), grad.data(), dtable.data(), c.count,
                       c.vocabulary, c.columns, integers.data(), floats.data());
      Array expected = RunKernel(Op::kEmbeddingGrad, {token, dy}, {double(c.vocabulary)})[0];
      for (int64_t i = 0; i < expected.type.elements(); ++i) expected.f32()[i] += 0.5f;
      ExpectSame(dtable, expected);
      floats.Values();  // checks that no memory around was written
      integers.Values();
    }
  }
}

// The forward pass with the gradient, in place or not, in rows with room at their end; and the
// gradient alone.
TEST_F(BodiesTest, CrossEntropy) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const auto [rows, columns] = shape;
    const Array logits = Stored<T>(Random({rows, columns}, 5));
    Array target = RandomIntegers({rows}, static_cast<int32_t>(columns));
    target.i32()[rows / 2] = kWithoutTarget;
    Array dloss = cpu::MakeArray(cpu::F32({}));
    dloss.f32()[0] = 0.25f;
    const std::vector<Array> out = RunKernel(Op::kCrossEntropy, {logits, target}, {});
    const Array grad = RunKernel(Op::kCrossEntropyGrad, {dloss, logits, target, out[1]}, {})[0];
    Buffer<int32_t> right(target, run);
    for (const int64_t stride : {columns, (columns + 15) / 16 * 16}) {
      Buffer<T> x(rows * stride, run), dx(rows * stride, run);
      for (int64_t i = 0; i < rows * columns; ++i) {
        Keep(logits.f32()[i], x.data() + i / columns * stride + i % columns);
      }
      const auto columns_of = [&](Buffer<T>& padded) {
        const Array all = padded.Values();
        Array some = cpu::MakeArray(logits.type);
        for (int64_t i = 0; i < rows * stride; ++i) {
          if (i % stride < columns) {
            some.f32()[i / stride * columns + i % stride] = all.f32()[i];
          } else {
            EXPECT_EQ(all.f32()[i], 0) << "column " << i % stride;
          }
        }
        return some;
      };
      Buffer<float> lse(rows, run), losses(rows, run), loss(1, run);
      CrossEntropy<T> body{x.data(),    right.data(), lse.data(), losses.data(), dx.data(),
                           dloss.f32(), rows,         columns,    stride};
      RunOnHost(body, run.threads);
      RunOnHost(SumOfAll{losses.data(), loss.data(), rows}, run.threads);
      ExpectSame(lse, out[1], 1e-5f, Largest(logits));
      ExpectSame(loss, out[0], 1e-5f, Largest(logits));
      ExpectSame<T>(columns_of(dx), grad, 1e-5f, 0.25f);
      // Without a number it is 1.
      const float one = 1;
      Buffer<T> by_one(rows * stride, run);
      body.dloss = nullptr;
      RunOnHost(body, run.threads);
      body.dloss = &one;
      body.dlogits = by_one.data();
      RunOnHost(body, run.threads);
      EXPECT_EQ(std::memcmp(dx.data(), by_one.data(), sizeof(T) * rows * stride), 0);
      body.dloss = dloss.f32();
      body.dlogits = dx.data();
      body.lse_is_known = true;
      dx.Set(7);
      RunOnHost(body, run.threads);
      ExpectSame<T>(columns_of(dx), grad, 1e-5f, 0.25f);
      body.lse_is_known = false;
      body.dlogits = x.data();
      losses.Set(7);
      RunOnHost(body, run.threads);
      ExpectSame<T>(columns_of(x), grad, 1e-5f, 0.25f);
      RunOnHost(SumOfAll{losses.data(), loss.data(), rows}, run.threads);
      ExpectSame(loss, out[0], 1e-5f, Largest(logits));
    }
  });
}

// Rows in place, a stride of whole vectors: from scratch memory they have the same bits. The longer
// ones have more vectors than a block has threads, and all have elements behind the last vector.
TEST_F(BodiesTest, CrossEntropyInScratch) {
  const auto check = [this](int64_t columns, BodyRun run, auto type) {
    using T = decltype(type);
    SCOPED_TRACE(absl::StrCat(columns, " columns, ", run.threads, " threads"));
    const int64_t rows = 3, stride = (columns + 15) / 16 * 16;
    const Array logits = Stored<T>(Random({rows, stride}, 5));
    Array target = RandomIntegers({rows}, static_cast<int32_t>(columns));
    target.i32()[1] = static_cast<int32_t>(columns - 1);
    target.i32()[2] = -1;
    const float dloss = 0.25f;
    Buffer<int32_t> right(target, run);
    Buffer<T> x(logits, run), y(logits, run);
    Buffer<float> lse(rows, run), losses(rows, run), other_lse(rows, run), other_losses(rows, run);
    const CrossEntropy<T> body{x.data(), right.data(), lse.data(), losses.data(), x.data(),
                               &dloss,   rows,         columns,    stride};
    RunOnHost(body, run.threads);
    CrossEntropyInScratch<T> in_scratch{body};
    in_scratch.logits = in_scratch.dlogits = y.data();
    in_scratch.lse = other_lse.data();
    in_scratch.losses = other_losses.data();
    ASSERT_TRUE(in_scratch.fits());
    RunOnHost(in_scratch, run.threads);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), sizeof(T) * rows * stride), 0);
    EXPECT_EQ(std::memcmp(lse.data(), other_lse.data(), sizeof(float) * rows), 0);
    EXPECT_EQ(std::memcmp(losses.data(), other_losses.data(), sizeof(float) * rows), 0);
  };
  for (const int64_t columns : {3, 16, 333, 4095}) {
    for (const int threads : {32, 128}) {
      check(columns, {threads, 0}, float());
      check(columns, {threads, 0}, Bf16());
    }
  }
  check(9001, {1024, 0}, float());
  check(20011, {1024, 0}, Bf16());
}

TEST_F(BodiesTest, RowsOfLogitsThatFitIntoScratch) {
  alignas(16) Bf16 logits[8] = {};
  const auto fits = [&](int64_t columns, int64_t stride, const Bf16* from, Bf16* to, bool known) {
    return CrossEntropyInScratch<Bf16>{
        {from, nullptr, nullptr, nullptr, to, nullptr, 1, columns, stride, known}}
        .fits();
  };
  EXPECT_TRUE(fits(50304, 50304, logits, logits, false));  // GPT-2's
  EXPECT_TRUE(fits(50257, 50304, logits, logits, false));
  EXPECT_FALSE(fits(151936, 151936, logits, logits, false)) << "Qwen's are longer";
  EXPECT_FALSE(fits(50257, 50257, logits, logits, false)) << "rows begin anywhere";
  EXPECT_FALSE(fits(50304, 50304, logits + 1, logits + 1, false));
  EXPECT_FALSE(fits(50304, 50304, logits, nullptr, false)) << "nothing is read again";
  EXPECT_FALSE(fits(50304, 50304, logits, logits, true)) << "nothing is read again";
}

TEST_F(BodiesTest, NoSuchTargetGivesNaN) {
  const BodyRun run = {32, 0};
  Buffer<float> logits(Random({4, 8}), run), losses(4, run);
  const int32_t targets[] = {-2, 8, 7, kWithoutTarget};
  RunOnHost(CrossEntropy<float>{logits.data(), targets, nullptr, losses.data(), nullptr, nullptr, 4,
                                8, 8},
            run.threads);
  for (int n = 0; n < 4; ++n) EXPECT_EQ(std::isnan(losses.data()[n]), n < 2) << n;
  EXPECT_EQ(losses.data()[3], 0);
}

struct HeadCase {
  int64_t batch, positions;
  PackedHeads heads;
};
constexpr HeadCase kHeadCases[] = {
    {1, 1, {1, 1, 2}},   {2, 5, {3, 1, 6}},   {2, 7, {4, 2, 16}},
    {1, 33, {2, 2, 64}}, {3, 4, {1, 1, 128}},
};

template <class Check>
void ForEveryHeadRun(Check check) {
  for (const HeadCase& c : kHeadCases) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(absl::StrCat(c.batch, " x ", c.positions, ", ", c.heads.queries, " + 2 x ",
                                c.heads.keys, " heads of ", c.heads.size, ", ", run.threads,
                                " threads, offset ", run.offset));
      check(c, run, float());
      check(c, run, Bf16());
    }
  }
}

TEST_F(BodiesTest, Rotary) {
  ForEveryHeadRun([this](const HeadCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const int64_t half = c.heads.size / 2, rows = c.batch * c.positions;
    const Array qkv = Stored<T>(Random({c.batch, c.positions, c.heads.all() * c.heads.size}));
    Buffer<float> cosines(c.positions * half, run), sines(c.positions * half, run);
    // Some of the sequences are slices.
    const int64_t first = c.positions % 2 == 0 ? 100 : 0;
    RunOnHost(RotaryTable{cosines.data(), sines.data(), c.positions, half, 1e4, first},
              run.threads);
    cosines.Values();
    sines.Values();
    for (const double direction : {1.0, -1.0}) {
      const Array expected = RunKernel(
          Op::kRotary, {qkv},
          {double(c.heads.queries), double(c.heads.keys), 1e4, direction, double(first)})[0];
      Buffer<T> x(qkv, run), y(qkv.type.elements(), run);
      Rotary<T> body{x.data(), y.data(),    cosines.data(), sines.data(),
                     rows,     c.positions, c.heads,        float(direction)};
      RunOnHost(body, run.threads);
      ExpectSame(y, expected);
      body.y = x.data();
      RunOnHost(body, run.threads);
      ExpectSame(x, expected);
      if (first > 0) continue;
      const Array positions = cpu::DocumentPositions(c.batch, c.positions, 5, random_);
      Buffer<int32_t> in_documents(positions, run);
      Buffer<T> packed(qkv, run);
      body.x = packed.data();
      body.y = y.data();
      body.in_documents = in_documents.data();
      RunOnHost(body, run.threads);
      ExpectSame(y, RunKernel(Op::kPackedRotary, {qkv, positions},
                              {double(c.heads.queries), double(c.heads.keys), 1e4, direction})[0]);
    }
  });
}

template <typename T, typename P>
void CheckHeadNorm(const HeadCase& c, BodyRun run, const Array& qkv, const Array& dy,
                   const Array& query_gamma, const Array& key_gamma) {
  const int64_t rows = c.batch * c.positions, size = c.heads.size;
  const double queries = double(c.heads.queries), keys = double(c.heads.keys);
  const std::vector<Array> out =
      RunKernel(Op::kHeadNorm, {qkv, query_gamma, key_gamma}, {queries, keys, 1e-5});
  Buffer<T> x(qkv, run), grad(dy, run), y(qkv.type.elements(), run), dx(y.count(), run);
  Buffer<P> of_queries(query_gamma, run), of_keys(key_gamma, run);
  Buffer<float> rstd(rows * c.heads.normed(), run);
  RunOnHost(HeadNorm<T, P>{x.data(), of_queries.data(), of_keys.data(), y.data(), rstd.data(), rows,
                           c.heads, 1e-5f},
            run.threads);
  ExpectSame(y, out[0]);
  ExpectSame(rstd, out[1]);

  const std::vector<Array> grads =
      RunKernel(Op::kHeadNormGrad, {dy, qkv, query_gamma, key_gamma, out[1]}, {queries, keys});
  HeadNormGrad<T, P> body{grad.data(),    x.data(),    of_queries.data(),
                          of_keys.data(), rstd.data(), dx.data(),
                          nullptr,        rows,        c.heads};
  Buffer<float> partial(body.blocks() * body.partial_columns(), run);
  body.partial = partial.data();
  RunOnHost(body, run.threads);
  ExpectSame(dx, grads[0], 1e-5f, Largest(dy) * Largest(query_gamma) * Largest(out[1]));
  for (int k = 0; k < 2; ++k) {
    Buffer<float> sum(size, run), room(ColumnSumFloats(body.blocks(), size), run);
    SumColumns(HostRun{run.threads},
               ColumnSum<float>{partial.data() + k * size, sum.data(), body.blocks(), size,
                                body.partial_columns()},
               room.data());
    ExpectSame(sum, grads[1 + k], 1e-5f, Largest(dy) * Largest(qkv) * Largest(out[1]));
  }
}

TEST_F(BodiesTest, HeadNorm) {
  ForEveryHeadRun([this](const HeadCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const std::vector<int64_t> shape = {c.batch, c.positions, c.heads.all() * c.heads.size};
    const Array qkv = Stored<T>(Random(shape)), dy = Stored<T>(Random(shape));
    const Array query_gamma = Stored<Bf16>(Random({c.heads.size}));
    const Array key_gamma = Stored<Bf16>(Random({c.heads.size}));
    CheckHeadNorm<T, float>(c, run, qkv, dy, query_gamma, key_gamma);
    CheckHeadNorm<T, T>(c, run, qkv, dy, query_gamma, key_gamma);
  });
}

}  // namespace
}  // namespace stringline::cuda
