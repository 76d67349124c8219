// The optimiser: better and better orders of a problem, and a lower bound on all of them.
//
// Pure and without a clock: the result depends on the problem, the initial orders, the seed, and
// the number of iterations. A caller with a clock or several cores explores in rounds: every round
// begins with the results of the rounds before it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "schedlang/search/evaluator.h"
#include "schedlang/search/list_orders.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

// Orders, and the rule that made them, if any.
struct Candidate {
  Words words;
  Score score;
  std::optional<Policy> policy;
};

// The best candidates, best first, without duplicates. Among them some made by rules, which can be
// varied.
class Candidates {
 public:
  // Ignores incomplete words, words that never end, and words worse than all kept.
  void Offer(Evaluator* evaluator, Words words, std::optional<Policy> policy);
  void Offer(Candidate candidate);
  void Offer(const Candidates& others);

  bool empty() const { return all_.empty(); }
  const Candidate& best() const { return all_.front(); }
  const std::vector<Candidate>& all() const { return all_; }

 private:
  std::vector<Candidate> all_;
};

// The complete ones of these orders, with their scores; incomplete and empty ones are left out.
Candidates BeginWith(const Problem& problem, const std::vector<Words>& orders);

// Does work(0) .. work(count - 1), one after the other.
void DoInTurn(int count, const std::function<void(int)>& work);

struct Effort {
  int64_t iterations = 20'000;  // moves to try; a rule counts as ten
  uint64_t seed = 1;
};

// The execution of plain rules: `at_once` of them at a time, whose orders are made by the calls
// make(0) .. make(count - 1) of all(count, make), in parallel or not; then the next ones, if
// goes_on().
struct RuleTurns {
  int at_once = 1;
  std::function<void(int count, const std::function<void(int)>& make)> all;
  std::function<bool()> goes_on;
};

// Adds the orders of plain rules (policies.h) until one reaches the bound. If all rules get stuck
// and there was no candidate, adds the order with the least memory, so that any problem with an
// order has a candidate.
void TryPlainRules(const Problem& problem, int64_t bound, const RuleTurns& turns,
                   Candidates* candidates);

// Goes on from `begin`: by all plain rules if empty, else by variations of its rules and by moves,
// chosen by the seed. Ends early at the bound.
Candidates Explore(const Problem& problem, Candidates begin, int64_t bound, const Effort& effort);

// The number of layers of each stage, in the order of the stages along a pipe.
using Partition = std::vector<int>;
// By stage, 1 for a stage that recomputes, else 0.
using Recomputes = std::vector<int64_t>;

struct Found {
  Words words;               // empty: none within the capacity
  int64_t value = kNoLimit;  // the objective's
  int64_t bound = 0;         // a lower bound on all orders
  // If more than the orders was free (partition.h): the index of the place, the layers of stages,
  // and the stages that recompute.
  int place = 0;
  Partition partition;
  Recomputes recomputes;  // empty: not free
  bool is_proven() const { return value <= bound; }
  double gap() const;  // a bound on the distance from the best, as a share of the bound
};

// Solves a small problem exactly if the effort suffices; then the bound is the value.
// `begin` are further orders to improve; incomplete orders are ignored.
Found FindOrders(const Problem& problem, const std::vector<Words>& begin, const Effort& effort);

}  // namespace stringline::search
