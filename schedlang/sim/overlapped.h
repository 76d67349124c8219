// How an `F a & B b` runs when it is given by its parts: attention and experts on the compute lane,
// the all-to-alls dispatch and combine on the network lane, each lane in a fixed order.
//
// F of a layer is attn, dispatch, experts, combine; its backward the same from behind, with the
// weight gradients W.experts and W.attn after the input gradients of their part. A part starts when
// its lane is free and what it needs has ended. While the network lane works, computation takes
// `slowdown` longer. The order of the lanes is that of the plan's `overlap` block, or
//
//   compute  F.attn     B.experts   W.experts   F.experts  B.attn  W.attn
//   network  B.combine  F.dispatch  B.dispatch  F.combine
//
// once for every layer of the stage: layer i of the F beside layer (last - i) of the B. (The order
// of Megatron's combined 1F1B and of DualPipe's authors.)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan.h"

namespace stringline {

// Nanoseconds of the parts of one layer. The order is that of kPartNames.
struct PartCosts {
  static constexpr int kParts = 10;
  std::array<int64_t, kParts> ns = {};
  int64_t layers = 1;

  int64_t Forward() const;  // of the whole stage, one part after the other
  int64_t InputGradient() const;
  int64_t WeightGradient() const;
};

// "F.attn", "F.dispatch", …, "W.experts".
const char* PartName(int part);
bool OnNetwork(int part);

struct PartTime {
  int part = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// The parts of a forward with costs `f` beside a backward with costs `b`, whole or (without its W)
// the input gradient alone. `order` may be null. `slowdown` is in millionths: 100000 is a tenth.
std::vector<PartTime> RunOverlapped(const PartCosts& f, const PartCosts& b, bool whole,
                                    const Overlap* order, int64_t slowdown);

}  // namespace stringline
