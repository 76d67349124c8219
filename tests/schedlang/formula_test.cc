// Costs from a model's shape: against published sizes, and against measured prototypes of a layer's
// saved memory.
#include "schedlang/costs/formula.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/costs/costs.h"
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
  // In units of a hidden tensor: 17 from F to B, 10.5 of them for I, 6.5 for W; 17 from I to W.
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

// A matrix of a layer, with the number of copies on a rank, and the number used for a token.
struct Matrix {
  double rows = 0, columns = 0;
  double held = 1, used = 1;
};

// The layer of a model, matrix by matrix; with the channels into and out of its non-linearity.
struct LayerByMatrices {
  std::vector<Matrix> matrices;
  double expert_parameters = 0;
  double inner = 0, out = 0;  // channels of a token
  double inputs = 1;          // rows that enter networks, of a token
  double to_experts = 0;      // rows of a token that go to experts

  double Held() const {
    double sum = 0;
    for (const Matrix& matrix : matrices) sum += matrix.rows * matrix.columns * matrix.held;
    return sum;
  }
  double Used() const {
    double sum = 0;
    for (const Matrix& matrix : matrices) sum += matrix.rows * matrix.columns * matrix.used;
    return sum;
  }
};

LayerByMatrices LayerOf(const ModelShape& model, bool of_experts) {
  LayerByMatrices layer;
  const auto width = static_cast<double>(model.width);
  const double head = model.head_dim > 0 ? static_cast<double>(model.head_dim)
                                         : width / static_cast<double>(model.heads);
  const double queries = head * static_cast<double>(model.heads);
  const double keys = head * static_cast<double>(model.kv_heads > 0 ? model.kv_heads : model.heads);
  layer.matrices = {{width, queries}, {width, keys}, {width, keys}, {queries, width}};
  const int gates = model.kind == kGptModel ? 1 : 2;
  const auto add_network = [&](double hidden, double held, double used) {
    for (int i = 0; i < gates; ++i) layer.matrices.push_back({width, hidden, held, used});
    layer.matrices.push_back({hidden, width, held, used});
    layer.inner += used * gates * hidden;
    layer.out += used * hidden;
  };
  if (!of_experts) {
    add_network(static_cast<double>(model.kind == kGptModel ? 4 * model.width : model.hidden), 1,
                1);
    return layer;
  }
  const double here = static_cast<double>(model.experts) / static_cast<double>(model.expert);
  add_network(static_cast<double>(model.expert_hidden), here, static_cast<double>(model.top_k));
  layer.expert_parameters = here * 3 * width * static_cast<double>(model.expert_hidden);
  add_network(static_cast<double>(model.shared_hidden), 1, 1);
  layer.to_experts = static_cast<double>(model.top_k);
  layer.inputs = layer.to_experts + (model.shared_hidden > 0 ? 1 : 0);
  layer.matrices.push_back({width, static_cast<double>(model.experts)});  // the router
  return layer;
}

