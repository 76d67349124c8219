// Every op through the CUDA backend's kernels, played by the host, against the CPU's kernel: where
// outputs are overwritten and where they are added to.
#include "executor/cuda/cuda_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "stages/ops.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/stages/experts_ops.h"
#include "tests/stages/random_values.h"

namespace stringline {
namespace {

using cpu::Array;
using cpu::I32;

struct OpCase {
  Op op;
  std::vector<Array> inputs;
  std::vector<double> attributes;
};

// A graph of one node, and what its operands hold.
struct OneNode {
  explicit OneNode(const OpCase& from) {
    std::vector<Type> types;
    Node& node = graph.nodes.emplace_back(Node{from.op, {}, {}, from.attributes});
    for (const Array& input : from.inputs) types.push_back(input.type);
    auto outputs = InferTypes(from.op, types, from.attributes);
    SL_CHECK(outputs.ok()) << outputs.status();
    for (std::vector<Type>* const of : {&types, &*outputs}) {
      for (const Type& type : *of) {
        (of == &types ? node.inputs : node.outputs)
            .push_back(static_cast<ValueId>(graph.values.size()));
        graph.values.push_back({type, absl::StrCat("v", graph.values.size())});
      }
    }
  }
  const Node& node() const { return graph.nodes[0]; }
  const Type& out(size_t i) const { return graph.values[node().outputs[i]].type; }

  Graph graph;
};

// What an output holds before: NaN, or numbers to add to.
std::vector<Array> OutputsBefore(const OneNode& one, bool accumulate, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Array> outputs;
  for (size_t i = 0; i < one.node().outputs.size(); ++i) {
    Array& output = outputs.emplace_back(cpu::RandomArray(one.out(i), random, 9));
    const bool adds = accumulate && RowOf(one.node().op).CanAccumulate(static_cast<int>(i));
    if (adds || output.type.dtype != DType::kF32) continue;
    std::fill_n(output.f32(), output.type.elements(), std::numeric_limits<float>::quiet_NaN());
  }
  return outputs;
}

struct Buffers {
  std::vector<Tensor> in, out;
  bool accumulate[8] = {};
  void* workspace = nullptr;

