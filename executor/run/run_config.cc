// A section is a table of keys (run_keys.h), each with its target and its range, and a single
// reader serves them all. The model's kind is read first, since the kind decides on the keys. Words
// whose meaning depends on other keys are kept as wishes until all is read.
#include "executor/run/run_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/run/run_keys.h"
#include "executor/run/section_reader.h"
#include "executor/torch_model/export_file.h"
#include "schedlang/base/align.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {
namespace {

// Further keys for GPUs only.
constexpr const char* kKeysOfCuda[] = {"capture", "gpus", "sms_per_rank", "nccl"};
constexpr double kMostGpus = 1024;
constexpr double kMostSms = 4096;

// Fills in the defaults that depend on other keys.
void Complete(GptShape*) {}
void Complete(EncoderDecoderShape*) {}
void Complete(RaisedShape*) {}
void Complete(DecoderShape* shape) {
  if (shape->kv_heads == 0) shape->kv_heads = shape->heads;
  if (shape->head_dim == 0) shape->head_dim = shape->width / std::max(1, shape->heads);
}

class RunFile : private SectionReader {
 public:
  RunFile(const std::string& path, RunConfig* config) : SectionReader(path), config_(config) {}

  absl::Status Read(const YAML::Node& root) {
    SL_RETURN_IF_ERROR(ReadSections(root));
    SL_RETURN_IF_ERROR(TakeDevice(root));
    SL_RETURN_IF_ERROR(TakeSharding(root));
    SL_ASSIGN_OR_RETURN(const int precision, WordBeside(root, kPrecisionKey));
    SL_ASSIGN_OR_RETURN(const int elastic, WordBeside(root, kElasticKey));
    config_->elastic = elastic == 1;
    if (!config_->model_export.empty()) {
      SL_RETURN_IF_ERROR(TakeExport(root["model"]));
    } else if (config_->model_folder.empty()) {
      std::visit([](auto& shape) { Complete(&shape); }, config_->shape.family);
    } else {
      SL_RETURN_IF_ERROR(TakeFolder(root["model"]));
    }
    config_->shape = config_->shape.WithMicrobatch(wishes_.microbatch);
    config_->shape.dtype = precision == 0 ? DType::kF32 : DType::kBF16;
    SL_RETURN_IF_ERROR(CheckData("data", root["data"], config_->data));
    if (const YAML::Node evaluate = root["evaluate"]) {
      SL_RETURN_IF_ERROR(CheckData("evaluate", evaluate, config_->evaluate.data));
    }
    SL_RETURN_IF_ERROR(TakeWords(root["model"], root["train"]));
    SL_RETURN_IF_ERROR(TakeNcclWords(root["nccl"]));
    DataFiles& data = config_->data;
    auto& evaluate = config_->evaluate;
    for (std::string* file :
         {&config_->schedule_file, &data.text, &data.tokens, &data.samples, &data.packed.lengths,
          &evaluate.schedule_file, &evaluate.data.text, &evaluate.data.tokens,
          &evaluate.data.samples, &evaluate.data.packed.lengths, &config_->checkpoint.folder}) {
      if (!file->empty()) *file = BesideFile(*file);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadSections(const YAML::Node& root) {
    if (!root.IsMap()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path(), ": expected the sections schedule, model, data and train"));
    }
    SL_RETURN_IF_ERROR(ChooseKind(root["model"]));
    const YAML::Node model = root["model"];
    const auto has = [&model](const char* key) { return model && model.IsMap() && model[key]; };
    const char* const origin = has("export") ? "export" : has("folder") ? "folder" : "";
    const std::vector<Section> sections = RunSections(config_, &wishes_, origin);
    std::vector<std::string> keys;
    for (const Section& section : sections) keys.push_back(section.key);
    const size_t sections_end = keys.size();
    for (const WordChoice& choice : kWordsBeside) keys.push_back(choice.key);
    for (const char* const key : kNumbersBeside) keys.push_back(key);
    std::set<std::string> seen;
    for (const auto& entry : root) {
      SL_ASSIGN_OR_RETURN(const std::string key, KeyOf(entry.first, &seen));
      const auto section = std::find(keys.begin(), keys.end(), key);
      if (section == keys.end()) {
        return Complain(entry.first, WhyUnknown("section", key, key, keys));
      }
      const auto at = static_cast<size_t>(section - keys.begin());
      if (at >= sections_end) continue;
      SL_RETURN_IF_ERROR(ReadSection(sections[at], entry.second));
    }
    for (const Section& section : sections) {
      if (!section.required || root[section.key]) continue;
      return absl::InvalidArgumentError(absl::StrCat(path(), ": no section '", section.key, "'"));
    }
    return absl::OkStatus();
  }

