// Words of the command line and lines of a file come to the same table of keys (cost_keys.h) and
// the same Add, so both are read alike. A hardware file counts only for keys that the cost file
// leaves out.
#include "schedlang/costs/costs.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/model_keys.h"
#include "schedlang/costs/read_costs_on.h"
#include "schedlang/costs/read_machine.h"
#include "schedlang/costs/read_microbatches.h"
#include "schedlang/costs/read_shape.h"

namespace stringline {
namespace {

std::string UnknownCost(absl::string_view name) {
  std::vector<std::string> names;
  for (const CostKey& key : CostKeys()) names.emplace_back(key.name);
  names.push_back(absl::StrCat("links", name.substr(std::min(name.find('.'), name.size()))));
  const std::string close = ClosestName(name, names);
  return absl::StrCat("unknown cost '", name, "'",
                      close.empty() ? " ('stringline sim --help' lists them)"
                                    : absl::StrCat("; did you mean '", close, "'?"));
}

// An error of a key; -1: on no line of a text.
using KeyError = std::function<absl::Status(int line, absl::string_view message)>;

KeyError InFile(const std::string& path) {
  return [&path](int line, absl::string_view message) {
    const std::string place = line < 0 ? path : absl::StrCat(path, ":", line + 1);
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", message));
  };
}

// The key of that name on that line; it may be that of an own action or value.
absl::StatusOr<CostKey> KeyOf(const std::string& name, int line, const KeyError& error,
                              CostSpec* spec) {
  if (const CostKey* key = FindCostKey(name)) return *key;
  if (!IsOwnCostKey(name)) return absl::InvalidArgumentError(UnknownCost(name));
  spec->unless_own.emplace(name, error(line, UnknownCost(name)).message());
  const bool of_edge = absl::StartsWith(name, "message.");
  const bool is_memory = of_edge || absl::StartsWith(name, "memory.");
  return CostKey{name.c_str(), is_memory ? CostUnit::kBytes : CostUnit::kTime, !of_edge, ""};
}

absl::Status Add(const CostKey& key, std::vector<int64_t> values, CostSpec* spec) {
  if (!key.per_stage && values.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(key.name, ": takes one value"));
  }
  if (values.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(key.name, ": the list is empty"));
  }
  if (!spec->values.emplace(key.name, std::move(values)).second) {
    return absl::InvalidArgumentError(absl::StrCat(key.name, ": is given twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ParseList(const CostKey& key, absl::string_view text) {
  std::vector<int64_t> values;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    SL_ASSIGN_OR_RETURN(const int64_t value, ParseCost(key, item));
    values.push_back(value);
  }
  return values;
}

absl::Status AddMicrobatches(const std::string& name, const YAML::Node& value,
                             const std::filesystem::path& folder, const KeyError& error,
                             CostSpec* spec) {
  SL_RETURN_IF_ERROR(ReadMicrobatches(name, value, folder, &spec->microbatches));
  spec->microbatches.place = std::string(error(value.Mark().line, name).message());
  return absl::OkStatus();
}

// The map `links`, a link in it, or a value of one.
absl::Status AddLinks(const YAML::Node& value, const std::string& name, const KeyError& error,
                      CostSpec* spec) {
  if (value.IsScalar()) {
    const std::string place(error(value.Mark().line, name).message());
    return AddLinkCost(name, value.Scalar(), place, &spec->links);
  }
  if (!value.IsMap() || value.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected links with their times, as links: {3-4: {p2p: 80us}}"));
  }
  for (const auto& entry : value) {
    if (!entry.first.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": a key is not a word"));
    }
    SL_RETURN_IF_ERROR(
        AddLinks(entry.second, absl::StrCat(name, ".", entry.first.Scalar()), error, spec));
  }
  return absl::OkStatus();
}

