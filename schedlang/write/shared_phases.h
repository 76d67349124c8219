// Phases shared by several ranks: the same bodies in the same order, with counts that depend on the
// rank. Every rank r does FF… (P - 1 - r times), then FBFB….
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "schedlang/write/rank_expression.h"

namespace stringline::search {

struct SharedPhase {
  std::vector<int> body;
  Affine count;  // by rank; never negative on the ranks of the range
};

struct SharedPhases {
  int first = 0;  // the ranks first .. end - 1
  int end = 0;
  std::vector<SharedPhase> phases;
};

// Cuts the ranks into few ranges with shared phases. A rank that shares with no other has its own.
// `words` are by rank. Every result spells exactly its words. Heuristic: candidates are the repeats
// of some ranks, and merges of two of these. Cost: some hundred times the words; for some ten ranks
// and a thousand signs well below a second.
std::vector<SharedPhases> SharedPhasesOf(absl::Span<const std::vector<int>> words);

}  // namespace stringline::search
