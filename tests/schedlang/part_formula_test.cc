// Collectives inside layers, by formula: against the ring's formula written out layer by layer, and
// steps with them against hand arithmetic.
#include "schedlang/costs/part_formula.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/report/network_time.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

const MachineSpeed kFastMachine = {"a machine", 1e15, 3e12, 0.5};

// `@machine` in the text stands for a machine that counts no tiles.
absl::StatusOr<CostModel> ResolveText(const std::string& text, const Plan& plan) {
  const std::string path = absl::StrCat(testing::TempDir(), "/part_formula_", getpid(), ".yaml");
  const std::string machine = absl::StrCat(path, ".machine");
  std::ofstream(machine) << "flops: 989.4e12\nmemory_bandwidth: 3350GB/s\nefficiency: 0.55\n"
                         << "p2p: 10us\nbandwidth: 50GB/s\n"
                         << "node: {ranks: 8, p2p: 5us, bandwidth: 450GB/s}\n";
  std::ofstream(path) << absl::StrReplaceAll(text, {{"@machine", machine}});
  const auto spec = ReadCostFile(path);
  unlink(path.c_str());
  unlink(machine.c_str());
  return spec.ok() ? ResolveCosts(*spec, plan) : spec.status();
}

// Every collective of a layer in turn, forward and backward: the bytes of all its members, and the
// part in which it stands.
struct Collective {
  Part part;
  double bytes;
  bool of_experts = false;  // between coordinates; else between tensor-parallel ranks
};

std::vector<Collective> CollectivesOf(const ModelShape& model, bool experts) {
  const auto of_all = static_cast<double>(model.microbatch * model.context * model.width) *
                      static_cast<double>(model.bytes);
  const bool shared_out = experts && model.expert > 1;
  std::vector<Collective> list = {
      {kFDispatch, of_all},  // attention's output is reduced and scattered
      {kBDispatch, of_all},  // its gradient is gathered
      {kBDispatch, of_all},  // the input of attention's weight gradient is gathered
      {kFCombine, of_all},   // the input of the next attention is gathered
      {kBCombine, of_all},   // its gradient is reduced and scattered
  };
  std::vector<double> inside;  // what the network's input consists of
  if (shared_out) {
    const double rows = of_all * static_cast<double>(model.top_k);
    for (const Part part : {kFDispatch, kFCombine, kBCombine, kBDispatch}) {
      list.push_back({part, rows / static_cast<double>(model.tensor), true});
    }
    inside.push_back(rows);
    if (model.shared_hidden > 0) inside.push_back(of_all);
  } else {
    inside.push_back(of_all);
  }
  for (const double bytes : inside) {
    list.push_back({kFDispatch, bytes});  // the network's input is gathered
    list.push_back({kFCombine, bytes});   // its output is reduced and scattered
    list.push_back({kBCombine, bytes});   // the gradient of that is gathered
    list.push_back({kBCombine, bytes});   // the input of its weight gradient, too
    list.push_back({kBDispatch, bytes});  // the gradient of its input is reduced and scattered
  }
  return list;
}

// By part, the sum over all layers of the stage.
std::array<double, kParts> NetworkOfStage(const ModelShape& model, const StagePart& part,
                                          const LayerLinks& links) {
  std::array<double, kParts> sums = {};
  for (int64_t k = part.first_layer; k < part.first_layer + part.layers; ++k) {
    const bool experts = model.kind == kMoeModel && k >= model.first_dense;
    for (const Collective& collective : CollectivesOf(model, experts)) {
      const double n = static_cast<double>(collective.of_experts ? model.expert : model.tensor);
      const RingLink& link = collective.of_experts ? links.experts : links.tensor;
      const double seconds = collective.bytes / n / static_cast<double>(link.bandwidth);
      sums[collective.part] += (n - 1) * (static_cast<double>(link.latency_ns) + seconds * 1e9);
    }
  }
  return sums;
}

ModelShape RandomModel(std::mt19937_64* random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(*random);
  };
  ModelShape model;
  constexpr ModelKind kKinds[] = {kGptModel, kLlamaModel, kMoeModel};
  model.kind = kKinds[draw(0, 2)];
  model.heads = draw(1, 8);
  model.width = 8 * model.heads * draw(1, 20);
  model.context = draw(1, 500);
  model.vocabulary = draw(1, 5000);
  model.hidden = draw(1, 900);
  model.expert = draw(1, 4);
  model.experts = model.expert * draw(1, 8);
  model.top_k = draw(1, model.experts);
  model.expert_hidden = draw(1, 200);
  model.shared_hidden = draw(0, 1) * draw(1, 100);
  model.first_dense = draw(0, 6);
  model.microbatch = draw(1, 4);
  model.tensor = draw(1, 4);
  return model;
}

