// GpuBlock on threads of the host: a thread block has real threads, barriers and shuffles, and its
// results have the same bits as HostBlock's.
//
// This file defines the words of CUDA used in gpu_block.h, so it is compiled by itself.
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>

#include "executor/cuda/bodies/attention.h"
#include "executor/cuda/bodies/column_sum.h"
#include "executor/cuda/bodies/cross_entropy.h"
#include "executor/cuda/bodies/dispatch.h"
#include "executor/cuda/bodies/linear.h"
#include "executor/cuda/bodies/norms.h"
#include "executor/cuda/bodies/route.h"
#include "tests/stages/body_runs.h"

namespace stringline::cuda {
namespace {

// The coordinates of a thread, and the state shared by its thread block.
struct Place {
  unsigned x = 0, y = 0;
};
thread_local Place threadIdx, blockIdx;
Place blockDim;

struct SharedState {
  std::vector<int> words;  // a word per thread, for shuffles
  std::unique_ptr<std::barrier<>> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
};
SharedState shared;

unsigned FlatThread() { return threadIdx.y * blockDim.x + threadIdx.x; }
std::barrier<>& WarpBarrier() { return *shared.warps[FlatThread() / 32]; }

// Resumes the last warp after a barrier only when all others have reached the next barrier.
bool last_warp_is_late = false;
std::atomic<int64_t> arrivals;        // by all threads at all barriers
thread_local int64_t barriers_begun;  // by this thread

void WaitForAll(bool ends_task) {
  const int64_t threads = static_cast<int64_t>(shared.words.size());
  const int64_t others_at_next = ++barriers_begun * threads + threads - 32;
  ++arrivals;
  shared.all->arrive_and_wait();
  if (!last_warp_is_late || ends_task || FlatThread() / 32 + 1 != shared.warps.size()) return;
  while (arrivals < others_at_next) std::this_thread::yield();
}
void __syncthreads() { WaitForAll(false); }
void __syncwarp() { WarpBarrier().arrive_and_wait(); }
int FromLane(int word, unsigned lane) {
  const unsigned own = FlatThread();
  shared.words[own] = word;
  __syncwarp();
  const int other = lane < 32 ? shared.words[own / 32 * 32 + lane] : word;
  __syncwarp();
  return other;
}
int __shfl_sync(unsigned, int word, unsigned lane) { return FromLane(word, lane); }
int __shfl_down_sync(unsigned, int word, unsigned step) {
  return FromLane(word, FlatThread() % 32 + step);
}

}  // namespace

// The type by which floats are moved.
struct alignas(16) [[gnu::may_alias]] int4 {
  int words[4];
};
extern int4 memory[];
int4 memory[6144];  // shared memory of one thread block

}  // namespace stringline::cuda

#define __device__
#define __shared__
#include "executor/cuda/bodies/gpu_block.h"

