// stringline diagnose: what is wrong in the dumps that flight recorders left of a hang. Each file
// is read by itself and reduced to its calls; the diagnosis is a function of the calls of all.
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "tools/answers/diagnosis.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostDumpBytes = uint64_t{256} << 20;

// The files by rank; a folder stands for those in it that have a rank in their names.
absl::StatusOr<std::map<int, std::string>> FilesByRank(const std::vector<std::string>& paths) {
  std::map<int, std::string> files;
  const auto add = [&](int rank, const std::string& file) {
    const auto [found, is_new] = files.try_emplace(rank, file);
    if (is_new) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": rank ", rank, " has a dump already: ", found->second));
  };
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      const int rank = RankOfName(path);
      if (rank < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": its name has no rank at its end, as nccl_trace_rank_3 has"));
      }
      SL_RETURN_IF_ERROR(add(rank, path));
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path, error)) {
      const int rank = RankOfName(entry.path().string());
      if (rank < 0 || !entry.is_regular_file(error)) continue;
      SL_RETURN_IF_ERROR(add(rank, entry.path().string()));
    }
    if (files.size() == before) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": no file of the folder has a rank at the end of its name"));
    }
  }
  return files;
}

absl::StatusOr<Records> ReadRecords(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(const auto files, FilesByRank(flags.files));
  if (flags.ranks > 0 && files.rbegin()->first >= flags.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        files.rbegin()->second, ": rank ", files.rbegin()->first, " of --ranks ", flags.ranks));
  }
  RecordCollector collector;
  for (const auto& [rank, file] : files) {
    SL_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(file, kMostDumpBytes));
    const absl::Status added = collector.Add(rank, file, bytes);
    if (!added.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": ", added.message()));
    }
  }
  Records records = collector.Finish(flags.ranks > 0 ? flags.ranks : 0);
  for (const RankRecord& rank : records.ranks) {
    if (rank.cut_short.empty()) return records;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(records.ranks[0].file, ": ", records.ranks[0].cut_short));
}

}  // namespace

int RunDiagnose(const Flags& flags, const Output& output) {
  if (flags.dumped_schedule.empty() && !flags.parameters.empty()) {
    return Fail(output, "parameters are those of a schedule, which --schedule names");
  }
  const CommLayout layout = ReadCommLayout(flags.layout).value_or(CommLayout::kPair);
  std::optional<Plan> plan;
  std::optional<DiagnosedPlan> planned;
  if (!flags.dumped_schedule.empty()) {
    Flags of_schedule = flags;
    of_schedule.file = flags.dumped_schedule;
    absl::StatusOr<Session> session = OpenPlanOf(of_schedule);
    if (!session.ok()) return Fail(output, session.status().message());
    if (!session->plan) {
      ShowFindings(output, output.err, session->diagnostics, session->source);
      return kUsage;
    }
    if (session->plan->window > 0) {
      return Fail(output, absl::StrCat(session->plan->schedule,
                                       " has a window: its messages have no order in the lists"));
    }
    plan = LoweredPlan(*std::move(session->plan), layout);
    planned.emplace(DiagnosedPlan{*plan, PlannedMessages(*plan)});
  }
  const absl::StatusOr<Records> records = ReadRecords(flags);
  if (!records.ok()) return Fail(output, records.status().message());
  const Diagnosis diagnosis = Diagnose(*records, layout);
  if (output.json) {
    WriteJson(output.out, DiagnosisAsJson(*records, diagnosis, planned));
  } else {
    PrintDiagnosis(*records, diagnosis, planned, output.out);
  }
  return diagnosis.IsClean() ? kOk : kFindings;
}

}  // namespace stringline
