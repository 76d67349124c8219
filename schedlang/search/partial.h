// Partial orders, built group by group: their state, and the groups that can come next.
//
// The branching is on one rank at a time: the rank whose possible group ends first of all, at time
// t (Giffler and Thompson 1960). A value that has not arrived for that rank will not arrive before
// t. So its next group is
//   - a group that can start before t, or the group that ends at t;
//   - or a later group. Then the group that ends at t could be done meanwhile, on an idle rank:
//     nothing would be later. So this case is not tried, unless the group cannot be moved to the
//     front: an F, if memory is limited (it holds memory that a later group may lack); a message
//     that shares a queue with others; an I if B is allowed too. Then the rank waits: the tried
//     groups are barred until it has done another, which must start before any movable group
//     would end.
// A W is filler: a group that could have started in its place is not put behind it (the two could
// be exchanged, and nothing is later); nor is a W of an earlier stage. Both are barred behind it.
//
// So for every order cut away another is nowhere later, with a lower sum of starts of its F, B and
// I, or the same sum and a lower sum for its W: a best order remains. The objective must not
// improve when a group ends later.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"
#include "schedlang/search/relaxed.h"

namespace stringline::search {

struct Partial {
  Frontier frontier;
  std::vector<int64_t> queues;   // by sender * ranks + receiver: when the last transfer ends
  std::vector<int64_t> held;     // by rank
  std::vector<uint64_t> barred;  // by rank: bits of its groups
  std::vector<int64_t> before;   // by rank: its next group starts before; kNoLimit
};

class Branching {
 public:
  // `relaxed` must outlive the object.
  explicit Branching(const Relaxed& relaxed);

  // True if no rank has more than 64 kinds of groups.
  bool fits() const { return fits_; }
  Partial Empty() const;
  int Steps(const Partial& partial) const;  // F, backs and releases done
  int all_steps() const { return all_steps_; }

  struct Next {
    int rank = 0;
    int group = 0;
    int64_t start = 0;
  };
  // Calls `visit(partial, next)` for all groups to try behind `partial`, each with its bars and
  // waits.
  template <typename Visit>
  void ForEachNext(Partial partial, Visit visit) const {
    std::vector<Next> nexts;
    while (Choose(&partial, &nexts)) {
      for (const Next& next : nexts) visit(partial, next);
      if (!Wait(&partial, nexts)) return;
    }
  }
  void Do(const Next& next, Partial* partial) const;
  Group GroupOf(int rank, int group) const { return kinds_[rank][group].group; }

 private:
  struct Kind {
    Group group;
    int64_t time = 0;
    int64_t during = 0;
    int64_t after = 0;
    bool is_movable = false;  // to the front of an idle rank
    bool is_weight = false;
  };

  void AddKinds(int rank);
  void AddPairs(int rank);
  bool IsMovable(Letter letter) const;
  bool SharesQueue(Letter letter) const;
  int64_t ReadyAt(const Partial& partial, Letter letter) const;
  int64_t StartOf(const Partial& partial, int rank, const Kind& kind) const;
  bool Choose(Partial* partial, std::vector<Next>* nexts) const;
  bool Wait(Partial* partial, const std::vector<Next>& nexts) const;
  uint64_t BarredBehind(const Partial& partial, const Next& weight) const;
  void Give(Letter letter, int64_t end, Partial* partial) const;
  void Send(int from, int to, const MessageTime& message, int64_t end, int k,
            std::vector<int64_t>* arrivals, Partial* partial) const;

  const Relaxed& relaxed_;
  const Problem& problem_;
  std::vector<std::vector<Kind>> kinds_;  // by rank
  int all_steps_ = 0;
  bool fits_ = true;
};

}  // namespace stringline::search
