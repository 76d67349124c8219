// A rank block for a plan's orders, before its proof, with the numbers of microbatches it may hold
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/write/rank_words.h"
#include "schedlang/write/shared_phases.h"
#include "schedlang/write/stage_text.h"

namespace stringline::search {

// In the order of preference.
enum class WrittenForm : uint8_t {
  kPhases,         // repeats, in a common form for all ranks
  kTimetable,      // slots
  kGreedy,         // a rule
  kRankPhases,     // repeats, of some ranks by themselves
  kRankTimetable,  // slots, of every rank by itself
  kList,           // plain lists of actions
};
const char* NameOf(WrittenForm form);  // "phases"

// The plan as seen by every form.
struct Written {
  const Plan* plan;
  StageText stages;
  RankWords words;
  int64_t microbatches;              // per stage
  std::vector<SharedPhases> ranges;  // the words' ranges
  std::vector<OrderCosts> costs;     // for trials of greedy rules
};

struct Draft {
  WrittenForm form = WrittenForm::kList;
  std::vector<std::string> lines;  // `rank r {` to `}`
  // The numbers of microbatches of a stage that the draft may hold for: the plan's, plus or minus
  // multiples of `step`, from `least` on; 0: the plan's only.
  int64_t step = 0;
  int64_t least = 1;
};

// Characters that matter to a reader: all but white space.
int64_t LengthOf(const Draft& draft);

// Each returns nothing if the plan is not of its form. `grows`: for more microbatches too; nothing
// if the form cannot express growth.
std::optional<Draft> DraftPhases(const Written& written, bool grows);         // a common form for
                                                                              // all ranks
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
