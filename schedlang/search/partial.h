// Orders that are made group by group: how far they are, and which groups can come next.
//
// What comes next is chosen on one rank at a time: where a group that can be done ends first of
// all, at time t (Giffler and Thompson 1960). What is not there yet for that rank will not be
// before t. So its next group is
//   - one that can start before t, or the one that ends at t;
//   - or something later. Then the group that ends at t could be done meanwhile, on an idle rank:
//     nothing would be later. So this is not looked at, but where that group must not be moved to
//     the front: an F, if memory is limited (it holds, and something else may then not fit); what
//     shares a queue of messages with others; an I where a B may be meant. Then the rank waits:
//     the groups that were tried are barred until it has done another one, and that one must start
//     before any group ends that could be moved.
// A W is filler: what could have started when the W did is not put behind it (the two change
// places, and nothing is later); nor is a W of an earlier stage. Both are barred behind it.
//
// Every order that is cut away thus has another one that is nowhere later, with the sum of starts
// of its F, B and I less, or the same and that of its W less: so one of the best is left. It needs
// an objective that is never the better for a group that ends later.
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
  // `relaxed` must outlive it.
  explicit Branching(const Relaxed& relaxed);

  // Whether no rank has more than 64 kinds of groups.
  bool fits() const { return fits_; }
  Partial Empty() const;
  int Steps(const Partial& partial) const;  // F, backs and releases done
  int all_steps() const { return all_steps_; }

  struct Next {
    int rank = 0;
    int group = 0;
    int64_t start = 0;
  };
  // All that is to be tried behind `partial`, each with the bars and waits it is to be done under,
  // given to `visit(partial, next)`.
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