  NodeRun Run(const OneNode& one, NativeStream stream) const {
    return {one.node(), in, out, absl::MakeConstSpan(accumulate, out.size()), workspace, stream};
  }
};

Buffers BuffersOn(Device* device, const OneNode& one, const OpCase& from,
                  const std::vector<Array>& outputs, bool accumulate, int64_t workspace_bytes) {
  Buffers buffers;
  const auto place = [&](const Array& array, const Type& type) {
    void* const memory = device->Allocate(type.bytes()).value();
    SL_CHECK(device->CopyNow(memory, array.data.get(), type.bytes()).ok());
    return Tensor{memory, &type};
  };
  for (size_t i = 0; i < from.inputs.size(); ++i) {
    buffers.in.push_back(place(from.inputs[i], one.graph.values[one.node().inputs[i]].type));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    buffers.out.push_back(place(outputs[i], one.out(i)));
    buffers.accumulate[i] = accumulate && RowOf(one.node().op).CanAccumulate(static_cast<int>(i));
  }
  buffers.workspace = device->Allocate(workspace_bytes).value();
  // What was there before is no help.
  std::fill_n(static_cast<char*>(buffers.workspace), workspace_bytes, '\xff');
  return buffers;
}

struct Launching {
  const OneNode& one;
  const Buffers& buffers;
  const ReadyKernel& kernel;
};

// `outputs` are what the device has after the run.
absl::Status RunOnCuda(const OpCase& from, const std::vector<Array>& before, bool accumulate,
                       std::vector<Array>* outputs) {
  standin_reset(1);
  standin_cublas_reset();
  auto device = CudaDevice::Make();
  SL_CHECK(device.ok()) << device.status();
  const auto kernels = CudaKernels::Make(device->get());
  SL_CHECK(kernels.ok()) << kernels.status();
  const OneNode one(from);
  const auto kernel = (*kernels)->ReadyFor(one.graph, one.node());
  SL_CHECK(kernel.ok()) << kernel.status();
  const Buffers buffers =
      BuffersOn(device->get(), one, from, before, accumulate, kernel->workspace_bytes);
  const Launching launching = {one, buffers, *kernel};
  const StreamId stream = (*device)->NewStream({}, 4);
  const Work work = {[](const void* self, int64_t, NativeStream on) {
                       const auto& launch = *static_cast<const Launching*>(self);
                       launch.kernel.run(launch.kernel.self, launch.buffers.Run(launch.one, on));
                     },
                     &launching, 0};
  (*device)->Launch(stream, work, nullptr);
  const absl::Status status = (*device)->Synchronize();
  if (!status.ok()) return status;
  for (const Tensor& output : buffers.out) {
    Array& copy = outputs->emplace_back(cpu::MakeArray(*output.type));
    SL_CHECK((*device)->CopyNow(copy.data.get(), output.data, output.type->bytes()).ok());
  }
  return status;
}

absl::Status StatusOnCuda(const OpCase& from) {
  std::vector<Array> outputs;
  return RunOnCuda(from, OutputsBefore(OneNode(from), false, 1), false, &outputs);
}

std::vector<Array> RunOnCpu(const OpCase& from, std::vector<Array> outputs, bool accumulate) {
  const OneNode one(from);
  const ReadyKernel kernel = CpuKernels()->ReadyFor(one.graph, one.node()).value();
  Buffers buffers;
  for (const Array& input : from.inputs) buffers.in.push_back({input.data.get(), &input.type});
  for (size_t i = 0; i < outputs.size(); ++i) {
    buffers.out.push_back({outputs[i].data.get(), &outputs[i].type});
    buffers.accumulate[i] = accumulate && RowOf(from.op).CanAccumulate(static_cast<int>(i));
  }
  const Array workspace = cpu::MakeArray(I32({kernel.workspace_bytes / 4 + 1}));
  buffers.workspace = workspace.data.get();
  kernel.run(kernel.self, buffers.Run(one, nullptr));
  return outputs;
}

void ExpectSame(const Array& seen, const Array& expected, float tolerance) {
  const int64_t count = expected.type.elements();
  if (expected.type.dtype == DType::kI32) {
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen.i32()[i], expected.i32()[i]) << i;
    return;
  }
  float largest = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(expected.f32()[i])) {
      largest = std::max(largest, std::abs(expected.f32()[i]));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const float want = expected.f32()[i], got = seen.f32()[i];
    // What nobody writes is still NaN.
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << "element " << i << ": " << got;
    } else {
      ASSERT_NEAR(got, want, tolerance * largest) << "element " << i;
    }
  }
}

class CudaKernelsTest : public cpu::SeededTest {
 protected:
  CudaKernelsTest() { MakeCases(); }

  Array Integers(std::vector<int64_t> shape, int32_t below) {
    return cpu::RandomArray(I32(std::move(shape)), random_, below);
  }
  void Add(Op op, std::vector<Array> inputs, std::vector<double> attributes = {}) {
    cases_.push_back({op, std::move(inputs), std::move(attributes)});
  }
  std::vector<Array> OnCpu(const OpCase& from) {
    return RunOnCpu(from, OutputsBefore(OneNode(from), false, 1), false);
  }

