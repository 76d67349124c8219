// Cases are made op by op from a few small, odd sizes; inputs that depend on others, such as
// statistics or an order of rows, are computed by the CPU. An op runs as a graph of one node, into
// outputs of NaN and a filled workspace, so that missing writes show.
#include "tools/gpu/op_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"

namespace stringline {
namespace {

using cpu::Array;

Type FloatType(std::vector<int64_t> shape) { return {DType::kF32, std::move(shape)}; }
Type IntegerType(std::vector<int64_t> shape) { return {DType::kI32, std::move(shape)}; }

// A graph of one node, with the contents of its operands.
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
  // The initial contents are useless.
  const std::vector<char> nothing(static_cast<size_t>(workspace_bytes), '\xff');
  if (!nothing.empty()) {
    SL_CHECK(device->CopyNow(buffers.workspace, nothing.data(), workspace_bytes).ok());
  }
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

Array RandomArray(const Type& type, std::mt19937_64* random, float factor, int32_t below) {
  Array array = cpu::MakeArray(type);
  const int64_t count = type.elements();
  if (type.dtype == DType::kI32) {
    std::uniform_int_distribution<int32_t> draw(0, below - 1);
    for (int64_t i = 0; i < count; ++i) array.i32()[i] = draw(*random);
    return array;
  }
  std::normal_distribution<float> draw;
  for (int64_t i = 0; i < count; ++i) {
    const float value = factor * draw(*random);
    if (type.dtype == DType::kF32) {
      array.f32()[i] = value;
    } else {
      array.bf16()[i] = ToBf16(value);
    }
  }
  return array;
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
    Array& output = outputs.emplace_back(RandomArray(one.out(i), &random, 1, 9));
    if ((accumulate && one.CanAdd(i)) || output.type.dtype != DType::kF32) continue;
    std::fill_n(output.f32(), output.type.elements(), std::numeric_limits<float>::quiet_NaN());
  }
  return outputs;
}

absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> NoAttentionLibrary() {
  return absl::UnavailableError("our own kernel is asked for");
}

absl::StatusOr<RanOp> RunOnDevice(CudaDevice* device, CudaKernels* kernels, const OpCase& from,
                                  const std::vector<Array>& before, bool accumulate, int times) {
  const OneNode one(from);
  SL_ASSIGN_OR_RETURN(const ReadyKernel kernel, kernels->ReadyFor(one.graph, one.node()));
  const Buffers buffers = BuffersOn(device, one, from, before, accumulate, kernel.workspace_bytes);
  const Launching launching = {one, buffers, kernel};
  const StreamId stream = device->NewStream({}, times);
  const Work work = {[](const void* self, int64_t, NativeStream on) {
                       const auto& launch = *static_cast<const Launching*>(self);
                       launch.kernel.run(launch.kernel.self, launch.buffers.Run(launch.one, on));
                     },
                     &launching, 0};
  std::vector<WorkTimes> took(static_cast<size_t>(times));
  for (WorkTimes& of : took) device->Launch(stream, work, times > 1 ? &of : nullptr);
  SL_RETURN_IF_ERROR(device->Synchronize());
  RanOp ran;
  for (size_t i = 1; i < took.size(); ++i) {
    const int64_t ns = took[i].end_ns - took[i].start_ns;
    ran.least_ns = ran.least_ns == 0 ? ns : std::min(ran.least_ns, ns);
  }
  for (const Tensor& output : buffers.out) {
    Array& copy = ran.outputs.emplace_back(cpu::MakeArray(*output.type));
    SL_RETURN_IF_ERROR(device->CopyNow(copy.data.get(), output.data, output.type->bytes()));
  }
  return ran;
}

Array InBf16(const Array& from) {
  Array to = cpu::MakeArray({DType::kBF16, from.type.shape});
  ToBf16(from.f32(), from.type.elements(), to.bf16());
  return to;
}

Array InF32(const Array& from) {
  Array to = cpu::MakeArray({DType::kF32, from.type.shape});
  FromBf16(from.bf16(), from.type.elements(), to.f32());
  return to;
}

std::optional<OpCase> InBf16(const OpCase& from) {
  std::optional<OpCase> found;
  for (unsigned set = 1; set < 1u << from.inputs.size(); ++set) {
    OpCase changed = from;
    std::vector<Type> types;
    bool floats = true;
    for (size_t i = 0; i < from.inputs.size(); ++i) {
      Type& type = types.emplace_back(from.inputs[i].type);
      if ((set >> i & 1) == 0) continue;
      floats = floats && type.dtype == DType::kF32;
      type.dtype = DType::kBF16;
    }
    if (!floats || !InferTypes(from.op, types, from.attributes).ok()) continue;
    SL_CHECK(!found.has_value()) << ToString(from) << " takes several sets of inputs in bf16";
    for (size_t i = 0; i < from.inputs.size(); ++i) {
      if ((set >> i & 1) != 0) changed.inputs[i] = InBf16(from.inputs[i]);
    }
    found = std::move(changed);
  }
  return found;
}

OpCase InF32(OpCase from) {
  for (Array& input : from.inputs) {
    if (input.type.dtype == DType::kBF16) input = InF32(input);
  }
  return from;
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
  const Array workspace = cpu::MakeArray(IntegerType({kernel.workspace_bytes / 4 + 1}));
  buffers.workspace = workspace.data.get();
  kernel.run(kernel.self, buffers.Run(one, nullptr));
  return outputs;
}

namespace {

class OpCaseMaker {
 public:
  explicit OpCaseMaker(std::mt19937_64* random) : random_(*random) {}
  void MakeCases();
  std::vector<OpCase> Take() { return std::move(cases_); }