  absl::Status TakeDevice(const YAML::Node& root) {
    SL_ASSIGN_OR_RETURN(const int device, WordBeside(root, kDeviceKey));
    SL_ASSIGN_OR_RETURN(const int capture, WordBeside(root, kCaptureKey));
    config_->device = static_cast<DeviceKind>(device);
    config_->capture = capture == 0;
    SL_ASSIGN_OR_RETURN(const int deterministic, WordBeside(root, kDeterministicKey));
    config_->deterministic = deterministic == 0;
    if (config_->device == DeviceKind::kCpu && !config_->deterministic) {
      return Complain(root[kDeterministicKey.key],
                      "deterministic: 'device: cpu' has nothing else than on");
    }
    SL_RETURN_IF_ERROR(TakeInUnit(root, "timeout", CostUnit::kTime, &config_->timeout_ns));
    SL_RETURN_IF_ERROR(TakeGpus(root["gpus"]));
    if (const YAML::Node sms = root["sms_per_rank"]) {
      const Field field = {"sms_per_rank", &config_->sms_per_rank, 1, kMostSms};
      SL_RETURN_IF_ERROR(ReadInt("sms_per_rank", field, sms, &config_->sms_per_rank));
    }
    SL_ASSIGN_OR_RETURN(const int transport, WordBeside(root, kTransportKey));
    config_->transport = static_cast<TransportKind>(transport);
    if (config_->transport == TransportKind::kMpi && config_->device == DeviceKind::kCuda) {
      return Complain(root[kTransportKey.key],
                      "transport: 'device: cuda' has NCCL for messages, and tcp beside it");
    }
    for (const char* const key : kKeysOfCuda) {
      if (config_->device != DeviceKind::kCpu || !root[key]) continue;
      return Complain(root[key], absl::StrCat(key, ": 'device: cpu' has none"));
    }
    return absl::OkStatus();
  }

  absl::Status TakeSharding(const YAML::Node& root) {
    SL_ASSIGN_OR_RETURN(const int sharding, WordBeside(root, kShardingKey));
    config_->sharding = static_cast<Sharding>(sharding);
    SL_RETURN_IF_ERROR(TakeInUnit(root, "bucket", CostUnit::kBytes, &config_->bucket_bytes));
    if (config_->bucket_bytes < kBufferAlignment) {
      return Complain(root["bucket"],
                      absl::StrCat("bucket: at least ", kBufferAlignment, " bytes"));
    }
    const absl::Status fits = CompleteMesh(config_->sharding, wishes_.replicate, &config_->mesh);
    return fits.ok() ? fits : Complain(root["mesh"], fits.message());
  }