// formula.h's sentences, layer by layer.
StageFormula FormulaByMatrices(const ModelShape& model, const MachineSpeed& machine,
                               const StagePart& part) {
  const auto width = static_cast<double>(model.width);
  const auto tokens = static_cast<double>(model.microbatch * model.context);
  const double tensor = static_cast<double>(model.tensor);
  const double unit = tokens * width * static_cast<double>(model.bytes);
  const double table = width * static_cast<double>(model.vocabulary);
  double parameters = 0, of_experts = 0, products = 0, attention = 0, moved = 0;
  double for_input = 0, for_weight = 0, stash = 0;
  for (int64_t k = part.first_layer; k < part.first_layer + part.layers; ++k) {
    const LayerByMatrices layer = LayerOf(model, model.kind == kMoeModel && k >= model.first_dense);
    const double queries = layer.matrices[0].columns, keys = 2 * layer.matrices[1].columns;
    parameters += layer.Held();
    of_experts += layer.expert_parameters;
    products += 2 * tokens * layer.Used();
    attention += 2 * tokens * static_cast<double>(model.context) * queries;
    moved += unit * (10 + 2 * queries / width + 2 * keys / width +
                     (layer.inner + layer.out) / width + 6 * layer.to_experts);
    for_input += unit * (2 + queries / width + keys / width + layer.inner / width);
    stash += unit * (2 + queries / width + keys / width + layer.inner / width);
    for_weight += unit * (1 + layer.inputs + queries / width + layer.out / width);
  }
  if (part.embedding) parameters += table;
  if (part.embedding && model.kind == kGptModel) {
    parameters += width * static_cast<double>(model.context);
  }
  if (part.head) {
    parameters += table;
    products += 2 * tokens * table;
    const auto vocabulary = static_cast<double>(model.vocabulary);
    moved += 4 * tokens * vocabulary;
    for_input += tokens * vocabulary * static_cast<double>(model.bytes);
    for_weight += unit;
  }
  const auto ns = [&](double flops, double bytes) {
    double seconds = flops / tensor / machine.flops / machine.efficiency;
    if (machine.memory_bandwidth > 0) seconds += bytes / tensor / machine.memory_bandwidth;
    return std::llround(seconds * 1e9);
  };
  StageFormula stage;
  stage.forward_ns = ns(products + attention, moved);
  stage.input_gradient_ns = ns(products + 2.5 * attention, 2 * moved);
  stage.weight_gradient_ns = ns(products, 0);
  stage.parameters = std::llround(parameters / tensor);
  stage.expert_parameters = std::llround(of_experts / tensor);
  stage.saved_for_i = std::llround(for_input / tensor);
  stage.stash = std::llround(stash / tensor);
  stage.saved_for_w = std::llround(for_weight / tensor);
  return stage;
}

// Stages of random models: dense layers before layers of experts, heads that share keys, heads of
// their own size, experts sharded over ranks, tensor-parallel ranks.
TEST(Formula, AddsUpLayersMatrixByMatrix) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    ModelShape model;
    constexpr ModelKind kKinds[] = {kGptModel, kLlamaModel, kMoeModel};
    model.kind = kKinds[draw(0, 2)];
    model.heads = draw(1, 8);
    model.width = 8 * model.heads * draw(1, 20);
    model.context = draw(1, 500);
    model.vocabulary = draw(1, 5000);
    model.kv_heads = draw(0, model.heads);
    model.head_dim = draw(0, 1) * draw(1, 100);
    model.hidden = draw(1, 900);
    model.expert = draw(1, 4);
    model.experts = model.expert * draw(1, 8);
    model.top_k = draw(1, model.experts);
    model.expert_hidden = draw(1, 200);
    model.shared_hidden = draw(0, 100);
    model.first_dense = draw(0, 3);
    model.microbatch = draw(1, 4);
    model.tensor = draw(1, 4);
    model.bytes = 2 * draw(1, 2);
    const MachineSpeed machine = {"a machine", 1e12, draw(0, 1) * 3e9, 0.25};
    const StagePart part = {draw(0, 5), draw(0, 4), draw(0, 1) == 1, draw(0, 1) == 1};
    const StageFormula slow = FormulaByMatrices(model, machine, part);
    const StageFormula stage = FormulaOf(model, machine, part);
    EXPECT_NEAR(stage.forward_ns, slow.forward_ns, 1);
    EXPECT_NEAR(stage.input_gradient_ns, slow.input_gradient_ns, 1);
    EXPECT_NEAR(stage.weight_gradient_ns, slow.weight_gradient_ns, 1);
    EXPECT_NEAR(stage.parameters, slow.parameters, 1);
    EXPECT_NEAR(stage.expert_parameters, slow.expert_parameters, 1);
    EXPECT_NEAR(stage.saved_for_i, slow.saved_for_i, 1);
    EXPECT_NEAR(stage.saved_for_w, slow.saved_for_w, 1);
    EXPECT_NEAR(stage.stash, slow.stash, 1);
    const int64_t activation = model.microbatch * model.context * model.width * model.bytes;
    EXPECT_EQ(ActivationBytes(model), activation);
    EXPECT_EQ(MessageBytes(model), (activation + model.tensor - 1) / model.tensor);
    EXPECT_EQ(OptimizerBytes(model, 7), model.bytes == 2 ? 7 * 12 : 7 * 8);
  }
}

