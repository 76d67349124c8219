#include "executor/checkpoint/held_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr size_t kMostCopies = 2;

}  // namespace

bool HeldState::Has(const std::vector<Range>& ranges, const StateTensor::Part& part) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return range.first <= part.first && part.end() <= range.end();
  });
}

absl::Status HeldState::Take(int64_t step, const StepHistory& history, Trainer* trainer) {
  if (!copies_.empty() && copies_.front().step == step) return absl::OkStatus();
  Copy copy;
  // The memory of the oldest copy is used again.
  if (copies_.size() == kMostCopies) {
    copy = std::move(copies_.back());
    copies_.pop_back();
  }
  copy.step = step;
  copy.history = history;
  const std::vector<StateTensor> tensors = StateOf(*trainer);
  copy.tensors.resize(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<Range> taken;
    for (const StateTensor::Part& part : tensors[t].parts) {
      if (Has(taken, part)) continue;  // of another copy of the pipeline in this process
      Range range;
      if (taken.size() < copy.tensors[t].size()) range = std::move(copy.tensors[t][taken.size()]);
      range.first = part.first;
      for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
        range.of[kind].resize(part.of[kind].size());
        SL_RETURN_IF_ERROR(
            trainer->device()->CopyNow(range.of[kind].data(), part.of[kind].data(),
                                       static_cast<int64_t>(part.of[kind].size() * sizeof(float))));
      }
      taken.push_back(std::move(range));
    }
    copy.tensors[t] = std::move(taken);
  }
  copies_.push_front(std::move(copy));
  return absl::OkStatus();
}

std::vector<int64_t> HeldState::steps() const {
  std::vector<int64_t> steps;
  for (const Copy& copy : copies_) steps.push_back(copy.step);
  return steps;
}

void HeldState::GoOnFrom(int64_t step) {
  while (!copies_.empty() && copies_.front().step > step) copies_.pop_front();
  SL_CHECK(!copies_.empty() && copies_.front().step == step) << step;
  goes_on_ = true;
}

absl::StatusOr<HeldState::Restored> HeldState::Restore(Trainer* trainer) {
  SL_CHECK(goes_on_);
  const Copy& copy = copies_.front();
  const std::vector<StateTensor> tensors = StateOf(*trainer);
  SL_CHECK(tensors.size() == copy.tensors.size()) << tensors.size();
  for (size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<Range>& held = copy.tensors[t];
    for (const StateTensor::Part& part : tensors[t].parts) {
      const auto from = std::find_if(held.begin(), held.end(), [&part](const Range& range) {
        return range.first <= part.first && part.end() <= range.end();
      });
      if (from == held.end()) {
        return absl::FailedPreconditionError(
            absl::StrCat("heal: this process does not hold the values of ", tensors[t].param.name));
      }
      for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
        SL_RETURN_IF_ERROR(trainer->device()->CopyNow(
            part.of[kind].data(), from->of[kind].data() + (part.first - from->first),
            static_cast<int64_t>(part.of[kind].size() * sizeof(float))));
      }
    }
  }
  trainer->SetUpdates(copy.step);
  SL_RETURN_IF_ERROR(trainer->RefreshWorking());
  goes_on_ = false;
  return Restored{copy.step, copy.history};
}

}  // namespace stringline
