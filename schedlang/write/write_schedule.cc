// Drafts of all forms, one after the other. A draft is put into a whole text, formatted, and
// elaborated: only a text that gives the plan's orders is returned.
#include "schedlang/write/write_schedule.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/costs/work_shares.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/text/format.h"
#include "schedlang/text/parse.h"
#include "schedlang/write/rank_expression.h"
#include "schedlang/write/schedule_lines.h"

namespace stringline::search {
namespace {

// The numbers of microbatches checked below and above the plan's, for a file that holds for more.
constexpr int kCheckedBelow = 6;
constexpr int kCheckedAbove = 3;

bool SameAction(const Action& a, const Action& b) {
  return a.kind == b.kind && a.joined == b.joined && a.stage == b.stage &&
         a.microbatch == b.microbatch;
}

bool SameOrders(const Plan& a, const Plan& b) {
  return a.first == b.first && std::equal(a.actions.begin(), a.actions.end(), b.actions.begin(),
                                          b.actions.end(), SameAction);
}

bool SameStages(const Plan& a, const Plan& b) {
  const auto same_stage = [](const Stage& s, const Stage& t) {
    return s.rank == t.rank && s.pipe == t.pipe;
  };
  const auto same_pipe = [](const Pipe& p, const Pipe& q) {
    return p.name == q.name && p.stages == q.stages && p.microbatches == q.microbatches;
  };
  const auto same_overlap = [](const Overlap& o, const Overlap& p) { return Print(o) == Print(p); };
  return a.microbatches == b.microbatches &&
         std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                    same_stage) &&
         std::equal(a.pipes.begin(), a.pipes.end(), b.pipes.begin(), b.pipes.end(), same_pipe) &&
         Print(a.split) == Print(b.split) && a.recompute == b.recompute && a.chunks == b.chunks &&
         a.gathers_ahead == b.gathers_ahead &&
         std::equal(a.overlaps.begin(), a.overlaps.end(), b.overlaps.begin(), b.overlaps.end(),
                    same_overlap);
}

// The plan of the text for these P and M; nothing after findings.
std::optional<Plan> PlanOfText(const ast::File& file, int64_t ranks, int64_t microbatches) {
  Diagnostics diagnostics;
  return Elaborate(file, "", {{"P", ranks}, {"M", microbatches}}, &diagnostics);
}

bool PassesCheck(const Plan& plan, const CheckOptions& limits) {
  Diagnostics diagnostics;
  return Check(Lower(plan, limits.layout), limits, &diagnostics);
}

std::string SplitText(const Split& split) {
  switch (split.kind) {
    case Split::Kind::kEven:
      return "";
    case Split::Kind::kBalanced:
      return "split balanced;";
    case Split::Kind::kLayers:
      return absl::StrCat("split [", absl::StrJoin(split.layers, ", "), "];");
    case Split::Kind::kLayout:
      break;
  }
  return absl::StrCat("split \"", absl::StrJoin(split.layout, "|"), "\";");
}

// Of every pipe alike where that is so, else of all stages.
std::string RecomputeText(const Plan& plan) {
  const std::vector<int>& stages = plan.recompute;
  if (stages.empty()) return "";
  if (std::count(stages.begin(), stages.end(), 0) == 0) return "recompute all;";
  const auto of_pipe = static_cast<size_t>(StagesOfModel(plan));
  bool alike = true;
  for (size_t s = of_pipe; s < stages.size(); ++s) {
    alike = alike && stages[s] == stages[s % of_pipe];
  }
  const auto end = alike ? stages.begin() + static_cast<ptrdiff_t>(of_pipe) : stages.end();
  return absl::StrCat("recompute [", absl::StrJoin(stages.begin(), end, ", "), "];");
}

void AddOverlap(const Overlap& overlap, std::vector<std::string>* lines) {
  const auto lane = [&overlap](const char* name, const std::vector<Overlap::Part>& parts) {
    return absl::StrCat("    ", name, " { ",
                        absl::StrJoin(parts, " ",
                                      [&overlap](std::string* out, const Overlap::Part& part) {
                                        absl::StrAppend(out, Print(overlap, part));
                                      }),
                        " }");
  };
  const std::string kinds = absl::StrJoin(
      overlap.kinds, " & ",
      [](std::string* out, ActionKind kind) { absl::StrAppend(out, PrintedKind(kind)); });
  if (overlap.by_default) {
    lines->push_back(absl::StrCat("  overlap ", kinds, ";"));
    return;
  }
  lines->push_back(absl::StrCat("  overlap ", kinds, " {"));
  lines->push_back(lane("compute", overlap.compute));
  lines->push_back(lane("network", overlap.network));
  lines->push_back("  }");
}

// The numbers of microbatches that a draft holds for, of the whole step.
struct MicrobatchClass {
  int64_t step = 0;  // 0: the plan's only
  int64_t least = 0;
};

// The plan, the drafts' surroundings, and the proof.
class ScheduleWriter {
 public:
  ScheduleWriter(const Plan& plan, const WriteOptions& options)
      : plan_(plan), options_(options), written_{&plan, TextOfStages(plan), {}, 0,
                                                 {},    options.costs} {
    written_.words = RankWordsOf(plan, written_.stages);
    written_.microbatches = plan.microbatches / written_.stages.parts;
    written_.ranges = SharedPhasesOf(written_.words.words);
  }

