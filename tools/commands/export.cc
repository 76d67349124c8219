// stringline export: a schedule in another notation.
#include "schedlang/base/sl_check.h"
#include "schedlang/formats/timed_lower.h"
#include "schedlang/formats/torch_csv.h"
#include "schedlang/formats/torch_rules.h"
#include "schedlang/lower/collectives.h"
#include "tools/command.h"
#include "tools/requests.h"

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

// The plan as a file of this form holds it: with collectives, messages and waits.
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
  // Plans of several pipes are refused later, as such.
  if (plan.pipes.empty()) FindLossOrder(plan, diagnostics);
  return diagnostics->empty();
}

}  // namespace

int RunExport(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  Diagnostics& diagnostics = session->diagnostics;
  if (!session->plan || !Proven(*session->plan, &diagnostics)) {
    return ShowFindings(output, output.err, diagnostics, session->source);
  }
  const Target* target = kTargets;
  while (flags.to != target->name) ++target;
  const absl::StatusOr<CostModel> costs = CostsOf(flags, *session->plan);
  if (!costs.ok()) return Fail(output, costs.status().message());
  TorchFile file{.plan = *std::move(session->plan), .waits = std::move(session->waits)};
  file = Prepared(std::move(file), target->form, *costs);
  const auto text = PrintTorchCsv(file.plan, file.waits, target->form, &diagnostics);
  if (!text) return ShowFindings(output, output.err, diagnostics, session->source);
  return Deliver(*text, flags.out, output);
}

}  // namespace stringline
