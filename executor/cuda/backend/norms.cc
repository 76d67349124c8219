// Norms. The gradients of gammas and betas are sums over partial sums of some rows each.
#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

template <typename T>
void LaunchLayerNorm(const OpRun& run) {
  const Type& x = run.in_type(0);
  run.launch(LayerNorm<T, float>{run.in<T>(0), run.in(1), run.in(2), run.out<T>(0), run.out(1),
                                 run.out(2), RowsOf(x), ColumnsOf(x), run.attribute_as<float>(0)});
}

template <typename T>
void LaunchRmsNorm(const OpRun& run) {
  const Type& x = run.in_type(0);
  run.launch(RmsNorm<T, float>{run.in<T>(0), run.in(1), nullptr, run.out<T>(0), nullptr, run.out(1),
                               RowsOf(x), ColumnsOf(x), run.attribute_as<float>(0)});
}

// Bytes of partial sums for `sums` gradients of `columns` each, and of the workspace to add them
// up.
int64_t PartialBytes(int64_t tasks, int sums, int64_t columns) {
  return Workspace::BytesOf({tasks * sums * columns, ColumnSumFloats(tasks, sums * columns)});
}

// The sums, of one gradient or of two side by side in `partial`, to the outputs from 1 on: both in
// the same launches.
void AddUpPartial(const OpRun& run, const float* partial, int64_t tasks, int sums,
                  int64_t columns) {
  const int64_t all = sums * columns;
  ColumnSum<float> sum = {partial, run.out(1), tasks, all, all, /*parts=*/1, run.adds(1)};
  if (sums == 2) {
    sum.right = run.out(2);
    sum.accumulate_right = run.adds(2);
  }
  SumColumns(run.launch, sum, run.workspace.Take<float>(ColumnSumFloats(tasks, all)));
}

constexpr int SumsOf(NormKind kind) { return kind == NormKind::kLayer ? 2 : 1; }

template <NormKind kKind>
int64_t NormGradBytes(const NodeTypes& types) {
  const Type& x = types.in(1);
  return PartialBytes(NormGradTasks(RowsOf(x), ColumnsOf(x)), SumsOf(kKind), ColumnsOf(x));
}
// RMS norm has no mean. With a sum, what is added to dx comes after the gradient's own inputs.
template <NormKind kKind, typename T, bool kWithSum>
void LaunchNormGrad(const OpRun& run) {
  constexpr bool kLayer = kKind == NormKind::kLayer;
  const int64_t rows = RowsOf(run.in_type(1)), columns = ColumnsOf(run.in_type(1));
  const int64_t tasks = NormGradTasks(rows, columns);
  float* const partial = run.workspace.Take<float>(tasks * SumsOf(kKind) * columns);
  NormGradOperands<kKind, T, float> at = {run.in<T>(0), run.in<T>(1),  run.in(2),     run.in(3),
                                          run.in(3),    /*z=*/nullptr, run.out<T>(0), partial,
                                          rows,         columns};
  if (kLayer) at.rstd = run.in(4);
  if (kWithSum) at.z = run.in<T>(kLayer ? 5 : 4);
  RunNormGrad(run.launch, at);
  AddUpPartial(run, partial, tasks, SumsOf(kKind), columns);
}

template <NormKind kKind, bool kWithSum>
OpLaunch NormGradLaunch() {
  return {LaunchNormGrad<kKind, float, kWithSum>, LaunchNormGrad<kKind, Bf16, kWithSum>,
          NormGradBytes<kKind>};
}

// The length of either gamma is that of a head.
PackedHeads HeadsOf(const OpRun& run, const Type& gamma) {
  return {run.attribute_as<int64_t>(0), run.attribute_as<int64_t>(1), ColumnsOf(gamma)};
}

template <typename T>
void LaunchHeadNorm(const OpRun& run) {
  run.launch(HeadNorm<T, float>{run.in<T>(0), run.in(1), run.in(2), run.out<T>(0), run.out(1),
                                RowsOf(run.in_type(0)), HeadsOf(run, run.in_type(1)),
                                run.attribute_as<float>(2)});
}

int64_t HeadNormGradBytes(const NodeTypes& types) {
  const int64_t size = ColumnsOf(types.in(2));
  return PartialBytes(HeadNormGradTasks(types.in(1).elements() / size), 2, size);
}
template <typename T>
void LaunchHeadNormGrad(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(1));
  const PackedHeads heads = HeadsOf(run, run.in_type(2));
  const int64_t tasks = HeadNormGradTasks(rows * heads.all());
  float* const partial = run.workspace.Take<float>(tasks * 2 * heads.size);
  run.launch(HeadNormGrad<T, float>{run.in<T>(0), run.in<T>(1), run.in(2), run.in(3), run.in(4),
                                    run.out<T>(0), partial, rows, heads});
  AddUpPartial(run, partial, tasks, 2, heads.size);
}

}  // namespace

OpLaunch NormLaunch(Op op) {
  switch (op) {
    case Op::kLayerNorm:
      return {LaunchLayerNorm<float>, LaunchLayerNorm<Bf16>};
    case Op::kLayerNormGrad:
      return NormGradLaunch<NormKind::kLayer, false>();
    case Op::kRmsNorm:
      return {LaunchRmsNorm<float>, LaunchRmsNorm<Bf16>};
    case Op::kRmsNormGrad:
      return NormGradLaunch<NormKind::kRms, false>();
    case Op::kHeadNorm:
      return {LaunchHeadNorm<float>, LaunchHeadNorm<Bf16>};
    case Op::kHeadNormGrad:
      return {LaunchHeadNormGrad<float>, LaunchHeadNormGrad<Bf16>, HeadNormGradBytes};
    default:
      return {};
  }
}

OpLaunch NormWithSumLaunch(Op norm) {
  return norm == Op::kLayerNormGrad ? NormGradLaunch<NormKind::kLayer, true>()
                                    : NormGradLaunch<NormKind::kRms, true>();
}

}  // namespace stringline::cuda