  std::optional<WrittenSchedule> Write() const {
    const auto timetable = [](bool by_rank, bool fill) {
      return [=](const Written& written, bool grows) {
        return DraftTimetable(written, {by_rank, fill}, grows);
      };
    };
    const std::vector<DraftOf> for_all = {DraftPhases, DraftOrderedPhases, timetable(false, true),
                                          timetable(false, false), DraftGreedy};
    for (const DraftOf& draft_of : for_all) {
      if (auto written = FirstProven(draft_of)) return written;
    }
    // The shorter of these, unless lists are about as short.
    const Draft list = DraftList(written_);
    if (IsWished(options_.stop)) return Proven(list);
    std::vector<std::pair<int64_t, DraftOf>> by_rank;
    const std::vector<DraftOf> for_ranks = {DraftRankPhases, timetable(true, true),
                                            timetable(true, false)};
    for (const DraftOf& draft_of : for_ranks) {
      const auto draft = draft_of(written_, false);
      if (draft && 10 * LengthOf(*draft) < 9 * LengthOf(list)) {
        by_rank.emplace_back(LengthOf(*draft), draft_of);
      }
    }
    std::stable_sort(by_rank.begin(), by_rank.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [length, draft_of] : by_rank) {
      if (auto written = FirstProven(draft_of)) return written;
    }
    return Proven(list);
  }

 private:
  using DraftOf = std::function<std::optional<Draft>(const Written& written, bool grows)>;

  // Prefers a draft for more microbatches.
  std::optional<WrittenSchedule> FirstProven(const DraftOf& draft_of) const {
    for (const bool grows : {true, false}) {
      if (IsWished(options_.stop)) return std::nullopt;
      const auto draft = draft_of(written_, grows);
      if (!draft) continue;
      if (auto written = Proven(*draft)) return written;
    }
    return std::nullopt;
  }

  // The draft's text, if it gives the plan, for the largest class of microbatches found right.
  std::optional<WrittenSchedule> Proven(const Draft& draft) const {
    MicrobatchClass microbatches;
    if (draft.step > 0) {
      const auto found = HoldsFor(draft);
      if (!found) return std::nullopt;
      microbatches = *found;
    }
    const std::optional<std::string> text = TextOf(draft, microbatches);
    if (!text) return std::nullopt;
    const Source source(options_.name, *text);
    Diagnostics diagnostics;
    const auto file = Parse(source, &diagnostics);
    const auto plan = PlanOfText(*file, plan_.ranks(), plan_.microbatches);
    if (!plan || !SameStages(*plan, plan_) || !SameOrders(*plan, plan_)) return std::nullopt;
    return WrittenSchedule{*text, draft.form, microbatches.step, microbatches.least};
  }

  // The class of microbatches around the plan's for which the draft gives plans that pass the
  // check, and the orders of `others`.
  std::optional<MicrobatchClass> HoldsFor(const Draft& draft) const {
    const int64_t parts = written_.stages.parts;
    const int64_t all = plan_.microbatches;
    MicrobatchClass found{draft.step * parts, draft.least * parts};
    found.least += (all - found.least) % found.step;
    const std::optional<std::string> text = TextOf(draft, {found.step, 1});
    if (!text || found.least > all) return std::nullopt;
    const Source source(options_.name, *text);
    Diagnostics diagnostics;
    const auto file = Parse(source, &diagnostics);
    const auto passes = [&](int64_t microbatches) {
      if (IsWished(options_.stop)) return false;
      const auto plan = PlanOfText(*file, plan_.ranks(), microbatches);
      return plan && PassesCheck(*plan, options_.limits);
    };
    for (int i = 1; i <= kCheckedAbove; ++i) {
      if (!passes(all + i * found.step)) return std::nullopt;
    }
    const int64_t lowest = found.least;
    for (int i = 0; i < kCheckedBelow && lowest + i * found.step < all; ++i) {
      if (!passes(lowest + i * found.step)) found.least = lowest + (i + 1) * found.step;
    }
    for (const Plan& other : options_.others) {
      const bool is_in = (other.microbatches - all) % found.step == 0;
      const auto plan = PlanOfText(*file, plan_.ranks(), other.microbatches);
      if (!is_in || !plan || !SameOrders(*plan, other)) return std::nullopt;
      found.least = std::min<int64_t>(found.least, other.microbatches);
    }
    return found;
  }

