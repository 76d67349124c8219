// Bodies of the end of a step against executor/engine/optimizer.h.
#include "executor/cuda/bodies/update.h"
#include "executor/engine/optimizer.h"
#include "tests/stages/body_runs.h"

namespace stringline::cuda {
namespace {

// Parameters of several lengths with gradients and moments, some with a copy.
class UpdateBodiesTest : public BodiesTest {
 protected:
  struct Held {
    Buffer<float> param, grad, m, v;
    Buffer<Bf16> copy;
  };

  void Hold(const BodyRun& run, float factor) {
    held_.clear();
    values_.clear();
    params_.clear();
    for (const int64_t count : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{1000}, kUpdateChunk,
                                2 * kUpdateChunk + 8, 3 * kUpdateChunk + 1}) {
      std::vector<Array> own = {Random({count}), Random({count}, factor), Random({count}),
                                Random({count})};
      for (int64_t i = 0; i < count; ++i) own[3].f32()[i] *= own[3].f32()[i];
      held_.push_back({{own[0], run}, {own[1], run}, {own[2], run}, {own[3], run}, {count, run}});
      values_.push_back(std::move(own));
    }
    for (size_t p = 0; p < held_.size(); ++p) {
      Held& h = held_[p];
      const int64_t count = h.param.count();
      params_.push_back({h.param.data(), h.grad.data(), h.m.data(), h.v.data(),
                         p % 3 == 1 ? nullptr : h.copy.data(), count, p % 2 == 0});
    }
    chunks_ = ChunksOf(params_);
  }
  int64_t chunk_count() const { return static_cast<int64_t>(chunks_.size()); }

  std::vector<Held> held_;
  std::vector<std::vector<Array>> values_;  // by parameter: itself, gradient, m, v
  std::vector<UpdatedParam> params_;
  std::vector<ParamChunk> chunks_;
};

absl::Span<float> SpanOf(const Array& array) {
  return absl::MakeSpan(array.f32(), static_cast<size_t>(array.type.elements()));
}

TEST_F(UpdateBodiesTest, NormAndClipping) {
  for (const BodyRun& run : kBodyRuns) {
    for (const float factor : {1.0f, 1e30f}) {
      Hold(run, factor);
      double expected = 0;
      for (const std::vector<Array>& own : values_) expected += SumOfSquares(SpanOf(own[1]));
      std::vector<double> squares(chunks_.size());
      double sum = 0, norm = 0;
      RunOnHost(SquaresOfChunks{params_.data(), chunks_.data(), squares.data(), chunk_count()},
                run.threads);
      RunOnHost(SumOfSquaredChunks{squares.data(), &sum, chunk_count()}, run.threads);
      ASSERT_NEAR(sum, expected, 1e-12 * expected);
      const double mean = 1.0 / 512;
      for (const double limit : {0.0, 1e-3, 1e40}) {
        float scale = 0;
        RunOnHost(ClipScale{&sum, &norm, &scale, mean, limit}, run.threads);
        EXPECT_DOUBLE_EQ(norm, std::sqrt(sum) * mean);
        EXPECT_FLOAT_EQ(scale, limit == 1e-3 ? mean * (limit / norm) : mean);
      }
    }
  }
}

TEST_F(UpdateBodiesTest, AdamW) {
  const AdamW settings = {.learning_rate = 3e-3, .weight_decay = 0.1};
  for (const BodyRun& run : kBodyRuns) {
    Hold(run, 1);
    for (const int step : {1, 2, 100}) {
      SCOPED_TRACE(absl::StrCat("step ", step, ", ", run.threads, " threads"));
      const UpdateStep from = {settings, step, 0.125};
      AdamWStep now;
      float scale = 0;
      RunOnHost(SetStep{&from, &now, &scale}, run.threads);
      RunOnHost(AdamWUpdate{params_.data(), chunks_.data(), chunk_count(), &now, &scale},
                run.threads);
      for (size_t p = 0; p < held_.size(); ++p) {
        SCOPED_TRACE(absl::StrCat("parameter ", p));
        const std::vector<Array>& own = values_[p];
        UpdateAdamW(settings, step, scale, params_[p].decays, SpanOf(own[0]), SpanOf(own[1]),
                    SpanOf(own[2]), SpanOf(own[3]));
        ExpectSame(held_[p].param, own[0]);
        ExpectSame(held_[p].grad, own[1], 0);
        ExpectSame(held_[p].m, own[2]);
        ExpectSame(held_[p].v, own[3]);
        const Array copy = held_[p].copy.Values();
        if (params_[p].copy != nullptr) {
          ExpectSame<Bf16>(copy, held_[p].param.Values(), 0);
        } else {
          EXPECT_TRUE(std::isnan(copy.f32()[0]));
        }
        const Array next = Random({held_[p].grad.count()});
        held_[p].grad.Put(next);
        std::copy_n(next.f32(), next.type.elements(), own[1].f32());
      }
    }
  }
}

// A gradient that is not finite leaves all unchanged, for the host to see.
TEST_F(UpdateBodiesTest, BadGradientChangesNothing) {
  const BodyRun run = {128, 0};
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Hold(run, 1);
    held_[4].grad.data()[77] = bad;
    std::vector<double> squares(chunks_.size());
    double sum = 0, norm = 0;
    float scale = 0;
    RunOnHost(SquaresOfChunks{params_.data(), chunks_.data(), squares.data(), chunk_count()},
              run.threads);
    RunOnHost(SumOfSquaredChunks{squares.data(), &sum, chunk_count()}, run.threads);
    RunOnHost(ClipScale{&sum, &norm, &scale, 1, 1}, run.threads);
    EXPECT_FALSE(std::isfinite(norm));
    EXPECT_TRUE(std::isnan(scale));
    const AdamWStep now = {0.1f, 1, 1, 0.1f, 0.9f, 0.95f, 1e-8f};
    RunOnHost(AdamWUpdate{params_.data(), chunks_.data(), chunk_count(), &now, &scale},
              run.threads);
    for (size_t p = 0; p < held_.size(); ++p) {
      ExpectSame(held_[p].param, values_[p][0], 0);
      ExpectSame(held_[p].m, values_[p][2], 0);
    }
  }
}

TEST_F(UpdateBodiesTest, Balance) {
  for (const BodyRun& run : kBodyRuns) {
    for (const int64_t experts : {1, 8, 300}) {
      const Array bias = Random({experts}), load = Random({experts}, 100);
      for (int64_t e = 0; e < experts; ++e) load.f32()[e] = std::round(std::abs(load.f32()[e]));
      Buffer<float> b(bias, run), l(load, run);
      const UpdateStep step = {.balance_rate = 0.001};
      RunOnHost(BalanceUpdate{b.data(), l.data(), experts, &step}, run.threads);
      UpdateBalance(0.001, SpanOf(bias), SpanOf(load));
      ExpectSame(b, bias, 0);
      ExpectSame(l, load, 0);
    }
  }
}

}  // namespace
}  // namespace stringline::cuda