  void MakeCases() {
    for (const auto& [b, t, c] : {std::tuple{1, 1, 1}, {2, 3, 5}, {2, 8, 16}, {3, 70, 24}}) {
      MakeRowCases(b, t, c);
    }
    for (const auto& [n, k, o] : {std::tuple{1, 1, 1}, {5, 7, 3}, {16, 24, 64}, {130, 32, 20}}) {
      MakeProductCases(n, k, o);
    }
    MakeRowCases(1, 2, 1100);
    MakeRowCases(5, 300, 4);
    for (const auto& [heads, kv_heads, size] : {std::tuple{2, 2, 4}, {4, 2, 8}, {3, 1, 6}}) {
      MakeHeadCases(heads, kv_heads, size);
    }
    MakeTokenCases(1, 1, 1, 4);
    MakeTokenCases(2, 8, 64, 16);
    MakeTokenCases(2, 70, 600, 6);
    MakeExpertCases(1, 4, 2, 2);
    MakeExpertCases(8, 8, 2, 16);
    MakeExpertCases(350, 8, 3, 4);
  }

  void MakeProductCases(int64_t n, int64_t k, int64_t o) {
    const Array x = Random({1, n, k}), w = Random({o, k}), b = Random({o}), y = Random({1, n, o});
    Add(Op::kLinear, {x, w});
    Add(Op::kLinearBias, {x, w, b});
    Add(Op::kLinearResidual, {x, w, b, y});
    Add(Op::kLinearAdd, {x, w, y});
    Add(Op::kLinearInputGrad, {y, w});
    Add(Op::kLinearWeightGrad, {y, x});
  }

  void MakeRowCases(int64_t b, int64_t t, int64_t c) {
    const auto x = [&] { return Random({b, t, c}); };
    const auto row = [&] { return Random({c}); };
    Add(Op::kAdd, {x(), x()});
    Add(Op::kMul, {x(), x()});
    Add(Op::kScale, {x()}, {-1.5});
    Add(Op::kCast, {x()}, {32});
    Add(Op::kConstant, {}, {0.25});
    Add(Op::kGelu, {x()});
    Add(Op::kGeluGrad, {x(), x()});
    Add(Op::kSwiglu, {Random({b, t, 2 * c})});
    Add(Op::kSwigluGrad, {x(), Random({b, t, 2 * c})});
    Add(Op::kColumnSum, {x()});
    Add(Op::kPositionAdd, {x(), Random({t, c})});
    Add(Op::kPositionGrad, {x()});
    // Gradients of norms stay small where rows are long, as they do in training.
    const float small = 1 / std::sqrt(static_cast<float>(b * t));
    Add(Op::kLayerNorm, {x(), row(), row()}, {1e-5});
    Add(Op::kLayerNormGrad, {Random({b, t, c}, small), x(), row(), Random({b, t}), Random({b, t})});
    Add(Op::kRmsNorm, {x(), row()}, {1e-5});
    Add(Op::kRmsNormGrad, {Random({b, t, c}, small), x(), row(), Random({b, t})});
  }

  void MakeHeadCases(int64_t heads, int64_t kv_heads, int64_t size) {
    const int64_t b = 2, t = 9, width = (heads + 2 * kv_heads) * size;
    const std::vector<double> both = {double(heads), double(kv_heads)};
    const auto qkv = [&] { return Random({b, t, width}); };
    const auto gamma = [&] { return Random({size}); };
    Add(Op::kHeadNorm, {qkv(), gamma(), gamma()}, {both[0], both[1], 1e-5});
    Add(Op::kHeadNormGrad, {qkv(), qkv(), gamma(), gamma(), Random({b, t, heads + kv_heads})},
        both);
    Add(Op::kRotary, {qkv()}, {both[0], both[1], 10000, 1});
    Add(Op::kRotary, {qkv()}, {both[0], both[1], 500, -1});
    const OpCase attention = {Op::kAttention, {qkv()}, both};
    cases_.push_back(attention);
    const std::vector<Array> mixed = OnCpu(attention);
    Add(Op::kAttentionGrad, {Random({b, t, heads * size}), attention.inputs[0], mixed[0], mixed[1]},
        both);
  }

