// Functions of one tensor are a table; the others broadcast their operands, and a truth is 0 or 1.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;
using Made = TensorNodes::Made;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A function of one tensor: its numbers are arguments of the op, or fixed.
struct Unary {
  MapFunction function;
  const char* a = "";
  double a_default = 0;
  const char* b = "";
  double b_default = 0;
};

const std::map<std::string, Unary>& UnaryOps() {
  using M = MapFunction;
  static const auto& ops = *new std::map<std::string, Unary>{
      {"exp", {M::exp}},
      {"expm1", {M::expm1}},
      {"log", {M::log}},
      {"log1p", {M::log1p}},
      {"sqrt", {M::sqrt}},
      {"rsqrt", {M::rsqrt}},
      {"reciprocal", {M::inverse}},
      {"sin", {M::sin}},
      {"cos", {M::cos}},
      {"tanh", {M::tanh}},
      {"sigmoid", {M::sigmoid}},
      {"log_sigmoid", {M::log_sigmoid}},
      {"erf", {M::erf}},
      {"abs", {M::abs}},
      {"sign", {M::sign}},
      {"floor", {M::floor}},
      {"ceil", {M::ceil}},
      {"round", {M::round}},
      {"square", {M::power, "", 2}},
      {"relu", {M::relu}},
      {"relu6", {M::hard_tanh, "", 0, "", 6}},
      {"leaky_relu", {M::leaky_relu, "negative_slope", 0.01}},
      {"elu", {M::elu, "alpha", 1}},
      {"celu", {M::celu, "alpha", 1}},
      {"softshrink", {M::soft_shrink, "lambd", 0.5}},
      {"hardshrink", {M::hard_shrink, "lambd", 0.5}},
      {"selu", {M::selu}},
      {"silu", {M::silu}},
      {"softplus", {M::softplus, "beta", 1, "threshold", 20}},
      {"mish", {M::mish}},
      {"clamp", {M::clamp, "min", -kInfinity, "max", kInfinity}},
      {"clamp_min", {M::clamp, "min", -kInfinity, "", kInfinity}},
      {"clamp_max", {M::clamp, "", -kInfinity, "max", kInfinity}},
      {"hardtanh", {M::hard_tanh, "min_val", -1, "max_val", 1}},
      {"hardsigmoid", {M::hard_sigmoid}},
      {"hardswish", {M::hard_swish}},
      {"softsign", {M::softsign}},
  };
  return ops;
}

Made OfUnary(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  const Unary& op = UnaryOps().at(node.op);
  for (const char* const name : {op.a, op.b}) {
    if (node.Tensor(name).empty()) continue;
    return in.graph().Unknown(node, absl::StrCat("its '", name, "' is a tensor"));
  }
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  return in.tensors().Map(op.function, x, node.Number(op.a, op.a_default),
                          node.Number(op.b, op.b_default));
}

// Arithmetic

// Truths are 0 and 1 here, and so are not added as torch adds them; and the bits of whole numbers
// are not those of truths.
absl::Status CheckTruths(const TorchOperands& in, const TorchNode& node, bool wanted) {
  const bool gives = in.graph().program().values.at(node.outputs[0]).type == TorchType::kBool;
  if (gives == wanted) return absl::OkStatus();
  return in.graph().Unknown(node, gives ? "of truths" : "of whole numbers");
}

Made Sum(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_RETURN_IF_ERROR(CheckTruths(in, node, /*wanted=*/false));
  const double alpha = node.Number("alpha", 1) * (node.op == "sub" ? -1 : 1);
  SL_ASSIGN_OR_RETURN(ValueId x, in.Operand(node, "self"));
  if (const auto number = NumberOf(node, "other")) {
    return in.tensors().Map(MapFunction::add_number, x, alpha * *number);
  }
  SL_ASSIGN_OR_RETURN(ValueId y, in.Loose(node.Tensor("other")));
  SL_ASSIGN_OR_RETURN(y, in.tensors().Scale(y, alpha));
  return in.tensors().Add(x, y);
}

// other - self
Made Difference(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Loose(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Scale(x, -1));
  if (const auto number = NumberOf(node, "other")) {
    return in.tensors().Map(MapFunction::add_number, x, *number);
  }
  SL_ASSIGN_OR_RETURN(const ValueId y, in.Loose(node.Tensor("other")));
  return in.tensors().Add(x, y);
}

