// Parts that suites share with run files keep their lines: a case's run file is assembled from
// them, and the reader of run files reports their mistakes. The case is then written with whole
// paths, for the process that performs it.
#include "tools/bench/suite_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr int kMostSteps = 100'000;
constexpr int kMostRepetitions = 1000;

// An item of a multiplied list, with its name in the cases.
struct NamedNode {
  std::string name;
  YAML::Node node;
};

// A pattern of cases, by every field that is set. Null: any.
struct CaseFilter {
  const NamedNode* model = nullptr;
  std::vector<const NamedNode*> schedules;
  const NamedNode* mesh = nullptr;
  const NamedNode* precision = nullptr;
};

// On a single line, in braces or not, as written.
std::string OnOneLine(const YAML::Node& node) {
  YAML::Emitter out;
  out.SetMapFormat(YAML::Flow);
  out.SetSeqFormat(YAML::Flow);
  out << node;
  return out.c_str();
}

std::string WholePath(const std::string& path) {
  std::error_code error;
  return path.empty() ? path : fs::absolute(path, error).lexically_normal().string();
}

class SuiteReader {
 public:
  explicit SuiteReader(const std::string& path) : path_(path) { suite_.path = path; }

  absl::StatusOr<Suite> Read(const YAML::Node& root) && {
    SL_RETURN_IF_ERROR(CheckKeys("", root,
                                 {"models", "schedules", "data", "meshes", "precision", "device",
                                  "repetitions", "steps", "warm_up", "beside", "only", "without"}));
    for (const char* const key : {"models", "schedules", "data"}) {
      if (!root[key]) return absl::InvalidArgumentError(absl::StrCat(path_, ": no '", key, "'"));
    }
    SL_RETURN_IF_ERROR(TakeNumber(root, "repetitions", 1, kMostRepetitions, &suite_.repetitions));
    SL_RETURN_IF_ERROR(TakeNumber(root, "steps", 1, kMostSteps, &suite_.steps));
    SL_RETURN_IF_ERROR(TakeNumber(root, "warm_up", 1, kMostSteps, &suite_.warm_up));
    if (const YAML::Node beside = root["beside"]) {
      if (!beside.IsScalar() || beside.Scalar() != "torch") {
        return Complain(beside, "beside: expected torch");
      }
      suite_.beside_torch = true;
    }
    SL_RETURN_IF_ERROR(TakeLists(root));
    SL_RETURN_IF_ERROR(TakeFilters(root["only"], "only", &only_));
    SL_RETURN_IF_ERROR(TakeFilters(root["without"], "without", &without_));
    SL_RETURN_IF_ERROR(Multiply(root));
    if (suite_.cases.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": only and without leave no case"));
    }
    return std::move(suite_);
  }

 private:
  absl::Status Complain(const YAML::Node& at, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", at.Mark().line + 1, ": ", message));
  }

  // A map with these keys alone, each once.
  absl::Status CheckKeys(const std::string& name, const YAML::Node& node,
                         const std::vector<std::string>& keys) const {
    if (!node.IsMap()) {
      return Complain(node,
                      absl::StrCat(name, name.empty() ? "" : ": ", "expected keys and values"));
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (!seen.insert(key).second) {
        return Complain(entry.first, absl::StrCat("'", key, "' is given twice"));
      }
      if (keys.empty() || std::count(keys.begin(), keys.end(), key) > 0) continue;
      const std::string close = ClosestName(key, keys);
      return Complain(
          entry.first,
          absl::StrCat("unknown key '", name, name.empty() ? "" : ".", key, "'",
                       close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
    }
    return absl::OkStatus();
  }

  absl::Status TakeNumber(const YAML::Node& root, const char* key, int least, int most,
                          int* target) const {
    const YAML::Node node = root[key];
    if (!node) return absl::OkStatus();
    if (node.IsScalar() && absl::SimpleAtoi(node.Scalar(), target) && *target >= least &&
        *target <= most) {
      return absl::OkStatus();
    }
    return Complain(node, absl::StrCat(key, ": expected a number from ", least, " to ", most));
  }

  absl::Status CheckList(const char* key, const YAML::Node& node) const {
    if (node.IsSequence() && node.size() > 0) return absl::OkStatus();
    return Complain(node, absl::StrCat(key, ": expected a list"));
  }

  // Adds a node under this name, unless the name is taken.
  absl::Status AddTo(std::vector<NamedNode>* list, const char* key, std::string name,
                     const YAML::Node& node) const {
    for (const NamedNode& other : *list) {
      if (other.name != name) continue;
      return Complain(node, absl::StrCat(key, ": ", name.empty() ? "{}" : name, " is there twice"));
    }
    list->push_back({std::move(name), node});
    return absl::OkStatus();
  }

  absl::Status TakeLists(const YAML::Node& root) {
    SL_RETURN_IF_ERROR(CheckKeys("models", root["models"], {}));
    for (const auto& entry : root["models"]) {
      if (!entry.first.IsScalar() || entry.first.Scalar().empty()) {
        return Complain(root["models"], "models: expected a name before ':'");
      }
      models_.push_back({entry.first.Scalar(), entry.second});
    }
    if (models_.empty()) return Complain(root["models"], "models: there are none");
    SL_RETURN_IF_ERROR(CheckList("schedules", root["schedules"]));
    for (const YAML::Node& node : root["schedules"]) {
      SL_ASSIGN_OR_RETURN(std::string name, NameOfSchedule(node));
      SL_RETURN_IF_ERROR(AddTo(&schedules_, "schedules", std::move(name), node));
    }
    meshes_ = {{"", YAML::Node(YAML::NodeType::Map)}};
    if (const YAML::Node meshes = root["meshes"]) {
      SL_RETURN_IF_ERROR(CheckList("meshes", meshes));
      meshes_.clear();
      for (const YAML::Node& node : meshes) {
        SL_RETURN_IF_ERROR(CheckKeys("meshes", node, {}));
        SL_RETURN_IF_ERROR(AddTo(&meshes_, "meshes", NameOfMesh(node), node));
      }
    }
    precisions_ = {{"fp32", YAML::Node("fp32")}};
    if (const YAML::Node precision = root["precision"]) {
      precisions_.clear();
      if (precision.IsScalar())
        return AddTo(&precisions_, "precision", precision.Scalar(), precision);
      SL_RETURN_IF_ERROR(CheckList("precision", precision));
      for (const YAML::Node& node : precision) {
        SL_RETURN_IF_ERROR(
            AddTo(&precisions_, "precision", node.IsScalar() ? node.Scalar() : "", node));
      }
    }
    return absl::OkStatus();
  }

  // "1f1b P=4 M=8": the schedule's name in its file, or the file's, and the parameters as written.
  absl::StatusOr<std::string> NameOfSchedule(const YAML::Node& node) const {
    SL_RETURN_IF_ERROR(CheckKeys("schedules", node, {}));
    const YAML::Node file = node["file"], name = node["name"];
    if (!file || !file.IsScalar() || file.Scalar().empty()) {
      return Complain(node, "schedules: expected 'file', a file or a name of the library");
    }
    std::string label =
        name && name.IsScalar() ? name.Scalar() : fs::path(file.Scalar()).stem().string();
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      if (key == "file" || key == "name" || !entry.second.IsScalar()) continue;
      absl::StrAppend(&label, " ", key, "=", entry.second.Scalar());
    }
    return label;
  }

  static std::string NameOfMesh(const YAML::Node& node) {
    std::vector<std::string> words;
    for (const auto& entry : node) {
      words.push_back(absl::StrCat(entry.first.Scalar(), "=", OnOneLine(entry.second)));
    }
    return absl::StrJoin(words, " ");
  }

  absl::Status TakeFilters(const YAML::Node& node, const char* key,
                           std::vector<CaseFilter>* filters) const {
    if (!node) return absl::OkStatus();
    SL_RETURN_IF_ERROR(CheckList(key, node));
    for (const YAML::Node& item : node) {
      SL_RETURN_IF_ERROR(CheckKeys(key, item, {"model", "schedule", "mesh", "precision"}));
      CaseFilter filter;
      SL_ASSIGN_OR_RETURN(filter.model, OneOf(models_, key, "model", item["model"]));
      SL_ASSIGN_OR_RETURN(filter.precision,
                          OneOf(precisions_, key, "precision", item["precision"]));
      if (const YAML::Node mesh = item["mesh"]) {
        SL_RETURN_IF_ERROR(CheckKeys(absl::StrCat(key, ".mesh"), mesh, {}));
        SL_ASSIGN_OR_RETURN(filter.mesh,
                            OneOf(meshes_, key, "mesh", YAML::Node(NameOfMesh(mesh)), &mesh));
      }
      if (const YAML::Node schedule = item["schedule"]) {
        const std::string word = schedule.IsScalar() ? schedule.Scalar() : "";
        for (const NamedNode& one : schedules_) {
          if (one.name == word || one.name.rfind(word + " ", 0) == 0)
            filter.schedules.push_back(&one);
        }
        if (filter.schedules.empty()) {
          return Complain(schedule,
                          absl::StrCat(key, ".schedule: '", word, "' is none of the suite's"));
        }
      }
      filters->push_back(std::move(filter));
    }
    return absl::OkStatus();
  }

  // The item with this name; null if the key is missing.
  absl::StatusOr<const NamedNode*> OneOf(const std::vector<NamedNode>& list, const char* key,
                                         const char* what, const YAML::Node& node,
                                         const YAML::Node* at = nullptr) const {
    const NamedNode* none = nullptr;
    if (!node) return none;
    const std::string word = node.IsScalar() ? node.Scalar() : "";
    for (const NamedNode& one : list) {
      if (one.name == word) return &one;
    }
    return Complain(at != nullptr ? *at : node,
                    absl::StrCat(key, ".", what, ": '", word, "' is none of the suite's"));
  }

  struct Parts {
    const NamedNode& model;
    const NamedNode& schedule;
    const NamedNode& mesh;
    const NamedNode& precision;
  };

  static bool Fits(const CaseFilter& filter, const Parts& of) {
    const auto is = [](const NamedNode* wanted, const NamedNode& one) {
      return wanted == nullptr || wanted == &one;
    };
    const auto& schedules = filter.schedules;
    return is(filter.model, of.model) && is(filter.mesh, of.mesh) &&
           is(filter.precision, of.precision) &&
           (schedules.empty() ||
            std::find(schedules.begin(), schedules.end(), &of.schedule) != schedules.end());
  }

  absl::Status Multiply(const YAML::Node& root) {
    const auto fits_one = [](const std::vector<CaseFilter>& filters, const Parts& parts) {
      return std::any_of(filters.begin(), filters.end(),
                         [&](const CaseFilter& filter) { return Fits(filter, parts); });
    };
    for (const NamedNode& model : models_) {
      for (const NamedNode& schedule : schedules_) {
        for (const NamedNode& mesh : meshes_) {
          for (const NamedNode& precision : precisions_) {
            const Parts parts = {model, schedule, mesh, precision};
            SL_ASSIGN_OR_RETURN(SuiteCase made, MakeCase(root, parts));
            if (!only_.empty() && !fits_one(only_, parts)) continue;
            if (fits_one(without_, parts)) continue;
            suite_.cases.push_back(std::move(made));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // A run trains all steps at a constant rate, and prints nothing before its end.
  YAML::Node TrainSection() const {
    YAML::Node train;
    train["steps"] = suite_.warm_up + suite_.steps;
    train["learning_rate"] = kSuiteLearningRate;
    train["final_learning_rate"] = kSuiteLearningRate;
    train["log_every"] = 1'000'000;
    return train;
  }

  // All but the schedule; the parts are those of the suite, and keep their lines.
  YAML::Node RunFileOf(const YAML::Node& root, const Parts& parts) const {
    YAML::Node run;
    run["model"] = parts.model.node;
    run["data"] = root["data"];
    run["mesh"] = parts.mesh.node;
    run["precision"] = parts.precision.node;
    if (root["device"]) run["device"] = root["device"];
    run["train"] = TrainSection();
    return run;
  }

  absl::StatusOr<SuiteCase> MakeCase(const YAML::Node& root, const Parts& parts) const {
    YAML::Node run = RunFileOf(root, parts);
    run["schedule"] = parts.schedule.node;
    SuiteCase made;
    SL_ASSIGN_OR_RETURN(made.config, ReadRunConfig(run, path_));
    SL_ASSIGN_OR_RETURN(made.config.schedule_file,
                        FileOrLibrary(parts.schedule.node["file"], made.config.schedule_file));
    made.model = parts.model.name;
    made.schedule = parts.schedule.name;
    made.mesh = parts.mesh.name;
    made.precision = parts.precision.name;
    made.name = absl::StrCat(made.model, " ", made.schedule, " ", made.mesh,
                             made.mesh.empty() ? "" : " ", made.precision);
    made.sizes = OnOneLine(parts.model.node);
    YAML::Node whole = YAML::Clone(RunFileOf(root, parts));
    const RunConfig& config = made.config;
    if (!config.model_folder.empty()) whole["model"]["folder"] = WholePath(config.model_folder);
    if (!config.model_export.empty()) whole["model"]["export"] = WholePath(config.model_export);
    if (!config.data.text.empty()) whole["data"]["text"] = WholePath(config.data.text);
    if (!config.data.tokens.empty()) whole["data"]["tokens"] = WholePath(config.data.tokens);
    if (const std::string& lengths = config.data.packed.lengths; !lengths.empty()) {
      whole["data"]["packed"] = WholePath(lengths);
    }
    whole["schedule"]["file"] = kPlanOfCase;
    made.run_file = OnOneLine(whole);
    return made;
  }

  // A file beside the suite, or a schedule of the library by its name alone.
  absl::StatusOr<std::string> FileOrLibrary(const YAML::Node& node,
                                            const std::string& beside) const {
    std::error_code error;
    if (fs::exists(beside, error)) return beside;
    const std::string& name = node.Scalar();
    if (OpenOfLibrary(name).ok()) return name;
    std::vector<std::string> names;
    for (const LibrarySchedule& schedule : ScheduleLibrary()) names.push_back(schedule.name);
    const std::string close = ClosestName(name, names);
    return Complain(
        node, absl::StrCat("schedules.file: there is no file ", beside,
                           ", and the library has no '", name, "'",
                           close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
  }

  const std::string& path_;
  Suite suite_;
  std::vector<NamedNode> models_, schedules_, meshes_, precisions_;
  std::vector<CaseFilter> only_, without_;
};

}  // namespace

absl::StatusOr<Suite> ReadSuite(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const Source source, ReadSource(path));
  SL_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(source));
  try {
    return SuiteReader(path).Read(root);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace stringline
