// A section is a table of keys, each with the field of the shape that the key sets. One function
// makes the errors of all, so a key is refused alike in every section.
#include "schedlang/costs/read_shape.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {
namespace {

// A key that the formula uses, and its field.
struct ShapeField {
  const char* name;
  int64_t ModelShape::*value;
};
constexpr ShapeField kModelFields[] = {
    {model_key::kLayers, &ModelShape::layers},
    {model_key::kWidth, &ModelShape::width},
    {model_key::kHeads, &ModelShape::heads},
    {model_key::kContext, &ModelShape::context},
    {model_key::kVocabulary, &ModelShape::vocabulary},
    {model_key::kKvHeads, &ModelShape::kv_heads},
    {model_key::kHeadDim, &ModelShape::head_dim},
    {model_key::kHidden, &ModelShape::hidden},
    {model_key::kExperts, &ModelShape::experts},
    {model_key::kTopK, &ModelShape::top_k},
    {model_key::kExpertHidden, &ModelShape::expert_hidden},
    {model_key::kSharedHidden, &ModelShape::shared_hidden},
    {model_key::kFirstDense, &ModelShape::first_dense},
    {model_key::kTopGroups, &ModelShape::top_groups},
};
// Keys of llama and moe models that only cost files know.
constexpr ShapeField kCostFields[] = {
    {model_key::kQRank, &ModelShape::q_rank},     {model_key::kKvRank, &ModelShape::kv_rank},
    {model_key::kRopeDim, &ModelShape::rope_dim}, {model_key::kValueDim, &ModelShape::value_dim},
    {model_key::kWindow, &ModelShape::window},    {model_key::kPredicted, &ModelShape::predicted},
};
constexpr ShapeField kDataFields[] = {{model_key::kMicrobatch, &ModelShape::microbatch}};
constexpr ShapeField kMeshFields[] = {
    {model_key::kPipeline, &ModelShape::pipeline},   {model_key::kData, &ModelShape::copies},
    {model_key::kExpert, &ModelShape::expert},       {model_key::kShard, &ModelShape::shard},
    {model_key::kReplicate, &ModelShape::replicate}, {model_key::kTensor, &ModelShape::tensor},
    {model_key::kContext, &ModelShape::sequence}};
constexpr int64_t kAllLayers = 1'000'000;
// Keys of a run file's `data` for the text.
constexpr const char* kTextKeys[] = {"text", "tokens", "dtype"};

absl::Status NoKey(const std::string& section, const std::string& name,
                   const std::vector<std::string>& known) {
  const std::string key = absl::StrCat(section, ".", name);
  const std::string why = WhyNoKey(key);
  if (!why.empty()) return absl::InvalidArgumentError(absl::StrCat("'", key, "' ", why));
  const std::string close = ClosestName(name, known);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown key '", key, "'",
                   close.empty() ? absl::StrCat(" (there are ", absl::StrJoin(known, ", "), ")")
                                 : absl::StrCat("; did you mean '", close, "'?")));
}

absl::Status ReadSize(const std::string& name, const YAML::Node& value, int64_t least,
                      int64_t* size) {
  if (value.IsScalar() && absl::SimpleAtoi(value.Scalar(), size) && *size >= least &&
      *size <= 1'000'000'000) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected a number from ", least));
}

// The index of one of the words; the error names them.
absl::StatusOr<int> ReadWord(const std::string& name, const YAML::Node& value,
                             const std::vector<std::string>& words) {
  const std::string word = value.IsScalar() ? value.Scalar() : "";
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": expected ", absl::StrJoin(words, " or ")));
}

// Checks that the keys which this kind of model needs are given.
absl::Status CheckComplete(const ModelShape& shape) {
  std::vector<ShapeField> needed(kModelFields, kModelFields + 4);
  if (shape.kind == kLlamaModel || shape.first_dense > 0) {
    needed.push_back({model_key::kHidden, &ModelShape::hidden});
  }
  if (shape.kind == kMoeModel) {
    needed.push_back({model_key::kExperts, &ModelShape::experts});
    needed.push_back({model_key::kTopK, &ModelShape::top_k});
    needed.push_back({model_key::kExpertHidden, &ModelShape::expert_hidden});
  }
  for (const ShapeField& field : needed) {
    if (shape.*field.value > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("model.", field.name, " is missing"));
  }
  return absl::OkStatus();
}

