// Rules first: list orders by plain rules, then by variations of the best rules. Then small changes
// of the words themselves. Rounds of the two take turns. Small problems end with a proof, or with
// something better.
#include "schedlang/search/search.h"

#include <algorithm>
#include <utility>

#include "schedlang/search/exact.h"
#include "schedlang/search/improve.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/mirrored.h"
#include "schedlang/search/one_at_a_time.h"
#include "schedlang/search/policies.h"
#include "schedlang/search/random.h"

namespace stringline::search {
namespace {

constexpr size_t kMostCandidates = 6;
constexpr size_t kMostRules = 3;  // among them, kept although others are better
constexpr int64_t kRuleCosts = 10;
constexpr int64_t kMostRuleIterations = 20'000;  // at once; moves gain more by more
// Problems of at most so many letters are solved exactly, if the effort suffices.
constexpr int64_t kMostSolved = 120;
constexpr int64_t kNodeCosts = 5;

// Two orders are spliced at times of a step that are equally far apart.
constexpr int kSplices = 10;

bool IsSame(const Candidate& a, const Candidate& b) {
  return a.score.value == b.score.value && a.score.ends == b.score.ends;
}

void ExploreRules(const Problem& problem, int64_t bound, int64_t iterations, Random* random,
                  Candidates* candidates) {
  Evaluator evaluator(problem);
  for (int64_t spent = 0; spent < iterations; spent += kRuleCosts) {
    std::vector<const Candidate*> rules;
    for (const Candidate& candidate : candidates->all()) {
      if (candidate.policy) rules.push_back(&candidate);
    }
    if (rules.empty() || candidates->best().score.value <= bound) return;
    if (IsWished(problem.stop)) return;
    // The best of them as often as all others.
    const int64_t which = random->OneIn(2) ? 0 : random->Below(static_cast<int64_t>(rules.size()));
    Policy policy = Vary(problem, *rules[static_cast<size_t>(which)]->policy, random);
    Words words = ListOrders(problem, policy);
    candidates->Offer(&evaluator, std::move(words), std::move(policy));
  }
}

void ExploreMoves(const Problem& problem, int64_t bound, int64_t iterations, Random* random,
                  Candidates* candidates) {
  const auto& all = candidates->all();
  const size_t which =
      random->OneIn(2) ? 0 : static_cast<size_t>(random->Below(static_cast<int64_t>(all.size())));
  const double heats[] = {0.02, 0.1, 0.3, 1.0};
  Improved improved = Improve(problem, all[which].words, iterations, heats[random->Below(4)], bound,
                              random->Next());
  candidates->Offer({std::move(improved.words), improved.score, std::nullopt});
}

// Orders that begin like one of `begins` and end like one of `ends`.
void TrySplices(const Problem& problem, int64_t bound, const Candidates& begins,
                const Candidates& ends, const RuleTurns& turns, Candidates* candidates) {
  Evaluator evaluator(problem);
  for (const Candidate& begin : begins.all()) {
    const Times times = TimesOf(problem, begin.words);
    for (const Candidate& end : ends.all()) {
      if (IsWished(problem.stop) || !turns.goes_on()) return;
      for (int i = 1; i < kSplices; ++i) {
        Words spliced = Spliced(begin.words, times, end.words, times.makespan / kSplices * i);
        if (!IsComplete(problem, spliced)) continue;
        candidates->Offer(&evaluator, std::move(spliced), std::nullopt);
      }
      if (candidates->best().score.value <= bound) return;
    }
  }
}

// Searches exactly below the found value, with at most `nodes` nodes.
void Solve(const Problem& problem, int64_t nodes, Found* found) {
  Proven proven = SolveExactly(problem, found->value, nodes);
  const int64_t value = proven.words.empty() ? kNoLimit : ValueOf(problem, proven.words);
  if (value < found->value) {
    found->words = std::move(proven.words);
    found->value = value;
  }
  found->bound = std::max(found->bound, std::min(proven.bound, found->value));
}

}  // namespace

void Candidates::Offer(Evaluator* evaluator, Words words, std::optional<Policy> policy) {
  if (words.empty() || !evaluator->Load(words)) return;
  Offer({std::move(words), evaluator->base(), std::move(policy)});
}

void Candidates::Offer(Candidate candidate) {
  if (candidate.score.value >= kNoLimit) return;
  for (Candidate& other : all_) {
    if (!IsSame(other, candidate)) continue;
    if (!other.policy) other.policy = std::move(candidate.policy);
    return;
  }
  all_.insert(
      std::upper_bound(all_.begin(), all_.end(), candidate,
                       [](const Candidate& a, const Candidate& b) { return a.score < b.score; }),
      std::move(candidate));
  if (all_.size() <= kMostCandidates) return;
  // Drops the worst, but keeps the last rules.
  size_t rules = 0;
  for (const Candidate& other : all_) rules += other.policy ? 1 : 0;
  size_t last = all_.size() - 1;
  while (rules <= kMostRules && all_[last].policy && last > 1) --last;
  all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(last));
}

