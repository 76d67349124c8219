// Phases with `repeat`. A count that grows with the microbatches is written as M less the share of
// the other phases. Counts that occur twice get a name.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "schedlang/write/microbatch_growth.h"
#include "schedlang/write/phases.h"
#include "schedlang/write/schedule_draft.h"
#include "schedlang/write/schedule_lines.h"
#include "schedlang/write/shared_phases.h"

namespace stringline::search {
namespace {

constexpr int kRepeatSize = 2;

// The number of repeats of a phase: `number`, or (of M - number) / step.
struct PhaseCount {
  Affine number;
  int64_t step = 0;
};

struct BlockText {
  std::vector<Let> lets;
  std::vector<Statement> statements;
};

std::vector<Statement> StatementsOf(const Phases& phases, const std::vector<Sign>& signs,
                                    const StageText& stages) {
  std::vector<Statement> out;
  for (const Phase& phase : phases) {
    if (phase.sign >= 0) {
      out.push_back({TextOfSign(signs[static_cast<size_t>(phase.sign)], stages), {}});
    } else {
      out.push_back(
          {absl::StrCat("repeat ", phase.times), StatementsOf(phase.body, signs, stages)});
    }
  }
  return out;
}

// A range of ranks: its phases, and their growth.
class PhaseBlock {
 public:
  PhaseBlock(const SharedPhases& shared, const std::vector<Sign>& signs, const StageText& stages,
             int ranks)
      : shared_(shared),
        signs_(signs),
        stages_(stages),
        ranks_(shared.end - shared.first > 1 ? ranks : 0) {
    for (const SharedPhase& phase : shared.phases) counts_.push_back({phase.count, 0});
  }

  // Repeats the phases of `growth` more often. `all` is the number of microbatches, or of actions
  // of each direction; `name` is its text, M divided by `parts`.
  void Grow(const Growth& growth, int64_t all, std::string name, int parts) {
    // A fraction of a fraction is a fraction of M.
    const int64_t whole = growth.step > 1 ? parts : 1;
    all_ = whole > 1 ? "M" : std::move(name);
    for (const size_t j : growth.phases) {
      const Affine count = counts_[j].number;
      const Affine rest = {all - growth.step * count.at_zero, -growth.step * count.slope};
      least_ = std::max({least_, rest.At(shared_.first), rest.At(shared_.end - 1)});
      counts_[j] = {{whole * rest.at_zero, whole * rest.slope}, whole * growth.step};
    }
  }
  // The least `all` of Grow for which no count is negative.
  int64_t least() const { return least_; }

  BlockText Text() {
    NameCounts();
    BlockText out{lets_, {}};
    for (size_t j = 0; j < counts_.size(); ++j) {
      const Phases body = PhasesOf(shared_.phases[j].body, kRepeatSize);
      std::vector<Statement> statements = StatementsOf(body, signs_, stages_);
      if (counts_[j].step == 0 && counts_[j].number.is(1)) {
        out.statements.insert(out.statements.end(), statements.begin(), statements.end());
      } else {
        out.statements.push_back({absl::StrCat("repeat ", CountText(counts_[j])), statements});
      }
    }
    return out;
  }

 private:
  // "warmup" for the count of a first phase of forwards, "late" for the count of a last phase of
  // weight gradients; "" for others.
  std::string NameFor(Affine number) const {
    const auto is_only = [&](size_t j, ActionKind kind) {
      if (!(counts_[j].number == number) || counts_[j].step != 0) return false;
      const std::vector<int>& body = shared_.phases[j].body;
      return std::all_of(body.begin(), body.end(), [&](int sign) {
        const Sign& parts = signs_[static_cast<size_t>(sign)];
        return parts.size() == 1 && parts[0].kind == kind;
      });
    };
    if (is_only(0, ActionKind::kForward)) return "warmup";
    return is_only(counts_.size() - 1, ActionKind::kWeightGradient) ? "late" : "";
  }

  void NameCounts() {
    for (const PhaseCount& count : counts_) {
      if (count.number.slope == 0) continue;
      const auto uses = std::count_if(counts_.begin(), counts_.end(), [&](const PhaseCount& c) {
        return c.number == count.number;
      });
      const std::string value = WriteAffine(count.number, ranks_);
      const std::string name = NameFor(count.number);
      const bool is_taken =
          std::any_of(lets_.begin(), lets_.end(), [&](const Let& let) { return let.name == name; });
      if (uses < 2 || value == "r" || name.empty() || is_taken) continue;
      lets_.push_back({name, value});
    }
  }

