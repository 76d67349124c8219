// A step simulated again and again, with other costs each time. What depends on costs is little: a
// plan is read and elaborated once, and lowered, checked and wired again only for other collectives
// (all but the wires, for other receive buffers), or to find the order of a window.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"

namespace stringline {

class CostTrials {
 public:
  // `opened`: of OpenPlan, with a plan.
  CostTrials(Session opened, MessageRequest messages)
      : opened_(std::move(opened)), messages_(messages) {}

  // As SimulatedSession of the opened plan: with findings, and errors, too. The step is valid until
  // the next trial, which reuses its memory.
  absl::StatusOr<const Session*> Simulate(const CostRequest& costs);

  // The trials that lowered and checked the plan.
  int prepared() const { return prepared_; }

 private:
  absl::Status SimulateAgain(StepCosts asked, CostModel costs);

  const Session opened_;
  const MessageRequest messages_;
  std::optional<Session> step_;  // the last trial, if it has a timeline
  int prepared_ = 0;
};

}  // namespace stringline
