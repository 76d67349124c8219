// The JSON is walked once: the graph's values first, then its nodes. The nodes of a wrapped graph
// are inlined, with a prefix on their names.
#include "executor/torch_model/program.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "executor/checkpoint/json_tree.h"
#include "executor/checkpoint/tensor_header.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Json = nlohmann::json;
using Argument = TorchArgument::Kind;

constexpr int kSchemaMajor = 8;
constexpr int kDeepestProgram = 100;
constexpr absl::string_view kAten = "torch.ops.";

// Other names of ops, which take the same arguments.
struct OtherName {
  const char *op, *name;
};
constexpr OtherName kOtherNames[] = {
    {"greater", "gt"},      {"greater_equal", "ge"}, {"less", "lt"},      {"less_equal", "le"},
    {"not_equal", "ne"},    {"multiply", "mul"},     {"subtract", "sub"}, {"divide", "div"},
    {"true_divide", "div"}, {"negative", "neg"},     {"absolute", "abs"}, {"clip", "clamp"},
    {"concat", "cat"},      {"concatenate", "cat"}};

// "mul" of "multiply", and "mul_" of "multiply_".
std::string ShortName(absl::string_view op) {
  const bool writes = absl::ConsumeSuffix(&op, "_");
  for (const OtherName& other : kOtherNames) {
    if (op == other.op) op = other.name;
  }
  return absl::StrCat(op, writes ? "_" : "");
}

// The modes in which a graph runs.
struct Wrapped {
  bool no_grad = false;
  bool autocast = false;
};

// Nodes that run a graph with gradients or autocast switched on or off. `operand` is the index of
// the switch.
struct Wrapper {
  const char* target;
  size_t operand;
  bool Wrapped::*inside;
  bool when;
};
constexpr Wrapper kWrappers[] = {
    {"higher_order.wrap_with_set_grad_enabled", 0, &Wrapped::no_grad, false},
    {"higher_order.wrap_with_autocast", 2, &Wrapped::autocast, true},
};

// A program against the schema; caught in ReadTorchProgram.
struct RefusedProgram {
  std::string why;
};

// False for a size without a hint.
bool IsKnown(const Json& size) {
  return !size.is_object() || !size.contains("as_expr") ||
         size.at("as_expr").at("hint").is_object();
}

// {"as_int": 4}, or {"as_expr": {"expr_str": "s0", "hint": {"as_int": 4}}}.
double SymbolicSize(const Json& size) {
  if (!IsKnown(size)) {
    throw RefusedProgram{absl::StrCat(
        "a size depends on the values of a tensor, as after nonzero(), item() or an index by a "
        "mask: ",
        InJson(size), "; write torch.where, or, for experts of transformers, load the model with ",
        "experts_implementation=\"batched_mm\" or \"grouped_mm\"")};
  }
  if (size.is_number()) return size.get<double>();
  if (size.contains("as_int")) return size.at("as_int").get<double>();
  if (size.contains("as_expr") && size.at("as_expr").at("hint").is_object()) {
    return SymbolicSize(size.at("as_expr").at("hint"));
  }
  throw RefusedProgram{absl::StrCat("a size is ", InJson(size))};
}

// Floats beyond all numbers are texts.
double FloatIn(const Json& number) {
  if (number.is_number()) return number.get<double>();
  double value = 0;
  if (number.is_string() && absl::SimpleAtod(number.get<std::string>(), &value)) return value;
  throw RefusedProgram{absl::StrCat("a number is ", InJson(number))};
}

// The frame of the model's own code: the innermost frame outside of torch.
std::string SourceIn(const std::string& trace) {
  std::string source;
  const std::vector<std::string> lines = absl::StrSplit(trace, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
    if (!absl::ConsumePrefix(&line, "File \"")) continue;
    const size_t end = line.find("\", line ");
    if (end == absl::string_view::npos) continue;
    absl::string_view path = line.substr(0, end), number = line.substr(end + 8);
    if (absl::StrContains(path, "/torch/nn/") || absl::StrContains(path, "/torch/_")) continue;
    const size_t packages = path.rfind("site-packages/");
    if (packages != absl::string_view::npos) path.remove_prefix(packages + 14);
    number = number.substr(0, number.find(','));
    source = absl::StrCat(path, ":", number);
    const bool has_code = i + 1 < lines.size() && !absl::StartsWith(lines[i + 1], "File \"");
    if (has_code) absl::StrAppend(&source, " '", absl::StripAsciiWhitespace(lines[i + 1]), "'");
  }
  return source;
}