// Latent attention has vectors of keys and values, and heads of a size of their own.
absl::Status CheckLatent(const ModelShape& shape) {
  const std::pair<const char*, int64_t> others[] = {{model_key::kQRank, shape.q_rank},
                                                    {model_key::kRopeDim, shape.rope_dim},
                                                    {model_key::kValueDim, shape.value_dim}};
  for (const auto& [name, value] : others) {
    if (value == 0 || shape.kv_rank > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.", name, ": is of latent attention, which needs model.kv_rank"));
  }
  if (shape.kv_rank > 0 && (shape.head_dim == 0 || shape.kv_heads > 0)) {
    return absl::InvalidArgumentError(
        "model.kv_rank: latent attention needs model.head_dim, the channels of a head without "
        "positions, and takes no model.kv_heads");
  }
  return absl::OkStatus();
}

// "full", or a number of layers of each stage.
absl::Status ReadLayers(const char* key, const char* others, const YAML::Node& value,
                        int64_t* layers) {
  const std::string word = value.IsScalar() ? value.Scalar() : "";
  if (word == "all" || word == "none") {
    *layers = word == "all" ? kAllLayers : 0;
    return absl::OkStatus();
  }
  if (absl::SimpleAtoi(word, layers) && *layers >= 0 && *layers < kAllLayers) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": expected none, ", others, "all, or a number of layers of each stage"));
}

// An expert's capacity counts where it drops rows.
absl::Status ReadCapacity(const YAML::Node& map, ModelShape* shape) {
  const YAML::Node exceeded = map[model_key::kExceeded], capacity = map[model_key::kCapacity];
  if (!exceeded || !exceeded.IsScalar() || exceeded.Scalar() != "drop" || !capacity) {
    return absl::OkStatus();
  }
  const std::string word = capacity.IsScalar() ? capacity.Scalar() : "";
  if (word == "dropless") return absl::OkStatus();
  double share = 0;
  if (!absl::SimpleAtod(word, &share) || !(share >= 1e-3 && share <= 1000)) {
    return absl::InvalidArgumentError(
        "model.capacity: expected 'dropless', or the rows that an expert takes, over its even "
        "share (1.25), up to 1000");
  }
  shape->capacity = static_cast<int32_t>(std::lround(share * 1e6));
  return absl::OkStatus();
}

absl::Status ReadModel(const YAML::Node& map, ModelShape* shape) {
  if (const YAML::Node kind = map[model_key::kKind]) {
    std::vector<std::string> names;
    for (const auto& row : kModelKinds) names.push_back(row.name);
    SL_ASSIGN_OR_RETURN(const int found, ReadWord("model.kind", kind, names));
    shape->kind = kModelKinds[found].kind;
  }
  std::vector<std::string> known;
  for (const ModelKey& key : ModelKeys()) {
    if (key.kinds & shape->kind) known.push_back(key.name);
  }
  const bool more = (shape->kind & kDecoderModel) != 0;
  for (const ShapeField& field : kCostFields) {
    if (more) known.push_back(field.name);
  }
  for (const auto& entry : map) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return NoKey("model", name, known);
    }
    const auto* const alone = std::find_if(std::begin(kCostFields), std::end(kCostFields),
                                           [&](const ShapeField& row) { return name == row.name; });
    if (alone != std::end(kCostFields)) {
      SL_RETURN_IF_ERROR(
          ReadSize(absl::StrCat("model.", name), entry.second, 1, &(shape->*alone->value)));
      continue;
    }
    const auto* const key = std::find_if(ModelKeys().begin(), ModelKeys().end(),
                                         [&](const ModelKey& row) { return name == row.name; });
    if (key->least < 0) continue;
    for (const ShapeField& field : kModelFields) {
      if (name != field.name) continue;
      SL_RETURN_IF_ERROR(
          ReadSize(absl::StrCat("model.", name), entry.second, key->least, &(shape->*field.value)));
    }
  }
  SL_RETURN_IF_ERROR(ReadCapacity(map, shape));
  SL_RETURN_IF_ERROR(CheckComplete(*shape));
  return CheckLatent(*shape);
}

// A section of sizes from 1, and of keys that change no cost.
absl::Status ReadSizes(const std::string& section, const YAML::Node& map,
                       absl::Span<const ShapeField> fields, absl::Span<const char* const> others,
                       ModelShape* shape) {
  std::vector<std::string> known(others.begin(), others.end());
  for (const ShapeField& field : fields) known.push_back(field.name);
  for (const auto& entry : map) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return NoKey(section, name, known);
    }
    for (const ShapeField& field : fields) {
      if (name != field.name) continue;
      SL_RETURN_IF_ERROR(
          ReadSize(absl::StrCat(section, ".", name), entry.second, 1, &(shape->*field.value)));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadMeshMap(const YAML::Node& map, ModelShape* shape) {
  if (const YAML::Node layout = map[model_key::kLayout]) {
    SL_ASSIGN_OR_RETURN(const int word, ReadWord("mesh.layout", layout, {"own", "megatron"}));
    shape->layout = static_cast<MeshLayout>(word);
  }
  constexpr const char* kOthers[] = {model_key::kLayout};
  return ReadSizes("mesh", map, kMeshFields, kOthers, shape);
}

}  // namespace

