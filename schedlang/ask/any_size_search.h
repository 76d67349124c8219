// A search for one text that is good at several sizes: a schedule with parameters, which are
// functions of P. The objective is the worst gap of any size to the bound of its own problem.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/sweep_range.h"
#include "schedlang/base/stop.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/lower_bound.h"

namespace stringline {

struct AnySizeQuestion {
  // Without P and M that `ranges` have, and without `activations`. `begin`: the only text whose
  // parameters are varied; those in `parameters` are not.
  SearchQuestion search;
  std::vector<SweepRange> ranges;  // the sizes
  std::string activations;         // most of a rank, over the parameters of a size; "": no limit
};

// The text at one of the sizes.
struct FoundAtSize {
  std::vector<Parameter> parameters;
  int64_t value = 0;  // the objective's
  search::BoundParts bound;
  int64_t makespan = 0;        // simulated, with all known costs
  int activations = 0;         // the most of a rank
  std::vector<int64_t> bytes;  // by rank, by the checker's count; empty: not known
  LibraryValue library;        // the best of the library's schedules there; "": none fits

  int64_t least() const { return bound.sum(); }
  double gap() const;
};

// The checker's judgement of all plans from the smallest to the largest value of the first range.
struct SizesProof {
  std::string range;         // "P=4..8 M=3*P"
  size_t plans = 0;          // in the range
  size_t right = 0;          // of these
  size_t within = 0;         // of these, within the limit of memory, too
  std::string first_wrong;   // "P=5 M=15: …"; "" if all are right
  std::string first_beyond;  // the first right plan that exceeds the limit; "": none
  bool at_sizes = false;     // the plans of the sizes are right, and within the limit

  bool is_whole() const { return plans > 0 && right == plans; }
};

struct FoundForSizes {
  std::string family;                                       // where the text is from
  std::vector<std::pair<std::string, std::string>> chosen;  // parameters and their values
  std::string text;  // of a schedule `found`, without a header
  search::Objective objective = search::Objective::kMakespan;
  std::vector<FoundAtSize> sizes;
  size_t families = 0;  // texts whose parameters were varied
  int64_t iterations = 0;
  SizesProof proof;

  double worst_gap() const;
};

// The progress of a search, for its watcher.
struct AnySizeProgress {
  double gap = -1;  // the worst; -1: nothing fits yet
  int64_t iterations = 0;
  double seconds_left = 0;
};

// Errors: those of SearchRequestOf for each size; questions that have no answer for several sizes;
// NotFound where no text fits all sizes. `stop` (null: never) ends the search with its best text.
absl::StatusOr<FoundForSizes> SearchForSizes(
    const AnySizeQuestion& question, const Stop* stop,
    const std::function<void(const AnySizeProgress&)>& watch);

}  // namespace stringline