// "key,path,class;key,path,class", the innermost last.
struct ModuleStack {
  std::string path;
  std::string outermost;  // its class
};
ModuleStack ModulesIn(const std::string& stack) {
  ModuleStack modules;
  for (const absl::string_view entry : absl::StrSplit(stack, ';')) {
    const std::vector<std::string> parts = absl::StrSplit(entry, ',');
    if (parts.size() != 3) continue;
    modules.path = parts[1];
    if (modules.outermost.empty()) modules.outermost = parts[2].substr(parts[2].rfind('.') + 1);
  }
  return modules;
}

// Ops on tensors that give none: assertions, and sizes and numbers, which are known from results.
constexpr const char* kWithoutTensor[] = {"_assert_tensor_metadata",
                                          "_assert_async",
                                          "item",
                                          "_local_scalar_dense",
                                          "sym_size",
                                          "sym_numel",
                                          "sym_stride",
                                          "sym_is_contiguous"};

bool HoldsTensor(const Json& argument) {
  return argument.contains("as_tensor") || argument.contains("as_tensors") ||
         argument.contains("as_optional_tensor") || argument.contains("as_optional_tensors");
}
bool TakesTensor(const Json& node) {
  const Json& inputs = node.at("inputs");
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Json& input) { return HoldsTensor(input.at("arg")); });
}
bool GivesTensor(const Json& node) {
  const Json& outputs = node.at("outputs");
  return std::any_of(outputs.begin(), outputs.end(), HoldsTensor);
}

class ProgramReader {
 public:
  explicit ProgramReader(const Json& root) : root_(root) {}

  TorchProgram Read() {
    const Json& version = root_.at("schema_version");
    const int major = version.at("major").get<int>();
    if (major != kSchemaMajor) {
      throw RefusedProgram{absl::StrCat("its schema is version ", major, ".",
                                        version.at("minor").get<int>(), "; version ", kSchemaMajor,
                                        " is read")};
    }
    const Json& module = root_.at("graph_module");
    ReadGraph(module.at("graph"), "");
    for (const Json& spec : module.at("signature").at("input_specs")) ReadInput(spec);
    for (const Json& spec : module.at("signature").at("output_specs")) ReadOutput(spec);
    for (const auto& [value, name] : program_.params) {
      if (without_grad_.count(value) > 0) program_.frozen.insert(value);
    }
    CheckOrder();
    return std::move(program_);
  }

 private:
  void ReadGraph(const Json& graph, const std::string& prefix) {
    for (const auto& [name, meta] : graph.at("tensor_values").items()) {
      TorchValue& value = program_.values[prefix + name];
      value.type = static_cast<TorchType>(meta.at("dtype").get<int>());
      for (const Json& size : meta.at("sizes")) {
        const double elements = SymbolicSize(size);
        if (!(elements >= 0 && elements < 1e12))
          throw RefusedProgram{absl::StrCat("a size is ", elements)};
        value.sizes.push_back(static_cast<int64_t>(elements));
      }
      if (!meta.value("requires_grad", true)) without_grad_.insert(prefix + name);
    }
    for (const auto& [name, size] : graph.at("sym_int_values").items()) {
      if (IsKnown(size)) sizes_[prefix + name] = SymbolicSize(size);
    }
    for (const Json& node : graph.at("nodes")) ReadNode(node, prefix);
  }

  void ReadNode(const Json& json, const std::string& prefix) {
    TorchNode node;
    const std::string whole = json.at("target").get<std::string>();
    absl::string_view target = whole;
    absl::ConsumePrefix(&target, kAten);
    node.target = std::string(target);
    for (const Wrapper& wrapper : kWrappers) {
      if (node.target == wrapper.target) return ReadWrapped(json, prefix, wrapper);
    }
    absl::ConsumePrefix(&target, "aten.");
    node.op = ShortName(target.substr(0, target.rfind('.')));
    if (!GivesTensor(json)) {
      const bool known = std::find(std::begin(kWithoutTensor), std::end(kWithoutTensor), node.op) !=
                         std::end(kWithoutTensor);
      if (known || !TakesTensor(json)) return;
      throw RefusedProgram{
          absl::StrCat(node.target, ", '", json.value("name", ""),
                       "', gives no tensor, and what it does to its operands is not known here")};
    }
    node.name = prefix + json.value("name", "");
    node.no_grad = wrapped_.no_grad;
    node.autocast = wrapped_.autocast;
    for (const Json& input : json.at("inputs")) {
      node.inputs.emplace_back(input.at("name").get<std::string>(),
                               ArgumentIn(input.at("arg"), prefix));
    }
    for (const Json& output : json.at("outputs")) {
      for (std::string& name : ArgumentIn(output, prefix).tensors)
        node.outputs.push_back(std::move(name));
    }
    const Json& metadata = json.at("metadata");
    node.source = SourceIn(metadata.value("stack_trace", ""));
    const ModuleStack modules = ModulesIn(metadata.value("nn_module_stack", ""));
    node.module = modules.path;
    if (program_.model.empty()) program_.model = modules.outermost;
    program_.nodes.push_back(std::move(node));
  }

