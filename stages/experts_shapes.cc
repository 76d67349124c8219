// A rule compares the types of the inputs and gives those of the outputs. An error names the types
// that the op wants and the types seen. The letters are those of ops.def.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/shapes.h"
#include "stages/text.h"

namespace stringline {
namespace {

absl::Status DoesNotFit(absl::string_view what, InputTypes in) {
  std::string seen;
  for (const Type& type : in) absl::StrAppend(&seen, seen.empty() ? "" : ", ", PrintType(type));
  return absl::InvalidArgumentError(absl::StrCat(what, ", seen: ", seen));
}

// F32 alone: logits and weights. Rows of activations may be BF16 too.
bool Floats(const Type& type) { return type.dtype == DType::kF32 && !type.shape.empty(); }
bool Floats(const Type& type, size_t rank) { return Floats(type) && type.shape.size() == rank; }
bool Activations(const Type& type) { return IsFloat(type.dtype) && !type.shape.empty(); }
bool Activations(const Type& type, size_t rank) {
  return Activations(type) && type.shape.size() == rank;
}
bool Integers(const Type& type, size_t rank) {
  return type.dtype == DType::kI32 && type.shape.size() == rank;
}
bool Integers(const Type& type) { return type.dtype == DType::kI32 && !type.shape.empty(); }

// True if the two agree in all dimensions but the last.
bool SameLeading(const Type& a, const Type& b) {
  return std::vector<int64_t>(a.shape.begin(), a.shape.end() - 1) ==
         std::vector<int64_t>(b.shape.begin(), b.shape.end() - 1);
}

Type Like(const Type& type, int64_t last, DType dtype) {
  Type result{dtype, type.shape};
  result.shape.back() = last;
  return result;
}

Type WithRows(const Type& type, int64_t rows) {
  Type result = type;
  result.shape[0] = rows;
  return result;
}

absl::Status CheckWhole(absl::string_view what, double number, int64_t least, int64_t most) {
  if (number >= static_cast<double>(least) && number <= static_cast<double>(most) &&
      number == std::floor(number))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", number, ", not a whole number in ", least, " .. ", most));
}

// Travelling rows: (rows,C) or (rows).
bool Rows(const Type& type) { return Floats(type, 1) || Activations(type, 2); }

bool CountsFit(const Type& counts, const Type& received) {
  return Integers(counts, 1) && Integers(received, 2) && received.elements() == counts.elements();
}

}  // namespace

InferredTypes ShapeOfRoute(InputTypes in, Attributes attributes) {
  if (!Floats(in[0])) return DoesNotFit("route wants logits (..,E)", in);
  const int64_t experts = in[0].shape.back();
  if (in[1] != Type{DType::kF32, {experts}} && in[1] != Type{}) {
    return DoesNotFit("route wants a bias (E) or ()", in);
  }
  SL_RETURN_IF_ERROR(CheckWhole("top_k", attributes[0], 1, experts));
  SL_RETURN_IF_ERROR(CheckWhole("scores", attributes[1], 0, 1));
  SL_RETURN_IF_ERROR(CheckWhole("normalise", attributes[2], 0, 1));
  SL_RETURN_IF_ERROR(CheckWhole("groups", attributes[4], 1, experts));
  const int64_t groups = static_cast<int64_t>(attributes[4]);
  SL_RETURN_IF_ERROR(CheckWhole("top_groups", attributes[5], 1, groups));
  if (experts % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(experts, " experts do not divide into ", groups, " groups"));
  }
  const int64_t of_group = experts / groups;
  SL_RETURN_IF_ERROR(CheckWhole("group_best", attributes[6], 1, of_group));
  if (attributes[0] > attributes[5] * static_cast<double>(of_group)) {
    return absl::InvalidArgumentError(absl::StrCat(attributes[0], " choices from ", attributes[5],
                                                   " groups of ", of_group, " experts"));
  }
  const int64_t choices = static_cast<int64_t>(attributes[0]);
  return std::vector<Type>{Like(in[0], choices, DType::kF32), Like(in[0], choices, DType::kI32)};
}

