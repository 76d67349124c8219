// Slow links between GPUs of Megatron's layout: the hops of every ring are listed one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/costs/data_parallel.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

Plan TwoRanks() {
  return PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n");
}

// A slow link between two random ranks of groups of random sizes, all powers of two.
TEST(SlowLinks, ASlowLinkSlowsTheRingsWithThatHop) {
  const MeshLinks even = {.between = {0, 50}, .inside = {0, 450}, .node_ranks = 8};
  int slowed = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto power = [&](int most) {
      return int64_t{1} << std::uniform_int_distribution<int>(0, most)(random);
    };
    ModelShape mesh;
    mesh.copies = power(4);
    mesh.bucket = 1'000'000'000;
    mesh.layout = MeshLayout::kMegatron;
    mesh.tensor = power(3);
    mesh.sequence = power(2);
    mesh.shard = mesh.copies * mesh.sequence;
    const int64_t of_stage = mesh.tensor * mesh.sequence * mesh.copies;
    MeshLinks links = even;
    const auto rank = [&](int64_t ranks) {
      return std::uniform_int_distribution<int64_t>(0, ranks - 1)(random);
    };
    const int64_t a = rank(2 * of_stage), b = a / of_stage * of_stage + rank(of_stage);
    if (a == b) continue;
    links.slow = {{a, b, 2.0}};
    std::map<int64_t, std::vector<int64_t>> groups;  // of stage 0, each in the order of its ring
    for (int64_t r = 0; r < of_stage; ++r) groups[r % mesh.tensor].push_back(r);
    std::set<std::pair<int64_t, int64_t>> hops;
    for (const auto& [first, ranks] : groups) {
      std::map<int64_t, std::vector<int64_t>> nodes;
      for (const int64_t r : ranks) nodes[r / 8].push_back(r);
      std::vector<std::vector<int64_t>> rows;
      for (const auto& [node, members] : nodes) rows.push_back(members);
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::vector<int64_t>& next = rows[(i + 1) % rows.size()];
        for (size_t k = 0; k < rows[i].size(); ++k) {
          hops.emplace(rows[i][k], rows[i][(k + 1) % rows[i].size()]);
          hops.emplace(rows[i][k], next[k]);
        }
      }
    }
    const double times = hops.count({a, b}) + hops.count({b, a}) > 0 ? 3 : 1;
    StageFormula part;
    part.parameters = 64 * 1000;
    const auto reduce_ns = [&](const MeshLinks& of) {
      return static_cast<double>(
          TimesOfCollectives(TwoRanks(), StageId(0), mesh, Sharding::kOptimizer, part, of)
              .reduce_ns);
    };
    EXPECT_NEAR(reduce_ns(links), times * reduce_ns(even), 0.1 * reduce_ns(even));
    slowed += times > 1 ? 1 : 0;
  }
  EXPECT_GT(slowed, 200);
}

// One of seven partners in a node, or one of seven other nodes, is reached more slowly.
TEST(SlowLinks, ASlowLinkSlowsItsPartOfAnExchange) {
  ModelShape model = {.kind = kMoeModel, .layers = 1, .width = 1000, .heads = 10, .context = 1024};
  model.experts = 64;
  model.expert = model.copies = 64;
  model.layout = MeshLayout::kMegatron;
  MeshLinks links = {.between = {0, 50'000}, .inside = {0, 450'000}, .node_ranks = 8};
  const auto of_layers = [&](int64_t a, int64_t b) {
    links.slow = {{a, b, 1.4}};
    return LinksOfLayers(TwoRanks(), StageId(0), model, links);
  };
  EXPECT_EQ(of_layers(3, 6).inside.bandwidth, 450'000 * 5 / 6);
  EXPECT_EQ(of_layers(3, 6).experts.bandwidth, 50'000);
  EXPECT_EQ(of_layers(3, 19).inside.bandwidth, 450'000);
  EXPECT_EQ(of_layers(3, 19).experts.bandwidth, std::llround(50'000 / 1.2));
  EXPECT_EQ(of_layers(3, 20).experts.bandwidth, 50'000);
  EXPECT_EQ(of_layers(64, 72).experts.bandwidth, 50'000);  // of stage 1
}

}  // namespace
}  // namespace stringline
