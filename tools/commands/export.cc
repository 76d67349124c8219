// stringline export: a schedule in another notation.
#include "schedlang/base/sl_check.h"
#include "schedlang/check/check.h"
#include "schedlang/formats/timed_lower.h"
#include "schedlang/formats/torch_csv.h"
#include "schedlang/formats/torch_rules.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "tools/command.h"
#include "tools/load.h"

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
  if (!Check(plan.lowered ? plan : Lower(plan), diagnostics)) return false;
  // Plans of several pipes are refused later, as such.
  if (plan.pipes.empty()) FindLossOrder(plan, diagnostics);
  return diagnostics->empty();
}

}  // namespace

int RunExport(const Flags& flags, const Output& output) {
  absl::StatusOr<LoadedPlan> loaded = LoadPlan(flags);
  if (!loaded.ok()) return Fail(output, loaded.status().message());
  Diagnostics& diagnostics = loaded->diagnostics;
  if (!loaded->plan || !Proven(*loaded->plan, &diagnostics)) {
    return ShowFindings(output, output.err, diagnostics, loaded->source);
  }
  const Target* target = kTargets;
  while (flags.to != target->name) ++target;
  const absl::StatusOr<CostModel> costs = LoadTorchCosts(flags, *loaded->plan);
  if (!costs.ok()) return Fail(output, costs.status().message());
  TorchFile file{.plan = *std::move(loaded->plan), .waits = std::move(loaded->waits)};
  file = Prepared(std::move(file), target->form, *costs);
  const auto text = PrintTorchCsv(file.plan, file.waits, target->form, &diagnostics);
  if (!text) return ShowFindings(output, output.err, diagnostics, loaded->source);
  return Deliver(*text, flags.out, output);
}

}  // namespace stringline