void Candidates::Offer(const Candidates& others) {
  for (const Candidate& candidate : others.all_) Offer(candidate);
}

Candidates BeginWith(const Problem& problem, const std::vector<Words>& orders) {
  Candidates candidates;
  Evaluator evaluator(problem);
  for (const Words& words : orders) {
    if (IsComplete(problem, words)) candidates.Offer(&evaluator, words, std::nullopt);
  }
  return candidates;
}

void DoInTurn(int count, const std::function<void(int)>& work) {
  for (int i = 0; i < count; ++i) work(i);
}

void TryPlainRules(const Problem& problem, int64_t bound, const RuleTurns& turns,
                   Candidates* candidates) {
  Evaluator evaluator(problem);
  const std::vector<Policy> policies = PlainPolicies(problem);
  std::vector<Words> words(policies.size());
  Candidates begins, ends;  // orders of rules, and of mirrored ones
  for (size_t i = 0; i < policies.size();) {
    const int count = std::min(turns.at_once, static_cast<int>(policies.size() - i));
    turns.all(count, [&](int k) { words[i + k] = ListOrders(problem, policies[i + k]); });
    for (const size_t end = i + static_cast<size_t>(count); i < end; ++i) {
      if (IsWished(problem.stop) && !candidates->empty()) break;
      if (words[i].empty() || !evaluator.Load(words[i])) continue;
      Candidate candidate{std::move(words[i]), evaluator.base(), policies[i]};
      if (!policies[i].pairs) {
        (policies[i].mirrored ? ends : begins).Offer(candidate);
      }
      candidates->Offer(std::move(candidate));
    }
    if (IsWished(problem.stop)) break;
    if (!candidates->empty() && candidates->best().score.value <= bound) return;
    if (!turns.goes_on()) break;
  }
  TrySplices(problem, bound, begins, ends, turns, candidates);
  if (!candidates->empty()) return;
  Words least = OneAtATime(problem);
  if (IsComplete(problem, least)) candidates->Offer(&evaluator, std::move(least), std::nullopt);
}

Candidates Explore(const Problem& problem, Candidates begin, int64_t bound, const Effort& effort) {
  Random random(effort.seed);
  int64_t left = effort.iterations;
  if (begin.empty()) {
    RuleTurns turns;
    turns.all = DoInTurn;
    turns.goes_on = [&left] { return (left -= kRuleCosts) > 0; };
    TryPlainRules(problem, bound, turns, &begin);
  }
  if (left <= 0 || begin.empty() || begin.best().score.value <= bound) return begin;
  if (IsWished(problem.stop)) return begin;
  if (random.OneIn(2)) {
    ExploreRules(problem, bound, std::min(left, kMostRuleIterations), &random, &begin);
  } else {
    ExploreMoves(problem, bound, left, &random, &begin);
  }
  return begin;
}

double Found::gap() const { return value >= kNoLimit ? 0 : GapOf(value, bound); }

Found FindOrders(const Problem& problem, const std::vector<Words>& begin, const Effort& effort) {
  constexpr int64_t kRounds = 12;
  Found found;
  found.bound = LowerBoundOf(problem);
  Random random(effort.seed);
  // Its own orders first, so that initial orders do not displace rules.
  const int64_t round = std::max<int64_t>(1, effort.iterations / kRounds);
  Candidates candidates = Explore(problem, {}, found.bound, {round, random.Next()});
  Evaluator evaluator(problem);
  for (const Words& words : begin) {
    if (IsComplete(problem, words)) candidates.Offer(&evaluator, words, std::nullopt);
  }
  for (int64_t i = 1; i < kRounds && !IsWished(problem.stop); ++i) {
    candidates = Explore(problem, std::move(candidates), found.bound, {round, random.Next()});
  }
  if (candidates.empty()) return found;
  found.words = candidates.best().words;
  found.value = candidates.best().score.value;
  if (LettersOf(problem) <= kMostSolved && !found.is_proven() && !IsWished(problem.stop)) {
    Solve(problem, effort.iterations / kNodeCosts, &found);
  }
  return found;
}

}  // namespace stringline::search
