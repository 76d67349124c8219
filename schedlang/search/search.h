// The optimiser: orders for a problem, better and better ones, beside a bound that none can be
// below.
//
// Pure and without a clock: what it finds depends on the problem, the orders it is given to begin
// with, the seed, and how many iterations it may take. Who has a clock asks for a few iterations at
// a time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct Found {
  Words words;               // empty: none was found that ends within the capacity
  int64_t value = kNoLimit;  // of the problem's objective
  int64_t bound = 0;         // no order is below
  bool is_proven() const { return value <= bound; }
  // How far the value may be from the best, as a share of the bound.
  double gap() const;
};

struct Effort {
  int64_t iterations = 20'000;  // words that are evaluated, more or less
  uint64_t seed = 1;
};

// `begin` are orders to improve beside its own; those that are not complete are passed over.
Found FindOrders(const Problem& problem, const std::vector<Words>& begin, const Effort& effort);

}  // namespace stringline::search
