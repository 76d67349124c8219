// Bodies of the mixture of experts against the CPU's kernels.
#include "executor/cuda/bodies/cross_entropy.h"
#include "executor/cuda/bodies/dispatch.h"
#include "executor/cuda/bodies/route.h"
#include "tests/stages/body_runs.h"

namespace stringline::cuda {
namespace {

struct RouterCase {
  int32_t experts, choices;
  Scores kind;
  bool normalise;
  float scale = 1;
  int32_t groups = 1, top_groups = 1, group_best = 1;
};
constexpr RouterCase kRouterCases[] = {
    {5, 1, Scores::kSoftmax, false},
    {1, 1, Scores::kSoftmax, true},
    {8, 2, Scores::kSoftmax, true},
    {8, 3, Scores::kSigmoid, false, 0.5f},
    {64, 8, Scores::kSigmoid, true, 2.5f, 8, 4, 2},  // as DeepSeek-V3
    {60, 6, Scores::kSoftmax, false, 16, 6, 3, 1},   // as DeepSeek-V2
    {300, 7, Scores::kSoftmax, true},
    {6, 6, Scores::kSigmoid, true},
};

template <class Check>
void ForEveryRouter(Check check) {
  for (const RouterCase& c : kRouterCases) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(absl::StrCat(c.experts, " experts, ", c.choices, " choices, ", run.threads,
                                " threads, offset ", run.offset));
      check(c, run, float());
      check(c, run, Bf16());
    }
  }
}

class ExpertsBodiesTest : public BodiesTest {
 protected:
  // Logits whose rows have no two values close enough that rounding decides.
  template <typename T>
  Array Logits(int64_t rows, int32_t experts) {
    Array logits = cpu::MakeArray(cpu::F32({rows, experts}));
    std::vector<float> row(static_cast<size_t>(experts));
    for (int64_t n = 0; n < rows; ++n) {
      for (int32_t e = 0; e < experts; ++e) {
        row[e] = (static_cast<float>(e) - 0.4f * static_cast<float>(experts)) / 64;
      }
      std::shuffle(row.begin(), row.end(), random_);
      std::copy(row.begin(), row.end(), logits.f32() + n * experts);
    }
    return Stored<T>(logits);
  }
};

TEST_F(ExpertsBodiesTest, Route) {
  const int64_t rows = 19;
  ForEveryRouter([&](const RouterCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const Array logits = Logits<T>(rows, c.experts);
    for (const bool biased : {false, true}) {
      Array bias = cpu::MakeArray(biased ? cpu::F32({c.experts}) : cpu::F32({}));
      for (int32_t e = 0; biased && e < c.experts; ++e) bias.f32()[e] = 0.25f * float(e % 3);
      const std::vector<Array> out =
          RunKernel(Op::kRoute, {logits, bias},
                    {double(c.choices), double(c.kind == Scores::kSigmoid), double(c.normalise),
                     c.scale, double(c.groups), double(c.top_groups), double(c.group_best)});
      Buffer<T> x(logits, run);
      Buffer<float> add(bias, run), weight(rows * c.choices, run);
      Buffer<int32_t> choice(rows * c.choices, run);
      RunOnHost(
          Route<T>{x.data(), add.data(), weight.data(), choice.data(), rows, c.experts, c.choices,
                   c.kind, !biased, c.normalise, c.scale, c.groups, c.top_groups, c.group_best},
          run.threads);
      ExpectSameIntegers(choice, out[1]);
      ExpectSame(weight, out[0]);
    }
  });
}

TEST(RouteTest, OfEqualScoresTheFirst) {
  const BodyRun run = {32, 0};
  Buffer<float> logits(2 * 40, run), weight(2 * 4, run);
  Buffer<int32_t> choice(2 * 4, run);
  logits.Set(0.5f);
  logits.data()[40 + 35] = 1;
  Route<float> body{logits.data(),    nullptr, weight.data(), choice.data(), 2, 40, 4,
                    Scores::kSoftmax, false,   true};
  RunOnHost(body, run.threads);
  const int32_t kExpected[] = {0, 1, 2, 3, 35, 0, 1, 2};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(choice.data()[i], kExpected[i]) << i;
  body.groups = 10;
  body.top_groups = 2;
  body.group_best = 2;
  RunOnHost(body, run.threads);
  const int32_t kGrouped[] = {0, 1, 2, 3, 35, 0, 1, 2};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(choice.data()[i], kGrouped[i]) << i;
}

