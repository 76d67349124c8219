// A short search values each choice of a climb; few choices are searched one by one. The bound is
// that of a relaxation which is as quick and holds as little as any choice.
#include "schedlang/search/recompute.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "schedlang/search/lower_bound.h"

namespace stringline::search {
namespace {

constexpr int kRules = 12;  // in a short search
constexpr int64_t kRulesCost = 10 * kRules;
constexpr int kMostStagesOfFew = 4;  // at most so many stages make few choices

const RuleTurns kShortTurns = {.at_once = kRules, .all = DoInTurn, .goes_on = [] { return false; }};

int64_t CountOf(const Recomputes& stages) { return std::count(stages.begin(), stages.end(), 1); }

bool IsBetter(const RecomputeTrial& a, const RecomputeTrial& b) {
  if (a.score.value != b.score.value) return a.score.value < b.score.value;
  const auto sum = [](const Recomputes& of) {
    return std::accumulate(of.begin(), of.end(), int64_t{0});
  };
  return sum(a.stages) < sum(b.stages);
}

// At every moment the smaller of the two memories.
void HoldTheLess(const StageWork& other, StageWork* work) {
  auto& [forward, whole, input, weight] = work->during;
  const int64_t held = std::min(work->after[kForwardAt], other.after[kForwardAt]);
  const auto less = [&](int64_t of_work, int64_t of_other) {
    return std::min(work->after[kForwardAt] + of_work, other.after[kForwardAt] + of_other);
  };
  const int64_t in_whole = less(whole, other.during[kWholeAt]);
  const int64_t in_input = less(input, other.during[kInputAt]);
  const int64_t deferred = less(work->after[kInputAt], other.after[kInputAt]);
  forward = std::min(forward, other.during[kForwardAt]);
  whole = in_whole - held;
  input = in_input - held;
  weight = std::min(weight, other.during[kWeightAt]);
  work->after = {held, -held, deferred - held, -deferred};
}

int StageCountOf(const Partitioning& of) {
  return of.problem_of(of.fixed.empty() ? EvenPartition(of.layers, of.stages) : of.fixed)
      .stage_count();
}

bool HasFewChoices(const Partitioning& of) {
  return !of.fixed.empty() && StageCountOf(of) <= kMostStagesOfFew;
}

// All choices for the given layers, by their bounds; those that no order keeps are left out.
struct Choice {
  int64_t bound = 0;
  Recomputes stages;
};
std::vector<Choice> ChoicesByBound(const Partitioning& of) {
  std::vector<Choice> choices;
  const int count = StageCountOf(of);
  for (int bits = 0; bits < 1 << count; ++bits) {
    Choice choice;
    for (int s = 0; s < count; ++s) choice.stages.push_back(bits >> s & 1);
    choice.bound = LowerBoundOf(of.problem_with(of.fixed, choice.stages));
    if (choice.bound < kNoLimit) choices.push_back(std::move(choice));
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return std::pair(a.bound, CountOf(a.stages)) < std::pair(b.bound, CountOf(b.stages));
  });
  return choices;
}

// Searches every choice that may be better than those before it.
Found FindAmongFew(const Partitioning& of, Found best, const Effort& effort) {
  const std::vector<Choice> choices = ChoicesByBound(of);
  const int64_t share = std::max<int64_t>(
      1, effort.iterations / std::max<int64_t>(1, static_cast<int64_t>(choices.size())));
  int64_t proven = kNoLimit;  // the least bound of the choices, as far as they were searched
  for (const Choice& choice : choices) {
    const bool fewer = CountOf(choice.stages) < CountOf(best.recomputes);
    const Problem problem = of.problem_with(of.fixed, choice.stages);
    const bool is_over = !best.words.empty() && IsWished(problem.stop);
    if (is_over || choice.bound > best.value || (choice.bound == best.value && !fewer)) {
      proven = std::min(proven, choice.bound);
      continue;
    }
    std::vector<Words> begin;
    if (!best.words.empty()) begin.push_back(best.words);
    Found found = FindOrders(problem, begin, {share, effort.seed});
    proven = std::min(proven, found.bound);
    const bool equal = found.value == best.value && fewer;
    if (found.words.empty() || (found.value >= best.value && !equal)) continue;
    found.place = best.place;
    found.partition = of.fixed;
    found.recomputes = choice.stages;
    best = std::move(found);
  }
  best.bound = std::min(std::max(BoundOfRecomputes(of), proven), best.value);
  return best;
}

// The relaxation in which every stage is as quick and holds as little as in either choice.
Partitioning EitherChoice(const Partitioning& of) {
  Partitioning either = of;
  either.problem_with = nullptr;
  const auto count = static_cast<size_t>(StageCountOf(of));
  either.problem_of = [with = of.problem_with, count](absl::Span<const int> partition) {
    return WithEitherChoice(with(partition, Recomputes(count, 0)),
                            with(partition, Recomputes(count, 1)));
  };
  return either;
}

// Some choices are valued beside each other; the best of them counts.
class Climb {
 public:
  Climb(int stages, const RecomputeClimb& climb)
      : climb_(climb),
        choices_(climb.choices.empty()
                     ? std::vector<std::vector<int64_t>>(static_cast<size_t>(stages), {0, 1})
                     : climb.choices),
        of_stage_(choices_.empty() ? 1 : choices_[0].size()) {}

