#include "tools/run_files.h"

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/status.h"
#include "tools/write_file.h"

namespace stringline {
namespace {

void AppendCosts(const char* key, const std::vector<int64_t>& values, std::string* text) {
  if (values.empty()) return;
  std::vector<std::string> items;
  for (const int64_t ns : values) items.push_back(absl::StrCat(ns, "ns"));
  absl::StrAppend(text, key, ": [", absl::StrJoin(items, ", "), "]\n");
}

std::string PrintLosses(const std::vector<double>& losses) {
  std::string text = "step,loss_nats\n";
  for (size_t i = 0; i < losses.size(); ++i) {
    absl::StrAppendFormat(&text, "%d,%.6f\n", i + 1, losses[i]);
  }
  return text;
}

}  // namespace

std::string PrintCosts(const CostModel& costs) {
  std::string text = "# Measured, one value per stage.\n";
  AppendCosts("F", costs.forward, &text);
  AppendCosts("B", costs.backward, &text);
  AppendCosts("I", costs.input_gradient, &text);
  AppendCosts("W", costs.weight_gradient, &text);
  AppendCosts("FB", costs.forward_backward, &text);
  absl::StrAppend(&text, "p2p: ", costs.hop, "ns\n");
  return text;
}

absl::Status PrepareFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(folder, ": cannot be made: ", error.message()));
}

absl::StatusOr<RunFiles> WriteRunFiles(const std::string& folder, const TrainResult& result) {
  const std::filesystem::path in(folder);
  const RunFiles files{(in / "measured.timeline").string(), (in / "simulated.timeline").string(),
                       (in / "costs.yaml").string(), (in / "losses.csv").string()};
  SL_RETURN_IF_ERROR(WriteFileAtomically(files.measured, Print(result.measured)));
  SL_RETURN_IF_ERROR(WriteFileAtomically(files.simulated, Print(result.simulated)));
  SL_RETURN_IF_ERROR(WriteFileAtomically(files.costs, PrintCosts(result.costs)));
  SL_RETURN_IF_ERROR(WriteFileAtomically(files.losses, PrintLosses(result.losses_nats)));
  return files;
}

}  // namespace stringline
