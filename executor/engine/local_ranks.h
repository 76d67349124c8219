// The ranks of the mesh that a process holds.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "executor/engine/mesh.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class LocalRanks {
 public:
  LocalRanks() = default;  // none
  // All ranks, with `pipeline` on every coordinate; or these ranks of the mesh, ascending.
  LocalRanks(const Mesh& mesh, int pipeline);
  LocalRanks(const Mesh& mesh, int pipeline, absl::Span<const int> ranks);

  // The ranks at a coordinate, numbered as in the plan, ascending.
  const std::vector<RankId>& Of(int coordinate) const { return ranks_[coordinate]; }
  bool Has(int coordinate, RankId rank) const;

 private:
  std::vector<std::vector<RankId>> ranks_;  // by coordinate
};

}  // namespace stringline
