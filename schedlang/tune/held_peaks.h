// The microbatches that the ranks of an order hold at once, whatever their bytes: enough to see
// that a choice does not fit, without its costs.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/tune/choice_costs.h"

namespace stringline::tune {

// Bytes of a rank: those that are always there, and those of a microbatch of its least stage.
struct RankSizes {
  int64_t resident = 0, saved_for_input = 0, saved_for_weight = 0;
};
// By rank; empty for costs without bytes.
std::vector<RankSizes> RankSizesOf(const StagedCosts& staged);

class HeldPeaks {
 public:
  HeldPeaks() = default;
  explicit HeldPeaks(const Plan& lowered);

  // No less than this is alive on the fullest rank: a lower bound of LeastBytesOf (evaluate.h).
  int64_t LeastBytes(const std::vector<RankSizes>& sizes) const;

 private:
  // Stages' microbatches whose values are kept for I, and for W, at one time.
  struct Held {
    int64_t for_input = 0, for_weight = 0;
  };
  std::vector<std::vector<Held>> of_ranks_;  // of each only those that no other has more of both
};

}  // namespace stringline::tune
