// The repeats of a rank's phases that grow with the number of microbatches.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/write/rank_words.h"
#include "schedlang/write/shared_phases.h"

namespace stringline::search {

// The meaning of backward signs taken from orders.
struct OrderUse {
  bool leaves_weight = false;  // all are input gradients, or none is
};

// With `step` more microbatches, each of `phases` repeats once more; the rank then does every
// action for `step` more microbatches. Empty `phases`: no repeats grow.
struct Growth {
  std::vector<size_t> phases;
  int64_t step = 0;  // in microbatches; with orders, in actions of each direction
};
Growth GrowthOf(const SharedPhases& shared, const std::vector<Sign>& signs, const OrderUse& orders);

}  // namespace stringline::search
