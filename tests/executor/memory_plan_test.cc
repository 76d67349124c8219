// No two values that are alive at once share a byte, whatever the timing.
#include "executor/memory_plan.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "executor/cpu/device.h"
#include "executor/interpreter.h"
#include "executor/threads/group.h"
#include "gtest/gtest.h"
#include "schedlang/check/replay.h"
#include "tests/executor/plans.h"
#include "tests/schedlang/engines.h"

namespace stringline {
namespace {

constexpr uint32_t kWords = 16;

// Work that fills every value it gives with a pattern of its own, and looks whether every value it
// needs still holds its pattern, after random delays.
class Canaries final : public StageWork {
 public:
  Canaries(const Plan& plan, Device* device, unsigned seed) : plan_(plan), random_(seed) {
    std::vector<StageBytes> bytes(plan.stages.size());
    for (size_t s = 0; s < bytes.size(); ++s) {
      bytes[s].bytes.fill(kWords * sizeof(uint32_t));
      // A first stage's input and a last stage's gradient come from nowhere; a last stage gives
      // nothing on.
      if (!plan.stages[s].previous.valid()) {
        bytes[s][StageValue::kInput] = 0;
        bytes[s][StageValue::kInGrad] = 0;
      }
      if (!plan.stages[s].next.valid()) {
        bytes[s][StageValue::kOutput] = 0;
        bytes[s][StageValue::kOutGrad] = 0;
      }
    }
    auto memory = PlanMemory(plan, bytes);
    SL_CHECK(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    for (const RankMemory& rank : memory_.ranks) {
      blocks_.push_back(static_cast<char*>(*device->Allocate(rank.bytes)));
    }
  }

  Piece Compute(const Action& action, LayerPart part) override {
    if (part.part == kWPost && action.kind == ActionKind::kBackward) return {};
    using C = StageValue;
    Task& task = tasks_.emplace_back();
    task.owner = this;
    task.delay_us = random_() % 4 == 0 ? static_cast<int>(random_() % 200) : 0;
    switch (action.kind) {
      case ActionKind::kForward:
        Fill(action, {C::kInput}, {C::kSavedForInput, C::kSavedForWeight, C::kOutput}, &task);
        break;
      case ActionKind::kBackward:
        Fill(action, {C::kSavedForInput, C::kSavedForWeight, C::kOutGrad}, {C::kInGrad}, &task);
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

  Bytes Payload(const Action& action) const override {
    const StageValue value = MessageOf(action.kind);
    return {AddressOf(action.stage, action.microbatch, value), kWords * sizeof(uint32_t)};
  }

  int spoiled() const { return spoiled_; }
  int64_t looked_at() const { return looked_at_; }

 private:
  struct Place {
    uint32_t* address;
    uint32_t pattern;
  };
  struct Task {
    Canaries* owner;
    int delay_us;
    std::vector<Place> needs, gives;
  };

  char* AddressOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
    const int64_t offset = memory_.OffsetOf(stage, microbatch, value);
    return offset < 0 ? nullptr : blocks_[plan_.stage(stage).rank.value] + offset;
  }

  // What is handed on has the pattern of what is taken.
  uint32_t PatternOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
    if (value == StageValue::kOutput) {
      return PatternOf(plan_.stage(stage).next, microbatch, StageValue::kInput);
    }
    if (value == StageValue::kInGrad) {
      return PatternOf(plan_.stage(stage).previous, microbatch, StageValue::kOutGrad);
    }
    return 1 + static_cast<uint32_t>((stage.value * 1000 + microbatch.value) * kStageValues +
                                     static_cast<int>(value));
  }

  void Fill(const Action& action, const std::vector<StageValue>& needs,
            const std::vector<StageValue>& gives, Task* task) const {
    auto add = [&](const std::vector<StageValue>& classes, std::vector<Place>* places) {
      for (StageValue value : classes) {
        char* address = AddressOf(action.stage, action.microbatch, value);
        if (address == nullptr) continue;
        places->push_back({reinterpret_cast<uint32_t*>(address),
                           PatternOf(action.stage, action.microbatch, value)});
      }
    };
    add(needs, &task->needs);
    add(gives, &task->gives);
  }

  static void Run(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
    const Task& task = *static_cast<const Task*>(self);
    // What is given is written first and looked at again at the end: a buffer that is shared with
    // something needed, or with a part at the same time, is then seen.
    for (const Place& place : task.gives) {
      for (uint32_t w = 0; w < kWords; ++w) place.address[w] = place.pattern;
    }
    if (task.delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(task.delay_us));
    for (const std::vector<Place>* places : {&task.needs, &task.gives}) {
      for (const Place& place : *places) {
        ++task.owner->looked_at_;
        for (uint32_t w = 0; w < kWords; ++w) {
          if (place.address[w] != place.pattern) ++task.owner->spoiled_;
        }
      }
    }
  }

  const Plan& plan_;
  std::mt19937 random_;
  MemoryPlan memory_;
  std::vector<char*> blocks_;
  std::deque<Task> tasks_;
  std::atomic<int> spoiled_{0};
  std::atomic<int64_t> looked_at_{0};
};

void RunWithCanaries(const Plan& plan, unsigned seed) {
  const auto owned = CpuDevice::Make(/*threads=*/3);
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  ThreadGroups groups(&device);
  Canaries work(plan, &device, seed);
  auto step = Interpreter::Make(plan, &work, &device, &groups, nullptr);
  ASSERT_TRUE(step.ok()) << step.status();
  for (int i = 0; i < 2; ++i) {
    (*step)->EnqueueStep();
    const absl::Status status = device.Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(work.spoiled(), 0) << Print(plan);
  EXPECT_GT(work.looked_at(), 0);
}

TEST(MemoryPlan, RandomPlansSpoilNothing) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int sound = 0; sound < 100;) {
    const Plan plan = RandomPlan(random);
    if (!Ends(plan)) continue;
    ++sound;
    RunWithCanaries(plan, static_cast<unsigned>(random()));
    if (HasFailure()) return;
  }
}

// The gradient that answers 1F1 may be placed where 1B0 still reads, if 1F1's activation could
// leave before the whole group has ended.
TEST(MemoryPlan, WhatAGroupGivesLeavesWhenAllOfItHasEnded) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const Plan plan = LoweredFrom(
      "plan line P=3 M=3\n"
      "stages 0 1 2\n"
      "rank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"
      "rank 1: 1F0 1F1&1B0 1F2&1B1 1B2\n"
      "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2\n");
  for (unsigned i = 0; i < 100; ++i) {
    RunWithCanaries(plan, seed + i);
    if (HasFailure()) return;
  }
}

TEST(MemoryPlan, LibraryPlansSpoilNothing) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb_h2", "zb_v", "dualpipe_v"}) {
    const std::optional<Plan> plan = LibraryPlan(name, 4, 12);
    ASSERT_TRUE(plan.has_value()) << name;
    RunWithCanaries(*plan, seed);
  }
}

