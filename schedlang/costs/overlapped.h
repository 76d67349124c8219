// The time of a group such as `F a & B b`, given by its parts: they run on two lanes in the order
// of plan/group_order.h. While the network lane works, computation takes `slowdown` longer.
//
// Real parts take now longer and now shorter than their costs, and a lane waits for the later one.
// So such a group takes longer than parts that always take their costs would say; by how much is
// the mean over draws of their durations.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/parts.h"

namespace stringline {

// Nanoseconds of a stage's parts: for one layer, or for the stage if the part occurs once.
struct PartCosts {
  std::array<int64_t, kParts> ns = {};  // by Part
  int64_t layers = 1;

  int64_t Forward() const;  // the whole stage, its parts in a row
  int64_t InputGradient() const;
  int64_t WeightGradient() const;
  int64_t OnLane(Lane lane) const;  // of F, I and W together
};

struct PartTime {
  uint8_t part = 0;
  int32_t layer = 0;  // as LayerPart::layer
  uint8_t of = 0;     // the index of its action in the group
  uint8_t chunk = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// A B of a stage without layers is all in its B.post, which then takes as long as B.post and
// W.post.

// An action of a group, with the costs of its stage.
struct PricedMember {
  ActionKind kind = ActionKind::kForward;
  const PartCosts* costs = nullptr;
  StageId stage = {};
  // By bucket of its parameters, the moment, from the group's start, at which it is there
  // (plan/buckets.h), ascending; empty: all are there.
  absl::Span<const int64_t> gathered_ns = {};
};

struct LaneRules {
  int64_t slowdown = 0;  // in millionths: 100000 is a tenth
  int64_t jitter = 0;    // the standard deviation of a part's duration, in millionths of its cost
  int chunks = 1;        // of a microbatch; a part of a chunk takes its share of the part's cost
};

// The parts of a group, in the order of their ends; of an action alone without chunks, in a row,
// where neither slowdown nor jitter counts. `order` as for OrderGroup. With a jitter the moments
// are means over kJitterDraws draws, always the same ones.
std::vector<PartTime> RunGroup(absl::Span<const PricedMember> group, const Overlap* order,
                               const LaneRules& rules = {});
inline constexpr int kJitterDraws = 64;

}  // namespace stringline