  std::string CountText(const PhaseCount& count) const {
    const std::string value = WriteAffine(count.number, ranks_);
    std::string name;
    for (const Let& let : lets_) {
      if (let.value == value) name = let.name;
    }
    if (count.step == 0) return name.empty() ? value : name;
    std::string rest =
        name.empty() ? WriteSum(all_, -count.number, ranks_) : absl::StrCat(all_, " - ", name);
    if (count.step == 1) return rest;
    const bool is_product = rest == all_;
    return absl::StrCat(is_product ? rest : absl::StrCat("(", rest, ")"), " / ", count.step);
  }

  const SharedPhases& shared_;
  const std::vector<Sign>& signs_;
  const StageText& stages_;
  int ranks_;
  std::vector<PhaseCount> counts_;
  std::string all_;
  int64_t least_ = 0;
  std::vector<Let> lets_;
};

void AddLines(std::vector<std::string> more, std::vector<std::string>* lines) {
  lines->insert(lines->end(), more.begin(), more.end());
}

// "r == 0", "r < 3", if earlier ranges are excluded; else "1 <= r and r < 3".
std::string ConditionOf(const SharedPhases& range, bool others_excluded) {
  if (range.end - range.first == 1) return absl::StrCat("r == ", range.first);
  return absl::StrCat(others_excluded ? "" : absl::StrCat(range.first, " <= r and "), "r < ",
                      range.end);
}

// A branch for every range of ranks with actions.
void AddBranches(const std::vector<SharedPhases>& ranges, std::vector<PhaseBlock>* blocks,
                 std::vector<std::string>* lines) {
  const bool all_work = std::none_of(
      ranges.begin(), ranges.end(), [](const SharedPhases& range) { return range.phases.empty(); });
  bool is_first = true;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].phases.empty()) continue;
    const bool is_else = all_work && i + 1 == ranges.size();
    const std::string head =
        is_else ? "else" : absl::StrCat("if ", ConditionOf(ranges[i], all_work));
    if (!is_first) lines->pop_back();
    lines->push_back(absl::StrCat(is_first  ? "    "
                                  : is_else ? "    } "
                                            : "    } else ",
                                  head, " {"));
    is_first = false;
    const BlockText text = (*blocks)[i].Text();
    AddLets(text.lets, 6, lines);
    AddLines(LinesOf(text.statements, 6), lines);
    lines->emplace_back("    }");
  }
}

// The block of all ranks. `begin` holds the lines before the phases.
std::vector<std::string> RankBlock(const StageText& stages, std::vector<std::string> begin,
                                   std::vector<PhaseBlock>* blocks,
                                   const std::vector<SharedPhases>& ranges) {
  std::vector<std::string> lines = {"  rank r {"};
  AddLets(stages.lets, 4, &lines);
  AddLines(std::move(begin), &lines);
  if (ranges.size() == 1) {
    const BlockText text = (*blocks)[0].Text();
    AddLets(text.lets, 4, &lines);
    if (lines.size() > 1) lines.emplace_back();
    AddLines(LinesOf(text.statements, 4), &lines);
  } else {
    if (lines.size() > 1) lines.emplace_back();
    AddBranches(ranges, blocks, &lines);
  }
  lines.emplace_back("  }");
  return lines;
}

bool HasRepeat(const std::vector<SharedPhases>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [](const SharedPhases& range) {
    return std::any_of(range.phases.begin(), range.phases.end(), [](const SharedPhase& phase) {
      return !phase.count.is(1) || SizeOf(PhasesOf(phase.body, kRepeatSize), kRepeatSize) <
                                       static_cast<int64_t>(phase.body.size());
    });
  });
}

std::optional<Draft> DraftOfRanges(const Written& written, const std::vector<SharedPhases>& ranges,
                                   bool grows) {
  Draft draft{.form = WrittenForm::kRankPhases};
  if (ranges.size() == 1) draft.form = WrittenForm::kPhases;
  std::vector<PhaseBlock> blocks;
  int64_t step = 1;
  for (const SharedPhases& range : ranges) {
    PhaseBlock& block =
        blocks.emplace_back(range, written.words.signs, written.stages, written.plan->ranks());
    if (!grows || range.phases.empty()) continue;
    const Growth growth = GrowthOf(range, written.words.signs, {});
    if (growth.phases.empty() || !written.stages.holds_for_all) return std::nullopt;
    block.Grow(growth, written.microbatches, written.stages.microbatches, written.stages.parts);
    step = std::lcm(step, growth.step);
    draft.least = std::max(draft.least, block.least());
  }
  // A larger step would be vacuous, and slow to check.
  if (step > written.microbatches) return std::nullopt;
  if (grows) draft.step = step;
  draft.lines = RankBlock(written.stages, {}, &blocks, ranges);
  return draft;
}

