// The planned memory, the memory counted by `check` and the memory allocated by the executor are
// equal, for every schedule of the library; a simulated step never holds more.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>

#include "executor/cpu/backend.h"
#include "executor/engine/local_ranks.h"
#include "executor/run/build_stages.h"
#include "executor/training/replicas.h"
#include "executor/training/stages.h"
#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"
#include "stages/layers.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

// Runs no work: allocates, and adds up the bytes.
class Counted final : public Device {
 public:
  StreamId NewStream(LazyName, int) override { return StreamId(0); }
  EventId NewEvent(LazyName) override { return EventId(0); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    bytes_ += bytes;
    return AllocateHost(bytes);
  }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    blocks_.push_back(std::make_unique<char[]>(bytes));
    return blocks_.back().get();
  }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  void Launch(StreamId, const Work&, WorkTimes*) override {}
  void Copy(StreamId, void*, const void*, int64_t) override {}
  void Record(StreamId, EventId) override {}
  void Wait(StreamId, EventId) override {}
  int64_t NowNs() const override { return 0; }
  void Submit() override {}
  absl::Status Synchronize() override { return absl::OkStatus(); }

  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
};

// A layer per stage and a further layer for every second, so that stages differ.
std::vector<StageProgram> ProgramsFor(const Plan& plan, TinyFamily family, Recompute recompute,
                                      DType dtype = DType::kF32) {
  const size_t pipes = std::max<size_t>(1, plan.pipes.size());
  const int stages = static_cast<int>(plan.stages.size() / pipes);
  const int layers = stages + stages / 2;
  const auto split = SplitEven(layers, stages);
  SL_CHECK(split.ok()) << split.status();
  AnyShape shape = TinyModel(family, layers);
  shape.dtype = dtype;
  std::vector<StageProgram> programs;
  for (size_t p = 0; p < pipes; ++p) {
    RecomputePolicy policy = {.what = recompute};
    for (int s = 0; s < stages; ++s) {
      policy.remakes.push_back(plan.stages[p * static_cast<size_t>(stages) + s].remakes);
    }
    const auto pipe = BuildModelStages(
        shape, *split, {.expert_ranks = 1, .recompute = policy, .slices = plan.slices});
    SL_CHECK(pipe.ok()) << pipe.status();
    programs.insert(programs.end(), pipe->begin(), pipe->end());
  }
  return programs;
}

// True if `check` accepts the memory limit.
bool FitsInto(const Plan& plan, const std::vector<StageSizes>& sizes, int64_t memory) {
  Diagnostics findings;
  return Check(plan, {.memory = memory, .sizes = sizes}, &findings);
}

std::vector<StageMemory> SimulatedSizes(const std::vector<StageSizes>& sizes) {
  std::vector<StageMemory> simulated;
  for (const StageSizes& size : sizes) {
    StageMemory& stage = simulated.emplace_back();
    stage[MemoryClass::kWeights] = size.resident;
    for (int v = 0; v < kBuiltInValues; ++v) {
      const auto value = static_cast<StageValue>(v);
      stage[ClassOf(value)] = size.of_microbatch[value];
    }
    stage[MemoryClass::kMessages] = size.of_microbatch[StageValue::kOutput];
  }
  return simulated;
}

// Bytes of values over all ranks: planned, and live at the peaks of a simulated step.
struct Totals {
  int64_t planned = 0;
  int64_t one_size = 0;
  int64_t simulated = 0;
};

