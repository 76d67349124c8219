// The reductions of a plan: the REDUCE_GRADs of replicas, the k-th stages of all pipes, are one
// reduction in each step, performed together by their ranks. A rank with several of them adds them
// up by itself and joins the others with the last in its list.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct ReplicaReductions {
  struct Member {
    uint32_t action = 0;  // index into the plan's actions
    bool comes = false;   // the last of its rank
  };
  // The members of reduction k: members[first[k]] .. members[first[k + 1] - 1].
  std::vector<Member> members;
  std::vector<uint32_t> first = {0};
  std::vector<int32_t> of_action;  // by action of the plan: its reduction, or -1

  int count() const { return static_cast<int>(first.size()) - 1; }
  // In the order of the plan's actions, so by rank.
  absl::Span<const Member> of(int k) const {
    return absl::MakeConstSpan(members).subspan(first[k], first[k + 1] - first[k]);
  }
};

// Reduction k sums the gradients of the (k % stages)-th stages in step k / stages, `stages` being
// those of a pipe; the step is the number of REDUCE_GRADs of the stage before. None for a plan
// without pipes. Cost: linear in actions.
ReplicaReductions ReplicaReductionsOf(const Plan& plan);

// Visits the stage and its replicas on the same rank: visit(stage).
template <typename Visit>
void ForReplicasOnRank(const Plan& plan, StageId stage, Visit visit) {
  if (plan.pipes.empty()) return visit(stage);
  for (int32_t s = stage.value % plan.pipes[0].stages; s < static_cast<int32_t>(plan.stages.size());
       s += plan.pipes[0].stages) {
    const StageId replica(s);
    if (plan.stage(replica).rank == plan.stage(stage).rank) visit(replica);
  }
}

}  // namespace stringline
