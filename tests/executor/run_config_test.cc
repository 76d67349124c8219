// Every key of a run file reaches the run, and sets only its own field.
#include "executor/run/run_config.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

absl::StatusOr<RunConfig> ReadSections(
    const std::vector<std::pair<std::string, std::string>>& sections,
    const std::string& before = "") {
  const std::string path = absl::StrCat(testing::TempDir(), "/run_config_", getpid(), ".yaml");
  std::ofstream file(path);
  file << before;
  for (const auto& [name, keys] : sections) file << name << ": {" << keys << "}\n";
  file.close();
  auto config = ReadRunConfig(path);
  unlink(path.c_str());
  return config;
}

constexpr const char* kModel = "layers: 2, width: 16, heads: 2, context: 8";
constexpr const char* kData = "text: words.txt, microbatch: 2";

// A run file with these sections `model` and `data`.
absl::StatusOr<RunConfig> ReadModelAndData(const std::string& model, const std::string& data) {
  return ReadSections({{"schedule", "file: s.sched, P: 2, M: 4"},
                       {"model", model},
                       {"data", data},
                       {"train", "steps: 6, learning_rate: 0.125"}});
}

// The run file with `extra` in one of its sections.
absl::StatusOr<RunConfig> ReadWith(const std::string& section, const std::string& extra,
                                   const std::string& before = "") {
  std::vector<std::pair<std::string, std::string>> sections = {
      {"schedule", "file: s.sched, P: 2, M: 4"},
      {"model", kModel},
      {"data", kData},
      {"train", "steps: 6, learning_rate: 0.125"},
  };
  for (auto& [name, keys] : sections) keys += name == section ? extra : "";
  return ReadSections(sections, before);
}

// Every number of a config, in one list.
std::vector<double> NumbersOf(const RunConfig& config) {
  const GptShape& shape = std::get<GptShape>(config.shape.family);
  const AdamW& adam = config.optimizer;
  return {1.0 * shape.layers,
          1.0 * shape.width,
          1.0 * shape.heads,
          1.0 * shape.context,
          1.0 * shape.vocabulary,
          1.0 * shape.microbatch,
          static_cast<double>(config.steps),
          static_cast<double>(config.warmup_steps),
          config.final_rate,
          adam.learning_rate,
          adam.beta1,
          adam.beta2,
          adam.weight_decay,
          config.clip_norm,
          static_cast<double>(config.seed),
          1.0 * config.threads,
          static_cast<double>(config.log_every),
          static_cast<double>(config.check_copies)};
}

TEST(RunConfig, WhatIsNotSaidHasItsDefault) {
  const auto config = ReadWith("", "");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(NumbersOf(*config), (std::vector<double>{2, 16, 2, 8, 256, 2, 6, 0, 0, 0.125, 0.9, 0.95,
                                                     0.1, 1, 1, 0, 20, 0}));
  EXPECT_EQ(config->schedule_name, "");
  EXPECT_TRUE(config->layers_per_stage.empty());
  const std::string folder = testing::TempDir();
  EXPECT_EQ(config->schedule_file.rfind(folder, 0), 0u) << config->schedule_file;
  EXPECT_EQ(config->data.text.rfind(folder, 0), 0u) << config->data.text;
  ASSERT_EQ(config->parameters.size(), 2u);
  EXPECT_EQ(config->parameters[0].name, "P");
  EXPECT_EQ(config->parameters[0].value, 2);
  EXPECT_EQ(config->parameters[1].name, "M");
  EXPECT_EQ(config->parameters[1].value, 4);
}

// A key, its value, and the only number of the config that it sets.
struct Row {
  const char* key;
  double value;
  size_t place;  // index in NumbersOf
};

TEST(RunConfig, PackedIsAFileOfLengthsOrAToken) {
  const auto none = ReadWith("", "");
  EXPECT_FALSE(none->data.packed.wanted() || IsPacked(*none));
  const auto file = ReadWith("data", ", packed: lengths.txt");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->data.packed.lengths, testing::TempDir() + "lengths.txt");
  EXPECT_TRUE(IsPacked(*file));
  const auto token = ReadWith("data", ", packed: {end: 10}");
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->data.packed.end, 10);
  EXPECT_FALSE(token->evaluate.data.packed.wanted());
  const std::pair<const char*, const char*> wrong[] = {
      {"packed: {end: 256}", "data.packed.end: no token is 256: model.vocabulary is 256"},
      {"packed: {end: -1}", "data.packed.end: -1 is not in 0 .. 1048576"},
      {"packed: {end: x}", "data.packed.end: expected a whole number, got 'x'"},
      {"packed: {ends: 3}",
       "data.packed: expected a file with the lengths of documents, or {end: TOKEN}"},
      {"packed: [3, 5]",
       "data.packed: expected a file with the lengths of documents, or {end: TOKEN}"},
      {"packd: 3", "unknown key 'data.packd'; did you mean 'packed'?"},
  };
  for (const auto& [keys, message] : wrong) {
    const auto config = ReadWith("data", absl::StrCat(", ", keys));
    EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr(message));
  }
}

