#include "tests/schedlang/random_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stringline {

size_t Below(std::mt19937_64& random, size_t n) { return random() % n; }

Action MakeAction(ActionKind kind, int stage, int microbatch) {
  return {.kind = kind, .stage = StageId(stage), .microbatch = MicrobatchId(microbatch)};
}

Plan EmptyPlan(const std::vector<std::vector<int>>& pipes, int microbatches) {
  Plan plan;
  plan.schedule = "family";
  plan.microbatches = microbatches * static_cast<int>(pipes.size());
  int ranks = 0;
  for (size_t p = 0; p < pipes.size(); ++p) {
    const int first = static_cast<int>(plan.stages.size());
    const int count = static_cast<int>(pipes[p].size());
    for (int k = 0; k < count; ++k) {
      plan.stages.push_back(
          {.rank = RankId(pipes[p][k]), .pipe = pipes.size() > 1 ? static_cast<int>(p) : 0});
      ranks = std::max(ranks, pipes[p][k] + 1);
    }
    if (pipes.size() > 1) {
      plan.pipes.push_back({.name = p == 0 ? "down" : "up",
                            .first_stage = StageId(first),
                            .stages = count,
                            .first_microbatch = static_cast<int>(p) * microbatches,
                            .microbatches = microbatches});
    }
  }
  plan.SetChains();
  plan.parameters = {{"P", ranks}, {"M", plan.microbatches}};
  plan.first.assign(ranks + 1, 0);
  return plan;
}

void PutLists(const RankLists& lists, Plan* plan) {
  plan->actions.clear();
  plan->first = {0};
  for (const auto& list : lists) {
    for (size_t i = 0; i < list.size(); ++i) {
      plan->actions.push_back(list[i]);
      const auto joins = [](ActionKind kind) { return IsCompute(kind) || IsMessage(kind); };
      const bool can = i > 0 && joins(list[i].kind) && joins(list[i - 1].kind) &&
                       IsMessage(list[i].kind) == IsMessage(list[i - 1].kind);
      if (!can) plan->actions.back().joined = false;
    }
    plan->first.push_back(static_cast<uint32_t>(plan->actions.size()));
  }
  FindRemaking(plan);
}

std::vector<Edge> RandomEdges(int stages, std::mt19937_64& random) {
  std::vector<int> order(static_cast<size_t>(stages));
  for (int s = 0; s < stages; ++s) order[s] = s;
  std::shuffle(order.begin(), order.end(), random);
  const size_t rare = 2 + Below(random, 3);
  std::vector<Edge> edges;
  for (int s = 1; s < stages; ++s) {
    for (int t = 0; t < s; ++t) {
      if (Below(random, rare) == 0) edges.push_back({StageId(order[t]), StageId(order[s])});
    }
  }
  if (edges.empty()) edges.push_back({StageId(order[0]), StageId(order[1])});
  return edges;
}

std::vector<Skip> RandomSkips(const Plan& plan, std::mt19937_64& random) {
  std::vector<Skip> skips;
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    for (int m = 0; m < plan.microbatches / plan.steps / plan.slices; ++m) {
      if (Below(random, 3) != 0) continue;
      skips.push_back({StageId(s), m});
      Plan with = plan;
      if (!with.SetSkips(skips).empty()) skips.pop_back();
    }
  }
  return skips;
}

