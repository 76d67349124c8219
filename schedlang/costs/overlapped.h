// The time of an `F a & B b` given by its parts: they run on two lanes in the order of
// plan/pair_order.h. While the network lane works, computation takes `slowdown` longer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedlang/plan/parts.h"

namespace stringline {

// Nanoseconds of a stage's parts: for one layer, or for the stage if the part occurs once.
struct PartCosts {
  std::array<int64_t, kParts> ns = {};  // by Part
  int64_t layers = 1;

  int64_t Forward() const;  // the whole stage, its parts in a row
  int64_t InputGradient() const;
  int64_t WeightGradient() const;
};

struct PartTime {
  uint8_t part = 0;
  int32_t layer = 0;  // as LayerPart::layer
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// A B of a stage without layers is all in its B.post, which then takes as long as B.post and
// W.post.

// The parts of a forward with costs `f` beside a backward with costs `b`, whole or (without its W)
// the input gradient alone. `order` may be null. `slowdown` is in millionths: 100000 is a tenth.
std::vector<PartTime> RunOverlapped(const PartCosts& f, const PartCosts& b, bool whole,
                                    const Overlap* order, int64_t slowdown);

// The parts of a computation alone, in a row.
std::vector<PartTime> RunAlone(const PartCosts& costs, ActionKind kind);

}  // namespace stringline