// A key of the file, and the keys in a map below it: `node: {ranks: 8}` is node.ranks.
absl::Status AddYaml(const YAML::Node& value, const std::string& name,
                     const std::filesystem::path& folder, const KeyError& error, CostSpec* spec) {
  if (IsLinkKey(name)) return AddLinks(value, name, error, spec);
  if (value.IsMap()) {
    for (const auto& entry : value) {
      if (!entry.first.IsScalar()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": a key is not a word"));
      }
      SL_RETURN_IF_ERROR(AddYaml(entry.second, absl::StrCat(name, ".", entry.first.Scalar()),
                                 folder, error, spec));
    }
    return absl::OkStatus();
  }
  if (IsMicrobatchKey(name)) return AddMicrobatches(name, value, folder, error, spec);
  SL_ASSIGN_OR_RETURN(const CostKey key, KeyOf(name, value.Mark().line, error, spec));
  std::vector<int64_t> values;
  auto add = [&](const YAML::Node& item) -> absl::Status {
    if (!item.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": expected a value or a list of them"));
    }
    SL_ASSIGN_OR_RETURN(const int64_t number, ParseCost(key, item.Scalar()));
    values.push_back(number);
    return absl::OkStatus();
  };
  if (value.IsSequence()) {
    for (const YAML::Node& item : value) SL_RETURN_IF_ERROR(add(item));
  } else {
    SL_RETURN_IF_ERROR(add(value));
  }
  return Add(key, std::move(values), spec);
}

absl::Status ReadWork(const YAML::Node& value, WorkScope* work) {
  const auto read = value.IsScalar() ? ReadWorkScope(value.Scalar()) : std::nullopt;
  if (!read) return absl::InvalidArgumentError("work: expected stage, rank or model");
  *work = *read;
  return absl::OkStatus();
}

absl::Status ReadWordOfSharding(absl::string_view word, std::optional<Sharding>* sharding) {
  *sharding = ReadSharding(word);
  if (*sharding) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sharding: expected ", absl::StrJoin(kShardings, " or ")));
}

// A key of a hardware file: the machine's own, or a link's.
absl::Status ReadMachine(const std::string& name, const YAML::Node& value, const KeyError& error,
                         MachineSpeed* machine, CostSpec* links) {
  if (name == "name" && value.IsScalar()) {
    machine->name = value.Scalar();
    return absl::OkStatus();
  }
  SL_ASSIGN_OR_RETURN(const bool of_speed, ReadMachineKey(name, value, machine));
  if (of_speed) return absl::OkStatus();
  if (name != "memory" || !value.IsScalar()) return AddYaml(value, name, {}, error, links);
  const absl::StatusOr<int64_t> bytes = ParseWithUnit(CostUnit::kBytes, value.Scalar());
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("memory: ", bytes.status().message()));
  }
  return AddYaml(value, "memory.capacity", {}, error, links);
}

// Reads the map key by key.
template <typename Read>
absl::Status ForEachEntry(const YAML::Node& root, const KeyError& error, Read read) {
  if (!root.IsMap()) return error(-1, "expected a map of costs, for example 'F: 18522'");
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) return error(-1, "a key is not a word");
    const absl::Status added = read(entry.first.Scalar(), entry.second);
    if (!added.ok()) return error(entry.first.Mark().line, added.message());
  }
  return absl::OkStatus();
}

// The same for the map in the text. Errors name file and line.
template <typename Read>
absl::Status ForEachEntry(const Source& source, Read read) {
  try {
    SL_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(source));
    return ForEachEntry(root, InFile(source.path()), read);
  } catch (const YAML::Exception& error) {
    return InFile(source.path())(error.mark.line, error.msg);
  }
}

YAML::Node NodeOf(const CostTable& table);

YAML::Node NodeOf(const CostValue& value) {
  if (const auto* const text = std::get_if<std::string>(&value.value)) return YAML::Node(*text);
  if (const auto* const table = std::get_if<CostTable>(&value.value)) return NodeOf(*table);
  YAML::Node list(YAML::NodeType::Sequence);
  for (const CostValue& item : std::get<std::vector<CostValue>>(value.value)) {
    list.push_back(NodeOf(item));
  }
  return list;
}