// A product of a layer on one rank: so many alike.
struct Product {
  double m = 0, k = 0, n = 0;
  double alike = 1;
  bool in_16_bits = false;
};

// The times of products, attention and moved bytes, written out for one layer of a machine that
// counts tiles.
struct LayerTimes {
  double forward = 0, input = 0, weight = 0;
};
LayerTimes TimesInTurn(const std::vector<Product>& products, double attention, double moved,
                       const MachineSpeed& machine, bool narrow) {
  LayerTimes times;
  const double per_byte = 1e9 / (machine.memory_bandwidth * machine.memory_efficiency);
  for (const Product& p : products) {
    const bool is_narrow = narrow && !p.in_16_bits;
    const double rate = is_narrow ? machine.narrow[0].flops * machine.narrow[0].efficiency
                                  : machine.flops * machine.efficiency;
    const auto time_of = [&](double rows, double columns) {
      double best = 0;
      for (const auto& [high, wide, speed] :
           {std::tuple(128, 256, 1.0), std::tuple(256, 128, 1.0), std::tuple(128, 128, 0.9)}) {
        const double tiles = p.alike * std::ceil(rows / high) * std::ceil(columns / wide);
        const double turns = std::ceil(tiles / static_cast<double>(machine.processors));
        const double places = turns * static_cast<double>(machine.processors) * high * wide;
        best = std::max(best, speed * p.alike * rows * columns / places);
      }
      const double bytes = 2 * p.alike * (p.m * p.k + p.k * p.n + p.m * p.n);
      return std::max(2e9 * p.alike * p.m * p.k * p.n / rate / best, bytes * per_byte);
    };
    times.forward += time_of(p.m, p.n) + (is_narrow ? 4 * p.alike * p.m * p.k * per_byte : 0);
    times.input += time_of(p.m, p.k) + (is_narrow ? 4 * p.alike * p.m * p.n * per_byte : 0);
    times.weight += time_of(p.k, p.n);
  }
  times.forward += attention / (machine.flops * machine.attention) * 1e9 + moved * per_byte;
  times.input +=
      2.5 * attention / (machine.flops * machine.attention_gradient) * 1e9 + 2 * moved * per_byte;
  return times;
}

