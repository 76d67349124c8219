#include "stages/program_text.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "stages/text.h"

namespace stringline {
namespace {

using Words = std::vector<absl::string_view>;

struct GraphRow {
  const char* name;
  Graph StageProgram::*graph;
};
constexpr GraphRow kGraphs[] = {{"forward", &StageProgram::forward},
                                {"backward", &StageProgram::backward},
                                {"input_gradient", &StageProgram::input_gradient},
                                {"weight_gradient", &StageProgram::weight_gradient}};

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

// `input : TYPE`, `saved : TYPE weight` and the like.
absl::Status ReadPortType(const Words& words, StageProgram* program) {
  const bool weight = words.size() == 4 && words[0] == "saved" && words[3] == "weight";
  if ((words.size() != 3 && !weight) || words[1] != ":")
    return absl::InvalidArgumentError("expected 'WORD : TYPE'");
  SL_ASSIGN_OR_RETURN(Type type, ReadType(words[2]));
  if (words[0] == "input") {
    program->input = std::move(type);
  } else if (words[0] == "output") {
    program->output = std::move(type);
  } else if (words[0] == "target") {
    program->target = std::move(type);
  } else if (words[0] == "saved") {
    program->saved.push_back({std::move(type), weight});
  } else if (words[0] == "stash") {
    program->stash.push_back(std::move(type));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("'", words[0], "' says nothing of a program"));
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
  return words[0] == "param" ? ReadParam(words, program) : ReadPortType(words, program);
}

// The lines of a text, without comments and outer blanks, and the place in it.
struct Lines {
  std::vector<absl::string_view> all;
  size_t next = 0;

  explicit Lines(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      all.push_back(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
    }
  }
  // The next line that is not empty; empty at the end.
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

// `NAME graph {` up to its `}`. Empty lines before it keep the line numbers of messages.
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

// What the program states of a port, or nullptr if there is no such port.
const Type* StatedType(const StageProgram& program, const Port& port) {
  auto within = [&](const auto& list) {
    return port.index >= 0 && port.index < static_cast<int>(list.size());
  };
  switch (port.role) {
    case Role::kParam:
    case Role::kParamGrad:
      return within(program.params) ? &program.params[port.index].type : nullptr;
    case Role::kSaved:
      return within(program.saved) ? &program.saved[port.index].type : nullptr;
    case Role::kStash:
      return within(program.stash) ? &program.stash[port.index] : nullptr;
    case Role::kInput:
      return &program.input;
    case Role::kInGrad:
      return program.first ? nullptr : &program.input;
    case Role::kTarget:
      return program.last ? &program.target : nullptr;
    case Role::kLoss:
      return program.last ? &program.output : nullptr;
    case Role::kOutput:
    case Role::kOutGrad:
      return program.last ? nullptr : &program.output;
  }
  return nullptr;
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
      const Type* stated = StatedType(program, port);
      if (stated == nullptr)
        return absl::InvalidArgumentError(absl::StrCat(what, " that the program does not state"));
      const Type& type = graph.values[port.value].type;
      if (type != *stated) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, " of type ", PrintType(type), ", stated as ", PrintType(*stated)));
      }
    }
  }
  return absl::OkStatus();
}

std::string PrintStageProgram(const StageProgram& program) {
  std::string text = "program {\n";
  if (program.first) absl::StrAppend(&text, "  first\n");
  if (program.last) absl::StrAppend(&text, "  last\n");
  for (const Param& param : program.params) {
    absl::StrAppend(&text, "  param ", param.name, " : ", PrintType(param.type), " ",
                    PrintInit(param), param.decay ? " decay" : "", param.eager ? " eager" : "",
                    param.tied_to.empty() ? "" : " tied=", param.tied_to, "\n");
  }
  absl::StrAppend(&text, "  input : ", PrintType(program.input), "\n");
  absl::StrAppend(&text, "  output : ", PrintType(program.output), "\n");
  if (program.last) absl::StrAppend(&text, "  target : ", PrintType(program.target), "\n");
  for (const Saved& saved : program.saved) {
    absl::StrAppend(&text, "  saved : ", PrintType(saved.type),
                    saved.needed_by_weight ? " weight" : "", "\n");
  }
  for (const Type& type : program.stash) {
    absl::StrAppend(&text, "  stash : ", PrintType(type), "\n");
  }
  absl::StrAppend(&text, "}\n");
  for (const GraphRow& row : kGraphs) {
    absl::StrAppend(&text, row.name, " ", PrintGraph(program.*row.graph));
  }
  return text;
}

absl::StatusOr<StageProgram> ReadStageProgram(absl::string_view text) {
  Lines lines(text);
  StageProgram program;
  SL_RETURN_IF_ERROR(ReadHead(&lines, &program));
  for (const GraphRow& row : kGraphs) {
    SL_ASSIGN_OR_RETURN(program.*row.graph, ReadGraphOf(row.name, &lines));
  }
  if (!lines.Take().empty())
    return lines.At(absl::InvalidArgumentError("something after the last graph"));
  SL_RETURN_IF_ERROR(CheckStageProgram(program));
  return program;
}

}  // namespace stringline