// Whole numbers are floats here, of which only those up to 2^24 are exact: a factor on token
// numbers has to leave them there.
absl::Status CheckFactor(const TorchOperands& in, const TorchNode& node) {
  constexpr double kMost = 64;  // of vocabularies up to 2^18
  if (!HoldsTokens(in.graph().program().values.at(node.outputs.front()).type)) {
    return absl::OkStatus();
  }
  for (const char* const name : {"self", "other"}) {
    double largest = std::abs(NumberOf(node, name).value_or(0));
    const std::string tensor = node.Tensor(name);
    if (!tensor.empty() && in.graph().constants().Is(tensor)) {
      SL_ASSIGN_OR_RETURN(const auto constant, in.graph().constants().Value(tensor));
      for (const double value : constant->values) largest = std::max(largest, std::abs(value));
    }
    if (largest <= kMost) continue;
    return in.graph().Unknown(node, absl::StrCat("of whole numbers with ", largest,
                                                 ": beyond 2^24 they are not exact here"));
  }
  return absl::OkStatus();
}

Made Product(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_RETURN_IF_ERROR(CheckFactor(in, node));
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Operand(node, "self"));
  if (const auto number = NumberOf(node, "other")) return in.tensors().Scale(x, *number);
  SL_ASSIGN_OR_RETURN(const ValueId y, in.Loose(node.Tensor("other")));
  return in.tensors().Multiply(x, y);
}

// left / right, toward minus infinity: exact for whole numbers up to 2^24.
Made FloorQuotient(TorchOperands& in, ValueId left, ValueId right) {
  SL_ASSIGN_OR_RETURN(const ValueId quotient, in.tensors().Zip(ZipFunction::divide, left, right));
  return in.tensors().Map(MapFunction::floor, quotient);
}

Made Quotient(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  const TorchArgument* const rounding = node.Find("rounding_mode");
  const bool rounds = rounding != nullptr && rounding->kind == TorchArgument::Kind::kText;
  if (rounds && rounding->text != "floor") {
    return in.graph().Unknown(node, absl::StrCat("its rounding_mode is ", rounding->text,
                                                 ", and only None and floor are known"));
  }
  if (rounds || node.op == "floor_divide") {
    SL_ASSIGN_OR_RETURN(const ValueId left, in.Operand(node, "self"));
    SL_ASSIGN_OR_RETURN(const ValueId right, in.Operand(node, "other"));
    return FloorQuotient(in, left, right);
  }
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Operand(node, "self"));
  const auto number = NumberOf(node, "other");
  if (number && *number != 0) return in.tensors().Scale(x, 1 / *number);
  SL_ASSIGN_OR_RETURN(const ValueId y, in.Operand(node, "other"));
  return in.tensors().Zip(ZipFunction::divide, x, y);
}

// self less the floor of self / other, times other.
Made Remainder(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId left, in.Operand(node, "self"));
  SL_ASSIGN_OR_RETURN(const ValueId right, in.Operand(node, "other"));
  SL_ASSIGN_OR_RETURN(ValueId whole, FloorQuotient(in, left, right));
  SL_ASSIGN_OR_RETURN(whole, in.tensors().Multiply(whole, right));
  SL_ASSIGN_OR_RETURN(whole, in.tensors().Scale(whole, -1));
  return in.tensors().Add(left, whole);
}

Made Power(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  if (const auto base = NumberOf(node, "self")) {
    SL_ASSIGN_OR_RETURN(const ValueId x, in.Loose(node.Tensor("exponent")));
    return in.tensors().Map(MapFunction::power_of, x, *base);
  }
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Loose(node.Tensor("self")));
  if (const auto number = NumberOf(node, "exponent")) {
    return in.tensors().Map(MapFunction::power, x, *number);
  }
  SL_ASSIGN_OR_RETURN(const ValueId y, in.Loose(node.Tensor("exponent")));
  return in.tensors().Zip(ZipFunction::power_both, x, y);
}

Made Negative(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Loose(node.Tensor("self")));
  return in.tensors().Scale(x, -1);
}