// DeepSeek-V3's layer of experts on two tensor-parallel ranks: latent attention, whole experts on
// each of 64 ranks, fp8.
TEST(Formula, TimesOfALayerAreThoseOfItsProductsInTurn) {
  ModelShape model = {.kind = kMoeModel, .layers = 4, .width = 7168, .heads = 128, .context = 4096};
  model.head_dim = model.value_dim = 128;
  model.q_rank = 1536;
  model.kv_rank = 512;
  model.rope_dim = 64;
  model.experts = 256;
  model.top_k = 8;
  model.expert_hidden = model.shared_hidden = 2048;
  model.tensor = 2;
  model.copies = 64;
  model.expert = 64;
  model.layout = MeshLayout::kMegatron;
  model.precision = Precision::kFp8;
  MachineSpeed machine = {"a machine", 989e12, 3.35e12, 0.7};
  machine.processors = 132;
  machine.memory_efficiency = 0.9;
  machine.attention = 0.6;
  machine.attention_gradient = 0.5;
  machine.narrow[0] = {1979e12, 0.55, 0.5, 3'000'000};
  const double tokens = 4096;
  const std::vector<Product> products = {
      {tokens, 7168, 1536 + 512 + 64},
      {tokens, 1536, 64 * (128 + 64)},
      {tokens, 512, 64 * (128 + 128)},
      {tokens, 64 * 128, 7168},
      {tokens / 2, 7168, 256, 1, true},
      {tokens * 8 / 2 / 4, 7168, 2 * 2048, 4},
      {tokens * 8 / 2 / 4, 2048, 7168, 4},
      {tokens, 7168, 2 * 1024},
      {tokens, 1024, 7168},
  };
  const double attention = tokens * 4096 * 64 * (128 + 64 + 128);
  const double rows = tokens * 2 / 2;  // bytes of a channel of all tokens, on a rank
  const double moved = rows * (10 * 7168 + 2 * 128 * (128 + 64) + 2 * 128 * (128 + 64 + 128) +
                               8 * (3 * 2048 + 6 * 7168) + 3 * 2048);
  const LayerTimes layer = TimesInTurn(products, attention, moved, machine, true);
  const StageFormula stage = FormulaOf(model, machine, {.first_layer = 1, .layers = 1});
  // Four experts wait 3 ms each.
  EXPECT_NEAR(static_cast<double>(stage.forward_ns), layer.forward + 4e6, 2);
  EXPECT_NEAR(static_cast<double>(stage.input_gradient_ns), layer.input + 8e6, 2);
  EXPECT_NEAR(static_cast<double>(stage.weight_gradient_ns), layer.weight, 2);
  // A capacity of 1.25: a quarter more rows, and a quarter of the waits; in our own layout it is
  // none.
  model.capacity = 1'250'000;
  std::vector<Product> padded = products;
  padded[5].m = padded[6].m = 1.25 * tokens * 8 / 2 / 4;
  const LayerTimes full =
      TimesInTurn(padded, attention, moved + rows * 2 * (3 * 2048 + 6 * 7168), machine, true);
  const StageFormula capped = FormulaOf(model, machine, {.first_layer = 1, .layers = 1});
  EXPECT_NEAR(static_cast<double>(capped.forward_ns), full.forward + 1e6, 2);
  EXPECT_NEAR(static_cast<double>(capped.input_gradient_ns), full.input + 2e6, 2);
  EXPECT_NEAR(static_cast<double>(capped.weight_gradient_ns), full.weight, 2);
  model.layout = MeshLayout::kOwn;
  const StageFormula own = FormulaOf(model, machine, {.first_layer = 1, .layers = 1});
  model.capacity = 0;
  EXPECT_EQ(FormulaOf(model, machine, {.first_layer = 1, .layers = 1}).forward_ns, own.forward_ns);
  model.layout = MeshLayout::kMegatron;
  // The published total: 671 billion parameters, of 61 layers of which three are dense.
  model.layers = 61;
  model.vocabulary = 129280;
  model.first_dense = 3;
  model.hidden = 18432;
  model.tensor = model.expert = model.copies = 1;
  const StageFormula whole = FormulaOf(model, machine, {0, 61, true, true});
  EXPECT_NEAR(static_cast<double>(whole.parameters), 671e9, 1e9);
  // A full recomputation keeps the layers' inputs, and does F again for I.
  machine.narrow[0].experts_ns = 0;
  model.recomputed_layers = 1;
  const StageFormula kept = FormulaOf(model, machine, {3, 1, false, false});
  model.recomputed_layers = 0;
  const StageFormula usual = FormulaOf(model, machine, {3, 1, false, false});
  EXPECT_EQ(kept.saved_for_i + kept.saved_for_w, 4096 * 7168 * 2);
  EXPECT_NEAR(kept.input_gradient_ns, usual.input_gradient_ns + usual.forward_ns, 2);
  EXPECT_EQ(kept.weight_gradient_ns, usual.weight_gradient_ns);
  // On the host the values cost no time as long as their copies take less than F.
  model.hosted_layers = 1;
  machine.host_bandwidth = 1e15;
  const StageFormula fast = FormulaOf(model, machine, {3, 1, false, false});
  EXPECT_EQ(fast.saved_for_i + fast.saved_for_w, 0);
  EXPECT_EQ(fast.forward_ns, usual.forward_ns);
  machine.host_bandwidth = 1e10;
  const StageFormula slow = FormulaOf(model, machine, {3, 1, false, false});
  const auto held = static_cast<double>(usual.saved_for_i + usual.saved_for_w);
  EXPECT_NEAR(static_cast<double>(slow.forward_ns), held / 10, 2);
  EXPECT_NEAR(static_cast<double>(slow.input_gradient_ns + slow.weight_gradient_ns), held / 10, 2);
}

