#include "tools/metrics/run_metrics.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/training/trainer.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

double SecondsSince1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// The age of the newest checkpoint; nothing before the first one.
std::optional<double> CheckpointAge(const CheckpointWish& wish) {
  if (wish.every == 0) return std::nullopt;
  const auto found = FindCheckpoints(wish.folder);
  if (found.empty()) return std::nullopt;
  std::error_code error;
  const fs::file_time_type taken = fs::last_write_time(found.front().folder, error);
  if (error) return std::nullopt;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - taken).count();
}

}  // namespace

std::string MetricsFile(const RunConfig& config, const std::string& out) {
  return config.metrics.file.empty() ? (fs::path(out) / "metrics.jsonl").string()
                                     : config.metrics.file;
}

absl::StatusOr<std::unique_ptr<RunMetrics>> RunMetrics::Open(const RunConfig& config,
                                                             const std::string& out, int64_t step,
                                                             Warn warn) {
  if (config.metrics.every == 0) return nullptr;
  std::unique_ptr<ScrapeEndpoint> endpoint;
  if (!config.metrics.prometheus.empty()) {
    SL_ASSIGN_OR_RETURN(endpoint, ScrapeEndpoint::Open(config.metrics.prometheus));
  }
  SL_ASSIGN_OR_RETURN(MetricsLines lines, MetricsLines::Open(MetricsFile(config, out), step));
  std::unique_ptr<RunMetrics> metrics(new RunMetrics(config, std::move(lines), std::move(warn)));
  metrics->endpoint_ = std::move(endpoint);
  if (!config.metrics.tensorboard.empty()) {
    SL_ASSIGN_OR_RETURN(EventFile events,
                        EventFile::Create(config.metrics.tensorboard, SecondsSince1970()));
    metrics->events_.emplace(std::move(events));
  }
  return metrics;
}

absl::Status RunMetrics::Add(const TrainStep& step, Trainer& trainer) {
  const int steps = trainer.plan().steps;
  if (step.step % steps != 0) return absl::OkStatus();  // the timeline is of all of them
  const int64_t now_ns = NowNs();
  const int64_t wall_ns = last_ns_ == 0 ? 0 : (now_ns - last_ns_) / steps;
  last_ns_ = now_ns;
  const bool due = IsDue(config_.metrics.every, step.step - steps, step.step);
  if (!due && step.step != config_.steps) return absl::OkStatus();
  std::vector<Timeline> measured;
  for (int c = 0; c < trainer.mesh().coordinates(); ++c) measured.push_back(trainer.Measured(c));
  slow_.Add(step.step, trainer.plan(), measured);
  for (const SlowAction& slow : slow_.found()) WarnOf(slow, trainer);
  StepMetrics metrics;
  metrics.step = step;
  metrics.steps = config_.steps;
  metrics.wall_ns = wall_ns;
  if (wall_ns > 0) {
    metrics.tokens_per_second =
        static_cast<double>(trainer.tokens_per_step()) / (static_cast<double>(wall_ns) * 1e-9);
  }
  AddTimelines(trainer.plan(), trainer.links(), measured, &metrics);
  const std::vector<RankBytes> bytes = trainer.rank_bytes();
  for (size_t r = 0; r < metrics.ranks.size(); ++r) {
    metrics.ranks[r].name = NameOfRank(trainer.world(), static_cast<int>(r));
    metrics.ranks[r].bytes = bytes[r].allocated;
  }
  metrics.checkpoint_age_s = CheckpointAge(config_.checkpoint);
  metrics.slow = slow_.now();
  return Write(metrics);
}

absl::Status RunMetrics::Write(const StepMetrics& metrics) {
  const double time_s = SecondsSince1970();
  SL_RETURN_IF_ERROR(lines_.Add(MetricsAsJson(metrics, time_s)));
  if (endpoint_ != nullptr) endpoint_->Set(metrics);
  if (!events_) return absl::OkStatus();
  const TrainStep& step = metrics.step;
  Scalars scalars = {{"loss", step.loss_nats},
                     {"grad_norm", step.grad_norm},
                     {"learning_rate", step.learning_rate},
                     {"tokens_per_second", metrics.tokens_per_second},
                     {"step_seconds", static_cast<double>(metrics.wall_ns) * 1e-9},
                     {"bubble", metrics.bubble}};
  if (step.validation_nats) scalars.emplace_back("validation_loss", *step.validation_nats);
  for (size_t r = 0; r < metrics.ranks.size(); ++r) {
    scalars.emplace_back(absl::StrCat("busy/rank_", r), metrics.ranks[r].busy);
  }
  return events_->Add(step.step, time_s, scalars);
}

void RunMetrics::WarnOf(const SlowAction& slow, Trainer& trainer) const {
  warn_(absl::StrFormat(
      "%s takes %.2f of %s in %s of stage %d since step %d", NameOfRank(trainer.world(), slow.rank),
      slow.ratio, trainer.mesh().coordinates() >= 3 ? "the median of its copies" : "its usual time",
      slow.action, slow.stage, slow.since));
}

}  // namespace stringline
