#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {

OpLaunch LaunchOf(Op op) {
  for (const auto family : {ProductLaunch, AttentionLaunch, ElementwiseLaunch, NormLaunch,
                            TokenLaunch, RouterLaunch, ExchangeLaunch, SliceLaunch}) {
    const OpLaunch found = family(op);
    if (found.in_f32 != nullptr) return found;
  }
  return {};
}

}  // namespace stringline::cuda
