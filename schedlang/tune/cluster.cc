#include "schedlang/tune/cluster.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/hardware_library.h"
#include "schedlang/costs/read_costs_on.h"

namespace stringline::tune {
namespace {

constexpr int64_t kMostGpus = 1'000'000;
constexpr int64_t kMillion = 1'000'000;
constexpr const char* kHardwareKeys =
    "a hardware file has flops (a second, by precision: {bf16: 989e12, fp8: 1979e12}), memory, "
    "memory_bandwidth, efficiency, bandwidth and p2p between nodes, and node: {ranks, bandwidth, "
    "p2p}";

absl::Status ErrorAt(const Source& source, const YAML::Node& node, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat(source.path(), ":", node.Mark().line + 1, ": ", message));
}

// The hardware file of this name or path.
absl::StatusOr<Source> FindHardware(const Source& cluster, const YAML::Node& node) {
  const std::string word = node.IsScalar() ? node.Scalar() : "";
  std::vector<std::string> known;
  for (const KnownHardware& hardware : HardwareLibrary()) {
    if (word == hardware.name) return Source(absl::StrCat(word, ".yaml"), hardware.text);
    known.emplace_back(hardware.name);
  }
  const std::filesystem::path path =
      std::filesystem::path(cluster.path()).parent_path() / std::filesystem::path(word);
  const bool is_path = absl::StrContains(word, '/') || absl::EndsWith(word, ".yaml");
  if (is_path) {
    absl::StatusOr<Source> file = ReadSource(path.string());
    if (file.ok()) return file;
    return ErrorAt(cluster, node, absl::StrCat("hardware: ", file.status().message()));
  }
  const std::string close = ClosestName(word, known);
  return ErrorAt(cluster, node,
                 absl::StrCat("hardware: '", word, "' is not known",
                              close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?"),
                              " (there are ", absl::StrJoin(known, ", "),
                              "); else give the path of a file: ", kHardwareKeys));
}

// The keys of `own` in place of those of `base`, maps key by key.
YAML::Node Merged(const YAML::Node& base, const YAML::Node& own) {
  if (!base.IsMap() || !own.IsMap()) return own;
  YAML::Node merged(YAML::NodeType::Map);
  for (const auto& entry : base) merged[entry.first.Scalar()] = entry.second;
  for (const auto& entry : own) {
    const std::string key = entry.first.Scalar();
    merged[key] = base[key] ? Merged(base[key], entry.second) : entry.second;
  }
  return merged;
}

absl::Status CheckWords(const Source& source, const YAML::Node& map) {
  if (!map.IsMap()) return absl::InvalidArgumentError(source.path() + ": expected a map of keys");
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) return ErrorAt(source, entry.first, "a key is not a word");
  }
  return absl::OkStatus();
}

absl::StatusOr<Cluster> ReadMap(const Source& source) {
  SL_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(source));
  SL_RETURN_IF_ERROR(CheckWords(source, root));
  for (const char* const needed : {"hardware", "gpus"}) {
    if (root[needed]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(source.path(), ": '", needed, "' is missing (hardware: h100, gpus: 1024)"));
  }
  Cluster cluster;
  const YAML::Node gpus = root["gpus"];
  if (!gpus.IsScalar() || !absl::SimpleAtoi(gpus.Scalar(), &cluster.gpus) || cluster.gpus < 1 ||
      cluster.gpus > kMostGpus) {
    return ErrorAt(source, gpus, absl::StrCat("gpus: expected a number from 1 to ", kMostGpus));
  }
  if (const YAML::Node reserve = root["reserve"]) {
    const absl::StatusOr<int64_t> share =
        ParseInUnit(CostUnit::kShare, reserve.IsScalar() ? reserve.Scalar() : "");
    if (!share.ok() || *share >= kMillion) {
      return ErrorAt(source, reserve, "reserve: expected a share of a GPU's memory, as 6%");
    }
    cluster.reserve = *share;
  }
  SL_ASSIGN_OR_RETURN(const Source hardware, FindHardware(source, root["hardware"]));
  cluster.name = root["hardware"].Scalar();
  SL_ASSIGN_OR_RETURN(const YAML::Node base, LoadYaml(hardware));
  SL_RETURN_IF_ERROR(CheckWords(hardware, base));
  YAML::Node own(YAML::NodeType::Map);
  for (const auto& entry : root) {
    const std::string key = entry.first.Scalar();
    if (key != "hardware" && key != "gpus" && key != "reserve") own[key] = entry.second;
  }
  cluster.machine = Source(source.path(), absl::StrCat(YAML::Dump(Merged(base, own)), "\n"));
  return cluster;
}

// The error without a line of the merged hardware file, which nobody has written.
absl::Status WithoutLine(const std::string& path, const absl::Status& error) {
  const std::string message(error.message());
  if (!absl::StartsWith(message, path + ":")) return error;
  size_t end = path.size() + 1;
  while (end < message.size() && absl::ascii_isdigit(message[end])) ++end;
  if (end == path.size() + 1 || end == message.size() || message[end] != ':') return error;
  return absl::Status(error.code(), path + message.substr(end));
}

}  // namespace

absl::StatusOr<Cluster> ReadCluster(const Source& source) {
  try {
    return ReadMap(source);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.path(), ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<CostSpec> ReadModel(const Source& source, const Cluster& cluster) {
  absl::StatusOr<CostSpec> read = ReadCostsOn(source, cluster.machine);
  if (!read.ok()) return WithoutLine(cluster.machine.path(), read.status());
  CostSpec spec = *std::move(read);
  const ModelShape usual;
  const ModelShape& model = spec.formula->model;
  const auto refuse = [&source](absl::string_view key, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(source.path(), ": ", key, ": ", why));
  };
  constexpr const char* kChosen = "the planner chooses it; fix it with --pin";
  if (model.tensor != usual.tensor || model.pipeline != usual.pipeline ||
      model.copies != usual.copies || model.expert != usual.expert || model.shard != usual.shard ||
      model.replicate != usual.replicate || model.sequence != usual.sequence ||
      model.layout != usual.layout) {
    return refuse("mesh", kChosen);
  }
  if (model.microbatch != usual.microbatch) return refuse("data.microbatch", kChosen);
  if (spec.sharding) return refuse("sharding", kChosen);
  if (spec.values.count("recompute") > 0) return refuse("recompute", kChosen);
  if (model.recomputes_cheap || model.recomputed_layers > 0) {
    return refuse("layer_recompute", kChosen);
  }
  if (model.hosted_layers > 0) return refuse("layer_offload", kChosen);
  if (!spec.microbatches.empty()) return refuse("microbatch", "unequal ones are not planned for");
  for (const auto& [key, values] : spec.values) {
    const CostKey* const known = FindCostKey(key);
    if (known != nullptr && !known->per_stage) continue;
    return refuse(key, "is a measured cost of stages, and the planner cuts a model into many");
  }
  if (spec.values.count("memory.capacity") == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        cluster.machine.path(), ": the memory of a GPU is not known; ", kHardwareKeys));
  }
  int64_t& capacity = spec.values["memory.capacity"][0];
  capacity -=
      std::llround(static_cast<double>(capacity) * 1e-6 * static_cast<double>(cluster.reserve));
  return spec;
}

}  // namespace stringline::tune
