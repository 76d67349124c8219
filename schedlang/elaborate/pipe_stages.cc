#include "schedlang/elaborate/pipe_stages.h"

namespace stringline {

bool PipeStages::NamesAny(const Program& program, int32_t first, int32_t count) const {
  for (int32_t i = first; i < first + count; ++i) {
    if (Names(program.arguments[i])) return true;
  }
  return false;
}

void PipeStages::AddNode(const Program& program, const ExpressionNode& node) {
  const auto names = [&]() -> bool {
    switch (node.op) {
      case Operator::kPipeStage:
        return true;
      case Operator::kSlot:
        return slots_.count(node.a) > 0;
      case Operator::kConditional:
        return Names(node.b) && Names(node.c);
      case Operator::kCall:
        return functions_[static_cast<size_t>(node.a)] || NamesAny(program, node.b, node.c);
      case Operator::kMin:
      case Operator::kMax:
        return NamesAny(program, node.b, node.c);
      case Operator::kNegate:
        return Names(node.a);
      case Operator::kAdd:
      case Operator::kSubtract:
      case Operator::kMultiply:
      case Operator::kDivide:
      case Operator::kRemainder:
        return Names(node.a) || Names(node.b);
      default:  // numbers and truth values
        return false;
    }
  };
  nodes_.push_back(names());
}

}  // namespace stringline