// Rows of NaN do not lead the choice out of the experts.
TEST(RouteTest, NaNChoosesSomeExpert) {
  const BodyRun run = {32, 0};
  Buffer<float> logits(40, run), weight(4, run);
  Buffer<int32_t> choice(4, run);
  for (const int32_t groups : {1, 8}) {
    Route<float> body{logits.data(),
                      nullptr,
                      weight.data(),
                      choice.data(),
                      1,
                      40,
                      4,
                      Scores::kSigmoid,
                      false,
                      true,
                      1,
                      groups,
                      1,
                      2};
    RunOnHost(body, run.threads);
    for (int k = 0; k < 4; ++k) {
      EXPECT_GE(choice.data()[k], 0);
      EXPECT_LT(choice.data()[k], 40);
    }
  }
}

TEST_F(ExpertsBodiesTest, RouteGrad) {
  const int64_t rows = 19;
  ForEveryRouter([&](const RouterCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const Array logits = Stored<T>(Random({rows, c.experts}));
    const Array dweight = Random({rows, c.choices});
    const Array choice = RandomIntegers({rows, c.choices}, c.experts);
    Buffer<T> x(logits, run), dlogits(rows * c.experts, run);
    Buffer<float> d(dweight, run);
    Buffer<int32_t> chosen(choice, run);
    RunOnHost(RouteGrad<T>{d.data(), x.data(), chosen.data(), dlogits.data(), rows, c.experts,
                           c.choices, c.kind, c.normalise, c.scale},
              run.threads);
    const Array expected =
        RunKernel(Op::kRouteGrad, {dweight, logits, choice},
                  {double(c.kind == Scores::kSigmoid), double(c.normalise), double(c.scale)})[0];
    ExpectSame(dlogits, expected, 1e-5f, c.scale);
  });
}

TEST_F(ExpertsBodiesTest, ChoiceCountsAndBalance) {
  const int64_t rows = 700;
  ForEveryRouter([&](const RouterCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const int64_t slots = rows * c.choices;
    const Array logits = Stored<T>(Random({rows, c.experts}));
    const Array choice = RandomIntegers({rows, c.choices}, c.experts);
    Buffer<int32_t> chosen(choice, run), of_chunks(SortCounts(slots, c.experts), run);
    Buffer<float> counts(c.experts, run), along(rows, run), loss(1, run);
    RunOnHost(CountKeys{SortKeys{chosen.data(), nullptr, slots, c.experts}, of_chunks.data()},
              run.threads);
    ChoiceCounts sum{of_chunks.data(), counts.data(), SortChunks(slots), c.experts};
    RunOnHost(sum, run.threads);
    const Array once = RunKernel(Op::kChoiceCounts, {choice}, {double(c.experts)})[0];
    ExpectSame(counts, once, 0);

    Array dloss = cpu::MakeArray(cpu::F32({}));
    dloss.f32()[0] = -3;
    Buffer<T> x(logits, run), dlogits(rows * c.experts, run);
    const float factor = 0.01f * float(c.experts) / float(slots);
    RunOnHost(Balance<T>{x.data(), counts.data(), along.data(), dlogits.data(), dloss.f32(), rows,
                         c.experts, factor},
              run.threads);
    RunOnHost(SumOfAll{along.data(), loss.data(), rows, factor}, run.threads);
    ExpectSame(loss, RunKernel(Op::kBalanceLoss, {logits, choice}, {0.01})[0]);
    ExpectSame(dlogits, RunKernel(Op::kBalanceLossGrad, {dloss, logits, choice}, {0.01})[0], 1e-5f,
               3 * factor * Largest(once));

    sum.accumulate = true;
    RunOnHost(sum, run.threads);
    ExpectSame(counts, RunKernel(Op::kScale, {once}, {2.0})[0], 0);
  });
}