  void MakeTokenCases(int64_t b, int64_t t, int32_t vocabulary, int64_t c) {
    const auto token = [&] { return Integers({b, t}, vocabulary); };
    Add(Op::kEmbedding, {token(), Random({vocabulary, c})});
    Add(Op::kEmbeddingGrad, {token(), Random({b, t, c})}, {double(vocabulary)});
    const Array logits = Random({b, t, vocabulary});
    const Array target = token();
    const OpCase loss = {Op::kCrossEntropy, {logits, target}, {}};
    Add(Op::kCrossEntropy, loss.inputs);
    Add(Op::kCrossEntropyGrad, {Random({}), logits, target, OnCpu(loss)[1]});
  }

  void MakeExpertCases(int64_t rows, int64_t experts, int64_t choices, int64_t width) {
    const Array logits = Random({rows, experts});
    for (const bool sigmoid : {false, true}) {
      const double scores = sigmoid ? 1 : 0;
      const OpCase route = {
          Op::kRoute,
          {logits, sigmoid ? Random({experts}) : Random({})},
          {double(choices), scores, sigmoid ? 0.0 : 1.0, 1.5, sigmoid ? 2.0 : 1.0, 1, 1}};
      // Two experts of a group of two can be chosen.
      if (experts / 2 >= choices) cases_.push_back(route);
      Add(Op::kRouteGrad,
          {Random({rows, choices}), logits,
           Integers({rows, choices}, static_cast<int32_t>(experts))},
          {scores, sigmoid ? 0.0 : 1.0, 1.5});
    }
    const Array choice = Integers({rows, choices}, static_cast<int32_t>(experts));
    Add(Op::kChoiceCounts, {choice}, {double(experts)});
    Add(Op::kBalanceLoss, {logits, choice}, {0.02});
    Add(Op::kBalanceLossGrad, {Random({}), logits, choice}, {0.02});
    Add(Op::kDispatchPlan, {choice}, {double(experts), 1});
    const OpCase plan = {Op::kDispatchPlan, {choice}, {double(experts), 0}};
    cases_.push_back(plan);
    const std::vector<Array> planned = OnCpu(plan);
    const Array &order = planned[0], &counts = planned[1];
    const int64_t slots = rows * choices;
    Add(Op::kGatherRows, {Random({rows, width}), order});
    Add(Op::kSumRows, {Random({slots, width}), order});
    Add(Op::kGatherWeights, {Random({rows, choices}), order});
    Add(Op::kScatterWeights, {Random({slots}), order});
    Add(Op::kAllToAllCounts, {counts}, {1});
    const Array received = OnCpu(cases_.back())[0];
    const int64_t most = slots + 3;
    Add(Op::kDispatch, {Random({slots, width}), counts, received}, {double(most)});
    Add(Op::kDispatch, {Random({slots}), counts, received}, {double(most)});
    Add(Op::kCombine, {Random({most, width}), counts, received}, {double(slots)});
    const Array rows_of_experts = Random({most, width});
    Add(Op::kGroupedLinear, {rows_of_experts, Random({experts, 5, width}), received});
    Add(Op::kGroupedLinearInputGrad, {Random({most, 5}), Random({experts, 5, width}), received});
    Add(Op::kGroupedLinearWeightGrad, {Random({most, 5}), rows_of_experts, received});
    Add(Op::kExpertSwiglu, {Random({most, 2 * width}), Random({most}), received});
    Add(Op::kExpertSwigluGrad,
        {Random({most, width}), Random({most, 2 * width}), Random({most}), received});
  }

  std::vector<OpCase> cases_;
};

