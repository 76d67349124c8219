// The graphs are rows of a table, and are printed, read and checked alike. Their text is
// text.h's; empty lines in front stand for the earlier lines, so that messages name the right line.
#include "stages/program_text.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"
#include "stages/text.h"

namespace stringline {
namespace {

using Words = std::vector<absl::string_view>;

struct GraphRow {
  const char* name;
  Graph StageProgram::*graph;
  std::vector<GraphPart> StageProgram::*parts;  // nullptr: run whole
};
constexpr GraphRow kGraphs[] = {
    {"forward", &StageProgram::forward, &StageProgram::forward_parts},
    {"backward", &StageProgram::backward, nullptr},
    {"input_gradient", &StageProgram::input_gradient, &StageProgram::input_gradient_parts},
    {"weight_gradient", &StageProgram::weight_gradient, &StageProgram::weight_gradient_parts},
    {"recompute", &StageProgram::recompute, nullptr}};

bool HasGraph(const StageProgram& program, const GraphRow& row) {
  return row.graph != &StageProgram::recompute || program.remakes;
}

std::string PrintInit(const Param& param) {
  switch (param.init) {
    case Init::kZeros:
      return "zeros";
    case Init::kOnes:
      return "ones";
    case Init::kNormal:
      return absl::StrCat("normal=", PrintNumber(param.stddev));
  }
  return "?";
}

absl::Status ReadParamWord(absl::string_view word, Param* param) {
  if (word == "zeros") {
    param->init = Init::kZeros;
  } else if (word == "ones") {
    param->init = Init::kOnes;
  } else if (absl::ConsumePrefix(&word, "normal=")) {
    param->init = Init::kNormal;
    if (!absl::SimpleAtof(word, &param->stddev)) {
      return absl::InvalidArgumentError(absl::StrCat("'", word, "' is not a number"));
    }
  } else if (word == "decay") {
    param->decay = true;
  } else if (word == "eager") {
    param->eager = true;
  } else if (absl::ConsumePrefix(&word, "tied=")) {
    param->tied_to = std::string(word);
  } else if (word == "expert") {
    param->expert = true;
  } else if (word == "balance") {
    param->update = Update::kBalance;
  } else if (absl::ConsumePrefix(&word, "average=")) {
    param->update = Update::kAverage;
    if (!absl::SimpleAtod(word, &param->momentum)) {
      return absl::InvalidArgumentError(absl::StrCat("'", word, "' is not a number"));
    }
  } else if (word == "frozen") {
    param->frozen = true;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("'", word, "' says nothing of a param"));
  }
  return absl::OkStatus();
}

// `param NAME : TYPE ...`
absl::Status ReadParam(const Words& words, StageProgram* program) {
  if (words.size() < 4 || words[2] != ":")
    return absl::InvalidArgumentError("expected 'param NAME : TYPE ...'");
  Param param;
  param.name = std::string(words[1]);
  SL_ASSIGN_OR_RETURN(param.type, ReadType(words[3]));
  for (size_t i = 4; i < words.size(); ++i) SL_RETURN_IF_ERROR(ReadParamWord(words[i], &param));
  program->params.push_back(std::move(param));
  return absl::OkStatus();
}

// `input : TYPE`, `input : TYPE edge=1` for a value that does not come over the first edge, or
// `input : TYPE tokens=8` for tokens from place 8 of their sequences.
absl::Status ReadCrossing(const Words& words, StageProgram* program) {
  const bool input = words[0] == "input";
  std::vector<Crossing>& crossings = input ? program->inputs : program->outputs;
  if (words.size() < 3 || words.size() > 4 || words[1] != ":")
    return absl::InvalidArgumentError("expected 'WORD : TYPE' or 'WORD : TYPE edge=NUMBER'");
  Crossing crossing;
  SL_ASSIGN_OR_RETURN(crossing.type, ReadType(words[2]));
  const bool no_edge = crossings.empty() && (input ? program->first : program->last);
  if (no_edge) crossing.edge = Crossing::kNoEdge;
  if (words.size() == 4) {
    absl::string_view edge = words[3];
    if (input && absl::ConsumePrefix(&edge, "tokens=")) {
      crossing.edge = Crossing::kNoEdge;
      if (!absl::SimpleAtoi(edge, &crossing.first) || crossing.first < 0) {
        return absl::InvalidArgumentError(absl::StrCat("'", words[3], "' is no place of tokens"));
      }
    } else if (no_edge || !absl::ConsumePrefix(&edge, "edge=") ||
               !absl::SimpleAtoi(edge, &crossing.edge) || crossing.edge < 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", words[3], "' is no edge"));
    }
  }
  crossings.push_back(std::move(crossing));
  return absl::OkStatus();
}

// `target : TYPE`, `saved : TYPE weight` and the like.
absl::Status ReadPortType(const Words& words, StageProgram* program) {
  if (words[0] == "input" || words[0] == "output") return ReadCrossing(words, program);
  const bool is_saved = words[0] == "saved";
  const bool remade = is_saved && words.size() > 3 && words.back() == "remade";
  const bool placed = words[0] == "target" && words.size() == 4;
  if (placed) {
    absl::string_view first = words[3];
    if (!absl::ConsumePrefix(&first, "first=") ||
        !absl::SimpleAtoi(first, &program->first_target) || program->first_target < 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", words[3], "' is no place of tokens"));
    }
  }
  const size_t before = words.size() - (remade || placed ? 1 : 0);
  const bool weight = is_saved && before == 4 && words[3] == "weight";
  if ((before != 3 && !weight) || words[1] != ":")
    return absl::InvalidArgumentError("expected 'WORD : TYPE'");
  SL_ASSIGN_OR_RETURN(Type type, ReadType(words[2]));
  if (words[0] == "target") {
    program->target = std::move(type);
  } else if (words[0] == "positions") {
    program->positions = std::move(type);
  } else if (words[0] == "mask_key") {
    program->mask_key = std::move(type);
  } else if (words[0] == "saved") {
    program->saved.push_back({std::move(type), weight, remade});
  } else if (words[0] == "stash") {
    program->stash.push_back(std::move(type));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("'", words[0], "' says nothing of a program"));
  }
  return absl::OkStatus();
}