// Slices of 128 rows fill no more than a row of tiles, and read all weights each.
TEST(Formula, SlicesMultiplyFewerRowsEach) {
  ModelShape model = kLlama8B;
  MachineSpeed machine = kMachine;
  machine.processors = 132;
  machine.attention = machine.attention_gradient = 0.5;
  const double tokens = 8192, h = 4096, q = 4096, k = 2048, f = 14336;
  LayerTimes before;
  for (const int slices : {1, 4, 64}) {
    SCOPED_TRACE(slices);
    model.slices = slices;
    std::vector<Product> products;
    for (int i = 0; i < slices; ++i) {
      const double rows = tokens / slices;
      products.insert(products.end(),
                      {{rows, h, q + k}, {rows, q, h}, {rows, h, 2 * f}, {rows, f, h}});
    }
    const double moved = tokens * 2 * (10 * h + 2 * q + 2 * k + 3 * f);
    const LayerTimes layer =
        TimesInTurn(products, 2 * tokens * 8192 * q, moved, machine, /*narrow=*/false);
    const StageFormula stage = FormulaOf(model, machine, {.first_layer = 1, .layers = 1});
    EXPECT_NEAR(static_cast<double>(stage.forward_ns), layer.forward, 2);
    EXPECT_NEAR(static_cast<double>(stage.input_gradient_ns), layer.input, 2);
    EXPECT_NEAR(static_cast<double>(stage.weight_gradient_ns), layer.weight, 2);
    EXPECT_GE(layer.forward, before.forward);
    EXPECT_GE(layer.weight, before.weight);
    before = layer;
  }
}

// Attention that is not fused: every pass over its scores in turn, by bytes of a score.
TEST(Formula, AttentionThatIsNotFusedMovesItsScores) {
  ModelShape model = kLlama8B;
  const StageFormula fused = FormulaOf(model, kMachine, {.layers = 1});
  model.writes_scores = true;
  const StageFormula written = FormulaOf(model, kMachine, {.layers = 1});
  constexpr double kScores = 2, kSoftmax = 2, kMask = 1, kDropped = 2;
  const double forward = kScores + (kScores + kSoftmax) + (kSoftmax + kMask + kDropped) + kDropped;
  const double of_values = kDropped, of_dropped = kDropped;
  const double of_softmax = kDropped + kMask + kSoftmax;
  const double of_scores = kSoftmax + kSoftmax + kScores, of_products = 2 * kScores;
  const double back = of_values + of_dropped + of_softmax + of_scores + of_products;
  const double scores = 8192.0 * 8192 * 32, half = 2.0 * 8192 * 8192 * 4096;
  const double per_byte = 1e9 / 3e12, per_operation = 1e9 / 0.5e15;
  EXPECT_NEAR(static_cast<double>(written.forward_ns - fused.forward_ns),
              half * per_operation + forward * scores * per_byte, 2);
  EXPECT_NEAR(static_cast<double>(written.input_gradient_ns - fused.input_gradient_ns),
              (2 * 2 - 2.5) * half * per_operation + back * scores * per_byte, 2);
  EXPECT_EQ(written.weight_gradient_ns, fused.weight_gradient_ns);
}

// An expert's capacity counts where rows that exceed it are dropped.
TEST(Formula, CapacityOfExpertsIsReadWhereTheyDropRows) {
  const std::string path = absl::StrCat(testing::TempDir(), "/formula_", getpid(), ".yaml");
  for (const auto& [keys, capacity] :
       {std::pair("capacity: 1.25, exceeded: drop", 1'250'000), std::pair("exceeded: drop", 0),
        std::pair("capacity: dropless, exceeded: drop", 0),
        std::pair("capacity: 1.25, exceeded: error", 0), std::pair("capacity: 1.25", 0)}) {
    std::ofstream(path) << "model: {kind: moe, layers: 2, width: 64, heads: 4, context: 32, "
                        << "experts: 8, top_k: 2, expert_hidden: 48, " << keys << "}\n"
                        << "hardware: " STRINGLINE_SOURCE_DIR
                           "/schedlang/costs/hardware/h100.yaml\n";
    const auto spec = ReadCostFile(path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->formula->model.capacity, capacity) << keys;
  }
}

