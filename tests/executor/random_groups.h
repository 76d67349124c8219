// Plans of random groups of actions that overlap in random orders of their parts.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/schedlang/random_block.h"

namespace stringline {

// Emits groups whose actions are all ready, rank by rank at random, until every microbatch has gone
// through every stage. The moment of emission proves that the plan ends.
class RandomGroups {
 public:
  // `ranks` by stage. Each backward is whole, or an I and a W.
  RandomGroups(std::vector<int> ranks, int microbatches, std::mt19937* random)
      : ranks_(std::move(ranks)), microbatches_(microbatches), random_(*random) {
    for (auto* const done : {&forwards_, &backwards_, &weights_}) done->assign(ranks_.size(), 0);
    whole_.assign(ranks_.size(), std::vector<bool>(microbatches_));
    for (auto& of : whole_) {
      for (int m = 0; m < microbatches_; ++m) of[m] = random_() % 2 == 0;
    }
    lines_.resize(1 + *std::max_element(ranks_.begin(), ranks_.end()));
  }

  // The text of the plan; every kind of group in it overlaps, by default or by a random block.
  std::string Text(int chunks) {
    while (Emit(static_cast<int>(random_() % lines_.size())) || !Whole()) {
    }
    std::string text = absl::StrCat("plan x P=", lines_.size(), " M=", microbatches_, "\nstages ",
                                    absl::StrJoin(ranks_, " "), "\n");
    for (const std::vector<ActionKind>& kinds : kinds_) {
      Overlap overlap = RandomBlock(kinds, &random_);
      if (random_() % 2 == 0) {
        overlap.by_default = true;
        overlap.compute.clear();
        overlap.network.clear();
      }
      absl::StrAppend(&text, Print(overlap), "\n");
    }
    if (chunks > 1) absl::StrAppend(&text, "chunks ", chunks, "\n");
    for (size_t r = 0; r < lines_.size(); ++r) {
      absl::StrAppend(&text, "rank ", r, ":", lines_[r], "\n");
    }
    return text;
  }

  int groups() const { return groups_; }

 private:
  struct Ready {
    ActionKind kind;
    int stage, microbatch;
  };

  bool Whole() const {
    const auto all = [this](int done) { return done == microbatches_; };
    return std::all_of(weights_.begin(), weights_.end(), all);
  }

  // The actions of a rank that nothing delays any more, each of its kind and stage in turn.
  std::vector<Ready> ReadyOn(int rank) const {
    std::vector<Ready> ready;
    const int stages = static_cast<int>(ranks_.size());
    for (int s = 0; s < stages; ++s) {
      if (ranks_[s] != rank) continue;
      const int fed = s == 0 ? microbatches_ : forwards_[s - 1];
      for (int m = forwards_[s]; m < fed; ++m) ready.push_back({ActionKind::kForward, s, m});
      const int back = std::min(forwards_[s], s + 1 == stages ? forwards_[s] : backwards_[s + 1]);
      for (int m = backwards_[s]; m < back; ++m) {
        ready.push_back({whole_[s][m] ? ActionKind::kBackward : ActionKind::kInputGradient, s, m});
      }
      for (int m = weights_[s]; m < backwards_[s] && !whole_[s][m]; ++m) {
        ready.push_back({ActionKind::kWeightGradient, s, m});
      }
    }
    return ready;
  }

  // The actions in the order of microbatches: F and I by themselves, and weight gradients, of whole
  // backwards too.
  bool InTurn(const Ready& one, const std::vector<int>& forwards, const std::vector<int>& backwards,
              const std::vector<int>& weights) const {
    switch (one.kind) {
      case ActionKind::kForward:
        return forwards[one.stage] == one.microbatch;
      case ActionKind::kBackward:
        return backwards[one.stage] == one.microbatch && weights[one.stage] == one.microbatch;
      case ActionKind::kInputGradient:
        return backwards[one.stage] == one.microbatch;
      default:
        return weights[one.stage] == one.microbatch;
    }
  }

  bool Emit(int rank) {
    std::vector<Ready> ready = ReadyOn(rank);
    std::shuffle(ready.begin(), ready.end(), random_);
    std::vector<int> forwards = forwards_, backwards = backwards_, weights = weights_;
    std::vector<ActionKind> kinds;
    const size_t most = 1 + random_() % 3;
    for (bool more = true; more && kinds.size() < most;) {
      more = false;
      for (const Ready& one : ready) {
        if (kinds.size() == most || !InTurn(one, forwards, backwards, weights)) continue;
        absl::StrAppend(&lines_[rank], kinds.empty() ? " " : "&", one.stage, PrintedKind(one.kind),
                        one.microbatch);
        kinds.push_back(one.kind);
        if (one.kind == ActionKind::kForward) ++forwards[one.stage];
        if (one.kind == ActionKind::kBackward || one.kind == ActionKind::kInputGradient) {
          ++backwards[one.stage];
        }
        if (Performs(one.kind, ActionKind::kWeightGradient)) ++weights[one.stage];
        more = true;
      }
    }
    forwards_ = std::move(forwards);
    backwards_ = std::move(backwards);
    weights_ = std::move(weights);
    if (kinds.size() > 1) {
      ++groups_;
      std::vector<ActionKind> forwards_first;
      for (const bool forward : {true, false}) {
        for (const ActionKind kind : kinds) {
          if ((kind == ActionKind::kForward) == forward) forwards_first.push_back(kind);
        }
      }
      kinds_.insert(std::move(forwards_first));
    }
    return !kinds.empty();
  }

  const std::vector<int> ranks_;
  const int microbatches_;
  std::mt19937& random_;
  std::vector<int> forwards_, backwards_, weights_;  // by stage, how many
  std::vector<std::vector<bool>> whole_;             // by stage and microbatch
  std::vector<std::string> lines_;                   // by rank
  std::set<std::vector<ActionKind>> kinds_;          // of groups
  int groups_ = 0;
};

}  // namespace stringline