// `parts NAME : compute=12 network=2 compute=9`: numbers of nodes.
absl::Status ReadParts(const Words& words, StageProgram* program) {
  const GraphRow* row = nullptr;
  for (const GraphRow& known : kGraphs) {
    if (words.size() > 3 && known.parts != nullptr && words[1] == known.name) row = &known;
  }
  if (row == nullptr || words[2] != ":")
    return absl::InvalidArgumentError("expected 'parts GRAPH : compute=COUNT network=COUNT ...'");
  std::vector<GraphPart>& parts = program->*row->parts;
  for (size_t i = 3; i < words.size(); ++i) {
    absl::string_view word = words[i];
    GraphPart part;
    part.network = absl::ConsumePrefix(&word, "network=");
    part.first_node = parts.empty() ? 0 : parts.back().end_node;
    int count;
    if ((!part.network && !absl::ConsumePrefix(&word, "compute=")) ||
        !absl::SimpleAtoi(word, &count) || count < 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", words[i], "' is not a part"));
    }
    part.end_node = part.first_node + count;
    parts.push_back(part);
  }
  return absl::OkStatus();
}

absl::Status ReadHeadLine(const Words& words, StageProgram* program) {
  if (words.size() == 1 && words[0] == "first") {
    program->first = true;
    return absl::OkStatus();
  }
  if (words.size() == 1 && words[0] == "last") {
    program->last = true;
    return absl::OkStatus();
  }
  if (words.size() == 1 && words[0] == "remakes") {
    program->remakes = true;
    return absl::OkStatus();
  }
  if (words.size() == 3 && words[0] == "moe_layers" && words[1] == ":") {
    return absl::SimpleAtoi(words[2], &program->moe_layers) && program->moe_layers >= 0
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("'", words[2], "' is not a number"));
  }
  if (words[0] == "parts") return ReadParts(words, program);
  return words[0] == "param" ? ReadParam(words, program) : ReadPortType(words, program);
}

// The lines of a text, without comments and outer blanks, and the current place.
struct Lines {
  std::vector<absl::string_view> all;
  size_t next = 0;

  explicit Lines(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      all.push_back(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
    }
  }
  // The next nonempty line; empty at the end.
  absl::string_view Take() {
    while (next < all.size() && all[next].empty()) ++next;
    return next < all.size() ? all[next++] : absl::string_view();
  }
  absl::Status At(const absl::Status& status) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", next, ": ", status.message()));
  }
};

absl::Status ReadHead(Lines* lines, StageProgram* program) {
  if (lines->Take() != "program {")
    return lines->At(absl::InvalidArgumentError("expected 'program {'"));
  while (true) {
    const absl::string_view line = lines->Take();
    if (line == "}") return absl::OkStatus();
    if (line.empty()) return lines->At(absl::InvalidArgumentError("expected '}'"));
    const absl::Status status = ReadHeadLine(absl::StrSplit(line, ' ', absl::SkipEmpty()), program);
    if (!status.ok()) return lines->At(status);
  }
}