TEST_F(CudaKernelsTest, AreTheCpus) {
  for (const OpCase& c : cases_) {
    for (const bool accumulate : {false, true}) {
      if (accumulate && RowOf(c.op).accumulates == 0) continue;
      std::string shape;
      if (!c.inputs.empty()) {
        for (const int64_t d : c.inputs[0].type.shape) absl::StrAppend(&shape, " ", d);
      }
      SCOPED_TRACE(absl::StrCat(RowOf(c.op).name, shape, accumulate ? ", added" : ""));
      const auto before = [&] { return OutputsBefore(OneNode(c), accumulate, 7); };
      const std::vector<Array> expected = RunOnCpu(c, before(), accumulate);
      std::vector<Array> seen;
      const absl::Status status = RunOnCuda(c, before(), accumulate, &seen);
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(absl::StrCat("output ", i));
        ExpectSame(seen[i], expected[i], 1e-5f);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// A parameter as the optimiser sees it, in memory of its own.
struct HeldBlock {
  std::vector<float> values, gradient, m, v;
};

class CudaBlocks {
 public:
  CudaBlocks() {
    standin_reset(1);
    standin_cublas_reset();
    device_ = CudaDevice::Make().value();
    kernels_ = CudaKernels::Make(device_.get()).value();
    stream_ = device_->NewStream({}, 8);
  }
  template <typename T>
  absl::Span<T> Put(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    auto* const memory = static_cast<T*>(device_->Allocate(bytes).value());
    SL_CHECK(device_->CopyNow(memory, values.data(), bytes).ok());
    return {memory, values.size()};
  }
  // Calls `work(kernels, stream)` when the stream is issued, and waits for all of it.
  template <typename F>
  void Run(F work) {
    const auto call = [&](NativeStream on) { work(*kernels_, on); };
    const Work enqueued = {[](const void* self, int64_t, NativeStream on) {
                             (*static_cast<const decltype(call)*>(self))(on);
                           },
                           &call, 0};
    device_->Launch(stream_, enqueued, nullptr);
    const absl::Status status = device_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
  CudaDevice& device() { return *device_; }
  CudaKernels& kernels() { return *kernels_; }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaKernels> kernels_;
  StreamId stream_;
};

TEST_F(CudaKernelsTest, UpdateAListOfParametersAsTheCpuDoes) {
  CudaBlocks cuda;
  const auto numbers = [&](int64_t count, bool squared) {
    const Array drawn = Random({count});
    std::vector<float> values(drawn.f32(), drawn.f32() + count);
    for (float& value : values) value = squared ? value * value : value;
    return values;
  };
  // Some of more than one chunk; one balances, one is tied and does not count.
  std::vector<HeldBlock> held;
  std::vector<ParamBlock> on_cpu, on_cuda;
  for (const int64_t count : {1, 37, 8, 20000, 9000, 64}) {
    held.push_back({numbers(count, false), numbers(count, false), numbers(count, false),
                    numbers(count, true)});
  }
  for (size_t i = 0; i < held.size(); ++i) {
    HeldBlock& own = held[i];
    ParamBlock& block = on_cpu.emplace_back();
    block.balances = i == 2;
    block.decays = i % 2 == 0;
    block.counts = i != 2 && i != 4;
    ParamBlock& there = on_cuda.emplace_back(block);
    there.values = cuda.Put(own.values);
    there.gradient = cuda.Put(own.gradient);
    there.m = cuda.Put(own.m);
    there.v = cuda.Put(own.v);
    block.values = absl::MakeSpan(own.values);
    block.gradient = absl::MakeSpan(own.gradient);
    block.m = absl::MakeSpan(own.m);
    block.v = absl::MakeSpan(own.v);
  }
  ASSERT_TRUE(cuda.kernels().Prepare(on_cuda).ok());
  std::vector<double> expected(held.size());
  CpuKernels()->SumOfSquares(on_cpu, expected.data(), nullptr);
  auto* const sums = static_cast<double*>(
      cuda.device().AllocateHost(static_cast<int64_t>(held.size() * sizeof(double))).value());
  UpdateStep step;
  step.scale = 0.5;
  step.balance_rate = 0.25;
  for (step.number = 1; step.number <= 2; ++step.number) {
    cuda.Run([&](CudaKernels& kernels, NativeStream on) {
      if (step.number == 1) kernels.SumOfSquares(on_cuda, sums, on);
      kernels.Update(step, on_cuda, on);
    });
    CpuKernels()->Update(step, on_cpu, nullptr);
    for (size_t i = 0; i < held.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("parameter ", i, ", step ", step.number));
      EXPECT_NEAR(sums[i], expected[i], 1e-12 * expected[i]);
      EXPECT_EQ(expected[i] == 0, !on_cpu[i].counts);
      const auto compare = [&](absl::Span<const float> there, absl::Span<const float> here) {
        std::vector<float> seen(here.size());
        SL_CHECK(cuda.device()
                     .CopyNow(seen.data(), there.data(),
                              static_cast<int64_t>(seen.size() * sizeof(float)))
                     .ok());
        for (size_t k = 0; k < seen.size(); ++k) ASSERT_NEAR(seen[k], here[k], 1e-6) << k;
      };
      compare(on_cuda[i].values, on_cpu[i].values);
      compare(on_cuda[i].gradient, on_cpu[i].gradient);
      compare(on_cuda[i].m, on_cpu[i].m);
      compare(on_cuda[i].v, on_cpu[i].v);
      std::fill(held[i].gradient.begin(), held[i].gradient.end(), 0.125f);
      SL_CHECK(cuda.device()
                   .CopyNow(on_cuda[i].gradient.data(), held[i].gradient.data(),
                            static_cast<int64_t>(held[i].gradient.size() * sizeof(float)))
                   .ok());
    }
  }
}

TEST_F(CudaKernelsTest, ClearTheRowsBehindThoseThatAreThere) {
  for (const int64_t columns : {1, 5, 8}) {
    for (const int32_t there : {0, 3, 7, 2000}) {
      SCOPED_TRACE(absl::StrCat(there, " rows of ", columns));
      CudaBlocks cuda;
      const int64_t most = there + 1100;  // more than there are tasks
      std::vector<float> values(static_cast<size_t>(most * columns), 3.0f);
      const auto rows = cuda.Put(values);
      const auto counts = cuda.Put(std::vector<int32_t>{there / 2, 0, there - there / 2});
      cuda.Run([&](CudaKernels& kernels, NativeStream on) {
        kernels.ClearBehind(
            {reinterpret_cast<char*>(rows.data()), columns * static_cast<int64_t>(sizeof(float)),
             most, counts.data(), static_cast<int64_t>(counts.size())},
            on);
      });
      std::vector<float> seen(values.size());
      ASSERT_TRUE(
          cuda.device()
              .CopyNow(seen.data(), rows.data(), static_cast<int64_t>(seen.size() * sizeof(float)))
              .ok());
      std::fill(values.begin() + there * columns, values.end(), 0.0f);
      EXPECT_EQ(seen, values);
    }
  }
}

TEST_F(CudaKernelsTest, RefuseTheRowsOfSeveralRanks) {
  const Array counts = Integers({4}, 3), received = Integers({2, 2}, 3);
  for (const OpCase& c : {OpCase{Op::kAllToAllCounts, {counts}, {2}},
                          OpCase{Op::kDispatch, {Random({9, 2}), counts, received}, {9}},
                          OpCase{Op::kCombine, {Random({9, 2}), counts, received}, {9}}}) {
    EXPECT_EQ(StatusOnCuda(c), absl::FailedPreconditionError(absl::StrCat(
                                   "the launch of ", RowOf(c.op).name,
                                   ": rows for 2 ranks: only a group of ranks can exchange them")));
  }
}

TEST_F(CudaKernelsTest, HaveACaseForEveryOp) {
  std::set<Op> with_case;
  for (const OpCase& c : cases_) with_case.insert(c.op);
  for (const OpRow& row : AllOps()) {
    EXPECT_NE(cuda::LaunchOf(row.op).in_f32, nullptr) << row.name;
    EXPECT_TRUE(with_case.contains(row.op)) << row.name;
  }
}

}  // namespace
}  // namespace stringline
