// Cases are matched by name and side; their inputs must be equal, and both must have figures. Any
// other case gets a line of explanation, and is not compared.
#include "tools/bench/compare_results.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

std::string LabelOf(const std::string& name, const std::string& side) {
  return side == kOwnSide ? name : absl::StrCat(name, " in ", side);
}

std::vector<double> ProcessorTimes(const CaseResult& result) {
  std::vector<double> times;
  for (const Repetition& of : result.repetitions) times.push_back(of.processor_us);
  return times;
}

struct Controls {
  double speed = 0;  // median
  double late = 0;   // share of disturbed repetitions
};
Controls ControlsOf(const SuiteResults& results) {
  std::vector<double> speeds;
  double late = 0;
  for (const CaseResult& result : results.cases) {
    for (const Repetition& of : result.repetitions) {
      speeds.push_back(of.control.speed);
      late += of.control.late > kMostLate ? 1 : 0;
    }
  }
  if (speeds.empty()) return {};
  return {Median(speeds), late / static_cast<double>(speeds.size())};
}

std::string MachineOf(const SuiteResults& results) {
  const Json& device = results.device;
  const Json gpu = device.value("gpu", Json());
  return absl::StrCat(device.value("cores", 0), " cores of ", device.value("cpu", "a CPU"),
                      gpu.is_string() ? absl::StrCat(", ", gpu.get<std::string>()) : "");
}

std::string PrintUs(double us) { return PrintTime(std::llround(1e3 * us)); }

// "5", "2.5": of 0.05, 0.025.
std::string Percent(double share) { return absl::StrFormat("%.4g", 100 * share); }

// "the repetitions differ by 108 %".
std::string SpreadInWords(const FigureChange& figure) {
  return absl::StrFormat("the repetitions differ by %.*f %%", figure.spread < 0.1 ? 1 : 0,
                         100 * figure.spread);
}

// "slower by 5.2 %", "no change (within 1.3 %)".
std::string InWords(const FigureChange& figure, double asked) {
  const double share = 100 * (figure.interval.ratio - 1);
  switch (figure.change) {
    case Change::kNone:
      return absl::StrFormat("no change (within %.1f %%)", 100 * figure.within());
    case Change::kTooFew:
      return absl::StrFormat("too few repetitions to tell (%+.1f %%)", share);
    case Change::kUnclear:
      return absl::StrCat("cannot tell ", Percent(asked), " % here: ", SpreadInWords(figure));
    default:
      return absl::StrFormat("%s by %.1f %%", NameOf(figure.change), std::fabs(share));
  }
}

Json FigureAsJson(const FigureChange& figure) {
  const bool known = figure.interval.is_known;
  return {{"before_us", figure.before_us},
          {"after_us", figure.after_us},
          {"spread", figure.spread},
          {"ratio", figure.interval.ratio},
          {"interval", known ? Json{figure.interval.least, figure.interval.most} : Json()},
          {"change", NameOf(figure.change)},
          {"within", figure.change == Change::kNone ? Json(figure.within()) : Json()}};
}

double SpreadOf(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most / *least - 1;
}

// The reason why two results of a case are not compared, or "". `old` may be null.
std::string WhyNotCompared(const CaseResult* old, const CaseResult& now) {
  if (old == nullptr) return "only in the second";
  if (old->inputs != now.inputs) return "is not the same in both";
  if (!old->IsMeasured() && !now.IsMeasured()) return "in neither: " + now.reason;
  if (!old->IsMeasured()) return "not in the first: " + old->reason;
  if (!now.IsMeasured()) return "not in the second: " + now.reason;
  return "";
}

CaseComparison CompareCase(const CaseResult& old, const CaseResult& now, double asked) {
  const CaseSummary of_old = Summarise(old), of_now = Summarise(now);
  CaseComparison of = {now.name, now.side};
  of.step = ChangeOf(of_old.repetitions_us, of_now.repetitions_us, asked);
  of.processor = ChangeOf(ProcessorTimes(old), ProcessorTimes(now), asked);
  of.loss_before = of_old.loss;
  of.loss_after = of_now.loss;
  of.same_loss = std::fabs(of.loss_after - of.loss_before) <= LossTolerance(now.precision);
  return of;
}

bool IsSlower(const CaseComparison& of, double share) {
  return of.step.change == Change::kSlower && of.step.interval.ratio > 1 + share;
}

// The reason why a slower step may hide among the figures, or "".
std::string WhyUnseen(const CaseComparison& of, double share) {
  const RatioInterval& interval = of.step.interval;
  if (!interval.is_known) return "too few repetitions";
  if (interval.most <= 1 + share) return "";
  return absl::StrFormat("%.3f to %.3f times as long: ", interval.least, interval.most) +
         SpreadInWords(of.step);
}

}  // namespace

const char* NameOf(Change change) {
  constexpr const char* kNames[] = {"no change", "faster", "slower", "too few repetitions",
                                    "cannot tell"};
  return kNames[static_cast<int>(change)];
}

double FigureChange::within() const {
  return std::max({interval.most - 1, 1 - interval.least, 0.0});
}

FigureChange ChangeOf(const std::vector<double>& before, const std::vector<double>& after,
                      double asked) {
  FigureChange figure;
  figure.before_us = Median(before);
  figure.after_us = Median(after);
  figure.spread = std::max(SpreadOf(before), SpreadOf(after));
  figure.interval = CompareLists(before, after);
  const RatioInterval& interval = figure.interval;
  if (!interval.is_known) {
    figure.change = Change::kTooFew;
  } else if (interval.least > 1 && interval.ratio > 1 + kLeastChange) {
    figure.change = Change::kSlower;
  } else if (interval.most < 1 && interval.ratio < 1 - kLeastChange) {
    figure.change = Change::kFaster;
  } else if (figure.within() > asked) {
    figure.change = Change::kUnclear;
  }
  return figure;
}

