#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/write/schedule_draft.h"
#include "schedlang/write/slot_offsets.h"

namespace stringline::search {
namespace {

bool IsWeight(const Sign& sign) {
  return sign.size() == 1 && sign[0].kind == ActionKind::kWeightGradient;
}

// True if every rank does every sign once per microbatch.
bool IsOncePerMicrobatch(const RankWords& words, int64_t microbatches) {
  for (const std::vector<int>& word : words.words) {
    std::vector<int64_t> times(words.signs.size(), 0);
    for (const int sign : word) ++times[static_cast<size_t>(sign)];
    for (const int64_t count : times) {
      if (count != microbatches) return false;
    }
  }
  return true;
}

struct SlotLine {
  std::string slot;
  std::string sign;
};

// Lines "at SLOT : SIGN;" with aligned `:`.
void AddSlotLines(const std::vector<SlotLine>& rows, size_t indent,
                  std::vector<std::string>* lines) {
  size_t widest = 0;
  for (const SlotLine& row : rows) widest = std::max(widest, row.slot.size());
  for (const SlotLine& row : rows) {
    lines->push_back(absl::StrCat(std::string(indent, ' '), "at ", row.slot,
                                  std::string(widest - row.slot.size(), ' '), " : ", row.sign,
                                  ";"));
  }
}

// The signs by their offset on the rank. `fill`: without weight gradients.
std::vector<SlotLine> SlotLinesOf(const Written& written, const RankWords& words,
                                  const SlotOffsets& offsets, size_t rank, bool fill) {
  const bool by_rank = offsets.lines.empty();
  const auto offset = [&](size_t sign) {
    return by_rank ? offsets.by_rank[rank][sign] : offsets.lines[sign].At(0);
  };
  std::vector<size_t> order;
  for (size_t sign = 0; sign < words.signs.size(); ++sign) {
    if (!fill || !IsWeight(words.signs[sign])) order.push_back(sign);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return offset(a) < offset(b); });
  std::vector<SlotLine> rows;
  for (const size_t sign : order) {
    const Affine line = by_rank ? Affine{offset(sign), 0} : offsets.lines[sign];
    rows.push_back(
        {WriteSum(absl::StrCat(offsets.period, " * m"), line, by_rank ? 0 : written.plan->ranks()),
         TextOfSign(words.signs[sign], written.stages)});
  }
  return rows;
}

}  // namespace

std::optional<Draft> DraftTimetable(const Written& written, const TimetableWish& wish, bool grows) {
  const RankWords words = RankWordsOf(*written.plan, written.stages, /*may_be_bare=*/false);
  if (!IsOncePerMicrobatch(words, written.microbatches) ||
      (grows && !written.stages.holds_for_all)) {
    return std::nullopt;
  }
  const auto is_weight = [](const Sign& sign) { return IsWeight(sign); };
  if (wish.fill && std::none_of(words.signs.begin(), words.signs.end(), is_weight)) {
    return std::nullopt;
  }
  const auto offsets =
      SlotOffsetsOf(words.words, static_cast<int>(words.signs.size()), !wish.by_rank);
  if (!offsets) return std::nullopt;
  Draft draft{.form = wish.by_rank ? WrittenForm::kRankTimetable : WrittenForm::kTimetable};
  if (grows) draft.step = 1;
  draft.lines = {"  rank r timetable {"};
  AddLets(written.stages.lets, 4, &draft.lines);
  draft.lines.push_back(absl::StrCat("    repeat ", written.stages.microbatches, " as m {"));
  const size_t ranks = wish.by_rank ? words.words.size() : 1;
  for (size_t r = 0; r < ranks; ++r) {
    if (ranks > 1) {
      draft.lines.push_back(r == 0           ? "      if r == 0 {"
                            : r + 1 == ranks ? "      } else {"
                                             : absl::StrCat("      } else if r == ", r, " {"));
    }
    AddSlotLines(SlotLinesOf(written, words, *offsets, r, wish.fill), ranks > 1 ? 8 : 6,
                 &draft.lines);
  }
  if (ranks > 1) draft.lines.emplace_back("      }");
  draft.lines.emplace_back("    }");
  if (wish.fill) draft.lines.emplace_back("    fill W;");
  draft.lines.emplace_back("  }");
  return draft;
}

}  // namespace stringline::search
