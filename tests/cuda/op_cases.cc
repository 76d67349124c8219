#include "tests/cuda/op_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "schedlang/base/sl_check.h"
#include "stages/ops.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

using cpu::Array;
using cpu::I32;

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
  bool CanAdd(size_t i) const {
    return out(i).dtype == DType::kF32 && RowOf(node().op).CanAccumulate(static_cast<int>(i));
  }

  Graph graph;
};

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
    buffers.accumulate[i] = accumulate && one.CanAdd(i);
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

std::vector<Array> OnCpu(const OpCase& from) {
  return RunOnCpu(from, OutputsBefore(from, false, 1), false);
}

}  // namespace

std::string ToString(const OpCase& op_case) {
  std::string text = RowOf(op_case.op).name;
  if (op_case.inputs.empty()) return text;
  for (const int64_t d : op_case.inputs[0].type.shape) absl::StrAppend(&text, " ", d);
  return text;
}

std::vector<Array> OutputsBefore(const OpCase& from, bool accumulate, unsigned seed) {
  const OneNode one(from);
  std::mt19937_64 random(seed);
  std::vector<Array> outputs;
  for (size_t i = 0; i < one.node().outputs.size(); ++i) {
    if (one.out(i).dtype == DType::kBF16) {
      const Array& output = outputs.emplace_back(cpu::MakeArray(one.out(i)));
      std::fill_n(output.bf16(), output.type.elements(), uint16_t{0x7fff});
      continue;
    }
    Array& output = outputs.emplace_back(cpu::RandomArray(one.out(i), random, 9));
    if ((accumulate && one.CanAdd(i)) || output.type.dtype != DType::kF32) continue;
    std::fill_n(output.f32(), output.type.elements(), std::numeric_limits<float>::quiet_NaN());
  }
  return outputs;
}

absl::Status RunOnCuda(const OpCase& from, const std::vector<Array>& before, bool accumulate,
                       std::vector<Array>* outputs, CudaKernels::AttentionSource attention) {
  standin_reset(1);
  standin_cublas_reset();
  auto device = CudaDevice::Make();
  SL_CHECK(device.ok()) << device.status();
  const auto kernels = CudaKernels::Make(device->get(), attention);
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

std::vector<Array> RunOnCpu(const OpCase& from, std::vector<Array> outputs, bool accumulate) {
  const OneNode one(from);
  const ReadyKernel kernel = CpuKernels()->ReadyFor(one.graph, one.node()).value();
  Buffers buffers;
  for (const Array& input : from.inputs) buffers.in.push_back({input.data.get(), &input.type});
  for (size_t i = 0; i < outputs.size(); ++i) {
    buffers.out.push_back({outputs[i].data.get(), &outputs[i].type});
    buffers.accumulate[i] = accumulate && one.CanAdd(i);
  }
  const Array workspace = cpu::MakeArray(I32({kernel.workspace_bytes / 4 + 1}));
  buffers.workspace = workspace.data.get();
  kernel.run(kernel.self, buffers.Run(one, nullptr));
  return outputs;
}

void OpCasesTest::MakeCases() {
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

void OpCasesTest::MakeProductCases(int64_t n, int64_t k, int64_t o) {
  const Array x = Random({1, n, k}), w = Random({o, k}), b = Random({o}), y = Random({1, n, o});
  Add(Op::kLinear, {x, w});
  Add(Op::kLinearBias, {x, w, b});
  Add(Op::kLinearResidual, {x, w, b, y});
  Add(Op::kLinearAdd, {x, w, y});
  Add(Op::kLinearInputGrad, {y, w});
  Add(Op::kLinearWeightGrad, {y, x});
}

void OpCasesTest::MakeRowCases(int64_t b, int64_t t, int64_t c) {
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

void OpCasesTest::MakeHeadCases(int64_t heads, int64_t kv_heads, int64_t size) {
  const int64_t b = 2, t = 9, width = (heads + 2 * kv_heads) * size;
  const std::vector<double> both = {double(heads), double(kv_heads)};
  const auto qkv = [&] { return Random({b, t, width}); };
  const auto gamma = [&] { return Random({size}); };
  Add(Op::kHeadNorm, {qkv(), gamma(), gamma()}, {both[0], both[1], 1e-5});
  Add(Op::kHeadNormGrad, {qkv(), qkv(), gamma(), gamma(), Random({b, t, heads + kv_heads})}, both);
  Add(Op::kRotary, {qkv()}, {both[0], both[1], 10000, 1});
  Add(Op::kRotary, {qkv()}, {both[0], both[1], 500, -1});
  const OpCase attention = {Op::kAttention, {qkv()}, both};
  cases_.push_back(attention);
  const std::vector<Array> mixed = OnCpu(attention);
  Add(Op::kAttentionGrad, {Random({b, t, heads * size}), attention.inputs[0], mixed[0], mixed[1]},
      both);
}

void OpCasesTest::MakeTokenCases(int64_t b, int64_t t, int32_t vocabulary, int64_t c) {
  const auto token = [&] { return Integers({b, t}, vocabulary); };
  Add(Op::kEmbedding, {token(), Random({vocabulary, c})});
  Add(Op::kEmbeddingGrad, {token(), Random({b, t, c})}, {double(vocabulary)});
  const Array logits = Random({b, t, vocabulary});
  const Array target = token();
  const OpCase loss = {Op::kCrossEntropy, {logits, target}, {}};
  Add(Op::kCrossEntropy, loss.inputs);
  Add(Op::kCrossEntropyGrad, {Random({}), logits, target, OnCpu(loss)[1]});
}

void OpCasesTest::MakeExpertCases(int64_t rows, int64_t experts, int64_t choices, int64_t width) {
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
        {Random({rows, choices}), logits, Integers({rows, choices}, static_cast<int32_t>(experts))},
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

}  // namespace stringline