int64_t SlotsOf(const MemoryPlan& memory, int rank, StageValue value) {
  return memory.ranks[rank].by_value[value] / 64;
}

// 1F1B holds P - r microbatches on rank r, however many there are.
TEST(MemoryPlan, SlotsAreUsedAgain) {
  const Plan plan = LibraryPlan("1f1b", 4, 32).value();
  std::vector<StageBytes> bytes(4);
  for (StageBytes& stage : bytes) stage[StageValue::kSavedForInput] = 64;
  const auto memory = PlanMemory(plan, bytes);
  ASSERT_TRUE(memory.ok());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(SlotsOf(*memory, r, StageValue::kSavedForInput), 4 - r) << "rank " << r;
  }
}

// The sender of 1F1B learns from the gradients that come back that its activations were taken.
TEST(MemoryPlan, SendBuffersAreUsedAgainWhenTheyAreKnownToBeTaken) {
  const Plan plan = LibraryPlan("1f1b", 2, 32).value();
  std::vector<StageBytes> bytes(2);
  bytes[0][StageValue::kOutput] = 64;
  bytes[1][StageValue::kInput] = 64;
  const auto memory = PlanMemory(plan, bytes);
  ASSERT_TRUE(memory.ok());
  EXPECT_LE(SlotsOf(*memory, 0, StageValue::kOutput), 3);
  EXPECT_LE(SlotsOf(*memory, 1, StageValue::kInput), 3);
}

TEST(MemoryPlan, APlanThatDoesNotEndIsAnError) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=2\n"
      "stages 0 1 1 0\n"
      "rank 0: 0F0 3F0 3B0 0B0 0F1 3F1 3B1 0B1\n"
      "rank 1: 1F0 1F1 2F0 2F1 2B0 1B0 2B1 1B1\n");
  EXPECT_EQ(PlanMemory(plan, std::vector<StageBytes>(4)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace stringline