namespace stringline::cuda {
namespace {

// Like LaunchBody in executor/cuda/kernels/launch.h, with `together` warps in a thread block if a
// warp is a Block; thread blocks run in sequence.
template <int kThreads, class Body>
void RunOnThreads(const Body& body, unsigned together = 1) {
  int words = 0;
  if constexpr (requires { body.scratch_words(); }) words = body.scratch_words();
  words = (words + 3) / 4 * 4;
  ASSERT_LE(together * words * 4, sizeof memory);
  blockDim = {kThreads, together};
  const unsigned threads = kThreads * together;
  const int64_t count = body.blocks();
  shared.words.assign(threads, 0);
  arrivals = 0;
  shared.all = std::make_unique<std::barrier<>>(threads);
  shared.warps.clear();
  for (unsigned w = 0; w < threads / 32; ++w) {
    shared.warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      threadIdx = {t % kThreads, t / kThreads};
      for (blockIdx.x = 0; blockIdx.x < (count + together - 1) / together; ++blockIdx.x) {
        const GpuBlock<kThreads> block(count, words);
        if (block.index() < count) body(block);
        WaitForAll(true);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

void ExpectSameBits(Buffer<float>& seen, Buffer<float>& expected) {
  const Array a = seen.Values(), b = expected.Values();
  for (int64_t i = 0; i < a.type.elements(); ++i) ASSERT_EQ(a.f32()[i], b.f32()[i]) << i;
}

// make(output) returns a body that writes to `output`; the body is run by warps and by larger
// blocks.
template <int kThreads = 96, int kWarpsTogether = 3, class Make>
void ExpectSameAsHost(int64_t outputs, Make make) {
  Buffer<float> expected(outputs, {32, 0}), seen(outputs, {32, 0});
  RunOnHost(make(expected.data()), 32);
  RunOnThreads<32>(make(seen.data()), kWarpsTogether);
  ExpectSameBits(seen, expected);
  RunOnHost(make(expected.data()), kThreads);
  RunOnThreads<kThreads>(make(seen.data()));
  ExpectSameBits(seen, expected);
}

class GpuBlockTest : public BodiesTest {
 protected:
  void TearDown() override { last_warp_is_late = false; }
};

// y[i] = sum of 96 numbers from i on, by consecutive reductions.
struct SumsInALoop {
  float* y;
  int64_t blocks() const { return 1; }
  template <class Block>
  void operator()(const Block& block) const {
    for (int i = 0; i < 20; ++i) {
      const Sums<1> sum = block.reduce(
          96, Sums<1>{}, [i](int k, Sums<1>& s) { s[0] += static_cast<float>(i + k); }, AddSums());
      block.each(96, [&](int k) { y[i * 96 + k] = sum[0]; });
    }
  }
};

TEST_F(GpuBlockTest, ReductionsTakeTurns) {
  last_warp_is_late = true;
  ExpectSameAsHost(20 * 96, [](float* y) { return SumsInALoop{y}; });
}

TEST_F(GpuBlockTest, LayerNorm) {
  const BodyRun run = {32, 0};
  Buffer<float> x(Random({4, 1000}), run), gamma(Random({1000}), run), beta(Random({1000}), run);
  Buffer<float> mean(4, run), rstd(4, run);
  ExpectSameAsHost(4000, [&](float* y) {
    return LayerNorm<float, float>{x.data(), gamma.data(), beta.data(), y, mean.data(), rstd.data(),
                                   4,        1000,         1e-5f};
  });
}

TEST_F(GpuBlockTest, LayerNormGrad) {
  const BodyRun run = {32, 0};
  Buffer<float> dy(Random({20, 500}), run), x(Random({20, 500}), run), gamma(Random({500}), run);
  Buffer<float> mean(Random({20}), run), rstd(Random({20}), run), dx(20 * 500, run);
  const auto operands = [&](float* partial) {
    return NormGradOperands<NormKind::kLayer, float, float>{
        dy.data(), x.data(),  gamma.data(), mean.data(), rstd.data(),
        nullptr,   dx.data(), partial,      20,          500};
  };
  const int64_t sums = NormGradTasks(20, 500) * 1000;
  ExpectSameAsHost(sums,
                   [&](float* partial) { return LayerNormGrad<float, float>{operands(partial)}; });
  ExpectSameAsHost(sums, [&](float* partial) {
    return ShortNormGrad<NormKind::kLayer, float, float>{operands(partial)};
  });
}

TEST_F(GpuBlockTest, ColumnSum) {
  Buffer<float> x(Random({70, 101}), {32, 0});
  ExpectSameAsHost(2 * 101,
                   [&](float* sum) { return ColumnSum<float>{x.data(), sum, 70, 101, 101, 2}; });
}

TEST_F(GpuBlockTest, CrossEntropyInPlaceOfALoss) {
  Buffer<float> x(Random({5, 333}), {32, 0}), lse(5, {32, 0});
  const int32_t target[] = {0, 5, 332, 17, 100};
  ExpectSameAsHost(5, [&](float* losses) {
    return CrossEntropy<float>{x.data(), target, lse.data(), losses, nullptr, nullptr, 5, 333, 333};
  });
}

TEST_F(GpuBlockTest, RouteByGroups) {
  Buffer<float> logits(Random({3, 40}), {32, 0});
  Buffer<int32_t> choice(3 * 5, {32, 0});
  ExpectSameAsHost(3 * 5, [&](float* weight) {
    return Route<float>{logits.data(),
                        nullptr,
                        weight,
                        choice.data(),
                        3,
                        40,
                        5,
                        Scores::kSoftmax,
                        false,
                        true,
                        1,
                        8,
                        3,
                        2};
  });
}

TEST_F(GpuBlockTest, Attention) {
  const AttentionShape shape = {1, 70, {1, 1, 16}};
  Buffer<float> qkv(Random({70, 48}), {32, 0}), dy(Random({70, 16}), {32, 0});
  Buffer<float> kept(70 * 16, {32, 0}), lse(70, {32, 0}), delta(70, {32, 0});
  ExpectSameAsHost<96, 1>(70 * 16, [&](float* y) {
    return Attention<float, 64>{{qkv.data(), y, lse.data(), shape}};
  });
  RunOnHost(Attention<float, 64>{{qkv.data(), kept.data(), lse.data(), shape}}, 32);
  AttentionGradArguments<float> grad = {dy.data(),    qkv.data(), kept.data(), lse.data(),
                                        delta.data(), nullptr,    shape};
  RunOnHost(AttentionDelta<float>{grad}, 32);
  const auto filled = [&](float* to) {
    std::fill_n(to, 70 * 48, 0.0f);
    grad.dqkv = to;
    return grad;
  };
  ExpectSameAsHost<96, 1>(70 * 48,
                          [&](float* to) { return AttentionGradQueries<float, 64>{filled(to)}; });
  ExpectSameAsHost<96, 1>(70 * 48,
                          [&](float* to) { return AttentionGradKeys<float, 64>{filled(to)}; });
}

TEST_F(GpuBlockTest, GroupedLinear) {
  const int64_t rows = 90, size = 50, width = 70, experts = 2;
  const int32_t received[] = {30, 5, 40, 10};
  std::vector<int32_t> plan(static_cast<size_t>(GroupedPlanIntegers(2, experts))), other = plan;
  const GroupedRows grouped = PlanGroupedRows(HostRun{32}, received, rows, 2, experts, plan.data());
  PlanGroupedRows([](const auto& body) { RunOnThreads<96>(body); }, received, rows, 2, experts,
                  other.data());
  EXPECT_EQ(other, plan);
  Buffer<float> x(Random({rows, size}), {32, 0}), dy(Random({rows, width}), {32, 0});
  Buffer<float> w(Random({experts, width, size}), {32, 0});
  const auto filled = [&](float* to, int64_t columns) {
    std::fill_n(to, rows * columns, 0.0f);
    return to;
  };
  ExpectSameAsHost(rows * width, [&](float* y) {
    return GroupedLinear<float>{x.data(), w.data(), filled(y, width), grouped, size, width};
  });
  ExpectSameAsHost(rows * size, [&](float* dx) {
    return GroupedLinearInputGrad<float>{dy.data(), w.data(), filled(dx, size),
                                         grouped,   size,     width};
  });
  ExpectSameAsHost(experts * width * size, [&](float* dw) {
    return GroupedLinearWeightGrad<float>{dy.data(), x.data(), dw, grouped, size, width};
  });
}

// Integers, in an order independent of the number of threads.
TEST_F(GpuBlockTest, DispatchPlan) {
  const Array choice = RandomIntegers({600}, 7);
  std::vector<int32_t> integers(static_cast<size_t>(DispatchPlanIntegers(600, 7)));
  const auto plan = [&](const auto& run) {
    std::vector<int32_t> order(600), counts(7);
    float dropped = -1;
    PlanDispatch(run, choice.i32(), 600, 7, 80, order.data(), counts.data(), &dropped,
                 integers.data());
    EXPECT_GT(dropped, 0);
    return order;
  };
  const std::vector<int32_t> expected = plan(HostRun{128});
  EXPECT_EQ(plan([](const auto& body) { RunOnThreads<32>(body, 2); }), expected);
  EXPECT_EQ(plan([](const auto& body) { RunOnThreads<64>(body); }), expected);
}

}  // namespace
}  // namespace stringline::cuda
