#include "executor/training/evaluation.h"

#include <utility>

#include "schedlang/base/status.h"

namespace stringline {

absl::Status Evaluation::Prepare() {
  SL_RETURN_IF_ERROR(pipelines_.Prepare(/*update=*/nullptr));
  SL_ASSIGN_OR_RETURN(figures_, SharedFigures::Make(job_.get(), &pipelines_));
  return absl::OkStatus();
}

absl::Status Evaluation::Run() {
  SL_RETURN_IF_ERROR(job_->GiveUp(step_.Run(/*phase=*/0, [this] {
    pipelines_.EnqueueStep();
    // If the calls differ, the device reports the error.
    if (!std::exchange(calls_checked_, true)) (void)job_->groups()->CheckCalls();
  })));
  return figures_->ShareStep();
}

}  // namespace stringline
