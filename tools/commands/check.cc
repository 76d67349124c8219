// stringline check: proves a plan, or says what is wrong with it and where.
#include "schedlang/check.h"

#include "absl/strings/str_cat.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/load.h"

namespace stringline {
namespace {

int64_t ComputeActions(const Plan& plan) {
  int64_t count = 0;
  for (const Action& action : plan.actions) count += IsCompute(action.kind) ? 1 : 0;
  return count;
}

void PrintProof(const Plan& lowered, std::ostream& out) {
  const std::string parameters = PrintParameters(lowered);
  out << "ok: " << lowered.schedule << (parameters.empty() ? "" : " ") << parameters << ": "
      << ComputeActions(lowered) << " actions on " << lowered.ranks()
      << (lowered.ranks() == 1 ? " rank" : " ranks") << "; proven:";
  const char* separator = " ";
  for (const Rule& rule : Rules()) {
    out << separator << rule.name;
    separator = ", ";
  }
  out << "\n";
}

Json ProofAsJson(const Plan& lowered) {
  Json rules = Json::array();
  for (const Rule& rule : Rules()) rules.push_back(rule.name);
  return {{"ok", true},
          {"schedule", lowered.schedule},
          {"parameters", ParametersAsJson(lowered.parameters)},
          {"ranks", lowered.ranks()},
          {"actions", ComputeActions(lowered)},
          {"proven", std::move(rules)},
          {"findings", Json::array()}};
}

}  // namespace

int RunCheck(const Flags& flags, const Output& output) {
  if (!flags.ranges.empty()) return RunCheckFor(flags, output);
  const absl::StatusOr<LoadedPlan> loaded = LoadCheckedPlan(flags);
  if (!loaded.ok()) return Fail(output, loaded.status().message());
  // Findings are what was asked for here, so they are the answer.
  if (!loaded->plan) return ShowFindings(output, output.out, loaded->diagnostics, loaded->source);
  if (output.json) {
    WriteJson(output.out, ProofAsJson(*loaded->plan));
  } else {
    PrintProof(*loaded->plan, output.out);
  }
  return kOk;
}

}  // namespace stringline
