#include "schedlang/search/one_at_a_time.h"

namespace stringline::search {
namespace {

// Calls `take(kind, stage)` for all letters of a microbatch from the pipe's first stage on.
template <typename Take>
void ForthAndBack(const Problem& problem, int first, Take take) {
  int last = first;
  for (int s = first; s >= 0; s = problem.stages[static_cast<size_t>(s)].next) {
    take(ActionKind::kForward, s);
    last = s;
  }
  for (int s = last; s >= 0; s = problem.stages[static_cast<size_t>(s)].previous) {
    if (problem.whole) {
      take(ActionKind::kBackward, s);
      continue;
    }
    take(ActionKind::kInputGradient, s);
    take(ActionKind::kWeightGradient, s);
  }
}

}  // namespace

Words OneAtATime(const Problem& problem) {
  Words words(static_cast<size_t>(problem.ranks));
  for (int first = 0; first < problem.stage_count(); ++first) {
    const StageWork& begin = problem.stages[static_cast<size_t>(first)];
    for (int m = 0; begin.previous < 0 && m < begin.microbatches; ++m) {
      ForthAndBack(problem, first, [&](ActionKind kind, int stage) {
        const int rank = problem.stages[static_cast<size_t>(stage)].rank;
        words[static_cast<size_t>(rank)].push_back({LetterOf(kind, stage)});
      });
    }
  }
  return words;
}

}  // namespace stringline::search
