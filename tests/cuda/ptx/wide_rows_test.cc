// Rows of tokens that are too long for a warp: the other tests of these bodies have short rows, and
// only long ones launch a whole block for each.
#include "executor/cuda/bodies/dispatch.h"
#include "executor/cuda/bodies/embedding.h"
#include "tests/stages/body_runs.h"

namespace stringline::cuda {
namespace {

constexpr int64_t kColumns[] = {1025, 1040};

template <class Check>
void ForLongRows(Check check) {
  for (const int64_t columns : kColumns) {
    SCOPED_TRACE(absl::StrCat(columns, " columns"));
    check(columns, float());
    check(columns, Bf16());
  }
}

TEST_F(BodiesTest, LongRowsToExpertsAndBack) {
  ForLongRows([this](int64_t columns, auto type) {
    using T = decltype(type);
    const int64_t rows = 9, choices = 2, slots = rows * choices;
    const BodyRun run = kBodyRuns[0];
    const Array choice = RandomIntegers({rows, choices}, 4);
    std::vector<Array> plan = RunKernel(Op::kDispatchPlan, {choice}, {4.0, 0.0});
    for (const int i : {0, 1}) plan[i] = {cpu::I32(plan[i].type.shape), plan[i].data};
    const Array x = Stored<T>(Random({rows, columns})), back = Stored<T>(Random({slots, columns}));
    Buffer<int32_t> order(plan[0], run), place(slots, run), taken(1, run);
    Buffer<T> from(x, run), y(slots * columns, run), sum(rows * columns, run);
    RunOnHost(GatherRows<T>{from.data(), order.data(), y.data(), slots, choices, columns}, 256);
    ExpectSame(y, RunKernel(Op::kGatherRows, {x, plan[0]}, {})[0], 0);
    RunOnHost(InvertOrder{order.data(), place.data(), slots}, 256);
    y.Put(back);
    RunOnHost(SumRows<T>{y.data(), place.data(), sum.data(), rows, choices, columns}, 256);
    ExpectSame(sum, RunKernel(Op::kSumRows, {back, plan[0]}, {})[0]);
    taken.Set(5);
    RunOnHost(CopyTaken<T>{y.data(), taken.data(), y.data(), slots, columns}, 256);
    Array some = back;
    some.data = cpu::MakeArray(back.type).data;
    std::copy_n(back.f32(), 5 * columns, some.f32());
    ExpectSame(y, some, 0);
  });
}

TEST_F(BodiesTest, LongRowsOfEmbeddings) {
  ForLongRows([this](int64_t columns, auto type) {
    using T = decltype(type);
    const int64_t count = 90;
    const int32_t vocabulary = 5;
    const BodyRun run = kBodyRuns[0];
    const Array token = RandomIntegers({count}, 2);
    const Array dy = Stored<T>(Random({count, columns}));
    Buffer<int32_t> ids(token, run), integers(EmbeddingGradIntegers(count), run);
    Buffer<float> floats(EmbeddingGradFloats(count, columns), run);
    Buffer<float> dtable(vocabulary * columns, run);
    Buffer<T> grad(dy, run);
    dtable.Set(0);
    AddEmbeddingGrad(HostRun{256}, ids.data(), grad.data(), dtable.data(), count, vocabulary,
                     columns, integers.data(), floats.data());
    ExpectSame(dtable, RunKernel(Op::kEmbeddingGrad, {token, dy}, {double(vocabulary)})[0]);
  });
}

}  // namespace
}  // namespace stringline::cuda