// A window makes half of the layers' attention linear in the context; ranks that share a sequence
// share all of a layer's work.
TEST(Formula, WindowsAndSharedSequencesTakeLessAttention) {
  ModelShape model = kLlama8B;
  MachineSpeed machine = kMachine;
  machine.memory_bandwidth = 0;
  const auto scores = [&] {
    const StageFormula stage = FormulaOf(model, machine, {.layers = 1});
    return stage.forward_scores * static_cast<double>(stage.forward_ns);
  };
  const double whole = scores();
  model.window = 128;
  EXPECT_NEAR(scores(), whole * (1 + 2 * 128.0 / 8192) / 2, 2);
  model.window = 0;
  const StageFormula alone = FormulaOf(model, machine, {.layers = 1});
  model.sequence = 4;
  const StageFormula shared = FormulaOf(model, machine, {.layers = 1});
  EXPECT_NEAR(shared.forward_ns, alone.forward_ns / 4.0, 1);
  EXPECT_NEAR(shared.saved_for_i, alone.saved_for_i / 4.0, 1);
  EXPECT_EQ(shared.parameters, alone.parameters);
}

// Experts shared out over more copies: fewer of their parameters on each, and nothing else changes.
TEST(Formula, ExpertsThatAreSharedOutTakeNoWorkFromARank) {
  ModelShape model = {.kind = kMoeModel, .layers = 2, .width = 64, .heads = 4, .context = 32};
  model.experts = 8;
  model.top_k = 2;
  model.expert_hidden = 48;
  model.shared_hidden = 16;
  const StagePart part = {.layers = 2};
  const StageFormula all = FormulaOf(model, kMachine, part);
  EXPECT_EQ(all.expert_parameters, 2 * 8 * 3 * 64 * 48);
  model.expert = 4;
  const StageFormula some = FormulaOf(model, kMachine, part);
  EXPECT_EQ(some.expert_parameters, all.expert_parameters / 4);
  EXPECT_EQ(all.parameters - some.parameters, all.expert_parameters * 3 / 4);
  EXPECT_EQ(some.forward_ns, all.forward_ns);
  EXPECT_EQ(some.input_gradient_ns, all.input_gradient_ns);
  EXPECT_EQ(some.weight_gradient_ns, all.weight_gradient_ns);
  EXPECT_EQ(some.saved_for_i, all.saved_for_i);
  EXPECT_EQ(some.saved_for_w, all.saved_for_w);
  EXPECT_EQ(some.stash, all.stash);
}

// The stages of a plan get the layers of the split, the first also the embedding and the last the
// head, each pipe anew.
TEST(Formula, StagesGetTheirOwnLayers) {
  const std::string path = absl::StrCat(testing::TempDir(), "/formula_", getpid(), ".yaml");
  std::ofstream(path) << "model: {kind: moe, layers: 7, width: 64, heads: 4, context: 32, experts: "
                         "8, top_k: 2,\n  expert_hidden: 48, first_dense: 3, hidden: 96}\n"
                      << "hardware: " STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware/h100.yaml\n";
  auto spec = ReadCostFile(path);
  unlink(path.c_str());
  ASSERT_TRUE(spec.ok()) << spec.status();
  spec->formula->machine = kMachine;
  const std::string pipes = "pipe a M=1 stages 0 1 2\npipe b M=1 stages 2 1 0\n";
  const std::string ranks =
      "rank 0: a[0]F0 b[2]F0 b[2]B0 a[0]B0\nrank 1: a[1]F0 b[1]F0 b[1]B0 a[1]B0\n"
      "rank 2: b[0]F0 a[2]F0 a[2]B0 b[0]B0\n";
  const struct {
    const char* split;
    int64_t layers[3];
  } cases[] = {{"", {3, 2, 2}}, {"split layers 1 4 2\n", {1, 4, 2}}};
  for (const auto& row : cases) {
    SCOPED_TRACE(row.split);
    const Plan plan = PlanFromText(absl::StrCat("plan x P=3 M=2\n", pipes, row.split, ranks));
    const auto costs = ResolveCosts(*spec, plan);
    ASSERT_TRUE(costs.ok()) << costs.status();
    int64_t first = 0;
    for (int s = 0; s < 6; ++s) {
      if (s % 3 == 0) first = 0;
      const StagePart part = {first, row.layers[s % 3], s % 3 == 0, s % 3 == 2};
      const StageFormula stage =
          FormulaByMatrices(spec->formula->model, spec->formula->machine, part);
      EXPECT_NEAR(costs->forward[s], stage.forward_ns, 1) << "stage " << s;
      EXPECT_NEAR(costs->memory[s][MemoryClass::kWeights], 2 * stage.parameters, 2);
      EXPECT_NEAR(costs->memory[s][MemoryClass::kStash], stage.stash, 1);
      first += part.layers;
    }
    // Both replicas of the middle stage are on rank 1: nothing to reduce.
    ASSERT_EQ(costs->reduce.size(), 6u);
    for (int s = 0; s < 6; ++s) EXPECT_EQ(costs->reduce[s] > 0, s % 3 != 1) << "stage " << s;
  }
}

