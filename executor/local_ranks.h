// Which ranks of the mesh a process holds.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "executor/mesh.h"
#include "schedlang/plan.h"

namespace stringline {

class LocalRanks {
 public:
  LocalRanks() = default;  // none
  // All, with `pipeline` ranks on every coordinate; or these ranks of the mesh, ascending.
  LocalRanks(const Mesh& mesh, int pipeline);
  LocalRanks(const Mesh& mesh, int pipeline, absl::Span<const int> ranks);

  // Of a coordinate, as ranks of the plan, ascending.
  const std::vector<RankId>& Of(int coordinate) const { return ranks_[coordinate]; }
  bool Has(int coordinate, RankId rank) const;

 private:
  std::vector<std::vector<RankId>> ranks_;  // by coordinate
};

}  // namespace stringline
