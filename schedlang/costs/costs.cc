// Words of the command line and lines of a file come to the same table of keys (cost_keys.h) and
// the same Add, so both are read alike. A hardware file counts only for keys that the cost file
// leaves out.
#include "schedlang/costs/costs.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/model_keys.h"
#include "schedlang/costs/read_shape.h"

namespace stringline {
namespace {

absl::StatusOr<const CostKey*> KeyOf(absl::string_view name) {
  if (const CostKey* key = FindCostKey(name)) return key;
  std::vector<std::string> names;
  for (const CostKey& key : CostKeys()) names.emplace_back(key.name);
  const std::string close = ClosestName(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown cost '", name, "'",
                   close.empty() ? " ('stringline sim --help' lists them)"
                                 : absl::StrCat("; did you mean '", close, "'?")));
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

// A key of the file, and the keys in a map below it: `node: {ranks: 8}` is node.ranks.
absl::Status AddYaml(const YAML::Node& value, const std::string& name, CostSpec* spec) {
  if (value.IsMap()) {
    for (const auto& entry : value) {
      if (!entry.first.IsScalar()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": a key is not a word"));
      }
      SL_RETURN_IF_ERROR(
          AddYaml(entry.second, absl::StrCat(name, ".", entry.first.Scalar()), spec));
    }
    return absl::OkStatus();
  }
  SL_ASSIGN_OR_RETURN(const CostKey* const key, KeyOf(name));
  std::vector<int64_t> values;
  auto add = [&](const YAML::Node& item) -> absl::Status {
    if (!item.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": expected a value or a list of them"));
    }
    SL_ASSIGN_OR_RETURN(const int64_t number, ParseCost(*key, item.Scalar()));
    values.push_back(number);
    return absl::OkStatus();
  };
  if (value.IsSequence()) {
    for (const YAML::Node& item : value) SL_RETURN_IF_ERROR(add(item));
  } else {
    SL_RETURN_IF_ERROR(add(value));
  }
  return Add(*key, std::move(values), spec);
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
absl::Status ReadMachine(const std::string& name, const YAML::Node& value, MachineSpeed* machine,
                         CostSpec* links) {
  if (name == "name" && value.IsScalar()) {
    machine->name = value.Scalar();
    return absl::OkStatus();
  }
  if (name == "flops") {
    if (value.IsScalar() && absl::SimpleAtod(value.Scalar(), &machine->flops) &&
        machine->flops > 0 && machine->flops < 1e21) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("flops: expected a number a second, as 989e12");
  }
  if (name == "efficiency" || name == "memory_bandwidth") {
    const bool share = name == "efficiency";
    const CostKey key = {name.c_str(), share ? CostUnit::kShare : CostUnit::kBandwidth, false, ""};
    if (!value.IsScalar()) return absl::InvalidArgumentError(name + ": expected a value");
    SL_ASSIGN_OR_RETURN(const int64_t number, ParseCost(key, value.Scalar()));
    if (number == 0) return absl::InvalidArgumentError(name + ": expected more than 0");
    (share ? machine->efficiency : machine->memory_bandwidth) =
        static_cast<double>(number) * (share ? 1e-6 : 1);
    return absl::OkStatus();
  }
  if (name != "memory" || !value.IsScalar()) return AddYaml(value, name, links);
  const absl::StatusOr<int64_t> bytes = ParseWithUnit(CostUnit::kBytes, value.Scalar());
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("memory: ", bytes.status().message()));
  }
  return AddYaml(value, "memory.capacity", links);
}

// Reads the map in the text, key by key. Errors name file and line.
template <typename Read>
absl::Status ForEachEntry(const Source& source, Read read) {
  const std::string& path = source.path();
  try {
    SL_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(source));
    if (!root.IsMap()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected a map of costs, for example 'F: 18522'"));
    }
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": a key is not a word"));
      }
      const absl::Status added = read(entry.first.Scalar(), entry.second);
      if (!added.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ":", entry.first.Mark().line + 1, ": ", added.message()));
      }
    }
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CostSpec> ParseCosts(absl::string_view text) {
  CostSpec spec;
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  while (true) {
    const size_t equals = rest.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("expected KEY=VALUE, got '", rest, "'"));
    }
    const absl::string_view name = absl::StripAsciiWhitespace(rest.substr(0, equals));
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(equals + 1));
    const bool list = !rest.empty() && rest[0] == '[';
    size_t end = list ? rest.find(']') : std::min(rest.find(','), rest.size());
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": the list has no ']'"));
    }
    SL_ASSIGN_OR_RETURN(const CostKey* const key, KeyOf(name));
    SL_ASSIGN_OR_RETURN(std::vector<int64_t> values,
                        ParseList(*key, rest.substr(list ? 1 : 0, list ? end - 1 : end)));
    SL_RETURN_IF_ERROR(Add(*key, std::move(values), &spec));
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(list ? end + 1 : end));
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
  const std::string& path = source.path();
  CostSpec spec;
  CostFormula formula;
  std::string hardware;
  SL_RETURN_IF_ERROR(ForEachEntry(source, [&](const std::string& key, const YAML::Node& value) {
    SL_ASSIGN_OR_RETURN(const bool of_shape, ReadShapeSection(key, value, &formula.model));
    if (of_shape) return absl::OkStatus();
    if (key == "work") return ReadWork(value, &spec.work);
    if (key == model_key::kSharding) {
      return ReadWordOfSharding(value.IsScalar() ? value.Scalar() : "", &spec.sharding);
    }
    if (key != "hardware") return AddYaml(value, key, &spec);
    if (!value.IsScalar()) return absl::InvalidArgumentError("hardware: expected a file");
    hardware = (std::filesystem::path(path).parent_path() / value.Scalar()).string();
    return absl::OkStatus();
  }));
  if (hardware.empty() != (formula.model == ModelShape())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a formula needs both 'model' and 'hardware'"));
  }
  if (hardware.empty()) return spec;
  CostSpec links;
  SL_ASSIGN_OR_RETURN(const Source machine, ReadSource(hardware));
  SL_RETURN_IF_ERROR(ForEachEntry(machine, [&](const std::string& key, const YAML::Node& value) {
    return ReadMachine(key, value, &formula.machine, &links);
  }));
  if (formula.machine.flops <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(hardware, ": flops are not given"));
  }
  spec.values.merge(links.values);  // keys of the cost file itself stay
  spec.formula = std::move(formula);
  return spec;
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
                     ": needs a model's shape, whose gradients are reduced (--costs FILE.yaml "
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
  return {.values = {{"F", {kMs}}, {"I", {kMs}}, {"W", {kMs}}, {"B", {2 * kMs}}, {"p2p", {0}}}};
}

}  // namespace stringline
