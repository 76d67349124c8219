// Hugging Face folders: saved models load, and misfits are reported.
#include "executor/checkpoint/model_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/stored_params.h"
#include "executor/checkpoint/tensor_file.h"
#include "executor/checkpoint/tensor_files.h"
#include "gtest/gtest.h"
#include "schedlang/base/source.h"
#include "stages/init.h"

namespace stringline {
namespace {

DecoderShape Decoder() {
  return {.layers = 2,
          .width = 12,
          .heads = 4,
          .context = 7,
          .vocabulary = 31,
          .microbatch = 1,
          .kv_heads = 2,
          .head_dim = 4,
          .hidden = 10,
          .rope_theta = 5e5};
}

DecoderShape Mixtral() {
  DecoderShape shape = Decoder();
  shape.hidden = 0;
  shape.moe.experts = 4;
  shape.moe.top_k = 2;
  shape.moe.expert_hidden = 6;
  return shape;
}

// With a dense first layer.
DecoderShape Qwen3Moe() {
  DecoderShape shape = Mixtral();
  shape.layers = 3;
  shape.hidden = 10;
  shape.qk_norm = true;
  shape.moe.first_dense = 1;
  shape.moe.normalise = false;
  return shape;
}

std::vector<AnyShape> Shapes() {
  DecoderShape qwen2 = Decoder(), qwen3 = Decoder();
  qwen2.qkv_bias = qwen2.tied = true;
  qwen3.qk_norm = true;
  return {GptShape{2, 12, 3, 7, 31, 1},
          GptShape{1, 8, 2, 5, 40, 1, true},
          Decoder(),
          qwen2,
          qwen3,
          Mixtral(),
          Qwen3Moe()};
}

// A model's parameters in memory, every matrix with values of its own; experts are divided among
// `ranks` ranks.
struct Memory {
  explicit Memory(const AnyShape& shape, uint64_t seed, int ranks = 1)
      : program(BuildModelStages(shape, {shape.layers()}, {.expert_ranks = ranks})->front()) {
    const size_t count = program.params.size();
    for (size_t v = 0; v < ranks * count; ++v) {
      values.emplace_back(program.params[v % count].type.elements());
    }
    for (size_t v = 0; v < values.size(); ++v) {
      const int rank = static_cast<int>(v / count);
      Param param = program.params[v % count];
      param.init = Init::kNormal;
      param.stddev = 1;
      Initialize(param, seed, values[v].data(), rank);
      places.Add(program.params[v % count], absl::MakeSpan(values[v]), param.expert ? rank : 0);
    }
  }
  StageProgram program;
  std::vector<std::vector<float>> values;  // by rank and parameter
  ParamPlaces places;
};

class ModelFolder : public testing::Test {
 protected:
  ~ModelFolder() override { std::filesystem::remove_all(folder_); }
  std::string Read(const std::string& name) const {
    return ReadBytes(folder_ + "/" + name, 1 << 24).value_or("");
  }
  void Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  // The message of an error, without the folder.
  std::string Says(const absl::Status& status) const {
    return absl::StrReplaceAll(status.message(), {{folder_ + "/", ""}});
  }
  const std::string folder_ = absl::StrCat(testing::TempDir(), "/stringline-folder-", getpid());
};

TEST_F(ModelFolder, WhatIsSavedIsLoaded) {
  for (const AnyShape& shape : Shapes()) {
    const Memory saved(shape, 1);
    Memory loaded(shape, 2);
    ASSERT_TRUE(SaveModelFolder(folder_, shape, 3, saved.places.all()).ok());
    const auto described = ReadFolderShape(folder_, 0);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->WithMicrobatch(1).family, shape.family);
    const absl::Status status = LoadModelFolder(folder_, shape, loaded.places.all());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(loaded.values, saved.values);
  }
}

// The files are the same for every number of ranks, and any number loads them.
TEST_F(ModelFolder, ExpertsThatAreSharedOutAreWholeInTheFile) {
  for (const DecoderShape& shape : {Mixtral(), Qwen3Moe()}) {
    std::string file;
    for (const int ranks : {1, 2, 4}) {
      const Memory saved(shape, 1, ranks);
      ASSERT_TRUE(SaveModelFolder(folder_, shape, 3, saved.places.all()).ok());
      if (ranks == 1) file = Read("model.safetensors");
      EXPECT_EQ(Read("model.safetensors"), file) << ranks;
      Memory loaded(shape, 2, ranks);
      const absl::Status status = LoadModelFolder(folder_, shape, loaded.places.all());
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(loaded.values, saved.values) << ranks;
    }
  }
}

// Gate is w1, up is w3, down is w2, with a tensor for every expert.
TEST_F(ModelFolder, ExpertsHaveTheirNames) {
  const AnyShape shape = Mixtral();
  const Memory saved(shape, 1);
  ASSERT_TRUE(SaveModelFolder(folder_, shape, 0, saved.places.all()).ok());
  const auto files = TensorFiles::Open(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto find = [](const ParamPlace& place) {
    return place.param.name == "layers.1.experts.gate_up.weight";
  };
  const auto& places = saved.places.all();
  const auto place = std::find_if(places.begin(), places.end(), find);
  ASSERT_NE(place, places.end());
  constexpr size_t kSize = 6 * 12;  // gate's, and up's
  for (const auto& [name, first] : std::map<std::string, size_t>{
           {"0.w1", 0}, {"0.w3", kSize}, {"3.w1", 6 * kSize}, {"3.w3", 7 * kSize}}) {
    const PlacedTensor tensor =
        files->all().at(absl::StrCat("model.layers.1.block_sparse_moe.experts.", name, ".weight"));
    EXPECT_EQ(tensor.tensor->shape, (std::vector<uint64_t>{6, 12})) << name;
    std::vector<float> values(kSize);
    ASSERT_TRUE(tensor.file->Read(*tensor.tensor, 0, absl::MakeSpan(values)).ok());
    EXPECT_EQ(absl::MakeConstSpan(values), place->pieces[0].copies[0].subspan(first, kSize))
        << name;
  }
}

// All experts of a layer in two tensors, as in transformers' memory.
TEST_F(ModelFolder, PackedExpertsAreRead) {
  const AnyShape shape = Qwen3Moe();
  const Memory saved(shape, 1);
  ASSERT_TRUE(SaveModelFolder(folder_, shape, 0, saved.places.all()).ok());
  TensorHeader header;
  std::string bytes;
  for (const ParamPlace& place : saved.places.all()) {
    for (const StoredSlice& slice : SlicesOf(place.param, shape, PackedExpertParams())) {
      const uint64_t begin = bytes.size();
      const auto first = static_cast<size_t>(slice.first_row * slice.columns);
      const auto count = static_cast<size_t>(slice.rows * slice.columns);
      const float* const values = place.pieces[0].copies[0].data() + first;
      bytes.append(reinterpret_cast<const char*>(values), count * sizeof(float));
      header.tensors.push_back({slice.name, "F32", slice.shape(), begin, bytes.size()});
      if (slice.name == "model.layers.1.mlp.experts.gate_up_proj") {
        EXPECT_EQ(slice.shape(), (std::vector<uint64_t>{4, 12, 12}));
      }
    }
  }
  Write("model.safetensors", PrintTensorHeader(header) + bytes);
  Memory loaded(shape, 2, 2);
  const absl::Status status = LoadModelFolder(folder_, shape, loaded.places.all());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(loaded.values, Memory(shape, 1, 2).values);
}

// A context shorter than the folder's takes the first positions.
TEST_F(ModelFolder, AShorterContextTakesTheFirstPositions) {
  GptShape shape{1, 8, 2, 5, 40, 1};
  const Memory saved(shape, 1);
  ASSERT_TRUE(SaveModelFolder(folder_, shape, 0, saved.places.all()).ok());
  shape.context = 3;
  Memory loaded(shape, 2);
  const absl::Status status = LoadModelFolder(folder_, shape, loaded.places.all());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(loaded.program.params[1].name, "position.weight");
  EXPECT_TRUE(
      std::equal(loaded.values[1].begin(), loaded.values[1].end(), saved.values[1].begin()));
}

TEST_F(ModelFolder, WhatNoFamilyHasIsNamed) {
  EXPECT_EQ(WhySavedWithoutConfig(Mixtral()), "");
  EXPECT_EQ(WhySavedWithoutConfig(Qwen3Moe()), "");
  const struct {
    std::function<void(DecoderShape*)> change;
    const char* says;
  } cases[] = {
      {[](DecoderShape* s) { s->qkv_bias = true; }, "experts and a bias of qkv (qkv_bias)"},
      {[](DecoderShape* s) { s->moe.scores = RouterScores::kSigmoid; },
       "a router with sigmoid scores (scores)"},
      {[](DecoderShape* s) { s->moe.balance_rate = 1e-3; }, "a bias of the router (balance_rate)"},
      {[](DecoderShape* s) { s->moe.shared_hidden = 4; }, "a shared expert (shared_hidden)"},
      {[](DecoderShape* s) { s->moe.groups = s->moe.top_groups = 2; },
       "groups of experts (groups)"},
      {[](DecoderShape* s) { s->moe.scale = 2.5; }, "a factor of experts' weights (scale)"},
      {[](DecoderShape* s) { s->moe.normalise = false; },
       "weights of experts with any sum (normalise) without norms of heads (qk_norm)"},
      {[](DecoderShape* s) { s->moe.first_dense = 1; },
       "dense layers before those with experts (first_dense) without norms of heads (qk_norm)"},
  };
  for (const auto& test : cases) {
    DecoderShape shape = Mixtral();
    test.change(&shape);
    EXPECT_EQ(WhySavedWithoutConfig(shape),
              absl::StrCat("no family of transformers that is known here has ", test.says));
  }
}

// Saved under our own names, without a config, and never beside a config.
TEST_F(ModelFolder, AModelOfNoFamilyIsSavedWithoutAConfig) {
  DecoderShape shape = Decoder();
  shape.qkv_bias = shape.qk_norm = true;
  EXPECT_EQ(WhySavedWithoutConfig(Decoder()), "");
  EXPECT_NE(WhySavedWithoutConfig(shape), "");
  const Memory saved(shape, 1);
  Memory loaded(shape, 2);
  ASSERT_TRUE(CheckSavable(folder_, shape).ok());
  ASSERT_TRUE(SaveModelFolder(folder_, shape, 3, saved.places.all()).ok());
  EXPECT_FALSE(IsThere(folder_ + "/config.json"));
  absl::Status status = LoadModelFolder(folder_, shape, loaded.places.all());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(loaded.values, saved.values);
  DecoderShape other = shape;
  other.rope_theta = 100;
  EXPECT_EQ(Says(LoadModelFolder(folder_, other, loaded.places.all())),
            "model.safetensors: the parameters of a model with theta '500000'; the run file's has "
            "100");
  Write("config.json", "{}");
  status = SaveModelFolder(folder_, shape, 3, saved.places.all());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Says(status),
            "config.json: is there, and the model would be saved without one: no family of "
            "transformers that is known here has both a bias of qkv and norms of heads; another "
            "folder would help");
  EXPECT_TRUE(CheckSavable(folder_, Decoder()).ok());
}

// Bits, and the float that they represent.
TEST_F(ModelFolder, NarrowFloatsAreWidened) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const struct {
    const char* dtype;
    std::vector<std::pair<uint16_t, float>> values;
  } cases[] = {
      {"BF16", {{0x3f80, 1}, {0xc040, -3}, {0x7f80, kInfinity}, {0x0001, 0x1p-133f}, {0x8000, 0}}},
      {"F16",
       {{0x3c00, 1},
        {0xc200, -3},
        {0x7bff, 65504},
        {0x0400, 0x1p-14f},
        {0x03ff, 1023 * 0x1p-24f},
        {0x8001, -0x1p-24f},
        {0x8000, 0},
        {0xfc00, -kInfinity},
        {0x3555, 0x1.554p-2f}}},
  };
  for (const auto& test : cases) {
    TensorHeader header;
    const uint64_t count = test.values.size();
    header.tensors = {{"x", test.dtype, {count}, 0, 2 * count}};
    std::string bytes = PrintTensorHeader(header);
    for (const auto& [bits, value] : test.values) {
      bytes.push_back(static_cast<char>(bits & 0xff));
      bytes.push_back(static_cast<char>(bits >> 8));
    }
    Write("x.safetensors", bytes);
    const auto file = TensorFile::Open(folder_ + "/x.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<float> all(count), tail(count - 1);
    ASSERT_TRUE(file->Read(file->header().tensors[0], 0, absl::MakeSpan(all)).ok());
    ASSERT_TRUE(file->Read(file->header().tensors[0], 1, absl::MakeSpan(tail)).ok());
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(all[i], test.values[i].second) << test.dtype << " " << i;
      EXPECT_EQ(std::signbit(all[i]), (test.values[i].first & 0x8000) != 0) << i;
    }
    for (size_t i = 1; i < count; ++i) {
      EXPECT_EQ(tail[i - 1], all[i]);
    }
  }
}