// The sums over layers are those of the collectives written out and of the formula without any; in
// stages of both kinds of layers, too.
TEST(PartFormula, SumsAreThoseOfEveryCollectiveInTurn) {
  int with_both = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const ModelShape model = RandomModel(&random);
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const StagePart part = {draw(0, 5), draw(0, 4), draw(0, 1) == 1, draw(0, 1) == 1};
    const LayerLinks links = {{draw(0, 9000), draw(1, 9) * 1'000'000'000},
                              {draw(0, 9000), draw(1, 9) * 1'000'000'000}};
    const PartCosts parts = PartsOf(model, kFastMachine, part, links);
    EXPECT_EQ(parts.layers, part.layers);
    const std::array<double, kParts> network = NetworkOfStage(model, part, links);
    const auto layers = static_cast<double>(part.layers);
    double forward = 0, input = 0;
    for (int p = 0; p < kParts; ++p) {
      if (LaneOf(p) != Lane::kNetwork) continue;
      EXPECT_NEAR(static_cast<double>(parts.ns[p]) * layers, network[p], 2 * layers) << PartName(p);
      (RowOfPart(p).of == ActionKind::kForward ? forward : input) += network[p];
    }
    const StageFormula computing = FormulaOf(model, kFastMachine, part);
    // A head gathers its input twice, and reduces its gradient once.
    const auto n = static_cast<double>(model.tensor);
    const double gather = part.head
                              ? (n - 1) * (static_cast<double>(links.tensor.latency_ns) +
                                           static_cast<double>(ActivationBytes(model)) / n * 1e9 /
                                               static_cast<double>(links.tensor.bandwidth))
                              : 0;
    const double rounding = 6 * layers + 3;
    EXPECT_NEAR(parts.Forward(), static_cast<double>(computing.forward_ns) + forward + gather,
                rounding);
    EXPECT_NEAR(parts.InputGradient(),
                static_cast<double>(computing.input_gradient_ns) + input + 2 * gather, rounding);
    EXPECT_NEAR(parts.WeightGradient(), computing.weight_gradient_ns, rounding);
    if (!HasCollectivesInside(model)) {
      EXPECT_EQ(forward + input, 0);
    }
    const int64_t dense = DenseLayersOf(model, part);
    if (model.expert > 1 && dense > 0 && dense < part.layers) ++with_both;
  }
  EXPECT_GT(with_both, 20);
}

// A layer of GPT at two ranks, in round numbers: 2 sequences of 500 tokens, 1000 channels of 2
// bytes are 2 MB, half of them at 1 GB/s take 1 ms, and the latency is 100 us.
constexpr const char* kRoundGpt =
    "model: {kind: gpt, layers: 2, width: 1000, heads: 10, context: 500, vocabulary: 100}\n"
    "data: {microbatch: 2}\n"
    "hardware: @machine\n";

TEST(PartFormula, PlansGetPartsWithKnownLinksAndTensorParallelRanks) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0I0 0W0\nrank 1: 1F0 1I0 1W0\n");
  const std::string slow = "p2p: 300us\nbandwidth: 1MB/s\n";
  const auto whole = ResolveText(absl::StrCat(kRoundGpt, slow), plan);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->parts.empty());

  const auto costs = ResolveText(absl::StrCat(kRoundGpt, slow, "mesh: {tensor: 2}\n",
                                              "node: {ranks: 2, p2p: 100us, bandwidth: 1GB/s}\n"),
                                 plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->parts.size(), 2u);
  const PartCosts& first = costs->parts[0];
  EXPECT_EQ(first.layers, 1);
  EXPECT_EQ(first.ns[kFDispatch], 2'200'000);
  EXPECT_EQ(first.ns[kFCombine], 2'200'000);
  EXPECT_EQ(first.ns[kBDispatch], 3'300'000);
  EXPECT_EQ(first.ns[kBCombine], 3'300'000);
  EXPECT_NEAR(costs->forward[0], whole->forward[0] / 2 + 4'400'000, 2);
  EXPECT_NEAR(costs->input_gradient[0], whole->input_gradient[0] / 2 + 6'600'000, 2);
  EXPECT_NEAR(costs->weight_gradient[0], whole->weight_gradient[0] / 2, 2);
  // The last stage has the head, which gathers its input.
  EXPECT_EQ(costs->parts[1].ns[kFDispatch], 2'200'000);
  EXPECT_NEAR(costs->forward[1], whole->forward[1] / 2 + 5'500'000, 2);
  EXPECT_NEAR(costs->input_gradient[1], whole->input_gradient[1] / 2 + 8'800'000, 2);
  EXPECT_EQ(costs->memory[0][MemoryClass::kMessages], 1'000'000);

  // Two ranks of one node only: the ring of the others, on two nodes, has the links between nodes.
  const auto across =
      ResolveText(absl::StrCat(kRoundGpt, "mesh: {tensor: 2}\np2p: 200us\nbandwidth: 500MB/s\n",
                               "node: {ranks: 3, p2p: 100us, bandwidth: 1GB/s}\n"),
                  plan);
  ASSERT_TRUE(across.ok()) << across.status();
  EXPECT_EQ(across->parts[0].ns[kFDispatch], 2'200'000);
  EXPECT_EQ(across->parts[1].ns[kFDispatch], 4'400'000);
}

