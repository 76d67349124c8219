#include "tools/lsp/analysis.h"

#include <algorithm>
#include <utility>

#include "schedlang/text/parse.h"
#include "tools/session.h"

namespace stringline {
namespace {

constexpr int kSmallest = 2;
constexpr int kLargest = 8;
// How often a file's schedules are elaborated in all, and the longest text that is looked at.
constexpr int kMostTries = 300;
constexpr size_t kLongestText = 1 << 20;

bool Has(const Diagnostics& diagnostics, Code code) {
  const auto& all = diagnostics.findings();
  return std::any_of(all.begin(), all.end(), [code](const auto& d) { return d.code == code; });
}

void Append(const Diagnostics& from, Diagnostics* to) {
  for (const Diagnostic& finding : from.findings()) {
    if (to->Has(finding.code, finding.span)) continue;
    Diagnostic& added = to->Add(finding.code, finding.span, finding.text, finding.count);
    added.where = finding.where;
    added.notes = finding.notes;
  }
}

class ScheduleTrial {
 public:
  // Takes what it tries off `*tries_left`.
  ScheduleTrial(const ast::File& file, const std::string& name, int* tries_left)
      : file_(file), name_(name), tries_left_(*tries_left) {}

  ScheduleAnalysis Run(Diagnostics* diagnostics) {
    bool passed = false;
    for (int p = kSmallest; p <= kLargest && !passed; ++p) {
      for (int m = kSmallest; m <= kLargest && !passed; ++m) {
        if (tries_left_-- <= 0) return {name_, std::nullopt};
        passed = Try(p, m, diagnostics);
      }
    }
    if (passed && diagnostics->empty()) Try(4, 8, diagnostics);
    return {name_, std::move(plan_)};
  }

 private:
  // False if a `require` refuses these parameters.
  bool Try(int ranks, int microbatches, Diagnostics* diagnostics) {
    Diagnostics findings;
    std::optional<Plan> plan =
        ElaboratedPlan(file_, name_, {{"P", ranks}, {"M", microbatches}}, &findings, kTypingLimits);
    if (Has(findings, Code::kRequire)) return false;
    if (plan) {
      CheckedPlan(*plan, {}, &findings);
      plan_ = std::move(plan);
    }
    Append(findings, diagnostics);
    return true;
  }

  const ast::File& file_;
  const std::string& name_;
  int& tries_left_;
  std::optional<Plan> plan_;
};

}  // namespace

TextAnalysis Analyze(const Source& source) {
  TextAnalysis analysis;
  if (source.text().size() > kLongestText) return analysis;
  const std::optional<ast::File> file = Parse(source, &analysis.findings);
  if (!file) return analysis;
  int tries_left = kMostTries;
  for (const ast::Schedule& schedule : file->schedules) {
    Diagnostics findings;
    analysis.schedules.push_back(
        ScheduleTrial(*file, schedule.name.text, &tries_left).Run(&findings));
    Append(findings, &analysis.findings);
  }
  return analysis;
}

}  // namespace stringline
