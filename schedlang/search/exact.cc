// Layers of partial orders, by letters done. Of those that have done the same letters one is cut
// away if another one is nowhere later. A layer keeps so many of the best bounds: first few, for a
// good order soon; then more and more, until none had to be left out. That is the proof.
#include "schedlang/search/exact.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "schedlang/search/all_orders.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/one_rank.h"
#include "schedlang/search/partial.h"

namespace stringline::search {
namespace {

constexpr size_t kNarrowest = 8;
constexpr size_t kWidening = 8;
constexpr size_t kMostBytes = size_t{300} << 20;

// A group that was done, behind another one of the log.
struct Step {
  int before = -1;
  int rank = 0;
  int group = 0;
};

struct State {
  Partial partial;
  std::vector<int64_t> times;  // all that a further order depends on: earlier is better
  int64_t bound = 0;
  int64_t all_ends = 0;  // the sum of what ranks are bound to: among equal bounds
  Step step;
  bool is_cut = false;
};

bool HaveDoneTheSame(const Frontier& a, const Frontier& b) {
  return a.forwards == b.forwards && a.backs == b.backs && a.releases == b.releases;
}

// Whether what can follow b can follow a, and nothing of it later.
bool IsNoLater(const State& a, const State& b) {
  for (size_t i = 0; i < a.times.size(); ++i) {
    if (a.times[i] > b.times[i]) return false;
  }
  for (size_t r = 0; r < a.partial.barred.size(); ++r) {
    if ((a.partial.barred[r] & ~b.partial.barred[r]) != 0) return false;
    if (a.partial.before[r] < b.partial.before[r]) return false;
  }
  return true;
}

uint64_t HashOf(const Frontier& frontier) {
  uint64_t hash = 0;
  for (const auto* counts : {&frontier.forwards, &frontier.backs, &frontier.releases}) {
    for (const int count : *counts) {
      hash = (hash ^ static_cast<uint64_t>(count)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

// States with the same number of letters done.
class Layer {
 public:
  void Add(State state) {
    std::vector<int>& alike = by_hash_[HashOf(state.partial.frontier)];
    for (const int i : alike) {
      const State& other = states_[i];
      if (other.is_cut || !HaveDoneTheSame(other.partial.frontier, state.partial.frontier))
        continue;
      if (IsNoLater(other, state)) return;
    }
    for (const int i : alike) {
      State& other = states_[i];
      if (other.is_cut || !HaveDoneTheSame(other.partial.frontier, state.partial.frontier))
        continue;
      if (IsNoLater(state, other)) other.is_cut = true;
    }
    std::erase_if(alike, [&](int i) { return states_[i].is_cut; });
    alike.push_back(static_cast<int>(states_.size()));
    states_.push_back(std::move(state));
  }

  // The best `width` with a bound below `below`, best first. Whether some had to be left out.
  bool TakeBest(size_t width, int64_t below, std::vector<State>* best) {
    by_hash_.clear();
    std::erase_if(states_,
                  [&](const State& state) { return state.is_cut || state.bound >= below; });
    std::stable_sort(states_.begin(), states_.end(), [](const State& a, const State& b) {
      return std::pair(a.bound, a.all_ends) < std::pair(b.bound, b.all_ends);
    });
    const bool is_too_many = states_.size() > width;
    if (is_too_many) states_.resize(width);
    *best = std::move(states_);
    states_.clear();
    return is_too_many;
  }

 private:
  std::vector<State> states_;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;  // is looked into, never walked through
};

class Search {
 public:
  Search(const Problem& problem, int64_t bound, int64_t upper, int64_t most_nodes)
      : problem_(problem),
        relaxed_(RelaxedOf(problem, SavedOn::kForwards)),
        branching_(relaxed_),
        bound_(bound),
        most_nodes_(most_nodes) {
    proven_.value = upper;
    const bool is_makespan = problem.objective == Objective::kMakespan;
    starts_ = is_makespan ? std::vector<int64_t>(problem.ranks, 0) : KnownStarts(problem);
    if (is_makespan) {
      tails_.push_back(TailsOf(relaxed_, kAnyRank));
    } else {
      for (int r = 0; r < problem.ranks; ++r) tails_.push_back(TailsOf(relaxed_, r));
    }
  }

  Proven Run() && {
    if (!branching_.fits()) return proven_;
    const size_t bytes = sizeof(State) + 400 + 32 * relaxed_.at(problem_.stage_count(), 0);
    const size_t widest = std::max(kNarrowest, kMostBytes / bytes / 4);
    for (size_t width = kNarrowest;; width *= kWidening) {
      is_whole_ = true;
      Pass(std::min(width, widest));
      proven_.finished = is_whole_ || proven_.value <= bound_;
      if (proven_.finished || proven_.nodes >= most_nodes_ || width >= widest) break;
    }
    return std::move(proven_);
  }

 private:
  void Pass(size_t width) {
    log_.clear();
    std::vector<Layer> layers(branching_.all_steps() + 1);
    State empty;
    empty.partial = branching_.Empty();
    empty.bound = bound_;
    layers[0].Add(std::move(empty));
    std::vector<State> states;
    for (int i = 0; i < branching_.all_steps(); ++i) {
      if (layers[i].TakeBest(width, proven_.value, &states)) is_whole_ = false;
      for (const State& state : states) {
        if (proven_.nodes >= most_nodes_) is_whole_ = false;
        if (proven_.nodes >= most_nodes_ || proven_.value <= bound_) return;
        if (state.bound < proven_.value) Expand(state, &layers);
      }
    }
  }

  void Expand(const State& state, std::vector<Layer>* layers) {
    const int before = static_cast<int>(log_.size());
    log_.push_back(state.step);
    branching_.ForEachNext(state.partial, [&](const Partial& partial, const Branching::Next& next) {
      ++proven_.nodes;
      State child;
      child.partial = partial;
      branching_.Do(next, &child.partial);
      child.step = {before, next.rank, next.group};
      Measure(&child);
      if (child.bound >= proven_.value) return;
      const int steps = branching_.Steps(child.partial);
      if (steps == branching_.all_steps()) {
        proven_.value = child.bound;
        proven_.words = WordsOf(child.step);
      } else {
        child.bound = std::max(child.bound, state.bound);
        FindTimes(&child);
        (*layers)[steps].Add(std::move(child));
      }
    });
  }

  void Measure(State* state) {
    const Frontier& frontier = state->partial.frontier;
    FindHeads(relaxed_, frontier, &heads_);
    for (int r = 0; r < problem_.ranks; ++r) {
      const Tails& tails = tails_.size() == 1 ? tails_[0] : tails_[r];
      const int64_t end = InterruptedEnd(relaxed_, frontier, heads_, tails, r, &letters_);
      const int64_t value = std::max(end, frontier.now[r]) - starts_[r];
      state->bound = std::max(state->bound, value);
      state->all_ends += value;
    }
  }

  // Arrivals no earlier than their letters can be done anyway; the ends of ranks that have only W
  // left no earlier than the bound asks for.
  void FindTimes(State* state) const {
    const Frontier& done = state->partial.frontier;
    std::vector<int64_t>& times = state->times;
    std::vector<int64_t> left(problem_.ranks, 0);
    std::vector<char> only_weights(problem_.ranks, true);
    for (int s = 0; s < problem_.stage_count(); ++s) {
      const StageWork& stage = problem_.stages[s];
      const int64_t now = done.now[stage.rank];
      if (done.backs[s] < stage.microbatches) only_weights[stage.rank] = false;
      left[stage.rank] += (done.backs[s] - done.releases[s]) * stage.time[kWeightAt];
      if (stage.previous >= 0) {
        int64_t begins = now;
        for (int k = done.forwards[s]; k < done.forwards[stage.previous]; ++k) {
          begins = std::max(begins, done.activations[relaxed_.at(s, k)]);
          times.push_back(begins);
          begins += relaxed_.least[s].forward;
        }
      }
      if (stage.next < 0) continue;
      int64_t begins = now;
      for (int k = done.backs[s]; k < done.backs[stage.next]; ++k) {
        begins = std::max(begins, done.gradients[relaxed_.at(s, k)]);
        times.push_back(begins);
        begins += relaxed_.least[s].back;
      }
    }
    for (int r = 0; r < problem_.ranks; ++r) {
      const int64_t least = only_weights[r] ? bound_ + starts_[r] - left[r] : 0;
      times.push_back(std::max(done.now[r], least));
    }
    times.insert(times.end(), state->partial.queues.begin(), state->partial.queues.end());
    times.insert(times.end(), state->partial.held.begin(), state->partial.held.end());
  }

  Words WordsOf(Step step) const {
    Words words(problem_.ranks);
    for (; step.before >= 0; step = log_[step.before]) {
      words[step.rank].push_back(branching_.GroupOf(step.rank, step.group));
    }
    for (auto& word : words) std::reverse(word.begin(), word.end());
    return words;
  }

  const Problem& problem_;
  const Relaxed relaxed_;
  const Branching branching_;
  const int64_t bound_;
  const int64_t most_nodes_;
  std::vector<int64_t> starts_;  // by rank: from where its end counts
  std::vector<Tails> tails_;     // one for all ranks, or one for each
  Heads heads_;
  std::vector<TimedLetter> letters_;
  std::vector<Step> log_;  // of the states that were looked behind, in this pass
  bool is_whole_ = true;   // nothing was left out in this pass
  Proven proven_;
};

}  // namespace

Proven SolveExactly(const Problem& problem, int64_t upper, int64_t most_nodes) {
  const int64_t bound = LowerBoundOf(problem);
  if (bound >= upper) return {.value = upper, .finished = true};
  if (problem.objective == Objective::kMakespan ||
      (problem.objective == Objective::kSpan && !KnownStarts(problem).empty())) {
    return Search(problem, bound, upper, most_nodes).Run();
  }
  // A good order for another objective may meet the bound.
  Problem makespan = problem;
  makespan.objective = Objective::kMakespan;
  Proven proven = SolveExactly(makespan, kNoLimit, most_nodes / 4);
  const bool is_none = proven.finished && proven.words.empty();
  const int64_t value = proven.words.empty() ? kNoLimit : ValueOf(problem, proven.words);
  if (value >= upper) proven.words.clear();
  proven.value = std::min(value, upper);
  proven.finished = is_none || proven.value <= bound;
  if (!proven.finished) TryAllOrders(problem, bound, most_nodes, &proven);
  return proven;
}

}  // namespace stringline::search