constexpr Row kTrainRows[] = {
    {"warmup_steps", 3, 7},
    {"final_learning_rate", 0.25, 8},
    {"beta1", 0.5, 10},
    {"beta2", 0.75, 11},
    {"weight_decay", 0.375, 12},
    {"clip_norm", 2.5, 13},
    {"seed", 77, 14},
    {"threads", 5, 15},
    {"log_every", 9, 16},
    {"check_copies", 7, 17},
};

TEST(RunConfig, EveryKeyOfTrainSetsItsOwnField) {
  const std::vector<double> defaults = NumbersOf(*ReadWith("", ""));
  for (const Row& row : kTrainRows) {
    const auto config = ReadWith("train", absl::StrCat(", ", row.key, ": ", row.value));
    ASSERT_TRUE(config.ok()) << config.status();
    std::vector<double> want = defaults;
    want[row.place] = row.value;
    EXPECT_EQ(NumbersOf(*config), want) << row.key;
  }
}

TEST(RunConfig, NamesOptionsAndTheSplitAreRead) {
  EXPECT_EQ(ReadWith("schedule", ", name: other")->schedule_name, "other");
  const auto option = ReadWith("schedule", ", V: 7");
  ASSERT_EQ(option->parameters.size(), 3u);
  EXPECT_EQ(option->parameters[2].name, "V");
  EXPECT_EQ(option->parameters[2].value, 7);
  EXPECT_EQ(ReadWith("model", ", split: [0, 2]")->layers_per_stage, (std::vector<int>{0, 2}));
}

TEST(RunConfig, RecomputeIsAWordOrOneAStage) {
  const auto all = ReadWith("train", ", recompute: all, recompute_weights: true");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->recompute.what, Recompute::kAll);
  EXPECT_TRUE(all->recompute.by_stage.empty());
  EXPECT_TRUE(all->recompute.for_weights);
  const auto each = ReadWith("train", ", recompute: [none, all, attn]");
  ASSERT_TRUE(each.ok()) << each.status();
  EXPECT_EQ(each->recompute.by_stage,
            (std::vector<Recompute>{Recompute::kNone, Recompute::kAll, Recompute::kAttn}));
  EXPECT_THAT(ReadWith("train", ", recompute: [none, some]").status().message(),
              testing::HasSubstr(":4: train.recompute: expected none or attn or experts or all or "
                                 "schedule, "
                                 "got 'some'"));
  EXPECT_THAT(ReadWith("train", ", recompute: {}").status().message(),
              testing::HasSubstr("train.recompute: expected a word, or a list of words"));
}

