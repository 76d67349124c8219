// A section is a table of keys, each with its target and its range, and one reader serves them all.
// The model's kind is looked at first, since it decides on the keys. Words that only mean something
// with other keys are kept as wishes until all is read.
#include "executor/run_config.h"

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
#include "executor/section_reader.h"
#include "executor/torch_model/export_file.h"
#include "schedlang/base/align.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/sim/cost_keys.h"
#include "schedlang/sim/model_keys.h"

namespace stringline {
namespace {

constexpr WordChoice kDevice = {"device", {"auto", "cpu", "cuda"}};
constexpr WordChoice kPrecision = {model_key::kPrecision, {"fp32", "bf16"}};
constexpr WordChoice kCapture = {"capture", {"auto", "off"}};
constexpr WordChoice kSharding = {model_key::kSharding,
                                  {"none", "optimizer", "gradients", "parameters"}};
constexpr WordChoice kElastic = {"elastic", {"false", "true"}};

// What else says how a GPU is used.
constexpr const char* kKeysOfCuda[] = {"capture", "gpus", "sms_per_rank", "nccl"};
constexpr double kMostGpus = 1024;
constexpr double kMostSms = 4096;

// What follows from the keys that were given.
void Complete(GptShape*) {}
void Complete(RaisedShape*) {}
void Complete(DecoderShape* shape) {
  if (shape->kv_heads == 0) shape->kv_heads = shape->heads;
  if (shape->head_dim == 0) shape->head_dim = shape->width / std::max(1, shape->heads);
}

// The kinds of `model`, each with a shape that nothing has been filled into.
struct Kind {
  const char* name;
  AnyShape shape;
};
const std::vector<Kind>& Kinds() {
  static const std::vector<Kind>& kinds =
      *new std::vector<Kind>{{kModelKinds[0].name, GptShape()},
                             {kModelKinds[1].name, DecoderShape()},
                             {kModelKinds[2].name, DecoderShape()}};
  return kinds;
}

// What a run file says that is looked at again when all is read.
struct Wishes {
  std::string kind;
  int context = 0;
  int microbatch = 0;
  std::string scores = "softmax";
  std::string capacity = "dropless";
  std::string exceeded = "error";
  std::vector<std::string> recompute;
  std::string rows = "padded";
  std::string sums = "ordered";
  std::string layout = "edge";
  int replicate = 0;
  std::vector<std::string> split;  // of an exported model
};

// A raised model has no sizes of its own.
std::vector<Field> FieldsOf(RaisedShape*) { return {}; }

// The keys of `model` beside `split`; it has `origin`, "folder" or "export", or "" for neither.
std::vector<Field> ModelFields(RunConfig* config, Wishes* wishes, absl::string_view origin) {
  std::vector<Field> model;
  if (!origin.empty()) {
    const Field from = origin == "export" ? Field{"export", &config->model_export}
                                          : Field{"folder", &config->model_folder};
    model = {from, {model_key::kContext, &wishes->context, 1, kMostCount, false}};
  } else {
    model = std::visit([](auto& shape) { return FieldsOf(&shape); }, config->shape.family);
    model.push_back({model_key::kKind, &wishes->kind, 0, 0, false});
    if (wishes->kind == "moe") {
      MoeShape& moe = std::get<DecoderShape>(config->shape.family).moe;
      for (Field& field : model)
        field.required = field.required && field.key != absl::string_view(model_key::kHidden);
      for (const Field& field :
           FieldsOf(&moe, &wishes->scores, &wishes->capacity, &wishes->exceeded)) {
        model.push_back(field);
      }
    }
  }
  if (origin == "export") {
    model.push_back({"split", &wishes->split, 0, kMostCount, false});
  } else {
    model.push_back({"split", &config->layers_per_stage, 0, kMostCount, false});
  }
  return model;
}

std::vector<Section> SectionsOf(RunConfig* config, Wishes* wishes, absl::string_view origin) {
  AdamW& adam = config->optimizer;
  return {
      {"schedule",
       {{"file", &config->schedule_file}, {"name", &config->schedule_name, 0, 0, false}},
       &config->parameters},
      {"model", ModelFields(config, wishes, origin)},
      {"data",
       {{"text", &config->text_file, 0, 0, false},
        {"tokens", &config->tokens_file, 0, 0, false},
        {"dtype", &config->tokens_dtype, 0, 0, false},
        {model_key::kMicrobatch, &wishes->microbatch, 1, kMostCount}}},
      {"train",
       {{"steps", &config->steps, 1, 1e9},
        {"learning_rate", &adam.learning_rate, 0, 10},
        {"warmup_steps", &config->warmup_steps, 0, 1e9, false},
        {"final_learning_rate", &config->final_rate, 0, 10, false},
        {"beta1", &adam.beta1, 0, 0.999999, false},
        {"beta2", &adam.beta2, 0, 0.999999, false},
        {"weight_decay", &adam.weight_decay, 0, 10, false},
        {"clip_norm", &config->clip_norm, 0, 1e9, false},
        {"seed", &config->seed, 0, 9e15, false},
        {"threads", &config->threads, 0, 1024, false},
        {"log_every", &config->log_every, 1, 1e9, false},
        {"recompute", &wishes->recompute, 0, 0, false},
        {"recompute_weights", &config->recompute.for_weights, 0, 0, false}}},
      {"mesh",
       {{model_key::kPipeline, &config->mesh_pipeline, 1, kMostCount, false},
        {model_key::kData, &config->mesh.data, 1, kMostCount, false},
        {model_key::kExpert, &config->mesh.expert, 1, kMostCount, false},
        {model_key::kShard, &config->mesh.shard, 1, kMostCount, false},
        {model_key::kReplicate, &wishes->replicate, 1, kMostCount, false}},
       nullptr,
       /*required=*/false},
      {"checkpoint",
       {{"every", &config->checkpoint.every, 1, 1e9},
        {"folder", &config->checkpoint.folder},
        {"keep", &config->checkpoint.keep, 1, kMostCount, false}},
       nullptr,
       /*required=*/false},
      {"nccl",
       {{"min_ctas", &config->nccl.min_ctas, 0, 64, false},
        {"max_ctas", &config->nccl.max_ctas, 0, 64, false},
        {"rows", &wishes->rows, 0, 0, false},
        {"sums", &wishes->sums, 0, 0, false},
        {"layout", &wishes->layout, 0, 0, false},
        {"capture", &config->nccl.capture, 0, 0, false}},
       nullptr,
       /*required=*/false},
  };
}

class RunFile : private SectionReader {
 public:
  RunFile(const std::string& path, RunConfig* config) : SectionReader(path), config_(config) {}

