// Patterns are matched backwards from the result. Every step strips nodes without effect, so a
// pattern need not know the places of casts and copies.
#include "executor/torch_model/torch_graph.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr const char* kCopies[] = {"to",    "_to_copy",   "type_as", "alias",
                                   "clone", "contiguous", "detach",  "lift_fresh_copy"};
constexpr const char* kLayouts[] = {"view",   "reshape", "_unsafe_view", "flatten",  "unflatten",
                                    "expand", "slice",   "squeeze",      "unsqueeze"};
constexpr const char* kViews[] = {"view", "reshape", "_unsafe_view", "flatten", "unflatten"};

template <size_t count>
bool IsOneOf(const std::string& op, const char* const (&ops)[count]) {
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

// A cast between floats only rounds, and a cast between types of token numbers changes nothing.
bool CastKeeps(TorchType from, TorchType to) {
  return from == to || (IsFloat(from) && IsFloat(to)) || (HoldsTokens(from) && HoldsTokens(to));
}

// A division whose result is rounded to whole numbers is no plain quotient.
bool Rounds(const TorchNode& node) {
  const TorchArgument* const rounding = node.Find("rounding_mode");
  return rounding != nullptr && rounding->kind == TorchArgument::Kind::kText;
}

bool IsNear(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(1.0, std::abs(b)); }

}  // namespace

bool SwapsDimensions(const TorchNode& node, size_t dimensions, int64_t a, int64_t b) {
  const auto n = static_cast<int64_t>(dimensions);
  if (node.op == "t" || node.op == "numpy_T") return n == 2;
  if (node.op == "permute") {
    const std::vector<int64_t> dims = node.Ints("dims");
    if (dims.size() != dimensions) return false;
    for (int64_t d = 0; d < n; ++d) {
      const int64_t wanted = d == a ? b : d == b ? a : d;
      if ((dims[d] + n) % n != wanted) return false;
    }
    return true;
  }
  if (node.op != "transpose") return false;
  const auto at = [&](const char* name) {
    return (static_cast<int64_t>(node.Number(name, 0)) + n) % n;
  };
  return (at("dim0") == a && at("dim1") == b) || (at("dim0") == b && at("dim1") == a);
}

TorchGraph::TorchGraph(const TorchProgram& program, TorchConstants* constants)
    : program_(program), constants_(*constants) {
  for (const TorchNode& node : program.nodes) {
    for (const std::string& output : node.outputs) producers_[output] = &node;
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& tensor : argument.tensors) ++readers_[tensor];
    }
  }
}

