#include "stages/ops.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/gradients.h"
#include "stages/shapes.h"

namespace stringline {

namespace {

// A last name with a * is that of an attribute that repeats.
std::vector<OpRow> WithRepeats(std::vector<OpRow> rows) {
  for (OpRow& row : rows) {
    if (row.attributes.empty() || row.attributes.back().back() != '*') continue;
    row.attributes.back().pop_back();
    row.repeats = true;
  }
  return rows;
}

}  // namespace

const std::vector<OpRow>& AllOps() {
  static const std::vector<OpRow>& rows = *new std::vector<OpRow>(WithRepeats({
#define X(op, name, attributes, inputs, outputs, accumulates, shape, gradient) \
  {Op::op, name,     absl::StrSplit(attributes, ' ', absl::SkipEmpty()),       \
   inputs, outputs,  accumulates,                                              \
   shape,  gradient, false},
#include "stages/ops.def"
#undef X
  }));
  return rows;
}

const OpRow& RowOf(Op op) { return AllOps()[static_cast<size_t>(op)]; }

const OpRow* OpNamed(absl::string_view name) {
  for (const OpRow& row : AllOps()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool IsOfAnyTensor(Op op) { return op >= Op::kMap && op <= Op::kNumbers; }

bool IsCut(Op op) { return op == Op::kDispatch || op == Op::kCombine; }

bool IsCollective(Op op) { return IsCut(op) || op == Op::kAllToAllCounts; }

absl::StatusOr<std::vector<Type>> InferTypes(Op op, absl::Span<const Type> inputs,
                                             absl::Span<const double> attributes) {
  const OpRow& row = RowOf(op);
  if (static_cast<int>(inputs.size()) != row.inputs) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.name, " has ", inputs.size(), " inputs instead of ", row.inputs));
  }
  if (!row.TakesAttributes(attributes.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        row.name, " has ", attributes.size(), " attributes instead of ", row.attributes.size()));
  }
  return row.shape(inputs, attributes);
}

}  // namespace stringline