// Truths are 0 and 1.
Made Comparison(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Operand(node, "self"));
  SL_ASSIGN_OR_RETURN(ValueId y, in.Operand(node, "other"));
  if (node.op == "gt" || node.op == "ge") std::swap(x, y);
  if (node.op == "maximum") return in.tensors().Zip(ZipFunction::maximum, x, y);
  if (node.op == "minimum") return in.tensors().Zip(ZipFunction::minimum, x, y);
  if (node.op == "eq") return in.tensors().Zip(ZipFunction::equal, x, y);
  if (node.op == "ne") {
    SL_ASSIGN_OR_RETURN(const ValueId equal, in.tensors().Zip(ZipFunction::equal, x, y));
    return in.tensors().Map(MapFunction::is_zero, equal);
  }
  const bool strict = node.op == "lt" || node.op == "gt";
  return in.tensors().Zip(strict ? ZipFunction::less : ZipFunction::less_or_equal, x, y);
}

Made Truths(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_RETURN_IF_ERROR(CheckTruths(in, node, /*wanted=*/true));
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Loose(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const ValueId y, in.Operand(node, "other"));
  const bool either = node.op == "__or__" || node.op == "bitwise_or" || node.op == "logical_or";
  return either ? in.tensors().Zip(ZipFunction::maximum, x, y) : in.tensors().Multiply(x, y);
}

Made Not(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_RETURN_IF_ERROR(CheckTruths(in, node, /*wanted=*/true));
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Loose(node.Tensor("self")));
  return in.tensors().Map(MapFunction::is_zero, x);
}

Made Where(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId condition, in.Loose(node.Tensor("condition")));
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Operand(node, "self"));
  SL_ASSIGN_OR_RETURN(const ValueId y, in.Operand(node, "other"));
  SL_ASSIGN_OR_RETURN(const ValueId held, in.tensors().Zip(ZipFunction::where, x, condition));
  SL_ASSIGN_OR_RETURN(const ValueId rest, in.tensors().Zip(ZipFunction::where_not, y, condition));
  return in.tensors().Add(held, rest);
}

Made MaskedFill(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Loose(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const ValueId mask, in.Loose(node.Tensor("mask")));
  if (const auto number = NumberOf(node, "value")) {
    return in.tensors().Zip(ZipFunction::where_not, x, mask, *number);
  }
  SL_ASSIGN_OR_RETURN(const ValueId fill, in.Loose(node.Tensor("value")));
  SL_ASSIGN_OR_RETURN(const ValueId kept, in.tensors().Zip(ZipFunction::where_not, x, mask));
  SL_ASSIGN_OR_RETURN(const ValueId filled, in.tensors().Zip(ZipFunction::where, fill, mask));
  return in.tensors().Add(kept, filled);
}

Made Gelu(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const TorchArgument* const by = node.Find("approximate");
  if (by != nullptr && by->text == "tanh") return in.tensors().Append(Op::kGelu, {x});
  return in.tensors().Map(MapFunction::gelu_erf, x);
}

// Below 0 times the weight, one for all or for each channel (dimension 1).
Made PRelu(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(ValueId weight, in.Value(node.Tensor("weight")));
  Sizes sizes(tensors.SizesOf(x).size(), 1);
  if (sizes.size() > 1) sizes[1] = tensors.ElementsOf(weight);
  SL_ASSIGN_OR_RETURN(weight, tensors.Reshape(weight, sizes));
  SL_ASSIGN_OR_RETURN(const ValueId above, tensors.Map(MapFunction::relu, x));
  SL_ASSIGN_OR_RETURN(ValueId below, tensors.Scale(x, -1));
  SL_ASSIGN_OR_RETURN(below, tensors.Map(MapFunction::relu, below));
  SL_ASSIGN_OR_RETURN(below, tensors.Multiply(below, weight));
  SL_ASSIGN_OR_RETURN(below, tensors.Scale(below, -1));
  return tensors.Add(above, below);
}

// Casts: between floats without effect; a truth is whether a number is not 0, and a whole number
// has no fraction and no gradient. A copy has the sizes of what it replaces.
Made Cast(TorchOperands& in, const TorchNode& node, size_t output) {
  const std::string given = node.Tensor(node.op == "copy" ? "src" : "self");
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(given));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Expand(x, in.graph().Sizes(node.outputs[output])));
  const auto type_of = [&](const std::string& value) {
    return in.graph().program().values.at(value).type;
  };
  const TorchType from = type_of(given), to = type_of(node.outputs[output]);
  if (IsFloat(from) && HoldsTokens(to)) {
    SL_ASSIGN_OR_RETURN(x, in.tensors().Append(Op::kWhole, {x}));
    return in.tensors().Append(Op::kFloat, {x});
  }
  if (to != TorchType::kBool || from == TorchType::kBool) return x;
  SL_ASSIGN_OR_RETURN(x, in.tensors().Map(MapFunction::is_zero, x));
  return in.tensors().Map(MapFunction::is_zero, x);
}

