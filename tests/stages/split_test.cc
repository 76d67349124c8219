// The contents of I and W after the dI/dW split.
#include "stages/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stages/builder.h"
#include "stages/models/gpt.h"
#include "stages/program_text.h"

namespace stringline {
namespace {

std::vector<StageProgram> Model(const std::vector<int>& cut) {
  absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages({4, 8, 2, 5, 11, 2}, cut);
  EXPECT_TRUE(programs.ok()) << programs.status();
  return *std::move(programs);
}

const std::vector<std::vector<int>> kCuts = {{4}, {2, 2}, {1, 2, 1}, {0, 4, 0}, {1, 1, 1, 1}};

std::set<std::string> GradsOf(const StageProgram& program, const Graph& graph) {
  std::set<std::string> names;
  for (const Port& port : graph.outputs) {
    if (port.role == Role::kParamGrad) names.insert(program.params[port.index].name);
  }
  return names;
}

int CountPorts(const std::vector<Port>& ports, Role role) {
  return static_cast<int>(
      std::count_if(ports.begin(), ports.end(), [&](const Port& p) { return p.role == role; }));
}

TEST(Split, NormsBiasesAndTheHeadStayInI) {
  for (const std::vector<int>& cut : kCuts) {
    for (const StageProgram& program : Model(cut)) {
      const std::set<std::string> eager = GradsOf(program, program.input_gradient);
      const std::set<std::string> deferred = GradsOf(program, program.weight_gradient);
      for (const Param& param : program.params) {
        const bool stays = param.type.shape.size() == 1 || param.name == "head.weight";
        EXPECT_EQ(eager.count(param.name), stays ? 1u : 0u) << param.name;
        EXPECT_EQ(deferred.count(param.name), stays ? 0u : 1u) << param.name;
      }
      EXPECT_EQ(GradsOf(program, program.backward).size(), program.params.size());
    }
  }
}

TEST(Split, WHoldsOnlyWeightGradientsAndNoParam) {
  const std::set<Op> allowed = {Op::kLinearWeightGrad, Op::kEmbeddingGrad, Op::kPositionGrad};
  for (const std::vector<int>& cut : kCuts) {
    for (const StageProgram& program : Model(cut)) {
      for (const Node& node : program.weight_gradient.nodes) EXPECT_TRUE(allowed.count(node.op));
      EXPECT_EQ(CountPorts(program.weight_gradient.inputs, Role::kParam), 0);
      EXPECT_EQ(CountPorts(program.weight_gradient.inputs, Role::kOutGrad), 0);
    }
  }
}

TEST(Split, IAndWShareOutB) {
  for (const std::vector<int>& cut : kCuts) {
    for (const StageProgram& program : Model(cut)) {
      EXPECT_EQ(program.input_gradient.nodes.size() + program.weight_gradient.nodes.size(),
                program.backward.nodes.size());
    }
  }
}

TEST(Split, TheFirstStageHasNoInGradButTheChainInI) {
  for (const std::vector<int>& cut : kCuts) {
    const std::vector<StageProgram> programs = Model(cut);
    for (const StageProgram& program : programs) {
      EXPECT_EQ(CountPorts(program.backward.outputs, Role::kInGrad), program.first ? 0 : 1);
      EXPECT_EQ(CountPorts(program.input_gradient.outputs, Role::kInGrad), program.first ? 0 : 1);
      EXPECT_EQ(CountPorts(program.backward.inputs, Role::kOutGrad), program.last ? 0 : 1);
    }
    const int layers = cut[0];
    int attention = 0;
    for (const Node& node : programs[0].input_gradient.nodes) {
      attention += node.op == Op::kAttentionGrad;
    }
    EXPECT_EQ(attention, layers);
  }
}

TEST(Split, PortsHaveTheTypesThatAreStated) {
  for (const std::vector<int>& cut : kCuts) {
    for (const StageProgram& program : Model(cut)) {
      EXPECT_TRUE(CheckStageProgram(program).ok()) << CheckStageProgram(program);
    }
  }
}

TEST(Split, EverySavedAndStashedValueIsMadeAndRead) {
  for (const std::vector<int>& cut : kCuts) {
    for (const StageProgram& program : Model(cut)) {
      const int saved = static_cast<int>(program.saved.size());
      const int stash = static_cast<int>(program.stash.size());
      EXPECT_EQ(CountPorts(program.forward.outputs, Role::kSaved), saved);
      EXPECT_EQ(CountPorts(program.backward.inputs, Role::kSaved), saved);
      EXPECT_EQ(CountPorts(program.input_gradient.outputs, Role::kStash), stash);
      EXPECT_EQ(CountPorts(program.weight_gradient.inputs, Role::kStash), stash);
      std::set<int> read;
      for (const Port& port : program.weight_gradient.inputs) {
        if (port.role == Role::kSaved) read.insert(port.index);
      }
      for (int k = 0; k < saved; ++k) {
        EXPECT_EQ(program.saved[k].needed_by_weight, read.count(k) == 1) << k;
      }
    }
  }
}

// The accumulator can be the buffer: no node reads the gradient, and a single port has it.
TEST(Split, AParamGradientIsReadByNobody) {
  for (const std::vector<int>& cut : kCuts) {
    for (const StageProgram& program : Model(cut)) {
      for (const Graph* graph :
           {&program.backward, &program.input_gradient, &program.weight_gradient}) {
        for (const Port& port : graph->outputs) {
          if (port.role != Role::kParamGrad) continue;
          int uses = 0;
          for (const Port& other : graph->outputs) uses += other.value == port.value;
          for (const Node& node : graph->nodes) {
            uses += std::count(node.inputs.begin(), node.inputs.end(), port.value);
          }
          EXPECT_EQ(uses, 1);
        }
      }
    }
  }
}

// y = x u + v w, all params but x: the gradients of v and w are not needed for the in grad, but
// read weights.
TEST(Split, WhatReadsAParamMovesIntoI) {
  const Type matrix{DType::kF32, {3, 3}};
  Builder builder;
  const ValueId x = builder.Input(Role::kInput, 0, matrix, "x");
  const ValueId w = builder.Input(Role::kParam, 0, matrix, "w");
  const ValueId v = builder.Input(Role::kParam, 1, matrix, "v");
  const ValueId u = builder.Input(Role::kParam, 2, matrix, "u");
  const ValueId branch = builder.Append(Op::kLinear, {v, w});
  const ValueId main = builder.Append(Op::kLinear, {x, u});
  builder.Output(Role::kOutput, 0, builder.Append(Op::kAdd, {main, branch}));
  const absl::StatusOr<StageProgram> program = MakeStageProgram(
      {false, false, {{"w", matrix}, {"v", matrix}, {"u", matrix}}, builder.Finish()});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountPorts(program->weight_gradient.inputs, Role::kParam), 0);
  EXPECT_EQ(GradsOf(*program, program->weight_gradient), std::set<std::string>{"u"});
  EXPECT_EQ(program->stash.size(), 1u);
}

}  // namespace
}  // namespace stringline
