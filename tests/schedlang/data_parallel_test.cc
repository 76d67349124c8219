// Copies of a pipeline: collective times against numbers by hand, properties of the formulas,
// sharding, and timelines by hand.
#include "schedlang/costs/data_parallel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/costs/costs.h"
#include "schedlang/costs/part_formula.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/report/collective_waits.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

Plan TwoRanks() {
  return PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n");
}

// A byte per nanosecond inside a node of four ranks, a tenth of this rate between nodes.
MeshLinks TwoSpeeds() {
  return {.between = {100, 100'000'000}, .inside = {10, 1'000'000'000}, .node_ranks = 4};
}

ModelShape Mesh(int64_t data, int64_t expert, int64_t shard, int64_t bucket = 1000) {
  ModelShape mesh;
  mesh.copies = data;
  mesh.expert = expert;
  mesh.shard = shard;
  mesh.bucket = bucket;
  return mesh;
}

CollectiveTimes TimesOn(const Plan& plan, const ModelShape& mesh, Sharding sharding,
                        int64_t parameters, int64_t of_experts = 0,
                        const MeshLinks& links = TwoSpeeds()) {
  StageFormula part;
  part.parameters = parameters;
  part.expert_parameters = of_experts;
  return TimesOfCollectives(plan, StageId(0), mesh, sharding, part, links);
}

TEST(DataParallel, ARingPassesSharesOn) {
  // Three steps of 1 us and 2 GB at 1 GB/s.
  EXPECT_DOUBLE_EQ(RingNs(8'000'000'000, 1, 4, {1000, 1'000'000'000}), 3 * (1000 + 2e9));
  EXPECT_DOUBLE_EQ(RingNs(8'000'000'000, 5, 4, {1000, 1'000'000'000}), 3 * (5000 + 2e9));
  EXPECT_DOUBLE_EQ(RingNs(4096, 1, 1, {1000, 1}), 0);       // nobody to pass anything on to
  EXPECT_DOUBLE_EQ(RingNs(4096, 2, 3, {7, 0}), 2 * 2 * 7);  // free bytes
}