// Reductions

// The dimensions that the op reduces: those of `dim`, or all.
absl::StatusOr<Sizes> Reduced(TorchOperands& in, const TorchNode& node, ValueId x) {
  const size_t all = in.tensors().SizesOf(x).size();
  Sizes dims;
  for (const int64_t dim : node.Ints("dim")) {
    dims.push_back(DimensionOf(dim, all));
    if (dims.back() < 0) return in.graph().Unknown(node, "along a dimension that is not there");
  }
  if (!dims.empty()) return dims;
  dims.resize(all);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The variance, and its root, the standard deviation.
Made Variance(TorchOperands& in, const TorchNode& node, ValueId x, const Sizes& dims) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(ValueId square, tensors.Centred(x, dims));
  SL_ASSIGN_OR_RETURN(square, tensors.Multiply(square, square));
  SL_ASSIGN_OR_RETURN(square, tensors.Mean(square, dims));
  const auto count =
      static_cast<double>(tensors.ElementsOf(x)) / static_cast<double>(tensors.ElementsOf(square));
  const double less = node.Number("correction", node.Number("unbiased", 1));
  SL_ASSIGN_OR_RETURN(square, tensors.Scale(square, count / (count - less)));
  return node.op == "std" ? tensors.Map(MapFunction::sqrt, square) : Made(square);
}

// The root of the sum of squares.
Made Norm(TorchOperands& in, const TorchNode& node, ValueId x, const Sizes& dims) {
  if (node.Number("ord", 2) != 2) return in.graph().Unknown(node, "its ord is not 2");
  SL_ASSIGN_OR_RETURN(x, in.tensors().Multiply(x, x));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Sum(x, dims));
  return in.tensors().Map(MapFunction::sqrt, x);
}

Made Reduction(TorchOperands& in, const TorchNode& node, size_t output) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const Sizes dims, Reduced(in, node, x));
  Made made = node.op == "mean"                 ? in.tensors().Mean(x, dims)
              : node.op == "sum"                ? in.tensors().Sum(x, dims)
              : node.op == "linalg_vector_norm" ? Norm(in, node, x, dims)
                                                : Variance(in, node, x, dims);
  if (!made.ok()) return made;
  return in.tensors().Reshape(*made, in.graph().Sizes(node.outputs[output]));
}

Made Softmax(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", -1, in.tensors().SizesOf(x)));
  return in.tensors().Softmax(x, dim, node.op == "log_softmax" || node.op == "_log_softmax");
}

}  // namespace

const OpRules& ArithmeticRules() {
  static const OpRules& rules = *new OpRules([] {
    OpRules all = {
        {"add", Sum},
        {"sub", Sum},
        {"rsub", Difference},
        {"mul", Product},
        {"div", Quotient},
        {"floor_divide", Quotient},
        {"remainder", Remainder},
        {"pow", Power},
        {"neg", Negative},
        {"eq", Comparison},
        {"ne", Comparison},
        {"lt", Comparison},
        {"le", Comparison},
        {"gt", Comparison},
        {"ge", Comparison},
        {"maximum", Comparison},
        {"minimum", Comparison},
        {"__and__", Truths},
        {"bitwise_and", Truths},
        {"logical_and", Truths},
        {"__or__", Truths},
        {"bitwise_or", Truths},
        {"logical_or", Truths},
        {"logical_not", Not},
        {"bitwise_not", Not},
        {"where", Where},
        {"masked_fill", MaskedFill},
        {"gelu", Gelu},
        {"prelu", PRelu},
        {"to", Cast},
        {"_to_copy", Cast},
        {"copy", Cast},
        {"type_as", Cast},
        {"mean", Reduction},
        {"sum", Reduction},
        {"linalg_vector_norm", Reduction},
        {"var", Reduction},
        {"std", Reduction},
        {"softmax", Softmax},
        {"_softmax", Softmax},
        {"log_softmax", Softmax},
        {"_log_softmax", Softmax},
    };
    for (const auto& [name, op] : UnaryOps()) all[name] = OfUnary;
    return all;
  }());
  return rules;
}

}  // namespace stringline
