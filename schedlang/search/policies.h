// Rules for list orders that are worth a try, and random variations of a good rule.
#pragma once

#include <vector>

#include "schedlang/search/list_orders.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/random.h"

namespace stringline::search {

// A few dozen rules from eager to patient, the plainest first: with few and many microbatches under
// way, with weight gradients at once or only in gaps, with and without a steady pace; and building
// blocks of several intervals and delays.
std::vector<Policy> PlainPolicies(const Problem& problem);

// The rule with one or two of its numbers drawn anew.
Policy Vary(const Problem& problem, Policy policy, Random* random);

}  // namespace stringline::search
