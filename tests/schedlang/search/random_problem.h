// Small problems of every sort: layouts, unequal stages, links, limits, pairs, objectives.
#pragma once

#include "schedlang/search/problem.h"
#include "schedlang/search/random.h"

namespace stringline::search {

inline Problem RandomProblem(Random* random) {
  Problem problem;
  problem.ranks = 1 + static_cast<int>(random->Below(4));
  const int turns = 1 + static_cast<int>(random->Below(3));
  const bool v = random->OneIn(2);
  const int stages = problem.ranks * turns;
  const int microbatches = 1 + static_cast<int>(random->Below(7));
  const bool transfers = random->OneIn(2);
  for (int s = 0; s < stages; ++s) {
    StageWork work;
    const int turn = s / problem.ranks, at = s % problem.ranks;
    work.rank = v && turn % 2 == 1 ? problem.ranks - 1 - at : at;
    work.previous = s - 1;
    work.next = s + 1 < stages ? s + 1 : -1;
    work.microbatches = microbatches;
    for (int64_t& time : work.time) time = 1 + random->Below(5);
    work.activation = {random->Below(3), transfers ? random->Below(4) : 0};
    work.gradient = {random->Below(3), transfers ? random->Below(4) : 0};
    work.during = {1, 0, 0, 0};
    work.after = {1, -1, 0, -1};
    if (random->OneIn(3)) {  // part of it goes with I
      work.during = {3, 1, 1, 0};
      work.after = {3, -3, -1, -2};
    }
    problem.stages.push_back(work);
  }
  problem.split = !random->OneIn(4);
  problem.whole = !problem.split || random->OneIn(2);
  problem.capacity.assign(static_cast<size_t>(problem.ranks),
                          random->OneIn(2) ? kNoLimit : 4 * turns + random->Below(6));
  if (random->OneIn(3)) {
    const auto count = static_cast<size_t>(stages * stages);
    for (auto* const pairs : {&problem.whole_pairs, &problem.input_pairs}) {
      if (pairs == &problem.whole_pairs ? !problem.whole : !problem.split) continue;
      pairs->assign(count, -1);
      for (int a = 0; a < stages; ++a) {
        for (int b = 0; b < stages; ++b) {
          if (problem.stages[static_cast<size_t>(a)].rank !=
              problem.stages[static_cast<size_t>(b)].rank) {
            continue;
          }
          (*pairs)[static_cast<size_t>(a * stages + b)] = 2 + random->Below(8);
        }
      }
    }
  }
  problem.objective = static_cast<Objective>(random->Below(3));
  return problem;
}

}  // namespace stringline::search
