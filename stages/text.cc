// Every line is checked during reading: its names must be defined above, and its types must agree
// with the op's shape rule. So any graph that can be read is correct.
#include "stages/text.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"

namespace stringline {
namespace {

constexpr Role kInputRoles[] = {Role::kParam,   Role::kInput, Role::kTarget,  Role::kPositions,
                                Role::kMaskKey, Role::kPast,  Role::kOutGrad, Role::kKeyGrad,
                                Role::kSaved,   Role::kStash};
constexpr Role kOutputRoles[] = {Role::kSaved,     Role::kStash,        Role::kOutput, Role::kLoss,
                                 Role::kAuxLoss,   Role::kDropped,      Role::kInGrad, Role::kKeys,
                                 Role::kParamGrad, Role::kKeyGradBefore};

bool IsName(absl::string_view text) {
  for (char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  }
  return !text.empty();
}

// Reads line by line into `graph`; `defined` maps names to values.
class Reader {
 public:
  absl::Status ReadLine(absl::string_view line);
  bool ended() const { return state_ == State::kAfter; }
  Graph&& Take() && { return std::move(graph_); }

 private:
  enum class State { kBefore, kInside, kAfter };

  absl::Status Define(absl::string_view name, Type type, ValueId* value);
  absl::StatusOr<ValueId> Use(absl::string_view name) const;
  absl::Status ReadPort(absl::string_view line, bool input);
  absl::Status ReadNode(absl::string_view line);
  absl::Status ReadAttributes(absl::string_view text, const OpRow& row, Node* node);
  absl::Status DefineOutputs(const std::vector<absl::string_view>& definitions, const OpRow& row,
                             Node* node);

  State state_ = State::kBefore;
  Graph graph_;
  std::map<std::string, ValueId, std::less<>> defined_;
};

absl::Status Reader::ReadLine(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
  if (line.empty()) return absl::OkStatus();
  if (state_ == State::kAfter) return absl::InvalidArgumentError("something after the closing '}'");
  if (state_ == State::kBefore) {
    if (line != "graph {") return absl::InvalidArgumentError("expected 'graph {'");
    state_ = State::kInside;
    return absl::OkStatus();
  }
  if (line == "}") {
    state_ = State::kAfter;
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&line, "in ")) return ReadPort(line, true);
  if (absl::ConsumePrefix(&line, "out ")) return ReadPort(line, false);
  return ReadNode(line);
}

absl::Status Reader::Define(absl::string_view name, Type type, ValueId* value) {
  if (!IsName(name)) return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a name"));
  *value = static_cast<ValueId>(graph_.values.size());
  if (!defined_.emplace(std::string(name), *value).second) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is defined twice"));
  }
  graph_.values.push_back({std::move(type), std::string(name)});
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Reader::Use(absl::string_view name) const {
  const auto found = defined_.find(name);
  if (found == defined_.end())
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not defined yet"));
  return found->second;
}

// `param 0 = w : f32[4]` or `output 0 = y`.
absl::Status Reader::ReadPort(absl::string_view line, bool input) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() != (input ? 6 : 4) || words[2] != "=" || (input && words[4] != ":")) {
    return absl::InvalidArgumentError(input ? "expected 'in ROLE INDEX = NAME : TYPE'"
                                            : "expected 'out ROLE INDEX = NAME'");
  }
  Port port;
  const absl::Span<const Role> roles =
      input ? absl::MakeConstSpan(kInputRoles) : absl::MakeConstSpan(kOutputRoles);
  bool known = false;
  for (Role role : roles) {
    if (words[0] != NameOf(role)) continue;
    port.role = role;
    known = true;
  }
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", words[0], "' is not a role of an ", input ? "input" : "output"));
  }
  if (!absl::SimpleAtoi(words[1], &port.index) || port.index < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", words[1], "' is not an index"));
  }
  if (!input) {
    SL_ASSIGN_OR_RETURN(port.value, Use(words[3]));
    graph_.outputs.push_back(port);
    return absl::OkStatus();
  }
  if (!graph_.nodes.empty()) return absl::InvalidArgumentError("an input after a node");
  SL_ASSIGN_OR_RETURN(Type type, ReadType(words[5]));
  SL_RETURN_IF_ERROR(Define(words[3], std::move(type), &port.value));
  graph_.inputs.push_back(port);
  return absl::OkStatus();
}

// `y : f32[4], mean : f32[] = layer_norm x gamma beta {epsilon=1e-05}`
absl::Status Reader::ReadNode(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> sides =
      absl::StrSplit(line, absl::MaxSplits(" = ", 1));
  absl::string_view right = sides.second;
  absl::string_view attributes;
  if (const size_t brace = right.find('{'); brace != absl::string_view::npos) {
    attributes = absl::StripAsciiWhitespace(right.substr(brace));
    right = right.substr(0, brace);
  }
  const std::vector<absl::string_view> words = absl::StrSplit(right, ' ', absl::SkipEmpty());
  if (words.empty())
    return absl::InvalidArgumentError("expected 'NAME : TYPE = OP NAME ... {ATTRIBUTE=NUMBER}'");
  const OpRow* row = OpNamed(words[0]);
  if (row == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("'", words[0], "' is not an op"));
  Node node{row->op, {}, {}, {}};
  for (size_t i = 1; i < words.size(); ++i) {
    SL_ASSIGN_OR_RETURN(const ValueId value, Use(words[i]));
    node.inputs.push_back(value);
  }
  SL_RETURN_IF_ERROR(ReadAttributes(attributes, *row, &node));
  SL_RETURN_IF_ERROR(DefineOutputs(absl::StrSplit(sides.first, ", "), *row, &node));
  graph_.nodes.push_back(std::move(node));
  return absl::OkStatus();
}

