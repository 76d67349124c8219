// The experts of a token, and the balance of the choices.
#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

int32_t CountOf(int64_t many) { return static_cast<int32_t>(many); }

void LaunchRoute(const OpRun& run) {
  const Type& logits = run.in_type(0);
  run.launch(Route<float>{
      run.in(0), run.in(1), run.out(0), run.integers_out(1), RowsOf(logits),
      CountOf(ColumnsOf(logits)), run.attribute_as<int32_t>(0), run.attribute_as<Scores>(1),
      /*one_bias=*/run.in_type(1).shape.empty(),
      /*normalise=*/run.attribute(2) != 0, run.attribute_as<float>(3), run.attribute_as<int32_t>(4),
      run.attribute_as<int32_t>(5), run.attribute_as<int32_t>(6)});
}

void LaunchRouteGrad(const OpRun& run) {
  const Type& logits = run.in_type(1);
  run.launch(RouteGrad<float>{run.in(0), run.in(1), run.integers_in(2), run.out(0), RowsOf(logits),
                              CountOf(ColumnsOf(logits)), CountOf(ColumnsOf(run.in_type(0))),
                              run.attribute_as<Scores>(0), /*normalise=*/run.attribute(1) != 0,
                              run.attribute_as<float>(2)});
}

// y[e] (+)= number of occurrences of e in `choice`; `counts` has SortCounts integers.
void CountInto(const OpRun& run, const int32_t* choice, int64_t slots, int32_t experts,
               int32_t* counts, float* y, bool accumulate) {
  run.launch(CountKeys{SortKeys{choice, nullptr, slots, experts}, counts});
  run.launch(ChoiceCounts{counts, y, SortChunks(slots), experts, accumulate});
}

int64_t ChoiceCountsBytes(const NodeTypes& types) {
  return Workspace::BytesOf({SortCounts(types.in(0).elements(), types.out(0).elements())});
}
void LaunchChoiceCounts(const OpRun& run) {
  const int64_t slots = run.in_type(0).elements(), experts = run.out_type(0).elements();
  CountInto(run, run.integers_in(0), slots, CountOf(experts),
            run.workspace.Take<int32_t>(SortCounts(slots, experts)), run.out(0), run.adds(0));
}

// The workspace of the loss and of its gradient: counts of the chunks, total counts, and a term of
// every row.
int64_t BytesOfBalance(const Type& logits, const Type& choice) {
  const int64_t experts = ColumnsOf(logits);
  return Workspace::BytesOf({SortCounts(choice.elements(), experts), experts, RowsOf(logits)});
}
int64_t BalanceLossBytes(const NodeTypes& types) {
  return BytesOfBalance(types.in(0), types.in(1));
}
int64_t BalanceLossGradBytes(const NodeTypes& types) {
  return BytesOfBalance(types.in(1), types.in(2));
}

// Counts the choices, then returns the body for logits and choices, inputs `first` and the next.
Balance<float> CountedBalance(const OpRun& run, int first) {
  const Type& logits = run.in_type(first);
  const int64_t slots = run.in_type(first + 1).elements(), experts = ColumnsOf(logits);
  int32_t* const of_chunks = run.workspace.Take<int32_t>(SortCounts(slots, experts));
  float* const counts = run.workspace.Take<float>(experts);
  CountInto(run, run.integers_in(first + 1), slots, CountOf(experts), of_chunks, counts, false);
  Balance<float> body = {};
  body.logits = run.in(first);
  body.counts = counts;
  body.rows = RowsOf(logits);
  body.experts = CountOf(experts);
  body.factor = static_cast<float>(run.attribute(0) * static_cast<double>(experts) /
                                   static_cast<double>(slots));
  return body;
}

void LaunchBalanceLoss(const OpRun& run) {
  Balance<float> body = CountedBalance(run, 0);
  body.along = run.workspace.Take<float>(body.rows);
  run.launch(body);
  run.launch(SumOfAll{body.along, run.out(0), body.rows, body.factor});
}

void LaunchBalanceLossGrad(const OpRun& run) {
  Balance<float> body = CountedBalance(run, 1);
  body.dloss = run.in(0);
  body.dlogits = run.out(0);
  run.launch(body);
}

}  // namespace

OpLaunch RouterLaunch(Op op) {
  switch (op) {
    case Op::kRoute:
      return {LaunchRoute};
    case Op::kRouteGrad:
      return {LaunchRouteGrad};
    case Op::kChoiceCounts:
      return {LaunchChoiceCounts, nullptr, ChoiceCountsBytes};
    case Op::kBalanceLoss:
      return {LaunchBalanceLoss, nullptr, BalanceLossBytes};
    case Op::kBalanceLossGrad:
      return {LaunchBalanceLossGrad, nullptr, BalanceLossGradBytes};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