  RecomputeTrial Run() && {
    if (!climb_.begin.stages.empty()) {
      best_ = climb_.value(climb_.begin.stages, climb_.begin.words, moves_);
    } else {
      TryAlike();
      for (size_t k = 1; k < of_stage_; ++k) TryFirstStages(k);
    }
    while (ChangeOneStage()) continue;
    for (moves_ *= kLonger; moves_ <= climb_.most_moves; moves_ *= kLonger) {
      if (climb_.goes_on(spent_)) Value({best_.stages});
      while (ChangeOneStage()) continue;
    }
    return std::move(best_);
  }

 private:
  static constexpr size_t kAtOnce = 4;
  static constexpr int64_t kLonger = 8;

  // All stages with their k-th choice. The last is the one that holds the least.
  void TryAlike() {
    for (size_t k = of_stage_; k-- > 0;) {
      RecomputeTrial alike = climb_.value(FirstStages(choices_.size(), k), {}, moves_);
      if (k + 1 == of_stage_ || IsBetter(alike, best_)) best_ = std::move(alike);
    }
  }

  // Only the first stages with their k-th choice: they hold microbatches longest, so that their
  // choice saves most. Their number is found by steps of half the size.
  void TryFirstStages(size_t k) {
    const size_t all = choices_.size();
    size_t best = best_.stages == FirstStages(all, k) ? all : 0;
    for (size_t step = all / 4; step > 0 && climb_.goes_on(spent_); step /= 2) {
      std::vector<size_t> counts = {step, 2 * step, 3 * step};
      if (step < all / 4) counts = {best - std::min(best, step), std::min(all, best + step)};
      std::vector<Recomputes> tried;
      for (const size_t count : counts) tried.push_back(FirstStages(count, k));
      if (!Value(tried)) continue;
      best = counts[static_cast<size_t>(std::find(tried.begin(), tried.end(), best_.stages) -
                                        tried.begin())];
    }
  }

  bool ChangeOneStage() {
    bool is_better = false;
    const size_t changes = choices_.size() * (of_stage_ - 1);
    for (size_t c = 0; c < changes && climb_.goes_on(spent_); c += kAtOnce) {
      std::vector<Recomputes> tried;
      for (size_t change = c; change < std::min(changes, c + kAtOnce); ++change) {
        tried.push_back(Changed(change));
      }
      is_better = Value(tried) || is_better;
    }
    return is_better;
  }

  Recomputes FirstStages(size_t count, size_t k) const {
    Recomputes stages;
    for (size_t s = 0; s < choices_.size(); ++s) {
      stages.push_back(choices_[s][s < count ? k : 0]);
    }
    return stages;
  }

  // The best with another choice of one stage.
  Recomputes Changed(size_t change) const {
    Recomputes changed = best_.stages;
    int64_t& own = changed[change / (of_stage_ - 1)];
    const std::vector<int64_t>& of = choices_[change / (of_stage_ - 1)];
    const auto at = static_cast<size_t>(std::find(of.begin(), of.end(), own) - of.begin());
    own = of[(at + 1 + change % (of_stage_ - 1)) % of_stage_];
    return changed;
  }

