#include "tools/metrics/metrics_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr double kSecond = 1e9;

Json RanksAsJson(const StepMetrics& metrics) {
  Json ranks = Json::array();
  for (const RankMetrics& rank : metrics.ranks) {
    Json one = {{"name", rank.name},    {"step_us", Microseconds(rank.step_ns)},
                {"busy", rank.busy},    {"waits_us", Microseconds(rank.waits_ns)},
                {"waits_for", nullptr}, {"waits_for_us", Microseconds(rank.waits_for_ns)},
                {"bytes", rank.bytes}};
    if (rank.waits_for >= 0) one["waits_for"] = rank.waits_for;
    ranks.push_back(std::move(one));
  }
  return ranks;
}

// The whole lines of a file that are of steps up to `step`.
std::string LinesUpTo(const std::string& path, int64_t step) {
  std::ifstream file(path);
  std::string kept, line;
  while (std::getline(file, line) && !file.eof()) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || json["step"] > step) continue;
    absl::StrAppend(&kept, line, "\n");
  }
  return kept;
}

}  // namespace

Json MetricsAsJson(const StepMetrics& metrics, double time_s) {
  const TrainStep& step = metrics.step;
  Json json = {{"step", step.step},
               {"steps", metrics.steps},
               {"time", time_s},
               {"loss_nats", step.loss_nats},
               {"grad_norm", step.grad_norm},
               {"learning_rate", step.learning_rate},
               {"step_seconds", static_cast<double>(metrics.wall_ns) / kSecond},
               {"tokens_per_second", metrics.tokens_per_second},
               {"makespan_us", Microseconds(metrics.makespan_ns)},
               {"bubble", metrics.bubble},
               {"causes", Json::object()},
               {"checkpoint_age_seconds", nullptr},
               {"ranks", RanksAsJson(metrics)},
               {"slow", Json::array()}};
  if (step.validation_nats) json["validation_nats"] = *step.validation_nats;
  if (metrics.checkpoint_age_s) json["checkpoint_age_seconds"] = *metrics.checkpoint_age_s;
  for (int k = 0; k < kIdleCauses; ++k) {
    const double share = metrics.causes[static_cast<size_t>(k)];
    if (share > 0) json["causes"][NameOf(static_cast<IdleCause>(k))] = share;
  }
  for (const SlowAction& slow : metrics.slow) {
    json["slow"].push_back({{"rank", slow.rank},
                            {"stage", slow.stage},
                            {"action", slow.action},
                            {"ratio", slow.ratio},
                            {"since", slow.since}});
  }
  return json;
}

absl::StatusOr<MetricsLines> MetricsLines::Open(const std::string& path, int64_t step) {
  SL_ASSIGN_OR_RETURN(NewFile begun, NewFile::Create(path));
  SL_RETURN_IF_ERROR(begun.Append(step > 0 ? LinesUpTo(path, step) : ""));
  SL_RETURN_IF_ERROR(begun.Commit());
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", strerror(errno)));
  }
  return MetricsLines(file, path);
}

MetricsLines::MetricsLines(MetricsLines&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

MetricsLines::~MetricsLines() {
  if (file_ >= 0) (void)close(file_);
}

absl::Status MetricsLines::Add(const Json& line) {
  const int error = WriteAll(file_, absl::StrCat(line.dump(), "\n"));
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": cannot be written: ", strerror(error)));
}

absl::StatusOr<Json> LastMetricsLine(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  // A line is longer for more ranks: the end of the file is read in growing pieces.
  file.seekg(0, std::ios::end);
  const auto size = static_cast<int64_t>(file.tellg());
  for (int64_t piece = 1 << 16;; piece *= 4) {
    const int64_t from = std::max<int64_t>(0, size - piece);
    std::string text(static_cast<size_t>(size - from), '\0');
    file.clear();
    file.seekg(from);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    const size_t end = text.rfind('\n');
    const size_t before = end == std::string::npos || end == 0 ? end : text.rfind('\n', end - 1);
    if (end != std::string::npos && (before != std::string::npos || from == 0)) {
      const size_t begin = before == std::string::npos || end == 0 ? 0 : before + 1;
      Json json = Json::parse(text.substr(begin, end - begin), nullptr, false);
      if (json.is_object()) return json;
      return absl::NotFoundError(absl::StrCat(path, ": the last line is no step of a run"));
    }
    if (from == 0) return absl::NotFoundError(absl::StrCat(path, ": no step has been noted yet"));
  }
}

}  // namespace stringline