// An order's list, if it is the same on all ranks and each stage has the same share of it.
struct ListText {
  Statement statement;
  int64_t step = 0;  // the list grows by so many microbatches at once; 0: it does not
};
std::optional<ListText> TextOfList(const std::string& name,
                                   const std::vector<std::vector<int>>& lists,
                                   const Written& written, const std::vector<Sign>& signs,
                                   bool grows) {
  const auto differs = [&](const std::vector<int>& list) { return list != lists[0]; };
  if (std::any_of(lists.begin(), lists.end(), differs) || lists[0].empty()) return std::nullopt;
  const Phases phases = PhasesOf(lists[0], kRepeatSize);
  std::vector<Statement> statements = StatementsOf(phases, signs, written.stages);
  ListText out{{absl::StrCat("order ", name), {}}, 0};
  if (grows) {
    if (phases.size() != 1 || phases[0].sign >= 0 || written.microbatches % phases[0].times != 0) {
      return std::nullopt;
    }
    out.step = written.microbatches / phases[0].times;
    statements[0].text = absl::StrCat("repeat ", written.stages.microbatches,
                                      out.step == 1 ? "" : absl::StrCat(" / ", out.step));
  }
  out.statement.body = std::move(statements);
  return out;
}

bool AllAre(ActionKind kind, const std::vector<int>& list, const std::vector<Sign>& signs) {
  return std::all_of(list.begin(), list.end(), [&](int number) {
    return signs[static_cast<size_t>(number)][0].kind == kind;
  });
}

}  // namespace

const char* NameOf(WrittenForm form) {
  constexpr const char* kNames[] = {"phases",         "timetable",         "greedy",
                                    "phases by rank", "timetable by rank", "list"};
  return kNames[static_cast<size_t>(form)];
}

int64_t LengthOf(const Draft& draft) {
  int64_t length = 0;
  for (const std::string& line : draft.lines) {
    length += static_cast<int64_t>(line.size()) - std::count(line.begin(), line.end(), ' ');
  }
  return length;
}

std::optional<Draft> DraftPhases(const Written& written, bool grows) {
  if (written.ranges.size() > 1 || !HasRepeat(written.ranges)) return std::nullopt;
  return DraftOfRanges(written, written.ranges, grows);
}

std::optional<Draft> DraftRankPhases(const Written& written, bool grows) {
  if (written.ranges.size() == 1 || !HasRepeat(written.ranges)) return std::nullopt;
  return DraftOfRanges(written, written.ranges, grows);
}

std::optional<Draft> DraftOrderedPhases(const Written& written, bool grows) {
  const OrderedWords ordered = OrderedWordsOf(written.words);
  const std::vector<Sign>& signs = ordered.words.signs;
  const auto forward = TextOfList("forward", ordered.forward, written, signs, grows);
  const auto backward = TextOfList("backward", ordered.backward, written, signs, grows);
  if (!forward || !backward) return std::nullopt;
  const std::vector<SharedPhases> ranges = SharedPhasesOf(ordered.words.words);
  if (ranges.size() > 1 || !HasRepeat(ranges)) return std::nullopt;
  Draft draft{.form = WrittenForm::kPhases};
  std::vector<PhaseBlock> blocks;
  blocks.emplace_back(ranges[0], signs, written.stages, written.plan->ranks());
  if (grows) {
    const auto all = static_cast<int64_t>(ordered.forward[0].size());
    const int64_t stages = all / written.microbatches;
    const bool leaves = AllAre(ActionKind::kInputGradient, ordered.backward[0], signs);
    if (!leaves && !AllAre(ActionKind::kBackward, ordered.backward[0], signs)) return std::nullopt;
    const Growth growth = GrowthOf(ranges[0], signs, {leaves});
    if (growth.phases.empty() || !written.stages.holds_for_all) return std::nullopt;
    const std::string name = stages == 1 ? written.stages.microbatches
                                         : absl::StrCat(stages, " * ", written.stages.microbatches);
    blocks[0].Grow(growth, all, name, 1);
    draft.step = std::lcm(std::lcm(forward->step, backward->step),
                          growth.step / std::gcd(growth.step, stages));
    draft.least = std::max<int64_t>(1, (blocks[0].least() + stages - 1) / stages);
  }
  std::vector<std::string> begin = LinesOf({forward->statement, backward->statement}, 4);
  draft.lines = RankBlock(written.stages, std::move(begin), &blocks, ranges);
  return draft;
}

Draft DraftList(const Written& written) {
  std::vector<SharedPhases> ranges;
  std::vector<PhaseBlock> blocks;
  for (size_t r = 0; r < written.words.words.size(); ++r) {
    SharedPhases& range =
        ranges.emplace_back(SharedPhases{static_cast<int>(r), static_cast<int>(r) + 1, {}});
    for (const int sign : written.words.words[r]) range.phases.push_back({{sign}, {1, 0}});
  }
  for (const SharedPhases& range : ranges) {
    blocks.emplace_back(range, written.words.signs, written.stages, written.plan->ranks());
  }
  return {.form = WrittenForm::kList, .lines = RankBlock(written.stages, {}, &blocks, ranges)};
}

}  // namespace stringline::search
