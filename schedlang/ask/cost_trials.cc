#include "schedlang/ask/cost_trials.h"

#include <utility>

#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<const Session*> CostTrials::Simulate(const CostRequest& costs) {
  // Messages as written have a cycle that costs do not change, or none; and no collectives but
  // their own.
  if (step_ && step_->timeline && opened_.plan->window == 0) {
    SL_ASSIGN_OR_RETURN(StepCosts asked, FindCosts(costs));
    SL_ASSIGN_OR_RETURN(CostModel model, ResolveCosts(asked, *opened_.plan));
    if (step_->issue == MessageIssue::kAsWritten ||
        model.collectives == step_->costs->collectives) {
      const absl::Status simulated = SimulateAgain(std::move(asked), std::move(model));
      if (simulated.ok()) return &*step_;
      step_.reset();
      return simulated;
    }
  }
  step_.reset();
  ++prepared_;
  SL_ASSIGN_OR_RETURN(step_, SimulatedSession(opened_, costs, messages_));
  return &*step_;
}

absl::Status CostTrials::SimulateAgain(StepCosts asked, CostModel costs) {
  const bool buffers_stay = costs.receive_buffers == step_->costs->receive_buffers;
  step_->costs_of_model = asked.spec.IsOfModel();
  step_->asked = std::move(asked);
  step_->costs = std::move(costs);
  if (!buffers_stay) step_->links = LinksOf(*step_);
  return SimulateStepAgain(*step_->plan, *step_->links, *step_->costs, &*step_->timeline);
}

}  // namespace stringline
