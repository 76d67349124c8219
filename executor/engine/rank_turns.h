// The turns of a rank's computations in ready order (schedlang/plan/ready.h). A computation is
// ready when its messages have come and those of the rank that give it values have ended. Behind
// the last computation of a step all begins anew.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "executor/engine/device.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/ready.h"

namespace stringline {

class RankTurns final : public Turns {
 public:
  // Numbers are indices into lowered.actions; the plan outlives the turns.
  RankTurns(const Plan& lowered, RankId rank, const ValueTakers& graph, const ReadyRoom& room)
      : plan_(lowered),
        first_(lowered.first[rank.value]),
        whole_(lowered, rank, room),
        left_(whole_),
        takers_(lowered.of(rank).size()),
        waiting_(takers_.size()) {
    for (uint32_t i = 0; i < takers_.size(); ++i) {
      needs_.push_back(graph.needs()[first_ + i]);
      for (const uint32_t taker : graph.TakersOf(first_ + i)) {
        if (RankOf(lowered, lowered.actions[taker]) == rank) takers_[i].push_back(taker);
      }
    }
    missing_ = needs_;
  }

  void Begin() override { begun_ = true; }
  void Come(uint32_t number) override { --missing_[number - first_]; }
  void End(uint32_t number) override {
    turn_ = ReadyList::kNone;
    for (const uint32_t taker : takers_[number - first_]) --missing_[taker - first_];
    if (!left_.empty()) return;
    left_ = whole_;
    missing_ = needs_;
    begun_ = false;
  }
  bool Take(uint32_t number, StreamId stream) override {
    if (turn_ == number) return true;
    waiting_[number - first_] = stream;
    return false;
  }
  StreamId Next() override {
    if (!begun_ || turn_ != ReadyList::kNone) return StreamId();
    turn_ = left_.First([this](uint32_t number) { return missing_[number - first_] == 0; });
    if (turn_ == ReadyList::kNone) return StreamId();
    left_.Perform(turn_);
    return std::exchange(waiting_[turn_ - first_], StreamId());
  }
  std::string Describe(uint32_t number) const override {
    return "its turn for " + PrintWithLine(plan_, plan_.actions[number]);
  }

 private:
  const Plan& plan_;
  const uint32_t first_;   // the rank's first action
  const ReadyList whole_;  // of a step
  ReadyList left_;
  std::vector<std::vector<uint32_t>> takers_;  // by action of the rank, as the next ones: on it
  std::vector<uint8_t> needs_;                 // values that others give it
  std::vector<uint8_t> missing_;               // those that are not there
  std::vector<StreamId> waiting_;              // its stream, where that waits for its turn
  uint32_t turn_ = ReadyList::kNone;           // the computation that has the turn
  bool begun_ = false;
};

}  // namespace stringline
