// A lower bound on all orders of a problem, with its reason.
//
// Every bound is an argument about any order:
//   path     dependencies by messages, counters and memory (relaxed.h): a letter's head, its own
//            time and its tail. The way of a microbatch forth and back is a path, for the first
//            microbatch and for the last.
//   letters  of a rank, one at a time, each with its head and its tail (one_rank.h).
//   windows  between a head and a tail a rank does all its work except letters that fit before and
//            behind, which memory limits. With the head of its first B or I this is the warm-up: at
//            most K forwards fit before it (Zero Bubble Pipeline Parallelism, Qi et al. 2024).
//   area     a microbatch is held from the start of its F until its release, at least for the
//            longest path between the two; the sum over microbatches is at most the capacity times
//            the time from the rank's first letter to its last (Little 1961).
// For kSpan time counts from the start of the rank's first letter. This start is known if every
// rank sees a single pipe, and no rank twice on the way to its first stage; otherwise, and for
// kPeriod, the other ranks may be at any point. A steady-state step of a rank is also an order from
// its first letter to its last, so its period is no less.
#pragma once

#include <cstdint>
#include <string>

#include "schedlang/search/problem.h"

namespace stringline::search {

// The bound of the rank with the largest sum.
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

// The problem has B, or I and W, or both. If a rank cannot hold a microbatch, sum() is kNoLimit,
// all of it idle. After a wish to stop the bound may be less than without: the best so far, or the
// work of the busiest rank. Cost: linear in letters times ranks for kSpan and kPeriod (and in the
// stages of a rank), and some thousand windows for every rank.
BoundParts PartsOfBound(const Problem& problem);
inline int64_t LowerBoundOf(const Problem& problem) { return PartsOfBound(problem).sum(); }

// "rank 2: 3 before its first action, 24 of work, 3 of idle time in warm-up, 0 behind", each number
// printed by `print`; null: as a plain number.
std::string Print(const BoundParts& parts, std::string (*print)(int64_t) = nullptr);

// The least capacity of a rank for which an order exists: all its stages of a single microbatch,
// when its last stage turns back. It suffices for microbatches one after the other (if a W takes no
// more than it releases, and an I holds no less while running than afterwards).
int64_t LeastCapacity(const Problem& problem, int rank);
// True if no rank's capacity is below its least one.
bool CanBeKept(const Problem& problem);

// The start of every rank's first letter, if it is the same in every order: in a single pipe that
// visits every rank before it returns to any, with equal microbatches. Empty otherwise.
std::vector<int64_t> KnownStarts(const Problem& problem);

}  // namespace stringline::search