  // A number of GPUs, a list of their numbers, or all.
  absl::Status TakeGpus(const YAML::Node& node) {
    GpuWish& gpus = config_->gpus;
    if (!node) return absl::OkStatus();
    if (node.IsSequence() && node.size() > 0) {
      const Field field = {"gpus", &gpus.ordinals, 0, kMostGpus};
      for (const YAML::Node& item : node) {
        SL_RETURN_IF_ERROR(ReadInt("gpus", field, item, &gpus.ordinals.emplace_back()));
      }
      return absl::OkStatus();
    }
    if (node.IsScalar() && node.Scalar() == "all") {
      gpus.count = 0;
      return absl::OkStatus();
    }
    if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &gpus.count)) {
      return Complain(
          node, absl::StrCat("gpus: expected a number, a list like [0, 2], or all", Seen(node)));
    }
    return InRange("gpus", {"gpus", &gpus.count, 1, kMostGpus}, node, gpus.count);
  }

  absl::Status TakeFolder(const YAML::Node& model) {
    if (model["dropout"] && wishes_.dropout != 0) {
      return Complain(model["dropout"], absl::StrCat("model.dropout: there is no dropout here; 0 "
                                                     "trains without",
                                                     Seen(model["dropout"])));
    }
    config_->model_folder = BesideFile(config_->model_folder);
    const bool without_dropout = static_cast<bool>(model["dropout"]);
    SL_ASSIGN_OR_RETURN(config_->shape,
                        ReadFolderShape(config_->model_folder, wishes_.context, without_dropout));
    auto* const decoder = std::get_if<DecoderShape>(&config_->shape.family);
    if (decoder != nullptr && decoder->moe.experts > 0) {
      if (model[model_key::kAuxCoefficient]) {
        decoder->moe.aux_coefficient = wishes_.aux_coefficient;
      }
      return TakeCapacity(model, &decoder->moe);
    }
    for (const char* const key :
         {model_key::kAuxCoefficient, model_key::kCapacity, model_key::kExceeded}) {
      if (!model[key]) continue;
      return Complain(model[key], absl::StrCat("model.", key, ": the model of ",
                                               config_->model_folder, " has no experts"));
    }
    return absl::OkStatus();
  }

  absl::Status TakeExport(const YAML::Node& model) {
    config_->model_export = BesideFile(config_->model_export);
    SL_ASSIGN_OR_RETURN(config_->shape, ReadExportedShape(config_->model_export, wishes_.context));
    const absl::Status fits = CheckShape(config_->shape.WithMicrobatch(wishes_.microbatch));
    if (!fits.ok()) return Complain(model, fits.message());
    config_->split_balanced = wishes_.split == std::vector<std::string>{"balanced"};
    if (config_->split_balanced) return absl::OkStatus();
    std::vector<int>& layers = config_->layers_per_stage;
    for (const std::string& word : wishes_.split) {
      if (!absl::SimpleAtoi(word, &layers.emplace_back())) layers.pop_back();
    }
    if (layers.size() == wishes_.split.size()) return absl::OkStatus();
    const auto& raised = std::get<RaisedShape>(config_->shape.family);
    const absl::StatusOr<RaisedShape> cut = CutAtModules(raised, wishes_.split);
    if (!cut.ok()) {
      return Complain(model["split"], absl::StrCat("model.split: ", cut.status().message()));
    }
    // An empty stage before the first module; the last stage holds the head.
    layers.assign(wishes_.split.size() + 1, 1);
    layers.front() = layers.back() = 0;
    config_->shape = *cut;
    return absl::OkStatus();
  }

  // Relative paths count from the run file.
  std::string BesideFile(const std::string& file) const {
    return (std::filesystem::path(path()).parent_path() / file).lexically_normal().string();
  }

  // The keys of `model` depend on `kind`, `folder` or `export`.
  absl::Status ChooseKind(const YAML::Node& model) {
    if (!model || !model.IsMap() || !model["kind"]) return absl::OkStatus();
    const YAML::Node node = model["kind"];
    std::vector<std::string> names;
    for (const RunModelKind& kind : RunModelKinds()) {
      names.push_back(kind.name);
      if (!node.IsScalar() || node.Scalar() != kind.name) continue;
      config_->shape = kind.shape;
      wishes_.kind = kind.name;
      return absl::OkStatus();
    }
    return Complain(node,
                    absl::StrCat("model.kind: expected ", absl::StrJoin(names, " or "), Seen(node),
                                 node.IsScalar() ? DidYouMean(node.Scalar(), names) : ""));
  }

  absl::Status TakeNcclWords(const YAML::Node& nccl) {
    SL_ASSIGN_OR_RETURN(const int rows, ChooseWord(nccl, "nccl", kRowsKey, wishes_.rows));
    SL_ASSIGN_OR_RETURN(const int sums, ChooseWord(nccl, "nccl", kSumsKey, wishes_.sums));
    SL_RETURN_IF_ERROR(ChooseWord(nccl, "nccl", kLayoutKey, wishes_.layout).status());
    config_->layout = *ReadCommLayout(wishes_.layout);
    config_->nccl.counted_rows = rows == 1;
    config_->nccl.own_sums = sums == 1;
    return absl::OkStatus();
  }

  // The keys whose values are words.
  absl::Status TakeWords(const YAML::Node& model, const YAML::Node& train) {
    for (const std::string& word : wishes_.recompute) {
      SL_ASSIGN_OR_RETURN(const int recompute, ChooseWord(train, "train", kRecomputeKey, word));
      config_->recompute.what = static_cast<Recompute>(recompute);
      if (train["recompute"].IsSequence()) {
        config_->recompute.by_stage.push_back(config_->recompute.what);
      }
    }
    if (wishes_.kind != "moe") return absl::OkStatus();
    MoeShape& moe = std::get<DecoderShape>(config_->shape.family).moe;
    SL_ASSIGN_OR_RETURN(const int scores, ChooseWord(model, "model", kScoresKey, wishes_.scores));
    moe.scores = static_cast<RouterScores>(scores);
    return TakeCapacity(model, &moe);
  }

  absl::Status TakeCapacity(const YAML::Node& model, MoeShape* moe) const {
    SL_ASSIGN_OR_RETURN(const int exceeded,
                        ChooseWord(model, "model", kExceededKey, wishes_.exceeded));
    moe->overflow = static_cast<Overflow>(exceeded);
    if (wishes_.capacity == "dropless") return absl::OkStatus();
    const Field factor = {"capacity", &moe->capacity, 1e-3, 1e6};
    if (!absl::SimpleAtod(wishes_.capacity, &moe->capacity)) {
      return Complain(model["capacity"],
                      absl::StrCat("model.capacity: expected a factor or 'dropless', got '",
                                   wishes_.capacity, "'"));
    }
    return InRange("model.capacity", factor, model["capacity"], moe->capacity);
  }

  // Texts and tokens have a target for each token, and are cut anywhere.
  absl::Status CheckForModel(const char* section, const YAML::Node& node,
                             const DataFiles& data) const {
    if (!data.samples.empty()) {
      if (!data.packed.wanted()) return absl::OkStatus();
      return Complain(node["packed"],
                      absl::StrCat(section, ".packed: samples hold no documents in a row"));
    }
    const absl::Status takes = CheckTakesTexts(config_->shape);
    if (takes.ok()) return absl::OkStatus();
    const char* const key = data.text.empty() ? "tokens" : "text";
    return Complain(node[key], absl::StrCat(section, ".", key, ": ", takes.message()));
  }

  absl::Status CheckData(const char* section, const YAML::Node& node, const DataFiles& data) const {
    const int given = (data.text.empty() ? 0 : 1) + (data.tokens.empty() ? 0 : 1) +
                      (data.samples.empty() ? 0 : 1);
    if (given != 1) {
      return Complain(node, absl::StrCat(section, ": expected one of text, tokens and samples"));
    }
    SL_RETURN_IF_ERROR(CheckForModel(section, node, data));
    const int vocabulary = config_->shape.vocabulary();
    if (!data.text.empty() && vocabulary < 256) {
      return Complain(node["text"],
                      absl::StrCat(section, ".text: a text has 256 different bytes, but ",
                                   "model.vocabulary is ", vocabulary));
    }
    if (data.packed.end >= vocabulary) {
      return Complain(node["packed"],
                      absl::StrCat(section, ".packed.end: no token is ", data.packed.end,
                                   ": model.vocabulary is ", vocabulary));
    }
    if (data.dtype.empty()) return absl::OkStatus();
    if (data.tokens.empty()) {
      return Complain(node["dtype"],
                      absl::StrCat(section, ".dtype: only ", section, ".tokens has one"));
    }
    if (data.dtype == "uint16" || data.dtype == "uint32") return absl::OkStatus();
    return Complain(node["dtype"], absl::StrCat(section, ".dtype: expected uint16 or uint32, got '",
                                                data.dtype, "'"));
  }

  RunConfig* const config_;
  RunWishes wishes_;
};

}  // namespace

