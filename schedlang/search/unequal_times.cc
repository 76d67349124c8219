#include "schedlang/search/unequal_times.h"

#include <algorithm>

namespace stringline::search {

UnequalTimes::UnequalTimes(const Problem& problem) {
  if (!problem.is_unequal()) return;
  first_.push_back(0);
  for (const StageWork& stage : problem.stages) {
    for (const size_t kind : {kForwardAt, kWholeAt, kInputAt, kWeightAt}) {
      for (const MicrobatchWork& one : stage.each) {
        const MessageTime& message = kind == kForwardAt ? one.activation : one.gradient;
        each_.push_back({one.time[kind], message.transfer});
      }
    }
    first_.push_back(first_.back() + stage.each.size());
  }
  base_.assign(first_.back(), 0);
  trial_ = base_;
  done_.resize(problem.stages.size());
}

bool UnequalTimes::AnyTransfers(Letter letter) const {
  const auto s = static_cast<size_t>(StageOf(letter));
  const auto begin = each_.begin() + static_cast<std::ptrdiff_t>(At(letter, 0));
  return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(first_[s + 1] - first_[s]),
                     [](const Times& times) { return times.transfer > 0; });
}

void UnequalTimes::Restore() {
  for (size_t s = 0; s < touched_.size(); ++s) {
    const size_t from = first_[s] + static_cast<size_t>(touched_[s].inputs);
    std::copy_n(base_.begin() + static_cast<std::ptrdiff_t>(from), first_[s + 1] - from,
                trial_.begin() + static_cast<std::ptrdiff_t>(from));
  }
}

}  // namespace stringline::search
