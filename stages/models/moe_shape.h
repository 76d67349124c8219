// The sizes of a mixture of experts: part of DecoderShape. moe.h has its computation.
#pragma once

#include <cstdint>

namespace stringline {

// The function of the router's logits; the values are those of the attribute of `route` (ops.def).
enum class RouterScores : uint8_t { kSoftmax, kSigmoid };

// The consequence when an expert is chosen more often than its capacity.
enum class Overflow : uint8_t { kError, kDrop };

struct MoeShape {
  int experts = 0;  // 0: none, a dense model
  int top_k = 0;    // experts of each token
  int expert_hidden = 0;
  int shared_hidden = 0;  // the shared expert's; 0: none
  int first_dense = 0;    // layers before the first with experts
  RouterScores scores = RouterScores::kSoftmax;
  bool normalise = true;  // a token's weights have the sum `scale`
  double scale = 1;
  // Experts are chosen only from the `top_groups` best of `groups` groups; the score of a group is
  // the sum of its `group_best` best (DeepSeek-V2: 1, V3: 2).
  int groups = 1;
  int top_groups = 1;
  int group_best = 1;
  double balance_rate = 0;     // for the router's bias (Update::kBalance); 0: no bias
  double aux_coefficient = 0;  // for the balance loss; 0: no such loss
  double capacity = 0;         // 0: an expert takes all slots that choose it
  Overflow overflow = Overflow::kError;
  friend bool operator==(const MoeShape&, const MoeShape&) = default;
};

}  // namespace stringline
