// Elementwise ops, and sums over rows.
#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

template <typename T>
void LaunchAdd(const OpRun& run) {
  run.launch(Add<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0), run.out_type(0).elements()});
}

template <typename T>
void LaunchMul(const OpRun& run) {
  run.launch(Mul<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0), run.out_type(0).elements()});
}

template <typename T>
void LaunchScale(const OpRun& run) {
  run.launch(Scale<T, T>{run.in<T>(0), run.out<T>(0), run.out_type(0).elements(),
                         run.attribute_as<float>(0), run.adds(0)});
}

// From one float type to another.
template <typename From>
void LaunchCastFrom(const OpRun& run) {
  const int64_t count = run.out_type(0).elements();
  if (run.out_type(0).dtype == DType::kBF16) {
    run.launch(Scale<From, Bf16>{run.in<From>(0), run.out<Bf16>(0), count});
  } else {
    run.launch(Scale<From, float>{run.in<From>(0), run.out(0), count, 1, run.adds(0)});
  }
}
void LaunchCast(const OpRun& run) {
  const bool from_bf16 = run.in_type(0).dtype == DType::kBF16;
  return from_bf16 ? LaunchCastFrom<Bf16>(run) : LaunchCastFrom<float>(run);
}

void LaunchConstant(const OpRun& run) {
  run.launch(Fill<float>{run.out(0), 1, run.attribute_as<float>(0)});
}

template <typename T>
void LaunchGelu(const OpRun& run) {
  run.launch(Gelu<T>{run.in<T>(0), run.out<T>(0), run.out_type(0).elements()});
}

template <typename T>
void LaunchGeluGrad(const OpRun& run) {
  run.launch(GeluGrad<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0), run.out_type(0).elements()});
}

template <typename T>
void LaunchSwiglu(const OpRun& run) {
  const Type& y = run.out_type(0);
  run.launch(Swiglu<T>{run.in<T>(0), run.out<T>(0), RowsOf(y), ColumnsOf(y)});
}

template <typename T>
void LaunchSwigluGrad(const OpRun& run) {
  const Type& dy = run.in_type(0);
  run.launch(SwigluGrad<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0), RowsOf(dy), ColumnsOf(dy)});
}

template <typename T>
void LaunchPositionAdd(const OpRun& run) {
  const Type& x = run.in_type(0);
  const T* const table = run.in<T>(1) + run.attribute_as<int64_t>(0) * ColumnsOf(x);
  run.launch(
      AddRepeated<T>{run.in<T>(0), table, run.out<T>(0), RowsOf(x), ColumnsOf(x), x.shape[1]});
}

template <typename T>
void LaunchPositionGrad(const OpRun& run) {
  const Type &dy = run.in_type(0), &table = run.out_type(0);
  const int64_t count = dy.elements() / dy.shape[0];
  if (!run.adds(0) && count < table.elements()) {
    run.launch(Fill<float>{run.out(0), table.elements()});
  }
  run.launch(SumOfFewRows<T>{run.in<T>(0),
                             run.out(0) + run.attribute_as<int64_t>(1) * ColumnsOf(dy), dy.shape[0],
                             count, run.adds(0)});
}

int64_t ColumnSumBytes(const NodeTypes& types) {
  const Type& x = types.in(0);
  return Workspace::BytesOf({ColumnSumFloats(RowsOf(x), ColumnsOf(x))});
}
template <typename T>
void LaunchColumnSum(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(0)), columns = ColumnsOf(run.in_type(0));
  float* const partial = run.workspace.Take<float>(ColumnSumFloats(rows, columns));
  SumColumns(
      run.launch,
      ColumnSum<T>{run.in<T>(0), run.out(0), rows, columns, columns, /*parts=*/1, run.adds(0)},
      partial);
}

}  // namespace

OpLaunch ElementwiseLaunch(Op op) {
  switch (op) {
    case Op::kAdd:
      return {LaunchAdd<float>, LaunchAdd<Bf16>};
    case Op::kMul:
      return {LaunchMul<float>, LaunchMul<Bf16>};
    case Op::kScale:
      return {LaunchScale<float>, LaunchScale<Bf16>};
    case Op::kCast:
      return {LaunchCast, LaunchCast};
    case Op::kConstant:
      return {LaunchConstant};
    case Op::kGelu:
      return {LaunchGelu<float>, LaunchGelu<Bf16>};
    case Op::kGeluGrad:
      return {LaunchGeluGrad<float>, LaunchGeluGrad<Bf16>};
    case Op::kSwiglu:
      return {LaunchSwiglu<float>, LaunchSwiglu<Bf16>};
    case Op::kSwigluGrad:
      return {LaunchSwigluGrad<float>, LaunchSwigluGrad<Bf16>};
    case Op::kPositionAdd:
      return {LaunchPositionAdd<float>, LaunchPositionAdd<Bf16>};
    case Op::kPositionGrad:
      return {LaunchPositionGrad<float>, LaunchPositionGrad<Bf16>};
    case Op::kColumnSum:
      return {LaunchColumnSum<float>, LaunchColumnSum<Bf16>, ColumnSumBytes};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