 private:
  Array Random(std::vector<int64_t> shape, float factor = 1) {
    return RandomArray(FloatType(std::move(shape)), &random_, factor);
  }
  Array Integers(std::vector<int64_t> shape, int32_t below) {
    return RandomArray(IntegerType(std::move(shape)), &random_, 1, below);
  }
  void Add(Op op, std::vector<Array> inputs, std::vector<double> attributes = {}) {
    cases_.push_back({op, std::move(inputs), std::move(attributes)});
  }
  void MakeProductCases(int64_t n, int64_t k, int64_t o);
  void MakeRowCases(int64_t b, int64_t t, int64_t c);
  void MakeHeadCases(int64_t heads, int64_t kv_heads, int64_t size);
  void MakePackedCases(int64_t heads, int64_t kv_heads, int64_t size);
  void MakeTokenCases(int64_t b, int64_t t, int32_t vocabulary, int64_t c);
  void MakeExpertCases(int64_t rows, int64_t experts, int64_t choices, int64_t width);

  std::mt19937_64& random_;
  std::vector<OpCase> cases_;
};

void OpCaseMaker::MakeCases() {
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

void OpCaseMaker::MakeProductCases(int64_t n, int64_t k, int64_t o) {
  const Array x = Random({1, n, k}), w = Random({o, k}), b = Random({o}), y = Random({1, n, o});
  Add(Op::kLinear, {x, w});
  Add(Op::kLinearBias, {x, w, b});
  Add(Op::kLinearResidual, {x, w, b, y});
  Add(Op::kLinearAdd, {x, w, y});
  Add(Op::kLinearInputGrad, {y, w});
  Add(Op::kLinearWeightGrad, {y, x});
}

void OpCaseMaker::MakeRowCases(int64_t b, int64_t t, int64_t c) {
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
  Add(Op::kPositionAdd, {x(), Random({t, c})}, {0});
  Add(Op::kPositionAdd, {x(), Random({2 * t + 3, c})}, {double(t + 1)});
  Add(Op::kPositionGrad, {x()}, {double(t), 0});
  Add(Op::kPositionGrad, {x()}, {double(2 * t + 3), double(t + 1)});
  Add(Op::kAppendPositions, {Random({b, t + 2, c}), x()});
  Add(Op::kTakePositions, {x()}, {0, double(t)});
  const int64_t half = t / 2;
  Add(Op::kTakePositions, {x()}, {double(half), double(t - half)});
  // Gradients of norms are small for long rows, as in training.
  const float small = 1 / std::sqrt(static_cast<float>(b * t));
  Add(Op::kLayerNorm, {x(), row(), row()}, {1e-5});
  Add(Op::kLayerNormGrad, {Random({b, t, c}, small), x(), row(), Random({b, t}), Random({b, t})});
  Add(Op::kRmsNorm, {x(), row()}, {1e-5});
  Add(Op::kRmsNormGrad, {Random({b, t, c}, small), x(), row(), Random({b, t})});
}

void OpCaseMaker::MakeHeadCases(int64_t heads, int64_t kv_heads, int64_t size) {
  const int64_t b = 2, t = 9, width = (heads + 2 * kv_heads) * size;
  const std::vector<double> both = {double(heads), double(kv_heads)};
  const auto qkv = [&] { return Random({b, t, width}); };
  const auto gamma = [&] { return Random({size}); };
  Add(Op::kHeadNorm, {qkv(), gamma(), gamma()}, {both[0], both[1], 1e-5});
  Add(Op::kHeadNormGrad, {qkv(), qkv(), gamma(), gamma(), Random({b, t, heads + kv_heads})}, both);
  Add(Op::kRotary, {qkv()}, {both[0], both[1], 10000, 1, 0});
  Add(Op::kRotary, {qkv()}, {both[0], both[1], 500, -1, 13});
  Add(Op::kPackKeys, {qkv()}, both);
  Add(Op::kPackKeysGrad, {Random({b, t, 2 * kv_heads * size})}, both);
  const OpCase attention = {Op::kAttention, {qkv()}, both};
  cases_.push_back(attention);
  const std::vector<Array> mixed = OnCpu(attention);
  const Array dy = Random({b, t, heads * size});
  Add(Op::kAttentionGrad, {dy, attention.inputs[0], mixed[0], mixed[1]}, both);
  MakePackedCases(heads, kv_heads, size);
  // Tiles of keys with rows of both, and a past of several tiles.
  for (const int64_t past : {5, 64, 150}) {
    const OpCase slice = {
        Op::kAttentionPast, {qkv(), Random({b, past, 2 * kv_heads * size})}, both};
    cases_.push_back(slice);
    const std::vector<Array> of_slice = OnCpu(slice);
    Add(Op::kAttentionPastGrad, {dy, slice.inputs[0], slice.inputs[1], of_slice[0], of_slice[1]},
        both);
    const OpCase cross = {
        Op::kCrossAttention, {Random({b, t, heads * size}), slice.inputs[1]}, both};
    cases_.push_back(cross);
    const std::vector<Array> of_cross = OnCpu(cross);
    Add(Op::kCrossAttentionGrad, {dy, cross.inputs[0], cross.inputs[1], of_cross[0], of_cross[1]},
        both);
  }
}

// Documents of fewer and more rows than a tile.
void OpCaseMaker::MakePackedCases(int64_t heads, int64_t kv_heads, int64_t size) {
  const int64_t b = 2, width = (heads + 2 * kv_heads) * size;
  const std::vector<double> both = {double(heads), double(kv_heads)};
  for (const auto& [t, every] : {std::pair<int64_t, int64_t>{9, 4}, {150, 70}, {150, 11}}) {
    Array positions = Integers({b, t}, 1);
    for (int64_t i = 0; i < b * t; ++i) {
      // The documents of the second sequence begin elsewhere.
      const int64_t row = i % t + (i < t ? 0 : every / 2);
      positions.i32()[i] = static_cast<int32_t>(std::min(i % t, row % every));
    }
    const OpCase attention = {Op::kPackedAttention, {Random({b, t, width}), positions}, both};
    cases_.push_back(attention);
    const std::vector<Array> mixed = OnCpu(attention);
    Add(Op::kPackedAttentionGrad,
        {Random({b, t, heads * size}), attention.inputs[0], positions, mixed[0], mixed[1]}, both);
    Add(Op::kPackedRotary, {Random({b, t, width}), positions}, {both[0], both[1], 10000, -1});
  }
}

void OpCaseMaker::MakeTokenCases(int64_t b, int64_t t, int32_t vocabulary, int64_t c) {
  const auto token = [&] { return Integers({b, t}, vocabulary); };
  Add(Op::kEmbedding, {token(), Random({vocabulary, c})});
  Add(Op::kEmbeddingGrad, {token(), Random({b, t, c})}, {double(vocabulary)});
  const Array logits = Random({b, t, vocabulary});
  const Array target = token();
  const OpCase loss = {Op::kCrossEntropy, {logits, target}, {}};
  Add(Op::kCrossEntropy, loss.inputs);
  Add(Op::kCrossEntropyGrad, {Random({}), logits, target, OnCpu(loss)[1]});
}

void OpCaseMaker::MakeExpertCases(int64_t rows, int64_t experts, int64_t choices, int64_t width) {
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
  // In bf16 on tensor cores.
  const Array wide_rows = Random({most, 24}), wide_weights = Random({experts, 40, 24});
  Add(Op::kGroupedLinear, {wide_rows, wide_weights, received});
  Add(Op::kGroupedLinearInputGrad, {Random({most, 40}), wide_weights, received});
  Add(Op::kGroupedLinearWeightGrad, {Random({most, 40}), wide_rows, received});
  Add(Op::kExpertSwiglu, {Random({most, 2 * width}), Random({most}), received});
  Add(Op::kExpertSwigluGrad,
      {Random({most, width}), Random({most, 2 * width}), Random({most}), received});
}

}  // namespace

std::vector<OpCase> AllOpCases(std::mt19937_64* random) {
  OpCaseMaker maker(random);
  maker.MakeCases();
  return maker.Take();
}

}  // namespace stringline
