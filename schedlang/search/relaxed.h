// A relaxed problem, without the order of different letters on a rank: the dependencies that hold
// in every order, and the earliest times that follow. The bound and the exact solver are built on
// it.
//
// In every order of a stage, by counters (k from 0):
//   F k      behind F k-1, and behind F k of the stage before with its message
//   back k   (the k-th of its B and I) behind back k-1, behind back k of the next stage with its
//            message, or behind F k for a last stage
//   release k (the k-th end of a B or W) behind back k, and behind release k-1
// and by memory, if a rank may hold `room`: its stages of one pipe are s_0, s_1 … in the order of
// the pipe, and s_l holds a_l for a microbatch. F k of s_i waits for back k-n of s_e:
//   e >= i   n = floor((room - sum of a_l for i < l <= e) / (sum of a_l for l <= i)). If that back
//            has not ended, then until it ends s_i and every stage before it hold more than n
//            microbatches each, and at its end those up to s_e hold one: more than fits.
//   e < i    n = floor((room - sum of a_l for e < l <= i) / (sum of a_l for l <= e)). Likewise: the
//            stages up to s_e hold more than n each, and those behind it one.
// If n is 0, no order exists. Likewise for release k-n of s_e, e <= i, where n is the number of
// times that the least memory of s_e for an unreleased microbatch fits beside a microbatch of each
// other stage.
//
// So in every order certain letters of the rank precede a letter, and others follow. They run one
// at a time: their work separates the letter from the rank's beginning or end, from the first back
// of a stage with a long way, or from the last F. This bound may exceed any path.
//
// Pairs: a letter takes at least the time of its shortest group. In sums of work a letter counts
// with a share, and the shares of a pair never exceed the pair's time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

inline constexpr int64_t kLongAgo = -kNoLimit;

// Least times of the letters of a stage; kNoLimit for unused kinds.
struct LeastTimes {
  int64_t forward = 0;
  int64_t whole = kNoLimit;
  int64_t input = kNoLimit;
  int64_t back = 0;     // both
  int64_t release = 0;  // from the start of a back to the full release
  int64_t between = 0;  // from a release to the next
  // The share of rank time of each letter. A B stands for a back and a weight.
  int64_t forward_share = 0;
  int64_t back_share = 0;
  int64_t weight_share = 0;
};

// The side on which savings of pairs are counted: both are valid, and neither is always better.
enum class SavedOn : uint8_t { kForwards, kBacks };

struct Relaxed {
  struct Link {  // a message across ranks; zero within a rank
    int64_t transfer = 0;
    int64_t latency = 0;
  };

  const Problem* problem = nullptr;
  int most = 0;  // microbatches of a stage
  std::vector<LeastTimes> least;
  std::vector<std::vector<int>> pipes;  // their stages in order
  std::vector<std::vector<int>> rows;   // stages of a pipe on a rank, in order
  std::vector<int> row, place;          // by stage: its row, and its place in the row
  // At [s * stages + e] of a row: F k of s waits for back k - behind of e, and for release k -
  // release_behind of e; `most`: no dependency.
  std::vector<int> behind, release_behind;
  std::vector<int> least_behind, least_release_behind;  // by e: the least of any s
  std::vector<Link> forward_link, back_link;            // by stage
  std::vector<char> limited;                            // by rank: true if memory matters
  int without_room = -1;                                // a rank that cannot hold a microbatch

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

// True if microbatches release exactly what they take of the stage, and nothing is negative.
bool ReleasesAll(const Problem& problem, const StageWork& stage);

// `problem` must outlive the result.
Relaxed RelaxedOf(const Problem& problem, SavedOn saved_on);

// The number of microbatches between two looks of a pass at the problem's stop.
int LooksOf(const Relaxed& relaxed);

// Numbers of letters of a row, by place in the row.
struct RowCounts {
  std::vector<int> forwards, backs, releases;
};
// Counts the letters before F k of the stage.
void CountBefore(const Relaxed& relaxed, int stage, int k, RowCounts* counts);
// The work of the letters in `to` but not in `from`.
int64_t WorkBetween(const Relaxed& relaxed, const std::vector<int>& row, const RowCounts& from,
                    const RowCounts& to);

// The progress of ranks. Finished letters are ignored.
struct Frontier {
  std::vector<int> forwards, backs, releases;   // by stage
  std::vector<int64_t> now;                     // by rank: nothing further starts before
  std::vector<int64_t> activations, gradients;  // by Relaxed::at: arrivals of sent values
};

// Nothing is done; the start of rank r is the end of the way to its first stage.
Frontier Beginning(const Relaxed& relaxed);
// Nothing is done; rank `rank` begins at 0, the starts of the others are unknown.
Frontier BeginningOf(const Relaxed& relaxed, int rank);

// Earliest starts of the remaining letters (of releases: ends).
struct Heads {
  std::vector<int64_t> forward, back, release;  // by Relaxed::at
};
// After a wish of the problem's stop some heads are kLongAgo.
void FindHeads(const Relaxed& relaxed, const Frontier& frontier, Heads* heads);

// The least time from the end of a letter until the last rank ends, or until `rank` ends. kLongAgo
// if unknown. `from_…`: from its start.
struct Tails {
  std::vector<int64_t> forward, back, release;  // by Relaxed::at
  std::vector<int64_t> from_forward, from_back;
};
inline constexpr int kAnyRank = -1;
// After a wish of the problem's stop some tails are kLongAgo.
Tails TailsOf(const Relaxed& relaxed, int rank);

}  // namespace stringline::search
