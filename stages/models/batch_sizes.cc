// A walk down the graph: every op says along which dimension of its result the sequences lie.
#include "stages/models/batch_sizes.h"

#include <algorithm>

#include "stages/ops.h"
#include "stages/windows.h"

namespace stringline {
namespace {

using Shape = std::vector<int64_t>;

constexpr int kNowhere = -1;  // the value depends on no sequence

int64_t ProductOf(const Shape& shape, size_t first, size_t last) {
  int64_t product = 1;
  for (size_t d = first; d < last; ++d) product *= shape[d];
  return product;
}

class BatchWalk {
 public:
  explicit BatchWalk(const Graph& graph)
      : graph_(graph),
        along_(graph.values.size(), kNowhere),
        inner_(graph.values.size(), 1),
        sizes_(graph.nodes.size(), -1),
        producers_(Producers(graph)) {
    for (const Port& port : graph.inputs) {
      if (port.role != Role::kInput && port.role != Role::kTarget) continue;
      along_[port.value] = 0;
      sequences_ = graph.values[port.value].type.shape[0];
    }
  }

  std::optional<std::vector<int>> Run() && {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const std::optional<int> along = AlongOf(node);
      if (!along || !KeepsInner(node)) return std::nullopt;
      for (const ValueId output : node.outputs) along_[output] = *along;
      const bool has_sizes =
          node.op == Op::kReshape || node.op == Op::kExpand || node.op == Op::kSumTo;
      if (has_sizes && *along != kNowhere) sizes_[n] = *along;
    }
    return std::move(sizes_);
  }

 private:
  const Shape& ShapeOf(ValueId value) const { return graph_.values[value].type.shape; }
  int Dims(ValueId value) const { return static_cast<int>(ShapeOf(value).size()); }

  // Hands on how often all sequences come in their dimension, which a reshape tells anew. False if
  // operands differ in it.
  bool KeepsInner(const Node& node) {
    if (node.op == Op::kReshape) return true;
    int64_t inner = 0;  // of the operands that depend on sequences
    for (const ValueId input : node.inputs) {
      if (along_[input] == kNowhere) continue;
      if (inner != 0 && inner != inner_[input]) return false;
      inner = inner_[input];
    }
    for (const ValueId output : node.outputs) inner_[output] = std::max<int64_t>(1, inner);
    return true;
  }

  std::optional<int> AlongOf(const Node& node) {
    switch (node.op) {
      case Op::kNumbers:
      case Op::kConstant:
        return kNowhere;
      case Op::kAdd:
      case Op::kMul:
      case Op::kZip:
        return OfBoth(node);
      case Op::kReshape:
        return OfReshape(node);
      case Op::kPermute:
        return OfPermute(node);
      case Op::kExpand:
        return OfExpand(node);
      case Op::kSumTo:
        return OfSum(node);
      case Op::kTake:
      case Op::kPut:
        return Unless(along_[node.inputs[0]], static_cast<int>(node.attributes[0]));
      case Op::kJoin: {
        const std::optional<int> both = OfBoth(node);
        return both ? Unless(*both, static_cast<int>(node.attributes[0])) : both;
      }
      case Op::kMatMul:
        return OfProduct(node);
      case Op::kBatchNorm:
        return along_[node.inputs[0]] == kNowhere ? std::optional(kNowhere) : std::nullopt;
      case Op::kConvolution: {
        const int along = along_[node.inputs[0]];
        return along > 0 ? std::nullopt : std::optional(along);
      }
      case Op::kMaxPool: {
        const size_t slide = node.attributes.size() / Window::kNumbers;
        const int along = along_[node.inputs[0]], dims = Dims(node.inputs[0]);
        return along >= dims - static_cast<int>(slide) ? std::nullopt : std::optional(along);
      }
      case Op::kSoftmax:
        return Unless(along_[node.inputs[0]], Dims(node.inputs[0]) - 1);
      case Op::kGather:
      case Op::kScatter: {
        const std::optional<int> both = OfBoth(node);
        return both ? Unless(*both, static_cast<int>(node.attributes[0])) : both;
      }
      case Op::kEmbedding:
      case Op::kPaddedEmbedding:  // rows of other sequences are counted by the indices
        if (along_[node.inputs[1]] != kNowhere) return std::nullopt;
        return OfRows(node);
      case Op::kCrossEntropy:
        return kNowhere;
      default:
        return OfRows(node);
    }
  }

  // Ops that take rows one by one, or sequences.
  std::optional<int> OfRows(const Node& node) const {
    int along = kNowhere;
    for (const ValueId input : node.inputs) {
      if (along_[input] == kNowhere) continue;
      if (along != kNowhere && along != along_[input]) return std::nullopt;
      along = along_[input];
    }
    const bool single = node.op == Op::kMap || node.op == Op::kWhole || node.op == Op::kFloat ||
                        node.op == Op::kDropout;  // numbers
    return Unless(along, single ? kNowhere : Dims(node.outputs[0]) - 1);
  }