  // Inlines the nodes of the wrapped graph. The graph's inputs are the last operands.
  void ReadWrapped(const Json& json, const std::string& prefix, const Wrapper& wrapper) {
    const Json* graph = nullptr;
    std::vector<std::string> operands, results;
    for (const Json& input : json.at("inputs")) {
      const Json& argument = input.at("arg");
      if (argument.contains("as_graph")) {
        graph = &argument.at("as_graph").at("graph");
      } else if (graph != nullptr) {
        for (std::string& name : ArgumentIn(argument, prefix).tensors)
          operands.push_back(std::move(name));
      }
    }
    if (graph == nullptr) throw RefusedProgram{"a wrapper without a graph"};
    const std::string inner = absl::StrCat(prefix, json.value("name", ""), ".");
    std::vector<std::string> inputs;
    for (const Json& input : graph->at("inputs")) {
      for (std::string& name : ArgumentIn(input, inner).tensors) inputs.push_back(std::move(name));
    }
    if (inputs.size() != operands.size())
      throw RefusedProgram{"a wrapper with other operands than its graph"};
    for (size_t i = 0; i < inputs.size(); ++i) AddAlias(operands[i], inputs[i]);
    const Wrapped outside = wrapped_;
    const Json& is_on = json.at("inputs").at(wrapper.operand).at("arg").at("as_bool");
    wrapped_.*wrapper.inside = is_on.get<bool>() == wrapper.when;
    ReadGraph(*graph, inner);
    wrapped_ = outside;
    for (const Json& output : graph->at("outputs")) {
      for (std::string& name : ArgumentIn(output, inner).tensors)
        results.push_back(std::move(name));
    }
    size_t next = 0;
    for (const Json& output : json.at("outputs")) {
      for (const std::string& name : ArgumentIn(output, prefix).tensors) {
        if (next == results.size())
          throw RefusedProgram{"a wrapper with more outputs than its graph"};
        AddAlias(results[next++], name);
      }
    }
  }

  void AddAlias(const std::string& from, const std::string& to) {
    TorchNode node;
    node.op = "alias";
    node.target = "aten.alias.default";
    node.name = to;
    node.outputs = {to};
    node.inputs.emplace_back("self", TorchArgument{Argument::kTensor, {from}, {}, ""});
    program_.nodes.push_back(std::move(node));
  }

  TorchArgument ArgumentIn(const Json& json, const std::string& prefix) {
    TorchArgument argument;
    const auto member = json.begin();
    if (!json.is_object() || member == json.end())
      throw RefusedProgram{"an argument is " + InJson(json)};
    const std::string& kind = member.key();
    const Json& value = member.value();
    const auto names = [&](const Json& list) {
      for (const Json& one : list)
        argument.tensors.push_back(prefix + one.at("name").get<std::string>());
    };
    if (kind == "as_tensor") {
      argument.kind = Argument::kTensor;
      argument.tensors = {prefix + value.at("name").get<std::string>()};
    } else if (kind == "as_tensors") {
      argument.kind = Argument::kTensors;
      names(value);
    } else if (kind == "as_optional_tensors") {
      argument.kind = Argument::kTensors;
      for (const Json& one : value) {
        const bool there = one.contains("as_tensor");
        argument.tensors.push_back(
            there ? prefix + one.at("as_tensor").at("name").get<std::string>() : "");
      }
    } else if (kind == "as_optional_tensor") {
      return ArgumentIn(value, prefix);
    } else if (kind == "as_int" || kind == "as_scalar_type") {
      argument = {Argument::kInt, {}, {value.get<double>()}, ""};
    } else if (kind == "as_ints") {
      argument = {Argument::kInts, {}, value.get<std::vector<double>>(), ""};
    } else if (kind == "as_sym_int") {
      argument = {Argument::kInt, {}, {SymbolIn(value, prefix)}, "", !value.contains("as_int")};
    } else if (kind == "as_sym_ints") {
      argument.kind = Argument::kInts;
      for (const Json& one : value) argument.numbers.push_back(SymbolIn(one, prefix));
    } else if (kind == "as_float") {
      argument = {Argument::kFloat, {}, {FloatIn(value)}, ""};
    } else if (kind == "as_floats") {
      argument.kind = Argument::kFloats;
      for (const Json& one : value) argument.numbers.push_back(FloatIn(one));
    } else if (kind == "as_bool") {
      argument = {Argument::kBool, {}, {value.get<bool>() ? 1.0 : 0.0}, ""};
    } else if (kind == "as_string") {
      argument = {Argument::kText, {}, {}, value.get<std::string>()};
    } else {
      argument.kind = kind == "as_none" ? Argument::kNone : Argument::kOther;
    }
    return argument;
  }

