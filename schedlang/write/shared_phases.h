// Phases that several ranks share: the same bodies in the same order, repeated as often as the rank
// says. Every rank r does FF… (P - 1 - r times), then FBFB….
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "schedlang/write/rank_expression.h"

namespace stringline::search {

struct SharedPhase {
  std::vector<int> body;
  Affine count;  // by rank; never negative on the ranks that share it
};

struct SharedPhases {
  int first = 0;  // the ranks first .. end - 1
  int end = 0;
  std::vector<SharedPhase> phases;
};

// Cuts the ranks into ranges that share their phases, as few as are found. A rank that shares with
// none has its own. `words` are by rank. Every result spells exactly its words. Heuristic: what
// ranks share is looked for among the repeats of some of them and in what becomes of two by
// merging. Cost: some hundred times the words, for some ten ranks and a thousand signs well below a
// second.
std::vector<SharedPhases> SharedPhasesOf(absl::Span<const std::vector<int>> words);

}  // namespace stringline::search
