#include "executor/training/replicas.h"

#include <algorithm>

namespace stringline {

Replicas::Replicas(const Plan& plan, const Mesh& mesh, Groups* groups, bool shards)
    : plan_(plan),
      mesh_(mesh),
      parts_(plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages),
      holders_(parts_) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<RankId>& holders = holders_[s % parts_];
    const RankId rank = plan.stages[s].rank;
    if (std::find(holders.begin(), holders.end(), rank) == holders.end()) holders.push_back(rank);
  }
  std::vector<int> ranks;
  const auto add = [&](int coordinate, int part) {
    for (const RankId rank : holders_[part])
      ranks.push_back(coordinate * plan.ranks() + rank.value);
  };
  const auto made = [&]() -> Group* {
    Group* const group = ranks.size() > 1 ? groups->New(ranks) : nullptr;
    ranks.clear();
    return group;
  };
  for (int part = 0; part < parts_; ++part) {
    for (int c = 0; c < mesh.coordinates(); ++c) add(c, part);
    dense_.push_back(made());
    for (int x = 0; x < mesh.expert; ++x) {
      for (int d = 0; d < mesh.data; ++d) add(mesh.coordinate(d, x), part);
      experts_.push_back(made());
    }
  }
  if (!shards) return;
  for (int first = 0; first < mesh.data; first += mesh.shards()) {
    for (int x = 0; x < mesh.expert; ++x) {
      for (int r = 0; r < plan.ranks(); ++r) {
        for (int m = 0; m < mesh.shards(); ++m) {
          ranks.push_back(mesh.coordinate(first + m, x) * plan.ranks() + r);
        }
        shards_.push_back(made());
      }
    }
  }
}

int Replicas::HolderIndex(StageId stage) const {
  const std::vector<RankId>& holders = HoldersOf(stage);
  return static_cast<int>(std::find(holders.begin(), holders.end(), plan_.stage(stage).rank) -
                          holders.begin());
}

Replicas::Seat Replicas::OfDense(int coordinate, StageId stage) const {
  const auto holders = static_cast<int>(HoldersOf(stage).size());
  return {dense_[PartOf(stage)], coordinate * holders + HolderIndex(stage), mesh_.expert * holders};
}

Replicas::Seat Replicas::OfExperts(int coordinate, StageId stage) const {
  const auto holders = static_cast<int>(HoldersOf(stage).size());
  return {experts_[PartOf(stage) * mesh_.expert + mesh_.expert_of(coordinate)],
          mesh_.data_of(coordinate) * holders + HolderIndex(stage), holders};
}

Replicas::Seat Replicas::OfShards(int coordinate, StageId stage) const {
  const int replica = mesh_.data_of(coordinate) / mesh_.shards();
  const int group = (replica * mesh_.expert + mesh_.expert_of(coordinate)) * plan_.ranks() +
                    plan_.stage(stage).rank.value;
  return {shards_[group], mesh_.shard_of(coordinate)};
}

std::vector<StageId> Replicas::OnItsRank(StageId stage) const {
  std::vector<StageId> copies;
  for (auto s = PartOf(stage); s < static_cast<int>(plan_.stages.size()); s += parts_) {
    if (plan_.stages[s].rank == plan_.stage(stage).rank) copies.push_back(StageId(s));
  }
  return copies;
}

}  // namespace stringline