// The config of openai-community/gpt2, but for its sizes.
constexpr const char* kPublishedGpt2 = R"({"activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 7, "embd_pdrop": 0.1,
    "eos_token_id": 7, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 5, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 5,
    "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
    "torch_dtype": "bfloat16", "vocab_size": 40})";

// A context of 3 of a folder's 5 positions: the other rows, and all texts, are saved as they came.
TEST_F(ModelFolder, AFolderIsSavedAsItCame) {
  const GptShape whole{1, 8, 2, 5, 40, 1, true};
  const Memory given(whole, 1);
  ASSERT_TRUE(SaveModelFolder(folder_, whole, 0, given.places.all()).ok());
  Write("config.json", kPublishedGpt2);
  Write("generation_config.json", "{\"eos_token_id\": [7, 8],  \"_from_model_config\": true}");
  AnyShape shape = *ReadFolderShape(folder_, 3, /*without_dropout=*/true);
  shape = shape.WithMicrobatch(1);
  ASSERT_TRUE(KeepGiven(folder_, &shape).ok());
  Memory trained(shape, 2);
  ASSERT_TRUE(LoadModelFolder(folder_, shape, trained.places.all()).ok());
  ASSERT_EQ(trained.program.params[1].name, "position.weight");
  std::vector<float> wanted = given.values[1];
  for (size_t i = 0; i < 3 * 8; ++i) wanted[i] = trained.values[1][i] *= 2;
  const std::string saved = folder_ + "/saved";
  std::filesystem::create_directories(saved);
  ASSERT_TRUE(SaveModelFolder(saved, shape, 9, trained.places.all()).ok());
  const auto parsed = [](const std::string& text) { return nlohmann::json::parse(text); };
  nlohmann::json config = parsed(kPublishedGpt2);
  config["torch_dtype"] = "float32";  // the values beside it
  EXPECT_EQ(parsed(Read("saved/config.json")), config);
  EXPECT_EQ(Read("saved/generation_config.json"), Read("generation_config.json"));
  Memory again(whole, 3);
  const absl::Status status = LoadModelFolder(saved, whole, again.places.all());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(again.values[1], wanted);
  // A folder without a config has nothing to keep; a row that is no number is said.
  AnyShape none = whole;
  EXPECT_TRUE(KeepGiven(folder_ + "/nowhere", &none).ok());
  EXPECT_EQ(none.given, nullptr);
  Memory broken(whole, 1);
  broken.values[1].back() = std::numeric_limits<float>::quiet_NaN();
  std::string bytes = Read("model.safetensors");
  const std::string last(reinterpret_cast<const char*>(&given.values[1].back()), 4);
  const std::string nan(reinterpret_cast<const char*>(&broken.values[1].back()), 4);
  Write("model.safetensors", absl::StrReplaceAll(bytes, {{last, nan}}));
  EXPECT_EQ(Says(KeepGiven(folder_, &shape)),
            "model.safetensors: tensor 'transformer.wpe.weight' holds a value that is not finite");
}

