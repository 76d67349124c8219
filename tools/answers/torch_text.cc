#include "tools/answers/torch_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/torch/timed_lower.h"
#include "schedlang/torch/torch_csv.h"
#include "schedlang/torch/torch_rules.h"

namespace stringline {
namespace {

struct Target {
  const char* name;
  TorchForm form;
};

constexpr Target kTargets[] = {
    {"torch-compute", TorchForm::kCompute},
    {"torch-comms", TorchForm::kComms},
    {"torch-comms-2.14", TorchForm::kCommsNoWaits},
};

// The plan in this form of file: with collectives, messages and waits.
TorchFile Prepared(TorchFile file, TorchForm form, const CostModel& costs) {
  if (form == TorchForm::kCompute) return file;
  if (!file.plan.lowered) {
    std::optional<Plan> lowered = LowerByTime(AddCollectives(file.plan), costs);
    SL_CHECK(lowered) << "a plan that ends could not be lowered";
    file.plan = *std::move(lowered);
  }
  file.waits = AllTorchWaits(file.plan, file.waits);
  return file;
}

bool Proven(const Plan& plan, Diagnostics* diagnostics) {
  if (!CheckedPlan(plan, {}, diagnostics)) return false;
  // Plans with several pipes are refused later, for their pipes.
  if (plan.pipes.empty()) FindLossOrder(plan, diagnostics);
  return diagnostics->empty();
}

}  // namespace

std::vector<std::string> TorchForms() {
  std::vector<std::string> names;
  for (const Target& target : kTargets) names.emplace_back(target.name);
  return names;
}

absl::StatusOr<std::optional<std::string>> TorchTextOf(Session* opened, const std::string& form,
                                                       const CostRequest& request) {
  SL_RETURN_IF_ERROR(RefuseIssued(*opened, "torch's runtime"));
  Diagnostics* const diagnostics = &opened->diagnostics;
  if (!opened->plan || !Proven(*opened->plan, diagnostics)) return std::nullopt;
  const Target* const target = std::find_if(std::begin(kTargets), std::end(kTargets),
                                            [&form](const Target& t) { return form == t.name; });
  if (target == std::end(kTargets)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", form, "' is none of torch's forms: ", absl::StrJoin(TorchForms(), ", ")));
  }
  SL_ASSIGN_OR_RETURN(const CostModel costs, CostsFor(request, *opened->plan));
  TorchFile file{.plan = *opened->plan, .waits = opened->waits};
  file = Prepared(std::move(file), target->form, costs);
  return PrintTorchCsv(file.plan, file.waits, target->form, diagnostics);
}

}  // namespace stringline