YAML::Node NodeOf(const CostTable& table) {
  YAML::Node node(YAML::NodeType::Map);
  // Every pair stays, so a key that is given twice is refused like one in a file.
  for (const auto& [key, value] : table) node.force_insert(key, NodeOf(value));
  return node;
}

// A cost file's map, as far as it is read.
struct ReadFile {
  CostSpec spec;
  CostFormula formula;
  std::string hardware;  // "": none
};

// Reads a key of the map; `folder` is the place of the files that it names.
absl::Status ReadEntry(const std::string& key, const YAML::Node& value,
                       const std::filesystem::path& folder, const KeyError& error, ReadFile* file) {
  SL_ASSIGN_OR_RETURN(const bool of_shape, ReadShapeSection(key, value, &file->formula.model));
  if (of_shape) return absl::OkStatus();
  if (key == "work") return ReadWork(value, &file->spec.work);
  if (key == model_key::kSharding) {
    return ReadWordOfSharding(value.IsScalar() ? value.Scalar() : "", &file->spec.sharding);
  }
  if (key != "hardware") return AddYaml(value, key, folder, error, &file->spec);
  if (!value.IsScalar()) return absl::InvalidArgumentError("hardware: expected a file");
  file->hardware = (folder / value.Scalar()).string();
  return absl::OkStatus();
}

// Adds the machine of a model's shape.
absl::StatusOr<CostSpec> OnMachine(ReadFile file, const Source& machine) {
  CostSpec links;
  SL_RETURN_IF_ERROR(ForEachEntry(machine, [&](const std::string& key, const YAML::Node& value) {
    return ReadMachine(key, value, InFile(machine.path()), &file.formula.machine, &links);
  }));
  const absl::Status known = CheckSpeed(file.formula.machine, file.formula.model.precision);
  if (!known.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(machine.path(), ": ", known.message()));
  }
  if (!links.microbatches.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(links.microbatches.place,
                     ": is of a step, not of a machine; give it in the "
                     "cost file"));
  }
  if (!links.links.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(links.links[0].place,
                     ": is of a pipeline's ranks, not of a machine; give it in the cost file"));
  }
  file.spec.values.merge(links.values);  // keys of the cost file itself stay
  file.spec.unless_own.merge(links.unless_own);
  file.spec.formula = std::move(file.formula);
  return std::move(file.spec);
}

// The same, if the file has one.
absl::StatusOr<CostSpec> WithMachine(ReadFile file, const KeyError& error) {
  if (file.hardware.empty() != (file.formula.model == ModelShape())) {
    return error(-1, "a formula needs both 'model' and 'hardware'");
  }
  if (file.hardware.empty()) return std::move(file.spec);
  SL_ASSIGN_OR_RETURN(const Source machine, ReadSource(file.hardware));
  return OnMachine(std::move(file), machine);
}

// Past the value with which the text begins: a list in brackets, or all up to a comma; npos for a
// list that does not end.
size_t EndOfValue(absl::string_view text) {
  if (text.empty() || text[0] != '[') return std::min(text.find(','), text.size());
  int open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    open += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    if (open == 0) return i + 1;
  }
  return absl::string_view::npos;
}

}  // namespace

absl::StatusOr<CostSpec> ParseCosts(absl::string_view text) {
  CostSpec spec;
  const KeyError on_line = [](int, absl::string_view message) {
    return absl::InvalidArgumentError(message);
  };
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  while (true) {
    const size_t equals = rest.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("expected KEY=VALUE, got '", rest, "'"));
    }
    const std::string name(absl::StripAsciiWhitespace(rest.substr(0, equals)));
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(equals + 1));
    const size_t end = EndOfValue(rest);
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": the list has no ']'"));
    }
    absl::string_view value = rest.substr(0, end);
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(end));
    if (IsMicrobatchKey(name)) {
      SL_ASSIGN_OR_RETURN(const YAML::Node list, LoadYaml(Source(name, std::string(value))));
      SL_RETURN_IF_ERROR(AddMicrobatches(name, list, {}, on_line, &spec));
    } else if (IsLinkKey(name)) {
      SL_RETURN_IF_ERROR(AddLinkCost(name, value, name, &spec.links));
    } else {
      SL_ASSIGN_OR_RETURN(const CostKey key, KeyOf(name, -1, on_line, &spec));
      if (absl::ConsumePrefix(&value, "[")) value.remove_suffix(1);
      SL_ASSIGN_OR_RETURN(std::vector<int64_t> values, ParseList(key, value));
      SL_RETURN_IF_ERROR(Add(key, std::move(values), &spec));
    }
    if (rest.empty()) return spec;
    if (rest[0] != ',') {
      return absl::InvalidArgumentError(absl::StrCat("expected ',' before '", rest, "'"));
    }
    rest.remove_prefix(1);
  }
}

