// A problem without the order of different letters on a rank: what must come behind what in every
// order, and the earliest times that follow from it. The bound and the exact solver stand on it.
//
// In every order of a stage, by counters (k from 0):
//   F k      behind F k-1, and behind F k of the stage before with its message
//   back k   (the k-th of its B and I) behind back k-1, behind back k of the next stage with its
//            message, or behind F k where there is none
//   release k (the k-th end of a B or W) behind back k, and behind release k-1
// and by memory, where a rank may hold `room`: its stages of one pipe are s_0, s_1 … in the order
// of the pipe, and each of them holds a_l for a microbatch. F k of s_i waits for back k-n of s_e:
//   e >= i   n = floor((room - sum of a_l for i < l <= e) / (sum of a_l for l <= i)). If that back
//            has not ended, then until it ends s_i and every stage before it hold more than n
//            microbatches each, and at its end those up to s_e hold one: more than fits.
//   e < i    n = floor((room - sum of a_l for e < l <= i) / (sum of a_l for l <= e)). Likewise: the
//            stages up to s_e hold more than n each, and those behind it one.
// Where n is 0 there is no order at all. And for release k-n of s_e, e <= i, where n is what fits
// of the least that s_e holds for a microbatch until it is released, beside one of each other
// stage.
//
// So it is known what of its rank comes before a letter, in every order, and what comes behind. It
// is done one at a time: this is work between the letter and the rank's beginning, or its end; or
// the first back of a stage, which has a long way; or the last F. It may take longer than any path.
//
// Pairs: a letter takes at least the least group that it may be in. Where work is added up, a
// letter counts with a share, and the shares of no pair are more than the pair takes.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

inline constexpr int64_t kLongAgo = -kNoLimit;

// The least that letters of a stage take; kNoLimit for what may not be used.
struct LeastTimes {
  int64_t forward = 0;
  int64_t whole = kNoLimit;
  int64_t input = kNoLimit;
  int64_t back = 0;     // of both
  int64_t release = 0;  // from the start of a back to where all is released
  int64_t between = 0;  // from one release to the next one
  // What one of them occupies its rank with. A B stands for a back and a weight.
  int64_t forward_share = 0;
  int64_t back_share = 0;
  int64_t weight_share = 0;
};

// Where savings of pairs are counted: both are right, and neither is always the better one.
enum class SavedOn : uint8_t { kForwards, kBacks };

struct Relaxed {
  struct Link {  // a message that crosses ranks; nothing where it does not
    int64_t transfer = 0;
    int64_t latency = 0;
  };

  const Problem* problem = nullptr;
  int most = 0;  // microbatches of a stage
  std::vector<LeastTimes> least;
  std::vector<std::vector<int>> pipes;  // their stages in order
  std::vector<std::vector<int>> rows;   // stages of one pipe and rank, in order
  std::vector<int> row, place;          // by stage: which row, and where in it
  // At [s * stages + e] of one row: F k of s waits for back k - behind of e, and for release
  // k - release_behind of e; `most` where it waits for none.
  std::vector<int> behind, release_behind;
  std::vector<int> least_behind, least_release_behind;  // by e: the least of any s
  std::vector<Link> forward_link, back_link;            // by stage
  std::vector<char> limited;                            // by rank: whether memory matters
  int without_room = -1;                                // a rank that cannot hold one microbatch

  size_t at(int stage, int k) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(most) + static_cast<size_t>(k);
  }
  size_t pair(int s, int e) const {
    return static_cast<size_t>(s) * problem->stages.size() + static_cast<size_t>(e);
  }
  const std::vector<int>& row_of(int stage) const { return rows[row[stage]]; }
  int rank(int stage) const { return problem->stages[static_cast<size_t>(stage)].rank; }
  int count(int stage) const { return problem->stages[static_cast<size_t>(stage)].microbatches; }
};

// `problem` must outlive it.
Relaxed RelaxedOf(const Problem& problem, SavedOn saved_on);

// Numbers of letters of a row, by place in it.
struct RowCounts {
  std::vector<int> forwards, backs, releases;
};
// How many of each come before F k of the stage.
void CountBefore(const Relaxed& relaxed, int stage, int k, RowCounts* counts);
// The work of those in `to` that are not in `from`.
int64_t WorkBetween(const Relaxed& relaxed, const std::vector<int>& row, const RowCounts& from,
                    const RowCounts& to);

// How far ranks have come. Letters that are done are no longer looked at.
struct Frontier {
  std::vector<int> forwards, backs, releases;   // by stage
  std::vector<int64_t> now;                     // by rank: nothing further starts before
  std::vector<int64_t> activations, gradients;  // by Relaxed::at: when those that are sent arrive
};

// Nothing is done, and rank r begins with its first stage's way there behind it.
Frontier Beginning(const Relaxed& relaxed);
// Nothing is done, rank `rank` begins at 0, and nobody knows when the others did.
Frontier BeginningOf(const Relaxed& relaxed, int rank);

// No letter that is left starts before (releases: ends before).
struct Heads {
  std::vector<int64_t> forward, back, release;  // by Relaxed::at
};
void FindHeads(const Relaxed& relaxed, const Frontier& frontier, Heads* heads);

// At least so much time goes by behind the end of a letter, until the last rank ends, or `rank`
// does. kLongAgo where nothing is known. `from_…`: behind its start.
struct Tails {
  std::vector<int64_t> forward, back, release;  // by Relaxed::at
  std::vector<int64_t> from_forward, from_back;
};
inline constexpr int kAnyRank = -1;
Tails TailsOf(const Relaxed& relaxed, int rank);

}  // namespace stringline::search
