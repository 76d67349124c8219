#include "tools/training/run_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"
#include "tools/training/flight_records.h"

namespace stringline {
namespace {

void AppendCounts(const char* key, const std::vector<int64_t>& values, std::string* text,
                  const char* unit = "") {
  if (values.empty()) return;
  std::vector<std::string> items;
  for (const int64_t value : values) items.push_back(absl::StrCat(value, unit));
  absl::StrAppend(text, key, ": [", absl::StrJoin(items, ", "), "]\n");
}

void AppendCosts(const char* key, const std::vector<int64_t>& ns, std::string* text) {
  AppendCounts(key, ns, text, "ns");
}

// The names of RunFiles, in its order.
constexpr const char* kResults[] = {"measured.timeline", "simulated.timeline", "costs.yaml",
                                    "losses.csv"};

// The shortest text that is read back as the same bits.
std::string Shortest(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

std::string In(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

std::string PrintCosts(const CostModel& costs, int slices) {
  std::string text = "# Measured, one value per stage.\n";
  // Costs are of whole microbatches.
  const auto of_whole = [slices](std::vector<int64_t> ns) {
    for (int64_t& one : ns) one *= slices;
    return ns;
  };
  AppendCosts("F", of_whole(costs.forward), &text);
  AppendCosts("B", of_whole(costs.backward), &text);
  AppendCosts("I", of_whole(costs.input_gradient), &text);
  AppendCosts("W", of_whole(costs.weight_gradient), &text);
  for (const auto& [kind, of] : {std::pair(ActionKind::kRecompute, &costs.recompute),
                                 std::pair(ActionKind::kUpdate, &costs.update),
                                 std::pair(ActionKind::kOffload, &costs.offload),
                                 std::pair(ActionKind::kFetch, &costs.fetch)}) {
    if (std::count(of->begin(), of->end(), 0) == static_cast<int64_t>(of->size())) continue;
    AppendCosts(PrintedKind(kind), kind == ActionKind::kUpdate ? *of : of_whole(*of), &text);
  }
  AppendCosts("FB", of_whole(costs.forward_backward), &text);
  const bool has_parts = !costs.parts.empty() && slices == 1;  // slices have no costs of parts
  for (int part = 0; part < kParts && has_parts; ++part) {
    std::vector<int64_t> parts_ns;
    for (const PartCosts& of : costs.parts) parts_ns.push_back(of.ns[part]);
    AppendCosts(PartName(part), parts_ns, &text);
  }
  if (has_parts) {
    std::vector<int64_t> layers;
    for (const PartCosts& of : costs.parts) layers.push_back(of.layers);
    AppendCounts("layers", layers, &text);
    absl::StrAppendFormat(&text, "part_jitter: %.1f%%\n",
                          static_cast<double>(costs.part_jitter) * 1e-4);
  }
  AppendCosts("unshard", costs.unshard, &text);
  AppendCosts("reduce", costs.reduce, &text);
  if (!costs.unshard.empty() || !costs.reduce.empty()) {
    AppendCounts("buckets", costs.buckets, &text);
  }
  absl::StrAppend(&text, "p2p: ", costs.hop, "ns\n");
  return text;
}

absl::Status TryFolder(const std::string& folder, MadeFolders* made) {
  std::error_code error = made->Make(folder);
  if (error) {
    return absl::UnavailableError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  const std::string tried = In(folder, ".stringline-tries-to-write");
  const absl::Status written = WriteFileAtomically(tried, "x");
  std::filesystem::remove(tried, error);
  if (written.ok()) return written;
  return absl::UnavailableError(
      absl::StrCat("nothing can be written into the folder ", folder, ": ", written.message()));
}

absl::Status SetResultsAside(const std::string& folder) {
  std::vector<std::string> names = FlightRecordsIn(folder);
  names.insert(names.end(), std::begin(kResults), std::end(kResults));
  for (const std::string& name : names) {
    const std::string result = In(folder, name);
    std::error_code error;
    if (!std::filesystem::exists(result, error)) continue;
    std::filesystem::rename(result, result + ".old", error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(result, ": cannot be renamed: ", error.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LossFile> LossFile::Create(const std::string& folder, bool evaluates) {
  const std::string path = In(folder, kResults[3]);
  const std::string part = path + ".part";
  SL_ASSIGN_OR_RETURN(NewFile file, NewFile::CreateAs(path, part));
  SL_RETURN_IF_ERROR(file.Append(absl::StrCat("step,loss_nats,grad_norm,learning_rate",
                                              evaluates ? ",validation_nats\n" : "\n")));
  return LossFile(std::move(file), path, part, evaluates);
}

absl::Status LossFile::Add(const TrainStep& step) {
  std::string line = absl::StrCat(step.step, ",", Shortest(step.loss_nats), ",",
                                  Shortest(step.grad_norm), ",", Shortest(step.learning_rate));
  if (evaluates_) line += ",";
  if (evaluates_ && step.validation_nats) line += Shortest(*step.validation_nats);
  return file_.Append(line + "\n");
}

absl::StatusOr<RunFiles> WriteRunFiles(const std::string& folder, const TrainResult& result,
                                       LossFile* losses) {
  const RunFiles files{In(folder, kResults[0]), In(folder, kResults[1]), In(folder, kResults[2]),
                       In(folder, kResults[3])};
  absl::Status written = WriteFileAtomically(files.measured, Print(result.measured));
  if (written.ok()) written = WriteFileAtomically(files.simulated, Print(result.simulated));
  if (written.ok())
    written = WriteFileAtomically(files.costs, PrintCosts(result.costs, result.measured.slices));
  if (written.ok()) written = losses->Finish();
  std::error_code ignored;
  for (const char* const name : kResults) {
    std::filesystem::remove(In(folder, written.ok() ? absl::StrCat(name, ".old") : name), ignored);
  }
  for (const std::string& name : FlightRecordsIn(folder, ".old")) {
    if (written.ok()) std::filesystem::remove(In(folder, name), ignored);
  }
  if (!written.ok()) return written;
  return files;
}

}  // namespace stringline
