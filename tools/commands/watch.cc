// stringline watch: the figures of a running training, as it notes them.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "tools/commands/command.h"
#include "tools/io/stop_signals.h"
#include "tools/metrics/metrics_lines.h"
#include "tools/metrics/watched.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<Json> LastOf(const std::string& run) {
  std::error_code error;
  const bool is_folder = fs::is_directory(run, error);
  const std::string file = is_folder ? (fs::path(run) / "metrics.jsonl").string() : run;
  absl::StatusOr<Json> last = LastMetricsLine(file);
  if (last.ok() || !is_folder || fs::exists(file, error)) return last;
  return absl::NotFoundError(absl::StrCat(
      run, ": the run has no metrics.jsonl; 'metrics: {every: 10}' in its run file would help"));
}

absl::StatusOr<std::string> TableNow(const Json& line) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double noted_s = line.contains("time") ? line["time"].get<double>() : 0;
  return WatchTable(line, std::chrono::duration<double>(now).count() - noted_s);
}

bool IsLast(const Json& line) { return line.value("step", 0) == line.value("steps", -1); }

absl::Status Watch(const Flags& flags, const Output& output) {
  SL_ASSIGN_OR_RETURN(Json line, LastOf(flags.file));
  if (output.json) {
    Json json = {{"ok", true}};
    json.update(line);
    WriteJson(output.out, json);
    return absl::OkStatus();
  }
  const bool is_terminal = &output.out == &std::cout && isatty(STDOUT_FILENO) != 0;
  StopSignals signals;
  if (is_terminal) signals.Begin();
  while (true) {
    SL_ASSIGN_OR_RETURN(const std::string table, TableNow(line));
    if (is_terminal) output.out << "\x1b[H\x1b[2J";  // the cursor to the top, all cleared
    output.out << table << std::flush;
    if (!is_terminal || IsLast(line)) return absl::OkStatus();
    for (int tenths = 0; tenths < 10; ++tenths) {
      if (signals.came() != 0) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    SL_ASSIGN_OR_RETURN(line, LastOf(flags.file));
  }
}

}  // namespace

int RunWatch(const Flags& flags, const Output& output) {
  const absl::Status status = Watch(flags, output);
  return status.ok() ? kOk : Fail(output, status.message());
}

}  // namespace stringline
