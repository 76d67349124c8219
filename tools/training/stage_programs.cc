// Programs come from a run file, whose model they build, or from a text that holds them.
#include "tools/training/stage_programs.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/run/build_stages.h"
#include "executor/run/run_config.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"
#include "stages/program_text.h"
#include "stages/text.h"

namespace stringline {
namespace {

// True for a text whose first line, beside comments, opens a program.
bool HoldsPrograms(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view words = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (!words.empty()) return words == "program {";
  }
  return false;
}

absl::StatusOr<StagePrograms> ProgramsOfText(Source source) {
  absl::StatusOr<std::vector<StageProgram>> read = ReadStagePrograms(source.text());
  if (!read.ok()) {
    return absl::Status(read.status().code(),
                        absl::StrCat(source.path(), ": ", read.status().message()));
  }
  StagePrograms programs{std::move(source), {}, {}};
  for (StageProgram& program : *read) {
    programs.programs.push_back({absl::StrCat(programs.programs.size()), -1, std::move(program)});
  }
  return programs;
}

absl::StatusOr<StagePrograms> ProgramsOfRun(const std::string& file, bool again) {
  SL_ASSIGN_OR_RETURN(const RunConfig config, ReadRunConfig(file));
  SL_ASSIGN_OR_RETURN(Session session, OpenPlan({.file = config.schedule_file,
                                                 .schedule = config.schedule_name,
                                                 .parameters = config.parameters,
                                                 .again = again}));
  StagePrograms programs{std::move(session.source), std::move(session.diagnostics), {}};
  if (!session.plan) return programs;
  const Plan& plan = *session.plan;
  if (plan.slices > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule cuts sequences into ", plan.slices,
                     " slices with programs of their own, and texts are of whole ones"));
  }
  SL_ASSIGN_OR_RETURN(std::vector<StageProgram> built, BuildStages(config, plan));
  for (size_t s = 0; s < built.size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    programs.programs.push_back(
        {PrintStage(plan.pipes, stage), plan.stage(stage).rank.value, std::move(built[s])});
  }
  return programs;
}

std::string Nodes(const char* name, const Graph& graph) {
  return absl::StrCat(name, " ", graph.nodes.size());
}

Json NamesOf(const Graph& graph, const std::vector<ValueId>& values) {
  Json names = Json::array();
  for (const ValueId value : values) {
    names.push_back(value == kNone ? Json() : Json(graph.values[value].name));
  }
  return names;
}

Json PortsAsJson(const Graph& graph, const std::vector<Port>& ports) {
  Json json = Json::array();
  for (const Port& port : ports) {
    json.push_back({{"role", NameOf(port.role)},
                    {"index", port.index},
                    {"value", graph.values[port.value].name},
                    {"type", PrintType(graph.values[port.value].type)}});
  }
  return json;
}

Json GraphAsJson(const Graph& graph) {
  Json nodes = Json::array();
  for (const Node& node : graph.nodes) {
    const OpRow& row = RowOf(node.op);
    Json types = Json::array(), attributes = Json::object();
    for (const ValueId value : node.outputs) types.push_back(PrintType(graph.values[value].type));
    for (size_t a = 0; a < node.attributes.size(); ++a) {
      if (row.repeats && a + 1 >= row.attributes.size()) {
        attributes[row.attributes.back()].push_back(node.attributes[a]);
      } else {
        attributes[row.attributes[a]] = node.attributes[a];
      }
    }
    nodes.push_back({{"op", row.name},
                     {"operands", NamesOf(graph, node.inputs)},
                     {"results", NamesOf(graph, node.outputs)},
                     {"types", std::move(types)},
                     {"attributes", std::move(attributes)}});
  }
  return {{"inputs", PortsAsJson(graph, graph.inputs)},
          {"nodes", std::move(nodes)},
          {"outputs", PortsAsJson(graph, graph.outputs)}};
}

Json CrossingsAsJson(const std::vector<Crossing>& crossings) {
  Json values = Json::array();
  for (const auto& [type, edge, first] : crossings) {
    values.push_back(
        {{"type", PrintType(type)}, {"edge", edge == Crossing::kNoEdge ? Json() : Json(edge)}});
  }
  return values;
}

Json ProgramAsJson(const NamedProgram& named) {
  const StageProgram& program = named.program;
  Json params = Json::array(), saved = Json::array(), stash = Json::array();
  for (const Param& param : program.params) {
    params.push_back({{"name", param.name}, {"type", PrintType(param.type)}});
  }
  for (const Saved& value : program.saved) {
    saved.push_back(
        {{"type", PrintType(value.type)}, {"needed_by_weight", value.needed_by_weight}});
  }
  for (const Type& type : program.stash) stash.push_back(PrintType(type));
  return {{"stage", named.stage},
          {"rank", named.rank < 0 ? Json() : Json(named.rank)},
          {"first", program.first},
          {"last", program.last},
          {"params", std::move(params)},
          {"inputs", CrossingsAsJson(program.inputs)},
          {"outputs", CrossingsAsJson(program.outputs)},
          {"target", program.last ? Json(PrintType(program.target)) : Json()},
          {"positions", program.positions ? Json(PrintType(*program.positions)) : Json()},
          {"mask_key", program.mask_key ? Json(PrintType(*program.mask_key)) : Json()},
          {"saved", std::move(saved)},
          {"stash", std::move(stash)},
          {"forward", GraphAsJson(program.forward)},
          {"backward", GraphAsJson(program.backward)},
          {"input_gradient", GraphAsJson(program.input_gradient)},
          {"weight_gradient", GraphAsJson(program.weight_gradient)},
          {"text", PrintStageProgram(program)}};
}

}  // namespace

absl::StatusOr<StagePrograms> OpenStagePrograms(const std::string& file, bool again) {
  SL_ASSIGN_OR_RETURN(Source source, OpenSource(file));
  if (HoldsPrograms(source.text())) return ProgramsOfText(std::move(source));
  if (file == kStandardStream) {
    return absl::InvalidArgumentError(
        "standard input holds no stage programs, and a run file is read by its name");
  }
  return ProgramsOfRun(file, again);
}

absl::Status KeepStage(const std::string& stage, StagePrograms* programs) {
  if (stage.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (NamedProgram& named : programs->programs) {
    if (named.stage == stage) {
      std::vector<NamedProgram> kept;
      kept.push_back(std::move(named));
      programs->programs = std::move(kept);
      return absl::OkStatus();
    }
    names.push_back(named.stage);
  }
  return absl::NotFoundError(absl::StrCat("--stage: there is no stage '", stage, "'; there are ",
                                          absl::StrJoin(names, ", ")));
}

std::string Print(const StagePrograms& programs) {
  std::string text;
  for (const NamedProgram& named : programs.programs) {
    const StageProgram& program = named.program;
    absl::StrAppend(
        &text, text.empty() ? "" : "\n", "# stage ", named.stage,
        named.rank < 0 ? "" : absl::StrCat(" on rank ", named.rank),
        "; nodes: ", Nodes("forward", program.forward), ", ", Nodes("backward", program.backward),
        ", ", Nodes("input gradient", program.input_gradient), ", ",
        Nodes("weight gradient", program.weight_gradient), "\n", PrintStageProgram(program));
  }
  return text;
}

Json StageProgramsAsJson(const StagePrograms& programs) {
  Json all = Json::array();
  for (const NamedProgram& named : programs.programs) all.push_back(ProgramAsJson(named));
  return {{"ok", true}, {"programs", std::move(all)}};
}

}  // namespace stringline
