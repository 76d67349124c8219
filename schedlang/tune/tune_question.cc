#include "schedlang/tune/tune_question.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"

namespace stringline::tune {

absl::StatusOr<OpenedQuestion> OpenQuestion(const TuneQuestion& question) {
  OpenedQuestion opened;
  SL_ASSIGN_OR_RETURN(opened.cluster, ReadCluster(question.cluster));
  TuneRequest& request = opened.request;
  SL_ASSIGN_OR_RETURN(request.base.spec, ReadModel(question.model, opened.cluster));
  request.gpus = opened.cluster.gpus;
  request.global_batch = question.global_batch;
  request.evaluations = question.evaluations;
  request.shown = static_cast<size_t>(question.shown);
  for (const std::string& pin : question.pins) SL_RETURN_IF_ERROR(AddPins(pin, &request.pins));
  if (!question.slow_links.empty()) {
    return FieldError("slow", absl::StrCat("the planner knows slow GPUs, and no slow links, as ",
                                           Print(question.slow_links[0].link),
                                           "; give the cluster's bandwidth or p2p"));
  }
  for (const SlowRank& slow : question.slow) {
    if (slow.rank < request.gpus) continue;
    return FieldError(
        "slow", absl::StrCat("there is no GPU ", slow.rank, "; the cluster has ", request.gpus));
  }
  request.base.slow = question.slow;
  if (!question.jitter.empty()) {
    CostModel costs;
    SL_RETURN_IF_ERROR(SetJitter(question.jitter, &costs));
    request.jitter = costs.jitter;
  }
  return opened;
}

}  // namespace stringline::tune
