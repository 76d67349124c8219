// Two counts of letters: announced by ranks, and done. A rank announces a group at a time.
#include "schedlang/search/all_orders.h"

#include <algorithm>
#include <array>
#include <vector>

namespace stringline::search {
namespace {

class AllOrders {
 public:
  AllOrders(const Problem& problem, int64_t most_nodes, Proven* proven)
      : problem_(problem), most_nodes_(most_nodes), proven_(*proven), stop_(problem.stop, 64) {
    words_.resize(problem.ranks);
    done_.resize(problem.stages.size());
    said_ = done_;
    held_.assign(problem.ranks, 0);
    done_groups_.assign(problem.ranks, 0);
    groups_.resize(problem.ranks);
    for (int r = 0; r < problem.ranks; ++r) FindGroups(r);
  }

  void Run() {
    proven_.finished = true;
    Extend();
    if (proven_.finished) proven_.bound = proven_.value;
  }

 private:
  using Counts = std::vector<std::array<int, 4>>;  // by stage and kind

  // Backs first: an early end is found early.
  void FindGroups(int rank) {
    const auto add = [&](ActionKind kind, bool is_used) {
      for (int s = problem_.stage_count(); is_used && s-- > 0;) {
        if (problem_.stages[s].rank == rank) groups_[rank].push_back({LetterOf(kind, s)});
      }
    };
    add(ActionKind::kInputGradient, problem_.split);
    add(ActionKind::kBackward, problem_.whole);
    const std::vector<Group> backs = groups_[rank];
    add(ActionKind::kForward, true);
    const std::vector<Group> both = groups_[rank];
    for (size_t f = backs.size(); f < both.size(); ++f) {
      for (const Group back : backs) {
        const Group pair{both[f].first, back.first};
        if (problem_.TimeOf(pair) >= 0) groups_[rank].push_back(pair);
      }
    }
    add(ActionKind::kWeightGradient, problem_.split);
  }

  static void Count(Group group, int times, Counts* counts) {
    for (const Letter letter : {group.first, group.second}) {
      if (letter == kNoLetter) continue;
      (*counts)[StageOf(letter)][Index(KindOf(letter))] += times;
    }
  }

  // True if the rank can announce the group next, by its own counters and memory.
  bool CanSay(int rank, Group group) const {
    int64_t during = 0;
    for (const Letter letter : {group.first, group.second}) {
      if (letter == kNoLetter) continue;
      const StageWork& stage = problem_.stages[StageOf(letter)];
      const auto& [forward, whole, input, weight] = said_[StageOf(letter)];
      const ActionKind kind = KindOf(letter);
      const bool is_left = kind == ActionKind::kForward          ? forward < stage.microbatches
                           : kind == ActionKind::kWeightGradient ? weight < input
                                                                 : whole + input < forward;
      if (!is_left) return false;
      during += stage.during[Index(kind)];
    }
    return held_[rank] + during <= problem_.capacity[rank];
  }

  bool CanDo(Group group) const {
    for (const Letter letter : {group.first, group.second}) {
      if (letter == kNoLetter || KindOf(letter) == ActionKind::kWeightGradient) continue;
      const int s = StageOf(letter);
      const StageWork& stage = problem_.stages[s];
      if (KindOf(letter) == ActionKind::kForward) {
        if (stage.previous >= 0 && done_[stage.previous][0] <= done_[s][0]) return false;
      } else if (stage.next >= 0) {
        const auto& next = done_[stage.next];
        if (next[1] + next[2] <= done_[s][1] + done_[s][2]) return false;
      }
    }
    return true;
  }

  void Hold(int rank, Group group, int times) {
    for (const Letter letter : {group.first, group.second}) {
      if (letter == kNoLetter) continue;
      const StageWork& stage = problem_.stages[StageOf(letter)];
      held_[rank] += times * stage.after[Index(KindOf(letter))];
    }
  }

  // Does all groups that can be done; then the first rank that waits for nothing announces its
  // next.
  void Extend() {
    const Counts done = done_;
    const std::vector<size_t> done_groups = done_groups_;
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < problem_.ranks; ++r) {
        if (done_groups_[r] == words_[r].size() || !CanDo(words_[r].back())) continue;
        Count(words_[r].back(), 1, &done_);
        ++done_groups_[r];
        moved = true;
      }
    }
    SayNext();
    done_ = done;
    done_groups_ = done_groups;
  }

  void SayNext() {
    bool is_all = true;
    for (int r = 0; r < problem_.ranks; ++r) {
      if (done_groups_[r] != words_[r].size()) {
        is_all = false;
        continue;
      }
      bool is_complete = true;
      for (const Group group : groups_[r]) {
        if (IsLeft(group)) is_complete = false;
      }
      if (is_complete) continue;
      for (const Group group : groups_[r]) {
        if (!CanSay(r, group)) continue;
        if (!Try(r, group)) return;
      }
      return;
    }
    if (is_all) Judge();
  }

  bool IsLeft(Group group) const {
    const auto& [forward, whole, input, weight] = said_[StageOf(group.first)];
    const int all = problem_.stages[StageOf(group.first)].microbatches;
    return forward < all || whole + input < all || weight < input;
  }

  // Returns false to end the enumeration.
  bool Try(int rank, Group group) {
    if (++proven_.nodes > most_nodes_ || stop_.IsWished()) proven_.finished = false;
    if (!proven_.finished || proven_.value <= proven_.bound) return false;
    words_[rank].push_back(group);
    Count(group, 1, &said_);
    Hold(rank, group, 1);
    Extend();
    Hold(rank, group, -1);
    Count(group, -1, &said_);
    words_[rank].pop_back();
    return true;
  }

  void Judge() {
    const int64_t value = ValueOf(problem_, words_);
    if (value >= proven_.value) return;
    proven_.value = value;
    proven_.words = words_;
  }

  const Problem& problem_;
  const int64_t most_nodes_;
  Proven& proven_;
  std::vector<std::vector<Group>> groups_;  // by rank
  SparseStop stop_;
  Words words_;
  Counts said_, done_;
  std::vector<size_t> done_groups_;  // by rank
  std::vector<int64_t> held_;        // by rank
};

}  // namespace

void TryAllOrders(const Problem& problem, int64_t most_nodes, Proven* proven) {
  AllOrders(problem, most_nodes, proven).Run();
}

}  // namespace stringline::search
