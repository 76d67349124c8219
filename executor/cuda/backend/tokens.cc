// Embedding, positions, and the loss.
#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

template <typename T>
void LaunchEmbedding(const OpRun& run) {
  const Type& table = run.in_type(1);
  run.launch(Embedding<T>{run.integers_in(0), run.in<T>(1), run.out<T>(0),
                          run.in_type(0).elements(), table.shape[0], table.shape[1]});
}

int64_t EmbeddingGradBytes(const NodeTypes& types) {
  const int64_t count = types.in(0).elements();
  return Workspace::BytesOf(
      {EmbeddingGradIntegers(count), EmbeddingGradFloats(count, ColumnsOf(types.in(1)))});
}
template <typename T>
void LaunchEmbeddingGrad(const OpRun& run) {
  const int64_t count = run.in_type(0).elements(), columns = ColumnsOf(run.in_type(1));
  int32_t* const integers = run.workspace.Take<int32_t>(EmbeddingGradIntegers(count));
  float* const floats = run.workspace.Take<float>(EmbeddingGradFloats(count, columns));
  // The launches below only add.
  if (!run.adds(0)) run.launch(Fill<float>{run.out(0), run.out_type(0).elements()});
  AddEmbeddingGrad(run.launch, run.integers_in(0), static_cast<const T*>(run.in<T>(1)), run.out(0),
                   count, run.out_type(0).shape[0], columns, integers, floats);
}

template <typename T>
void LaunchRotary(const OpRun& run) {
  const Type& x = run.in_type(0);
  const int64_t queries = run.attribute_as<int64_t>(0), keys = run.attribute_as<int64_t>(1);
  const PackedHeads heads = {queries, keys, ColumnsOf(x) / (queries + 2 * keys)};
  const int64_t positions = x.shape[1];
  const float* const cosines = run.data.rotary;
  run.launch(Rotary<T>{run.in<T>(0), run.out<T>(0), cosines, cosines + positions * (heads.size / 2),
                       RowsOf(x), positions, heads, run.attribute_as<float>(3)});
}

int64_t CrossEntropyBytes(const NodeTypes& types) {
  return Workspace::BytesOf({types.in(1).elements()});
}
template <typename T>
void LaunchCrossEntropy(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(0)), columns = ColumnsOf(run.in_type(0));
  float* const losses = run.workspace.Take<float>(rows);
  run.launch(CrossEntropy<T>{run.in<T>(0), run.integers_in(1), run.out(1), losses,
                             /*dlogits=*/nullptr, /*dloss=*/nullptr, rows, columns, columns});
  run.launch(SumOfAll{losses, run.out(0), rows});
}

template <typename T>
void LaunchCrossEntropyGrad(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(1)), columns = ColumnsOf(run.in_type(1));
  run.launch(CrossEntropy<T>{run.in<T>(1), run.integers_in(2), run.in(3), /*losses=*/nullptr,
                             run.out<T>(0), run.in(0), rows, columns, columns,
                             /*lse_is_known=*/true});
}

}  // namespace

OpLaunch TokenLaunch(Op op) {
  switch (op) {
    case Op::kEmbedding:
      return {LaunchEmbedding<float>, LaunchEmbedding<Bf16>};
    case Op::kEmbeddingGrad:
      return {LaunchEmbeddingGrad<float>, LaunchEmbeddingGrad<Bf16>, EmbeddingGradBytes};
    case Op::kRotary:
      return {LaunchRotary<float>, LaunchRotary<Bf16>};
    case Op::kCrossEntropy:
      return {LaunchCrossEntropy<float>, LaunchCrossEntropy<Bf16>, CrossEntropyBytes};
    case Op::kCrossEntropyGrad:
      return {LaunchCrossEntropyGrad<float>, LaunchCrossEntropyGrad<Bf16>};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