void CompareMemory(const Plan& plan, TinyFamily family, Recompute recompute, DType dtype,
                   Totals* totals) {
  const std::vector<StageProgram> programs = ProgramsFor(plan, family, recompute, dtype);
  const std::vector<StageSizes> sizes = SizesOf(plan, programs);
  const auto planned = PlanMemory(plan, sizes);
  ASSERT_TRUE(planned.ok()) << planned.status();

  int64_t most = 0, all = 0;
  for (const RankMemory& rank : planned->ranks) {
    most = std::max(most, rank.all());
    all += rank.all();
  }
  for (size_t s = 0; s < sizes.size(); ++s) {
    const RankMemory& rank = planned->ranks[plan.stages[s].rank.value];
    for (size_t kind = 0; kind < sizes[s].temporaries.size(); ++kind) {
      EXPECT_GE(rank.arenas[rank.ArenaOf(static_cast<ActionKind>(kind), 0)],
                sizes[s].temporaries[kind]);
    }
  }
  EXPECT_TRUE(FitsInto(plan, sizes, most));
  EXPECT_FALSE(FitsInto(plan, sizes, most - 1));

  const LocalRanks local(Mesh(), plan.ranks());
  auto stages = Stages::Place(plan, programs, CpuKernels(), local.Of(0));
  ASSERT_TRUE(stages.ok()) << stages.status();
  Counted device;
  ASSERT_TRUE((*stages)->Allocate(MeshSeat{}, /*seed=*/1, local.Of(0), &device).ok());
  int64_t moments = 0;  // the trainer's
  for (size_t s = 0; s < programs.size(); ++s) {
    moments += 2 * (*stages)->state(StageId(static_cast<int32_t>(s))).moment;
  }
  EXPECT_EQ(device.bytes() + moments, all);

  const auto costs = ResolveCosts(UnitCosts(), plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const auto timeline = Simulate(plan, *costs, CommLayout::kEdge);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const MemoryCurves curves = MemoryOver(plan, *timeline, SimulatedSizes(sizes));
  const auto one_size = PlanMemory(plan, sizes, Sharing::kOneSize);
  for (int r = 0; r < plan.ranks(); ++r) {
    const RankMemory& rank = planned->ranks[r];
    EXPECT_LE(curves.ranks[r].peak, rank.resident + rank.block) << "rank " << r;
    totals->planned += rank.block;
    totals->one_size += one_size->ranks[r].block;
    totals->simulated += curves.ranks[r].peak - rank.resident;
  }
}

TEST(MemoryAgrees, PlannedCheckedAllocatedAndSimulated) {
  const std::tuple<TinyFamily, Recompute, DType> cases[] = {
      {TinyFamily::kGpt, Recompute::kNone, DType::kF32},
      {TinyFamily::kGpt, Recompute::kAll, DType::kF32},
      {TinyFamily::kMoe, Recompute::kNone, DType::kF32},
      {TinyFamily::kMoe, Recompute::kAll, DType::kF32},
      {TinyFamily::kGpt, Recompute::kNone, DType::kBF16},
      {TinyFamily::kMoe, Recompute::kNone, DType::kBF16},
  };
  for (const auto& [family, recompute, dtype] : cases) {
    Totals totals;
    for (const std::string& name : LibrarySchedules()) {
      SCOPED_TRACE(testing::Message() << name << ", " << NameOf(family) << ", recompute "
                                      << static_cast<int>(recompute) << ", " << NameOf(dtype));
      const std::optional<Plan> plan = LibraryPlan(name, 4, 12);
      ASSERT_TRUE(plan.has_value());
      CompareMemory(*plan, family, recompute, dtype, &totals);
      if (HasFailure()) return;
    }
    const auto over = [&](int64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(totals.simulated);
    };
    std::cout << NameOf(family) << " in " << NameOf(dtype) << ", recompute "
              << static_cast<int>(recompute) << ": planned " << over(totals.planned)
              << " of what is alive, with slots of one size " << over(totals.one_size) << "\n";
    EXPECT_LT(over(totals.planned), 1.35);
  }
}

// With R and copies, too: the device's memory as planned, and the host's beside it.
TEST(MemoryAgrees, WithRAndCopiesToTheHost) {
  for (const char* const name : {"1f1b", "zb_h1", "zb_v", "dualpipe", "interleaved"}) {
    for (const auto& [remakes, copies] : {std::pair(true, false), {false, true}, {true, true}}) {
      for (const TinyFamily family : {TinyFamily::kGpt, TinyFamily::kMoe}) {
        SCOPED_TRACE(testing::Message()
                     << name << " " << NameOf(family) << " R " << remakes << " copies " << copies);
        const std::optional<Plan> plan = ChangedPlan(name, 4, 12, remakes, copies);
        ASSERT_TRUE(plan.has_value());
        Totals totals;
        CompareMemory(*plan, family, Recompute::kAll, DType::kF32, &totals);
        if (HasFailure()) return;
      }
    }
  }
}

// Live values take half, except those still in fp32; a working copy beside each parameter.
TEST(MemoryAgrees, Bf16TakesHalfOfAValueAndHalfAParameterMore) {
  const Plan plan = LibraryPlan("1f1b", 4, 8).value();
  for (const TinyFamily family : kTinyFamilies) {
    SCOPED_TRACE(NameOf(family));
    const auto wide = SizesOf(plan, ProgramsFor(plan, family, Recompute::kNone));
    const auto programs = ProgramsFor(plan, family, Recompute::kNone, DType::kBF16);
    const auto narrow = SizesOf(plan, programs);
    for (size_t s = 0; s < wide.size(); ++s) {
      for (const StageValue value :
           {StageValue::kInput, StageValue::kOutput, StageValue::kInGrad, StageValue::kOutGrad}) {
        EXPECT_EQ(2 * narrow[s].of_microbatch[value], wide[s].of_microbatch[value])
            << NameOf(value) << " of stage " << s;
      }
      const StageLayout layout(programs[s]);
      EXPECT_EQ(narrow[s].resident - wide[s].resident, layout.working_bytes);
      EXPECT_GT(layout.working_bytes, layout.param_bytes * 2 / 5);
      EXPECT_LE(layout.working_bytes, layout.param_bytes);
    }
  }
}

// Recompute drops the values that values.def allows, and no others.
TEST(MemoryAgrees, RecomputeTakesAwayWhatMayBeComputedAgain) {
  const Plan plan = LibraryPlan("zb_h1", 4, 8).value();
  for (const TinyFamily family : kTinyFamilies) {
    const auto whole = SizesOf(plan, ProgramsFor(plan, family, Recompute::kNone));
    const auto again = SizesOf(plan, ProgramsFor(plan, family, Recompute::kAll));
    int64_t kept = 0, left = 0;
    for (size_t s = 0; s < whole.size(); ++s) {
      for (int v = 0; v < kBuiltInValues; ++v) {
        const auto value = static_cast<StageValue>(v);
        const int64_t before = whole[s].of_microbatch[value];
        const int64_t after = again[s].of_microbatch[value];
        if (MayBeComputedAgain(value)) {
          kept += before;
          left += after;
        } else if (value != StageValue::kStash) {  // I may hand its recomputed values on
          EXPECT_EQ(before, after) << NameOf(value) << " of stage " << s;
        }
      }
    }
    EXPECT_LT(left, kept / 2) << NameOf(family);
  }
}

}  // namespace
}  // namespace stringline