absl::Status CheckTakesTexts(const AnyShape& shape) {
  if (!std::holds_alternative<RaisedShape>(shape.family)) return absl::OkStatus();
  const SampleShape sample = shape.sample();
  if (!sample.numbers && shape.source() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the exported model reads ",
      sample.numbers ? "numbers"
                     : absl::StrCat("sequences of ", shape.context(), " tokens with ",
                                    sample.targets, sample.targets == 1 ? " target" : " targets"),
      "; samples, a file of inputs with their targets, would help"));
}

absl::StatusOr<RunConfig> ReadRunConfig(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const Source source, ReadSource(path));
  SL_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(source));
  return ReadRunConfig(root, path);
}

absl::StatusOr<RunConfig> ReadRunConfig(const YAML::Node& root, const std::string& path) {
  RunConfig config;
  config.path = path;
  try {
    SL_RETURN_IF_ERROR(RunFile(path, &config).Read(root));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
  return config;
}

double LearningRate(const RunConfig& config, int64_t step) {
  const double peak = config.optimizer.learning_rate;
  if (step < config.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  const int64_t rest = std::max<int64_t>(1, config.steps - config.warmup_steps);
  const double share = static_cast<double>(step - config.warmup_steps) / static_cast<double>(rest);
  constexpr double kPi = 3.14159265358979323846;
  return config.final_rate + (peak - config.final_rate) * (1 + std::cos(kPi * share)) / 2;
}

}  // namespace stringline
