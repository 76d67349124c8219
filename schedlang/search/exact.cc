// Layers of partial orders, by letters done (a beam search with dominance). Of two states with the
// same letters done, a state is cut away if the other is nowhere later. A layer keeps a number of
// states with the best bounds: first few, for a good order soon; then more and more, until none is
// left out. The last pass is the proof. States are measured in parallel, and added in their order.
#include "schedlang/search/exact.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/types/span.h"
#include "schedlang/search/all_orders.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/one_rank.h"
#include "schedlang/search/partial.h"
#include "schedlang/search/search.h"

namespace stringline::search {
namespace {

constexpr size_t kNarrowest = 8;
constexpr size_t kWidening = 8;
constexpr size_t kMostBytes = size_t{400} << 20;
// States that are expanded beside each other: so many parts, each with so many states.
constexpr size_t kParts = 16, kStatesOfPart = 4;

// A finished group, behind an earlier step of the log.
struct Step {
  int before = -1;
  int rank = 0;
  int group = 0;
};

struct State {
  Partial partial;
  std::vector<int64_t> times;  // all that later groups depend on: earlier is better
  int64_t bound = 0;
  int64_t all_ends = 0;  // the sum of the bounds on the ranks' ends: breaks ties
  Step step;
  bool is_cut = false;
};

bool HaveDoneTheSame(const Frontier& a, const Frontier& b) {
  return a.forwards == b.forwards && a.backs == b.backs && a.releases == b.releases;
}

// True if everything that can follow b can follow a, and nothing of it later.
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
  // True if a state of this layer dominates `state`.
  bool IsCutAway(const State& state) const {
    const auto alike = by_hash_.find(HashOf(state.partial.frontier));
    if (alike == by_hash_.end()) return false;
    return std::any_of(alike->second.begin(), alike->second.end(), [&](int i) {
      return HaveDoneTheSame(states_[i].partial.frontier, state.partial.frontier) &&
             IsNoLater(states_[i], state);
    });
  }

  // `state` is not cut away.
  void Add(State state) {
    std::vector<int>& alike = by_hash_[HashOf(state.partial.frontier)];
    std::erase_if(alike, [&](int i) {
      State& other = states_[i];
      if (!HaveDoneTheSame(other.partial.frontier, state.partial.frontier)) return false;
      other.is_cut = IsNoLater(state, other);
      return other.is_cut;
    });
    alike.push_back(static_cast<int>(states_.size()));
    states_.push_back(std::move(state));
  }

  // Takes the best `width` states with a bound below `below`, best first. Returns the least bound
  // of the states left out.
  int64_t TakeBest(size_t width, int64_t below, std::vector<State>* best) {
    by_hash_.clear();
    std::erase_if(states_,
                  [&](const State& state) { return state.is_cut || state.bound >= below; });
    std::stable_sort(states_.begin(), states_.end(), [](const State& a, const State& b) {
      return std::pair(a.bound, a.all_ends) < std::pair(b.bound, b.all_ends);
    });
    int64_t left_out = kNoLimit;
    if (states_.size() > width) {
      left_out = states_[width].bound;
      states_.resize(width);
    }
    *best = std::move(states_);
    states_.clear();
    return left_out;
  }

 private:
  std::vector<State> states_;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;  // for lookups only
};

class Search {
 public:
  Search(const Problem& problem, int64_t bound, int64_t upper, int64_t most_nodes, const DoAll& all)
      : problem_(problem),
        all_(all ? all : DoAll(DoInTurn)),
        relaxed_(RelaxedOf(problem, SavedOn::kForwards)),
        branching_(relaxed_),
        bound_(bound),
        most_nodes_(most_nodes),
        scratches_(kParts),
        expanded_(kParts * kStatesOfPart) {
    proven_.value = upper;
    proven_.bound = bound;
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
      least_left_out_ = kNoLimit;
      Pass(std::min(width, widest));
      if (IsWished(problem_.stop)) least_left_out_ = 0;  // states may have been passed over
      proven_.bound = std::min(proven_.value, std::max(proven_.bound, least_left_out_));
      proven_.finished = proven_.value <= proven_.bound;
      if (proven_.finished || IsOver() || width >= widest) break;
    }
    return std::move(proven_);
  }

 private:
  bool IsOver() const { return proven_.nodes >= most_nodes_ || IsWished(problem_.stop); }

  void Pass(size_t width) {
    log_.clear();
    std::vector<Layer> layers(branching_.all_steps() + 1);
    State empty;
    empty.partial = branching_.Empty();
    empty.bound = bound_;
    layers[0].Add(std::move(empty));
    std::vector<State> states;
    for (int i = 0; i < branching_.all_steps(); ++i) {
      least_left_out_ =
          std::min(least_left_out_, layers[i].TakeBest(width, proven_.value, &states));
      for (size_t at = 0; at < states.size(); at += expanded_.size()) {
        const size_t count = std::min(expanded_.size(), states.size() - at);
        ExpandAll({states.data() + at, count}, layers);
        for (size_t k = 0; k < count; ++k) {
          if (proven_.value <= proven_.bound) return;
          if (IsOver()) {
            least_left_out_ = 0;
            return;
          }
          if (states[at + k].bound < proven_.value) Add(states[at + k], &expanded_[k], &layers);
        }
      }
    }
  }