Plan RandomRightPlan(std::mt19937_64& random, int most_stages, int most_microbatches, bool copies,
                     bool edges) {
  const int ranks = 1 + static_cast<int>(Below(random, 4));
  const int stages =
      std::max({ranks, edges ? 2 : 1, 1 + static_cast<int>(Below(random, most_stages))});
  const int microbatches = 1 + static_cast<int>(Below(random, most_microbatches));
  std::vector<int> down(stages);
  for (int s = 0; s < stages; ++s) down[s] = s < ranks ? s : static_cast<int>(Below(random, ranks));
  std::shuffle(down.begin(), down.end(), random);
  std::vector<std::vector<int>> pipes = {down};
  if (!edges && Below(random, 3) == 0) pipes.push_back({down.rbegin(), down.rend()});
  Plan plan = EmptyPlan(pipes, microbatches);
  if (edges && Below(random, 3) > 0) plan.graph = StageGraph(stages, RandomEdges(stages, random));
  if (edges) {
    const std::vector<Skip> skips = RandomSkips(plan, random);
    if (!skips.empty()) {
      EXPECT_EQ(plan.SetSkips(skips), "");
    }
  }
  const int all = static_cast<int>(plan.stages.size());
  for (Stage& stage : plan.stages) stage.remakes = Below(random, 4) == 0;
  for (const Stage& stage : plan.stages) plan.recompute.push_back(stage.remakes ? 1 : 0);
  // By stage and microbatch: nothing, F, I, and B or W are done; and whether R is.
  std::vector<std::vector<int>> did(all, std::vector<int>(microbatches));
  std::vector<std::vector<bool>> remade(all, std::vector<bool>(microbatches));
  // Likewise: no D is wanted, one is wanted, is done, and U is done.
  std::vector<std::vector<int>> copied(all, std::vector<int>(microbatches));
  for (auto& row : copied) {
    for (int& state : row) state = copies && Below(random, 4) == 0 ? 1 : 0;
  }
  RankLists lists(ranks);
  const auto ready = [&](RankId rank) {
    std::vector<Action> out;
    for (int s = 0; s < all; ++s) {
      const Stage& stage = plan.stages[s];
      for (int m = 0; m < microbatches && stage.rank == rank; ++m) {
        int before = 1, behind = 2;
        if (plan.LeavesOut(StageId(s), MicrobatchId(m))) continue;
        const StageGraph& graph = plan.GraphOf(MicrobatchId(m));
        for (const Edge& edge : graph.In(StageId(s))) {
          before = std::min(before, did[edge.from.value][m]);
        }
        for (const Edge& edge : graph.Out(StageId(s))) {
          behind = std::min(behind, did[edge.to.value][m]);
        }
        if (did[s][m] == 0 && before > 0) out.push_back(MakeAction(ActionKind::kForward, s, m));
        const bool lacks_r = stage.remakes && !remade[s][m];
        if (did[s][m] == 1 && copied[s][m] == 1 && lacks_r == stage.remakes) {
          out.push_back(MakeAction(ActionKind::kOffload, s, m));
        }
        if (copied[s][m] == 2) {
          out.push_back(MakeAction(ActionKind::kFetch, s, m));
          continue;
        }
        if (did[s][m] == 1 && lacks_r) out.push_back(MakeAction(ActionKind::kRecompute, s, m));
        if (did[s][m] == 1 && behind >= 2 && !lacks_r) {
          out.push_back(
              MakeAction((s + m) % 2 ? ActionKind::kBackward : ActionKind::kInputGradient, s, m));
        }
        if (did[s][m] == 2) out.push_back(MakeAction(ActionKind::kWeightGradient, s, m));
      }
    }
    return out;
  };
  for (int idle = 0; idle < ranks * 20;) {
    const int r = static_cast<int>(Below(random, ranks));
    auto next = ready(RankId(r));
    std::shuffle(next.begin(), next.end(), random);
    next.resize(std::min(next.size(), 1 + Below(random, 2)));
    if (next.size() == 2 && (IsCopy(next[0].kind) || IsCopy(next[1].kind))) next.pop_back();
    idle = next.empty() ? idle + 1 : 0;
    for (size_t i = 0; i < next.size(); ++i) {
      next[i].joined = i > 0;
      lists[r].push_back(next[i]);
      if (IsCopy(next[i].kind)) {
        ++copied[next[i].stage.value][next[i].microbatch.value];
        continue;
      }
      if (next[i].kind == ActionKind::kRecompute) {
        remade[next[i].stage.value][next[i].microbatch.value] = true;
        continue;
      }
      int& state = did[next[i].stage.value][next[i].microbatch.value];
      state = next[i].kind == ActionKind::kForward         ? 1
              : next[i].kind == ActionKind::kInputGradient ? 2
                                                           : 3;
    }
  }
  PutLists(lists, &plan);
  if (std::count(plan.recompute.begin(), plan.recompute.end(), 1) == 0) plan.recompute.clear();
  return plan;
}

}  // namespace stringline