  double SymbolIn(const Json& json, const std::string& prefix) const {
    if (json.contains("as_int")) return json.at("as_int").get<double>();
    const auto found = sizes_.find(prefix + json.at("as_name").get<std::string>());
    if (found == sizes_.end()) {
      throw RefusedProgram{
          absl::StrCat("a size is ", InJson(json), ", which depends on the values of a tensor")};
    }
    return found->second;
  }

  void ReadInput(const Json& spec) {
    const auto take = [&](const char* kind, const char* name,
                          std::map<std::string, std::string>* to) {
      if (!spec.contains(kind)) return;
      const Json& of = spec.at(kind);
      (*to)[of.at("arg").at("name").get<std::string>()] = of.at(name).get<std::string>();
    };
    take("parameter", "parameter_name", &program_.params);
    take("buffer", "buffer_name", &program_.constants);
    take("tensor_constant", "tensor_constant_name", &program_.constants);
    if (!spec.contains("user_input")) return;
    for (const std::string& name : ArgumentIn(spec.at("user_input").at("arg"), "").tensors) {
      program_.inputs.push_back(name);
    }
  }

  void ReadOutput(const Json& spec) {
    for (const char* const kind : {"user_output", "loss_output"}) {
      if (!spec.contains(kind)) continue;
      for (const std::string& name : ArgumentIn(spec.at(kind).at("arg"), "").tensors) {
        program_.outputs.push_back(name);
      }
    }
  }

  // Every value is described, and defined before its uses.
  void CheckOrder() const {
    std::set<std::string> there(program_.inputs.begin(), program_.inputs.end());
    for (const auto* names : {&program_.params, &program_.constants}) {
      for (const auto& [value, name] : *names) there.insert(value);
    }
    const auto check = [&](const std::string& value) {
      if (there.count(value) > 0 && program_.values.count(value) > 0) return;
      throw RefusedProgram{absl::StrCat("value ", Quoted(value), " is used and not there")};
    };
    for (const TorchNode& node : program_.nodes) {
      for (const auto& [input, argument] : node.inputs) {
        for (const std::string& tensor : argument.tensors) {
          if (!tensor.empty()) check(tensor);
        }
      }
      for (const std::string& output : node.outputs) {
        if (!there.insert(output).second) {
          throw RefusedProgram{absl::StrCat("value ", Quoted(output), " is given twice")};
        }
        check(output);
      }
    }
    for (const std::string& output : program_.outputs) check(output);
  }

  const Json& root_;
  TorchProgram program_;
  std::map<std::string, double> sizes_;  // by symbol
  std::set<std::string> without_grad_;   // values
  Wrapped wrapped_;                      // for the current graph
};

}  // namespace

const TorchArgument* TorchNode::Find(absl::string_view input) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [input](const auto& of) { return of.first == input; });
  return found == inputs.end() ? nullptr : &found->second;
}

std::string TorchNode::Tensor(absl::string_view input) const {
  const TorchArgument* const argument = Find(input);
  const bool is = argument != nullptr && argument->kind == Argument::kTensor;
  return is ? argument->tensors.front() : "";
}

double TorchNode::Number(absl::string_view input, double otherwise) const {
  const TorchArgument* const argument = Find(input);
  return argument == nullptr || argument->numbers.size() != 1 ? otherwise : argument->numbers[0];
}

std::vector<int64_t> TorchNode::Ints(absl::string_view input) const {
  const TorchArgument* const argument = Find(input);
  if (argument == nullptr) return {};
  return {argument->numbers.begin(), argument->numbers.end()};
}

absl::StatusOr<TorchProgram> ReadTorchProgram(absl::string_view json) {
  SL_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(json, "the program", kDeepestProgram));
  try {
    return ProgramReader(root).Read();
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program is of another form: ", error.what()));
  } catch (const RefusedProgram& refused) {
    return absl::InvalidArgumentError(refused.why);
  }
}

}  // namespace stringline