// A folder's model is the config's, but for what belongs to the run.
TEST(RunConfig, AFolderTakesTheKeysOfARun) {
  namespace fs = std::filesystem;
  const std::string folder = absl::StrCat(testing::TempDir(), "/run_config_folder_", getpid());
  fs::create_directories(folder);
  const std::string path = absl::StrCat("folder: ", folder, ", context: 8");
  const auto write = [&](const std::string& config) {
    std::ofstream(folder + "/config.json") << config;
  };
  const auto read = [&](const std::string& keys) {
    return ReadModelAndData(path + keys, "tokens: t.bin, microbatch: 2");
  };
  const std::string mixtral = R"({"model_type": "mixtral", "num_hidden_layers": 4,
      "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 10, "max_position_embeddings": 32, "vocab_size": 31,
      "num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.5,
      "attention_dropout": )";
  write(mixtral + "0}");
  const auto moe = [](const absl::StatusOr<RunConfig>& config) {
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? std::get<DecoderShape>(config->shape.family).moe : MoeShape();
  };
  EXPECT_EQ(moe(read("")).aux_coefficient, 0.25);
  EXPECT_EQ(moe(read("")).capacity, 0);
  EXPECT_EQ(moe(read(", aux_coefficient: 0")).aux_coefficient, 0);
  const MoeShape given = moe(read(", aux_coefficient: 0.02, capacity: 1.5, exceeded: drop"));
  EXPECT_EQ(given.aux_coefficient, 0.02);
  EXPECT_EQ(given.capacity, 1.5);
  EXPECT_EQ(given.overflow, Overflow::kDrop);
  EXPECT_THAT(
      read(", capacity: much").status().message(),
      testing::HasSubstr(":2: model.capacity: expected a factor or 'dropless', got 'much'"));
  EXPECT_THAT(read(", top_k: 1").status().message(),
              testing::HasSubstr(":2: 'model.top_k' is for 'kind: moe'"));
  EXPECT_THAT(read(", dropout: 0.1").status().message(),
              testing::HasSubstr(
                  ":2: model.dropout: there is no dropout here; 0 trains without, got '0.1'"));
  write(mixtral + "0.1}");
  EXPECT_THAT(read("").status().message(), testing::HasSubstr("'attention_dropout' is 0.1: "));
  EXPECT_TRUE(read(", dropout: 0").ok()) << read(", dropout: 0").status();
  write(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 40,
      "vocab_size": 40})");
  EXPECT_TRUE(read(", dropout: 0").ok()) << read(", dropout: 0").status();
  EXPECT_THAT(read(", dropout: 0, capacity: 2").status().message(),
              testing::AllOf(testing::HasSubstr(":2: model.capacity: the model of "),
                             testing::HasSubstr(" has no experts")));
  fs::remove_all(folder);
}

TEST(RunConfig, KindsOfModelsHaveTheirKeys) {
  const auto gpt =
      ReadModelAndData(absl::StrCat("kind: gpt, vocabulary: 300, tied: true, ", kModel), kData);
  ASSERT_TRUE(gpt.ok()) << gpt.status();
  EXPECT_EQ(std::get<GptShape>(gpt->shape.family), (GptShape{2, 16, 2, 8, 300, 2, true}));
  const auto plain = ReadModelAndData(absl::StrCat(kModel, ", kind: llama, hidden: 24"), kData);
  ASSERT_TRUE(plain.ok()) << plain.status();
  DecoderShape wanted{.layers = 2, .width = 16, .heads = 2, .context = 8, .microbatch = 2};
  wanted.kv_heads = 2;
  wanted.head_dim = 8;
  wanted.hidden = 24;
  EXPECT_EQ(std::get<DecoderShape>(plain->shape.family), wanted);
  const auto all = ReadModelAndData(
      absl::StrCat(kModel,
                   ", kind: llama, hidden: 24, kv_heads: 1, head_dim: 6, vocabulary: 999, theta: "
                   "5e5, epsilon: 1e-6, stddev: 0.01, qkv_bias: true, qk_norm: true, tied: true"),
      kData);
  ASSERT_TRUE(all.ok()) << all.status();
  const DecoderShape full{.layers = 2,
                          .width = 16,
                          .heads = 2,
                          .context = 8,
                          .vocabulary = 999,
                          .microbatch = 2,
                          .kv_heads = 1,
                          .head_dim = 6,
                          .hidden = 24,
                          .rope_theta = 5e5,
                          .norm_epsilon = 1e-6,
                          .init_stddev = 0.01,
                          .qkv_bias = true,
                          .qk_norm = true,
                          .tied = true};
  EXPECT_EQ(std::get<DecoderShape>(all->shape.family), full);
}

TEST(RunConfig, TokensAreATextsOtherForm) {
  const auto config = ReadModelAndData(kModel, "tokens: t.bin, dtype: uint32, microbatch: 2");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.text, "");
  EXPECT_EQ(config->data.tokens.rfind(testing::TempDir(), 0), 0u) << config->data.tokens;
  EXPECT_EQ(config->data.dtype, "uint32");
}