// max_position_embeddings, the tokens of text's ends and the family stay those of the folder.
TEST_F(ModelFolder, AMistralStaysOne) {
  nlohmann::json config = nlohmann::json::parse(PrintFamilyConfig(Decoder()));
  config.update({{"model_type", "mistral"},
                 {"architectures", {"MistralForCausalLM"}},
                 {"max_position_embeddings", 32},
                 {"sliding_window", 32},
                 {"bos_token_id", 3},
                 {"eos_token_id", {4, 5}},
                 {"torch_dtype", "bfloat16"}});
  Write("config.json", config.dump());
  AnyShape shape = ReadFolderShape(folder_, 8)->WithMicrobatch(1);
  ASSERT_TRUE(KeepGiven(folder_, &shape).ok());
  config["torch_dtype"] = "float32";
  EXPECT_EQ(nlohmann::json::parse(PrintFamilyConfig(shape)), config);
  EXPECT_EQ(shape.context(), 8);
}

TEST_F(ModelFolder, SeveralFilesAreRead) {
  const AnyShape shape = Decoder();
  const Memory saved(shape, 1);
  ASSERT_TRUE(SaveModelFolder(folder_, shape, 0, saved.places.all()).ok());
  const std::string whole = Read("model.safetensors");
  const size_t data = *HeaderBytes(whole, whole.size()) + 8;
  const TensorHeader all = *ParseTensorHeader(whole.substr(8, data - 8), whole.size() - data);
  TensorHeader parts[2];
  std::string bytes[2], map;
  for (size_t t = 0; t < all.tensors.size(); ++t) {
    StoredTensor tensor = all.tensors[t];
    const size_t part = t % 2;
    const std::string own = whole.substr(data + tensor.begin, tensor.end - tensor.begin);
    tensor.begin = bytes[part].size();
    bytes[part] += own;
    tensor.end = bytes[part].size();
    parts[part].tensors.push_back(tensor);
    absl::StrAppend(&map, map.empty() ? "" : ",", "\"", tensor.name, "\":\"", part,
                    ".safetensors\"");
  }
  std::filesystem::remove(folder_ + "/model.safetensors");
  Memory loaded(shape, 2);
  const auto load = [&] { return LoadModelFolder(folder_, shape, loaded.places.all()); };
  EXPECT_EQ(load().code(), absl::StatusCode::kNotFound);
  for (int part = 0; part < 2; ++part) {
    Write(absl::StrCat(part, ".safetensors"), PrintTensorHeader(parts[part]) + bytes[part]);
  }
  const std::string index = absl::StrCat(R"({"metadata": {}, "weight_map": {)", map, "}}");
  Write("model.safetensors.index.json", index);
  const absl::Status status = load();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(loaded.values, saved.values);
  const struct {
    std::string index, says;
  } bad[] = {
      {"{", "model.safetensors.index.json: the index is not JSON"},
      {"{}", "model.safetensors.index.json: no object 'weight_map'"},
      {R"({"weight_map": {"x": "../1.safetensors"}})",
       "model.safetensors.index.json: '../1.safetensors' is no safetensors file in this folder"},
      {absl::StrReplaceAll(index, {{"\"model.norm.weight\"", "\"other\""}}),
       "1.safetensors: tensor 'model.norm.weight' is here, but not by the index"},
      {absl::StrReplaceAll(index,
                           {{R"("weight_map": {)", R"("weight_map": {"x":"1.safetensors",)"}}),
       "1.safetensors: tensor 'x' is missing: the index says that it is here"},
  };
  for (const auto& test : bad) {
    Write("model.safetensors.index.json", test.index);
    EXPECT_EQ(Says(load()), test.says);
  }
}

