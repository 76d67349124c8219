// Products with weights, for all rows and by expert, against the CPU's kernels.
#include "executor/cuda/bodies/linear.h"
#include "executor/cuda/bodies/tensor_products.h"
#include "tests/stages/body_runs.h"
#include "tests/stages/experts_ops.h"

namespace stringline::cuda {
namespace {

struct LinearCase {
  int64_t rows, size, width;
};
constexpr LinearCase kLinearCases[] = {{1, 1, 1},    {1, 16, 64}, {3, 17, 5},  {64, 64, 64},
                                       {65, 33, 66}, {130, 8, 3}, {70, 40, 72}};

// received[x][j] of `experts` columns, and unused rows after them.
struct GroupedCase {
  int64_t experts;
  std::vector<int32_t> received;
  int64_t spare, size, width;

  int64_t ranks() const { return static_cast<int64_t>(received.size()) / experts; }
  int64_t taken() const {
    int64_t sum = 0;
    for (const int32_t count : received) sum += count;
    return sum;
  }
};
const GroupedCase kGroupedCases[] = {
    {1, {5}, 0, 16, 8},
    {3, {0, 0, 0}, 4, 8, 8},
    {2, {65, 0, 0, 1}, 0, 24, 65},
    {2, {3, 40, 30, 7, 40, 64}, 30, 40, 17},
    {3, {1, 0, 2, 0, 0, 0, 70, 0, 5, 60, 0, 1}, 1, 9, 33},
    {5, {1, 1, 1, 1, 1}, 0, 64, 128},
    {70, std::vector<int32_t>(140, 1), 7, 12, 12},  // more segments than a plan's chunks
};

template <typename Case, class Check>
void ForEveryCase(const Case& cases, Check check) {
  for (const auto& c : cases) {
    for (const BodyRun& run : kBodyRuns) {
      SCOPED_TRACE(
          absl::StrCat("case ", &c - cases, ", ", run.threads, " threads, offset ", run.offset));
      check(c, run, float());
      check(c, run, Bf16());
    }
  }
}

// The first `rows` rows as expected, and the others unchanged.
template <typename T>
void ExpectRows(Buffer<T>& seen, const Array& expected, int64_t rows) {
  const Array values = seen.Values();
  const int64_t columns = expected.type.shape[1];
  Array first = cpu::MakeArray(cpu::F32({rows, columns}));
  Array same = cpu::MakeArray(first.type);
  std::copy_n(values.f32(), rows * columns, first.f32());
  std::copy_n(expected.f32(), rows * columns, same.f32());
  ExpectSame<T>(first, same);
  for (int64_t i = rows * columns; i < values.type.elements(); ++i) {
    ASSERT_TRUE(std::isnan(values.f32()[i])) << "element " << i << " was written";
  }
}

using LinearBodiesTest = BodiesTest;

TEST_F(LinearBodiesTest, Linear) {
  ForEveryCase(kLinearCases, [this](const LinearCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const Array x = Stored<T>(Random({c.rows, c.size})), w = Stored<T>(Random({c.width, c.size}));
    const Array bias = Stored<T>(Random({c.width})), z = Stored<T>(Random({c.rows, c.width}));
    Buffer<T> from(x, run), weights(w, run), add(bias, run), residual(z, run);
    Buffer<T> y(c.rows * c.width, run);
    Linear<T> body{from.data(), weights.data(), y.data(), {c.rows}, c.size, c.width};
    RunOnHost(body, run.threads);
    ExpectSame(y, RunKernel(Op::kLinear, {x, w}, {})[0]);
    body.bias = add.data();
    RunOnHost(body, run.threads);
    ExpectSame(y, RunKernel(Op::kLinearBias, {x, w, bias}, {})[0]);
    body.residual = body.y = residual.data();
    RunOnHost(body, run.threads);
    ExpectSame(residual, RunKernel(Op::kLinearResidual, {x, w, bias, z}, {})[0]);
  });
}

TEST_F(LinearBodiesTest, LinearGrads) {
  ForEveryCase(kLinearCases, [this](const LinearCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const Array x = Stored<T>(Random({c.rows, c.size})), w = Stored<T>(Random({c.width, c.size}));
    const Array dy = Stored<T>(Random({c.rows, c.width}));
    Buffer<T> from(x, run), weights(w, run), grad(dy, run), dx(c.rows * c.size, run);
    Buffer<float> dw(c.width * c.size, run);
    RunOnHost(LinearInputGrad<T>{grad.data(), weights.data(), dx.data(), {c.rows}, c.size, c.width},
              run.threads);
    ExpectSame(dx, RunKernel(Op::kLinearInputGrad, {dy, w}, {})[0]);
    LinearWeightGrad<T> body{grad.data(), from.data(), dw.data(), {c.rows}, c.size, c.width};
    RunOnHost(body, run.threads);
    const Array once = RunKernel(Op::kLinearWeightGrad, {dy, x}, {})[0];
    ExpectSame(dw, once);
    body.accumulate = true;
    RunOnHost(body, run.threads);
    ExpectSame(dw, RunKernel(Op::kScale, {once}, {2.0})[0]);
  });
}

TEST_F(LinearBodiesTest, Grouped) {
  ForEveryCase(kGroupedCases, [this](const GroupedCase& c, BodyRun run, auto type) {
    using T = decltype(type);
    const int64_t rows = c.taken() + c.spare;
    const Array x = Stored<T>(Random({rows, c.size})), dy = Stored<T>(Random({rows, c.width}));
    const Array w = Stored<T>(Random({c.experts, c.width, c.size}));
    const Array received = cpu::Integers({c.ranks(), c.experts}, c.received);
    Buffer<T> from(x, run), weights(w, run), grad(dy, run);
    Buffer<T> y(rows * c.width, run), dx(rows * c.size, run);
    Buffer<float> dw(w.type.elements(), run);
    Buffer<int32_t> counts(received, run), plan(GroupedPlanIntegers(c.ranks(), c.experts), run);
    const GroupedRows grouped = PlanGroupedRows(HostRun{run.threads}, counts.data(), rows,
                                                c.ranks(), c.experts, plan.data());
    plan.Values();
    RunOnHost(GroupedLinear<T>{from.data(), weights.data(), y.data(), grouped, c.size, c.width},
              run.threads);
    ExpectRows(y, RunKernel(Op::kGroupedLinear, {x, w, received}, {})[0], c.taken());
    RunOnHost(
        GroupedLinearInputGrad<T>{grad.data(), weights.data(), dx.data(), grouped, c.size, c.width},
        run.threads);
    ExpectRows(dx, RunKernel(Op::kGroupedLinearInputGrad, {dy, w, received}, {})[0], c.taken());
    GroupedLinearWeightGrad<T> body{grad.data(), from.data(), dw.data(), grouped, c.size, c.width};
    RunOnHost(body, run.threads);
    const Array once = RunKernel(Op::kGroupedLinearWeightGrad, {dy, x, received}, {})[0];
    ExpectSame(dw, once);
    body.accumulate = true;
    RunOnHost(body, run.threads);
    ExpectSame(dw, RunKernel(Op::kScale, {once}, {2.0})[0]);
  });
}

// More steps than stages in every direction, edges inside of tiles, and rows of several ranks.
const GroupedCase kTensorCases[] = {
    {1, {5}, 0, 16, 8},
    {3, {0, 0, 0}, 4, 8, 8},
    {2, {130, 0, 0, 1}, 3, 200, 136},
    {2, {3, 40, 130, 7, 40, 64}, 30, 40, 264},
    {5, {1, 1, 1, 128, 129}, 0, 256, 128},
    {1, {70}, 2, 520, 24},
    {70, std::vector<int32_t>(140, 1), 7, 24, 8},
};

// Rows past the last hold NaN: they are not read.
TEST_F(LinearBodiesTest, GroupedOnTensorCores) {
  for (const GroupedCase& c : kTensorCases) {
    SCOPED_TRACE(absl::StrCat("case ", &c - kTensorCases));
    const BodyRun run = {kTensorThreads, 0};
    const int64_t rows = c.taken() + c.spare;
    const Array x = Stored<Bf16>(Random({rows, c.size}));
    const Array dy = Stored<Bf16>(Random({rows, c.width}));
    const Array w = Stored<Bf16>(Random({c.experts, c.width, c.size}));
    const Array received = cpu::Integers({c.ranks(), c.experts}, c.received);
    Buffer<Bf16> from(x, run), weights(w, run), grad(dy, run);
    for (auto* const buffer : {&from, &grad}) {
      const int64_t columns = buffer->count() / rows;
      for (int64_t i = c.taken() * columns; i < buffer->count(); ++i) {
        Keep(std::numeric_limits<float>::quiet_NaN(), buffer->data() + i);
      }
    }
    Buffer<Bf16> y(rows * c.width, run), dx(rows * c.size, run);
    Buffer<float> dw(w.type.elements(), run);
    std::vector<int32_t> plan(static_cast<size_t>(GroupedPlanIntegers(c.ranks(), c.experts)));
    const GroupedRows grouped = PlanGroupedRows(HostRun{256}, received.i32(), rows, c.ranks(),
                                                c.experts, plan.data(), kTensorRows);
    ASSERT_TRUE(TensorProductsFit(c.size, c.width, from.data(), weights.data(), y.data()));
    RunOnHost(GroupedTensorLinear{from.data(), weights.data(), y.data(), grouped, c.size, c.width},
              run.threads);
    ExpectRows(y, RunKernel(Op::kGroupedLinear, {x, w, received}, {})[0], c.taken());
    RunOnHost(
        GroupedTensorInputGrad{grad.data(), weights.data(), dx.data(), grouped, c.size, c.width},
        run.threads);
    ExpectRows(dx, RunKernel(Op::kGroupedLinearInputGrad, {dy, w, received}, {})[0], c.taken());
    GroupedTensorWeightGrad body{grad.data(), from.data(), dw.data(), grouped, c.size, c.width};
    RunOnHost(body, run.threads);
    const Array once = RunKernel(Op::kGroupedLinearWeightGrad, {dy, x, received}, {})[0];
    ExpectSame(dw, once);
    body.accumulate = true;
    RunOnHost(body, run.threads);
    ExpectSame(dw, RunKernel(Op::kScale, {once}, {2.0})[0]);
  }
}

TEST_F(LinearBodiesTest, WhereTensorCoresDoNotFit) {
  alignas(16) const Bf16 memory[16] = {};
  EXPECT_TRUE(TensorProductsFit(8, 16, memory, memory + 8));
  EXPECT_FALSE(TensorProductsFit(12, 16, memory));
  EXPECT_FALSE(TensorProductsFit(8, 20, memory));
  EXPECT_FALSE(TensorProductsFit(8, 16, memory, memory + 4));
}

// Impossible counts: no access outside the arrays.
TEST_F(LinearBodiesTest, CountsThatCannotBe) {
  const int64_t rows = 70, size = 8, width = 8, experts = 3;
  const BodyRun run = {128, 0};
  Buffer<float> x(Random({rows, size}), run), w(Random({experts, width, size}), run);
  Buffer<float> y(rows * width, run);
  const std::vector<int32_t> kBad[] = {
      {-5, 3, 1000, 9, 8, 7},
      {std::numeric_limits<int32_t>::max(), 1, std::numeric_limits<int32_t>::max(), 0, 0, -1}};
  for (const auto& received : kBad) {
    std::vector<int32_t> plan(static_cast<size_t>(GroupedPlanIntegers(2, experts)));
    const GroupedRows grouped =
        PlanGroupedRows(HostRun{128}, received.data(), rows, 2, experts, plan.data());
    RunOnHost(GroupedLinear<float>{x.data(), w.data(), y.data(), grouped, size, width}, 128);
    const Array values = y.Values();
    for (int64_t i = 0; i < rows * width; ++i) ASSERT_TRUE(std::isfinite(values.f32()[i])) << i;
    EXPECT_EQ(plan[2 * experts], rows);
    EXPECT_LE(plan.back(), grouped.tiles());
  }
}

}  // namespace
}  // namespace stringline::cuda