// The plan with and without room for all, the rows on their way to experts, and back with a sum.
TEST_F(ExpertsBodiesTest, Dispatch) {
  const struct {
    int64_t rows;
    int32_t experts, choices, capacity;
  } kCases[] = {{1, 1, 1, 0},   {300, 4, 2, 0},   {300, 4, 2, 90}, {17, 40, 3, 1},
                {700, 8, 3, 0}, {700, 8, 3, 200}, {513, 1, 1, 5},  {90, 300, 6, 2}};
  for (const auto& c : kCases) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(absl::StrCat(c.rows, " rows, ", c.experts, " experts, capacity ", c.capacity,
                                ", ", run.threads, " threads, offset ", run.offset));
      const int64_t slots = c.rows * c.choices, width = 24;
      const Array choice = RandomIntegers({c.rows, c.choices}, c.experts);
      std::vector<Array> plan =
          RunKernel(Op::kDispatchPlan, {choice}, {double(c.experts), double(c.capacity)});
      for (const int i : {0, 1}) plan[i] = {cpu::I32(plan[i].type.shape), plan[i].data};
      Buffer<int32_t> chosen(choice, run), order(slots, run), counts(c.experts, run);
      Buffer<int32_t> integers(DispatchPlanIntegers(slots, c.experts), run), place(slots, run);
      Buffer<float> dropped(1, run);
      PlanDispatch(HostRun{run.threads}, chosen.data(), slots, c.experts, c.capacity, order.data(),
                   counts.data(), dropped.data(), integers.data());
      integers.Values();
      ExpectSameIntegers(order, plan[0]);
      ExpectSameIntegers(counts, plan[1]);
      ExpectSame(dropped, plan[2], 0);

      const Array x = Stored<Bf16>(Random({c.rows, width}));
      const Array gathered = RunKernel(Op::kGatherRows, {x, plan[0]}, {})[0];
      Buffer<Bf16> from(x, run), y(slots * width, run), sum(c.rows * width, run);
      RunOnHost(GatherRows<Bf16>{from.data(), order.data(), y.data(), slots, c.choices, width},
                run.threads);
      ExpectSame(y, gathered, 0);
      RunOnHost(InvertOrder{order.data(), place.data(), slots}, run.threads);
      place.Values();
      const Array back = Stored<Bf16>(Random({slots, width}));
      y.Put(back);
      RunOnHost(SumRows<Bf16>{y.data(), place.data(), sum.data(), c.rows, c.choices, width},
                run.threads);
      ExpectSame(sum, RunKernel(Op::kSumRows, {back, plan[0]}, {})[0]);

      const Array weights = Random({c.rows, c.choices});
      Buffer<float> weight(weights, run), sorted(slots, run), again(slots, run);
      RunOnHost(PermuteWeights{weight.data(), order.data(), sorted.data(), slots}, run.threads);
      ExpectSame(sorted, RunKernel(Op::kGatherWeights, {weights, plan[0]}, {})[0], 0);
      RunOnHost(PermuteWeights{sorted.data(), order.data(), again.data(), slots, true},
                run.threads);
      ExpectSame(again, weights, 0);

      // The experts of one rank have all rows; rows that they did not take come back as zero.
      Array received = cpu::MakeArray(cpu::I32({1, c.experts}));
      std::copy_n(plan[1].i32(), c.experts, received.i32());
      Buffer<int32_t> taken(1, run);
      RunOnHost(SumOfCounts{counts.data(), taken.data(), c.experts}, run.threads);
      RunOnHost(CopyTaken<Bf16>{y.data(), taken.data(), y.data(), slots, width}, run.threads);
      ExpectSame(y, RunKernel(Op::kCombine, {back, plan[1], received}, {double(slots)})[0], 0);
    }
  }
}

}  // namespace
}  // namespace stringline::cuda