absl::StatusOr<CostSpec> ReadCostFile(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const Source source, ReadSource(path));
  return ReadCosts(source);
}

absl::StatusOr<CostSpec> ReadCosts(const Source& source) {
  ReadFile file;
  const std::filesystem::path folder = std::filesystem::path(source.path()).parent_path();
  SL_RETURN_IF_ERROR(ForEachEntry(source, [&](const std::string& key, const YAML::Node& value) {
    return ReadEntry(key, value, folder, InFile(source.path()), &file);
  }));
  return WithMachine(std::move(file), InFile(source.path()));
}

absl::StatusOr<CostSpec> ReadCostsOn(const Source& source, const Source& machine) {
  ReadFile file;
  const KeyError error = InFile(source.path());
  SL_RETURN_IF_ERROR(ForEachEntry(source, [&](const std::string& key, const YAML::Node& value) {
    if (key != "hardware") return ReadEntry(key, value, {}, error, &file);
    return absl::InvalidArgumentError(
        absl::StrCat("hardware: is said by ", machine.path(), "; leave it out here"));
  }));
  if (file.formula.model == ModelShape()) return error(-1, "'model' is missing");
  return OnMachine(std::move(file), machine);
}

absl::StatusOr<CostSpec> ReadCosts(const CostTable& table) {
  const KeyError error = [](int, absl::string_view message) {
    return FieldError("costs", message);
  };
  if (table.empty()) return error(-1, "there is no key");
  ReadFile file;
  SL_RETURN_IF_ERROR(
      ForEachEntry(NodeOf(table), error, [&](const std::string& key, const YAML::Node& value) {
        return ReadEntry(key, value, {}, error, &file);
      }));
  return WithMachine(std::move(file), error);
}

CostValue::CostValue(double number) {
  constexpr size_t kLongest = 400;  // of all digits of the smallest double
  char text[kLongest];
  const auto end = std::to_chars(text, text + kLongest, number, std::chars_format::fixed);
  value = std::string(text, end.ptr);
}

absl::Status ChangeCopies(const CopiesRequest& request, CostSpec* spec) {
  if (!request.sharding.empty()) {
    SL_RETURN_IF_ERROR(ReadWordOfSharding(request.sharding, &spec->sharding));
  }
  for (const auto& [key, text] :
       {std::pair(model_key::kBucket, &request.bucket), std::pair("mesh", &request.mesh)}) {
    if (text->empty()) continue;
    if (spec->formula) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(key,
                     ": needs a model's shape, whose gradients are reduced (`costs=FILE.yaml` "
                     "with 'model' and 'hardware')"));
  }
  if (!spec->formula) return absl::OkStatus();
  ModelShape& model = spec->formula->model;
  if (!request.mesh.empty()) SL_RETURN_IF_ERROR(ReadMesh(request.mesh, &model));
  if (!request.bucket.empty()) {
    SL_RETURN_IF_ERROR(
        ReadShapeSection(model_key::kBucket, YAML::Node(request.bucket), &model).status());
  }
  return absl::OkStatus();
}

CostSpec UnitCosts() {
  constexpr int64_t kMs = 1'000'000;
  return {
      .values = {
          {"F", {kMs}}, {"I", {kMs}}, {"W", {kMs}}, {"B", {2 * kMs}}, {"D", {kMs}}, {"p2p", {0}}}};
}

}  // namespace stringline
