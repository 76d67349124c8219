// The overhead of the executor: steps with empty stage programs and empty messages.
//
//   executor_bench      time_per_action: the time of a step over the compute actions of a rank
//                       enqueue_share: the part of it that puts the step into the streams
//                       CPU: processor time of a step, of all threads
//
// Arguments: the number of threads that run streams. `Make` is all work done once, before the first
// step, except `PlaceValues`, the places of values; `Stage` makes a stage with a number of layers;
// `Strict` is a tiny plan from beginning to end.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "executor/cpu/backend.h"
#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/recorder.h"
#include "executor/rehearsal/strict.h"
#include "executor/training/ready_graph.h"
#include "schedlang/base/align.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/memory/memory_plan.h"
#include "stages/models/gpt.h"
#include "tools/microbench/library_plan.h"

namespace stringline {
namespace {

int64_t ComputeActionsPerRank(const Plan& plan) {
  int64_t count = 0;
  for (const Action& action : plan.actions) count += IsCompute(action.kind) ? 1 : 0;
  return count / plan.ranks();
}

void Step(benchmark::State& state, const char* schedule, bool record) {
  const Plan plan = LibraryPlan(schedule, 4, 64).value();
  const auto owned = CpuDevice::Make(static_cast<int>(state.range(0)));
  SL_CHECK(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  ThreadGroups groups(&device);
  NoWork work;
  Recorder recorder(plan);
  auto step = Interpreter::Make(plan, &work, &device, &groups, record ? &recorder : nullptr);
  SL_CHECK(step.ok()) << step.status();
  int64_t enqueue_ns = 0;
  const int64_t start_ns = NowNs();
  for (auto _ : state) {
    const int64_t before_ns = NowNs();
    (*step)->EnqueueStep();
    enqueue_ns += NowNs() - before_ns;
    const absl::Status status = device.Synchronize();
    SL_CHECK(status.ok()) << status;
  }
  const auto actions = static_cast<double>(ComputeActionsPerRank(plan));
  state.counters["actions_per_rank"] = actions;
  state.counters["time_per_action"] =
      benchmark::Counter(actions * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["enqueue_share"] =
      static_cast<double>(enqueue_ns) / static_cast<double>(NowNs() - start_ns);
}
// Numbers of threads; the processor time is that of all of them.
void Threads(benchmark::internal::Benchmark* bench) {
  bench->Arg(1)->Arg(2)->Arg(4)->MeasureProcessCPUTime()->UseRealTime();
}
BENCHMARK_CAPTURE(Step, 1f1b, "1f1b", false)->Apply(Threads);
BENCHMARK_CAPTURE(Step, 1f1b_recorded, "1f1b", true)->Apply(Threads);
BENCHMARK_CAPTURE(Step, zb_v, "zb_v", false)->Apply(Threads);
BENCHMARK_CAPTURE(Step, dualpipe_v, "dualpipe_v", false)->Apply(Threads)->Arg(8);

void Make(benchmark::State& state) {
  const Plan plan = LibraryPlan("1f1b", 4, 64).value();
  CpuDevice device;
  ThreadGroups groups(&device);
  NoWork work;
  for (auto _ : state) {
    auto step = Interpreter::Make(plan, &work, &device, &groups, nullptr);
    benchmark::DoNotOptimize(step);
  }
}
BENCHMARK(Make)->Iterations(200);

// Places the values of a step, for stages that keep values of different sizes. The time is linear
// in microbatches.
void PlaceValues(benchmark::State& state, const char* schedule) {
  const Plan plan = LibraryPlan(schedule, 8, state.range(0)).value();
  StageSizes size;
  for (int v = 0; v < kBuiltInValues; ++v) {
    size.of_microbatch[static_cast<StageValue>(v)] = kBufferAlignment * (v == 0 ? 1 : 10 * v);
  }
  const std::vector<StageSizes> sizes(plan.stages.size(), size);
  for (auto _ : state) {
    const auto memory = PlanMemory(plan, sizes);
    SL_CHECK(memory.ok()) << memory.status();
  }
  state.counters["time_per_action"] = benchmark::Counter(
      static_cast<double>(plan.actions.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(PlaceValues, gpipe, "gpipe")->Arg(512)->Arg(4096);
BENCHMARK_CAPTURE(PlaceValues, zb_v, "zb_v")->Arg(512)->Arg(4096);

// A model of `layers` layers in one stage: its graphs, and their memory. The time is linear in
// layers.
void Stage(benchmark::State& state) {
  const int layers = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const auto stages = BuildGptStages({layers, 32, 2, 16, 256, 1}, {layers});
    SL_CHECK(stages.ok()) << stages.status();
    const StageProgram& stage = stages->front();
    const StageLayout layout(stage);
    for (const Graph* graph :
         {&stage.forward, &stage.backward, &stage.input_gradient, &stage.weight_gradient}) {
      benchmark::DoNotOptimize(ReadyGraph(*graph, {}, layout, CpuKernels()).arena_bytes());
    }
  }
  state.counters["time_per_layer"] = benchmark::Counter(
      layers, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(Stage)->Arg(500)->Arg(1000)->Arg(2000)->Unit(benchmark::kMillisecond);

// A tiny plan from beginning to end, as tests run ten thousand times.
void Strict(benchmark::State& state) {
  const Plan plan = LibraryPlan("1f1b", 2, 2).value();
  for (auto _ : state) {
    const absl::Status status = RunStrict(plan);
    SL_CHECK(status.ok()) << status;
  }
}
BENCHMARK(Strict);

}  // namespace
}  // namespace stringline

BENCHMARK_MAIN();