  // True if one of them is better than the best.
  bool Value(const std::vector<Recomputes>& choices) {
    std::vector<RecomputeTrial> tried(choices.size());
    climb_.all(static_cast<int>(tried.size()), [&](int i) {
      const auto at = static_cast<size_t>(i);
      tried[at] = climb_.value(choices[at], best_.words, moves_);
    });
    spent_ += static_cast<int64_t>(tried.size()) * (kRulesCost + moves_);
    RecomputeTrial& first = *std::min_element(tried.begin(), tried.end(), IsBetter);
    if (!IsBetter(first, best_)) return false;
    best_ = std::move(first);
    return true;
  }

  const RecomputeClimb& climb_;
  const std::vector<std::vector<int64_t>> choices_;
  const size_t of_stage_;
  RecomputeTrial best_;
  int64_t moves_ = kShortMoves;
  int64_t spent_ = 0;
};

}  // namespace

std::vector<int64_t> StagesThat(int64_t part, const std::vector<int64_t>& choices) {
  std::vector<int64_t> stages;
  for (const int64_t choice : choices) stages.push_back((choice & part) != 0 ? 1 : 0);
  return stages;
}

bool HasAny(const std::vector<int64_t>& stages) {
  return std::find(stages.begin(), stages.end(), 1) != stages.end();
}

void SearchShortly(const Problem& problem, int64_t moves, uint64_t seed, Candidates* candidates) {
  TryPlainRules(problem, 0, kShortTurns, candidates);
  *candidates = Explore(problem, std::move(*candidates), 0, {moves, seed});
}

Problem WithEitherChoice(Problem none, const Problem& all) {
  none.capacity = all.capacity;
  for (size_t s = 0; s < none.stages.size(); ++s) HoldTheLess(all.stages[s], &none.stages[s]);
  return none;
}

RecomputeTrial ClimbRecomputes(int stages, const RecomputeClimb& climb) {
  return Climb(stages, climb).Run();
}

Found FindRecomputes(const Partitioning& of, Found begin, const Effort& effort) {
  if (HasFewChoices(of)) return FindAmongFew(of, std::move(begin), effort);
  const auto part = [&](int64_t of_whole) {
    return Effort{std::max<int64_t>(1, effort.iterations / of_whole), effort.seed};
  };
  Partitioning all = of;
  all.problem_with = nullptr;
  Found found = std::move(begin);
  const auto count = static_cast<size_t>(StageCountOf(of));
  if (found.words.empty()) {
    found = FindPartition(all, std::move(found), part(4));
    found.recomputes.assign(count, 1);
  }
  const auto value = [&](const Recomputes& stages, const Words& words, int64_t moves) {
    const Problem problem = of.problem_with(found.partition, stages);
    RecomputeTrial trial{.stages = stages};
    if (!CanBeKept(problem)) return trial;
    Candidates candidates = BeginWith(problem, {found.words, words});
    SearchShortly(problem, moves, effort.seed, &candidates);
    if (candidates.empty()) return trial;
    trial.score = candidates.best().score;
    trial.words = candidates.best().words;
    return trial;
  };
  const Stop* const stop = of.problem_of(found.partition).stop;
  const RecomputeTrial best = ClimbRecomputes(
      static_cast<int>(count), {.value = value, .all = DoInTurn, .goes_on = [&](int64_t spent) {
                                  return spent < effort.iterations / 2 && !IsWished(stop);
                                }});
  if (!best.words.empty()) {
    const std::vector<Words> words = {best.words};
    Found again = FindOrders(of.problem_with(found.partition, best.stages), words, part(4));
    if (!again.words.empty() && again.value <= found.value) {
      again.place = found.place;
      again.partition = found.partition;
      again.recomputes = best.stages;
      found = std::move(again);
    }
  }
  found.bound = std::min(BoundOfRecomputes(of), found.value);
  return found;
}

int64_t BoundOfRecomputes(const Partitioning& of) {
  const int64_t either = BoundOfPartitions(EitherChoice(of));
  if (!HasFewChoices(of)) return either;
  const std::vector<Choice> choices = ChoicesByBound(of);
  return choices.empty() ? kNoLimit : std::max(either, choices.front().bound);
}

}  // namespace stringline::search
