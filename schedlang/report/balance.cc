#include "schedlang/report/balance.h"

#include "absl/status/statusor.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/costs/microbatch_shares.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/sim/simulate.h"

namespace stringline {

std::optional<MicrobatchBalance> BalanceOf(const Plan& lowered, const Wiring& wiring,
                                           const CostModel& costs) {
  if (costs.shares.tokens.empty()) return std::nullopt;
  const auto makespan_ns = [&](const CostModel& of) {
    const absl::StatusOr<Timeline> timeline = Simulate(lowered, wiring, of);
    SL_CHECK(timeline.ok()) << timeline.status();
    return MakespanOf(*timeline);
  };
  return MicrobatchBalance{makespan_ns(WithEqualMicrobatches(costs)),
                           makespan_ns(WithSortedMicrobatches(costs, true)),
                           makespan_ns(WithSortedMicrobatches(costs, false))};
}

}  // namespace stringline
