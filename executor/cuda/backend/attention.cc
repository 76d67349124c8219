// Attention and its gradient, by a library with a plan for them, else by bodies of our own.
#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/ops.h"
#include "executor/cuda/run_on_zeros.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"

namespace stringline::cuda {
namespace {

// `past` is null where there is no past.
AttentionShape ShapeFor(const Type& qkv, const Type* past, const Node& node) {
  AttentionShape shape = {};
  shape.batch = qkv.shape[0];
  shape.positions = qkv.shape[1];
  shape.heads.queries = static_cast<int64_t>(node.attributes[0]);
  shape.heads.keys = static_cast<int64_t>(node.attributes[1]);
  shape.cross = IsCrossAttention(node.op);
  shape.heads.size = qkv.shape[2] / (shape.cross ? shape.heads.queries : shape.heads.all());
  if (past != nullptr) shape.past = past->shape[1];
  return shape;
}

bool IsGradient(Op op) {
  return op == Op::kAttentionGrad || op == Op::kAttentionPastGrad ||
         op == Op::kCrossAttentionGrad || op == Op::kPackedAttentionGrad;
}

AttentionShape ShapeOf(const NodeTypes& types) {
  const int qkv = IsGradient(types.node.op) ? 1 : 0;
  const Type* const past = IsAttentionPast(types.node.op) ? &types.in(qkv + 1) : nullptr;
  return ShapeFor(types.in(qkv), past, types.node);
}

void RunByLibrary(const OpRun& run, AttentionRun operands) {
  operands.workspace = LibraryWorkspace(run.node.workspace);
  run.status.Update(run.data.attention->Run(run.data.attention_plan, operands,
                                            static_cast<cudaStream_t>(run.node.stream)));
}

template <typename T>
void LaunchAttention(const OpRun& run) {
  if (run.data.attention_plan != nullptr) {
    return RunByLibrary(run, {.qkv = run.in<T>(0), .y = run.out<T>(0), .lse = run.out(1)});
  }
  RunAttention(run.launch, AttentionArguments<T>{run.in<T>(0), run.out<T>(0), run.out(1),
                                                 ShapeFor(run.in_type(0), nullptr, run.node.node)});
}

template <typename T>
void LaunchAttentionPast(const OpRun& run) {
  RunAttention(run.launch,
               AttentionArguments<T>{run.in<T>(0), run.out<T>(0), run.out(1),
                                     ShapeFor(run.in_type(0), &run.in_type(1), run.node.node),
                                     run.in<T>(1)});
}

template <typename T>
void LaunchPackedAttention(const OpRun& run) {
  RunAttention(run.launch, AttentionArguments<T>{run.in<T>(0), run.out<T>(0), run.out(1),
                                                 ShapeFor(run.in_type(0), nullptr, run.node.node),
                                                 /*past=*/nullptr, run.integers_in(1)});
}

int64_t AttentionGradBytes(const NodeTypes& types) {
  return Workspace::BytesOf({AttentionGradFloats(ShapeOf(types))});
}
template <typename T>
void LaunchAttentionGrad(const OpRun& run) {
  if (run.data.attention_plan != nullptr) {
    return RunByLibrary(run, {.qkv = run.in<T>(1),
                              .y = run.in<T>(2),
                              .lse = run.in(3),
                              .dy = run.in<T>(0),
                              .dqkv = run.out<T>(0)});
  }
  const AttentionShape shape = ShapeFor(run.in_type(1), nullptr, run.node.node);
  float* const delta = run.workspace.Take<float>(AttentionGradFloats(shape));
  RunAttentionGrad(run.launch, AttentionGradArguments<T>{run.in<T>(0), run.in<T>(1), run.in<T>(2),
                                                         run.in(3), delta, run.out<T>(0), shape});
}

template <typename T>
void LaunchAttentionPastGrad(const OpRun& run) {
  const AttentionShape shape = ShapeFor(run.in_type(1), &run.in_type(2), run.node.node);
  float* const delta = run.workspace.Take<float>(AttentionGradFloats(shape));
  RunAttentionGrad(run.launch, AttentionGradArguments<T>{run.in<T>(0), run.in<T>(1), run.in<T>(3),
                                                         run.in(4), delta, run.out<T>(0), shape,
                                                         run.in<T>(2), run.out<T>(1)});
}

template <typename T>
void LaunchPackedAttentionGrad(const OpRun& run) {
  const AttentionShape shape = ShapeFor(run.in_type(1), nullptr, run.node.node);
  float* const delta = run.workspace.Take<float>(AttentionGradFloats(shape));
  RunAttentionGrad(run.launch,
                   AttentionGradArguments<T>{run.in<T>(0), run.in<T>(1), run.in<T>(3), run.in(4),
                                             delta, run.out<T>(0), shape, /*past=*/nullptr,
                                             /*dpast=*/nullptr, run.integers_in(2)});
}

}  // namespace

OpLaunch AttentionLaunch(Op op) {
  switch (op) {
    case Op::kAttention:
      return {LaunchAttention<float>, LaunchAttention<Bf16>};
    case Op::kAttentionGrad:
      return {LaunchAttentionGrad<float>, LaunchAttentionGrad<Bf16>, AttentionGradBytes};
    case Op::kAttentionPast:
    case Op::kCrossAttention:
      return {LaunchAttentionPast<float>, LaunchAttentionPast<Bf16>};
    case Op::kAttentionPastGrad:
    case Op::kCrossAttentionGrad:
      return {LaunchAttentionPastGrad<float>, LaunchAttentionPastGrad<Bf16>, AttentionGradBytes};
    case Op::kPackedAttention:
      return {LaunchPackedAttention<float>, LaunchPackedAttention<Bf16>};
    case Op::kPackedAttentionGrad:
      return {LaunchPackedAttentionGrad<float>, LaunchPackedAttentionGrad<Bf16>,
              AttentionGradBytes};
    default:
      return {};
  }
}

AttentionProblem AttentionProblemOf(const NodeTypes& types, bool deterministic) {
  const AttentionShape shape = ShapeOf(types);
  return {IsGradient(types.node.op),
          shape.batch,
          shape.positions,
          shape.heads.queries,
          shape.heads.keys,
          shape.heads.size,
          deterministic || !IsGradient(types.node.op)};
}

absl::Status ChooseAttention(const NodeTypes& types, AttentionLibrary* library, bool deterministic,
                             NodeData* data, int64_t* workspace_bytes) {
  const AttentionProblem problem = AttentionProblemOf(types, deterministic);
  if (library != nullptr && !IsOwnAttention(types.node.op)) {
    const absl::StatusOr<const AttentionPlan*> plan = library->Choose(problem);
    if (plan.ok()) {
      data->attention = library;
      data->attention_plan = *plan;
      *workspace_bytes = LibraryBytes((*plan)->workspace_bytes);
      return absl::OkStatus();
    }
    if (!absl::IsUnimplemented(plan.status())) return plan.status();
  }
  if (problem.size <= kMostHeadSize) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the CUDA backend has ", RowOf(types.node.op).name,
                                               " for heads of at most ", kMostHeadSize,
                                               " channels"));
}

absl::Status LoadAttention(const AttentionLibrary& library, const AttentionPlan* plan) {
  const AttentionProblem& of = plan->problem;
  const int64_t rows = of.batch * of.positions;
  const int64_t packed = 2 * rows * (of.heads + 2 * of.kv_heads) * of.size;  // bf16
  const int64_t mixed = 2 * rows * of.heads * of.size;
  const int64_t lse = static_cast<int64_t>(sizeof(float)) * rows * of.heads;
  return RunOnZeros({packed, mixed, lse, mixed, packed, plan->workspace_bytes},
                    [&](absl::Span<char* const> at, cudaStream_t stream) {
                      AttentionRun run = {at[0], at[1], reinterpret_cast<float*>(at[2])};
                      if (of.gradient) run.dy = at[3];
                      if (of.gradient) run.dqkv = at[4];
                      run.workspace = at[5];
                      return library.Run(plan, run, stream);
                    });
}

}  // namespace stringline::cuda
