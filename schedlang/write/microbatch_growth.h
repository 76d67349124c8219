// Which repeats of a rank's phases become more when there are more microbatches.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/write/rank_words.h"
#include "schedlang/write/shared_phases.h"

namespace stringline::search {

// Of signs that are taken from orders: what the backward ones stand for.
struct OrderUse {
  bool leaves_weight = false;  // input gradients, all of them; else none is
};

// With `step` more microbatches, each of `phases` comes once more. Then the rank has done every
// action for `step` more microbatches. Empty `phases`: there are no such repeats.
struct Growth {
  std::vector<size_t> phases;
  int64_t step = 0;  // of microbatches; with orders, of actions of each direction
};
Growth GrowthOf(const SharedPhases& shared, const std::vector<Sign>& signs, const OrderUse& orders);

}  // namespace stringline::search
