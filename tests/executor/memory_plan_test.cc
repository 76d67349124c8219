// No two live values share a byte, whatever the timing.
#include "schedlang/memory/memory_plan.h"

#include <random>

#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "gtest/gtest.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/replay.h"
#include "schedlang/memory/slots.h"
#include "tests/executor/canaries.h"
#include "tests/executor/plans.h"
#include "tests/schedlang/engines.h"

namespace stringline {
namespace {

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

// The gradient that answers 1F1 could be placed in memory that 1B0 still reads, if 1F1's activation
// left before the end of the whole group.
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

// 1F1B holds P - r microbatches on rank r, whatever M.
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

// The sender of 1F1B learns from the returning gradients that its activations were taken.
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

// The second stash reuses the memory saved for the first microbatch.
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

// The bytes of the blocks of all ranks of a plan, with values of random sizes: if values share
// memory with values of their own size only, and with all.
struct BytesOfBlocks {
  int64_t one_size = 0;
  int64_t any_size = 0;
};

BytesOfBlocks PlanBothWays(const Plan& plan, std::mt19937& random) {
  const std::vector<StageSizes> sizes = RandomSizes(plan, random);
  const auto one_size = PlanMemory(plan, sizes, Sharing::kOneSize);
  const auto any_size = PlanMemory(plan, sizes, Sharing::kAnySize);
  BytesOfBlocks bytes;
  if (!one_size.ok() || !any_size.ok()) {
    ADD_FAILURE() << one_size.status() << any_size.status() << Print(plan);
    return bytes;
  }
  for (int r = 0; r < plan.ranks(); ++r) {
    EXPECT_LE(any_size->ranks[r].block, one_size->ranks[r].block) << Print(plan);
    bytes.one_size += one_size->ranks[r].block;
    bytes.any_size += any_size->ranks[r].block;
  }
  return bytes;
}

// The bytes of a rank's values that are alive at once, by the order of its list: no block is
// smaller on a single rank.
int64_t MostAlive(const Plan& plan, const std::vector<StageSizes>& sizes) {
  return PeakBytesOf(plan, RankId(0), sizes).bytes;
}

TEST(MemoryPlan, PacksWhatIsAlive) {
  // In the order of births these values take 15 MiB; alive are 11 at most.
  const Plan plan = LoweredFrom(
      "plan x P=1 M=3\n"
      "stages 0 0\n"
      "rank 0: 0F0 1F0 1B0 0F1 0B0 1F1 1B1 0F2 0B1 1F2 1B2 0B2\n");
  constexpr int64_t kMiB = 1 << 20;
  std::vector<StageSizes> sizes(2);
  for (const int s : {0, 1}) {
    sizes[s].of_microbatch[StageValue::kSavedForInput] = (s == 0 ? 2 : 4) * kMiB;
    sizes[s].of_microbatch[StageValue::kSavedForWeight] = (s == 0 ? 2 : 3) * kMiB;
  }
  EXPECT_EQ(MostAlive(plan, sizes), 11 * kMiB);
  EXPECT_EQ(PlanMemory(plan, sizes, Sharing::kAnySize)->ranks[0].block, 15 * kMiB);
  const auto packed = PlanMemory(plan, sizes);
  EXPECT_EQ(packed->ranks[0].block, 11 * kMiB);
  int64_t sum = 0;
  for (int v = 0; v < kBuiltInValues; ++v) {
    sum += packed->ranks[0].by_value[static_cast<StageValue>(v)];
  }
  EXPECT_EQ(sum, 11 * kMiB);
}

// Values of 2, 3 and 4 units; the one in the middle is dead, so 3 units are free above the first.
TEST(MemoryPlan, TheLargestGapIsNamed) {
  const Plan plan = LoweredFrom(
      "plan x P=1 M=1\n"
      "stages 0 0 0\n"
      "rank 0: 0F0 1F0 2F0 2B0 1B0 0B0\n");
  std::vector<StageSizes> sizes(3);
  for (const int s : {0, 1, 2}) {
    sizes[s].of_microbatch[StageValue::kSavedForInput] = (s + 2) * int64_t{1024};
  }
  auto memory = PlanMemory(plan, sizes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(Describe(LargestGapOf(plan, RankId(0), 2, sizes, *memory)), "");
  // By hand: 0 at 0, 2 behind a gap of 3 KiB.
  const auto place = [&](int stage, int64_t at) {
    memory->offsets[static_cast<size_t>(stage) * kBuiltInValues +
                    static_cast<size_t>(StageValue::kSavedForInput)] = at;
  };
  place(0, 0);
  place(1, 9 * 1024);
  place(2, 5 * 1024);
  memory->ranks[0].block = 12 * 1024;
  EXPECT_EQ(Describe(LargestGapOf(plan, RankId(0), 2, sizes, *memory)),
            "3.00 KiB, from 2.00 KiB to 5.00 KiB of the block, above saved input of stage 0, "
            "microbatch 0, and below saved input of stage 2, microbatch 0");
  // While 2B0 runs its values are alive; behind it, while 1B0 runs, they are not.
  EXPECT_EQ(Describe(LargestGapOf(plan, RankId(0), 3, sizes, *memory)),
            "3.00 KiB, from 2.00 KiB to 5.00 KiB of the block, above saved input of stage 0, "
            "microbatch 0, and below saved input of stage 2, microbatch 0");
  EXPECT_EQ(Describe(LargestGapOf(plan, RankId(0), 4, sizes, *memory)),
            "7.00 KiB, from 2.00 KiB to 9.00 KiB of the block, above saved input of stage 0, "
            "microbatch 0, and below saved input of stage 1, microbatch 0");
  place(0, 1024);
  EXPECT_EQ(Describe(LargestGapOf(plan, RankId(0), 0, sizes, *memory)),
            "9.00 KiB, from 3.00 KiB to 12.00 KiB of the block, above saved input of stage 0, "
            "microbatch 0");
}

// More bytes than a rank can count are no number: nothing is said of gaps between them.
TEST(MemoryPlan, BlocksBeyondAllNumbersHaveNoGaps) {
  const Plan plan = LibraryPlan("gpipe", 1, 1000).value();
  std::vector<StageSizes> sizes(1);
  sizes[0].of_microbatch[StageValue::kSavedForInput] = 1'000'000'000'000'000;
  sizes[0].of_microbatch[StageValue::kSavedForWeight] = 990'000'000'000'000;
  const auto memory = PlanMemory(plan, sizes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->ranks[0].block, kMostRankBytes);
  EXPECT_EQ(memory->ranks[0].gaps(), 0);
}

// The gap of blocks above what is alive at once, in random plans.
TEST(MemoryPlan, PackingLeavesHardlyAnyGaps) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::mt19937 sizes_of(seed);
  double before = 0, after = 0;
  int orders = 0;
  while (orders < 200) {
    const Plan plan = RandomPlan(random);
    if (!Ends(plan)) continue;
    ++orders;
    std::vector<StageSizes> sizes = RandomSizes(plan, sizes_of);
    for (StageSizes& of : sizes) of.resident = of.gathered = 0;
    const auto walked = PlanMemory(plan, sizes, Sharing::kAnySize);
    const auto packed = PlanMemory(plan, sizes);
    ASSERT_TRUE(walked.ok() && packed.ok());
    int64_t alive = 0, walked_bytes = 0, packed_bytes = 0;
    for (int r = 0; r < plan.ranks(); ++r) {
      EXPECT_LE(packed->ranks[r].block, walked->ranks[r].block) << Print(plan);
      alive += packed->ranks[r].alive;
      walked_bytes += walked->ranks[r].block;
      packed_bytes += packed->ranks[r].block;
    }
    if (alive == 0) continue;  // nothing is placed
    before += static_cast<double>(walked_bytes) / static_cast<double>(alive) - 1;
    after += static_cast<double>(packed_bytes) / static_cast<double>(alive) - 1;
  }
  EXPECT_LT(after / orders, 0.025) << "before: " << before / orders;
  EXPECT_LT(after, before / 4);
}

// The places of a value, by what the plan says: its entry's rank.
std::vector<int64_t> OffsetsOn(const Plan& plan, const MemoryPlan& memory, RankId rank) {
  std::vector<int64_t> offsets;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].rank != rank) continue;
    for (int m = 0; m < plan.microbatches; ++m) {
      for (int v = 0; v < kBuiltInValues; ++v) {
        offsets.push_back(memory.OffsetOf(StageId(static_cast<int32_t>(s)), MicrobatchId(m),
                                          static_cast<StageValue>(v)));
      }
    }
  }
  return offsets;
}