  absl::Status Read(const YAML::Node& root) {
    SL_RETURN_IF_ERROR(ReadSections(root));
    SL_RETURN_IF_ERROR(TakeDevice(root));
    SL_RETURN_IF_ERROR(TakeSharding(root));
    SL_ASSIGN_OR_RETURN(const int precision, WordBeside(root, kPrecision));
    SL_ASSIGN_OR_RETURN(const int elastic, WordBeside(root, kElastic));
    config_->elastic = elastic == 1;
    if (!config_->model_export.empty()) {
      SL_RETURN_IF_ERROR(TakeExport(root["model"]));
    } else if (config_->model_folder.empty()) {
      std::visit([](auto& shape) { Complete(&shape); }, config_->shape.family);
    } else {
      config_->model_folder = BesideFile(config_->model_folder);
      SL_ASSIGN_OR_RETURN(config_->shape, ReadFolderShape(config_->model_folder, wishes_.context));
    }
    config_->shape = config_->shape.WithMicrobatch(wishes_.microbatch);
    config_->shape.dtype = precision == 0 ? DType::kF32 : DType::kBF16;
    SL_RETURN_IF_ERROR(CheckData(root["data"]));
    SL_RETURN_IF_ERROR(TakeWords(root["model"], root["train"]));
    SL_RETURN_IF_ERROR(TakeNcclWords(root["nccl"]));
    for (std::string* file : {&config_->schedule_file, &config_->text_file, &config_->tokens_file,
                              &config_->checkpoint.folder}) {
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
    const std::vector<Section> sections = SectionsOf(config_, &wishes_, origin);
    std::vector<std::string> keys;
    for (const Section& section : sections) keys.push_back(section.key);
    const size_t sections_end = keys.size();
    for (const WordChoice& choice : {kDevice, kPrecision, kCapture, kSharding, kElastic}) {
      keys.push_back(choice.key);
    }
    for (const char* const key : {"timeout", "gpus", "sms_per_rank", "bucket"}) keys.push_back(key);
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
    SL_ASSIGN_OR_RETURN(const int device, WordBeside(root, kDevice));
    SL_ASSIGN_OR_RETURN(const int capture, WordBeside(root, kCapture));
    config_->device = static_cast<DeviceKind>(device);
    config_->capture = capture == 0;
    SL_RETURN_IF_ERROR(TakeInUnit(root, "timeout", CostUnit::kTime, &config_->timeout_ns));
    SL_RETURN_IF_ERROR(TakeGpus(root["gpus"]));
    if (const YAML::Node sms = root["sms_per_rank"]) {
      const Field field = {"sms_per_rank", &config_->sms_per_rank, 1, kMostSms};
      SL_RETURN_IF_ERROR(ReadInt("sms_per_rank", field, sms, &config_->sms_per_rank));
    }
    for (const char* const key : kKeysOfCuda) {
      if (config_->device != DeviceKind::kCpu || !root[key]) continue;
      return Complain(root[key], absl::StrCat(key, ": 'device: cpu' has none"));
    }
    return absl::OkStatus();
  }

  absl::Status TakeSharding(const YAML::Node& root) {
    SL_ASSIGN_OR_RETURN(const int sharding, WordBeside(root, kSharding));
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
    // A stage before the first module, and the last one holds the head.
    layers.assign(wishes_.split.size() + 1, 1);
    layers.front() = layers.back() = 0;
    config_->shape = *cut;
    return absl::OkStatus();
  }

  // Relative paths count from the run file.
  std::string BesideFile(const std::string& file) const {
    return (std::filesystem::path(path()).parent_path() / file).lexically_normal().string();
  }

  // Which keys `model` takes depends on one of them.
  absl::Status ChooseKind(const YAML::Node& model) {
    if (!model || !model.IsMap() || !model["kind"]) return absl::OkStatus();
    const YAML::Node node = model["kind"];
    std::vector<std::string> names;
    for (const Kind& kind : Kinds()) {
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
    SL_ASSIGN_OR_RETURN(const int rows,
                        ChooseWord(nccl, "nccl", "rows", wishes_.rows, {"padded", "counted"}));
    SL_ASSIGN_OR_RETURN(const int sums,
                        ChooseWord(nccl, "nccl", "sums", wishes_.sums, {"ordered", "nccl"}));
    SL_RETURN_IF_ERROR(
        ChooseWord(nccl, "nccl", "layout", wishes_.layout, {"edge", "pair", "updown", "shared"})
            .status());
    config_->layout = *ReadCommLayout(wishes_.layout);
    config_->nccl.counted_rows = rows == 1;
    config_->nccl.own_sums = sums == 1;
    return absl::OkStatus();
  }

  // The keys whose values are words.
  absl::Status TakeWords(const YAML::Node& model, const YAML::Node& train) {
    for (const std::string& word : wishes_.recompute) {
      SL_ASSIGN_OR_RETURN(const int recompute, ChooseWord(train, "train", "recompute", word,
                                                          {"none", "attn", "experts", "all"}));
      config_->recompute.what = static_cast<Recompute>(recompute);
      if (train["recompute"].IsSequence()) {
        config_->recompute.by_stage.push_back(config_->recompute.what);
      }
    }
    if (wishes_.kind != "moe") return absl::OkStatus();
    MoeShape& moe = std::get<DecoderShape>(config_->shape.family).moe;
    SL_ASSIGN_OR_RETURN(const int scores, ChooseWord(model, "model", "scores", wishes_.scores,
                                                     {"softmax", "sigmoid"}));
    moe.scores = static_cast<RouterScores>(scores);
    SL_ASSIGN_OR_RETURN(const int exceeded, ChooseWord(model, "model", "exceeded", wishes_.exceeded,
                                                       {"error", "drop"}));
    moe.overflow = static_cast<Overflow>(exceeded);
    if (wishes_.capacity == "dropless") return absl::OkStatus();
    const Field factor = {"capacity", &moe.capacity, 1e-3, 1e6};
    if (!absl::SimpleAtod(wishes_.capacity, &moe.capacity)) {
      return Complain(model["capacity"],
                      absl::StrCat("model.capacity: expected a factor or 'dropless', got '",
                                   wishes_.capacity, "'"));
    }
    return InRange("model.capacity", factor, model["capacity"], moe.capacity);
  }

  absl::Status CheckData(const YAML::Node& data) const {
    if (config_->text_file.empty() == config_->tokens_file.empty()) {
      return Complain(data, "data: expected one of text and tokens");
    }
    const int vocabulary = config_->shape.vocabulary();
    if (!config_->text_file.empty() && vocabulary < 256) {
      return Complain(data["text"], absl::StrCat("data.text: a text has 256 different bytes, but "
                                                 "model.vocabulary is ",
                                                 vocabulary));
    }
    const std::string& dtype = config_->tokens_dtype;
    if (dtype.empty()) return absl::OkStatus();
    if (config_->tokens_file.empty()) {
      return Complain(data["dtype"], "data.dtype: only data.tokens has one");
    }
    if (dtype == "uint16" || dtype == "uint32") return absl::OkStatus();
    return Complain(data["dtype"],
                    absl::StrCat("data.dtype: expected uint16 or uint32, got '", dtype, "'"));
  }

  RunConfig* const config_;
  Wishes wishes_;
};

}  // namespace

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
