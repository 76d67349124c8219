// Evaluates words that differ little from each other: the inner loop of the search.
//
// Holds a set of words, the base, with the times of all groups. A trial moves a group of a rank,
// makes two groups a pair or a pair two groups, or a B an I and a W or these a B. Only groups that
// can start behind the change are evaluated again: a change cannot reach a group that starts before
// the end of the last unchanged group before it.
//
// The period is not evaluated here: the span, an upper bound of every period, stands for it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schedlang/search/move.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/unequal_times.h"

namespace stringline::search {

// The quality of words: the objective, and among equals the ends of all ranks, earlier is better.
struct Score {
  int64_t value = kNoLimit;
  int64_t ends = 0;  // the sum over the ranks
  friend bool operator<(const Score& a, const Score& b) {
    return a.value != b.value ? a.value < b.value : a.ends < b.ends;
  }
};

// A letter among the flat numbers of an evaluation. Values lie one after the other, for every stage
// its input activations, then its output gradients.
struct OfLetter {
  int64_t time = 0;      // of unequal microbatches the least
  int32_t counter = -1;  // index of its count: F of a stage, its B and I; -1 for W
  int32_t needs = -1;    // place of its need of microbatch 0; -1: no need
  int32_t gives = -1;    // place of its value of microbatch 0; -1: no consumer
  int32_t to = -1;       // the consumer's rank
  int32_t queue = -1;    // the message's; -1: none in which anything waits
  int64_t latency = 0;
  int64_t transfer = 0;
};

class Evaluator {
 public:
  explicit Evaluator(const Problem& problem);

  // Loads complete words. False if they never end.
  bool Load(const Words& words);
  const Score& base() const { return base_; }
  // The base; after Try also the words that were tried.
  Words words(bool tried = false);

  int ranks() const { return static_cast<int>(first_.size()) - 1; }
  int length(int rank) const { return length_[rank]; }
  Group At(int rank, int place) const { return word_[first_[rank] + place]; }
  int64_t StartOf(int rank, int place) const { return start_[first_[rank] + place]; }
  int64_t EndOf(int rank, int place) const { return end_[first_[rank] + place]; }
  // Moves to the group that determines this group's start: its predecessor on the rank, or the
  // producer of its input on another rank (*rank changes). False for a group without one.
  bool GoBack(int* rank, int* place) const;

  // True if the groups of the move exist, every letter still follows its needs on its rank, and the
  // capacity suffices.
  bool IsPossible(const Move& move);

  // The score after a possible move; kNoLimit if the words would never end, or if the value is
  // known to exceed `limit`. The base stays.
  Score Try(const Move& move, int64_t limit);
  // A possible move whose words end becomes part of the base. Costs little for the move that was
  // tried last.
  void Keep(const Move& move);

 private:
  // The state of all ranks at places of theirs.
  struct Front {
    std::vector<int32_t> place;
    std::vector<int64_t> now;
    std::vector<int64_t> left;     // work from here on
    std::vector<int32_t> counts;   // by counter
    std::vector<int64_t> queues;   // by sender and receiver: when the last transfer ends
    std::vector<int32_t> blocked;  // by rank: the index in `there` that it waits for; -1: none
  };

  // The least times of unequal microbatches, whose sums are no more than the work.
  int64_t TimeOf(Group group) const;
  const Group* WordOf(int rank) const { return word_.data() + first_[rank]; }
  // Exchanges the window's groups and slots with those in the word.
  void ExchangeWindow();
  // The slots of groups behind `counts`, by counter, which count on.
  void FindSlots(const Group* groups, size_t size, int32_t* counts, Slot* slots) const;
  // The front before everything that starts at or behind the end of the group before `place`.
  void FrontBefore(int rank, int place);
  void CountsBefore(int rank, int place);
  // Values given behind the front count as not given in the next trial.
  void ForgetBehindFront();
  // Undoes the last trial, if it was not kept.
  void ForgetTrial();
  const int32_t* PrefixOf(int rank, int place, int stage) const {
    return prefix_counts_[rank].data() + (static_cast<size_t>(place) * rank_stages_[rank].size() +
                                          static_cast<size_t>(local_[stage])) *
                                             4;
  }
  bool KeepsOrder(int stage) const;
  bool KeepsCapacity() const;
  // Gives the value of a finished letter at `at`, and readies the rank that waits for it.
  void Give(const OfLetter& letter, int64_t transfer, int32_t at, int rank, int64_t end);
  // Goes on from the front to the end of all words; writes the trial's times. False if the words
  // never end, or not within the limit.
  bool Run(int64_t limit);
  template <bool kUnequal>
  bool RunOf(int64_t limit);
  // The trial's times behind the front become the base's.
  void TakeTrial();
  Score Measure() const;
  void CountPrefixes(int rank, int from);

  const Problem& problem_;
  UnequalTimes unequal_;
  std::vector<OfLetter> letters_;
  // By counter: where its values lie in there_; none: no consumer.
  std::vector<std::pair<int32_t, int32_t>> given_;
  std::vector<std::vector<int32_t>> rank_stages_;
  std::vector<int32_t> local_;  // by stage: its index among those of its rank
  std::vector<int32_t> first_;  // by rank, into the next vectors; a rank has room for all its
                                // letters alone, and for each B as an I and a W
  std::vector<int32_t> length_;
  std::vector<Group> word_;
  std::vector<Slot> slots_;
  std::vector<int64_t> start_, end_;
  std::vector<int64_t> trial_start_, trial_end_;  // of the groups behind the trial's front
  std::vector<int64_t> prefix_work_;              // by group: the work before it on its rank
  std::vector<int64_t> prefix_held_;              // by group: the memory held by its rank before it
  // By rank, place and stage of the rank, counts before the place: F done, B and I done, W
  // deferred, I done.
  std::vector<std::vector<int32_t>> prefix_counts_;
  std::vector<int64_t> there_;        // the arrival of every microbatch's value
  std::vector<int64_t> trial_there_;  // in a trial; -1 for values that it has not reached
  std::vector<int32_t> ready_;
  Front front_;
  MoveWindow window_;
  std::vector<int32_t> touched_;     // by counter: its count at the front of the last trial
  std::vector<int32_t> began_;       // by rank: its place there
  bool is_to_be_forgotten_ = false;  // the last trial, which was not kept
  Score base_, tried_;
};

}  // namespace stringline::search