TEST(Formula, EveryHardwareFileIsRead) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1I0 1W0\n");
  int files = 0;
  const std::string folder = STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string path = absl::StrCat(testing::TempDir(), "/formula_", getpid(), ".yaml");
    std::ofstream(path) << "model: {layers: 3, width: 1024, heads: 8, vocabulary: 1000, context: "
                           "2048}\nW: 5ms\nhardware: "
                        << entry.path().string() << "\n";
    const auto spec = ReadCostFile(path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto model = ResolveCosts(*spec, plan);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_GT(model->forward[0], model->forward[1] / 10);  // two layers, a layer and the head
    EXPECT_GT(model->memory[0][MemoryClass::kWeights], 0);
    EXPECT_EQ(model->weight_gradient[0], 5'000'000);  // the file's own number wins
    EXPECT_GT(
        HopOf(plan, *model, {.kind = ActionKind::kSendForward, .stage = StageId(0)}).transfer_ns,
        0);
    ++files;
  }
  EXPECT_EQ(files, 9);
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
    {"model: {kind: moe, capacity: much, exceeded: drop}\n",
     ":1: model.capacity: expected 'dropless', or the rows that an expert takes, over its even "
     "share (1.25), up to 1000"},
    {"model: 3\n", ":1: model: expected a map"},
    {"hardware: nowhere.yaml\n", ": a formula needs both 'model' and 'hardware'"},
    {"model: {layers: 3, width: 8, heads: 2, vocabulary: 9, context: 4}\n",
     ": a formula needs both 'model' and 'hardware'"},
    {"model: {kind: llama, layers: 2, width: 64, heads: 4, context: 32, hidden: 9, rope_dim: 8}\n",
     ":1: model.rope_dim: is of latent attention, which needs model.kv_rank"},
    {"layer_recompute: some\n",
     ":1: layer_recompute: expected none, selective, all, or a number of layers of each stage"},
    {"layer_offload: -1\n",
     ":1: layer_offload: expected none, all, or a number of layers of each stage"},
    {"attention_scores: no\n", ":1: attention_scores: expected fused or written"},
    {"mesh: {layout: mine}\n", ":1: mesh.layout: expected own or megatron"},
    {"precision: fp16\n", ":1: precision: expected fp32 or bf16 or fp8 or mxfp8 or nvfp4"},
    {"sharding: 2\n", ":1: sharding: expected none or optimizer or gradients or parameters"},
    {"bucket: 0\n", ":1: bucket: expected a number of bytes (25MiB)"},
    {"bucket: big\n", ":1: bucket: 'big' is not a number of bytes (16MiB, 2GB)"},
    {"optimizer: sharded\n",
     ":1: 'optimizer' is said by 'sharding': none, optimizer, gradients or parameters"},
    {"mesh: {copies: 2}\n",
     ":1: unknown key 'mesh.copies' (there are layout, pipeline, data, expert, shard, replicate, "
     "tensor, context)"},
    {"data: {batch: 3}\n",
     ":1: unknown key 'data.batch' (there are text, tokens, dtype, microbatch)"},
    // Old names, and names of run files only
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
