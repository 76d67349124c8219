// Run files and cost files describe a model with the same keys, and each accepts the other's
// description; both mean the same sizes.
#include "schedlang/costs/model_keys.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/run/run_config.h"
#include "gtest/gtest.h"
#include "schedlang/costs/costs.h"
#include "schedlang/costs/read_shape.h"

namespace stringline {
namespace {

template <typename Read>
auto ReadText(const std::string& text, Read read) {
  const std::string path = absl::StrCat(testing::TempDir(), "/model_keys_", getpid(), ".yaml");
  std::ofstream(path) << text;
  auto result = read(path);
  unlink(path.c_str());
  return result;
}

absl::StatusOr<CostSpec> AsCosts(const std::string& shape) {
  return ReadText(
      absl::StrCat("hardware: " STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware/h100.yaml\n",
                   shape),
      [](const std::string& path) { return ReadCostFile(path); });
}

absl::StatusOr<RunConfig> AsRun(const std::string& shape) {
  return ReadText(
      absl::StrCat("schedule: {file: s.sched, P: 2, M: 4}\ntrain: {steps: 6, learning_rate: 1}\n",
                   shape),
      [](const std::string& path) { return ReadRunConfig(path); });
}

// Whole models, as in run files.
constexpr const char* kShapes[] = {
    "model: {layers: 12, width: 768, heads: 12, context: 1024, vocabulary: 50257}\n",
    "model: {kind: gpt, layers: 3, width: 96, heads: 3, context: 128, tied: true}\n",
    "model: {kind: llama, layers: 16, width: 2048, heads: 32, kv_heads: 8, hidden: 8192,\n"
    "  context: 4096, vocabulary: 128256, theta: 5e5, epsilon: 1e-5, stddev: 0.02}\n",
    "model: {kind: llama, layers: 4, width: 1024, heads: 16, kv_heads: 8, head_dim: 128,\n"
    "  hidden: 3072, context: 512, vocabulary: 151936, qk_norm: true, qkv_bias: false}\n",
    "model: {kind: moe, layers: 5, width: 512, heads: 8, hidden: 1376, context: 256,\n"
    "  vocabulary: 1000, experts: 16, top_k: 3, expert_hidden: 128, shared_hidden: 256,\n"
    "  first_dense: 1, scores: sigmoid, normalise: true, scale: 2.5, groups: 4, top_groups: 2,\n"
    "  group_best: 2, balance_rate: 0.001, aux_coefficient: 0, capacity: 1.5, exceeded: drop}\n",
};
constexpr const char* kBeside =
    "data: {text: a.txt, microbatch: 3}\nmesh: {pipeline: 2, data: 4, shard: 2}\n"
    "precision: bf16\nsharding: gradients\nbucket: 4MiB\n";

TEST(ModelKeys, RunFilesAndCostFilesTakeTheSameModel) {
  for (const std::string shape : kShapes) {
    SCOPED_TRACE(shape);
    const auto run = AsRun(shape + kBeside);
    const auto costs = AsCosts(shape + kBeside);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(costs.ok()) << costs.status();
    const ModelShape& model = costs->formula->model;
    EXPECT_EQ(model.layers, run->shape.layers());
    EXPECT_EQ(model.width, run->shape.width());
    EXPECT_EQ(model.context, run->shape.context());
    EXPECT_EQ(model.vocabulary, run->shape.vocabulary());
    EXPECT_EQ(model.microbatch, run->shape.microbatch());
    EXPECT_EQ(model.copies, run->mesh.data);
    EXPECT_EQ(model.shard, run->mesh.shard);
    EXPECT_EQ(model.bucket, run->bucket_bytes);
    EXPECT_EQ(costs->sharding, run->sharding);
    EXPECT_EQ(model.pipeline, run->mesh_pipeline);
    EXPECT_EQ(model.bytes == 2, run->shape.dtype == DType::kBF16);
    EXPECT_EQ(MessageBytes(model), run->shape.tokens() * run->shape.width() * 2);
    // Except norms, biases, and tied tables.
    const bool tied = absl::StrContains(shape, "tied: true");
    const int64_t table = tied ? model.vocabulary * model.width : 0;
    const StageFormula whole = FormulaOf(model, {"", 1e15}, {0, model.layers, true, true});
    const auto counted = static_cast<double>(CountParams(run->shape) + table);
    EXPECT_NEAR(static_cast<double>(whole.parameters) / counted, 1, 0.01);
  }
}

// Both accept the number of replicas.
TEST(ModelKeys, BothTakeReplicasForShards) {
  const std::string text = std::string(kShapes[0]) +
                           "data: {text: a.txt, microbatch: 3}\nsharding: parameters\n"
                           "mesh: {data: 8, replicate: 2, expert: 1}\n";
  const auto run = AsRun(text);
  const auto costs = AsCosts(text);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(costs.ok()) << costs.status();
  ModelShape model = costs->formula->model;
  ASSERT_TRUE(ResolveMesh(*costs->sharding, &model).ok());
  EXPECT_EQ(model.shard, 4);
  EXPECT_EQ(run->mesh.shard, 4);
}

// The table has exactly the keys that a run file takes, for every kind.
TEST(ModelKeys, TheTableHoldsTheKeysOfRunFiles) {
  for (const auto& kind : kModelKinds) {
    for (const ModelKey& key : ModelKeys()) {
      const std::string said = absl::StrCat("model: {kind: ", kind.name, ", ", key.name, ": []}\n");
      const std::string name = absl::StrCat("'model.", key.name, "'");
      const bool known = (key.kinds & kind.kind) != 0;
      if (key.name == std::string(model_key::kKind)) continue;
      EXPECT_EQ(!absl::StrContains(AsRun(said).status().message(), name), known) << said;
      EXPECT_EQ(!absl::StrContains(AsCosts(said).status().message(), name), known) << said;
    }
  }
}

// A key of only one of the two is refused by the other, with the reason.
TEST(ModelKeys, OnlyOneTakesThemAndTheOtherSaysWhy) {
  const std::string model = std::string(kShapes[0]) + "data: {text: a.txt, microbatch: 3}\n";
  struct {
    const char* text;
    const char* why;
  } const refused[] = {
      {"mesh: {tensor: 2}\n", "'mesh.tensor' is for cost files"},
      {"mesh: {layout: megatron}\n", "'mesh.layout' is for cost files"},
      {"layer_recompute: all\n", "'layer_recompute' is for cost files"},
      {"layer_offload: 2\n", "'layer_offload' is for cost files"},
      {"attention_scores: written\n", "'attention_scores' is for cost files"},
  };
  for (const auto& row : refused) {
    EXPECT_TRUE(AsCosts(model + row.text).ok());
    EXPECT_TRUE(absl::StrContains(AsRun(model + row.text).status().message(), row.why))
        << AsRun(model + row.text).status();
  }
  for (const char* const old : {"ffn", "sequence", "active_experts", "microbatch", "data_parallel",
                                "tensor_parallel", "bytes"}) {
    const std::string said = absl::StrCat("model: {kind: llama, ", old, ": 8}\n");
    const std::string why = WhyNoKey(absl::StrCat("model.", old));
    EXPECT_FALSE(why.empty());
    EXPECT_TRUE(absl::StrContains(AsRun(said).status().message(), why)) << AsRun(said).status();
    EXPECT_TRUE(absl::StrContains(AsCosts(said).status().message(), why)) << AsCosts(said).status();
  }
}

// The example's model is a valid run file's model unchanged.
TEST(ModelKeys, TheExamplesModelIsARunFiles) {
  std::ifstream file(STRINGLINE_SOURCE_DIR "/examples/06_where_the_time_goes/llama.yaml");
  std::string text, line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, "hardware:")) absl::StrAppend(&text, line, "\n");
  }
  const auto run = AsRun(text + "data: {text: a.txt, microbatch: 1}\n");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_NEAR(static_cast<double>(CountParams(run->shape)), 8.03e9, 0.005e9);
}

}  // namespace
}  // namespace stringline
