// A plan's orders as words over a common alphabet, with stages named relative to their rank.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/write/stage_text.h"

namespace stringline::search {

inline constexpr int kOldest = -1;     // the role of a bare W: the stage that deferred first
inline constexpr int kFromOrder = -2;  // the next stage of an `order` list

// A part of a group.
struct SignPart {
  ActionKind kind = ActionKind::kForward;
  int role = 0;
  int microbatch = -1;  // -1: counted
  friend auto operator<=>(const SignPart&, const SignPart&) = default;
};
using Sign = std::vector<SignPart>;

struct RankWords {
  std::vector<Sign> signs;
  std::vector<std::vector<int>> words;  // by rank: indices of signs
};

// The plan's orders. Parts name microbatches that differ from the counters'. W is bare if allowed
// and if its meaning is the same everywhere.
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