const TorchNode* TorchGraph::Producer(const std::string& value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

bool DropsNothing(const TorchNode& node) {
  static constexpr const char* kDropouts[] = {"dropout", "feature_dropout", "alpha_dropout",
                                              "feature_alpha_dropout"};
  const bool drops = node.Number("p", 1) != 0 && node.Number("train", 1) != 0;
  return !drops && IsOneOf(node.op, kDropouts);
}

bool TorchGraph::ChangesNothing(const TorchNode& node) const {
  const std::string from = node.Tensor("self").empty() ? node.Tensor("input") : node.Tensor("self");
  if (from.empty() || node.outputs.size() != 1) return false;
  if (IsOneOf(node.op, kCopies)) {
    const auto type_of = [this](const std::string& value) {
      return program_.values.at(value).type;
    };
    return CastKeeps(type_of(from), type_of(node.outputs.front()));
  }
  if (DropsNothing(node)) return true;
  return IsOneOf(node.op, kLayouts) && Sizes(from) == Sizes(node.outputs.front());
}

bool TorchGraph::KeepsRows(const TorchNode& node) const {
  const std::string from = node.Tensor("self");
  if (from.empty() || !IsOneOf(node.op, kViews)) return false;
  const std::vector<int64_t>&before = Sizes(from), &after = Sizes(node.outputs.front());
  return !before.empty() && !after.empty() && before.back() == after.back();
}

std::string TorchGraph::Strip(std::string value) const {
  for (const TorchNode* node = Producer(value); node != nullptr && ChangesNothing(*node);
       node = Producer(value)) {
    value = node->Tensor("self").empty() ? node->Tensor("input") : node->Tensor("self");
  }
  return value;
}

std::string TorchGraph::StripRows(std::string value) const {
  for (;;) {
    value = Strip(std::move(value));
    const TorchNode* const node = Producer(value);
    if (node == nullptr || !KeepsRows(*node)) return value;
    value = node->Tensor("self");
  }
}

const TorchNode* TorchGraph::Match(const std::string& value, absl::string_view op) const {
  const TorchNode* const node = Producer(Strip(value));
  return node != nullptr && node->op == op ? node : nullptr;
}

// A Python number, or a constant with a single value.
std::optional<double> TorchGraph::NumberIn(const TorchNode& node, absl::string_view input) const {
  const TorchArgument* const argument = node.Find(input);
  if (argument == nullptr) return std::nullopt;
  if (argument->numbers.size() == 1) return argument->numbers.front();
  const std::string tensor = node.Tensor(input);
  if (tensor.empty() || !constants_.Is(tensor)) return std::nullopt;
  for (const int64_t size : Sizes(tensor)) {
    if (size != 1) return std::nullopt;
  }
  const auto value = constants_.Value(tensor);
  if (!value.ok() || (*value)->values.empty()) return std::nullopt;
  return (*value)->values.front();
}

std::optional<TorchGraph::Pair> TorchGraph::MatchPair(const std::string& value,
                                                      absl::string_view op) const {
  const TorchNode* const node = Match(value, op);
  if (node == nullptr || node->Number("alpha", 1) != 1 || Rounds(*node)) return std::nullopt;
  Pair pair{node->Tensor("self"), node->Tensor("other")};
  if (pair.a.empty() || pair.b.empty()) return std::nullopt;
  if (NumberIn(*node, "self") || NumberIn(*node, "other")) return std::nullopt;
  return pair;
}

std::optional<TorchGraph::WithNumber> TorchGraph::MatchNumber(const std::string& value,
                                                              absl::string_view op) const {
  const TorchNode* const node = Match(value, op);
  if (node == nullptr || node->Number("alpha", 1) != 1 || Rounds(*node)) return std::nullopt;
  const char* const second = op == "pow" ? "exponent" : "other";
  if (const auto number = NumberIn(*node, second); number && !node->Tensor("self").empty()) {
    return WithNumber{node->Tensor("self"), *number};
  }
  if (op != "add" && op != "mul") return std::nullopt;
  if (const auto number = NumberIn(*node, "self"); number && !node->Tensor("other").empty()) {
    return WithNumber{node->Tensor("other"), *number};
  }
  return std::nullopt;
}

std::string TorchGraph::MatchNumber(const std::string& value, absl::string_view op,
                                    double number) const {
  const auto matched = MatchNumber(value, op);
  return matched && IsNear(matched->number, number) ? matched->of : "";
}

std::optional<TorchLinear> TorchGraph::MatchLinear(const std::string& value) const {
  const TorchNode* const node = Producer(StripRows(value));
  if (node == nullptr) return std::nullopt;
  TorchLinear linear;
  linear.node = node;
  if (node->op == "linear") {
    linear.input = node->Tensor("input");
    linear.weight = Strip(node->Tensor("weight"));
    linear.bias = node->Tensor("bias");
  } else if (node->op == "addmm" && node->Number("alpha", 1) == 1 && node->Number("beta", 1) == 1) {
    linear = {
        node, node->Tensor("mat1"), Strip(node->Tensor("mat2")), node->Tensor("self"), true, 0, 0};
  } else if (node->op == "mm" || node->op == "matmul") {
    const char* const second = node->op == "mm" ? "mat2" : "other";
    linear = {node, node->Tensor("self"), Strip(node->Tensor(second)), "", true, 0, 0};
  } else {
    return std::nullopt;
  }
  const TorchNode* const turned = Producer(linear.weight);
  if (turned != nullptr && SwapsDimensions(*turned, 2, 0, 1)) {
    linear.weight = Strip(turned->Tensor("self"));
    linear.transposed = !linear.transposed;
  }
  if (!linear.bias.empty()) linear.bias = Strip(linear.bias);
  if (!IsParam(linear.weight) || Sizes(linear.weight).size() != 2) return std::nullopt;
  if (!linear.bias.empty() && (!IsParam(linear.bias) || Sizes(linear.bias).size() != 1))
    return std::nullopt;
  linear.rows = Sizes(linear.weight)[linear.transposed ? 1 : 0];
  linear.columns = Sizes(linear.weight)[linear.transposed ? 0 : 1];
  return linear;
}

std::optional<TorchRmsNorm> TorchGraph::MatchRmsNorm(const std::string& value) const {
  if (const TorchNode* const node = Match(value, "rms_norm")) {
    const std::string gamma = Strip(node->Tensor("weight")), x = node->Tensor("input");
    constexpr double kOfFloat = 1.1920928955078125e-07;
    const TorchArgument* const given = node->Find("eps");
    const bool stated = given != nullptr && given->numbers.size() == 1;
    if (!IsParam(gamma) || node->Ints("normalized_shape").size() != 1) return std::nullopt;
    if (!stated && program_.values.at(x).type != TorchType::kFloat) return std::nullopt;
    return TorchRmsNorm{x, gamma, stated ? given->numbers.front() : kOfFloat};
  }
  const auto scaled = MatchPair(value, "mul");
  if (!scaled) return std::nullopt;
  const bool first = IsParam(Strip(scaled->a));
  const std::string gamma = Strip(first ? scaled->a : scaled->b);
  const auto normed = MatchPair(first ? scaled->b : scaled->a, "mul");
  if (!IsParam(gamma) || !normed) return std::nullopt;
  for (const auto& [x, root] : {std::pair(normed->a, normed->b), std::pair(normed->b, normed->a)}) {
    const TorchNode* const rsqrt = Match(root, "rsqrt");
    const auto sum = rsqrt == nullptr ? std::nullopt : MatchNumber(rsqrt->Tensor("self"), "add");
    const TorchNode* const mean = sum ? Match(sum->of, "mean") : nullptr;
    if (mean == nullptr) continue;
    const std::vector<int64_t> dims = mean->Ints("dim");
    const bool over_last =
        dims.size() == 1 && (dims[0] == -1 || dims[0] == static_cast<int64_t>(Sizes(x).size()) - 1);
    const std::string squared = MatchNumber(mean->Tensor("self"), "pow", 2);
    if (!over_last || mean->Number("keepdim", 0) == 0 || squared.empty() ||
        Strip(squared) != Strip(x))
      continue;
    return TorchRmsNorm{Strip(x), gamma, sum->number};
  }
  return std::nullopt;
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
std::string TorchGraph::MatchGelu(const std::string& value) const {
  if (const TorchNode* const node = Match(value, "gelu")) {
    const TorchArgument* const how = node->Find("approximate");
    return how != nullptr && how->text == "tanh" ? node->Tensor("self") : "";
  }
  const auto product = MatchPair(value, "mul");
  if (!product) return "";
  for (const auto& [half, rest] :
       {std::pair(product->a, product->b), std::pair(product->b, product->a)}) {
    const std::string x = MatchNumber(half, "mul", 0.5);
    const std::string tanh = MatchNumber(rest, "add", 1);
    const TorchNode* const node = x.empty() || tanh.empty() ? nullptr : Match(tanh, "tanh");
    if (node == nullptr) continue;
    const std::string inner = MatchNumber(node->Tensor("self"), "mul", std::sqrt(2 / M_PI));
    const auto sum = inner.empty() ? std::nullopt : MatchPair(inner, "add");
    if (!sum) continue;
    const bool first = Strip(sum->a) == Strip(x);
    const std::string cube = MatchNumber(first ? sum->b : sum->a, "mul", 0.044715);
    const std::string base = cube.empty() ? "" : MatchNumber(cube, "pow", 3);
    if (!base.empty() && Strip(base) == Strip(x) && (first || Strip(sum->b) == Strip(x))) return x;
  }
  return "";
}

std::string TorchGraph::MatchSilu(const std::string& value) const {
  if (const TorchNode* const node = Match(value, "silu")) return node->Tensor("self");
  const auto product = MatchPair(value, "mul");
  if (!product) return "";
  for (const auto& [g, s] :
       {std::pair(product->a, product->b), std::pair(product->b, product->a)}) {
    const TorchNode* const sigmoid = Match(s, "sigmoid");
    if (sigmoid != nullptr && Strip(sigmoid->Tensor("self")) == Strip(g)) return g;
  }
  return "";
}

bool TorchGraph::IsReadOnce(const std::string& value) const {
  const std::string end = StripRows(value);
  for (std::string at = value;; at = Producer(at)->Tensor("self").empty()
                                         ? Producer(at)->Tensor("input")
                                         : Producer(at)->Tensor("self")) {
    const auto readers = readers_.find(at);
    if (readers == readers_.end() || readers->second != 1) return false;
    if (at == end) return true;
  }
}

absl::Status UnknownNode(const TorchNode& node, absl::string_view why) {
  std::string message = absl::StrCat(node.target, " is not known here");
  if (!why.empty()) absl::StrAppend(&message, ": ", why);
  absl::StrAppend(&message, "; node '", node.name, "'");
  if (!node.module.empty()) absl::StrAppend(&message, ", module '", node.module, "'");
  if (!node.source.empty()) absl::StrAppend(&message, ", ", node.source);
  return absl::UnimplementedError(message);
}

absl::Status TorchGraph::UnknownValue(const std::string& value, absl::string_view why) const {
  if (const TorchNode* const node = Producer(value)) return Unknown(*node, why);
  return absl::UnimplementedError(
      absl::StrCat("input '", value, "' is not known here", why.empty() ? "" : ": ", why));
}

}  // namespace stringline