// `NAME graph {` up to its `}`. Empty lines in front keep the line numbers of messages.
absl::StatusOr<Graph> ReadGraphOf(const char* name, Lines* lines) {
  const std::string opening = absl::StrCat(name, " graph {");
  if (lines->Take() != opening)
    return lines->At(absl::InvalidArgumentError(absl::StrCat("expected '", opening, "'")));
  std::string text(lines->next - 1, '\n');
  absl::StrAppend(&text, "graph {");
  while (lines->next < lines->all.size()) {
    const absl::string_view line = lines->all[lines->next++];
    absl::StrAppend(&text, "\n", line);
    if (line == "}") break;
  }
  return ReadGraph(text);
}

// The program's type for a port, or nothing if the port does not exist.
std::optional<Type> StatedType(const StageProgram& program, const Port& port) {
  auto within = [&](const auto& list) {
    return port.index >= 0 && port.index < static_cast<int>(list.size());
  };
  switch (port.role) {
    case Role::kParam:
      if (within(program.params)) return program.params[port.index].type;
      break;
    case Role::kParamGrad:
      if (within(program.params)) return GradTypeOf(program.params[port.index]);
      break;
    case Role::kSaved:
      if (within(program.saved)) return program.saved[port.index].type;
      break;
    case Role::kStash:
      if (within(program.stash)) return program.stash[port.index];
      break;
    case Role::kInput:
      if (within(program.inputs)) return program.inputs[port.index].type;
      break;
    case Role::kInGrad:
      if (within(program.inputs) && program.inputs[port.index].edge != Crossing::kNoEdge) {
        return program.inputs[port.index].type;
      }
      break;
    case Role::kTarget:
      if (program.last) return program.target;
      break;
    case Role::kPositions:
      return program.positions;
    case Role::kMaskKey:
      return program.mask_key;
    case Role::kLoss:
      if (program.last && !program.outputs.empty()) return program.outputs[0].type;
      break;
    case Role::kAuxLoss:
    case Role::kDropped:
      if (port.index < program.moe_layers) return Type{};
      break;
    case Role::kOutput:
    case Role::kOutGrad:
      if (!program.last && within(program.outputs)) return program.outputs[port.index].type;
      break;
    case Role::kPast:
    case Role::kKeyGrad:
    case Role::kKeys:
    case Role::kKeyGradBefore:
      break;  // texts are of whole microbatches
  }
  return std::nullopt;
}

// A graph without given parts is a single part.
void FillParts(StageProgram* program) {
  for (const GraphRow& row : kGraphs) {
    if (row.parts == nullptr || !(program->*row.parts).empty()) continue;
    const int nodes = static_cast<int>((program->*row.graph).nodes.size());
    (program->*row.parts).push_back({false, 0, nodes});
  }
}

absl::Status CheckParts(const GraphRow& row, const StageProgram& program) {
  const std::vector<Node>& nodes = (program.*row.graph).nodes;
  size_t next = 0;
  for (const GraphPart& part : program.*row.parts) {
    if (part.first_node != static_cast<int>(next) || part.end_node < part.first_node ||
        part.end_node > static_cast<int>(nodes.size())) {
      next = nodes.size() + 1;
      break;
    }
    for (; next < static_cast<size_t>(part.end_node); ++next) {
      if (IsCollective(nodes[next].op) == part.network) continue;
      return absl::InvalidArgumentError(absl::StrCat(row.name, " has ", RowOf(nodes[next].op).name,
                                                     " in a ", part.network ? "network" : "compute",
                                                     " part"));
    }
  }
  if (next == nodes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the parts of ", row.name, " are not its ", nodes.size(), " nodes in a row"));
}

}  // namespace

absl::Status CheckStageProgram(const StageProgram& program) {
  for (const GraphRow& row : kGraphs) {
    const Graph& graph = program.*row.graph;
    std::vector<Port> ports = graph.inputs;
    ports.insert(ports.end(), graph.outputs.begin(), graph.outputs.end());
    for (const Port& port : ports) {
      const std::string what =
          absl::StrCat(row.name, " has a port ", NameOf(port.role), " ", port.index);
      const std::optional<Type> stated = StatedType(program, port);
      if (!stated.has_value())
        return absl::InvalidArgumentError(absl::StrCat(what, " that the program does not state"));
      const Type& type = graph.values[port.value].type;
      if (type != *stated) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, " of type ", PrintType(type), ", stated as ", PrintType(*stated)));
      }
    }
    if (row.parts != nullptr) SL_RETURN_IF_ERROR(CheckParts(row, program));
  }
  return absl::OkStatus();
}

