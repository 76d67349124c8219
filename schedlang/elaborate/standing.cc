#include "schedlang/elaborate/standing.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// By RankMode.
struct ModeRow {
  const char* word;
  const char* name;
  const char* instead;  // the reason for which no action may stand in the block
};
constexpr ModeRow kModes[] = {
    {"", "a sequence", ""},
    {"timetable", "a timetable", ", where actions stand as 'at SLOT : ACTION'"},
    {"greedy", "a greedy block", ", which says rules instead of actions"},
    {"search", "a search block", ", which says rules instead of actions"},
};

const ModeRow& RowOf(RankMode mode) { return kModes[static_cast<size_t>(mode)]; }

}  // namespace

bool StandsOrFind(bool allowed, Span span, absl::string_view what, absl::string_view where,
                  Diagnostics* diagnostics) {
  if (!allowed) {
    diagnostics->Add(Code::kMisplaced, span, absl::StrCat(what, " stands only ", where));
  }
  return allowed;
}

bool OnceOrFind(std::optional<Span>* first, Span span, absl::string_view what,
                Diagnostics* diagnostics) {
  if (!*first) {
    *first = span;
    return true;
  }
  diagnostics->Add(Code::kRedefined, span, absl::StrCat("a second ", what))
      .notes.push_back({**first, "the first one is here", ""});
  return false;
}

RankMode ModeOf(absl::string_view word) {
  const auto row = std::find_if(std::begin(kModes), std::end(kModes),
                                [word](const ModeRow& r) { return word == r.word; });
  return static_cast<RankMode>(row - std::begin(kModes));
}

bool InModeOrFind(std::initializer_list<RankMode> modes, RankMode mode, Span span,
                  absl::string_view what, Diagnostics* diagnostics) {
  if (std::find(modes.begin(), modes.end(), mode) != modes.end()) return true;
  std::string text = absl::StrCat(what, " cannot stand in ", RowOf(mode).name);
  if (*modes.begin() == RankMode::kSequence) {
    absl::StrAppend(&text, RowOf(mode).instead);
  } else {
    const char* before = "; it belongs in ";
    for (const RankMode other : modes) {
      absl::StrAppend(&text, before, RowOf(other).name);
      before = " or ";
    }
  }
  diagnostics->Add(Code::kMisplaced, span, std::move(text));
  return false;
}

}  // namespace stringline