  static std::optional<int> Unless(int along, int dimension) {
    if (along != kNowhere && along == dimension) return std::nullopt;
    return along;
  }

  // Two values of one shape: one that depends on no sequence has been repeated for each.
  std::optional<int> OfBoth(const Node& node) {
    const int a = along_[node.inputs[0]], b = along_[node.inputs[1]];
    if (a == b) return a;
    if (a != kNowhere && b != kNowhere) return std::nullopt;
    const int along = std::max(a, b);
    return Repeats(node.inputs[a == kNowhere ? 0 : 1], along) ? std::optional(along) : std::nullopt;
  }

  // True if the value is the same for all sequences along the dimension; notes the size at which
  // an expand made it so.
  bool Repeats(ValueId value, int along) {
    if (ShapeOf(value)[static_cast<size_t>(along)] == 1) return true;  // expanded when repeated
    const int producer = producers_[value];
    if (producer < 0 || graph_.nodes[producer].op != Op::kExpand) return false;
    const ValueId from = graph_.nodes[producer].inputs[0];
    const int before = Dims(value) - Dims(from);
    if (along >= before && ShapeOf(from)[static_cast<size_t>(along - before)] != 1) return false;
    if (sizes_[producer] >= 0 && sizes_[producer] != along) return false;
    sizes_[producer] = along;
    return true;
  }

  // In memory a value is blocks of all sequences, one behind the other, and a reshape keeps them:
  // the sequences lie along the dimension that is made of whole blocks.
  std::optional<int> OfReshape(const Node& node) {
    const ValueId x = node.inputs[0];
    if (along_[x] == kNowhere) return kNowhere;
    const Shape& to = ShapeOf(node.outputs[0]);
    const int64_t blocks = BlocksOf(x);
    const int64_t each = graph_.values[x].type.elements() / blocks / sequences_;
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t before = ProductOf(to, 0, d), behind = ProductOf(to, d + 1, to.size());
      if (blocks % before != 0 || each % behind != 0) continue;
      const int64_t inner = blocks / before;  // blocks of the dimension itself
      if (to[d] != inner * sequences_ * (each / behind)) continue;
      inner_[node.outputs[0]] = inner;
      return static_cast<int>(d);
    }
    return std::nullopt;
  }

  // The number of times that all sequences come one behind the other.
  int64_t BlocksOf(ValueId value) const {
    return ProductOf(ShapeOf(value), 0, static_cast<size_t>(along_[value])) * inner_[value];
  }

  std::optional<int> OfPermute(const Node& node) const {
    const int along = along_[node.inputs[0]];
    for (size_t d = 0; d < node.attributes.size(); ++d) {
      if (along != kNowhere && static_cast<int>(node.attributes[d]) == along) {
        return static_cast<int>(d);
      }
    }
    return kNowhere;
  }

  std::optional<int> OfExpand(const Node& node) const {
    const int along = along_[node.inputs[0]];
    if (along == kNowhere) return kNowhere;
    return along + Dims(node.outputs[0]) - Dims(node.inputs[0]);
  }

  std::optional<int> OfSum(const Node& node) const {
    const int along = along_[node.inputs[0]];
    if (along == kNowhere) return kNowhere;
    const int kept = along - (Dims(node.inputs[0]) - Dims(node.outputs[0]));
    if (kept < 0) return std::nullopt;
    const bool sums = ShapeOf(node.outputs[0])[static_cast<size_t>(kept)] !=
                      ShapeOf(node.inputs[0])[static_cast<size_t>(along)];
    return sums ? std::nullopt : std::optional(kept);
  }

  // Leading dimensions are those of both; rows are a's, and columns b's.
  std::optional<int> OfProduct(const Node& node) {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const int matrices = Dims(a) - 2;
    if (std::max(along_[a], along_[b]) < matrices) return OfBoth(node);
    if (along_[a] == matrices + (node.attributes[0] != 0 ? 1 : 0) && along_[b] == kNowhere) {
      return matrices;
    }
    if (along_[b] == matrices + (node.attributes[1] != 0 ? 0 : 1) && along_[a] == kNowhere) {
      return matrices + 1;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  std::vector<int> along_;      // by value: the dimension of the sequences
  std::vector<int64_t> inner_;  // by value: how often all of them come in that dimension
  std::vector<int> sizes_;      // by node: the result
  const std::vector<int> producers_;
  int64_t sequences_ = 1;
};

}  // namespace

std::optional<std::vector<int>> SizesOfBatch(const Graph& graph) { return BatchWalk(graph).Run(); }

}  // namespace stringline
