// Two nodes of a graph in one launch: the gradient of a product's input with the gradient of the
// GELU before the product, and the gradient of a norm with the addition of the residual's gradient.
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "executor/cpu/backend.h"
#include "executor/cuda/backend/cuda_kernels.h"
#include "executor/engine/bf16.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

enum Place { kDy, kW, kU, kProduct, kResult };

// d = gelu_grad(dy w, u)
Graph PairOf(DType dtype, int64_t rows, int64_t inputs, int64_t outputs) {
  Graph graph;
  graph.values = {{{dtype, {rows, outputs}}, "dy"},
                  {{dtype, {outputs, inputs}}, "w"},
                  {{dtype, {rows, inputs}}, "u"},
                  {{dtype, {rows, inputs}}, "product"},
                  {{dtype, {rows, inputs}}, "d"}};
  graph.nodes = {{Op::kLinearInputGrad, {kDy, kW}, {kProduct}, {}},
                 {Op::kGeluGrad, {kProduct, kU}, {kResult}, {}}};
  graph.inputs = {{Role::kOutGrad, 0, kDy}, {Role::kParam, 0, kW}, {Role::kSaved, 0, kU}};
  graph.outputs = {{Role::kInGrad, 0, kResult}};
  return graph;
}

class JoinedNodes : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(1);
    standin_cublas_reset();
    device_ = CudaDevice::Make().value();
    kernels_ = CudaKernels::Make(device_.get()).value();
  }
  int With(const Graph& graph) {
    const auto ready = kernels_->ReadyFor(graph, graph.nodes.back());
    SL_CHECK(ready.ok()) << ready.status();
    return ready->with;
  }

  // All nodes, from inputs drawn at random; the bytes of the graph's outputs, of which gradients
  // are added to what is there.
  std::vector<std::vector<char>> Run(const Graph& graph, int* launches) {
    std::mt19937 random(11);
    std::normal_distribution<float> draw;
    std::vector<Tensor> tensors;
    for (const Value& value : graph.values) {
      const Type& type = value.type;
      std::vector<float> numbers(static_cast<size_t>(type.elements()));
      for (float& number : numbers) number = draw(random);
      std::vector<uint16_t> narrow(numbers.size());
      std::transform(numbers.begin(), numbers.end(), narrow.begin(),
                     [](float number) { return ToBf16(number); });
      tensors.push_back({device_->Allocate(type.bytes()).value(), &type});
      const void* const from = type.dtype == DType::kBF16 ? static_cast<void*>(narrow.data())
                                                          : static_cast<void*>(numbers.data());
      SL_CHECK(device_->CopyNow(tensors.back().data, from, type.bytes()).ok());
    }
    std::vector<ReadyKernel> ready;
    std::vector<bool> is_done(graph.nodes.size(), false);
    for (const Node& node : graph.nodes) {
      ready.push_back(kernels_->ReadyFor(graph, node).value());
      if (ready.back().with >= 0) is_done[ready.back().with] = true;
    }
    const auto call = [&](NativeStream on) {
      for (size_t n = 0; n < ready.size(); ++n) {
        if (is_done[n]) continue;
        ++*launches;
        std::vector<Tensor> in, out;
        const auto add = [&](const Node& node, ValueId but, size_t first) {
          for (const ValueId value : node.inputs) {
            if (value != but) in.push_back(tensors[value]);
          }
          for (size_t i = first; i < node.outputs.size(); ++i) {
            out.push_back(tensors[node.outputs[i]]);
          }
        };
        ValueId unwritten = kNone;
        std::vector<Tensor> further;
        if (ready[n].with >= 0) {
          const Node& earlier = graph.nodes[ready[n].with];
          unwritten = earlier.outputs[0];
          add(earlier, kNone, 1);
          further.swap(out);
        }
        add(graph.nodes[n], unwritten, 0);
        const size_t own = out.size();
        out.insert(out.end(), further.begin(), further.end());
        bool adds[4] = {};
        for (size_t i = 0; i < out.size(); ++i) adds[i] = ready[n].with >= 0 ? i >= own : i > 0;
        void* const workspace = device_->Allocate(ready[n].workspace_bytes + 1).value();
        ready[n].run(ready[n].self, {graph.nodes[n], in, out, absl::MakeConstSpan(adds, out.size()),
                                     workspace, on});
      }
    };
    const Work work = {[](const void* self, int64_t, NativeStream on) {
                         (*static_cast<const decltype(call)*>(self))(on);
                       },
                       &call, 0};
    device_->Launch(device_->NewStream({}, 1), work, nullptr);
    const absl::Status status = device_->Synchronize();
    SL_CHECK(status.ok()) << status;
    std::vector<std::vector<char>> outputs;
    for (const Port& port : graph.outputs) {
      outputs.emplace_back(static_cast<size_t>(tensors[port.value].type->bytes()));
      SL_CHECK(device_
                   ->CopyNow(outputs.back().data(), tensors[port.value].data,
                             tensors[port.value].type->bytes())
                   .ok());
    }
    return outputs;
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaKernels> kernels_;
};