// Ranks planned alone are planned as they are among all.
TEST(MemoryPlan, SomeRanksArePlannedAsAmongAll) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::mt19937 sizes_of(seed);
  for (int orders = 0; orders < 200;) {
    const Plan plan = RandomPlan(random);
    if (!Ends(plan)) continue;
    ++orders;
    const std::vector<StageSizes> sizes = RandomSizes(plan, sizes_of);
    std::vector<RankId> some;
    for (int r = 0; r < plan.ranks(); ++r) {
      if (random() % 2 == 0) some.emplace_back(r);
    }
    const auto all = PlanMemory(plan, sizes), planned = PlanMemoryOf(plan, sizes, some);
    ASSERT_TRUE(all.ok() && planned.ok());
    for (const RankId rank : some) {
      const RankMemory &one = planned->ranks[rank.value], &other = all->ranks[rank.value];
      EXPECT_EQ(one.block, other.block) << Print(plan);
      EXPECT_EQ(one.all(), other.all()) << Print(plan);
      EXPECT_EQ(OffsetsOn(plan, *planned, rank), OffsetsOn(plan, *all, rank)) << Print(plan);
    }
  }
}

// No plan's block grows because bytes are shared among sizes.
TEST(MemoryPlan, SharingAmongSizesNeverTakesMore) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::mt19937_64 plans(seed);
  for (int sound = 0; sound < 300 && !HasFailure();) {
    const Plan plan = RandomPlan(plans);
    if (!Ends(plan)) continue;
    ++sound;
    PlanBothWays(plan, random);
  }
}