  // A thread's room for bounds.
  struct Scratch {
    Heads heads;
    OneRankScratch one_rank;
  };
  struct Expanded {
    std::vector<State> children;
    int64_t made = 0;  // with those that were cut away or have too high a bound
  };

  void ExpandAll(absl::Span<const State> states, const std::vector<Layer>& layers) {
    const auto part = [&](int i) {
      const auto first = static_cast<size_t>(i) * kStatesOfPart;
      for (size_t k = first; k < std::min(first + kStatesOfPart, states.size()); ++k) {
        Expand(states[k], layers, &scratches_[static_cast<size_t>(i)], &expanded_[k]);
      }
    };
    const auto parts = static_cast<int>((states.size() + kStatesOfPart - 1) / kStatesOfPart);
    all_(parts, part);
  }

  void Expand(const State& state, const std::vector<Layer>& layers, Scratch* scratch,
              Expanded* expanded) const {
    expanded->children.clear();
    expanded->made = 0;
    if (state.bound >= proven_.value) return;
    branching_.ForEachNext(state.partial, [&](const Partial& partial, const Branching::Next& next) {
      ++expanded->made;
      if (IsWished(problem_.stop)) return;  // the pass ends before it takes another state
      State child;
      child.partial = partial;
      branching_.Do(next, &child.partial);
      child.step = {-1, next.rank, next.group};
      FindTimes(&child);
      if (layers[StepsOf(child)].IsCutAway(child)) return;
      child.bound = state.bound;
      Measure(scratch, &child);
      if (child.bound < proven_.value) expanded->children.push_back(std::move(child));
    });
  }

  // Adds the state's children, unless those of states before it cut them away.
  void Add(const State& state, Expanded* expanded, std::vector<Layer>* layers) {
    const int before = static_cast<int>(log_.size());
    log_.push_back(state.step);
    proven_.nodes += expanded->made;
    for (State& child : expanded->children) {
      if (child.bound >= proven_.value) continue;
      child.step.before = before;
      Layer& layer = (*layers)[StepsOf(child)];
      if (layer.IsCutAway(child)) continue;
      if (static_cast<int>(StepsOf(child)) < branching_.all_steps()) {
        layer.Add(std::move(child));
      } else {
        proven_.value = child.bound;
        proven_.words = WordsOf(child.step);
      }
    }
  }

  size_t StepsOf(const State& state) const {
    return static_cast<size_t>(branching_.Steps(state.partial));
  }

  void Measure(Scratch* scratch, State* state) const {
    const Frontier& frontier = state->partial.frontier;
    FindHeads(relaxed_, frontier, &scratch->heads);
    for (int r = 0; r < problem_.ranks; ++r) {
      const Tails& tails = tails_.size() == 1 ? tails_[0] : tails_[r];
      const int64_t end =
          InterruptedEnd(relaxed_, frontier, scratch->heads, tails, r, &scratch->one_rank);
      const int64_t value = std::max(end, frontier.now[r]) - starts_[r];
      state->bound = std::max(state->bound, value);
      state->all_ends += value;
    }
  }

  // Arrivals are clamped to the earliest time at which their letters can start anyway, and the ends
  // of ranks with only W left to the bound.
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
  const DoAll all_;
  const Relaxed relaxed_;
  const Branching branching_;
  const int64_t bound_;
  const int64_t most_nodes_;
  std::vector<int64_t> starts_;        // by rank: from where its end counts
  std::vector<Tails> tails_;           // one for all ranks, or one for each
  std::vector<Scratch> scratches_;     // by part
  std::vector<Expanded> expanded_;     // by state
  std::vector<Step> log_;              // the states expanded in this pass
  int64_t least_left_out_ = kNoLimit;  // the least bound of the states left out in this pass
  Proven proven_;
};

}  // namespace

Proven SolveExactly(const Problem& problem, int64_t upper, int64_t most_nodes, const DoAll& all) {
  const int64_t bound = LowerBoundOf(problem);
  if (bound >= upper) return {.value = upper, .bound = upper, .finished = true};
  if (problem.objective == Objective::kMakespan ||
      (problem.objective == Objective::kSpan && !KnownStarts(problem).empty())) {
    return Search(problem, bound, upper, most_nodes, all).Run();
  }
  // A good order for another objective may meet the bound.
  Proven proven{.value = upper, .bound = bound};
  for (const Objective objective : {Objective::kSpan, Objective::kMakespan}) {
    Problem other = problem;
    other.objective = objective;
    if (objective == Objective::kSpan && KnownStarts(problem).empty()) continue;
    const Proven found = SolveExactly(other, kNoLimit, most_nodes / 4, all);
    proven.nodes += found.nodes;
    if (found.finished && found.words.empty()) {  // no order exists at all
      proven.bound = upper;
      proven.finished = true;
      return proven;
    }
    const int64_t value = found.words.empty() ? kNoLimit : ValueOf(problem, found.words);
    if (value >= proven.value) continue;
    proven.value = value;
    proven.words = found.words;
    proven.finished = value <= bound;
    if (proven.finished) return proven;
  }
  // All orders of unequal microbatches are more than those that words tell.
  if (!problem.is_unequal()) TryAllOrders(problem, most_nodes, &proven);
  return proven;
}

}  // namespace stringline::search