TEST_F(JoinedNodes, GiveWhatEachGives) {
  for (const int64_t inputs : {8, 64}) {
    const Graph graph = PairOf(DType::kBF16, 5, inputs, 12);
    const Graph wide = PairOf(DType::kF32, 5, inputs, 12);
    std::mt19937 random(7);
    std::normal_distribution<float> draw;
    std::vector<std::vector<float>> values;
    std::vector<Tensor> there, here;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Type& type = graph.values[v].type;
      std::vector<uint16_t> narrow(static_cast<size_t>(type.elements()));
      for (uint16_t& number : narrow) number = ToBf16(draw(random));
      values.emplace_back(narrow.size());
      FromBf16(narrow.data(), type.elements(), values.back().data());
      void* const memory = device_->Allocate(type.bytes()).value();
      ASSERT_TRUE(device_->CopyNow(memory, narrow.data(), type.bytes()).ok());
      there.push_back({memory, &type});
      here.push_back({values.back().data(), &wide.values[v].type});
    }
    const auto ready = kernels_->ReadyFor(graph, graph.nodes[1]);
    ASSERT_TRUE(ready.ok()) << ready.status();
    ASSERT_EQ(ready->with, 0);
    void* const workspace = device_->Allocate(ready->workspace_bytes).value();
    const bool adds[] = {false};
    const auto call = [&](NativeStream on) {
      ready->run(ready->self, {graph.nodes[1], absl::MakeConstSpan(there).first(3),
                               absl::MakeConstSpan(there).subspan(kResult), adds, workspace, on});
    };
    const Work work = {[](const void* self, int64_t, NativeStream on) {
                         (*static_cast<const decltype(call)*>(self))(on);
                       },
                       &call, 0};
    device_->Launch(device_->NewStream({}, 1), work, nullptr);
    const absl::Status status = device_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;

    for (const Node& node : wide.nodes) {
      std::vector<Tensor> in;
      for (const ValueId value : node.inputs) in.push_back(here[value]);
      const ReadyKernel kernel = CpuKernels()->ReadyFor(wide, node).value();
      kernel.run(kernel.self,
                 {node, in, absl::MakeConstSpan(&here[node.outputs[0]], 1), adds, nullptr, {}});
    }
    const std::vector<float>& expected = values[kResult];
    std::vector<uint16_t> narrow(expected.size());
    ASSERT_TRUE(
        device_->CopyNow(narrow.data(), there[kResult].data, graph.values[kResult].type.bytes())
            .ok());
    std::vector<float> seen(expected.size());
    FromBf16(narrow.data(), static_cast<int64_t>(seen.size()), seen.data());
    for (size_t i = 0; i < seen.size(); ++i) {
      // Rounded once.
      EXPECT_NEAR(seen[i], expected[i], std::abs(expected[i]) / 256 + 1e-5f) << i;
    }
  }
}

TEST_F(JoinedNodes, OnlyWhereNobodyElseReadsWhatIsBetween) {
  const Graph pair = PairOf(DType::kBF16, 5, 16, 12);
  EXPECT_EQ(With(pair), 0);
  Graph kept = pair;
  kept.outputs.push_back({Role::kStash, 0, kProduct});
  EXPECT_EQ(With(kept), -1);
  Graph read = pair;
  read.values.push_back({pair.values[kProduct].type, "more"});
  read.nodes.insert(read.nodes.begin() + 1, {Op::kAdd, {kProduct, kU}, {kResult + 1}, {}});
  EXPECT_EQ(With(read), -1);
  // The GELU's input is computed between the two.
  Graph between = pair;
  between.inputs.pop_back();
  between.inputs.push_back({Role::kSaved, 0, kResult + 1});
  between.values.push_back({pair.values[kU].type, "earlier"});
  between.nodes.insert(between.nodes.begin() + 1, {Op::kGelu, {kResult + 1}, {kU}, {}});
  EXPECT_EQ(With(between), 0);
  // The product is the other operand.
  Graph turned = pair;
  turned.nodes[1].inputs = {kU, kProduct};
  EXPECT_EQ(With(turned), -1);
  EXPECT_EQ(With(PairOf(DType::kF32, 5, 16, 12)), -1);
}