double LossTolerance(const std::string& precision) { return precision == "bf16" ? 0.05 : 1e-3; }

SuiteComparison CompareResults(const SuiteResults& before, const SuiteResults& after,
                               double asked) {
  SuiteComparison comparison;
  comparison.asked = asked;
  comparison.same_device = before.device == after.device;
  const Controls first = ControlsOf(before), second = ControlsOf(after);
  if (first.speed > 0 && second.speed > 0) comparison.speed_ratio = second.speed / first.speed;
  comparison.late_before = first.late;
  comparison.late_after = second.late;
  for (const CaseResult& now : after.cases) {
    const CaseResult* const old = before.Find(now.name, now.side);
    const std::string why = WhyNotCompared(old, now);
    if (why.empty()) {
      comparison.cases.push_back(CompareCase(*old, now, asked));
    } else {
      const bool was_ours = now.side == kOwnSide && old != nullptr && old->IsMeasured();
      comparison.others.push_back({LabelOf(now.name, now.side), why, was_ours});
    }
  }
  for (const CaseResult& old : before.cases) {
    if (after.Find(old.name, old.side) != nullptr) continue;
    const bool was_ours = old.side == kOwnSide && old.IsMeasured();
    comparison.others.push_back({LabelOf(old.name, old.side), "only in the first", was_ours});
  }
  return comparison;
}

int CountSlower(const SuiteComparison& comparison) {
  return static_cast<int>(std::count_if(
      comparison.cases.begin(), comparison.cases.end(), [&](const CaseComparison& of) {
        return of.side == kOwnSide && IsSlower(of, comparison.asked);
      }));
}

std::vector<std::string> UnseenCases(const SuiteComparison& comparison) {
  std::vector<std::string> unseen;
  for (const CaseComparison& of : comparison.cases) {
    if (of.side != kOwnSide || IsSlower(of, comparison.asked)) continue;
    const std::string why = WhyUnseen(of, comparison.asked);
    if (!why.empty()) unseen.push_back(absl::StrCat(LabelOf(of.name, of.side), ": ", why));
  }
  for (const CaseNotCompared& other : comparison.others) {
    if (other.was_ours) unseen.push_back(absl::StrCat(other.label, ": ", other.why));
  }
  return unseen;
}

std::string PrintComparison(const SuiteResults& before, const SuiteResults& after,
                            const SuiteComparison& comparison) {
  std::string text;
  if (!comparison.same_device) {
    absl::StrAppend(&text, "the devices differ: ", MachineOf(before), "; then ", MachineOf(after),
                    "\n\n");
  }
  const double asked = comparison.asked;
  size_t width = 4, width_of_words = 30;
  for (const CaseComparison& of : comparison.cases) {
    width = std::max(width, LabelOf(of.name, of.side).size());
    width_of_words = std::max(width_of_words, InWords(of.step, asked).size());
  }
  const int columns = static_cast<int>(width), of_words = static_cast<int>(width_of_words);
  absl::StrAppendFormat(&text, "%-*s %12s %12s  %-17s %-*s processor time\n", columns, "case",
                        "before", "after", "95 % interval", of_words, "a step");
  for (const CaseComparison& of : comparison.cases) {
    const RatioInterval& interval = of.step.interval;
    const std::string between =
        interval.is_known ? absl::StrFormat("%.3f .. %.3f", interval.least, interval.most) : "none";
    absl::StrAppendFormat(&text, "%-*s %12s %12s  %-17s %-*s %s\n", columns,
                          LabelOf(of.name, of.side), PrintUs(of.step.before_us),
                          PrintUs(of.step.after_us), between, of_words, InWords(of.step, asked),
                          InWords(of.processor, asked));
    if (of.same_loss) continue;
    absl::StrAppendFormat(&text, "%*s the loss was %.4f and is %.4f: another training\n", columns,
                          "", of.loss_before, of.loss_after);
  }
  for (const CaseNotCompared& other : comparison.others) {
    absl::StrAppend(&text, other.label, ": ", other.why, "\n");
  }
  absl::StrAppendFormat(
      &text,
      "\nthe machine alone: %.1f %% %s than before; disturbed in %.0f %% and %.0f %% of the "
      "repetitions\n",
      100 * std::fabs(comparison.speed_ratio - 1), comparison.speed_ratio < 1 ? "slower" : "faster",
      100 * comparison.late_before, 100 * comparison.late_after);
  return text;
}

Json AsJson(const SuiteComparison& comparison) {
  Json cases = Json::array(), others = Json::array();
  for (const CaseComparison& of : comparison.cases) {
    cases.push_back({{"name", of.name},
                     {"side", of.side},
                     {"step", FigureAsJson(of.step)},
                     {"processor", FigureAsJson(of.processor)},
                     {"same_loss", of.same_loss}});
  }
  for (const CaseNotCompared& other : comparison.others) {
    others.push_back(absl::StrCat(other.label, ": ", other.why));
  }
  return {{"cases", std::move(cases)},
          {"not_compared", std::move(others)},
          {"same_device", comparison.same_device},
          {"speed_ratio", comparison.speed_ratio},
          {"late", Json::array({comparison.late_before, comparison.late_after})}};
}

}  // namespace stringline
