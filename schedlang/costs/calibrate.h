// The action costs of a recorded run: timeline -> costs with which the simulator repeats the run.
//
// The cost is the median of the durations seen (duration_table.h). An `F a & B b` has a cost by
// stage a; in a run whose parts were recorded the parts have costs instead, and the cost of a pair
// follows from its parts in the plan's order (PriceGroups in costs.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// Typical durations in nanoseconds, by stage; 0 without a sample.
struct TypicalDurations {
  std::array<std::vector<int64_t>, kActionKinds> alone;  // by kind
  std::vector<int64_t> forward_backward;                 // times of `F a & B b`, by stage a
  std::vector<int64_t> shared_backward;                  // the same groups by stage b
  std::vector<PartCosts> parts;                          // empty: no stage has layers of parts
  std::vector<int64_t> unshard;
  std::vector<int64_t> reduce;
  int64_t message = 0;
};

// Kinds that never ran alone are derived: B from I and W, I and W from B or as halves of B; kinds
// seen only in pairs as half of the pair, or as the sum of their parts. With parts, pairs have no
// cost until PriceGroups computes their costs.
CostModel CostsFrom(const TypicalDurations& typical);

// The spread of repeated durations.
struct Spread {
  int count = 0;
  int64_t low_ns = 0, high_ns = 0;  // nine of ten lie above, nine of ten below
};

struct Calibration {
  CostModel costs;  // its hop is the message's whole time
  // The part of the hop in which a message occupies its channel: the whole hop, unless messages
  // were seen to follow each other sooner.
  int64_t transfer_ns = 0;
  std::array<std::vector<Spread>, kActionKinds> spread;  // by kind, alone, by stage
  std::vector<Spread> forward_backward_spread;
  std::array<std::vector<Spread>, kParts> part_spread;
  std::vector<Spread> unshard_spread;
  std::vector<Spread> reduce_spread;
  Spread message_spread;
  // Standard deviation of a computation's duration, relative to its median, over all kinds and
  // stages; from the middle half of the deviations, so that a single hiccup does not count.
  double jitter = 0;
};

Calibration Calibrate(const Timeline& timeline);

// The error of a timeline whose costs no file can say: microbatches in slices.
absl::Status CheckCalibrates(const Timeline& timeline);

// As the YAML that --costs reads, with spreads as comments. `title` names the calibrated run.
std::string Print(const Calibration& calibration, const std::string& title);

}  // namespace stringline