// Four ranks share a sequence of 1024 tokens: keys and values of 256 tokens, 2 x 256 channels of 2
// bytes, go round three times, and their gradients with them. What is hidden of it takes no time; a
// layer that recomputes passes them on once more.
TEST(PartFormula, KeysGoRoundAmongTheRanksOfASequence) {
  ModelShape model = {.kind = kLlamaModel, .layers = 1, .width = 1024, .heads = 8, .context = 1024};
  model.kv_heads = 2;
  model.hidden = 64;
  model.sequence = 4;
  model.layout = MeshLayout::kMegatron;
  LayerLinks links;
  links.sequence = {1'000, 1'000'000'000};
  MachineSpeed machine = kFastMachine;
  const int64_t ring = 3 * (1'000 + 256 * 2 * 256 * 2);
  PartCosts parts = PartsOf(model, machine, {.layers = 1}, links);
  EXPECT_EQ(parts.ns[kFDispatch], ring);
  EXPECT_EQ(parts.ns[kBDispatch], 2 * ring);
  EXPECT_EQ(parts.ns[kFCombine] + parts.ns[kBCombine], 0);
  model.recomputed_layers = 1;
  EXPECT_EQ(PartsOf(model, machine, {.layers = 1}, links).ns[kBDispatch], 3 * ring);
  machine.hidden = 0.5;
  EXPECT_EQ(PartsOf(model, machine, {.layers = 1}, links).ns[kFDispatch], ring / 2);
}

// Two of eight experts a token, on four ranks of a node: 2 x 3 / 4 of a rank's 1024 rows of 2048
// bytes. Half of that is hidden, unless experts drop rows: then there are as many as their capacity
// says, and nothing of it is hidden.
TEST(PartFormula, ExchangesOfExpertsThatDropRowsAreNotHidden) {
  ModelShape model = {.kind = kMoeModel, .layers = 1, .width = 1024, .heads = 8, .context = 1024};
  model.experts = 8;
  model.top_k = 2;
  model.expert_hidden = 64;
  model.expert = 4;
  model.layout = MeshLayout::kMegatron;
  LayerLinks links;
  links.inside = {0, 1'000'000'000};
  links.experts_near = 4;
  MachineSpeed machine = kFastMachine;
  machine.hidden = 0.5;
  const int64_t exchange = 2 * 1024 * 2048 * 3 / 4;
  for (const Part part : {kFDispatch, kFCombine, kBDispatch, kBCombine}) {
    model.capacity = 0;
    EXPECT_EQ(PartsOf(model, machine, {.layers = 1}, links).ns[part], exchange / 2);
    model.capacity = 1'500'000;
    EXPECT_EQ(PartsOf(model, machine, {.layers = 1}, links).ns[part], exchange * 3 / 2);
  }
}

// A machine whose links are not said: nothing is counted between ranks, as ever.
TEST(PartFormula, UnknownLinksGiveNoParts) {
  const std::string machine = absl::StrCat(testing::TempDir(), "/no_links_", getpid(), ".yaml");
  std::ofstream(machine) << "flops: 1e15\nmemory_bandwidth: 3000GB/s\n";
  const Plan plan = PlanFromText("plan x P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n");
  const std::string model =
      "model: {kind: gpt, layers: 2, width: 1000, heads: 10, context: 500, vocabulary: 100}\n";
  const auto costs =
      ResolveText(absl::StrCat(model, "mesh: {tensor: 4}\nhardware: ", machine, "\n"), plan);
  const auto linked = ResolveText(
      absl::StrCat(model, "mesh: {tensor: 4}\np2p: 0\nhardware: ", machine, "\n"), plan);
  unlink(machine.c_str());
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_TRUE(costs->parts.empty());
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_EQ(linked->parts.size(), 1u);
  EXPECT_NEAR(linked->forward[0], costs->forward[0], 4);
}

TEST(PartFormula, PartsGivenByHandReplaceTheFormulas) {
  const Plan plan = PlanFromText("plan x P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n");
  const std::string text =
      absl::StrCat(kRoundGpt, "mesh: {tensor: 2}\nnode: {p2p: 100us, bandwidth: 1GB/s}\n");
  const auto formula = ResolveText(text, plan);
  const auto given = ResolveText(absl::StrCat(text, "F.scatter: 7ms\nB.mlp: 3ms\n"), plan);
  ASSERT_TRUE(formula.ok() && given.ok()) << formula.status() << given.status();
  EXPECT_EQ(given->parts[0].ns[kFDispatch], 7'000'000);
  EXPECT_EQ(given->parts[0].ns[kBExperts], 3'000'000);
  EXPECT_EQ(given->parts[0].ns[kFCombine], formula->parts[0].ns[kFCombine]);
  EXPECT_EQ(given->forward[0] - formula->forward[0],
            2 * (7'000'000 - formula->parts[0].ns[kFDispatch]));
}

// Experts on two coordinates of two tensor-parallel ranks, which are a node: all-to-alls have the
// links between nodes, at 1 us a kB. A microbatch has 8 tokens of 500 channels in 2 bytes, 8 kB;
// three rows of each token are 24 kB, half of it a rank's.
TEST(PartFormula, SharedOutExpertsExchangeTheirRows) {
  const Plan plan = PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n");
  const std::string text =
      "model: {kind: moe, layers: 4, width: 500, heads: 5, context: 8, experts: 8, top_k: 3,\n"
      "  expert_hidden: 10, first_dense: 1, hidden: 10, vocabulary: 10}\n"
      "hardware: " STRINGLINE_SOURCE_DIR
      "/schedlang/costs/hardware/h100.yaml\n"
      "p2p: 1us\nbandwidth: 1GB/s\nnode: {ranks: 2, p2p: 0, bandwidth: 4GB/s}\n";
  const auto costs = ResolveText(text + "mesh: {tensor: 2, expert: 2}\n", plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const int64_t gather = 1'000, rows = 3'000, exchange = 7'000;  // 4 kB and 12 kB at 4 GB/s
  const int64_t mixed = gather + exchange + rows, dense = 2 * gather;
  EXPECT_EQ(costs->parts[1].ns[kFDispatch], mixed);
  EXPECT_EQ(costs->parts[1].ns[kFCombine], mixed);
  EXPECT_EQ(costs->parts[1].ns[kBCombine], mixed + rows);
  EXPECT_EQ(costs->parts[1].ns[kBDispatch], mixed + gather);
  // One of the first stage's two layers is dense.
  EXPECT_EQ(costs->parts[0].ns[kFDispatch], (mixed + dense) / 2);
  EXPECT_EQ(costs->parts[0].ns[kBCombine], (mixed + rows + dense + gather) / 2);

  const auto alone = ResolveText(text + "mesh: {expert: 2}\n", plan);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->parts[1].ns[kFDispatch], 13'000);
  EXPECT_EQ(alone->parts[1].ns[kBCombine], 13'000);
  EXPECT_EQ(alone->parts[0].ns[kFDispatch], 6'500);
  // Both coordinates of one rank are on one node.
  const Plan one = PlanFromText("plan x P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n");
  const auto inside = ResolveText(text + "mesh: {expert: 2}\nlayers: 1\n", one);
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(inside->parts[0].ns[kFDispatch], 3'000 * 3 / 4);  // of four layers one is dense
  EXPECT_EQ(inside->parts[0].layers, 1);                      // given by hand
  // Every rank has all experts of its slice: rows stay where their tokens are.
  const auto sliced = ResolveText(text + "mesh: {tensor: 2}\n", plan);
  ASSERT_TRUE(sliced.ok()) << sliced.status();
  EXPECT_EQ(sliced->parts[1].ns[kFDispatch], dense);
}

// Stages of one, two and no layers.
TEST(PartFormula, StagesHaveTheirOwnNumbersOfLayers) {
  const Plan plan = PlanFromText(
      "plan x P=3 M=1\nstages 0 1 2\nsplit layers 2 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n"
      "rank 2: 2F0 2B0\n");
  const auto costs = ResolveText(
      "model: {kind: gpt, layers: 3, width: 1000, heads: 10, context: 500, vocabulary: 100}\n"
      "data: {microbatch: 2}\nmesh: {tensor: 2}\n"
      "hardware: " STRINGLINE_SOURCE_DIR
      "/schedlang/costs/hardware/h100.yaml\n"
      "node: {p2p: 100us, bandwidth: 1GB/s}\n",
      plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->parts[0].layers, 2);
  EXPECT_EQ(costs->parts[1].layers, 0);
  EXPECT_EQ(costs->parts[2].layers, 1);
  const int64_t head = costs->parts[2].ns[kFPost];
  EXPECT_GT(head, 1'100'000);
  EXPECT_EQ(costs->forward[1], 0);
  EXPECT_EQ(costs->forward[0], 2 * (costs->forward[2] - head));
}

// One layer on one rank. An F beside a B: on the compute lane F.attn, then B.experts when B.combine
// has ended, and so on; every wait worked out in the test.
TEST(PartFormula, APairTakesTheTimeOfItsLanes) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1&0B0 0B1\n");
  const auto costs = ResolveText(
      "model: {kind: llama, layers: 1, width: 4096, heads: 32, kv_heads: 8, hidden: 14336,\n"
      "  context: 8192, vocabulary: 10}\nmesh: {tensor: 8}\n"
      "hardware: " STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware/h100.yaml\n",
      plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const auto& ns = costs->parts[0].ns;
  int64_t compute = ns[kBPost], network = ns[kBPost];
  network += ns[kBCombine];
  const int64_t combined = network;
  compute += ns[kFAttn];
  network = std::max(network, compute) + ns[kFDispatch];
  const int64_t dispatched = network;
  compute = std::max(compute, combined) + ns[kBExperts];
  network = std::max(network, compute) + ns[kBDispatch];
  const int64_t back = network;
  compute += ns[kWExperts];
  compute = std::max(compute, dispatched) + ns[kFExperts];
  network = std::max(network, compute) + ns[kFCombine];
  compute = std::max(compute, back) + ns[kBAttn];
  compute += ns[kWAttn] + ns[kWPost];
  compute = std::max(compute, network) + ns[kFPost];

  const Plan lowered = Lower(plan);
  const auto timeline = Simulate(lowered, *costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->events[0].end_ns, costs->forward[0]);  // alone: one after the other
  const Event& pair = timeline->events[1];
  EXPECT_NEAR(pair.end_ns - pair.start_ns, compute, 12);
  EXPECT_LT(pair.end_ns - pair.start_ns, costs->forward[0] + costs->backward[0]);
  const NetworkTimes times = MeasureNetwork(lowered, *timeline);
  EXPECT_EQ(times.all.network_ns,
            2 * (ns[kFDispatch] + ns[kFCombine] + ns[kBDispatch] + ns[kBCombine]));
  EXPECT_GT(times.all.hidden_ns, 0);
}

// The figures of schedules/README.md: the model of example 06 on four nodes of eight.
TEST(PartFormula, SchedulesHideWhatTheirDocumentSays) {
  const auto hidden = [](const char* schedule, int chunks, int64_t makespan_us) {
    Plan plan = *PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", schedule, 4, 16);
    plan.chunks = chunks;
    auto spec = ReadCostFile(STRINGLINE_SOURCE_DIR "/examples/06_where_the_time_goes/llama.yaml");
    EXPECT_TRUE(spec.ok()) << spec.status();
    EXPECT_TRUE(ChangeCopies({.mesh = "tensor=8"}, &*spec).ok());
    const auto costs = ResolveCosts(*spec, plan);
    EXPECT_TRUE(costs.ok()) << costs.status();
    const auto timeline = Simulate(plan, *costs);
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_NEAR(static_cast<double>(MakespanOf(*timeline)) / 1000, static_cast<double>(makespan_us),
                0.5)
        << schedule;
    const NetworkTime all = MeasureNetwork(plan, *timeline).all;
    return std::round(1000.0 * static_cast<double>(all.hidden_ns) /
                      static_cast<double>(all.transfer_ns())) /
           10;
  };
  EXPECT_EQ(hidden("1f1b", 1, 792'824), 0);
  EXPECT_EQ(hidden("zb_v", 1, 696'087), 0);
  EXPECT_EQ(hidden("dualpipe_v", 1, 569'364), 65.9);
  EXPECT_EQ(hidden("megatron_combined", 1, 572'307), 71.1);
  EXPECT_EQ(hidden("1f1b", 2, 549'399), 94.9);
  EXPECT_EQ(hidden("dualpipe_v", 2, 482'068), 97.6);
}

}  // namespace
}  // namespace stringline
