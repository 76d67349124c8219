#include "executor/engine/local_ranks.h"

#include <algorithm>
#include <numeric>

namespace stringline {
namespace {

std::vector<int> AllRanks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

LocalRanks::LocalRanks(const Mesh& mesh, int pipeline)
    : LocalRanks(mesh, pipeline, AllRanks(mesh.coordinates() * pipeline)) {}

LocalRanks::LocalRanks(const Mesh& mesh, int pipeline, absl::Span<const int> ranks)
    : ranks_(mesh.coordinates()) {
  for (const int rank : ranks) ranks_[rank / pipeline].push_back(RankId(rank % pipeline));
}

bool LocalRanks::Has(int coordinate, RankId rank) const {
  const std::vector<RankId>& ranks = ranks_[coordinate];
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace stringline
