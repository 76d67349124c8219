// Two results of a suite beside each other: what became faster or slower, and what is noise.
//
// A repetition is a block: its median step is one value, and two lists of such values are compared
// (spread.h). So steps of one run, which have much in common, do not count as many.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/suite/results.h"
#include "tools/suite/spread.h"

namespace stringline {

enum class Change { kNone, kFaster, kSlower, kTooFew };
const char* NameOf(Change change);  // "no change"

// A difference below this share is told as none, however sure it is.
inline constexpr double kLeastChange = 0.01;

// Of one figure; more of it is slower.
struct FigureChange {
  double before_us = 0, after_us = 0;  // medians
  RatioInterval interval;
  Change change = Change::kNone;
  // With kNone: no larger change fits the figures.
  double within() const;
};
FigureChange ChangeOf(const std::vector<double>& before, const std::vector<double>& after);

struct CaseComparison {
  std::string name, side;
  FigureChange step, processor;
  double loss_before = 0, loss_after = 0;
  bool same_loss = true;  // within LossTolerance
};

struct SuiteComparison {
  std::vector<CaseComparison> cases;  // in the order of the second
  std::vector<std::string> others;    // why something is not compared, a line each
  bool same_device = true;
  double speed_ratio = 1;  // of the controls' medians: second / first
  // The largest share of a file's repetitions whose control was late (kMostLate).
  double late_before = 0, late_after = 0;
};
SuiteComparison CompareResults(const SuiteResults& before, const SuiteResults& after);

// How far two losses of the same training may be apart: another order of the same sums.
double LossTolerance(const std::string& precision);

// Our cases that are slower, and by more than this share.
int CountSlower(const SuiteComparison& comparison, double share);

std::string PrintComparison(const SuiteResults& before, const SuiteResults& after,
                            const SuiteComparison& comparison);
Json AsJson(const SuiteComparison& comparison);

}  // namespace stringline
