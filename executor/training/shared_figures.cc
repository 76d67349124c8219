#include "executor/training/shared_figures.h"

#include "absl/strings/str_cat.h"
#include "executor/engine/packed_numbers.h"
#include "executor/engine/world_clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

int64_t NowOf(const void* device) { return static_cast<const Device*>(device)->NowNs(); }

void Append(const ExactSum& sum, std::vector<uint64_t>* words) {
  const ExactSum::Words of = sum.words();
  words->insert(words->end(), of.begin(), of.end());
}

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
    mine.Add(rank_bytes_[rank].planned);
    mine.Add(rank_bytes_[rank].allocated);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->GiveToFirst(mine.bytes()));
  if (!IsFirst(world)) return absl::OkStatus();
  for (const std::string& told : all) {
    std::vector<int> ranks;
    for (NumberReader numbers(told); !numbers.done();) {
      ranks.push_back(numbers.Take<int>());
      RankBytes& bytes = rank_bytes_[ranks.back()];
      bytes.planned = numbers.Take<int64_t>();
      bytes.allocated = numbers.Take<int64_t>();
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

absl::Status SharedFigures::ShareStep() {
  World* const world = job_->world();
  for (size_t k = 0; k < sums_.size(); ++k) sums_[k] = pipelines_->SumsOf(static_cast<int>(k));
  if (world == nullptr) return absl::OkStatus();
  words_.clear();
  for (const StepSums& sums : sums_) {
    Append(sums.losses, &words_);
    Append(sums.balance_losses, &words_);
    words_.push_back(static_cast<uint64_t>(sums.dropped));
  }
  SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(words_)));
  for (size_t k = 0; k < sums_.size(); ++k) {
    const auto all = absl::MakeConstSpan(words_).subspan(k * kResultWords, kResultWords);
    sums_[k] = {ExactSum::FromWords(all.subspan(0, ExactSum::kWords)),
                ExactSum::FromWords(all.subspan(ExactSum::kWords, ExactSum::kWords)),
                static_cast<int64_t>(all.back())};
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const double>> SharedFigures::ShareSquares(const GradientNorm& norm) {
  World* const world = job_->world();
  words_.clear();
  for (int k = 0; k < job_->plan().steps; ++k) Append(norm.SumOfSquares(k), &words_);
  if (world != nullptr) SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(words_)));
  squares_.clear();
  for (size_t at = 0; at < words_.size(); at += kSquareWords) {
    squares_.push_back(
        ExactSum::FromWords(absl::MakeConstSpan(words_).subspan(at, kSquareWords)).Rounded());
  }
  return absl::MakeConstSpan(squares_);
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

absl::StatusOr<std::string> SharedFigures::ShareFirst(const GradientNorm::BadGradient& mine) {
  World* const world = job_->world();
  if (world == nullptr) return mine.text;
  PackedNumbers packed;
  packed.Add(mine.place);
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      world->Exchange(absl::StrCat(packed.bytes(), mine.text)));
  GradientNorm::BadGradient first;
  for (const std::string& told : all) {
    const absl::string_view place = absl::string_view(told).substr(0, sizeof(first.place));
    const auto theirs = NumberReader(place).Take<int64_t>();
    if (theirs < 0 || (first.place >= 0 && first.place < theirs)) continue;
    first = {theirs, told.substr(place.size())};
  }
  SL_CHECK(first.place >= 0) << "every gradient is finite, but not their sum";
  return first.text;
}

}  // namespace stringline
