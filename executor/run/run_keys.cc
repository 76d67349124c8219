// The sections of a run file as lists of keys, each with the place that it fills; read one way they
// are the reader's, and the other way they give a config's settings back.
#include "executor/run/run_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/model_sizes.h"
#include "executor/run/run_fields.h"
#include "schedlang/costs/model_keys.h"
#include "stages/text.h"

namespace stringline {
namespace {

// An exported model has no sizes of its own.
std::vector<Field> FieldsOf(RaisedShape*) { return {}; }

// The sizes of a model of the wishes' kind.
std::vector<Field> SizeFields(RunConfig* config, RunWishes* wishes) {
  std::vector<Field> model =
      std::visit([](auto& shape) { return FieldsOf(&shape); }, config->shape.family);
  if (wishes->kind != "moe") return model;
  for (Field& field : model) {
    field.required = field.required && field.key != absl::string_view(model_key::kHidden);
  }
  MoeShape& moe = std::get<DecoderShape>(config->shape.family).moe;
  for (const Field& field : FieldsOf(&moe, &wishes->scores, &wishes->capacity, &wishes->exceeded)) {
    model.push_back(field);
  }
  return model;
}

std::vector<Field> ModelFields(RunConfig* config, RunWishes* wishes, absl::string_view origin) {
  const Field context = {model_key::kContext, &wishes->context, 1, kMostCount, false};
  if (origin == "export") {
    return {{"export", &config->model_export},
            context,
            {"split", &wishes->split, 0, kMostCount, false}};
  }
  const Field split = {"split", &config->layers_per_stage, 0, kMostCount, false};
  if (origin == "folder") {
    return {{"folder", &config->model_folder},
            context,
            split,
            {"dropout", &wishes->dropout, 0, 1, false},
            {model_key::kAuxCoefficient, &wishes->aux_coefficient, 0, 100, false},
            {model_key::kCapacity, &wishes->capacity, 0, 0, false},
            {model_key::kExceeded, &wishes->exceeded, 0, 0, false}};
  }
  std::vector<Field> model = SizeFields(config, wishes);
  model.push_back({model_key::kKind, &wishes->kind, 0, 0, false});
  model.push_back(split);
  return model;
}

// The wishes of a run file with this config.
RunWishes WishesOf(const RunConfig& config) {
  RunWishes wishes;
  wishes.kind = KindOf(config.shape);
  wishes.context = config.shape.context();
  wishes.microbatch = config.shape.microbatch();
  if (const auto* const decoder = std::get_if<DecoderShape>(&config.shape.family)) {
    const MoeShape& moe = decoder->moe;
    wishes.scores = kScoresKey.words[static_cast<size_t>(moe.scores)];
    wishes.exceeded = kExceededKey.words[static_cast<size_t>(moe.overflow)];
    if (moe.capacity != 0) wishes.capacity = PrintNumber(moe.capacity);
  }
  const RecomputePolicy& recompute = config.recompute;
  const auto word = [](Recompute what) { return kRecomputeKey.words[static_cast<size_t>(what)]; };
  for (const Recompute what : recompute.by_stage) wishes.recompute.emplace_back(word(what));
  if (recompute.by_stage.empty()) wishes.recompute.emplace_back(word(recompute.what));
  wishes.rows = kRowsKey.words[config.nccl.counted_rows ? 1 : 0];
  wishes.sums = kSumsKey.words[config.nccl.own_sums ? 1 : 0];
  wishes.layout = NameOf(config.layout);
  wishes.replicate = config.mesh.data / config.mesh.shards();
  return wishes;
}

struct PrintTarget {
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const double* value) const { return PrintNumber(*value); }
  std::string operator()(const PackedWish* wish) const {
    return wish->end >= 0 ? absl::StrCat("end ", wish->end) : wish->lengths;
  }
  template <typename Item>
  std::string operator()(const std::vector<Item>* values) const {
    return absl::StrCat("[", absl::StrJoin(*values, ", "), "]");
  }
  template <typename Integer>
  std::string operator()(const Integer* value) const {
    return absl::StrCat(*value);
  }
};

// The keys beside the sections; a key with a unit is in nanoseconds or in bytes.
RunSettings SettingsBeside(const RunConfig& config) {
  const auto word = [](const WordChoice& choice, auto value) {
    return std::pair<std::string, std::string>(choice.key,
                                               choice.words[static_cast<size_t>(value)]);
  };
  const std::string ordinals = PrintTarget()(&config.gpus.ordinals);
  return {word(kDeviceKey, config.device),
          word(kPrecisionKey, config.shape.dtype == DType::kBF16),
          word(kCaptureKey, !config.capture),
          word(kDeterministicKey, !config.deterministic),
          word(kShardingKey, config.sharding),
          word(kElasticKey, config.elastic),
          word(kTransportKey, config.transport),
          {"timeout", absl::StrCat(config.timeout_ns, "ns")},
          {"gpus", config.gpus.ordinals.empty() ? absl::StrCat(config.gpus.count) : ordinals},
          {"sms_per_rank", absl::StrCat(config.sms_per_rank)},
          {"bucket", absl::StrCat(config.bucket_bytes)}};
}

// The sections of what a run does beside its steps, and of its processes.
std::vector<Section> SectionsBesideTraining(RunConfig* config, RunWishes* wishes) {
  return {
      {"evaluate",
       {{"every", &config->evaluate.every, 1, 1e9},
        {"text", &config->evaluate.data.text, 0, 0, false},
        {"tokens", &config->evaluate.data.tokens, 0, 0, false},
        {"dtype", &config->evaluate.data.dtype, 0, 0, false},
        {"samples", &config->evaluate.data.samples, 0, 0, false},
        {"packed", &config->evaluate.data.packed, 0, kMostCount, false},
        {"sequences", &config->evaluate.sequences, 1, 1e9, false},
        {"schedule", &config->evaluate.schedule_file, 0, 0, false}},
       nullptr,
       /*required=*/false},
      {"checkpoint",
       {{"every", &config->checkpoint.every, 1, 1e9},
        {"folder", &config->checkpoint.folder},
        {"keep", &config->checkpoint.keep, 1, kMostCount, false}},
       nullptr,
       /*required=*/false},
      {"heal",
       {{"every", &config->heal_every, 1, 1e9}, {"return", &config->heal_return, 0, 0, false}},
       nullptr,
       /*required=*/false},
      {"metrics",
       {{"every", &config->metrics.every, 1, 1e9},
        {"file", &config->metrics.file, 0, 0, false},
        {"prometheus", &config->metrics.prometheus, 0, 0, false},
        {"tensorboard", &config->metrics.tensorboard, 0, 0, false}},
       nullptr,
       /*required=*/false},
      {"nccl",
       {{"min_ctas", &config->nccl.min_ctas, 0, 64, false},
        {"max_ctas", &config->nccl.max_ctas, 0, 64, false},
        {"free_sms", &config->nccl.free_sms, 0, 64, false},
        {"rows", &wishes->rows, 0, 0, false},
        {"sums", &wishes->sums, 0, 0, false},
        {"layout", &wishes->layout, 0, 0, false},
        {"capture", &config->nccl.capture, 0, 0, false}},
       nullptr,
       /*required=*/false},
  };
}

}  // namespace