absl::StatusOr<bool> ReadShapeSection(const std::string& name, const YAML::Node& value,
                                      ModelShape* shape) {
  if (name == model_key::kPrecision) {
    SL_ASSIGN_OR_RETURN(const int word,
                        ReadWord(name, value, {std::begin(kPrecisions), std::end(kPrecisions)}));
    shape->precision = static_cast<Precision>(word);
    shape->bytes = shape->precision == Precision::kFp32 ? 4 : 2;
    return true;
  }
  if (name == model_key::kScoresOf) {
    SL_ASSIGN_OR_RETURN(const int word, ReadWord(name, value, {"fused", "written"}));
    shape->writes_scores = word == 1;
    return true;
  }
  if (name == model_key::kLayerRecompute) {
    shape->recomputes_cheap = value.IsScalar() && value.Scalar() == "selective";
    if (shape->recomputes_cheap) return true;
    SL_RETURN_IF_ERROR(
        ReadLayers(model_key::kLayerRecompute, "selective, ", value, &shape->recomputed_layers));
    return true;
  }
  if (name == model_key::kLayerOffload) {
    SL_RETURN_IF_ERROR(ReadLayers(model_key::kLayerOffload, "", value, &shape->hosted_layers));
    return true;
  }
  if (name == model_key::kBucket) {
    const auto bytes = ParseWithUnit(CostUnit::kBytes, value.IsScalar() ? value.Scalar() : "");
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("bucket: ", bytes.status().message()));
    }
    shape->bucket = *bytes;
    if (shape->bucket > 0) return true;
    return absl::InvalidArgumentError("bucket: expected a number of bytes (25MiB)");
  }
  if (const std::string why = WhyNoKey(name); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' ", why));
  }
  if (name != "model" && name != "data" && name != "mesh") return false;
  if (!value.IsMap()) return absl::InvalidArgumentError(absl::StrCat(name, ": expected a map"));
  if (name == "model") SL_RETURN_IF_ERROR(ReadModel(value, shape));
  if (name == "data") SL_RETURN_IF_ERROR(ReadSizes(name, value, kDataFields, kTextKeys, shape));
  if (name == "mesh") SL_RETURN_IF_ERROR(ReadMeshMap(value, shape));
  return true;
}

absl::Status ReadMesh(absl::string_view text, ModelShape* shape) {
  YAML::Node map(YAML::NodeType::Map);
  for (const absl::string_view pair : absl::StrSplit(text, ',')) {
    const std::vector<std::string> words = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (words.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh: expected KEY=NUMBER, as data=16,shard=8; got '", pair, "'"));
    }
    map[words[0]] = words[1];
  }
  // Either key replaces the other.
  if (map[model_key::kShard]) shape->replicate = 0;
  if (map[model_key::kReplicate]) shape->shard = 0;
  return ReadMeshMap(map, shape);
}

absl::Status ResolveMesh(Sharding sharding, ModelShape* shape) {
  const auto divides = [](const char* key, int64_t part, const char* what, int64_t whole) {
    if (whole % part == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is ", part, ", which does not divide ", what, ", ", whole));
  };
  const bool megatron = shape->layout == MeshLayout::kMegatron;
  if (shape->sequence > 1 && !megatron) {
    return absl::InvalidArgumentError(
        "mesh.context: ranks that share sequences need 'mesh: {layout: megatron}'");
  }
  if (shape->sequence > 1) {
    SL_RETURN_IF_ERROR(divides("mesh.context", shape->sequence, "model.context", shape->context));
  }
  const int64_t copies = shape->copies * (megatron ? shape->sequence : 1);
  const char* const of =
      megatron && shape->sequence > 1 ? "mesh.data times mesh.context" : "mesh.data";
  if (shape->shard > 0) SL_RETURN_IF_ERROR(divides("mesh.shard", shape->shard, of, copies));
  if (shape->replicate > 0) {
    SL_RETURN_IF_ERROR(divides("mesh.replicate", shape->replicate, of, copies));
    const int64_t shard = copies / shape->replicate;
    if (shape->shard > 0 && shape->shard != shard) {
      return absl::InvalidArgumentError(absl::StrCat("mesh.shard is ", shape->shard, ", but ", of,
                                                     " / mesh.replicate is ", shard,
                                                     "; one of the two is enough"));
    }
    shape->shard = shard;
  }
  if (shape->shard == 0) shape->shard = copies;
  if (shape->kind == kMoeModel) {
    SL_RETURN_IF_ERROR(divides("mesh.expert", shape->expert, "model.experts", shape->experts));
    if (megatron) {
      SL_RETURN_IF_ERROR(divides("mesh.expert", shape->expert,
                                 "the ranks of a pipeline's stage (mesh.tensor times mesh.context "
                                 "times mesh.data)",
                                 shape->tensor * copies));
    }
  }
  if (sharding == Sharding::kNone || shape->shard > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "sharding: ", NameOf(sharding),
      " needs copies of the pipeline that share them out, and there is one (mesh: {data: 8})"));
}

}  // namespace stringline