// The saving depends on the sizes; these are fixed.
TEST(MemoryPlan, SharingAmongSizesSavesATenthInTheLibrary) {
  std::mt19937 random(7);
  BytesOfBlocks all;
  for (const std::string& name : LibrarySchedules()) {
    for (const int p : {2, 4, 8}) {
      const std::optional<Plan> plan = LibraryPlan(name, p, 4 * p);
      if (!plan) continue;
      for (int i = 0; i < 4; ++i) {
        const BytesOfBlocks bytes = PlanBothWays(*plan, random);
        all.one_size += bytes.one_size;
        all.any_size += bytes.any_size;
      }
    }
  }
  EXPECT_LT(all.any_size, all.one_size * 9 / 10)
      << static_cast<double>(all.any_size) / static_cast<double>(all.one_size);
}

// Gathered parameters reuse the memory of parameters dropped earlier in the list, if they fit.
TEST(MemoryPlan, WhatIsGatheredSharesBytes) {
  const Plan plan = LoweredFrom(
      "plan g P=1 M=1\n"
      "stages 0 0 0\n"
      "rank 0: 0UNSHARD 1UNSHARD 0F0 0RESHARD 2UNSHARD 1F0 1RESHARD 2F0 2B0 1UNSHARD 2RESHARD 1B0 "
      "0UNSHARD 1RESHARD 0B0 0RESHARD 0REDUCE_GRAD 1REDUCE_GRAD 2REDUCE_GRAD\n");
  std::vector<StageSizes> sizes(3);
  sizes[0].gathered = 3 * 64;
  sizes[1].gathered = 2 * 64;
  sizes[2].gathered = 3 * 64 - 1;
  const auto memory = PlanMemory(plan, sizes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->gathers, (std::vector<std::vector<int64_t>>{{0, 0}, {192, 192}, {0}}));
  EXPECT_EQ(memory->ranks[0].gathered, 320);
  sizes[2].gathered = 3 * 64 + 1;  // does not fit into the memory dropped first
  EXPECT_EQ(PlanMemory(plan, sizes)->gathers[2], (std::vector<int64_t>{320}));
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
