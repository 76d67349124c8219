#include "executor/training/shared_figures.h"

#include "executor/engine/packed_numbers.h"
#include "executor/engine/world_clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

int64_t NowOf(const void* device) { return static_cast<const Device*>(device)->NowNs(); }

}  // namespace

absl::StatusOr<std::unique_ptr<SharedFigures>> SharedFigures::Make(const TrainingJob* job,
                                                                   Pipelines* pipelines) {
  std::unique_ptr<SharedFigures> figures(new SharedFigures(job, pipelines));
  if (job->world() == nullptr) return figures;
  SL_RETURN_IF_ERROR(figures->ShareMemory());
  SL_RETURN_IF_ERROR(figures->FindClock());
  return figures;
}

absl::Status SharedFigures::ShareMemory() {
  World* const world = job_->world();
  PackedNumbers mine;
  for (const int rank : world->local()) {
    mine.Add(rank);
    mine.Add(rank_bytes_[rank].allocated);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(mine.bytes()));
  for (const std::string& told : all) {
    std::vector<int> ranks;
    for (NumberReader numbers(told); !numbers.done();) {
      ranks.push_back(numbers.Take<int>());
      rank_bytes_[ranks.back()].allocated = numbers.Take<int64_t>();
    }
    processes_.emplace_back(job_->mesh(), job_->plan().ranks(), ranks);
  }
  return absl::OkStatus();
}

absl::Status SharedFigures::FindClock() {
  SL_ASSIGN_OR_RETURN(const ClockOffset clock,
                      FindClockOffset(job_->world(), KernelName(), NowOf, job_->device()));
  clock_ahead_ns_ = clock.ahead_ns;
  return absl::OkStatus();
}

// Visits the stages that a process holds: visit(coordinate, stage).
template <typename Visit>
void SharedFigures::ForStagesOf(const LocalRanks& ranks, Visit visit) const {
  for (int c = 0; c < job_->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job_->stages(); ++s) {
      if (ranks.Has(c, job_->plan().stages[s].rank)) visit(c, StageId(s));
    }
  }
}

absl::Status SharedFigures::ShareStep() {
  World* const world = job_->world();
  if (world == nullptr) return absl::OkStatus();
  PackedNumbers mine;
  ForStagesOf(job_->local(), [&](int c, StageId stage) {
    for (const absl::Span<float> given : pipelines_->stages(c).Given(stage)) {
      mine.AddAll<float>(given);
    }
  });
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(mine.bytes()));
  for (int process = 0; process < world->processes(); ++process) {
    if (process == world->process()) continue;
    NumberReader numbers(all[process]);
    ForStagesOf(processes_[process], [&](int c, StageId stage) {
      for (const absl::Span<float> given : pipelines_->stages(c).Given(stage)) {
        numbers.TakeAll(given);
      }
    });
    SL_CHECK(numbers.done()) << "process " << process << " told more than was asked";
  }
  return absl::OkStatus();
}

absl::Status SharedFigures::GatherTimes() {
  World* const world = job_->world();
  if (world == nullptr || !job_->settings().record) return absl::OkStatus();
  const Plan& plan = job_->plan();
  const int coordinates = job_->mesh().coordinates();
  PackedNumbers mine;
  for (int c = 0; c < coordinates; ++c) {
    pipelines_->recorder(c)->Pack(plan, job_->local().Of(c), clock_ahead_ns_, &mine);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->GiveToFirst(mine.bytes()));
  for (int process = 1; process < world->processes() && world->process() == 0; ++process) {
    NumberReader numbers(all[process]);
    for (int c = 0; c < coordinates; ++c) {
      pipelines_->recorder(c)->Take(plan, processes_[process].Of(c), clock_ahead_ns_, &numbers);
    }
    SL_CHECK(numbers.done()) << "process " << process << " told more than was asked";
  }
  return absl::OkStatus();
}

absl::Status SharedFigures::ShareSquares(GradientNorm* norm) {
  World* const world = job_->world();
  if (world == nullptr) return absl::OkStatus();
  PackedNumbers mine;
  const int steps = job_->plan().steps;
  ForStagesOf(job_->local(), [&](int c, StageId stage) {
    for (int k = 0; k < steps; ++k) mine.AddAll<double>(norm->squares(k, c, stage));
  });
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(mine.bytes()));
  for (int process = 0; process < world->processes(); ++process) {
    NumberReader numbers(all[process]);
    ForStagesOf(processes_[process], [&](int c, StageId stage) {
      for (int k = 0; k < steps; ++k) numbers.TakeAll(norm->squares(k, c, stage));
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SharedFigures::ShareText(const std::string& text) {
  World* const world = job_->world();
  if (world == nullptr) return text;
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(text));
  for (const std::string& told : all) {
    if (!told.empty()) return told;
  }
  return std::string();
}

}  // namespace stringline
