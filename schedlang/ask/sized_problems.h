// The problems of several sizes, and the score of a text at all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/any_size_search.h"
#include "schedlang/ask/family_texts.h"
#include "schedlang/ask/placed_search.h"
#include "schedlang/check/check.h"

namespace stringline {

struct SizedProblem {
  std::vector<Parameter> parameters;
  Plan stages;
  PlacedProblem placed;
  search::Problem without_limit;  // of memory
  search::BoundParts bound;
  LibraryValue library;
};
// "P=4 M=12"
std::string NameOfSize(const std::vector<Parameter>& parameters);
// By size, at the question's costs. Errors: those of SearchForSizes.
absl::StatusOr<std::vector<SizedProblem>> SizedProblemsOf(const AnySizeQuestion& question,
                                                          const StepCosts& costs, const Stop* stop);

// Less is better: memory beyond the limits, as shares of them; the worst gap, and all gaps; the
// memory that the fullest ranks hold, as shares of all microbatches; the parameters that are not as
// written.
struct SizesScore {
  double beyond = 0;
  double worst = 0;
  double sum = 0;
  double held = 0;
  int chosen = 0;

  friend bool operator<(const SizesScore& a, const SizesScore& b) {
    return std::tie(a.beyond, a.worst, a.sum, a.held, a.chosen) <
           std::tie(b.beyond, b.worst, b.sum, b.held, b.chosen);
  }
};
// Nothing where the text has no complete order of the problem's actions at some size.
std::optional<SizesScore> ScoreOf(const std::vector<SizedProblem>& sizes, const FamilyText& text,
                                  const FamilyChoice& choice, const Stop* stop);

// Errors: Cancelled where `stop` is wished.
absl::StatusOr<SizesProof> ProveText(const AnySizeQuestion& question, const StepCosts& costs,
                                     const std::vector<SizedProblem>& sizes,
                                     const std::string& text, const Stop* stop);

// The text at each size: its value, checked and simulated.
absl::StatusOr<std::vector<FoundAtSize>> TextAtSizes(const std::vector<SizedProblem>& sizes,
                                                     const std::string& text,
                                                     const std::vector<Parameter>& fixed);

}  // namespace stringline
