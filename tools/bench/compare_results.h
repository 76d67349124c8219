// Two results of a suite beside each other: faster, slower, or noise.
//
// A repetition is a block: its median step is a single value, and two lists of such values are
// compared (spread.h). So the steps of a run, which have much in common, do not count as
// independent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/results.h"
#include "tools/bench/spread.h"

namespace stringline {

// kUnclear: the noise hides it; the interval holds no change and changes beyond the asked share.
enum class Change { kNone, kFaster, kSlower, kTooFew, kUnclear };
const char* NameOf(Change change);  // "no change"

// A difference below this share is reported as none, however certain.
inline constexpr double kLeastChange = 0.01;
// The share that a comparison asks about unless another one is given.
inline constexpr double kAskedShare = 0.05;

// The change of a figure; more is slower.
struct FigureChange {
  double before_us = 0, after_us = 0;  // medians
  // The longest repetition is so much longer than the shortest, in the list where that is more.
  double spread = 0;
  RatioInterval interval;
  Change change = Change::kNone;
  // With kNone: no larger change fits the figures.
  double within() const;
};
FigureChange ChangeOf(const std::vector<double>& before, const std::vector<double>& after,
                      double asked = kAskedShare);

struct CaseComparison {
  std::string name, side;
  FigureChange step, processor;
  double loss_before = 0, loss_after = 0;
  bool same_loss = true;  // within LossTolerance
};

// A case without a comparison.
struct CaseNotCompared {
  std::string label, why;
  bool was_ours = false;  // on our side, and measured in the first
};

struct SuiteComparison {
  double asked = kAskedShare;
  std::vector<CaseComparison> cases;  // in the order of the second
  std::vector<CaseNotCompared> others;
  bool same_device = true;
  double speed_ratio = 1;  // ratio of the controls' medians: second / first
  // The largest share of a file's repetitions whose control was late (kMostLate).
  double late_before = 0, late_after = 0;
};
SuiteComparison CompareResults(const SuiteResults& before, const SuiteResults& after,
                               double asked = kAskedShare);

// The largest difference between two losses of the same training, whose sums may be in another
// order.
double LossTolerance(const std::string& precision);

// The number of our cases that are slower by more than the asked share.
int CountSlower(const SuiteComparison& comparison);
// The cases of ours that may be slower by more than that, for all that the figures say, with the
// reason, a line each: noise, too few repetitions, or no figures in the second.
std::vector<std::string> UnseenCases(const SuiteComparison& comparison);

std::string PrintComparison(const SuiteResults& before, const SuiteResults& after,
                            const SuiteComparison& comparison);
Json AsJson(const SuiteComparison& comparison);

}  // namespace stringline
