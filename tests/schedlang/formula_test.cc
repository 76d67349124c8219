// Costs from a model's shape: against published sizes, and against measured prototypes of what a
// layer keeps.
#include "schedlang/sim/formula.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "schedlang/sim/costs.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

const ModelShape kLlama8B = {.kind = kLlamaModel,
                             .layers = 32,
                             .width = 4096,
                             .heads = 32,
                             .context = 8192,
                             .vocabulary = 128256,
                             .kv_heads = 8,
                             .hidden = 14336};
const MachineSpeed kMachine = {"a machine", 1e15, 3e12, 0.5};

TEST(Formula, CountsTheParametersOfLlama3) {
  const StageFormula whole = FormulaOf(kLlama8B, kMachine, {0, 32, true, true});
  EXPECT_NEAR(static_cast<double>(whole.parameters), 8.03e9, 0.005e9);
}

TEST(Formula, KeepsWhatPrototypesKeep) {
  // In units of one hidden tensor: 17 from F to B, 10.5 of them for I, 6.5 for W; 17 from I to W.
  const StageFormula layer = FormulaOf(kLlama8B, kMachine, {.layers = 1});
  const auto unit = static_cast<double>(MessageBytes(kLlama8B));
  EXPECT_DOUBLE_EQ(static_cast<double>(layer.saved_for_i) / unit, 10.5);
  EXPECT_DOUBLE_EQ(static_cast<double>(layer.saved_for_w) / unit, 6.5);
  EXPECT_DOUBLE_EQ(static_cast<double>(layer.stash + layer.saved_for_w) / unit, 17);
}

TEST(Formula, TakesSixFlopsAParameterAndToken) {
  // Without attention's own products and without memory traffic: 2 in F, 2 in I, 2 in W.
  ModelShape model = kLlama8B;
  MachineSpeed machine = kMachine;
  machine.memory_bandwidth = 0;
  const StageFormula layer = FormulaOf(model, machine, {.layers = 1});
  const double flops = 2.0 * 8192 * static_cast<double>(layer.parameters);
  EXPECT_NEAR(static_cast<double>(layer.weight_gradient_ns), flops / 0.5e15 * 1e9, 1);
  const double attention = 2.0 * 8192 * 8192 * 4096;
  EXPECT_NEAR(static_cast<double>(layer.forward_ns), (flops + attention) / 0.5e15 * 1e9, 1);
  EXPECT_NEAR(static_cast<double>(layer.input_gradient_ns),
              (flops + 2.5 * attention) / 0.5e15 * 1e9, 1);
  model.tensor = 4;
  EXPECT_NEAR(static_cast<double>(FormulaOf(model, machine, {.layers = 1}).forward_ns),
              static_cast<double>(layer.forward_ns) / 4, 1);
}

TEST(Formula, EveryHardwareFileIsRead) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1I0 1W0\n");
  int files = 0;
  const std::string folder = STRINGLINE_SOURCE_DIR "/schedlang/sim/hardware";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = absl::StrCat(testing::TempDir(), "/formula_", getpid(), ".yaml");
    std::ofstream(path) << "model: {layers: 3, width: 1024, heads: 8, vocabulary: 1000, context: "
                           "2048}\nW: 5ms\nhardware: "
                        << entry.path().string() << "\n";
    const auto spec = ReadCostFile(path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto model = ResolveCosts(*spec, plan);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_GT(model->forward[0], model->forward[1] / 10);  // two layers, one layer and the head
    EXPECT_GT(model->memory[0][MemoryClass::kWeights], 0);
    EXPECT_EQ(model->weight_gradient[0], 5'000'000);  // what the file says goes before
    EXPECT_GT(HopOf(*model, {.kind = ActionKind::kSendForward, .stage = StageId(0)}).transfer_ns,
              0);
    ++files;
  }
  EXPECT_EQ(files, 4);
}

struct BadFormula {
  const char* text;
  const char* message;
};

constexpr BadFormula kBadFormulas[] = {
    {"model: {layers: 3}\n", ":1: model.width is missing"},
    {"model: {layer: 3}\n", ":1: unknown key 'model.layer'; did you mean 'layers'?"},
    {"model: {layers: 0}\n", ":1: model.layers: expected a number from 1"},
    {"model: {kind: lama}\n", ":1: model.kind: expected gpt or llama or moe"},
    {"model: {kind: llama, layers: 3, width: 8, heads: 2, context: 4}\n",
     ":1: model.hidden is missing"},
    {"model: {kind: moe, layers: 3, width: 8, heads: 2, context: 4, experts: 4, top_k: 1}\n",
     ":1: model.expert_hidden is missing"},
    {"model: 3\n", ":1: model: expected a map"},
    {"hardware: nowhere.yaml\n", ": a formula needs both 'model' and 'hardware'"},
    {"model: {layers: 3, width: 8, heads: 2, vocabulary: 9, context: 4}\n",
     ": a formula needs both 'model' and 'hardware'"},
    {"precision: fp16\n", ":1: precision: expected bf16 or fp32"},
    {"sharding: 2\n", ":1: sharding: expected none or optimizer or gradients or parameters"},
    {"bucket: 0\n", ":1: bucket: expected a number of bytes (25MiB)"},
    {"bucket: big\n", ":1: bucket: 'big' is not a number of bytes (16MiB, 2GB, 4096)"},
    {"optimizer: sharded\n",
     ":1: 'optimizer' is said by 'sharding': none, optimizer, gradients or parameters"},
    {"mesh: {copies: 2}\n",
     ":1: unknown key 'mesh.copies' (there are pipeline, data, expert, shard, replicate, tensor)"},
    {"data: {batch: 3}\n",
     ":1: unknown key 'data.batch' (there are text, tokens, dtype, microbatch)"},
    // Names that there were, or that only run files know
    {"model: {kind: llama, hidden: 4096, ffn: 9}\n",
     ":1: 'model.ffn' is called 'model.hidden', and what was 'hidden' in cost files 'model.width'"},
    {"model: {layers: 32, hidden: 4096}\n",
     ":1: 'model.hidden' is for 'kind: llama' or 'kind: moe'; the channels of an activation are "
     "'model.width'"},
    {"model: {kind: llama, top_k: 2}\n", ":1: 'model.top_k' is for 'kind: moe'"},
    {"model: {sequence: 9}\n", ":1: 'model.sequence' is called 'model.context'"},
    {"model: {kind: moe, active_experts: 9}\n",
     ":1: 'model.active_experts' is called 'model.top_k', of 'kind: moe'"},
    {"model: {microbatch: 9}\n", ":1: 'model.microbatch' is called 'data.microbatch'"},
    {"model: {data_parallel: 9}\n",
     ":1: 'model.data_parallel' is called 'mesh.data', with 'sharding: optimizer'"},
    {"model: {tensor_parallel: 9}\n", ":1: 'model.tensor_parallel' is called 'mesh.tensor'"},
    {"model: {bytes: 4}\n", ":1: 'model.bytes' is said by 'precision', bf16 or fp32"},
    {"model: {folder: x}\n",
     ":1: 'model.folder' is for run files; a cost file says the sizes itself"},
    {"model: {split: [1, 2]}\n",
     ":1: 'model.split' is for run files; costs follow the schedule's split"},
};

TEST(Formula, BadTextIsOneError) {
  const std::string path = absl::StrCat(testing::TempDir(), "/formula_", getpid(), ".yaml");
  for (const BadFormula& bad : kBadFormulas) {
    std::ofstream(path) << bad.text;
    EXPECT_EQ(std::string(ReadCostFile(path).status().message()), path + bad.message);
  }
}

}  // namespace
}  // namespace stringline
