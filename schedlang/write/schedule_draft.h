// A rank block that says a plan's orders, before it is proven, and for which microbatches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/write/rank_words.h"
#include "schedlang/write/shared_phases.h"
#include "schedlang/write/stage_text.h"

namespace stringline::search {

// In the order of preference.
enum class WrittenForm : uint8_t {
  kPhases,         // repeats, one form for all ranks
  kTimetable,      // slots
  kGreedy,         // a rule
  kRankPhases,     // repeats, of some ranks by themselves
  kRankTimetable,  // slots, of every rank by itself
  kList,           // what comes after the other
};
const char* NameOf(WrittenForm form);  // "phases"

// The plan as every form sees it.
struct Written {
  const Plan* plan;
  StageText stages;
  RankWords words;
  int64_t microbatches;              // of a stage
  std::vector<SharedPhases> ranges;  // of the words
  std::vector<OrderCosts> costs;     // to try greedy rules with
};

struct Draft {
  WrittenForm form = WrittenForm::kList;
  std::vector<std::string> lines;  // `rank r {` to `}`
  // The microbatches of a stage that it may hold for are those of the plan and so many more or
  // fewer, from `least` on; 0: those of the plan only.
  int64_t step = 0;
  int64_t least = 1;
};

// Letters that count for a reader: all but white space.
int64_t LengthOf(const Draft& draft);

// Each gives nothing where the plan is not of its form. `grows`: for more microbatches too; nothing
// where that cannot be said.
std::optional<Draft> DraftPhases(const Written& written, bool grows);         // one form for all
std::optional<Draft> DraftOrderedPhases(const Written& written, bool grows);  // with `order` lists
std::optional<Draft> DraftRankPhases(const Written& written, bool grows);
struct TimetableWish {
  bool by_rank = false;  // slots for every rank; else the same for all
  bool fill = false;     // `fill W` instead of slots
};
std::optional<Draft> DraftTimetable(const Written& written, const TimetableWish& wish, bool grows);
std::optional<Draft> DraftGreedy(const Written& written, bool grows);
Draft DraftList(const Written& written);

}  // namespace stringline::search