TEST(RunConfig, EvaluationsHaveDataOfTheirOwn) {
  EXPECT_FALSE(ReadWith("", "")->evaluate.wanted());
  const auto config = ReadWith(
      "", "",
      "evaluate: {every: 5, tokens: v.bin, dtype: uint16, sequences: 64, schedule: f.sched}\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->evaluate.every, 5);
  EXPECT_EQ(config->evaluate.sequences, 64);
  EXPECT_EQ(config->evaluate.data.text, "");
  EXPECT_EQ(config->evaluate.data.tokens, testing::TempDir() + "v.bin");
  EXPECT_EQ(config->evaluate.data.dtype, "uint16");
  EXPECT_EQ(config->evaluate.schedule_file, testing::TempDir() + "f.sched");
  EXPECT_EQ(config->data.dtype, "");
}

TEST(RunConfig, DeviceAndPrecisionAreWordsBesideTheSections) {
  EXPECT_EQ(ReadWith("", "")->shape.dtype, DType::kF32);
  EXPECT_EQ(ReadWith("", "", "precision: fp32\n")->shape.dtype, DType::kF32);
  EXPECT_EQ(ReadWith("", "", "precision: bf16\ndevice: cpu\n")->shape.dtype, DType::kBF16);
  EXPECT_EQ(ReadWith("", "")->device, DeviceKind::kAuto);
  EXPECT_EQ(ReadWith("", "", "device: auto\n")->device, DeviceKind::kAuto);
  const auto nccl =
      ReadWith("", "", "nccl: {max_ctas: 8, rows: counted, sums: nccl, capture: true}\n")->nccl;
  EXPECT_EQ(nccl.max_ctas, 8);
  EXPECT_TRUE(nccl.counted_rows && nccl.own_sums && nccl.capture);
  EXPECT_EQ(ReadWith("", "", "nccl: {max_ctas: 8}\n")->layout, CommLayout::kEdge);
  EXPECT_EQ(ReadWith("", "", "nccl: {layout: updown}\n")->layout, CommLayout::kUpDown);
  EXPECT_EQ(ReadWith("", "", "device: cpu\n")->device, DeviceKind::kCpu);
  EXPECT_EQ(ReadWith("", "", "device: cuda\n")->device, DeviceKind::kCuda);
  EXPECT_TRUE(ReadWith("", "")->capture);
  EXPECT_TRUE(ReadWith("", "", "device: cuda\ncapture: auto\n")->capture);
  EXPECT_FALSE(ReadWith("", "", "capture: off\ndevice: cuda\n")->capture);
  EXPECT_TRUE(ReadWith("", "")->deterministic);
  EXPECT_TRUE(ReadWith("", "", "deterministic: on\ndevice: cpu\n")->deterministic);
  EXPECT_FALSE(ReadWith("", "", "deterministic: off\n")->deterministic);
  EXPECT_EQ(ReadWith("", "")->nccl.free_sms, 16);
  EXPECT_EQ(ReadWith("", "", "nccl: {free_sms: 0}\n")->nccl.free_sms, 0);
  EXPECT_TRUE(ReadWith("", "", "device: cuda\n")->gpus.IsDefault());
  EXPECT_TRUE(ReadWith("", "", "device: cuda\ngpus: 1\n")->gpus.IsDefault());
  EXPECT_EQ(ReadWith("", "")->sms_per_rank, 0);
  EXPECT_EQ(ReadWith("", "", "sms_per_rank: 32\n")->sms_per_rank, 32);
  EXPECT_EQ(ReadWith("", "", "gpus: 4\n")->gpus.count, 4);
  EXPECT_EQ(ReadWith("", "", "gpus: all\n")->gpus.count, 0);
  EXPECT_EQ(ReadWith("", "", "gpus: [0, 2]\n")->gpus.ordinals, (std::vector<int>{0, 2}));
  EXPECT_EQ(ReadWith("", "", "device: cuda\n")->timeout_ns, int64_t{600'000'000'000});
  EXPECT_EQ(ReadWith("", "", "device: cuda\ntimeout: 250ms\n")->timeout_ns, 250'000'000);
  EXPECT_EQ(ReadWith("", "", "device: cuda\ntimeout: 0s\n")->timeout_ns, 0);
  EXPECT_EQ(ReadWith("", "", "device: cpu\ntimeout: 2s\n")->timeout_ns, 2'000'000'000);
  const struct {
    const char *line, *says;
  } cases[] = {
      {"device: cude\n",
       ":1: device: expected auto or cpu or cuda, got 'cude'; did you mean 'cuda'?"},
      {"transport: udp\n", ":1: transport: expected auto or tcp or mpi, got 'udp'"},
      {"device: cuda\ntransport: mpi\n",
       ":2: transport: 'device: cuda' has NCCL for messages, and tcp beside it"},
      {"device: {kind: cuda}\n", ":1: device: expected auto or cpu or cuda"},
      {"device: cpu\ndevice: cuda\n", ":2: 'device' is given twice"},
      {"devise: cpu\n", ":1: unknown section 'devise'; did you mean 'device'?"},
      {"nccl: {layout: edges}\n",
       ":1: nccl.layout: expected edge or pair or updown or shared, got 'edges'; did you mean "
       "'edge'?"},
      {"device: cuda\ncapture: on\n", ":2: capture: expected auto or off, got 'on'"},
      {"device: cpu\ndeterministic: off\n",
       ":2: deterministic: 'device: cpu' has nothing else than on"},
      {"deterministic: maybe\n", ":1: deterministic: expected on or off, got 'maybe'"},
      {"device: cuda\ntimeout: 600\n",
       ":2: timeout: '600' has no unit: write 600us, 600ms or 600s"},
      {"timeout: 1.5\n", ":1: timeout: '1.5' has no unit: write 1.5us, 1.5ms or 1.5s"},
      {"device: cuda\ntimeout: soon\n", ":2: timeout: 'soon' is not a time (5us, 2ms, 60s)"},
      {"device: cuda\nbucket: 25\n", ":2: bucket: '25' has no unit: write 25kB, 25MB or 25GB"},
      {"device: cpu\ngpus: 2\n", ":2: gpus: 'device: cpu' has none"},
      {"sms_per_rank: 0\n", ":1: sms_per_rank: 0 is not in 1 .. 4096"},
      {"sms_per_rank: all\n", ":1: sms_per_rank: expected a whole number, got 'all'"},
      {"device: cpu\nsms_per_rank: 32\n", ":2: sms_per_rank: 'device: cpu' has none"},
      {"gpus: 0\n", ":1: gpus: 0 is not in 1 .. 1024"},
      {"gpus: many\n", ":1: gpus: expected a number, a list like [0, 2], or all, got 'many'"},
      {"gpus: []\n", ":1: gpus: expected a number, a list like [0, 2], or all"},
      {"gpus: [0, -1]\n", ":1: gpus: -1 is not in 0 .. 1024"},
      {"gpus: [0, x]\n", ":1: gpus: expected a whole number, got 'x'"},
      {"capture: off\ndevice: cpu\n", ":1: capture: 'device: cpu' has none"},
      {"device: cpu\nnccl: {max_ctas: 4}\n", ":2: nccl: 'device: cpu' has none"},
      {"nccl: {rows: all}\n", ":1: nccl.rows: expected padded or counted, got 'all'"},
      {"precision: fp16\n", ":1: precision: expected fp32 or bf16, got 'fp16'"},
      {"precision: f32\n", ":1: precision: expected fp32 or bf16, got 'f32'; did you mean 'fp32'?"},
      {"precision: 16\n", ":1: precision: expected fp32 or bf16, got '16'"},
      {"precision: [bf16]\n", ":1: precision: expected fp32 or bf16"},
      {"precision: bf16\nprecision: bf16\n", ":2: 'precision' is given twice"},
  };
  for (const auto& test : cases) {
    const absl::Status status = ReadWith("", "", test.line).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.says;
    EXPECT_EQ(status.message().substr(status.message().find(':')), test.says);
  }
}

TEST(RunConfig, ShardingAndTheMeshFitEachOther) {
  const auto with = [](const std::string& lines) { return ReadWith("", "", lines); };
  EXPECT_EQ(with("")->sharding, Sharding::kNone);
  EXPECT_EQ(with("")->bucket_bytes, int64_t{25} << 20);
  EXPECT_EQ(with("bucket: 4KiB\n")->bucket_bytes, 4096);
  const char* const words[] = {"none", "optimizer", "gradients", "parameters"};
  for (int word = 0; word < 4; ++word) {
    const auto config = with(absl::StrCat("sharding: ", words[word], "\nmesh: {data: 6}\n"));
    EXPECT_EQ(static_cast<int>(config->sharding), word);
    EXPECT_STREQ(NameOf(config->sharding), words[word]);
    EXPECT_EQ(config->mesh.shards(), 6);
  }
  const struct {
    const char* mesh;
    int shards;
  } meshes[] = {{"data: 6, shard: 2", 2},
                {"data: 6, replicate: 2", 3},
                {"data: 6, shard: 2, replicate: 3", 2},
                {"data: 6, shard: 1", 1}};
  for (const auto& mesh : meshes) {
    const auto config =
        with(absl::StrCat("sharding: gradients\nmesh: {", mesh.mesh, ", expert: 2}\n"));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->mesh.shards(), mesh.shards) << mesh.mesh;
  }
  const struct {
    const char *lines, *says;
  } cases[] = {
      {"sharding: zero3\n",
       ":1: sharding: expected none or optimizer or gradients or parameters, got 'zero3'"},
      {"sharding: parameter\n",
       ":1: sharding: expected none or optimizer or gradients or parameters, got 'parameter'; did "
       "you mean 'parameters'?"},
      {"bucket: much\n", ":1: bucket: 'much' is not a number of bytes (16MiB, 2GB)"},
      {"bucket: 32B\n", ":1: bucket: at least 64 bytes"},
      {"mesh: {data: 4, shard: 2}\n",
       ":1: mesh.shard: nothing is shared out; 'sharding: optimizer', gradients or parameters "
       "would"},
      {"sharding: none\nmesh: {data: 4, replicate: 2}\n",
       ":2: mesh.replicate: nothing is shared out; 'sharding: optimizer', gradients or parameters "
       "would"},
      {"sharding: gradients\nmesh: {data: 4, shard: 3}\n",
       ":2: mesh.shard: 3 does not divide mesh.data, 4"},
      {"sharding: gradients\nmesh: {data: 4, replicate: 8}\n",
       ":2: mesh.replicate: 8 does not divide mesh.data, 4"},
      {"sharding: gradients\nmesh: {data: 4, shard: 2, replicate: 4}\n",
       ":2: mesh.replicate: 4 times mesh.shard, 2, is 8, but mesh.data is 4"},
      {"sharding: gradients\nmesh: {data: 4, shard: 0}\n",
       ":2: mesh.shard: 0 is not in 1 .. 1048576"},
      {"sharding: gradients\nmesh: {data: 4, shards: 2}\n",
       ":2: unknown key 'mesh.shards'; did you mean 'shard'?"},
  };
  for (const auto& test : cases) {
    const absl::Status status = with(test.lines).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.says;
    EXPECT_EQ(status.message().substr(status.message().find(':')), test.says);
  }
}

TEST(RunConfig, WhatDoesNotFitIsSaid) {
  const struct {
    std::string model, data;
    const char* says;
  } cases[] = {
      {"kind: lama, width: 2", kData,
       ":2: model.kind: expected gpt or llama or moe or encoder_decoder, got 'lama'; did you mean "
       "'llama'?"},
      {"kind: [gpt], width: 2", kData,
       ":2: model.kind: expected gpt or llama or moe or encoder_decoder"},
      {absl::StrCat(kModel, ", hidden: 3"), kData,
       ":2: 'model.hidden' is for 'kind: llama' or 'kind: moe'; the channels of an activation are "
       "'model.width'"},
      {absl::StrCat(kModel, ", kind: llama"), kData, ":2: model.hidden is missing"},
      {absl::StrCat(kModel, ", tied: yes"), kData,
       ":2: model.tied: expected true or false, got 'yes'"},
      {absl::StrCat(kModel, ", vocabulary: 255"), kData,
       ":3: data.text: a text has 256 different bytes, but model.vocabulary is 255"},
      {kModel, "microbatch: 2", ":3: data: expected one of text, tokens and samples"},
      {kModel, "text: a, tokens: b, microbatch: 2",
       ":3: data: expected one of text, tokens and samples"},
      {kModel, "text: a, dtype: uint16, microbatch: 2", ":3: data.dtype: only data.tokens has one"},
      {kModel, "tokens: a, dtype: int16, microbatch: 2",
       ":3: data.dtype: expected uint16 or uint32, got 'int16'"},
  };
  for (const auto& test : cases) {
    const absl::Status status = ReadModelAndData(test.model, test.data).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.says;
    EXPECT_EQ(status.message().substr(status.message().find(':')), test.says);
  }
}

// The formulas of run_config.h, worked out by hand.
TEST(RunConfig, TheRateRisesInALineAndFallsInHalfACosine) {
  RunConfig config;
  config.steps = 10;
  config.warmup_steps = 4;
  config.optimizer.learning_rate = 8;
  config.final_rate = 2;
  const double rates[] = {2, 4, 6, 8, 8, 5 + 3 * std::cos(M_PI / 6), 5 + 3 * std::cos(M_PI / 3), 5};
  for (int64_t step = 0; step < 8; ++step) {
    EXPECT_NEAR(LearningRate(config, step), rates[step], 1e-12) << step;
  }
  EXPECT_NEAR(LearningRate(config, 10), 2, 1e-12);
  config.warmup_steps = 0;
  EXPECT_NEAR(LearningRate(config, 0), 8, 1e-12);
  EXPECT_NEAR(LearningRate(config, 5), 5, 1e-12);
}

}  // namespace
}  // namespace stringline
