// An F32 kernel runs on widened copies. For kernels that go element by element or row by row the
// operands are widened in small pieces: they stay in the cache, and take little memory.
#include "executor/cpu/kernels/bf16.h"

#include <algorithm>

#include "executor/engine/bf16.h"
#include "schedlang/base/align.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

constexpr size_t kMostOperands = 16;
constexpr int64_t kPiece = 4096;  // elements of the widest operand

bool IsNorm(Op op) { return op == Op::kLayerNorm || op == Op::kRmsNorm; }

bool GoesByElement(Op op) {
  return op == Op::kAdd || op == Op::kMul || op == Op::kScale || op == Op::kGelu ||
         op == Op::kGeluGrad;
}

bool GoesByRow(Op op) { return IsNorm(op) || op == Op::kSwiglu || op == Op::kSwigluGrad; }

// Inputs common to all rows, in F32: a norm's scale and shift.
bool IsShared(Op op, size_t input) { return IsNorm(op) && input > 0; }

int64_t WidenedBytes(int64_t elements) { return AlignUp(elements * BytesOf(DType::kF32)); }

// A node whose kernel can run on a few rows of its operands at a time; an element may be a row.
struct RowWise {
  RowWise(Op op, const Type& first, const Type& widest)
      : rows(GoesByElement(op) ? first.elements() : first.elements() / first.shape.back()),
        at_once(std::min(rows, std::max<int64_t>(1, kPiece / LengthOf(widest)))) {}
  int64_t LengthOf(const Type& type) const { return type.elements() / rows; }

  int64_t rows;
  int64_t at_once;
};

// Takes widened copies of operands from a workspace.
class Copies {
 public:
  explicit Copies(void* workspace) : at_(static_cast<char*>(workspace)) {}
  float* Take(int64_t elements) {
    char* const copy = at_;
    at_ += WidenedBytes(elements);
    return reinterpret_cast<float*>(copy);
  }
  void* rest() const { return at_; }

 private:
  char* at_;
};

bool IsBf16(const Tensor& tensor) { return tensor.type->dtype == DType::kBF16; }

const Type& Widest(const Type& a, const Type& b) { return a.elements() < b.elements() ? b : a; }

// `count` rows from `first` on of an operand, with a type of their own; a BF16 operand's rows are
// widened at `copy`.
Tensor RowsOf(const Tensor& tensor, int64_t length, int64_t first, int64_t count, float* copy,
              Type* type) {
  type->shape.assign({count, length});
  return {IsBf16(tensor) ? copy : tensor.f32() + first * length, type};
}

void RunByRows(const Node& node, In in, Out out, Accumulate accumulate, void* workspace) {
  thread_local Type types[2 * kMostOperands];  // reused: their shapes keep their memory
  const RowWise by(node.op, *in[0].type, Widest(*in.back().type, *out[0].type));
  Tensor pieces[2 * kMostOperands];
  float* copies[2 * kMostOperands] = {};
  Copies taken(workspace);
  const size_t operands = in.size() + out.size();
  const auto operand = [&](size_t i) -> const Tensor& {
    return i < in.size() ? in[i] : out[i - in.size()];
  };
  for (size_t i = 0; i < operands; ++i) {
    const Tensor& tensor = operand(i);
    if (IsBf16(tensor)) copies[i] = taken.Take(by.at_once * by.LengthOf(*tensor.type));
  }
  for (int64_t first = 0; first < by.rows; first += by.at_once) {
    const int64_t count = std::min(by.at_once, by.rows - first);
    for (size_t i = 0; i < operands; ++i) {
      const Tensor& tensor = operand(i);
      pieces[i] = tensor;
      if (i < in.size() && IsShared(node.op, i)) continue;
      const int64_t length = by.LengthOf(*tensor.type);
      pieces[i] = RowsOf(tensor, length, first, count, copies[i], &types[i]);
      if (i >= in.size() || !IsBf16(tensor)) continue;
      FromBf16(tensor.bf16() + first * length, count * length, copies[i]);
    }
    KernelFor(node.op)(node, absl::MakeConstSpan(pieces, in.size()),
                       absl::MakeConstSpan(pieces + in.size(), out.size()), accumulate,
                       taken.rest());
    for (size_t i = in.size(); i < operands; ++i) {
      const Tensor& tensor = operand(i);
      const int64_t length = by.LengthOf(*tensor.type);
      if (IsBf16(tensor)) ToBf16(copies[i], count * length, tensor.bf16() + first * length);
    }
  }
}

}  // namespace

bool HasBf16(const Graph& graph, const Node& node) {
  const auto is = [&](ValueId value) { return graph.values[value].type.dtype == DType::kBF16; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is);
}

int64_t WidenedWorkspace(const Graph& graph, const Node& node, int64_t of_f32_kernel) {
  const bool by_rows = GoesByElement(node.op) || GoesByRow(node.op);
  int64_t bytes = of_f32_kernel;
  for (const std::vector<ValueId>* side : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *side) {
      const Type& type = graph.values[value].type;
      if (type.dtype != DType::kBF16) continue;
      int64_t elements = type.elements();
      if (by_rows) {
        const auto of = [&](ValueId id) -> const Type& { return graph.values[id].type; };
        const RowWise by(node.op, of(node.inputs[0]),
                         Widest(of(node.inputs.back()), of(node.outputs[0])));
        elements = by.at_once * by.LengthOf(type);
      }
      bytes += WidenedBytes(elements);
    }
  }
  return bytes;
}

void RunWidened(const Node& node, In in, Out out, Accumulate accumulate, void* workspace) {
  SL_CHECK(in.size() <= kMostOperands && out.size() <= kMostOperands) << in.size();
  if (GoesByElement(node.op) || GoesByRow(node.op)) {
    return RunByRows(node, in, out, accumulate, workspace);
  }
  Copies copies(workspace);
  Tensor wide_in[kMostOperands], wide_out[kMostOperands];
  // The types stay BF16: kernels read only the shape.
  const auto widened = [&](const Tensor& tensor) {
    return IsBf16(tensor) ? Tensor{copies.Take(tensor.type->elements()), tensor.type} : tensor;
  };
  for (size_t i = 0; i < in.size(); ++i) {
    wide_in[i] = widened(in[i]);
    if (IsBf16(in[i])) FromBf16(in[i].bf16(), in[i].type->elements(), wide_in[i].f32());
  }
  for (size_t i = 0; i < out.size(); ++i) wide_out[i] = widened(out[i]);
  KernelFor(node.op)(node, absl::MakeConstSpan(wide_in, in.size()),
                     absl::MakeConstSpan(wide_out, out.size()), accumulate, copies.rest());
  for (size_t i = 0; i < out.size(); ++i) {
    if (IsBf16(out[i])) ToBf16(wide_out[i].f32(), out[i].type->elements(), out[i].bf16());
  }
}

}  // namespace stringline::cpu
