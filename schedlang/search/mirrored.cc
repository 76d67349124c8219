#include "schedlang/search/mirrored.h"

#include <algorithm>
#include <utility>

namespace stringline::search {

Problem Mirrored(const Problem& problem, ActionKind back) {
  Problem mirrored = problem;
  mirrored.whole = true;
  mirrored.split = false;
  mirrored.whole_pairs.clear();
  mirrored.input_pairs.clear();
  const size_t at = Index(back);
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const StageWork& stage = problem.stages[s];
    StageWork& turned = mirrored.stages[s];
    turned.each.clear();
    turned.time[kForwardAt] = stage.time[at];
    turned.time[kWholeAt] = stage.time[kForwardAt];
    const auto of = [&](int other) -> const StageWork& {
      return problem.stages[static_cast<size_t>(other)];
    };
    turned.activation = stage.next < 0 ? MessageTime{} : of(stage.next).gradient;
    turned.gradient = stage.previous < 0 ? MessageTime{} : of(stage.previous).activation;
    const int64_t freed = stage.after[at] + (at == kInputAt ? stage.after[kWeightAt] : int64_t{0});
    turned.during[kForwardAt] = std::max<int64_t>(stage.during[at], 0) - freed;
    turned.after[kForwardAt] = -freed;
    turned.during[kWholeAt] = stage.during[kForwardAt] - stage.after[kForwardAt];
    turned.after[kWholeAt] = -stage.after[kForwardAt];
  }
  return mirrored;
}

Words Reversed(Words words, ActionKind back) {
  for (std::vector<Group>& word : words) {
    std::reverse(word.begin(), word.end());
    for (Group& group : word) {
      const bool was_forward = KindOf(group.first) == ActionKind::kForward;
      group.first = LetterOf(was_forward ? back : ActionKind::kForward, StageOf(group.first));
    }
  }
  return words;
}

Words Spliced(const Words& begin, const Times& times, const Words& end, int64_t time) {
  Words words(begin.size());
  std::vector<int32_t> done;
  for (size_t r = 0; r < begin.size(); ++r) {
    done.assign(done.size(), 0);
    const std::vector<int64_t>& starts = times.starts[r];
    for (size_t i = 0; i < begin[r].size() && starts[i] < time; ++i) {
      const Letter letter = begin[r][i].first;
      words[r].push_back(begin[r][i]);
      if (letter >= done.size()) done.resize(letter + size_t{1}, 0);
      ++done[letter];
    }
    for (const Group group : end[r]) {
      const bool is_done = group.first < done.size() && done[group.first] > 0;
      if (is_done) --done[group.first];
      if (!is_done) words[r].push_back(group);
    }
  }
  return words;
}

}  // namespace stringline::search
