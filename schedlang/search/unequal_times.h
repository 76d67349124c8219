// The times of unequal microbatches while words are evaluated: which microbatch a W takes depends
// on the order of its stage's B and I.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

class UnequalTimes {
 public:
  // Nothing is kept for equal microbatches.
  explicit UnequalTimes(const Problem& problem);

  bool empty() const { return each_.empty(); }
  // The time of a letter of which `count` are done (of a B or I: both together; of a W it does not
  // matter). I and W are counted.
  int64_t TimeOfNext(Letter letter, int32_t count) {
    const auto s = static_cast<size_t>(StageOf(letter));
    const ActionKind kind = KindOf(letter);
    int32_t k = count;
    if (kind == ActionKind::kWeightGradient) k = trial_[first_[s] + done_[s].weights++];
    if (kind == ActionKind::kInputGradient) trial_[first_[s] + done_[s].inputs++] = k;
    return each_[At(letter, k)].time;
  }
  // The transfer time of the letter's message.
  int64_t TransferOf(Letter letter, int32_t k) const { return each_[At(letter, k)].transfer; }
  // True if one of the letter's messages takes time.
  bool AnyTransfers(Letter letter) const;

  // The I and W that a stage has done where a run begins.
  void SetDone(int stage, int32_t inputs, int32_t weights) { done_[stage] = {inputs, weights}; }
  // A trial begins, which is undone or kept before the next.
  void BeginTrial() { touched_ = done_; }
  void Restore();
  void Keep() { base_ = trial_; }

 private:
  struct Times {
    int64_t time = 0;
    int64_t transfer = 0;
  };
  struct Done {
    int32_t inputs = 0;
    int32_t weights = 0;
  };

  size_t At(Letter letter, int32_t k) const {
    const auto s = static_cast<size_t>(StageOf(letter));
    return 4 * first_[s] + static_cast<size_t>(letter & 3) * (first_[s + 1] - first_[s]) +
           static_cast<size_t>(k);
  }

  std::vector<size_t> first_;          // by stage: its first microbatch in the next vectors
  std::vector<Times> each_;            // by stage, kind and microbatch
  std::vector<int32_t> base_, trial_;  // by stage: the microbatches of its I, in their order
  std::vector<Done> done_, touched_;   // by stage; at the start of a trial
};

}  // namespace stringline::search