  std::vector<std::string> RequireLines(const Draft& draft, MicrobatchClass microbatches) const {
    std::vector<std::pair<std::string, std::string>> rows;
    const int64_t all = plan_.microbatches;
    rows.emplace_back(
        absl::StrCat("P == ", plan_.ranks()),
        absl::StrCat("found for ", plan_.ranks(), plan_.ranks() == 1 ? " rank" : " ranks"));
    const auto [step, least] = microbatches;
    if (step == 0) {
      rows.emplace_back(
          absl::StrCat("M == ", all),
          absl::StrCat("found for ", all, all == 1 ? " microbatch" : " microbatches"));
    } else if (step > 1 || least > 1) {
      std::vector<std::string> conditions;
      if (step > 1) conditions.push_back(absl::StrCat("M % ", step, " == ", all % step));
      if (least > step) {
        const bool is_shared = draft.form == WrittenForm::kPhases;
        conditions.push_back(
            absl::StrCat("M >= ", WriteNumber(least, is_shared ? plan_.ranks() : 0)));
      }
      rows.emplace_back(absl::StrJoin(conditions, " and "),
                        absl::StrCat("holds for M = ", least, ", ", least + step, ", ",
                                     least + 2 * step, ", ..."));
    }
    size_t widest = 0;
    for (const auto& row : rows) widest = std::max(widest, row.first.size());
    std::vector<std::string> lines;
    for (const auto& [condition, message] : rows) {
      lines.push_back(absl::StrCat("  require ", condition,
                                   std::string(widest - condition.size() + 2, ' '), "\"", message,
                                   "\";"));
    }
    return lines;
  }

  // The formatted text; nothing if it does not parse.
  std::optional<std::string> TextOf(const Draft& draft, MicrobatchClass microbatches) const {
    std::vector<std::string> lines;
    for (const std::string& line : options_.header) {
      lines.push_back(line.empty() ? "#" : absl::StrCat("# ", line));
    }
    lines.push_back(absl::StrCat("schedule ", options_.name, "(P, M) {"));
    for (std::string& line : RequireLines(draft, microbatches)) lines.push_back(std::move(line));
    for (const std::string& line : written_.stages.lines) {
      for (std::string& part : BrokenLines(line, 2)) lines.push_back(std::move(part));
    }
    const std::string split = SplitText(plan_.split);
    if (!split.empty()) lines.push_back(absl::StrCat("  ", split));
    const std::string recompute = RecomputeText(plan_);
    if (!recompute.empty()) lines.push_back(absl::StrCat("  ", recompute));
    for (const Overlap& overlap : plan_.overlaps) AddOverlap(overlap, &lines);
    if (plan_.chunks > 1) lines.push_back(absl::StrCat("  chunks ", plan_.chunks, ";"));
    if (plan_.gathers_ahead != 1) {
      lines.push_back(absl::StrCat("  unshard ahead: ", plan_.gathers_ahead, ";"));
    }
    lines.emplace_back();
    lines.insert(lines.end(), draft.lines.begin(), draft.lines.end());
    lines.emplace_back("}\n");
    Diagnostics diagnostics;
    return Format(Source(options_.name, absl::StrJoin(lines, "\n")), &diagnostics);
  }

  const Plan& plan_;
  const WriteOptions& options_;
  Written written_;
};

}  // namespace

absl::StatusOr<WrittenSchedule> WriteSchedule(const Plan& plan, const WriteOptions& options) {
  if (plan.lowered) return absl::InvalidArgumentError("the plan has messages; orders have none");
  const std::optional<WrittenSchedule> written = ScheduleWriter(plan, options).Write();
  if (written) return *written;
  return absl::InvalidArgumentError(
      absl::StrCat("no text of a schedule '", options.name, "' gives these orders"));
}

}  // namespace stringline::search