// So bits depend neither on the schedule's division of the backward nor on recomputation.
TEST_F(JoinedNodes, InEveryProgramOfAModel) {
  AnyShape shape = TinyModel(TinyFamily::kGpt, 2);
  shape.dtype = DType::kBF16;
  for (const Recompute what : {Recompute::kNone, Recompute::kAttn, Recompute::kAll}) {
    for (const bool for_weights : {false, true}) {
      const auto stages = BuildModelStages(shape, {1, 1}, {.recompute = {what, for_weights}});
      ASSERT_TRUE(stages.ok()) << stages.status();
      for (const StageProgram& stage : *stages) {
        for (const Graph* const graph :
             {&stage.backward, &stage.input_gradient, &stage.weight_gradient}) {
          const std::vector<int> producers = Producers(*graph);
          int found = 0;
          for (const Node& node : graph->nodes) {
            if (node.op != Op::kGeluGrad) continue;
            ++found;
            const auto ready = kernels_->ReadyFor(*graph, node);
            ASSERT_TRUE(ready.ok()) << ready.status();
            EXPECT_EQ(ready->with, producers[node.inputs[0]]);
          }
          EXPECT_EQ(found, graph == &stage.weight_gradient ? 0 : 1);
        }
      }
    }
  }
}

// sum = z + the gradient of a norm, the operands of the addition turned round or not.
Graph NormAndSum(Op norm, DType dtype, int64_t columns, bool turned) {
  const bool is_layer = norm == Op::kLayerNormGrad;
  const int64_t rows = 21;
  Graph graph;
  const auto add = [&](const char* name, DType type, std::vector<int64_t> shape) {
    graph.values.push_back({{type, std::move(shape)}, name});
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  std::vector<ValueId> inputs = {add("dy", dtype, {rows, columns}),
                                 add("x", dtype, {rows, columns}),
                                 add("gamma", DType::kF32, {columns})};
  if (is_layer) inputs.push_back(add("mean", DType::kF32, {rows}));
  inputs.push_back(add("rstd", DType::kF32, {rows}));
  const ValueId z = add("z", dtype, {rows, columns}), dx = add("dx", dtype, {rows, columns});
  const ValueId sum = add("sum", dtype, {rows, columns});
  std::vector<ValueId> outputs = {dx, add("dgamma", DType::kF32, {columns})};
  if (is_layer) outputs.push_back(add("dbeta", DType::kF32, {columns}));
  for (const ValueId value : inputs) {
    graph.inputs.push_back({Role::kSaved, static_cast<int>(graph.inputs.size()), value});
  }
  graph.inputs.push_back({Role::kSaved, static_cast<int>(graph.inputs.size()), z});
  graph.outputs = {{Role::kInGrad, 0, sum}};
  for (size_t i = 1; i < outputs.size(); ++i) {
    graph.outputs.push_back({Role::kParamGrad, static_cast<int>(i) - 1, outputs[i]});
  }
  graph.nodes = {{norm, inputs, outputs, {}},
                 {Op::kAdd, turned ? std::vector{dx, z} : std::vector{z, dx}, {sum}, {}}};
  return graph;
}

TEST_F(JoinedNodes, NormAndSumHaveTheBitsOfTheTwoApart) {
  for (const Op norm : {Op::kLayerNormGrad, Op::kRmsNormGrad}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t columns : {7, 40, 1536, 3000, 4104}) {
        const Graph graph = NormAndSum(norm, dtype, columns, columns == 40);
        Graph apart = graph;
        apart.outputs.push_back({Role::kStash, 0, graph.nodes[0].outputs[0]});
        EXPECT_EQ(With(graph), 0);
        EXPECT_EQ(With(apart), -1);
        int launches = 0, launches_apart = 0;
        const auto seen = Run(graph, &launches);
        auto expected = Run(apart, &launches_apart);
        EXPECT_EQ(launches, 1);
        EXPECT_EQ(launches_apart, 2);
        expected.pop_back();
        EXPECT_EQ(seen, expected) << columns;
      }
    }
  }
}

