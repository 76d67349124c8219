#include "schedlang/tune/tune_question.h"

#include <algorithm>
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
  const auto check = [&request](int64_t gpu) {
    if (gpu < request.gpus) return absl::OkStatus();
    return FieldError("slow",
                      absl::StrCat("there is no GPU ", gpu, "; the cluster has ", request.gpus));
  };
  for (const SlowRank& slow : question.slow) SL_RETURN_IF_ERROR(check(slow.rank));
  for (const SlowLink& slow : question.slow_links) {
    SL_RETURN_IF_ERROR(check(std::max(slow.link.from, slow.link.to)));
  }
  request.base.slow = question.slow;
  request.base.slow_links = question.slow_links;
  if (!question.jitter.empty()) {
    CostModel costs;
    SL_RETURN_IF_ERROR(SetJitter(question.jitter, &costs));
    request.jitter = costs.jitter;
  }
  return opened;
}

}  // namespace stringline::tune
