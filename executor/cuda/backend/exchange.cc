// The route of a token's row to its experts and back, and the experts' work on received rows.
//
// Exchanges between ranks belong to the groups; the launches here serve a single rank, for which
// they are copies, as in the CPU's kernels.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

int64_t DispatchPlanBytes(const NodeTypes& types) {
  return Workspace::BytesOf(
      {DispatchPlanIntegers(types.in(0).elements(), types.out(1).elements())});
}
void LaunchDispatchPlan(const OpRun& run) {
  const int64_t slots = run.in_type(0).elements(), experts = run.out_type(1).elements();
  PlanDispatch(run.launch, run.integers_in(0), slots, static_cast<int32_t>(experts),
               run.attribute_as<int32_t>(1), run.integers_out(0), run.integers_out(1), run.out(2),
               run.workspace.Take<int32_t>(DispatchPlanIntegers(slots, experts)));
}

template <typename T>
void LaunchGatherRows(const OpRun& run) {
  const Type& order = run.in_type(1);
  run.launch(GatherRows<T>{run.in<T>(0), run.integers_in(1), run.out<T>(0), order.elements(),
                           ColumnsOf(order), ColumnsOf(run.in_type(0))});
}

int64_t SumRowsBytes(const NodeTypes& types) {
  return Workspace::BytesOf({types.in(1).elements()});
}
template <typename T>
void LaunchSumRows(const OpRun& run) {
  const Type& order = run.in_type(1);
  int32_t* const place = run.workspace.Take<int32_t>(order.elements());
  run.launch(InvertOrder{run.integers_in(1), place, order.elements()});
  run.launch(SumRows<T>{run.in<T>(0), place, run.out<T>(0), RowsOf(order), ColumnsOf(order),
                        ColumnsOf(run.in_type(0))});
}

void LaunchGatherWeights(const OpRun& run) {
  run.launch(PermuteWeights{run.in(0), run.integers_in(1), run.out(0), run.in_type(1).elements()});
}

void LaunchScatterWeights(const OpRun& run) {
  run.launch(PermuteWeights{run.in(0), run.integers_in(1), run.out(0), run.in_type(1).elements(),
                            /*scatter=*/true});
}

// Room in the workspace for the number of rows.
int64_t OneCountBytes(const NodeTypes& /*types*/) { return Workspace::BytesOf({1}); }
const int32_t* SumOfInput(const OpRun& run, int counts) {
  int32_t* const sum = run.workspace.Take<int32_t>(1);
  run.launch(SumOfCounts{run.integers_in(counts), sum, run.in_type(counts).elements()});
  return sum;
}

// `received` is I32 (X,e). False, and an error, for several ranks.
bool IsOfOneRank(const OpRun& run, const Type& received) {
  const int64_t ranks = received.shape[0];
  if (ranks == 1) return true;
  run.status = absl::FailedPreconditionError(
      absl::StrCat("rows for ", ranks, " ranks: only a group of ranks can exchange them"));
  return false;
}

void LaunchAllToAllCounts(const OpRun& run) {
  if (!IsOfOneRank(run, run.out_type(0))) return;
  run.launch.Check(cudaMemcpyAsync(run.integers_out(0), run.integers_in(0),
                                   static_cast<size_t>(run.out_type(0).bytes()), cudaMemcpyDefault,
                                   static_cast<cudaStream_t>(run.node.stream)));
}

int64_t FirstDimension(const Type& type) { return type.shape[0]; }

template <typename T>
void LaunchDispatch(const OpRun& run) {
  if (!IsOfOneRank(run, run.in_type(2))) return;
  const Type &x = run.in_type(0), &y = run.out_type(0);
  const int32_t* const taken = SumOfInput(run, 1);
  run.launch(CopyTaken<T>{run.in<T>(0), taken, run.out<T>(0),
                          std::min(FirstDimension(x), FirstDimension(y)),
                          x.elements() / FirstDimension(x), /*clear=*/false});
}

template <typename T>
void LaunchCombine(const OpRun& run) {
  if (!IsOfOneRank(run, run.in_type(2))) return;
  const Type& y = run.out_type(0);
  const int32_t* const taken = SumOfInput(run, 1);
  run.launch(CopyTaken<T>{run.in<T>(0), taken, run.out<T>(0), FirstDimension(y),
                          y.elements() / FirstDimension(y)});
}

template <typename T>
void LaunchExpertSwiglu(const OpRun& run) {
  const Type& y = run.out_type(0);
  const int32_t* const received = SumOfInput(run, 2);
  run.launch(Swiglu<T>{run.in<T>(0), run.out<T>(0), RowsOf(y), ColumnsOf(y), run.in(1), received});
}

template <typename T>
void LaunchExpertSwigluGrad(const OpRun& run) {
  const Type& dy = run.in_type(0);
  const int32_t* const received = SumOfInput(run, 3);
  run.launch(SwigluGrad<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0), RowsOf(dy), ColumnsOf(dy),
                           run.in(2), run.out(1), received});
}

}  // namespace

OpLaunch ExchangeLaunch(Op op) {
  switch (op) {
    case Op::kDispatchPlan:
      return {LaunchDispatchPlan, nullptr, DispatchPlanBytes};
    case Op::kGatherRows:
      return {LaunchGatherRows<float>, LaunchGatherRows<Bf16>};
    case Op::kSumRows:
      return {LaunchSumRows<float>, LaunchSumRows<Bf16>, SumRowsBytes};
    case Op::kGatherWeights:
      return {LaunchGatherWeights};
    case Op::kScatterWeights:
      return {LaunchScatterWeights};
    case Op::kAllToAllCounts:
      return {LaunchAllToAllCounts};
    case Op::kDispatch:
      return {LaunchDispatch<float>, LaunchDispatch<Bf16>, OneCountBytes};
    case Op::kCombine:
      return {LaunchCombine<float>, LaunchCombine<Bf16>, OneCountBytes};
    case Op::kExpertSwiglu:
      return {LaunchExpertSwiglu<float>, LaunchExpertSwiglu<Bf16>, OneCountBytes};
    case Op::kExpertSwigluGrad:
      return {LaunchExpertSwigluGrad<float>, LaunchExpertSwigluGrad<Bf16>, OneCountBytes};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
