// A plan's orders as words over one alphabet, in which a stage is named relative to its rank.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/write/stage_text.h"

namespace stringline::search {

inline constexpr int kOldest = -1;     // the role of a bare W: whichever stage deferred first
inline constexpr int kFromOrder = -2;  // the next one of an `order` that lists the stages

// A part of what a rank does at once.
struct SignPart {
  ActionKind kind = ActionKind::kForward;
  int role = 0;
  int microbatch = -1;  // -1: as it is counted
  friend auto operator<=>(const SignPart&, const SignPart&) = default;
};
using Sign = std::vector<SignPart>;

struct RankWords {
  std::vector<Sign> signs;
  std::vector<std::vector<int>> words;  // by rank: indices of signs
};

// The plan's orders. Where microbatches are not those of the counters, parts name them. W is bare
// if it may be and that means the same everywhere.
RankWords RankWordsOf(const Plan& plan, const StageText& stages, bool may_be_bare = true);

// The same words with stages taken from orders, by direction; and these lists, by rank. Every list
// is a word of signs of one part.
struct OrderedWords {
  RankWords words;
  std::vector<std::vector<int>> forward;
  std::vector<std::vector<int>> backward;
};
OrderedWords OrderedWordsOf(const RankWords& words);

// "F down & B up".
std::string TextOfSign(const Sign& sign, const StageText& stages);

}  // namespace stringline::search