TEST_F(JoinedNodes, NormAndSumOnlyWhereNobodyReadsWhatIsBetween) {
  const Graph graph = NormAndSum(Op::kLayerNormGrad, DType::kF32, 40, false);
  // No place for the gradients of gamma and beta.
  Graph unwanted = graph;
  unwanted.outputs.pop_back();
  EXPECT_EQ(With(unwanted), -1);
  Graph doubled = graph;
  doubled.nodes[1].inputs = {graph.nodes[0].outputs[0], graph.nodes[0].outputs[0]};
  EXPECT_EQ(With(doubled), -1);
}

int LossesThatLeaveGradients(const Graph& graph, int* losses) {
  int found = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kCrossEntropy && node.op != Op::kCrossEntropyGrad) continue;
    ++*losses;
    found += cuda::LeavesGradient({graph, node}) ? 1 : 0;
  }
  return found;
}

// A forward that leaves the gradient of the logits in their place, and backwards that find it
// there, or neither: in every program, whatever is recomputed.
TEST_F(JoinedNodes, ALossLeavesItsGradientWhereTheBackwardsLook) {
  int stages_with_loss = 0, leaving = 0;
  for (const TinyFamily family : kTinyFamilies) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Recompute what : {Recompute::kNone, Recompute::kAttn, Recompute::kAll}) {
        AnyShape shape = TinyModel(family, 2);
        shape.dtype = dtype;
        const auto stages = BuildModelStages(shape, {1, 1}, {.recompute = {what, true}});
        ASSERT_TRUE(stages.ok()) << stages.status();
        for (const StageProgram& stage : *stages) {
          int losses = 0;
          const int forward = LossesThatLeaveGradients(stage.forward, &losses);
          EXPECT_EQ(losses, stage.last ? 1 : 0);
          EXPECT_EQ(LossesThatLeaveGradients(stage.backward, &losses), forward);
          EXPECT_EQ(LossesThatLeaveGradients(stage.input_gradient, &losses), forward);
          stages_with_loss += stage.last ? 1 : 0;
          leaving += forward;
          if (what == Recompute::kNone) {
            EXPECT_EQ(forward, stage.last ? 1 : 0);
          }
        }
      }
    }
  }
  EXPECT_EQ(stages_with_loss, 18);
  EXPECT_GE(leaving, 6);
}

// Another reader of the logits, a loss that is scaled, logits that are not kept.
TEST_F(JoinedNodes, ALossLeavesNoGradientWhereAnythingElseReadsTheLogits) {
  Graph forward;
  forward.values = {{{DType::kF32, {4, 8}}, "x"},       {{DType::kF32, {16, 8}}, "w"},
                    {{DType::kF32, {4, 16}}, "logits"}, {{DType::kI32, {4}}, "target"},
                    {{DType::kF32, {}}, "loss"},        {{DType::kF32, {4}}, "lse"}};
  forward.inputs = {{Role::kInput, 0, 0}, {Role::kParam, 0, 1}, {Role::kTarget, 0, 3}};
  forward.nodes = {{Op::kLinear, {0, 1}, {2}, {}}, {Op::kCrossEntropy, {2, 3}, {4, 5}, {}}};
  forward.outputs = {{Role::kLoss, 0, 4}, {Role::kSaved, 0, 2}, {Role::kSaved, 1, 5}};
  const auto leaves = [](const Graph& graph) {
    return cuda::LeavesGradient({graph, graph.nodes[1]});
  };
  EXPECT_TRUE(leaves(forward));
  Graph other = forward;
  other.nodes.push_back({Op::kScale, {2}, {6}, {2}});
  EXPECT_FALSE(leaves(other));
  other.nodes.back().inputs = {4};
  EXPECT_FALSE(leaves(other));
  other = forward;
  other.outputs[1].value = 0;
  EXPECT_FALSE(leaves(other));
  other = forward;
  other.outputs.pop_back();
  EXPECT_FALSE(leaves(other));
  other = forward;
  other.outputs.push_back({Role::kOutput, 0, 2});
  EXPECT_FALSE(leaves(other));
  other = forward;
  other.nodes[0].op = Op::kMul;
  EXPECT_FALSE(leaves(other));
}

TEST_F(JoinedNodes, WhereTheLibraryHasNoneItIsListed) {
  EXPECT_EQ(With(PairOf(DType::kBF16, 5, 12, 16)), -1);
  EXPECT_TRUE(absl::StrContains(
      kernels_->Describe(),
      "\nnot in one: dx = dy w * gelu'(u) of 5 rows, 12 inputs, 16 outputs in bf16: rows of u are "
      "multiples of 8 numbers for the library\n"))
      << kernels_->Describe();
}

}  // namespace
}  // namespace stringline
