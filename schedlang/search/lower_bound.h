// What no order of a problem is below, and why.
//
// Every bound is an argument about any order:
//   path     what must come behind what, by messages, counters and memory (relaxed.h), from a
//            letter's head through it to the end of its tail. One microbatch's way there and back
//            is one of them, the last microbatch's another.
//   letters  of a rank, one at a time, each with its head and its tail (one_rank.h).
//   windows  between a head and a tail a rank does all its work but what can lie before and behind;
//            memory says how much that is. With the head of its first B or I this is the warm-up: K
//            forwards at most fit before it (Zero Bubble Pipeline Parallelism, Qi et al. 2024).
//   area     a microbatch is held from the start of its F until it is released, at the least for
//            the longest path between the two; all of them together for no more than capacity times
//            the time from the rank's first letter to its last one (Little 1961).
// For kSpan they begin with the rank's first letter. When that is, is known where every rank sees
// one pipe alone, and no rank twice on the way to its first stage; otherwise, and for kPeriod, the
// other ranks are taken to be as far as they like. A step of a rank in the middle of many is an
// order from its first letter to its last one, too: so its period is no less.
#pragma once

#include <cstdint>
#include <string>

#include "schedlang/search/problem.h"

namespace stringline::search {

// Of the rank with the largest sum.
struct BoundParts {
  enum class Reason : uint8_t { kWork, kWarmUp, kCoolDown, kBoth, kPath, kArea };
  int rank = -1;  // -1: no microbatch at all
  Reason reason = Reason::kWork;
  int64_t before = 0;  // its first letter
  int64_t work = 0;
  int64_t idle = 0;
  int64_t behind = 0;  // its last letter
  int64_t sum() const { return before + work + idle + behind; }
};

// The problem has B, or I and W, or both. A rank cannot hold one microbatch: then sum() is
// kNoLimit, all of it idle. Cost: linear in letters times ranks for kSpan and kPeriod (and in the
// stages of a rank), and some thousand windows for every rank.
BoundParts PartsOfBound(const Problem& problem);
inline int64_t LowerBoundOf(const Problem& problem) { return PartsOfBound(problem).sum(); }

// "rank 2: 3 before its first action, 24 of work, 3 of idle time in warm-up, 0 behind", each number
// as `print` has it; null: as it is.
std::string Print(const BoundParts& parts, std::string (*print)(int64_t) = nullptr);

// What a rank must be able to hold for any order to exist: all its stages of one microbatch, when
// the last of them turns back. At it one microbatch behind the other is an order (where a W takes
// no more than it releases, and an I while it runs no less than behind it).
int64_t LeastCapacity(const Problem& problem, int rank);

// Where the first letter of every rank starts, in every order: the only one there is comes first,
// and its way there waits for nothing else. Empty where that is not so.
std::vector<int64_t> KnownStarts(const Problem& problem);

}  // namespace stringline::search
