// Work that detects two live values sharing a byte, and work that runs before its dependencies.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "executor/engine/stage_work.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/effects.h"

namespace stringline {

// Up to four times the alignment, not always a multiple.
inline uint32_t RandomWords(std::mt19937& random) {
  return 1 + static_cast<uint32_t>(random() % 64);
}

// Random sizes. A first stage's input and a last stage's gradient have no producer; a last stage
// has no output. A message is as large at both ends.
inline std::vector<StageSizes> RandomSizes(const Plan& plan, std::mt19937& random) {
  std::vector<StageSizes> sizes(plan.stages.size());
  for (StageSizes& size : sizes) {
    size.in_parts = random() % 2 == 0;
    for (int64_t& bytes : size.of_microbatch.bytes) bytes = RandomWords(random) * sizeof(uint32_t);
  }
  for (size_t s = 0; s < sizes.size(); ++s) {
    StageBytes& own = sizes[s].of_microbatch;
    const StageId next = plan.graph.Behind(StageId(static_cast<int32_t>(s)));
    own[StageValue::kOutput] =
        next.valid() ? sizes[next.value].of_microbatch[StageValue::kInput] : 0;
    if (!next.valid()) own[StageValue::kOutGrad] = 0;
    if (next.valid()) {
      sizes[next.value].of_microbatch[StageValue::kInGrad] = own[StageValue::kOutGrad];
    }
    if (plan.graph.In(StageId(static_cast<int>(s))).empty())
      own[StageValue::kInput] = own[StageValue::kInGrad] = 0;
  }
  return sizes;
}

// Work that fills every value that it produces with the value's pattern, and checks that every
// value that it consumes still holds its pattern, after random delays.
class Canaries final : public StageWork {
 public:
  Canaries(const Plan& plan, Device* device, unsigned seed, bool delays = true)
      : plan_(plan), random_(seed), delays_(delays) {
    sizes_ = RandomSizes(plan, random_);
    auto memory = PlanMemory(plan, sizes_);
    SL_CHECK(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    for (const RankMemory& rank : memory_.ranks) {
      blocks_.push_back(static_cast<char*>(*device->Allocate(rank.block)));
      hosts_.push_back(static_cast<char*>(*device->AllocateHost(rank.host)));
    }
    for (const Action& action : plan.actions) {
      if (action.kind == ActionKind::kFetch) fetched_.insert({action.stage, action.microbatch});
    }
  }

  Piece Compute(const Action& action, LayerPart part) override {
    if (part.part == kWPost && action.kind == ActionKind::kBackward) return {};
    using C = StageValue;
    Task& task = tasks_.emplace_back();
    task.owner = this;
    task.delay_us = delays_ && random_() % 4 == 0 ? static_cast<int>(random_() % 200) : 0;
    switch (action.kind) {
      case ActionKind::kForward:
        if (plan_.stage(action.stage).remakes) {
          Fill(action, {C::kInput}, {C::kKept, C::kOutput}, &task);
        } else {
          Fill(action, {C::kInput}, {C::kSavedForInput, C::kSavedForWeight, C::kOutput}, &task);
        }
        break;
      case ActionKind::kRecompute:
        Fill(action, {C::kKept}, {C::kSavedForInput, C::kSavedForWeight}, &task);
        break;
      case ActionKind::kBackward:
        Fill(action, {C::kSavedForInput, C::kSavedForWeight, C::kOutGrad}, {C::kInGrad}, &task);
        if (sizes_[action.stage.value].in_parts) Fill(action, {}, {C::kStash}, &task);
        break;
      case ActionKind::kInputGradient:
        Fill(action, {C::kSavedForInput, C::kSavedForWeight, C::kOutGrad}, {C::kInGrad, C::kStash},
             &task);
        break;
      default:
        Fill(action, {C::kSavedForWeight, C::kStash}, {}, &task);
    }
    return Piece{{Run, &task, 0}, {}, {}};
  }

  // An update touches no value of a microbatch.
  absl::StatusOr<Piece> Update(const Action& /*action*/) override {
    return Piece{{[](const void*, int64_t, NativeStream) {}, nullptr, 0}, {}, {}};
  }

  absl::StatusOr<Work> Copy(const Action& action) override {
    using C = StageValue;
    Task& task = tasks_.emplace_back();
    task.owner = this;
    task.delay_us = delays_ && random_() % 4 == 0 ? static_cast<int>(random_() % 200) : 0;
    const bool remakes = plan_.stage(action.stage).remakes;
    const std::vector<C> kept =
        remakes ? std::vector<C>{C::kKept} : std::vector<C>{C::kSavedForInput, C::kSavedForWeight};
    const bool out = action.kind == ActionKind::kOffload;
    Fill(action, out ? kept : std::vector<C>{C::kHosted}, out ? std::vector<C>{C::kHosted} : kept,
         &task);
    return Work{Run, &task, 0};
  }

  Bytes Payload(const Action& action) const override {
    const StageValue value = MessageOf(action.kind);
    return {AddressOf(action.stage, action.microbatch, value), BytesOf(action.stage, value)};
  }

  int spoiled() const { return spoiled_; }
  int64_t looked_at() const { return looked_at_; }

 private:
  struct Place {
    uint32_t* address;
    int64_t words;
    uint32_t pattern;
  };
  struct Task {
    Canaries* owner;
    int delay_us;
    std::vector<Place> needs, gives;
  };

  char* AddressOf(StageId stage, MicrobatchId microbatch, StageValue value,
                  bool back = false) const {
    const int64_t offset = memory_.OffsetOf(stage, microbatch, value, back);
    const int rank = plan_.stage(stage).rank.value;
    if (offset < 0) return nullptr;
    return (value == StageValue::kHosted ? hosts_[rank] : blocks_[rank]) + offset;
  }
  // True for an action behind the U that brings the value back.
  bool IsBack(const Action& action, StageValue value) const {
    if (action.kind == ActionKind::kForward || action.kind == ActionKind::kOffload) return false;
    if (!fetched_.contains({action.stage, action.microbatch})) return false;
    if (plan_.stage(action.stage).remakes) return value == StageValue::kKept;
    return value == StageValue::kSavedForInput || value == StageValue::kSavedForWeight;
  }

  int64_t BytesOf(StageId stage, StageValue value) const {
    return sizes_[stage.value].of_microbatch[value];
  }

  // A value sent has the pattern of the value received.
  uint32_t PatternOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
    if (value == StageValue::kOutput) {
      return PatternOf(plan_.graph.Behind(stage), microbatch, StageValue::kInput);
    }
    if (value == StageValue::kInGrad) {
      return PatternOf(plan_.graph.Before(stage), microbatch, StageValue::kOutGrad);
    }
    return 1 + static_cast<uint32_t>((stage.value * 1000 + microbatch.value) * kBuiltInValues +
                                     static_cast<int>(value));
  }

