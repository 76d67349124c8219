// Our code allocates no memory during a step: all memory is taken before the first. Counts every
// `operator new` of this binary while a counter is set. (oneDNN takes its packing buffers from the
// C library, once per product; they are not counted.)
#include <gtest/gtest.h>

#include <memory>

#include "executor/cpu/kernel.h"
#include "executor/training/trainer.h"
#include "stages/ops.h"
#include "tests/counted_new.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {

bool IsCounted() { return true; }

namespace {

TEST(Allocation, AStepAllocatesNothing) {
  for (const TinyFamily family : kTinyFamilies) {
    for (const char* schedule : {"1f1b", "zb_v", "dualpipe_v"}) {
      SCOPED_TRACE(testing::Message() << NameOf(family) << " " << schedule);
      const Plan plan = LibraryPlan(schedule, 4, 8).value();
      const int stages = static_cast<int>(plan.stages.size());
      const Mesh mesh = family == TinyFamily::kMoe ? Mesh{1, 2} : Mesh{};
      auto programs = BuildModelStages(
          TinyModel(family, 8), std::vector<int>(stages, 8 / stages),
          {.expert_ranks = mesh.expert, .recompute = {Recompute::kExperts, false}});
      ASSERT_TRUE(programs.ok()) << programs.status();
      auto trainer =
          Trainer::Make(WithSums(plan, mesh), *std::move(programs), {.seed = 1, .mesh = mesh});
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      const int64_t before_first = allocations;
      EXPECT_GT(before_first, 0) << "the counter counts nothing";
      for (int step = 0; step < 3; ++step) {
        const int64_t before = allocations;
        ASSERT_TRUE((*trainer)->ComputeGradients().ok());
        // The first step makes the math library's per-thread state.
        if (step > 0) {
          EXPECT_EQ(allocations - before, 0) << "step " << step;
        }
        ASSERT_TRUE((*trainer)->Update(1e-3).ok());
      }
    }
  }
}

// The same for the kernels of bf16, except products, for which oneDNN makes lists of their
// operands.
TEST(Allocation, KernelsOfBf16AllocateNothing) {
  const struct {
    Op op;
    std::vector<Type> in, out;
    std::vector<double> attributes;
  } cases[] = {
      {Op::kGelu, {{DType::kBF16, {3, 5000}}}, {{DType::kBF16, {3, 5000}}}, {}},
      {Op::kRmsNorm,
       {{DType::kBF16, {2, 70, 96}}, {DType::kF32, {96}}},
       {{DType::kBF16, {2, 70, 96}}, {DType::kF32, {2, 70}}},
       {1e-5}},
      {Op::kAttention,
       {{DType::kBF16, {2, 70, 96}}},
       {{DType::kBF16, {2, 70, 32}}, {DType::kF32, {2, 2, 70}}},
       {2, 2}},
      {Op::kAttentionPast,
       {{DType::kBF16, {2, 70, 96}}, {DType::kBF16, {2, 33, 64}}},
       {{DType::kBF16, {2, 70, 32}}, {DType::kF32, {2, 2, 70}}},
       {2, 2}},
      {Op::kCrossAttention,
       {{DType::kBF16, {2, 70, 32}}, {DType::kBF16, {2, 33, 64}}},
       {{DType::kBF16, {2, 70, 32}}, {DType::kF32, {2, 2, 70}}},
       {2, 2}},
      {Op::kPackedAttention,
       {{DType::kBF16, {2, 70, 96}}, {DType::kI32, {2, 70}}},
       {{DType::kBF16, {2, 70, 32}}, {DType::kF32, {2, 2, 70}}},
       {2, 2}},
      {Op::kColumnSum, {{DType::kBF16, {70, 96}}}, {{DType::kF32, {96}}}, {}},
  };
  for (const auto& test : cases) {
    Graph graph;
    Node node{test.op, {}, {}, test.attributes};
    std::vector<std::vector<char>> memory;
    std::vector<Tensor> tensors;
    for (const std::vector<Type>* side : {&test.in, &test.out}) {
      for (const Type& type : *side) {
        (side == &test.in ? node.inputs : node.outputs)
            .push_back(static_cast<ValueId>(graph.values.size()));
        graph.values.push_back({type, ""});
        memory.emplace_back(type.bytes());
        tensors.push_back({memory.back().data(), &type});
      }
    }
    std::vector<char> workspace(cpu::WorkspaceBytes(graph, node));
    const cpu::Kernel kernel = cpu::KernelFor(graph, node);
    const bool accumulate[] = {false, false};
    const absl::Span<const Tensor> all(tensors);
    for (int run = 0; run < 2; ++run) {
      const int64_t before = allocations;
      kernel(node, all.first(test.in.size()), all.subspan(test.in.size()),
             absl::MakeConstSpan(accumulate, test.out.size()), workspace.data());
      // The first run makes per-thread state.
      if (run > 0) {
        EXPECT_EQ(allocations - before, 0) << RowOf(test.op).name;
      }
    }
  }
}

}  // namespace
}  // namespace stringline