// A node holds two copies of two ranks. 4000 bytes of gradients are four buckets, and 2000 of
// parameters.
TEST(DataParallel, SharesStayInsideANodeAndReplicasCross) {
  const Plan plan = TwoRanks();
  const ModelShape mesh = Mesh(/*data=*/4, /*expert=*/1, /*shard=*/2);
  // All four: two times three steps of 1000 bytes between nodes.
  const int64_t all_reduce_ns = 2 * 3 * (4 * 100 + 10'000);
  EXPECT_EQ(TimesOn(plan, mesh, Sharding::kNone, 1000).reduce_ns, all_reduce_ns);
  EXPECT_EQ(TimesOn(plan, mesh, Sharding::kNone, 1000).update_ns, 0);
  // Shares are gathered by the two in a node, after the step or before use.
  const int64_t gather_ns = 4 * 10 + 1000;
  const CollectiveTimes optimizer = TimesOn(plan, mesh, Sharding::kOptimizer, 1000);
  EXPECT_EQ(optimizer.reduce_ns, all_reduce_ns);
  EXPECT_EQ(optimizer.update_ns, gather_ns);
  EXPECT_EQ(optimizer.gather_ns, 0);
  // Scattered in the node, then half of the sum is reduced with the other node.
  const int64_t both_ns = (4 * 10 + 2000) + 2 * (4 * 100 + 10'000);
  const CollectiveTimes gradients = TimesOn(plan, mesh, Sharding::kGradients, 1000);
  EXPECT_EQ(gradients.reduce_ns, both_ns);
  EXPECT_EQ(gradients.update_ns, gather_ns);
  const CollectiveTimes parameters = TimesOn(plan, mesh, Sharding::kParameters, 1000);
  EXPECT_EQ(parameters.reduce_ns, both_ns);
  EXPECT_EQ(parameters.gather_ns, gather_ns);
  EXPECT_EQ(parameters.update_ns, 0);
}

// 400 of 1000 parameters are of experts, sharded over two expert coordinates. Dense parameters are
// summed over four copies, an expert over its two copies; all cross nodes.
TEST(DataParallel, ExpertsAreSummedOverTheirOwnCopies) {
  const CollectiveTimes times =
      TimesOn(TwoRanks(), Mesh(/*data=*/2, /*expert=*/2, /*shard=*/2), Sharding::kNone, 1000, 400);
  const int64_t dense_ns = 2 * 3 * (3 * 100 + 6000), experts_ns = 2 * 1 * (2 * 100 + 8000);
  EXPECT_EQ(times.reduce_ns, dense_ns + experts_ns);
}

TEST(DataParallel, PipesHoldCopiesToo) {
  const Plan plan = PlanFromText(
      "plan x P=2 M=2\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
      "rank 0: a[0]F0 b[1]F0 b[1]B0 a[0]B0\nrank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0\n");
  // Both ranks are on the same node.
  EXPECT_EQ(TimesOn(plan, Mesh(1, 1, 1), Sharding::kNone, 1000).reduce_ns, 2 * (4 * 10 + 2000));
  EXPECT_EQ(CopiesOf(plan, StageId(0), Mesh(3, 1, 3)), 6);
  EXPECT_EQ(CopiesOf(TwoRanks(), StageId(0), Mesh(3, 2, 3)), 6);
}

TEST(DataParallel, TensorParallelRanksFillNodes) {
  ModelShape mesh = Mesh(/*data=*/2, 1, 2);
  EXPECT_EQ(TimesOn(TwoRanks(), mesh, Sharding::kNone, 1000).reduce_ns, 2 * (4 * 10 + 2000));
  EXPECT_FALSE(NodesApart(TwoRanks(), RankId(0), RankId(1), mesh, 4));
  mesh.tensor = 2;
  EXPECT_EQ(TimesOn(TwoRanks(), mesh, Sharding::kNone, 1000).reduce_ns, 2 * (4 * 100 + 20'000));
  EXPECT_FALSE(NodesApart(TwoRanks(), RankId(0), RankId(1), mesh, 4));
  mesh.tensor = 4;
  EXPECT_TRUE(NodesApart(TwoRanks(), RankId(0), RankId(1), mesh, 4));
}

// Ranks 0 and 1 share a node in the first copy; in the second, global ranks 3 to 5, they do not.
TEST(DataParallel, AMessageIsAsSlowAsOnTheSlowestCopy) {
  const Plan plan = PlanFromText(
      "plan x P=3 M=1\nstages 0 1 2\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n");
  EXPECT_FALSE(NodesApart(plan, RankId(0), RankId(1), Mesh(1, 1, 1), 4));
  EXPECT_TRUE(NodesApart(plan, RankId(0), RankId(1), Mesh(2, 1, 2), 4));
  EXPECT_FALSE(NodesApart(plan, RankId(1), RankId(2), Mesh(2, 1, 2), 4));
}

// The slots on nodes of the tensor-parallel ranks at a place, by coordinate and rank of the
// pipeline: written a second time, place by place.
struct MeshSlots {
  const Plan& plan;
  const ModelShape& mesh;
  int64_t node_ranks;

  int64_t NodeOf(int64_t data, int64_t expert, int64_t rank, int64_t place) const {
    const int64_t coordinate = data * mesh.expert + expert;
    return (coordinate * plan.ranks() * mesh.tensor + rank * mesh.tensor + place) / node_ranks;
  }
};

struct RingGroup {
  int64_t ranks = 0;      // in the group
  bool on_nodes = false;  // on more than one node
};

// All groups of ranks for which `key(data, expert, holder)` is the same.
template <typename Key>
RingGroup GroupsBy(const MeshSlots& slots, const std::set<int32_t>& holders, Key key) {
  std::map<std::vector<int64_t>, std::vector<int64_t>> nodes;  // of a group's ranks
  for (int64_t d = 0; d < slots.mesh.copies; ++d) {
    for (int64_t x = 0; x < slots.mesh.expert; ++x) {
      for (const int32_t holder : holders) {
        for (int64_t place = 0; place < slots.mesh.tensor; ++place) {
          std::vector<int64_t> group = key(d, x, holder);
          group.push_back(place);
          nodes[group].push_back(slots.NodeOf(d, x, holder, place));
        }
      }
    }
  }
  RingGroup all;
  for (const auto& [group, of_ranks] : nodes) {
    all.ranks = static_cast<int64_t>(of_ranks.size());
    const std::set<int64_t> different(of_ranks.begin(), of_ranks.end());
    all.on_nodes = all.on_nodes || different.size() > 1;
  }
  return all;
}

CollectiveTimes TimesOfGroups(const Plan& plan, int stage, const ModelShape& mesh,
                              Sharding sharding, const StageFormula& part, const MeshLinks& links) {
  const int parts =
      plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages;
  std::set<int32_t> holders;
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    if (s % parts == stage % parts) holders.insert(plan.stages[s].rank.value);
  }
  const MeshSlots slots = {plan, mesh, links.node_ranks > 0 ? links.node_ranks : 1};
  const int64_t share = mesh.shard;
  const auto ring_ns = [&](double bytes, double calls, const RingGroup& group) {
    const bool crosses = links.node_ranks == 0 || group.on_nodes;
    const RingLink& link = crosses ? links.between : links.inside;
    const auto n = static_cast<double>(group.ranks);
    const double rate = static_cast<double>(link.bandwidth) / 1e9;
    return (n - 1) * (calls * static_cast<double>(link.latency_ns) + bytes / n / rate);
  };
  using Key = std::vector<int64_t>;
  const RingGroup shares = GroupsBy(slots, holders, [&](int64_t d, int64_t x, int64_t holder) {
    return Key{d / share, x, holder};
  });
  double gather_ns = 0, reduce_ns = 0;
  for (const bool experts : {false, true}) {
    const int64_t parameters =
        experts ? part.expert_parameters : part.parameters - part.expert_parameters;
    const double calls =
        std::ceil(4.0 * static_cast<double>(parameters) / static_cast<double>(mesh.bucket));
    const auto bytes = static_cast<double>(4 * parameters);
    const RingGroup all =
        GroupsBy(slots, holders, [&](int64_t, int64_t x, int64_t) { return Key{experts ? x : 0}; });
    const RingGroup replicas = GroupsBy(slots, holders, [&](int64_t d, int64_t x, int64_t) {
      return Key{d % share, experts ? x : 0};
    });
    gather_ns += ring_ns(static_cast<double>(parameters * mesh.bytes), calls, shares);
    if (sharding == Sharding::kNone || sharding == Sharding::kOptimizer) {
      reduce_ns += 2 * ring_ns(bytes, calls, all);
    } else {
      reduce_ns += ring_ns(bytes, calls, shares) +
                   2 * ring_ns(bytes / static_cast<double>(share), calls, replicas);
    }
  }
  const auto rounded = [](double ns) { return std::llround(ns); };
  if (sharding == Sharding::kNone) return {0, rounded(reduce_ns), 0};
  if (sharding == Sharding::kParameters) return {rounded(gather_ns), rounded(reduce_ns), 0};
  return {0, rounded(reduce_ns), rounded(gather_ns)};
}

// Plans with and without pipes; meshes that fill small nodes unevenly, so that some replicas of a
// share, or of an expert, are on the same node and others are not.
TEST(DataParallel, TimesAreThoseOfGroupsThatAreLaidOutOneByOne) {
  const Plan plans[] = {
      TwoRanks(),
      PlanFromText("plan x P=3 M=1\nstages 0 1 2\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n"
                   "rank 2: 2F0 2B0\n"),
      PlanFromText("plan x P=2 M=1\nstages 0 1 1 0\nrank 0: 0F0 3F0 3B0 0B0\n"
                   "rank 1: 1F0 2F0 2B0 1B0\n"),
      PlanFromText("plan x P=3 M=2\npipe a M=1 stages 0 1 2\npipe b M=1 stages 2 1 0\n"
                   "rank 0: a[0]F0 b[2]F0 b[2]B0 a[0]B0\nrank 1: a[1]F0 b[1]F0 b[1]B0 a[1]B0\n"
                   "rank 2: b[0]F0 a[2]F0 a[2]B0 b[0]B0\n")};
  std::set<std::vector<bool>> seen;  // times that differ from those of a single large node
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const Plan& plan = plans[draw(0, 3)];
    const int64_t shard = draw(1, 4);
    ModelShape mesh = Mesh(shard * draw(1, 4), draw(1, 4), shard, draw(100, 100'000));
    mesh.tensor = draw(1, 3);
    mesh.bytes = 2 * draw(1, 2);
    MeshLinks links = TwoSpeeds();
    links.node_ranks = draw(0, 2) == 0 ? draw(0, 60) : draw(1, 12);
    StageFormula part;
    part.parameters = shard * draw(1, 100'000);  // whole bytes for every share
    part.expert_parameters = draw(0, 2) == 0 ? 0 : shard * draw(0, part.parameters / shard);
    const int stage = static_cast<int>(draw(0, static_cast<int64_t>(plan.stages.size()) - 1));
    const auto sharding = static_cast<Sharding>(draw(0, 3));
    const CollectiveTimes slow = TimesOfGroups(plan, stage, mesh, sharding, part, links);
    const CollectiveTimes times =
        TimesOfCollectives(plan, StageId(stage), mesh, sharding, part, links);
    ASSERT_NEAR(times.gather_ns, slow.gather_ns, 1);
    ASSERT_NEAR(times.reduce_ns, slow.reduce_ns, 1);
    ASSERT_NEAR(times.update_ns, slow.update_ns, 1);
    links.node_ranks = 1'000'000;
    const CollectiveTimes near = TimesOfGroups(plan, stage, mesh, sharding, part, links);
    seen.insert({sharding >= Sharding::kGradients, slow.gather_ns > near.gather_ns,
                 slow.reduce_ns > near.reduce_ns, slow.update_ns > near.update_ns});
  }
  EXPECT_GE(seen.size(), 6u);
}

// Messages of two ranks, too: nodes as they are, and every place of tensor-parallel ranks.
TEST(DataParallel, AMessageCrossesWhereAnyCopyAtAnyPlaceDoes) {
  const Plan plan = PlanFromText(
      "plan x P=4 M=1\nstages 0 1 2 3\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n"
      "rank 3: 3F0 3B0\n");
  constexpr std::pair<int, int> kPairs[] = {{0, 1}, {1, 0}, {1, 2}, {3, 2}, {0, 3}, {3, 0}};
  for (const int64_t data : {1, 2, 3}) {
    for (const int64_t expert : {1, 2}) {
      for (const int64_t tensor : {1, 2, 3, 5}) {
        for (const int64_t node_ranks : {1, 2, 3, 4, 5, 6, 8, 16, 30, 1000}) {
          SCOPED_TRACE(absl::StrCat(data, " x ", expert, " x ", tensor, ", nodes of ", node_ranks));
          ModelShape mesh = Mesh(data, expert, 1);
          mesh.tensor = tensor;
          const MeshSlots slots = {plan, mesh, node_ranks};
          for (const auto& [a, b] : kPairs) {
            bool crosses = false;
            for (int64_t k = 0; k < data * expert * tensor; ++k) {
              const int64_t d = k / tensor / expert, x = k / tensor % expert, place = k % tensor;
              crosses = crosses || slots.NodeOf(d, x, a, place) != slots.NodeOf(d, x, b, place);
            }
            const auto apart = NodesApart(plan, RankId(a), RankId(b), mesh, node_ranks);
            ASSERT_EQ(apart.has_value(), crosses) << "ranks " << a << " and " << b;
            EXPECT_TRUE(!apart || (apart->first < apart->second) == (a < b));
          }
        }
      }
    }
  }
}

// Megatron's layout, rank by rank: groups are the ranks that differ in one direction alone, and a
// ring between nodes has the ports of all its ranks in a node. Nodes and groups are powers of two.
TEST(DataParallel, MegatronsGroupsAreThoseOfItsRankNumbers) {
  const MeshLinks links = {.between = {0, 50}, .inside = {0, 450}, .node_ranks = 8};
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto power = [&](int most) {
      return int64_t{1} << std::uniform_int_distribution<int>(0, most)(random);
    };
    ModelShape mesh = Mesh(power(4), 1, 0, 1'000'000'000);
    mesh.layout = MeshLayout::kMegatron;
    mesh.tensor = power(3);
    mesh.sequence = power(2);
    mesh.shard = mesh.copies * mesh.sequence;
    const int64_t of_stage = mesh.tensor * mesh.sequence * mesh.copies;
    do {
      mesh.expert = power(6);
    } while (mesh.expert > of_stage);
    std::map<int64_t, std::vector<int64_t>> dense, experts;  // nodes of the groups of stage 0
    for (int64_t rank = 0; rank < of_stage; ++rank) {
      dense[rank % mesh.tensor].push_back(rank / 8);
      experts[rank % mesh.expert].push_back(rank / 8);
    }
    const auto ring_ns = [&](const std::map<int64_t, std::vector<int64_t>>& groups, double bytes) {
      const std::vector<int64_t>& nodes = groups.begin()->second;
      const auto n = static_cast<double>(nodes.size());
      const std::set<int64_t> different(nodes.begin(), nodes.end());
      const double in_node = n / static_cast<double>(different.size());
      const double rate = different.size() == 1 ? 450 : std::min(450.0, 50 * in_node);
      return (n - 1) * bytes / n / rate * 1e9;
    };
    StageFormula part;
    part.parameters = 64 * 1000;
    part.expert_parameters = 64 * 300;
    const CollectiveTimes times =
        TimesOfCollectives(TwoRanks(), StageId(0), mesh, Sharding::kOptimizer, part, links);
    const double sums = ring_ns(dense, 4.0 * 64 * 700) + ring_ns(experts, 4.0 * 64 * 300);
    EXPECT_NEAR(static_cast<double>(times.reduce_ns), sums, 1e-6 * sums + 1);
    EXPECT_NEAR(static_cast<double>(times.update_ns), sums / 2, 1e-6 * sums + 1);
    EXPECT_EQ(SharesOf(mesh, false), static_cast<int64_t>(dense.begin()->second.size()));
    EXPECT_EQ(SharesOf(mesh, true), static_cast<int64_t>(experts.begin()->second.size()));
    EXPECT_EQ(CopiesOf(mesh), mesh.copies * mesh.sequence);
    // Two ranks of the pipeline are `of_stage` apart.
    bool apart = false;
    for (int64_t i = 0; i < of_stage; ++i) apart = apart || i / 8 != (of_stage + i) / 8;
    EXPECT_EQ(NodesApart(TwoRanks(), RankId(0), RankId(1), mesh, 8).has_value(), apart);
  }
}

// 64 ranks of eight nodes share experts out. A row goes to each of a token's experts or, where they
// are chosen by groups, once to each other node that it meets, and on inside.
TEST(DataParallel, MegatronsExpertsGetRowsByRankOrOnceToANode) {
  ModelShape model = {.kind = kMoeModel, .layers = 1, .width = 1000, .heads = 10, .context = 1024};
  model.experts = 256;
  model.top_k = 8;
  model.expert_hidden = 10;
  model.copies = model.expert = 64;
  model.layout = MeshLayout::kMegatron;
  const MeshLinks links = {
      .between = {10'000, 50'000'000'000}, .inside = {5'000, 450'000'000'000}, .node_ranks = 8};
  const auto dispatch_ns = [&] {
    const LayerLinks of_layers = LinksOfLayers(TwoRanks(), StageId(0), model, links);
    return 1.0 * PartsOf(model, {"", 1e15, 3e12, 0.5}, {.layers = 1}, of_layers).ns[kFDispatch];
  };
  // A simulation of the rows of many tokens, each to eight different experts of 256.
  std::mt19937_64 random(7);
  double nodes_met = 0, near = 0, far = 0;
  for (int t = 0; t < 20'000; ++t) {
    std::set<uint64_t> experts, nodes;
    while (experts.size() < 8) experts.insert(random() % 256);
    for (const uint64_t expert : experts) {
      nodes.insert(expert / 32);
      (expert >= 32 ? far : near) += expert >= 4 ? 1.0 / 20'000 : 0;
    }
    nodes_met += static_cast<double>(nodes.size()) / 20'000;
  }
  const double bytes = 1024.0 * 1000 * 2, each = bytes * (near / 450 + far / 50);
  const double inside = 8 * bytes * 7 / 8 / 450, between = bytes * 7 / 8 / 50;
  EXPECT_NEAR(dispatch_ns(), 15'000 + each, 0.02 * each);
  model.top_groups = 8;
  EXPECT_NEAR(dispatch_ns(), 15'000 + inside + nodes_met * between, 0.02 * nodes_met * between);
  model.top_groups = 4;
  EXPECT_NEAR(dispatch_ns(), 15'000 + inside + 4 * between, 2);
  model.expert = 8;
  EXPECT_NEAR(dispatch_ns(), 5'000 + inside, 2);
}

TEST(DataParallel, NothingIsFasterForSmallerBucketsOrSlowerLinks) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const int64_t shard = draw(1, 4), bucket = draw(1, 100'000);
    const ModelShape mesh = Mesh(shard * draw(1, 4), draw(1, 3), shard, bucket);
    ModelShape smaller = mesh;
    smaller.bucket = draw(1, bucket);
    const auto sharding = static_cast<Sharding>(draw(0, 3));
    const int64_t parameters = draw(1, 1'000'000), experts = draw(0, parameters);
    const CollectiveTimes times = TimesOn(TwoRanks(), mesh, sharding, parameters, experts);
    EXPECT_GE(TimesOn(TwoRanks(), smaller, sharding, parameters, experts).reduce_ns,
              times.reduce_ns);
    MeshLinks inside = TwoSpeeds(), between = TwoSpeeds();
    inside.node_ranks = 1'000'000;
    between.node_ranks = 1;
    const CollectiveTimes least = TimesOn(TwoRanks(), mesh, sharding, parameters, experts, inside);
    const CollectiveTimes most = TimesOn(TwoRanks(), mesh, sharding, parameters, experts, between);
    EXPECT_LE(least.reduce_ns, times.reduce_ns);
    EXPECT_LE(least.gather_ns, times.gather_ns);
    EXPECT_LE(times.reduce_ns, most.reduce_ns);
    EXPECT_LE(times.gather_ns, most.gather_ns);
    // An all-reduce moves as many bytes as a reduce-scatter and a gather of the sums.
    ModelShape whole = mesh;
    whole.shard = whole.copies;
    whole.expert = 1;
    const CollectiveTimes all = TimesOn(TwoRanks(), whole, Sharding::kNone, parameters);
    const CollectiveTimes half = TimesOn(TwoRanks(), whole, Sharding::kGradients, parameters);
    EXPECT_LE(std::abs(all.reduce_ns - 2 * half.reduce_ns), 1);
  }
}

absl::StatusOr<CostModel> ResolveFile(const std::string& text, const Plan& plan) {
  const std::string path = absl::StrCat(testing::TempDir(), "/copies_", getpid(), ".yaml");
  std::ofstream(path) << "hardware: " STRINGLINE_SOURCE_DIR
                         "/schedlang/costs/hardware/h100.yaml\n"
                         "model: {kind: moe, layers: 4, width: 64, heads: 4, context: 32,\n"
                         "  experts: 8, top_k: 2, expert_hidden: 32}\n"
                      << text;
  const auto spec = ReadCostFile(path);
  unlink(path.c_str());
  return spec.ok() ? ResolveCosts(*spec, plan) : spec.status();
}

// Layers on the host need a link to it: without one their copies would never end.
TEST(DataParallel, LayersOnTheHostNeedALinkToIt) {
  const Plan plan = PlanFromText("plan x P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n");
  EXPECT_TRUE(ResolveFile("layer_offload: 1\n", plan).ok());
  const auto refused = ResolveFile("layer_offload: 1\nhost: {bandwidth: 0GB/s}\n", plan);
  EXPECT_EQ(refused.status().message(),
            "layer_offload: needs the link to the host ('host: {bandwidth: 50GB/s}')");
}

// A rank holds two layers at once of a stage whose parameters are shared out in Megatron's layout,
// and the whole stage in ours.
TEST(DataParallel, MegatronGathersLayerByLayer) {
  const Plan plan = PlanFromText("plan x P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n");
  const auto own = ResolveFile("sharding: parameters\nmesh: {data: 8}\n", plan);
  const auto megatron =
      ResolveFile("sharding: parameters\nmesh: {data: 8, layout: megatron}\n", plan);
  ASSERT_TRUE(own.ok() && megatron.ok()) << own.status() << megatron.status();
  const int64_t whole = own->memory[0][MemoryClass::kUnsharded];
  EXPECT_EQ(own->memory[0][MemoryClass::kWeights], (whole + 7) / 8);
  EXPECT_EQ(megatron->memory[0][MemoryClass::kUnsharded], whole / 4 * 2);
  EXPECT_LT(megatron->memory[0].unreduced, own->memory[0].unreduced);
  // Links on which the collectives take longer than the computation beside them make it longer.
  const std::string slow =
      "sharding: parameters\nmesh: {data: 8, layout: megatron}\nbandwidth: "
      "1MB/s\nnode: {ranks: 1}\n";
  const auto waits = ResolveFile(slow, plan);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->forward[0], waits->unshard[0]);
  EXPECT_EQ(waits->input_gradient[0] + waits->weight_gradient[0],
            waits->unshard[0] + waits->reduce[0]);
}

// Nodes of eight ranks hold a single rank of the pipeline: no two of their messages share a link.
// Nodes of sixteen hold two, whose messages to the next node share a link.
TEST(DataParallel, LinksAreThoseOfNodesWithTheirTensorParallelRanks) {
  const Plan plan = PlanFromText(
      "plan x P=4 M=2\npipe a M=1 stages 0 2\npipe b M=1 stages 1 3\nrank 0: a[0]F0 a[0]B0\n"
      "rank 1: b[0]F0 b[0]B0\nrank 2: a[1]F0 a[1]B0\nrank 3: b[1]F0 b[1]B0\n");
  const auto links = [&](int node_ranks) {
    const auto costs = ResolveFile(
        absl::StrCat("mesh: {tensor: 8}\nnode: {ranks: ", node_ranks, ", sharing: 1}\n"), plan);
    EXPECT_TRUE(costs.ok()) << costs.status();
    return std::vector<int32_t>{costs->activation_hops[0].link, costs->activation_hops[1].link,
                                costs->gradient_hops[0].link, costs->gradient_hops[1].link};
  };
  const std::vector<int32_t> apart = links(8), shared = links(16);
  EXPECT_EQ(std::set<int32_t>(apart.begin(), apart.end()).size(), 4u);
  EXPECT_EQ(shared[0], shared[1]);
  EXPECT_EQ(shared[2], shared[3]);
  EXPECT_NE(shared[0], shared[2]);
  EXPECT_EQ(links(32), std::vector<int32_t>(4, -1));
}

// A bf16 parameter takes 2 bytes, its gradient 4, and its optimizer state 12.
TEST(DataParallel, EachShardingSharesOutOneThingMore) {
  const Plan plan = TwoRanks();
  const auto whole = ResolveFile("", plan);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE(whole->collectives.any());
  EXPECT_TRUE(whole->reduce.empty());
  const int64_t parameters = whole->memory[1][MemoryClass::kWeights] / 2;
  ASSERT_EQ(parameters % 4, 0);
  for (const char* const word : kShardings) {
    SCOPED_TRACE(word);
    const Sharding sharding = *ReadSharding(word);
    const auto costs =
        ResolveFile(absl::StrCat("mesh: {data: 8, shard: 4}\nsharding: ", word, "\n"), plan);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const StageMemory& memory = costs->memory[1];
    const auto shares = [&](Sharding least) { return sharding >= least ? 4 : 1; };
    EXPECT_EQ(memory[MemoryClass::kOptimizer], 12 * parameters / shares(Sharding::kOptimizer));
    EXPECT_EQ(memory[MemoryClass::kGradients], 4 * parameters / shares(Sharding::kGradients));
    EXPECT_EQ(memory[MemoryClass::kGradients] + memory.unreduced, 4 * parameters);
    EXPECT_EQ(memory[MemoryClass::kWeights], 2 * parameters / shares(Sharding::kParameters));
    const bool gathers = sharding == Sharding::kParameters;
    EXPECT_EQ(memory[MemoryClass::kUnsharded], gathers ? 2 * parameters : 0);
    EXPECT_EQ(costs->collectives.gathers, gathers);
    EXPECT_TRUE(costs->collectives.reduces);
    EXPECT_EQ(costs->unshard.empty(), !gathers);
    EXPECT_GT(costs->reduce[1], 0);
    EXPECT_EQ(costs->gather_updated.empty(), gathers || sharding == Sharding::kNone);
  }
}

TEST(DataParallel, ExpertCopiesHoldFewerExperts) {
  const auto one = ResolveFile("mesh: {data: 2}\n", TwoRanks());
  const auto four = ResolveFile("mesh: {data: 2, expert: 4}\n", TwoRanks());
  ASSERT_TRUE(one.ok() && four.ok());
  const int64_t of_experts = 2 * 2 * 8 * 3 * 64 * 32;  // bytes, layers, experts, matrices
  EXPECT_EQ(one->memory[1][MemoryClass::kWeights] - four->memory[1][MemoryClass::kWeights],
            of_experts - of_experts / 4);
  // Each works for as many tokens, and exchanges their rows.
  EXPECT_TRUE(one->parts.empty());
  const PartCosts& parts = four->parts[1];
  EXPECT_NEAR(one->forward[1], 2 * (parts.ns[kFAttn] + parts.ns[kFExperts]) + parts.ns[kFPost], 3);
  EXPECT_EQ(four->forward[1], parts.Forward());
  EXPECT_GT(parts.ns[kFDispatch], 0);
}

TEST(DataParallel, WhatCannotBeSharedOutIsRefused) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"mesh: {data: 8, shard: 3}\n", "mesh.shard is 3, which does not divide mesh.data, 8"},
      {"mesh: {data: 8, replicate: 3}\n",
       "mesh.replicate is 3, which does not divide mesh.data, 8"},
      {"mesh: {data: 8, replicate: 2, shard: 2}\n",
       "mesh.shard is 2, but mesh.data / mesh.replicate is 4; one of the two is enough"},
      {"mesh: {expert: 3}\n", "mesh.expert is 3, which does not divide model.experts, 8"},
      {"sharding: parameters\n",
       "sharding: parameters needs copies of the pipeline that share them out, and there is one "
       "(mesh: {data: 8})"},
      {"mesh: {data: 8, shard: 1}\nsharding: optimizer\n",
       "sharding: optimizer needs copies of the pipeline that share them out"},
  };
  for (const auto& row : cases) {
    const auto costs = ResolveFile(row.text, TwoRanks());
    EXPECT_TRUE(absl::StrContains(costs.status().message(), row.message)) << costs.status();
  }
  EXPECT_TRUE(ResolveFile("mesh: {data: 8, replicate: 2, shard: 4}\n", TwoRanks()).ok());
}

Timeline SimulateCopies(const Plan& plan, const CostModel& costs, Plan* lowered) {
  *lowered = Lower(AddCollectives(plan, costs.collectives));
  const auto timeline = Simulate(*lowered, costs);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *timeline;
}

CostModel CostsOf(const std::string& text, const Plan& plan) {
  const auto spec = ParseCosts(text);
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto costs = ResolveCosts(*spec, plan);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return *std::move(costs);
}

int64_t EndOf(const Timeline& timeline) {
  int64_t end_ns = 0;
  for (const Event& event : timeline.events) end_ns = std::max(end_ns, event.end_ns);
  return end_ns;
}

// Nothing hides the gather before the first forward, nor the reduction behind the last backward.
TEST(DataParallel, OfAStageAloneAllIsExposed) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1 0B0 0B1\n");
  const CostModel costs = CostsOf("F=10ns,B=20ns,unshard=5ns,reduce=7ns", plan);
  Plan lowered;
  const Timeline timeline = SimulateCopies(plan, costs, &lowered);
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=1 M=2\n"
            "rank 0: 0UNSHARD@0+5 0F0@5+10 0F1@15+10 0B0@25+20 0B1@45+20 0REDUCE_GRAD@65+7 "
            "0RESHARD@65+0\n");
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
  const CollectiveWait wait = MeasureCollectives(lowered, timeline, wiring).all;
  EXPECT_EQ(wait.gather_ns, 5);
  EXPECT_EQ(wait.gather_wait_ns, 5);
  EXPECT_EQ(wait.reduce_ns, 7);
  EXPECT_EQ(wait.reduce_wait_ns, 7);
  const auto without = Simulate(lowered, wiring, WithoutCollectives(costs));
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(EndOf(timeline) - EndOf(*without), wait.gather_wait_ns + wait.reduce_wait_ns);
}

// Four buckets: the first forward starts behind the first of its parameters, and the reduction with
// the first of the last backward's gradients, of which the last are reduced behind it.
TEST(DataParallel, BucketsLieBesideComputations) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1 0B0 0B1\n");
  struct Case {
    const char* costs;
    const char* timeline;
    int64_t gather_wait_ns, reduce_wait_ns;
  };
  const Case cases[] = {
      {"F=12ns,B=20ns,unshard=8ns,reduce=12ns,buckets=4",
       "0UNSHARD@0+8>2 0F0@2+12 0F1@14+12 0B0@26+20 0B1@46+20 0REDUCE_GRAD@51+18~6 0RESHARD@66+0",
       2, 3},
      // The gather is slower than the forward, whose last quarter comes behind it; the reduction is
      // slower than the backward.
      {"F=12ns,B=20ns,unshard=40ns,reduce=44ns,buckets=4",
       "0UNSHARD@0+40>10 0F0@10+33~21 0F1@43+12 0B0@55+20 0B1@75+20 0REDUCE_GRAD@80+44 "
       "0RESHARD@95+0",
       31, 29},
      // The first of four buckets of 11 takes 5, of 10 it takes 4.
      {"F=12ns,B=11ns,unshard=0,reduce=10ns,buckets=4",
       "0UNSHARD@0+0 0F0@0+12 0F1@12+12 0B0@24+11 0B1@35+11 0REDUCE_GRAD@40+10 0RESHARD@46+0", 0,
       4},
  };
  for (const Case& c : cases) {
    Plan lowered;
    const Timeline timeline = SimulateCopies(plan, CostsOf(c.costs, plan), &lowered);
    EXPECT_EQ(Print(timeline),
              absl::StrCat("timeline simulated x P=1 M=2\nrank 0: ", c.timeline, "\n"));
    const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
    const CollectiveWait wait = MeasureCollectives(lowered, timeline, wiring).all;
    EXPECT_EQ(wait.gather_wait_ns, c.gather_wait_ns) << c.costs;
    EXPECT_EQ(wait.reduce_wait_ns, c.reduce_wait_ns) << c.costs;
  }
}

// Parts of a cut stage wait for the buckets that they read. Of the three parts that compute, the
// p-th needs the first p K / 3 of K buckets, rounded up; the all-to-alls and the weight gradients
// of a backward need none.
TEST(DataParallel, PartsWaitForTheirBuckets) {
  const Plan plan = PlanFromText(
      "plan x P=1 M=1\nstages 0\n"
      "rank 0: 0UNSHARD 0F0 0RESHARD 0UNSHARD 0B0 0RESHARD\n");
  const std::string costs =
      "layers=1,F.attn=2ns,F.dispatch=1ns,F.experts=3ns,F.combine=1ns,F.post=4ns,B.post=2ns,"
      "B.combine=1ns,B.experts=2ns,B.dispatch=1ns,B.attn=3ns,W.post=1ns,W.experts=1ns,W.attn=1ns,"
      "unshard=20ns,buckets=";
  const auto told = [&](int buckets) {
    const CostModel model = CostsOf(absl::StrCat(costs, buckets), plan);
    const auto timeline = Simulate(plan, WiringOf(plan, CommLayout::kEdge), model);
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    return Print(*timeline);
  };
  // The buckets of the forward are there at 8, 14 and 20, those of the backward at 32, 38 and 44.
  EXPECT_EQ(told(3),
            "timeline simulated x P=1 M=1\n"
            "rank 0: 0UNSHARD@0+20>8 0F0@8+16~5 0RESHARD@24+0 0UNSHARD@24+20>8 0B0@32+18~6 "
            "0RESHARD@50+0\n"
            "parts 0: 0F0:F.attn@8+2 0F0:F.dispatch@10+1 0F0:F.experts@14+3 0F0:F.combine@17+1 "
            "0F0:F.post@20+4 0B0:B.post@32+2 0B0:B.combine@34+1 0B0:B.experts@38+2 "
            "0B0:B.dispatch@40+1 0B0:B.attn@44+3 0B0:W.post@47+1 0B0:W.experts@48+1 "
            "0B0:W.attn@49+1\n");
  // F.attn needs two of four buckets, F.experts three.
  EXPECT_NE(told(4).find("\nrank 0: 0UNSHARD@0+20>5 0F0@5+19~8 "), std::string::npos) << told(4);
}

// Three stages on a rank, and one, two or three of them are gathered at once.
TEST(DataParallel, GathersGoSoManyStagesAhead) {
  const auto gathers = [](int ahead) {
    const std::string line = ahead == 1 ? "" : absl::StrCat("ahead ", ahead, "\n");
    const Plan plan =
        PlanFromText("plan x P=1 M=1\nstages 0 0 0\n" + line + "rank 0: 0F0 1F0 2F0 2B0 1B0 0B0\n");
    EXPECT_EQ(plan.gathers_ahead, ahead);
    EXPECT_NE(Print(plan).find(line), std::string::npos);
    const std::string text = Print(AddCollectives(plan, {.gathers = true}));
    return text.substr(text.find("rank 0: "));
  };
  EXPECT_EQ(gathers(0),
            "rank 0: 0UNSHARD 0F0 0RESHARD 1UNSHARD 1F0 1RESHARD 2UNSHARD 2F0 2B0 2RESHARD "
            "1UNSHARD 1B0 1RESHARD 0UNSHARD 0B0 0RESHARD\n");
  EXPECT_EQ(gathers(1),
            "rank 0: 0UNSHARD 1UNSHARD 0F0 0RESHARD 2UNSHARD 1F0 2F0 2B0 2RESHARD 0UNSHARD 1B0 "
            "1RESHARD 0B0 0RESHARD\n");
  EXPECT_EQ(gathers(2),
            "rank 0: 0UNSHARD 1UNSHARD 2UNSHARD 0F0 1F0 2F0 2B0 2RESHARD 1B0 1RESHARD 0B0 "
            "0RESHARD\n");
}

// One stage a rank: in a step of an 8 billion parameter model on eight GPUs of one node less than a
// hundredth waits for gathers, and as little for reductions.
TEST(DataParallel, ALargeStageHidesItsCollectives) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0B0 0F1 0B1\n");
  const auto spec =
      ReadCosts(Source(
          "llama.yaml",
          "model: {kind: llama, layers: 32, width: 4096, heads: 32, kv_heads: 8, hidden: 14336,\n"
          "        context: 8192, vocabulary: 128256}\n"
          "data: {microbatch: 1}\n"
          "mesh: {data: 8}\nsharding: parameters\n"
          "hardware: " STRINGLINE_SOURCE_DIR "/schedlang/costs/hardware/h100.yaml\n"
          "p2p: 3us\nbandwidth: 450GB/s\n"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto costs = ResolveCosts(*spec, plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  Plan lowered;
  const Timeline timeline = SimulateCopies(plan, *costs, &lowered);
  const CollectiveWait wait =
      MeasureCollectives(lowered, timeline, WiringOf(lowered, CommLayout::kEdge)).all;
  const auto share = [&](int64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(EndOf(timeline));
  };
  EXPECT_GT(share(wait.gather_ns), 0.02);
  EXPECT_GT(share(wait.reduce_ns), 0.04);
  EXPECT_LT(share(wait.gather_wait_ns), 0.01);
  EXPECT_LT(share(wait.reduce_wait_ns), 0.01);
}

TEST(DataParallel, BucketsOfReplicasAreEqual) {
  const Plan plan = PlanFromText(
      "plan v P=2 M=2\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
      "rank 0: a[0]F0 b[1]F0 b[1]B0 a[0]B0\nrank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0\n");
  for (const auto& [text, error] :
       {std::pair("F=1,B=2,buckets=0", "buckets: at least 1"),
        std::pair(
            "F=1,B=2,buckets=[1,2,1,3]",
            "buckets: 2 for stage 1 and 3 for its replica 3, which are reduced together; give "
            "both the same")}) {
    const auto spec = ParseCosts(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(ResolveCosts(*spec, plan).status().message(), error);
  }
}

// Rank 1 has gathered long before the activation comes, and does not wait for the gather. Its
// reduction ends before rank 0's, so only rank 0's reduction makes the step longer.
TEST(DataParallel, ARankWaitsOnlyForWhatComesLast) {
  const Plan plan = PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n");
  const CostModel costs = CostsOf("F=10ns,B=20ns,p2p=0,unshard=15ns,reduce=7ns", plan);
  Plan lowered;
  const Timeline timeline = SimulateCopies(plan, costs, &lowered);
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
  const CollectiveWaits waits = MeasureCollectives(lowered, timeline, wiring);
  EXPECT_EQ(waits.ranks[0].gather_wait_ns, 15);
  EXPECT_EQ(waits.ranks[1].gather_wait_ns, 0);
  EXPECT_EQ(waits.ranks[0].reduce_wait_ns, 7);
  EXPECT_EQ(waits.ranks[1].reduce_wait_ns, 7);
  EXPECT_EQ(EndOf(timeline), 15 + 60 + 7);
}

// Three stages on a rank: two are resident at once, so a gather overlaps the work on the stage
// before. The rank waits only for the first gather and the last reduction.
TEST(DataParallel, GathersGoOneStageAhead) {
  const Plan plan = PlanFromText("plan x P=1 M=1\nstages 0 0 0\nrank 0: 0F0 1F0 2F0 2B0 1B0 0B0\n");
  const CostModel costs = CostsOf("F=10ns,B=20ns,unshard=8ns,reduce=7ns", plan);
  Plan lowered;
  const Timeline timeline = SimulateCopies(plan, costs, &lowered);
  EXPECT_EQ(Print(timeline),
            "timeline simulated x P=1 M=1\n"
            "rank 0: 0UNSHARD@0+8 1UNSHARD@8+8 0F0@8+10 0RESHARD@18+0 2UNSHARD@18+8 1F0@18+10 "
            "2F0@28+10 2B0@38+20 2REDUCE_GRAD@58+7 2RESHARD@58+0 0UNSHARD@65+8 1B0@58+20 "
            "1REDUCE_GRAD@78+7 1RESHARD@78+0 0B0@78+20 0REDUCE_GRAD@98+7 0RESHARD@98+0\n");
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
  const CollectiveWait wait = MeasureCollectives(lowered, timeline, wiring).all;
  EXPECT_EQ(wait.gather_ns, 4 * 8);
  EXPECT_EQ(wait.gather_wait_ns, 8);
  EXPECT_EQ(wait.reduce_ns, 3 * 7);
  EXPECT_EQ(wait.reduce_wait_ns, 7);
}

// Whole from the first weight gradient to the end of their reduction, a quarter before and after.
TEST(DataParallel, GradientsAreWholeUntilTheyAreReduced) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1 0B0 0B1\n");
  CostModel costs = CostsOf("F=10ns,B=20ns,reduce=7ns,memory.gradients=100", plan);
  costs.memory[0].unreduced = 300;
  Plan lowered;
  const Timeline timeline = SimulateCopies(plan, costs, &lowered);
  const MemoryCurve curve = MemoryOver(lowered, timeline, costs.memory).ranks[0];
  std::vector<std::pair<int64_t, int64_t>> points;
  for (const MemoryPoint& point : curve.points) points.emplace_back(point.time_ns, point.amount);
  EXPECT_EQ(points, (std::vector<std::pair<int64_t, int64_t>>{{0, 100}, {20, 400}, {67, 100}}));
  EXPECT_EQ(SizesOfCosts(lowered, costs.memory)[0].resident, 400);
}

// A schedule may place gathers but leave out reductions: lowering adds only the reductions.
TEST(DataParallel, LoweringAddsWhatTheScheduleLeavesOut) {
  const Plan gathers = PlanFromText(
      "plan x P=1 M=1\nstages 0 0\nrank 0: 0UNSHARD 1UNSHARD 0F0 1F0 1B0 0B0 0RESHARD "
      "1RESHARD\n");
  const CollectiveChoice all = CollectivesFor(Sharding::kParameters, 4);
  EXPECT_EQ(Print(AddCollectives(gathers, all)),
            "plan x P=1 M=1\nstages 0 0\n"
            "rank 0: 0UNSHARD 1UNSHARD 0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD 0RESHARD "
            "1RESHARD\n");
  const Plan reduces = PlanFromText(
      "plan x P=1 M=1\nstages 0 0\nrank 0: 0F0 1F0 1B0 0B0 1REDUCE_GRAD 0REDUCE_GRAD\n");
  EXPECT_EQ(Print(AddCollectives(reduces, all)),
            "plan x P=1 M=1\nstages 0 0\n"
            "rank 0: 0UNSHARD 1UNSHARD 0F0 1F0 1B0 1RESHARD 0B0 1REDUCE_GRAD 0REDUCE_GRAD "
            "0RESHARD\n");
  EXPECT_EQ(Print(AddCollectives(reduces, CollectivesFor(Sharding::kGradients, 4))),
            Print(reduces));
  EXPECT_EQ(Print(AddCollectives(gathers, CollectivesFor(Sharding::kParameters, 1))),
            Print(gathers));
}

}  // namespace
}  // namespace stringline
