// Two nodes of a graph in one call of cuBLASLt: the gradient of a product's input, and the gradient
// of the GELU before the product.
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