absl::Status Reader::ReadAttributes(absl::string_view text, const OpRow& row, Node* node) {
  if (text.empty()) return absl::OkStatus();
  if (!absl::ConsumePrefix(&text, "{") || !absl::ConsumeSuffix(&text, "}")) {
    return absl::InvalidArgumentError("expected '{ATTRIBUTE=NUMBER}'");
  }
  for (absl::string_view part : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const size_t index = node->attributes.size();
    if (sides.first != row.AttributeAt(index) || sides.first.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", sides.first, "' is not attribute ", index, " of ", row.name));
    }
    double number;
    if (!absl::SimpleAtod(sides.second, &number)) {
      return absl::InvalidArgumentError(absl::StrCat("'", sides.second, "' is not a number"));
    }
    node->attributes.push_back(number);
  }
  return absl::OkStatus();
}

absl::Status Reader::DefineOutputs(const std::vector<absl::string_view>& definitions,
                                   const OpRow& row, Node* node) {
  std::vector<Type> inputs;
  for (ValueId value : node->inputs) inputs.push_back(graph_.values[value].type);
  SL_ASSIGN_OR_RETURN(const std::vector<Type> types, InferTypes(row.op, inputs, node->attributes));
  if (definitions.size() != types.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.name, " gives ", types.size(), " values, named are ", definitions.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(definitions[i], ' ', absl::SkipEmpty());
    if (words.size() != 3 || words[1] != ":")
      return absl::InvalidArgumentError("expected 'NAME : TYPE' before '='");
    SL_ASSIGN_OR_RETURN(const Type type, ReadType(words[2]));
    if (type != types[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", words[0], "' is ", PrintType(types[i]), ", not ", words[2]));
    }
    node->outputs.emplace_back();
    SL_RETURN_IF_ERROR(Define(words[0], type, &node->outputs.back()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Type> ReadType(absl::string_view text) {
  const absl::string_view whole = text;
  Type type;
  bool known = false;
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kBF16}) {
    if (known || !absl::ConsumePrefix(&text, NameOf(dtype))) continue;
    type.dtype = dtype;
    known = true;
  }
  if (!known || !absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) {
    return absl::InvalidArgumentError(absl::StrCat("'", whole, "' is not a type"));
  }
  if (text.empty()) return type;
  int64_t elements = 1;
  for (absl::string_view size_text : absl::StrSplit(text, ',')) {
    int64_t size;
    if (!absl::SimpleAtoi(size_text, &size) || size < 1 || size > (int64_t{1} << 40) / elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", size_text, "' is not a size, in '", whole, "'"));
    }
    elements *= size;
    type.shape.push_back(size);
  }
  return type;
}

std::string PrintNumber(double number) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, number);
    double back;
    if (absl::SimpleAtod(text, &back) && back == number) return text;
  }
  return absl::StrFormat("%.17g", number);
}

std::string PrintNumber(float number) {
  for (int digits = 6; digits < 9; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, number);
    float back;
    if (absl::SimpleAtof(text, &back) && back == number) return text;
  }
  return absl::StrFormat("%.9g", number);
}

std::string PrintType(const Type& type) {
  return absl::StrCat(NameOf(type.dtype), "[", absl::StrJoin(type.shape, ","), "]");
}

std::string PrintGraph(const Graph& graph) {
  std::string text = "graph {\n";
  auto defined = [&](ValueId value) {
    return absl::StrCat(graph.values[value].name, " : ", PrintType(graph.values[value].type));
  };
  for (const Port& port : graph.inputs) {
    absl::StrAppend(&text, "  in ", NameOf(port.role), " ", port.index, " = ", defined(port.value),
                    "\n");
  }
  for (const Node& node : graph.nodes) {
    std::vector<std::string> outputs;
    for (ValueId value : node.outputs) outputs.push_back(defined(value));
    const OpRow& row = RowOf(node.op);
    absl::StrAppend(&text, "  ", absl::StrJoin(outputs, ", "), " = ", row.name);
    for (ValueId value : node.inputs) absl::StrAppend(&text, " ", graph.values[value].name);
    std::vector<std::string> attributes;
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      attributes.push_back(absl::StrCat(row.AttributeAt(i), "=", PrintNumber(node.attributes[i])));
    }
    if (!attributes.empty()) absl::StrAppend(&text, " {", absl::StrJoin(attributes, " "), "}");
    absl::StrAppend(&text, "\n");
  }
  for (const Port& port : graph.outputs) {
    absl::StrAppend(&text, "  out ", NameOf(port.role), " ", port.index, " = ",
                    graph.values[port.value].name, "\n");
  }
  return absl::StrCat(text, "}\n");
}

absl::StatusOr<Graph> ReadGraph(absl::string_view text) {
  Reader reader;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::Status status = reader.ReadLine(line);
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));
  }
  if (!reader.ended())
    return absl::InvalidArgumentError(absl::StrCat("line ", number, ": expected '}'"));
  return std::move(reader).Take();
}

}  // namespace stringline
