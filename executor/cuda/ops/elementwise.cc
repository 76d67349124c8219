// What goes element by element, and sums over rows.
#include "executor/cuda/ops/ops.h"

namespace stringline::cuda {
namespace {

void LaunchAdd(const OpRun& run) {
  run.launch(Add<float>{run.in(0), run.in(1), run.out(0), run.out_type(0).elements()});
}

void LaunchMul(const OpRun& run) {
  run.launch(Mul<float>{run.in(0), run.in(1), run.out(0), run.out_type(0).elements()});
}

void LaunchScale(const OpRun& run) {
  run.launch(Scale<float, float>{run.in(0), run.out(0), run.out_type(0).elements(),
                                 run.attribute_as<float>(0), run.adds(0)});
}

// From and to either type.
template <typename From>
void LaunchCastFrom(const OpRun& run, const From* x) {
  const int64_t count = run.out_type(0).elements();
  if (run.out_type(0).dtype == DType::kBF16) {
    run.launch(Scale<From, Bf16>{x, static_cast<Bf16*>(run.node.out[0].data), count});
  } else {
    run.launch(Scale<From, float>{x, run.out(0), count, 1, run.adds(0)});
  }
}
void LaunchCast(const OpRun& run) {
  if (run.in_type(0).dtype == DType::kBF16) {
    LaunchCastFrom(run, static_cast<const Bf16*>(run.node.in[0].data));
  } else {
    LaunchCastFrom<float>(run, run.in(0));
  }
}

void LaunchConstant(const OpRun& run) {
  run.launch(Fill<float>{run.out(0), 1, run.attribute_as<float>(0)});
}

void LaunchGelu(const OpRun& run) {
  run.launch(Gelu<float>{run.in(0), run.out(0), run.out_type(0).elements()});
}

void LaunchGeluGrad(const OpRun& run) {
  run.launch(GeluGrad<float>{run.in(0), run.in(1), run.out(0), run.out_type(0).elements()});
}

void LaunchSwiglu(const OpRun& run) {
  const Type& y = run.out_type(0);
  run.launch(Swiglu<float>{run.in(0), run.out(0), RowsOf(y), ColumnsOf(y)});
}

void LaunchSwigluGrad(const OpRun& run) {
  const Type& dy = run.in_type(0);
  run.launch(SwigluGrad<float>{run.in(0), run.in(1), run.out(0), RowsOf(dy), ColumnsOf(dy)});
}

void LaunchPositionAdd(const OpRun& run) {
  const Type& x = run.in_type(0);
  run.launch(AddRepeated<float>{run.in(0), run.in(1), run.out(0), RowsOf(x), ColumnsOf(x),
                                run.in_type(1).shape[0]});
}

void LaunchPositionGrad(const OpRun& run) {
  run.launch(SumOfFewRows<float>{run.in(0), run.out(0), run.in_type(0).shape[0],
                                 run.out_type(0).elements(), run.adds(0)});
}

int64_t ColumnSumBytes(const NodeTypes& types) {
  const Type& x = types.in(0);
  return Workspace::BytesOf({ColumnSumFloats(RowsOf(x), ColumnsOf(x))});
}
void LaunchColumnSum(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(0)), columns = ColumnsOf(run.in_type(0));
  float* const partial = run.workspace.Take<float>(ColumnSumFloats(rows, columns));
  SumColumns(
      run.launch,
      ColumnSum<float>{run.in(0), run.out(0), rows, columns, columns, /*parts=*/1, run.adds(0)},
      partial);
}

}  // namespace

OpLaunch ElementwiseLaunch(Op op) {
  switch (op) {
    case Op::kAdd:
      return {LaunchAdd};
    case Op::kMul:
      return {LaunchMul};
    case Op::kScale:
      return {LaunchScale};
    case Op::kCast:
      return {LaunchCast};
    case Op::kConstant:
      return {LaunchConstant};
    case Op::kGelu:
      return {LaunchGelu};
    case Op::kGeluGrad:
      return {LaunchGeluGrad};
    case Op::kSwiglu:
      return {LaunchSwiglu};
    case Op::kSwigluGrad:
      return {LaunchSwigluGrad};
    case Op::kPositionAdd:
      return {LaunchPositionAdd};
    case Op::kPositionGrad:
      return {LaunchPositionGrad};
    case Op::kColumnSum:
      return {LaunchColumnSum, ColumnSumBytes};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