std::string PrintStageProgram(const StageProgram& program) {
  std::string text = "program {\n";
  if (program.first) absl::StrAppend(&text, "  first\n");
  if (program.last) absl::StrAppend(&text, "  last\n");
  if (program.remakes) absl::StrAppend(&text, "  remakes\n");
  for (const Param& param : program.params) {
    absl::StrAppend(
        &text, "  param ", param.name, " : ", PrintType(param.type), " ", PrintInit(param),
        param.decay ? " decay" : "", param.eager ? " eager" : "",
        param.tied_to.empty() ? "" : " tied=", param.tied_to, param.expert ? " expert" : "",
        param.update == Update::kBalance ? " balance" : "",
        param.update == Update::kAverage ? absl::StrCat(" average=", param.momentum) : "",
        param.frozen ? " frozen" : "", "\n");
  }
  const auto print = [&](const char* word, const std::vector<Crossing>& crossings) {
    for (const Crossing& crossing : crossings) {
      absl::StrAppend(&text, "  ", word, " : ", PrintType(crossing.type));
      if (crossing.edge > 0) absl::StrAppend(&text, " edge=", crossing.edge);
      if (crossing.is_tokens() && (&crossing != crossings.data() || !program.first)) {
        absl::StrAppend(&text, " tokens=", crossing.first);
      }
      absl::StrAppend(&text, "\n");
    }
  };
  print("input", program.inputs);
  print("output", program.outputs);
  if (program.last) {
    absl::StrAppend(&text, "  target : ", PrintType(program.target),
                    program.first_target > 0 ? absl::StrCat(" first=", program.first_target) : "",
                    "\n");
  }
  if (program.positions) {
    absl::StrAppend(&text, "  positions : ", PrintType(*program.positions), "\n");
  }
  if (program.mask_key) {
    absl::StrAppend(&text, "  mask_key : ", PrintType(*program.mask_key), "\n");
  }
  for (const Saved& saved : program.saved) {
    absl::StrAppend(&text, "  saved : ", PrintType(saved.type),
                    saved.needed_by_weight ? " weight" : "", saved.remade ? " remade" : "", "\n");
  }
  for (const Type& type : program.stash) {
    absl::StrAppend(&text, "  stash : ", PrintType(type), "\n");
  }
  if (program.moe_layers > 0) absl::StrAppend(&text, "  moe_layers : ", program.moe_layers, "\n");
  for (const GraphRow& row : kGraphs) {
    if (row.parts == nullptr || (program.*row.parts).size() <= 1) continue;
    absl::StrAppend(&text, "  parts ", row.name, " :");
    for (const GraphPart& part : program.*row.parts) {
      absl::StrAppend(&text,
                      part.network ? " network=" : " compute=", part.end_node - part.first_node);
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "}\n");
  for (const GraphRow& row : kGraphs) {
    if (!HasGraph(program, row)) continue;
    absl::StrAppend(&text, row.name, " ", PrintGraph(program.*row.graph));
  }
  return text;
}

absl::StatusOr<StageProgram> ReadStageProgram(absl::string_view text) {
  Lines lines(text);
  StageProgram program;
  SL_RETURN_IF_ERROR(ReadHead(&lines, &program));
  for (const GraphRow& row : kGraphs) {
    if (!HasGraph(program, row)) continue;
    SL_ASSIGN_OR_RETURN(program.*row.graph, ReadGraphOf(row.name, &lines));
  }
  if (!lines.Take().empty())
    return lines.At(absl::InvalidArgumentError("something after the last graph"));
  FillParts(&program);
  SL_RETURN_IF_ERROR(CheckStageProgram(program));
  return program;
}

absl::StatusOr<std::vector<StageProgram>> ReadStagePrograms(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  std::vector<StageProgram> programs;
  size_t first = 0;  // line of the program under way
  bool is_open = false;
  for (size_t line = 0; line <= lines.size(); ++line) {
    const bool at_end = line == lines.size();
    const bool opens = !at_end && absl::StripAsciiWhitespace(
                                      lines[line].substr(0, lines[line].find('#'))) == "program {";
    if (!at_end && !opens) continue;
    if (is_open || at_end) {
      // Empty lines in front keep the line numbers of messages.
      std::string one(first, '\n');
      for (size_t l = first; l < line; ++l) absl::StrAppend(&one, lines[l], "\n");
      SL_ASSIGN_OR_RETURN(StageProgram program, ReadStageProgram(one));
      programs.push_back(std::move(program));
      first = line;
    }
    is_open = opens;
  }
  return programs;
}

}  // namespace stringline
