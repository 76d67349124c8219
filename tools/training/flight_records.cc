#include "tools/training/flight_records.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"

namespace stringline {
namespace {

constexpr const char* kPrefix = "flight-";
constexpr const char* kSuffix = ".timeline";

// The timeline with the comments after its first line.
std::string TextOf(const FlightLog& flight, int coordinate, absl::string_view why) {
  std::string text = Print(flight.Record(coordinate));
  std::string comments = absl::StrCat("# ", absl::StrReplaceAll(why, {{"\n", " "}}), "\n");
  for (const std::string& line : flight.DescribeSteps(coordinate)) {
    absl::StrAppend(&comments, "# ", line, "\n");
  }
  return text.insert(text.find('\n') + 1, comments);
}

absl::StatusOr<std::vector<std::string>> Write(const std::string& folder, int process,
                                               const std::string& ending, absl::string_view why,
                                               const FlightLog& flight) {
  std::vector<std::string> files;
  if (flight.steps() == 0) return files;
  for (int c = 0; c < flight.coordinates(); ++c) {
    if (!flight.HoldsRanksOf(c)) continue;
    const std::string name =
        absl::StrCat(kPrefix, process, files.empty() ? "" : absl::StrCat("-", c), ending, kSuffix);
    files.push_back((std::filesystem::path(folder) / name).string());
    SL_RETURN_IF_ERROR(WriteFileAtomically(files.back(), TextOf(flight, c, why)));
  }
  return files;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WriteFlightRecords(const std::string& folder, int process,
                                                            const absl::Status& error,
                                                            const FlightLog& flight) {
  return Write(folder, process, "", error.message(), flight);
}

absl::StatusOr<std::vector<std::string>> WriteAskedRecords(const std::string& folder, int process,
                                                           int64_t number,
                                                           const FlightLog& flight) {
  const int64_t step = flight.steps();
  return Write(folder, process, absl::StrCat("-asked-", number, "-step-", step),
               absl::StrCat("asked for by SIGUSR2 in step ", step), flight);
}

std::vector<std::string> FlightRecordsIn(const std::string& folder, const std::string& ending) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kSuffix + ending))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace stringline
