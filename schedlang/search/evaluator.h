// Evaluates words that differ little from each other: the inner loop of the search.
//
// Holds one set of words, its base, with the times of all its groups. A trial moves one group of
// one rank, or makes two of them a pair, or a pair two. Only what can start behind the change is
// looked at again: a group that starts before the end of what stands before the changed ones cannot
// be reached by them.
//
// The period is not evaluated here: its value is the span, which no period exceeds.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

// A change of one rank's word; those between its two places make room.
struct Move {
  enum class Kind : uint8_t {
    kShift,        // the group at `from` goes to the place `to`
    kJoin,         // the group at `from` becomes a pair with the one at `to`
    kTakeForward,  // the F of the pair at `from` goes before the group at `to`, 0 .. length
    kTakeBack,     // its B or I does
  };
  int rank = 0;
  int from = 0;
  int to = 0;
  Kind kind = Kind::kShift;
};

// How good words are: by the objective, and among equals by how early all ranks end.
struct Score {
  int64_t value = kNoLimit;
  int64_t ends = 0;  // the sum over the ranks
  friend bool operator<(const Score& a, const Score& b) {
    return a.value != b.value ? a.value < b.value : a.ends < b.ends;
  }
};

class Evaluator {
 public:
  explicit Evaluator(const Problem& problem);

  // Words that are complete. False if they never end.
  bool Load(const Words& words);
  const Score& base() const { return base_; }
  Words words() const;

  int ranks() const { return static_cast<int>(first_.size()) - 1; }
  int length(int rank) const { return length_[rank]; }
  Group At(int rank, int place) const { return word_[first_[rank] + place]; }
  int64_t StartOf(int rank, int place) const { return start_[first_[rank] + place]; }
  int64_t EndOf(int rank, int place) const { return end_[first_[rank] + place]; }
  // Where the group lies that gives what this one starts for: behind the group before it on its
  // rank, or behind one of another rank (*rank changes). False for the first of all.
  bool GoBack(int* rank, int* place) const;

  // Whether there are such groups, every letter still comes behind what it needs on its rank, and
  // the capacity suffices.
  bool IsPossible(const Move& move);

  // The score after a possible move; that of words that never end if they would not, or if the
  // value is known to exceed `limit`. The base stays.
  Score Try(const Move& move, int64_t limit);
  // A possible move that ends becomes part of the base.
  void Keep(const Move& move);

 private:
  struct OfLetter {
    int64_t time = 0;
    int32_t counter = -1;  // index into counts_: F of a stage, its B and I; -1 for W
    int32_t needs = -1;    // where what it waits for lies in there_, of microbatch 0; -1: nothing
    int32_t gives = -1;    // where what it gives lies, of microbatch 0; -1: nobody waits for it
    int32_t to = -1;       // the rank that waits
    int32_t queue = -1;    // of the message; -1: none that anything waits in
    int64_t latency = 0;
    int64_t transfer = 0;
  };
  // The state of all ranks at places of theirs.
  struct Front {
    std::vector<int32_t> place;
    std::vector<int64_t> now;
    std::vector<int64_t> left;     // work from here on
    std::vector<int32_t> counts;   // by counter
    std::vector<int64_t> queues;   // by sender and receiver: when the last transfer ends
    std::vector<int32_t> blocked;  // by rank: on what of `there`; -1: on nothing
  };

  // What a move makes of a stretch of its rank's word.
  struct Window {
    int rank = 0;
    int low = 0;                // its first place
    int count = 0;              // how many groups are there now
    std::vector<Group> groups;  // that come there
  };

  int64_t TimeOf(Group group) const;
  int64_t TimeOf(const std::vector<Group>& groups) const;
  // Whether there is such a pair to part, or to make.
  bool HasGroups(const Move& move) const;
  void FindWindow(const Move& move);
  // The window's groups and those in its place change places.
  void ExchangeWindow();
  // The front before everything that starts at or behind the end of what stands before `place`.
  void FrontBefore(int rank, int place);
  void CountsBefore(int rank, int place);
  // What was given behind the front is not there any more.
  void ForgetBehindFront(std::vector<int64_t>* there) const;
  const int32_t* PrefixOf(int rank, int place, int stage) const {
    return prefix_counts_[rank].data() + (static_cast<size_t>(place) * rank_stages_[rank].size() +
                                          static_cast<size_t>(local_[stage])) *
                                             3;
  }
  bool KeepsOrder(int stage) const;
  bool KeepsCapacity() const;
  // What a letter that ends gives for microbatch k arrives, and who waits for it is ready.
  void Give(const OfLetter& letter, int32_t k, int rank, int64_t end, int64_t* there);
  template <bool kWrites>
  bool Run(std::vector<int64_t>* there, int64_t limit);
  Score Measure() const;
  void CountPrefixes(int rank);

  const Problem& problem_;
  std::vector<OfLetter> letters_;
  std::vector<int32_t> given_first_, given_end_;  // by counter: where what it gives lies in there_
  std::vector<std::vector<int32_t>> rank_stages_;
  std::vector<int32_t> local_;  // by stage: its index among those of its rank
  std::vector<int32_t> first_;  // by rank, into the next ones; room for its letters one by one
  std::vector<int32_t> length_;
  std::vector<Group> word_;
  std::vector<int64_t> start_, end_;
  std::vector<int64_t> prefix_work_;  // by group: of those before it on its rank
  std::vector<int64_t> prefix_held_;  // by group: what its rank holds before it
  // By rank, place and stage of the rank: F done before it, B and I done, W deferred.
  std::vector<std::vector<int32_t>> prefix_counts_;
  std::vector<int64_t> there_;        // when a microbatch's value is there
  std::vector<int64_t> trial_there_;  // the same but for what a trial has not reached: -1
  std::vector<int64_t> first_start_;  // by rank
  std::vector<int32_t> ready_;
  Front front_;
  Window window_;
  std::vector<Group> exchanged_;
  std::vector<int32_t> touched_;  // by counter: what a trial began with
  Score base_;
};

}  // namespace stringline::search
