// What a mixture of experts consists of: part of DecoderShape. What it does is said in moe.h.
#pragma once

#include <cstdint>

namespace stringline {

// What the router's logits become; the values are those of the attribute of `route` (ops.def).
enum class RouterScores : uint8_t { kSoftmax, kSigmoid };

// What it means that an expert is chosen more often than its capacity.
enum class Overflow : uint8_t { kError, kDrop };

struct MoeShape {
  int experts = 0;  // 0: none, a dense model
  int top_k = 0;    // experts of each token
  int expert_hidden = 0;
  int shared_hidden = 0;  // of the shared expert; 0: there is none
  int first_dense = 0;    // layers before the first with experts
  RouterScores scores = RouterScores::kSoftmax;
  bool normalise = true;  // a token's weights have the sum `scale`
  double scale = 1;
  // Only the `top_groups` best of `groups` groups of experts are chosen from; the score of a group
  // is the sum of its `group_best` best (DeepSeek-V2: 1, V3: 2).
  int groups = 1;
  int top_groups = 1;
  int group_best = 1;
  double balance_rate = 0;     // of the router's bias (Update::kBalance); 0: it has none
  double aux_coefficient = 0;  // of the balance loss; 0: there is none
  double capacity = 0;         // 0: an expert takes all that choose it
  Overflow overflow = Overflow::kError;
  friend bool operator==(const MoeShape&, const MoeShape&) = default;
};

}  // namespace stringline
