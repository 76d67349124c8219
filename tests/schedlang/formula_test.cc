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

const ModelShape kLlama8B = {.layers = 32,
                             .hidden = 4096,
                             .ffn = 14336,
                             .heads = 32,
                             .kv_heads = 8,
                             .vocabulary = 128256,
                             .sequence = 8192};
const MachineSpeed kMachine = {"a machine", 1e15, 3e12, 0.5};

TEST(Formula, CountsTheParametersOfLlama3) {
  const StageFormula whole = FormulaOf(kLlama8B, kMachine, 32, true, true);
  EXPECT_NEAR(static_cast<double>(whole.parameters), 8.03e9, 0.005e9);
}

TEST(Formula, KeepsWhatPrototypesKeep) {
  // In units of one hidden tensor: 17 from F to B, 10.5 of them for I, 6.5 for W; 17 from I to W.
  const StageFormula layer = FormulaOf(kLlama8B, kMachine, 1, false, false);
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
  const StageFormula layer = FormulaOf(model, machine, 1, false, false);
  const double flops = 2.0 * 8192 * static_cast<double>(layer.parameters);
  EXPECT_NEAR(static_cast<double>(layer.weight_gradient_ns), flops / 0.5e15 * 1e9, 1);
  const double attention = 2.0 * 8192 * 8192 * 4096;
  EXPECT_NEAR(static_cast<double>(layer.forward_ns), (flops + attention) / 0.5e15 * 1e9, 1);
  EXPECT_NEAR(static_cast<double>(layer.input_gradient_ns),
              (flops + 2.5 * attention) / 0.5e15 * 1e9, 1);
  model.tensor_parallel = 4;
  EXPECT_NEAR(static_cast<double>(FormulaOf(model, machine, 1, false, false).forward_ns),
              static_cast<double>(layer.forward_ns) / 4, 1);
}

TEST(Formula, EveryHardwareFileIsRead) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1I0 1W0\n");
  int files = 0;
  const std::string folder = STRINGLINE_SOURCE_DIR "/schedlang/sim/hardware";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = absl::StrCat(testing::TempDir(), "/formula_", getpid(), ".yaml");
    std::ofstream(path)
        << "model: {layers: 3, hidden: 1024, ffn: 4096, heads: 8, vocabulary: 1000, "
           "sequence: 2048}\nW: 5ms\nhardware: "
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
    {"model: {layers: 3}\n", ":1: model: 'hidden' is missing"},
    {"model: {layer: 3}\n", ":1: model: unknown key 'layer'; did you mean 'layers'?"},
    {"model: {layers: 0}\n", ":1: model.layers: expected a number from 1"},
    {"model: 3\n", ":1: model: expected a map"},
    {"hardware: nowhere.yaml\n", ": a formula needs both 'model' and 'hardware'"},
    {"model: {layers: 3, hidden: 8, ffn: 8, heads: 2, vocabulary: 9, sequence: 4}\n",
     ": a formula needs both 'model' and 'hardware'"},
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
