// What the processes of a run tell each other, so that each has the losses, the norm and the times
// of all ranks. A process packs what its ranks have, in an order that all know: by coordinate, rank
// and stage.
#include "absl/strings/str_cat.h"
#include "executor/packed_numbers.h"
#include "executor/trainer.h"
#include "executor/world_clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

int64_t NowOf(const void* device) { return static_cast<const Device*>(device)->NowNs(); }

}  // namespace

absl::Status Trainer::GiveUp(absl::Status status) {
  if (status.ok() || world() == nullptr) return status;
  status = backend_->groups()->Agree(status);
  world()->Fail(status);
  return status;
}

// Visits the stages that a process holds: visit(coordinate, stage).
template <typename Visit>
void Trainer::ForStagesOf(const LocalRanks& ranks, Visit visit) {
  for (int c = 0; c < settings_.mesh.coordinates(); ++c) {
    for (size_t s = 0; s < programs_.size(); ++s) {
      if (ranks.Has(c, plan_.stages[s].rank)) visit(c, StageId(static_cast<int32_t>(s)));
    }
  }
}

absl::Status Trainer::ShareMemory() {
  rank_bytes_.clear();
  for (const PipelineCopy& copy : copies_) {
    const std::vector<RankBytes> ranks = copy.stages->rank_bytes();
    rank_bytes_.insert(rank_bytes_.end(), ranks.begin(), ranks.end());
  }
  if (world() == nullptr) return absl::OkStatus();
  PackedNumbers mine;
  for (const int rank : world()->local()) {
    mine.Add(rank);
    mine.Add(rank_bytes_[rank].allocated);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world()->Exchange(mine.bytes()));
  for (const std::string& told : all) {
    std::vector<int> ranks;
    for (NumberReader numbers(told); !numbers.done();) {
      ranks.push_back(numbers.Take<int>());
      rank_bytes_[ranks.back()].allocated = numbers.Take<int64_t>();
    }
    processes_.emplace_back(settings_.mesh, plan_.ranks(), ranks);
  }
  SL_ASSIGN_OR_RETURN(const ClockOffset clock,
                      FindClockOffset(world(), KernelName(), NowOf, device()));
  clock_ahead_ns_ = clock.ahead_ns;
  return absl::OkStatus();
}

absl::Status Trainer::Share() {
  if (world() == nullptr) return absl::OkStatus();
  Say("has computed its gradients, and exchanges losses");
  PackedNumbers mine;
  ForStagesOf(local_, [&](int c, StageId stage) {
    for (const absl::Span<float> given : copies_[c].stages->Given(stage)) {
      mine.AddAll<float>(given);
    }
  });
  for (size_t c = 0; c < copies_.size() && settings_.record; ++c) {
    copies_[c].recorder->Pack(plan_, local_.Of(static_cast<int>(c)), clock_ahead_ns_, &mine);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world()->Exchange(mine.bytes()));
  for (int process = 0; process < world()->processes(); ++process) {
    if (process == world()->process()) continue;
    const LocalRanks& ranks = processes_[process];
    NumberReader numbers(all[process]);
    ForStagesOf(ranks, [&](int c, StageId stage) {
      for (const absl::Span<float> given : copies_[c].stages->Given(stage)) {
        numbers.TakeAll(given);
      }
    });
    for (size_t c = 0; c < copies_.size() && settings_.record; ++c) {
      copies_[c].recorder->Take(plan_, ranks.Of(static_cast<int>(c)), clock_ahead_ns_, process == 0,
                                &numbers);
    }
    SL_CHECK(numbers.done()) << "process " << process << " told more than was asked";
  }
  return absl::OkStatus();
}

absl::Status Trainer::ShareSquares() {
  if (world() == nullptr) return absl::OkStatus();
  Say("exchanges the norms of its gradients");
  PackedNumbers mine;
  ForStagesOf(local_,
              [&](int c, StageId stage) { mine.AddAll<double>(copies_[c].squares[stage.value]); });
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world()->Exchange(mine.bytes()));
  for (int process = 0; process < world()->processes(); ++process) {
    NumberReader numbers(all[process]);
    ForStagesOf(processes_[process],
                [&](int c, StageId stage) { numbers.TakeAll(copies_[c].squares[stage.value]); });
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Trainer::ShareText(const std::string& text) {
  if (world() == nullptr) return text;
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world()->Exchange(text));
  for (const std::string& told : all) {
    if (!told.empty()) return told;
  }
  return std::string();
}

}  // namespace stringline
