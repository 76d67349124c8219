// No two values that are alive at once share a byte, whatever the timing.
#include "schedlang/memory/memory_plan.h"

#include <algorithm>
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

// Up to four buffers' alignments, not always whole ones.
uint32_t RandomWords(std::mt19937& random) { return 1 + static_cast<uint32_t>(random() % 64); }

// Of any sizes. A first stage's input and a last stage's gradient come from nowhere; a last stage
// gives nothing on. What is handed on is as large as what is taken.
std::vector<StageSizes> RandomSizes(const Plan& plan, std::mt19937& random) {
  std::vector<StageSizes> sizes(plan.stages.size());
  for (StageSizes& size : sizes) {
    size.in_parts = random() % 2 == 0;
    for (int64_t& bytes : size.of_microbatch.bytes) bytes = RandomWords(random) * sizeof(uint32_t);
  }
  for (size_t s = 0; s < sizes.size(); ++s) {
    StageBytes& own = sizes[s].of_microbatch;
    const StageId next = plan.stages[s].next;
    own[StageValue::kOutput] =
        next.valid() ? sizes[next.value].of_microbatch[StageValue::kInput] : 0;
    if (!next.valid()) own[StageValue::kOutGrad] = 0;
    if (next.valid()) {
      sizes[next.value].of_microbatch[StageValue::kInGrad] = own[StageValue::kOutGrad];
    }
    if (!plan.stages[s].previous.valid()) own[StageValue::kInput] = own[StageValue::kInGrad] = 0;
  }
  return sizes;
}

// Work that fills every value it gives with a pattern of its own, and looks whether every value it
// needs still holds its pattern, after random delays.
class Canaries final : public StageWork {
 public:
  Canaries(const Plan& plan, Device* device, unsigned seed) : plan_(plan), random_(seed) {
    sizes_ = RandomSizes(plan, random_);
    auto memory = PlanMemory(plan, sizes_);
    SL_CHECK(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    for (const RankMemory& rank : memory_.ranks) {
      blocks_.push_back(static_cast<char*>(*device->Allocate(rank.block)));
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

  char* AddressOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
    const int64_t offset = memory_.OffsetOf(stage, microbatch, value);
    return offset < 0 ? nullptr : blocks_[plan_.stage(stage).rank.value] + offset;
  }

  int64_t BytesOf(StageId stage, StageValue value) const {
    return sizes_[stage.value].of_microbatch[value];
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
                           BytesOf(action.stage, value) / static_cast<int64_t>(sizeof(uint32_t)),
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
  std::vector<StageSizes> sizes_;
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
  std::vector<StageSizes> sizes(4);
  for (StageSizes& stage : sizes) stage.of_microbatch[StageValue::kSavedForInput] = 64;
  const auto memory = PlanMemory(plan, sizes);
  ASSERT_TRUE(memory.ok());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(SlotsOf(*memory, r, StageValue::kSavedForInput), 4 - r) << "rank " << r;
  }
}

// The sender of 1F1B learns from the gradients that come back that its activations were taken.
TEST(MemoryPlan, SendBuffersAreUsedAgainWhenTheyAreKnownToBeTaken) {
  const Plan plan = LibraryPlan("1f1b", 2, 32).value();
  std::vector<StageSizes> sizes(2);
  sizes[0].of_microbatch[StageValue::kOutput] = 64;
  sizes[1].of_microbatch[StageValue::kInput] = 64;
  const auto memory = PlanMemory(plan, sizes);
  ASSERT_TRUE(memory.ok());
  EXPECT_LE(SlotsOf(*memory, 0, StageValue::kOutput), 3);
  EXPECT_LE(SlotsOf(*memory, 1, StageValue::kInput), 3);
}

// The second stash lies where the first microbatch was saved.
TEST(MemoryPlan, ValuesOfDifferentSizesShareBytes) {
  const Plan plan = LoweredFrom(
      "plan one P=1 M=2\n"
      "stages 0\n"
      "rank 0: 0F0 0F1 0I0 0I1 0W0 0W1\n");
  std::vector<StageSizes> sizes(1);
  sizes[0].of_microbatch[StageValue::kSavedForInput] = 256;
  sizes[0].of_microbatch[StageValue::kStash] = 128;
  const auto one_size = PlanMemory(plan, sizes, Sharing::kOneSize);
  const auto any_size = PlanMemory(plan, sizes);
  ASSERT_TRUE(one_size.ok() && any_size.ok());
  EXPECT_EQ(one_size->ranks[0].block, 2 * 256 + 2 * 128);
  EXPECT_EQ(any_size->ranks[0].block, 2 * 256 + 128);
}

// No plan's block grows because bytes are shared among sizes.
TEST(MemoryPlan, SharingAmongSizesNeverTakesMore) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::mt19937_64 plans(seed);
  int64_t before = 0, after = 0;
  const auto compare = [&](const Plan& plan) {
    const std::vector<StageSizes> sizes = RandomSizes(plan, random);
    const auto one_size = PlanMemory(plan, sizes, Sharing::kOneSize);
    const auto any_size = PlanMemory(plan, sizes);
    ASSERT_TRUE(one_size.ok() && any_size.ok());
    for (int r = 0; r < plan.ranks(); ++r) {
      EXPECT_LE(any_size->ranks[r].block, one_size->ranks[r].block) << Print(plan);
      before += one_size->ranks[r].block;
      after += any_size->ranks[r].block;
    }
  };
  for (int sound = 0; sound < 300 && !HasFailure();) {
    const Plan plan = RandomPlan(plans);
    if (!Ends(plan)) continue;
    ++sound;
    compare(plan);
  }
  for (const std::string& name : LibrarySchedules()) {
    for (const int p : {2, 4, 8}) {
      const std::optional<Plan> plan = LibraryPlan(name, p, 4 * p);
      if (plan) compare(*plan);
    }
  }
  EXPECT_LT(after, before * 9 / 10);
}

TEST(MemoryPlan, APlanThatDoesNotEndIsAnError) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=2\n"
      "stages 0 1 1 0\n"
      "rank 0: 0F0 3F0 3B0 0B0 0F1 3F1 3B1 0B1\n"
      "rank 1: 1F0 1F1 2F0 2F1 2B0 1B0 2B1 1B1\n");
  EXPECT_EQ(PlanMemory(plan, std::vector<StageSizes>(4)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace stringline