InferredTypes ShapeOfRouteGrad(InputTypes in, Attributes) {
  if (!Floats(in[0]) || !Floats(in[1]) || !SameLeading(in[0], in[1]) ||
      in[2] != Type{DType::kI32, in[0].shape}) {
    return DoesNotFit("route_grad wants dweight (..,K), logits (..,E) and choice (..,K)", in);
  }
  return std::vector<Type>{in[1]};
}

InferredTypes ShapeOfChoiceCounts(InputTypes in, Attributes attributes) {
  if (!Integers(in[0])) return DoesNotFit("choice_counts wants choice (..,K)", in);
  SL_RETURN_IF_ERROR(CheckWhole("experts", attributes[0], 1, 1 << 20));
  return std::vector<Type>{{DType::kF32, {static_cast<int64_t>(attributes[0])}}};
}

InferredTypes ShapeOfBalanceLoss(InputTypes in, Attributes) {
  if (!Floats(in[0]) || !Integers(in[1]) || !SameLeading(in[0], in[1])) {
    return DoesNotFit("balance_loss wants logits (..,E) and choice (..,K)", in);
  }
  return std::vector<Type>{Type{}};
}

InferredTypes ShapeOfBalanceLossGrad(InputTypes in, Attributes attributes) {
  if (in[0] != Type{} || !ShapeOfBalanceLoss(in.subspan(1), attributes).ok()) {
    return DoesNotFit("balance_loss_grad wants dloss (), logits (..,E) and choice (..,K)", in);
  }
  return std::vector<Type>{in[1]};
}

InferredTypes ShapeOfDispatchPlan(InputTypes in, Attributes attributes) {
  if (!Integers(in[0])) return DoesNotFit("dispatch_plan wants choice (..,K)", in);
  SL_RETURN_IF_ERROR(CheckWhole("experts", attributes[0], 1, 1 << 20));
  SL_RETURN_IF_ERROR(CheckWhole("capacity", attributes[1], 0, 1 << 30));
  return std::vector<Type>{
      in[0], {DType::kI32, {static_cast<int64_t>(attributes[0])}}, {DType::kF32, {}}};
}

InferredTypes ShapeOfGatherRows(InputTypes in, Attributes) {
  if (!Activations(in[0]) || !Integers(in[1]) || !SameLeading(in[0], in[1])) {
    return DoesNotFit("gather_rows wants x (..,C) and order (..,K)", in);
  }
  return std::vector<Type>{{in[0].dtype, {in[1].elements(), in[0].shape.back()}}};
}

InferredTypes ShapeOfSumRows(InputTypes in, Attributes) {
  if (!Activations(in[0], 2) || !Integers(in[1]) || in[0].shape[0] != in[1].elements()) {
    return DoesNotFit("sum_rows wants x (S,C) and order (..,K), S slots in all", in);
  }
  return std::vector<Type>{Like(in[1], in[0].shape[1], in[0].dtype)};
}

InferredTypes ShapeOfGatherWeights(InputTypes in, Attributes) {
  if (!Floats(in[0]) || in[1] != Type{DType::kI32, in[0].shape}) {
    return DoesNotFit("gather_weights wants x (..,K) and order (..,K)", in);
  }
  return std::vector<Type>{{DType::kF32, {in[0].elements()}}};
}

InferredTypes ShapeOfScatterWeights(InputTypes in, Attributes) {
  if (!Floats(in[0], 1) || !Integers(in[1]) || in[0].shape[0] != in[1].elements()) {
    return DoesNotFit("scatter_weights wants x (S) and order (..,K), S slots in all", in);
  }
  return std::vector<Type>{{DType::kF32, in[1].shape}};
}

InferredTypes ShapeOfAllToAllCounts(InputTypes in, Attributes attributes) {
  if (!Integers(in[0], 1)) return DoesNotFit("all_to_all_counts wants counts (E)", in);
  SL_RETURN_IF_ERROR(CheckWhole("ranks", attributes[0], 1, 1 << 20));
  const int64_t experts = in[0].shape[0], ranks = static_cast<int64_t>(attributes[0]);
  if (experts % ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(experts, " experts do not divide among ", ranks, " ranks"));
  }
  return std::vector<Type>{{DType::kI32, {ranks, experts / ranks}}};
}

