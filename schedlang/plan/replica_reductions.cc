#include "schedlang/plan/replica_reductions.h"

#include <algorithm>

namespace stringline {

ReplicaReductions ReplicaReductionsOf(const Plan& plan) {
  ReplicaReductions reductions;
  if (plan.pipes.empty()) return reductions;
  const int stages = plan.pipes[0].stages;
  reductions.of_action.assign(plan.actions.size(), -1);
  std::vector<uint32_t> found;
  std::vector<int32_t> next(plan.stages.size(), 0);  // by stage: its next step
  int steps = plan.steps;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    if (plan.actions[i].kind != ActionKind::kReduceGrad) continue;
    found.push_back(i);
    const int32_t stage = plan.actions[i].stage.value;
    const int32_t step = next[static_cast<size_t>(stage)]++;
    steps = std::max(steps, step + 1);  // more than there are: a mistake that Check names
    reductions.of_action[i] = step * stages + stage % stages;
  }
  const int parts = stages * steps;
  const auto part_of = [&](uint32_t i) { return reductions.of_action[i]; };
  const auto rank_of = [&](uint32_t i) { return plan.stage(plan.actions[i].stage).rank; };
  reductions.first.assign(parts + 1, 0);
  for (const uint32_t i : found) ++reductions.first[part_of(i) + 1];
  for (int k = 0; k < parts; ++k) reductions.first[k + 1] += reductions.first[k];
  reductions.members.resize(found.size());
  std::vector<uint32_t> end(reductions.first.begin(), reductions.first.end() - 1);
  for (const uint32_t i : found) {
    const uint32_t k = end[part_of(i)]++;
    reductions.members[k] = {i, true};
    if (k == reductions.first[part_of(i)]) continue;
    ReplicaReductions::Member& before = reductions.members[k - 1];
    before.comes = rank_of(before.action) != rank_of(i);
  }
  return reductions;
}

}  // namespace stringline
