#include "executor/cuda/ops/ops.h"

namespace stringline::cuda {
namespace {

AttentionShape ShapeFor(const Type& qkv, const Node& node) {
  AttentionShape shape = {};
  shape.batch = qkv.shape[0];
  shape.positions = qkv.shape[1];
  shape.heads.queries = static_cast<int64_t>(node.attributes[0]);
  shape.heads.keys = static_cast<int64_t>(node.attributes[1]);
  shape.heads.size = qkv.shape[2] / shape.heads.all();
  return shape;
}

void LaunchAttention(const OpRun& run) {
  RunAttention(run.launch, AttentionArguments<float>{run.in(0), run.out(0), run.out(1),
                                                     ShapeFor(run.in_type(0), run.node.node)});
}

int64_t AttentionGradBytes(const NodeTypes& types) {
  return Workspace::BytesOf({AttentionGradFloats(ShapeFor(types.in(1), types.node))});
}
void LaunchAttentionGrad(const OpRun& run) {
  const AttentionShape shape = ShapeFor(run.in_type(1), run.node.node);
  float* const delta = run.workspace.Take<float>(AttentionGradFloats(shape));
  RunAttentionGrad(run.launch, AttentionGradArguments<float>{run.in(0), run.in(1), run.in(2),
                                                             run.in(3), delta, run.out(0), shape});
}

}  // namespace

OpLaunch AttentionLaunch(Op op) {
  switch (op) {
    case Op::kAttention:
      return {LaunchAttention};
    case Op::kAttentionGrad:
      return {LaunchAttentionGrad, AttentionGradBytes};
    default:
      return {};
  }
}

bool FitsAttention(const NodeTypes& types) {
  const int qkv = types.node.op == Op::kAttention       ? 0
                  : types.node.op == Op::kAttentionGrad ? 1
                                                        : -1;
  return qkv < 0 || ShapeFor(types.in(qkv), types.node).heads.size <= kMostHeadSize;
}

}  // namespace stringline::cuda