InferredTypes ShapeOfDispatch(InputTypes in, Attributes attributes) {
  if (!Rows(in[0]) || !CountsFit(in[1], in[2])) {
    return DoesNotFit("dispatch wants x (S,C) or (S), counts (E) and received (X,e)", in);
  }
  SL_RETURN_IF_ERROR(CheckWhole("rows", attributes[0], 1, 1 << 30));
  return std::vector<Type>{WithRows(in[0], static_cast<int64_t>(attributes[0]))};
}

InferredTypes ShapeOfCombine(InputTypes in, Attributes attributes) {
  if (!Rows(in[0]) || !CountsFit(in[1], in[2])) {
    return DoesNotFit("combine wants x (R,C) or (R), counts (E) and received (X,e)", in);
  }
  SL_RETURN_IF_ERROR(CheckWhole("rows", attributes[0], 1, 1 << 30));
  return std::vector<Type>{WithRows(in[0], static_cast<int64_t>(attributes[0]))};
}

InferredTypes ShapeOfGroupedLinear(InputTypes in, Attributes) {
  if (!Activations(in[0], 2) || !Activations(in[1], 3) || in[0].dtype != in[1].dtype ||
      in[0].shape[1] != in[1].shape[2] || !Integers(in[2], 2) || in[2].shape[1] != in[1].shape[0]) {
    return DoesNotFit("grouped_linear wants x (R,K), w (e,O,K) and received (X,e)", in);
  }
  return std::vector<Type>{Like(in[0], in[1].shape[1], in[0].dtype)};
}

InferredTypes ShapeOfGroupedLinearInputGrad(InputTypes in, Attributes) {
  if (!Activations(in[0], 2) || !Activations(in[1], 3) || in[0].dtype != in[1].dtype ||
      in[0].shape[1] != in[1].shape[1] || !Integers(in[2], 2) || in[2].shape[1] != in[1].shape[0]) {
    return DoesNotFit("grouped_linear_input_grad wants dy (R,O), w (e,O,K) and received (X,e)", in);
  }
  return std::vector<Type>{Like(in[0], in[1].shape[2], in[0].dtype)};
}

InferredTypes ShapeOfGroupedLinearWeightGrad(InputTypes in, Attributes) {
  if (!Activations(in[0], 2) || !Activations(in[1], 2) || in[0].dtype != in[1].dtype ||
      in[0].shape[0] != in[1].shape[0] || !Integers(in[2], 2)) {
    return DoesNotFit("grouped_linear_weight_grad wants dy (R,O), x (R,K) and received (X,e)", in);
  }
  return std::vector<Type>{{DType::kF32, {in[2].shape[1], in[0].shape[1], in[1].shape[1]}}};
}

InferredTypes ShapeOfExpertSwiglu(InputTypes in, Attributes) {
  if (!Activations(in[0], 2) || in[0].shape[1] % 2 != 0 ||
      in[1] != Type{DType::kF32, {in[0].shape[0]}} || !Integers(in[2], 2)) {
    return DoesNotFit("expert_swiglu wants gate and up (R,2F), weight (R) and received (X,e)", in);
  }
  return std::vector<Type>{Like(in[0], in[0].shape[1] / 2, in[0].dtype)};
}

InferredTypes ShapeOfExpertSwigluGrad(InputTypes in, Attributes attributes) {
  const InferredTypes forward = ShapeOfExpertSwiglu(in.subspan(1), attributes);
  if (!forward.ok() || in[0] != forward->front()) {
    return DoesNotFit(
        "expert_swiglu_grad wants dy (R,F), gate and up (R,2F), weight (R) and received (X,e)", in);
  }
  return std::vector<Type>{in[1], in[2]};
}

}  // namespace stringline
