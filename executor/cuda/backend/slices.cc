// Slices of a sequence: their keys and values, and their positions cut and appended.
#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

// A tensor (B,T,C), from a position and a channel on.
template <typename T>
Part<T> PartOf(T* data, const Type& type, int64_t first = 0, int64_t channel = 0) {
  return {data, type.shape[1], type.shape[2], first, channel};
}

// The channels of a row's queries, which come before its keys and values.
int64_t QueriesOf(const OpRun& run, const Type& qkv) {
  const auto queries = run.attribute_as<int64_t>(0), keys = run.attribute_as<int64_t>(1);
  return ColumnsOf(qkv) / (queries + 2 * keys) * queries;
}

template <typename T>
void LaunchPackKeys(const OpRun& run) {
  const Type &qkv = run.in_type(0), &keys = run.out_type(0);
  run.launch(CopyPart<T>{PartOf<const T>(run.in<T>(0), qkv, 0, QueriesOf(run, qkv)),
                         PartOf(run.out<T>(0), keys), keys.shape[0], keys.shape[1],
                         ColumnsOf(keys)});
}

template <typename T>
void LaunchPackKeysGrad(const OpRun& run) {
  const Type &keys = run.in_type(0), &qkv = run.out_type(0);
  const int64_t queries = QueriesOf(run, qkv);
  run.launch(CopyPart<T>{{}, PartOf(run.out<T>(0), qkv), qkv.shape[0], qkv.shape[1], queries});
  run.launch(CopyPart<T>{PartOf<const T>(run.in<T>(0), keys),
                         PartOf(run.out<T>(0), qkv, 0, queries), qkv.shape[0], qkv.shape[1],
                         ColumnsOf(keys)});
}

template <typename T>
void LaunchAppendPositions(const OpRun& run) {
  int64_t first = 0;
  for (int i = 0; i < 2; ++i) {
    const Type& part = run.in_type(i);
    run.launch(CopyPart<T>{PartOf<const T>(run.in<T>(i), part),
                           PartOf(run.out<T>(0), run.out_type(0), first), part.shape[0],
                           part.shape[1], ColumnsOf(part)});
    first += part.shape[1];
  }
}

template <typename T>
void LaunchTakePositions(const OpRun& run) {
  const Type& y = run.out_type(0);
  run.launch(
      CopyPart<T>{PartOf<const T>(run.in<T>(0), run.in_type(0), run.attribute_as<int64_t>(0)),
                  PartOf(run.out<T>(0), y), y.shape[0], y.shape[1], ColumnsOf(y)});
}

}  // namespace

OpLaunch SliceLaunch(Op op) {
  switch (op) {
    case Op::kPackKeys:
      return {LaunchPackKeys<float>, LaunchPackKeys<Bf16>};
    case Op::kPackKeysGrad:
      return {LaunchPackKeysGrad<float>, LaunchPackKeysGrad<Bf16>};
    case Op::kAppendPositions:
      return {LaunchAppendPositions<float>, LaunchAppendPositions<Bf16>};
    case Op::kTakePositions:
      return {LaunchTakePositions<float>, LaunchTakePositions<Bf16>};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