TEST_F(ModelFolder, TensorsThatDoNotFitAreNamed) {
  const AnyShape shape = Decoder();
  const Memory saved(shape, 1);
  ASSERT_TRUE(SaveModelFolder(folder_, shape, 0, saved.places.all()).ok());
  const std::string whole = Read("model.safetensors");
  const size_t data = *HeaderBytes(whole, whole.size()) + 8;
  const TensorHeader good = *ParseTensorHeader(whole.substr(8, data - 8), whole.size() - data);
  ASSERT_EQ(good.tensors[2].name, "model.layers.0.self_attn.q_proj.weight");
  Memory loaded(shape, 2);
  const std::vector<std::vector<float>> before = loaded.values;
  const struct {
    std::function<void(TensorHeader&)> change;
    const char* says;
  } cases[] = {
      {[](TensorHeader& h) { h.tensors[2].name = "q"; },
       "tensor 'model.layers.0.self_attn.q_proj.weight' is missing"},
      {[](TensorHeader& h) { h.tensors[2].dtype = "I32"; },
       "tensor 'model.layers.0.self_attn.q_proj.weight' has dtype I32; F32, BF16 and F16 are read"},
      {[](TensorHeader& h) { std::swap(h.tensors[2].shape[0], h.tensors[2].shape[1]); },
       "tensor 'model.layers.0.self_attn.q_proj.weight' has shape [12, 16]; the model's has "
       "[16, 12]"},
      {[](TensorHeader& h) {
         h.tensors.push_back({"more", "F32", {0}, h.tensors.back().end, h.tensors.back().end});
       },
       "tensor 'more' is not a parameter of this model"},
  };
  for (const auto& test : cases) {
    TensorHeader changed = good;
    test.change(changed);
    Write("model.safetensors", PrintTensorHeader(changed) + whole.substr(data));
    EXPECT_EQ(Says(LoadModelFolder(folder_, shape, loaded.places.all())),
              absl::StrCat("model.safetensors: ", test.says));
    EXPECT_EQ(loaded.values, before);
  }
  std::string config = Read("config.json");
  Write("config.json",
        absl::StrReplaceAll(config, {{"\"hidden_size\": 12", "\"hidden_size\": 14"}}));
  EXPECT_EQ(Says(LoadModelFolder(folder_, shape, loaded.places.all())),
            "config.json: the parameters of a model with width '14'; the run file's has 12");
}

}  // namespace
}  // namespace stringline