const std::vector<RunModelKind>& RunModelKinds() {
  static const std::vector<RunModelKind>& kinds =
      *new std::vector<RunModelKind>{{kModelKinds[0].name, GptShape()},
                                     {kModelKinds[1].name, DecoderShape()},
                                     {kModelKinds[2].name, DecoderShape()},
                                     {"encoder_decoder", EncoderDecoderShape()}};
  return kinds;
}

std::vector<Section> RunSections(RunConfig* config, RunWishes* wishes, absl::string_view origin) {
  AdamW& adam = config->optimizer;
  std::vector<Section> sections = {
      {"schedule",
       {{"file", &config->schedule_file}, {"name", &config->schedule_name, 0, 0, false}},
       &config->parameters},
      {"model", ModelFields(config, wishes, origin)},
      {"data",
       {{"text", &config->data.text, 0, 0, false},
        {"tokens", &config->data.tokens, 0, 0, false},
        {"dtype", &config->data.dtype, 0, 0, false},
        {"samples", &config->data.samples, 0, 0, false},
        {"packed", &config->data.packed, 0, kMostCount, false},
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
        {"check_copies", &config->check_copies, 1, 1e9, false},
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
  };
  for (Section& section : SectionsBesideTraining(config, wishes)) {
    sections.push_back(std::move(section));
  }
  return sections;
}

RunSettings SettingsOf(const RunConfig& config) {
  RunConfig read = config;
  RunWishes wishes = WishesOf(config);
  RunSettings settings;
  for (const Section& section : RunSections(&read, &wishes, "")) {
    for (const Field& field : section.fields) {
      settings.emplace_back(absl::StrCat(section.key, ".", field.key),
                            std::visit(PrintTarget(), field.target));
    }
    if (section.free == nullptr) continue;
    for (const Parameter& free : *section.free) {
      settings.emplace_back(absl::StrCat(section.key, ".", free.name), absl::StrCat(free.value));
    }
  }
  settings.emplace_back("model.folder", config.model_folder);
  settings.emplace_back("model.export", config.model_export);
  if (config.split_balanced) settings.emplace_back("model.split", "balanced");
  if (std::holds_alternative<RaisedShape>(config.shape.family)) {
    for (const auto& [name, value] : SizesOf(config.shape)) {
      if (name != absl::string_view("model")) {
        settings.emplace_back(absl::StrCat("model.", name), value);
      }
    }
  }
  for (auto& setting : SettingsBeside(config)) settings.push_back(std::move(setting));
  return settings;
}

}  // namespace stringline
