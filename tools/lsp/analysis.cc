#include "tools/lsp/analysis.h"

#include <algorithm>
#include <utility>

#include "schedlang/ask/found_file.h"
#include "schedlang/ask/session.h"
#include "tools/lsp/used_texts.h"

namespace stringline {
namespace {

constexpr int kSmallest = 2;
constexpr int kLargest = 8;
// The limit on elaborations of a file's schedules in all, and the longest text that is analysed.
constexpr int kMostTries = 300;
constexpr size_t kLongestText = 1 << 20;

bool Has(const Diagnostics& diagnostics, Code code) {
  const auto& all = diagnostics.findings();
  return std::any_of(all.begin(), all.end(), [code](const auto& d) { return d.code == code; });
}

class ScheduleTrial {
 public:
  // Deducts the elaborations that it tries from `*tries_left`.
  ScheduleTrial(const Source& source, const ast::File& file, const ast::Schedule& schedule,
                search::KeptOrders* kept, int* tries_left)
      : source_(source),
        file_(file),
        limits_(kTypingLimits),
        name_(schedule.name.text),
        place_(schedule.derived ? schedule.derived->base.span : schedule.name.span),
        tries_left_(*tries_left) {
    limits_.kept = kept;
  }

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
        ElaboratedPlan(file_, name_, {{"P", ranks}, {"M", microbatches}}, &findings, limits_);
    if (Has(findings, Code::kRequire)) return false;
    if (plan) {
      CheckedPlan(*plan, {}, &findings);
      plan_ = std::move(plan);
    }
    AppendFindings(findings, source_, place_, diagnostics);
    return true;
  }

  const Source& source_;
  const ast::File& file_;
  ElaborateLimits limits_;
  const std::string& name_;
  const Span place_;  // for findings in a used file
  int& tries_left_;
  std::optional<Plan> plan_;
};

}  // namespace

TextAnalysis Analyze(const Source& text, const ReadUsed& read) {
  TextAnalysis analysis;
  if (text.text().size() > kLongestText) return analysis;
  const auto note_used = [&](const std::string& name, const std::string& user) {
    absl::StatusOr<Source> used = read(name, user);
    if (used.ok()) analysis.used.insert(used->path());
    return used;
  };
  Source source = text;
  Diagnostics found;
  const std::optional<ast::File> file = ParseWithUses(&source, note_used, &found);
  AppendFindings(found, source, {0, 0}, &analysis.findings);
  if (!file) return analysis;
  int tries_left = kMostTries;
  FoundFile kept(text.path(), FoundFile::Use::kOnlyRead);
  for (const ast::Schedule& schedule : file->schedules) {
    Diagnostics findings;
    analysis.schedules.push_back(
        ScheduleTrial(source, *file, schedule, &kept, &tries_left).Run(&findings));
    AppendFindings(findings, source, schedule.name.span, &analysis.findings);
  }
  return analysis;
}

}  // namespace stringline
