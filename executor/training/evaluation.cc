#include "executor/training/evaluation.h"

#include "schedlang/base/status.h"

namespace stringline {

absl::Status Evaluation::Prepare() {
  SL_RETURN_IF_ERROR(pipelines_.Prepare(/*update=*/nullptr));
  SL_ASSIGN_OR_RETURN(figures_, SharedFigures::Make(job_.get(), &pipelines_));
  return absl::OkStatus();
}

absl::Status Evaluation::Run() {
  SL_RETURN_IF_ERROR(job_->GiveUp(step_.Run(/*phase=*/0, [this] { pipelines_.EnqueueStep(); })));
  return figures_->ShareStep();
}

}  // namespace stringline