  void Fill(const Action& action, const std::vector<StageValue>& needs,
            const std::vector<StageValue>& gives, Task* task) const {
    auto add = [&](const std::vector<StageValue>& classes, std::vector<Place>* places) {
      for (StageValue value : classes) {
        char* address = AddressOf(action.stage, action.microbatch, value, IsBack(action, value));
        if (address == nullptr) continue;
        places->push_back({reinterpret_cast<uint32_t*>(address),
                           BytesOf(action.stage, value) / static_cast<int64_t>(sizeof(uint32_t)),
                           PatternOf(action.stage, action.microbatch, value)});
      }
    };
    add(needs, &task->needs);
    add(gives, &task->gives);
  }

  static void Run(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
    const Task& task = *static_cast<const Task*>(self);
    // Produced values are written first and checked again at the end: this detects a buffer shared
    // with a consumed value, or with a concurrent part.
    for (const Place& place : task.gives) {
      std::fill_n(place.address, place.words, place.pattern);
    }
    if (task.delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(task.delay_us));
    for (const std::vector<Place>* places : {&task.needs, &task.gives}) {
      for (const Place& place : *places) {
        ++task.owner->looked_at_;
        for (int64_t w = 0; w < place.words; ++w) {
          if (place.address[w] != place.pattern) ++task.owner->spoiled_;
        }
      }
    }
  }

  const Plan& plan_;
  std::mt19937 random_;
  const bool delays_;
  std::vector<StageSizes> sizes_;
  MemoryPlan memory_;
  std::vector<char*> blocks_, hosts_;  // by rank
  std::set<std::pair<StageId, MicrobatchId>> fetched_;
  std::deque<Task> tasks_;
  std::atomic<int> spoiled_{0};
  std::atomic<int64_t> looked_at_{0};
};

}  // namespace stringline
