#include "executor/cpu/kernels/bf16.h"

#include <algorithm>

#include "executor/bf16.h"
#include "schedlang/base/align.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

constexpr size_t kMostOperands = 16;

int64_t WidenedBytes(const Type& type) { return AlignUp(type.elements() * BytesOf(DType::kF32)); }

// Takes widened copies of operands from a workspace.
class Copies {
 public:
  explicit Copies(void* workspace) : at_(static_cast<char*>(workspace)) {}
  // The same tensor where it is F32. Its type stays: of it kernels read the shape.
  Tensor Of(const Tensor& tensor) {
    if (tensor.type->dtype != DType::kBF16) return tensor;
    void* const copy = at_;
    at_ += WidenedBytes(*tensor.type);
    return {copy, tensor.type};
  }
  void* rest() const { return at_; }

 private:
  char* at_;
};

}  // namespace

bool HasBf16(const Graph& graph, const Node& node) {
  const auto is = [&](ValueId value) { return graph.values[value].type.dtype == DType::kBF16; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is);
}

int64_t WidenedWorkspace(const Graph& graph, const Node& node, int64_t of_f32_kernel) {
  int64_t bytes = of_f32_kernel;
  for (const std::vector<ValueId>* side : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *side) {
      const Type& type = graph.values[value].type;
      if (type.dtype == DType::kBF16) bytes += WidenedBytes(type);
    }
  }
  return bytes;
}

void RunWidened(const Node& node, In in, Out out, Accumulate accumulate, void* workspace) {
  SL_CHECK(in.size() <= kMostOperands && out.size() <= kMostOperands) << in.size();
  Copies copies(workspace);
  Tensor wide_in[kMostOperands], wide_out[kMostOperands];
  for (size_t i = 0; i < in.size(); ++i) {
    wide_in[i] = copies.Of(in[i]);
    if (wide_in[i].data == in[i].data) continue;
    FromBf16(in[i].bf16(), in[i].type->elements(), wide_in[i].f32());
  }
  for (size_t i = 0; i < out.size(); ++i) wide_out[i] = copies.Of(out[i]);
  KernelFor(node.op)(node, absl::MakeConstSpan(wide_in, in.size()),
                     absl::MakeConstSpan(wide_out, out.size()), accumulate, copies.rest());
  for (size_t i = 0; i < out.size(); ++i) {
    if (wide_out[i].data == out[i].data) continue;
    ToBf16(wide_out[i].f32(), out[i].type->elements(), out[i].bf16());
  }
}

}  // namespace stringline::cpu
