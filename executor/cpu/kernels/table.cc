#include "executor/cpu/kernels/bf16.h"
#include "executor/cpu/kernels/bf16_products.h"

// OpenMP's; no header, since a compiler without OpenMP has none (executor/cpu/one_thread).
extern "C" void omp_set_num_threads(int threads);

namespace stringline::cpu {

Kernel KernelFor(Op op) {
  static constexpr Kernel kKernels[] = {
#define X(op, ...) Run_##op,
#include "stages/ops.def"
#undef X
  };
  return kKernels[static_cast<size_t>(op)];
}

namespace {

// Ops that copy BF16 numbers without reading them, the cast, and the ops of whole logits.
bool TakesAnyFloat(Op op) {
  switch (op) {
    case Op::kCast:
    case Op::kEmbedding:
    case Op::kGatherRows:
    case Op::kDispatch:
    case Op::kCombine:
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kPackKeys:
    case Op::kPackKeysGrad:
    case Op::kAppendPositions:
    case Op::kTakePositions:
      return true;
    default:
      return false;
  }
}

int64_t GroupsOf(const Node& convolution) {
  return static_cast<int64_t>(convolution.attributes[0]);
}

int64_t WorkspaceOfF32(const Graph& graph, const Node& node) {
  auto input = [&](int i) -> const Type& { return graph.values[node.inputs[i]].type; };
  switch (node.op) {
    case Op::kAttention:
    case Op::kPackedAttention:
      return AttentionWorkspace(input(0), nullptr, node.attributes);
    case Op::kAttentionGrad:
    case Op::kPackedAttentionGrad:
      return AttentionGradWorkspace(input(1), nullptr, node.attributes);
    case Op::kAttentionPast:
    case Op::kCrossAttention:
      return AttentionWorkspace(input(0), &input(1), node.attributes);
    case Op::kAttentionPastGrad:
    case Op::kCrossAttentionGrad:
      return AttentionGradWorkspace(input(1), &input(2), node.attributes);
    case Op::kLayerNormGrad:
      return LayerNormGradWorkspace(input(1));
    case Op::kRmsNormGrad:
      return RmsNormGradWorkspace(input(1));
    case Op::kHeadNormGrad:
      return HeadNormGradWorkspace(input(2));
    case Op::kRotary:
    case Op::kPackedRotary:
      return RotaryWorkspace(input(0), node.attributes);
    case Op::kCrossEntropy:
      return CrossEntropyWorkspace(input(0));
    case Op::kCrossEntropyGrad:
      return CrossEntropyWorkspace(input(1));
    case Op::kRoute:
      return RouteWorkspace(input(0));
    case Op::kRouteGrad:
      return RouteGradWorkspace(input(1));
    case Op::kBalanceLoss:
      return BalanceWorkspace(input(0));
    case Op::kBalanceLossGrad:
      return BalanceWorkspace(input(1));
    case Op::kDispatchPlan:
      return DispatchPlanWorkspace(node);
    case Op::kSumRows:
      return SumRowsWorkspace(input(1));
    case Op::kConvolution:
    case Op::kConvolutionInputGrad:
      return ConvolutionWorkspace(node, input(1).shape[1]);
    case Op::kConvolutionWeightGrad:
      return ConvolutionWorkspace(node, input(1).shape[1] / GroupsOf(node));
    default:
      return 0;
  }
}

}  // namespace

Kernel KernelFor(const Graph& graph, const Node& node) {
  if (!HasBf16(graph, node) || TakesAnyFloat(node.op)) return KernelFor(node.op);
  return Bf16ProductWorkspace(graph, node).has_value() ? RunBf16Product : RunWidened;
}

int64_t WorkspaceBytes(const Graph& graph, const Node& node) {
  const int64_t of_f32 = WorkspaceOfF32(graph, node);
  if (!HasBf16(graph, node) || TakesAnyFloat(node.op)) return of_f32;
  const std::optional<int64_t> of_product = Bf16ProductWorkspace(graph, node);
  return of_product.has_value() ? *of_product : WidenedWorkspace(graph, node, of_f32);
}

void PrepareThread() { omp_set_num_threads(1); }

}  // namespace stringline::cpu
