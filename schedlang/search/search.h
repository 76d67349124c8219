// The optimiser: orders for a problem, better and better ones, beside a bound that none can be
// below.
//
// Pure and without a clock: what it finds depends on the problem, the orders it is given to begin
// with, the seed, and how many iterations it may take. Who has a clock or several cores explores
// in rounds: every round begins with what the ones before it have found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "schedlang/search/evaluator.h"
#include "schedlang/search/list_orders.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

// Orders that were found, and the rule that gave them, if one did.
struct Candidate {
  Words words;
  Score score;
  std::optional<Policy> policy;
};

// The best candidates, the best first; none twice. Among them some that a rule gave, which can be
// varied.
class Candidates {
 public:
  // Words that are not complete or never end are passed over, as are those worse than all kept.
  void Offer(Evaluator* evaluator, Words words, std::optional<Policy> policy);
  void Offer(Candidate candidate);
  void Offer(const Candidates& others);

  bool empty() const { return all_.empty(); }
  const Candidate& best() const { return all_.front(); }
  const std::vector<Candidate>& all() const { return all_; }

 private:
  std::vector<Candidate> all_;
};

struct Effort {
  int64_t iterations = 20'000;  // moves that are tried; a rule counts as ten
  uint64_t seed = 1;
};

// How plain rules are tried: `at_once` of them at a time, whose orders are made by the calls
// make(0) .. make(count - 1) of all(count, make), beside each other or not; then the next ones, if
// goes_on() says so.
struct RuleTurns {
  int at_once = 1;
  std::function<void(int count, const std::function<void(int)>& make)> all;
  std::function<bool()> goes_on;
};

// Adds the orders of plain rules (policies.h) until one reaches the bound. Where all rules get
// stuck, and there was nothing before, the order that holds least: that there is one means that
// there are orders.
void TryPlainRules(const Problem& problem, int64_t bound, const RuleTurns& turns,
                   Candidates* candidates);

// Goes on from `begin`: by all plain rules where it is empty, else by rules a little different from
// its own and by moves, whichever the seed says. Ends early at the bound.
Candidates Explore(const Problem& problem, Candidates begin, int64_t bound, const Effort& effort);

// How many layers each stage has, in the order of the stages along a pipe.
using Partition = std::vector<int>;

struct Found {
  Words words;               // empty: there is none within the capacity
  int64_t value = kNoLimit;  // of the problem's objective
  int64_t bound = 0;         // no order is below
  // Where more than the orders was free (partition.h): which of the places, and what stages hold.
  int place = 0;
  Partition partition;
  bool is_proven() const { return value <= bound; }
  double gap() const;  // how far the value may be from the best, as a share of the bound
};

// A small problem is solved, if the effort suffices; then the bound is the value.
// `begin` are orders to improve beside its own; those that are not complete are passed over.
Found FindOrders(const Problem& problem, const std::vector<Words>& begin, const Effort& effort);

}  // namespace stringline::search
