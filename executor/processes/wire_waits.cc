#include "executor/processes/wire_waits.h"

#include <algorithm>
#include <functional>

#include "schedlang/base/clock.h"

namespace stringline {

int WireWaits::Add(const Onward& onward, int count) {
  int waiting = 0;
  if (free_.empty()) {
    waiting = static_cast<int>(waiting_.size());
    waiting_.emplace_back();
  } else {
    waiting = free_.back();
    free_.pop_back();
  }
  waiting_[waiting] = {onward, count};
  return waiting;
}

void WireWaits::Done(int waiting) {
  Waiting& done = waiting_[waiting];
  if (--done.left > 0) return;
  if (done.onward.held_ns == 0) return GoOn(waiting);
  holds_.push_back({NowNs() + done.onward.held_ns, waiting});
  std::push_heap(holds_.begin(), holds_.end(), std::greater<>());
  wake_->Wake();
}

void WireWaits::GoOn(int waiting) {
  const Onward& onward = waiting_[waiting].onward;
  if (onward.ended_ns != nullptr) NoteNs(onward.ended_ns, device_->NowNs());
  free_.push_back(waiting);
  device_->GoOn(onward.stream);
}

int64_t WireWaits::EndHolds() {
  while (!holds_.empty() && holds_.front().due_ns <= NowNs()) {
    std::pop_heap(holds_.begin(), holds_.end(), std::greater<>());
    const int waiting = holds_.back().waiting;
    holds_.pop_back();
    GoOn(waiting);
  }
  return holds_.empty() ? 0 : holds_.front().due_ns;
}

}  // namespace stringline
