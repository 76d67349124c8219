// The launches of every op of stages/ops.def: the arguments of each body, taken from a node's
// operands. Activations are float or Bf16, and all floats with the same letter in ops.def have the
// same type; a launch is a template over that type.
//
// A node is prepared once, for its shapes; running it allocates nothing and waits for nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "absl/status/status.h"
#include "executor/cuda/attention_library.h"
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/products.h"
#include "executor/engine/kernels.h"
#include "schedlang/base/align.h"
#include "stages/graph.h"

namespace stringline::cuda {

// The operands of a node before memory is allocated for them.
struct NodeTypes {
  const Graph& graph;
  const Node& node;

  const Type& in(int i) const { return graph.values[node.inputs[i]].type; }
  const Type& out(int i) const { return graph.values[node.outputs[i]].type; }
};

// A node's data besides its operands, alive as long as the kernels.
struct NodeData {
  const float* rotary = nullptr;  // cosines, then sines, of kRotary
  int64_t rotary_bytes = 0;
  // A product that overwrites its result, and one that adds to it; null: by a body of our own.
  const Products* library = nullptr;
  const Product* products[2] = {};
  int with = -1;                 // ReadyKernel::with
  bool leaves_gradient = false;  // see LeavesGradient
  // For attention by a library; null if our own kernel is used.
  const AttentionLibrary* attention = nullptr;
  const AttentionPlan* attention_plan = nullptr;
};

// Libraries require a larger alignment of their workspaces than kBufferAlignment, a node's own:
// with LibraryBytes of room, a piece of the node's workspace is aligned to kLibraryAlignment.
constexpr int64_t kLibraryAlignment =
    std::max(Products::kWorkspaceAlignment, AttentionLibrary::kWorkspaceAlignment);
inline int64_t LibraryBytes(int64_t bytes) {
  return bytes == 0 ? 0 : bytes + kLibraryAlignment - kBufferAlignment;
}
inline void* LibraryWorkspace(void* workspace) {
  constexpr auto kAlignment = static_cast<uintptr_t>(kLibraryAlignment);
  const auto at = reinterpret_cast<uintptr_t>(workspace);
  return reinterpret_cast<void*>((at + kAlignment - 1) / kAlignment * kAlignment);
}

// Hands out pieces of a workspace, in the order in which BytesOf added up their sizes.
class Workspace {
 public:
  explicit Workspace(void* memory) : at_(static_cast<char*>(memory)) {}
  template <typename T>
  T* Take(int64_t count) {
    char* const piece = at_;
    at_ += AlignUp(count * static_cast<int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(piece);
  }
  static int64_t BytesOf(std::initializer_list<int64_t> words) {
    int64_t bytes = 0;
    for (const int64_t count : words) bytes += AlignUp(4 * count);
    return bytes;
  }

 private:
  char* at_;
};

// One run of a node.
struct OpRun {
  const NodeRun& node;
  const NodeData& data;
  const StreamRun& launch;
  mutable Workspace workspace;
  mutable absl::Status status = {};  // for calls that are not launches

  const Type& in_type(int i) const { return *node.in[i].type; }
  const Type& out_type(int i) const { return *node.out[i].type; }
  template <typename T = float>
  T* in(int i) const {
    return static_cast<T*>(node.in[i].data);
  }
  template <typename T = float>
  T* out(int i) const {
    return static_cast<T*>(node.out[i].data);
  }
  int32_t* integers_in(int i) const { return node.in[i].i32(); }
  int32_t* integers_out(int i) const { return node.out[i].i32(); }
  bool adds(int i) const { return node.accumulate[i]; }
  double attribute(int i) const { return node.node.attributes[i]; }
  template <typename T>
  T attribute_as(int i) const {
    return static_cast<T>(attribute(i));
  }
};

// A tensor as rows of its last dimension.
inline int64_t ColumnsOf(const Type& type) { return type.shape.back(); }
inline int64_t RowsOf(const Type& type) { return type.elements() / ColumnsOf(type); }

struct OpLaunch {
  void (*in_f32)(const OpRun& run) = nullptr;   // null: not implemented
  void (*in_bf16)(const OpRun& run) = nullptr;  // used if an operand is BF16; null: operands are
                                                // never BF16
  int64_t (*workspace_bytes)(const NodeTypes& types) = nullptr;  // null: no workspace
};
OpLaunch LaunchOf(Op op);

// The product that the node asks for, written and not added; nullopt for other ops.
std::optional<ProductShape> ProductShapeOf(const NodeTypes& types);
// Chooses the algorithm of a product, or, where the library refuses its shape, a body of our own;
// does nothing for other ops.
absl::Status ChooseProducts(const NodeTypes& types, Products* library, NodeData* data,
                            int64_t* workspace_bytes);
// If the node can be launched with an earlier one (joined.cc), chooses that and sets `with`
// (ReadyKernel); JoinedLaunch, of the earlier node's op, then launches both.
void JoinNodes(const NodeTypes& types, Products* library, NodeData* data, int64_t* workspace_bytes);
OpLaunch JoinedLaunch(Op earlier);
// The product for a product's input gradient and a GELU's gradient after it; false if the library
// has none.
bool ChooseProductWithGelu(const NodeTypes& product, Products* library, NodeData* data,
                           int64_t* workspace_bytes);
void LaunchProductWithGelu(const OpRun& run);
// A norm's gradient with the addition of another tensor to dx.
OpLaunch NormWithSumLaunch(Op norm);
// A loss whose kernel leaves the gradient of the logits in their place, so that they are read once.
// True of the loss in a forward, and of its gradient in the backwards of the same stage, if the
// loss's own gradient is 1 and nothing else reads the logits, which the forward saves.
bool LeavesGradient(const NodeTypes& types);
// The problem that an attention, or its gradient, poses to a library.
AttentionProblem AttentionProblemOf(const NodeTypes& types, bool deterministic = true);
// Chooses the library's plan, if it has one; otherwise, as without a library and for attention of
// our own, our kernel stays. Unimplemented if neither can run the node.
absl::Status ChooseAttention(const NodeTypes& types, AttentionLibrary* library, bool deterministic,
                             NodeData* data, int64_t* workspace_bytes);
// Runs the plan once, on zeros: its code is loaded then (own_kernels.h).
absl::Status LoadAttention(const AttentionLibrary& library, const AttentionPlan* plan);
inline bool IsAttention(Op op) { return op == Op::kAttention || op == Op::kAttentionGrad; }
inline bool IsCrossAttention(Op op) {
  return op == Op::kCrossAttention || op == Op::kCrossAttentionGrad;
}
// Attention with a past, also where queries have no keys of their own.
inline bool IsAttentionPast(Op op) {
  return op == Op::kAttentionPast || op == Op::kAttentionPastGrad || IsCrossAttention(op);
}
// Attention for which no library has a plan: with a past, or of packed sequences.
inline bool IsOwnAttention(Op op) {
  return IsAttentionPast(op) || op == Op::kPackedAttention || op == Op::kPackedAttentionGrad;
}

// By family; each returns the launches of its ops, and empty ones for others.
OpLaunch ProductLaunch(Op op);
OpLaunch AttentionLaunch(Op op);
OpLaunch ElementwiseLaunch(Op op);
OpLaunch NormLaunch(Op op);
OpLaunch TokenLaunch(Op op);
OpLaunch RouterLaunch(Op op);
OpLaunch ExchangeLaunch(Op op);
OpLaunch SliceLaunch(Op op);

}  // namespace stringline::cuda
