// The cuts of graphs, and the contents of each part.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "stages/cut.h"
#include "stages/models/moe.h"
#include "stages/ops.h"
#include "stages/text.h"
#include "tests/stages/moe_shapes.h"

namespace stringline {
namespace {

// A line per part: the ops, in order.
std::string Ops(const Graph& graph, const std::vector<GraphPart>& parts) {
  std::string text;
  for (const GraphPart& part : parts) {
    absl::StrAppend(&text, part.network ? "network:" : "compute:");
    for (int n = part.first_node; n < part.end_node; ++n) {
      absl::StrAppend(&text, " ", RowOf(graph.nodes[n].op).name);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::vector<StageProgram> Build(const DecoderShape& shape, const std::vector<int>& cut,
                                const RecomputePolicy& recompute = {}) {
  absl::StatusOr<std::vector<StageProgram>> programs =
      BuildDecoderStages(shape, cut, {1, recompute});
  EXPECT_TRUE(programs.ok()) << programs.status();
  return *std::move(programs);
}

// A graph in text: compute nodes in the order of their parts, `beside` as early as possible,
// `again` and its inputs as late as possible, the exchange of counts in the network part of its
// dispatch.
TEST(MoeCut, OrdersAGraph) {
  const absl::StatusOr<Graph> graph = ReadGraph(R"(graph {
  in out_grad 0 = dy : f32[4,3]
  in saved 0 = counts : i32[2]
  in saved 1 = x : f32[4,3]
  in param 0 = gamma : f32[3]
  spare : f32[4,3] = gelu x
  last : f32[4,3] = gelu_grad x x
  kept : f32[4,3] = mul last x
  first : f32[4,3] = scale x {factor=2}
  again : f32[4,3], again.rstd : f32[4] = rms_norm first gamma {epsilon=1e-05}
  received : i32[1,2] = all_to_all_counts counts {ranks=1}
  there : f32[4,3] = dispatch dy counts received {rows=4}
  hidden : f32[4,3] = mul there again
  beside : f32[4,3] = mul dy x
  back : f32[4,3] = combine hidden counts received {rows=4}
  sum : f32[4,3] = add back beside
  dx : f32[4,3] = mul sum last
  out in_grad 0 = dx
  out stash 0 = kept
  out stash 1 = spare
  out stash 2 = hidden
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Cut cut = CutAtCollectives(*graph);
  EXPECT_EQ(PrintGraph(cut.graph), R"(graph {
  in out_grad 0 = dy : f32[4,3]
  in saved 0 = counts : i32[2]
  in saved 1 = x : f32[4,3]
  in param 0 = gamma : f32[3]
  beside : f32[4,3] = mul dy x
  received : i32[1,2] = all_to_all_counts counts {ranks=1}
  there : f32[4,3] = dispatch dy counts received {rows=4}
  first : f32[4,3] = scale x {factor=2}
  again : f32[4,3], again.rstd : f32[4] = rms_norm first gamma {epsilon=1e-05}
  hidden : f32[4,3] = mul there again
  back : f32[4,3] = combine hidden counts received {rows=4}
  spare : f32[4,3] = gelu x
  last : f32[4,3] = gelu_grad x x
  kept : f32[4,3] = mul last x
  sum : f32[4,3] = add back beside
  dx : f32[4,3] = mul sum last
  out in_grad 0 = dx
  out stash 0 = kept
  out stash 1 = spare
  out stash 2 = hidden
}
)");
  EXPECT_EQ(cut.parts,
            (std::vector<GraphPart>{
                {false, 0, 1}, {true, 1, 3}, {false, 3, 6}, {true, 6, 7}, {false, 7, 12}}));
  std::map<std::string, int> there_from;
  for (size_t v = 0; v < cut.there_from.size(); ++v) {
    there_from[cut.graph.values[v].name] = cut.there_from[v];
  }
  EXPECT_EQ(there_from["dy"], 0);
  EXPECT_EQ(there_from["x"], -1);
  EXPECT_EQ(there_from["received"], 1);
  EXPECT_EQ(there_from["there"], 1);
  EXPECT_EQ(there_from["again"], 1);
  EXPECT_EQ(there_from["back"], 2);
  EXPECT_EQ(there_from["kept"], 2);
}

// A stage in the middle and the last stage, with a shared expert and an auxiliary loss.
TEST(MoeCut, PartsOfAModel) {
  const std::vector<StageProgram> programs = Build(DeepSeek(), {1, 1, 2});
  const StageProgram& middle = programs[1];
  EXPECT_EQ(Ops(middle.forward, middle.forward_parts),
            "compute: rms_norm linear rotary attention linear_add rms_norm linear route "
            "balance_loss linear swiglu linear_add dispatch_plan gather_rows gather_weights\n"
            "network: all_to_all_counts dispatch dispatch\n"
            "compute: grouped_linear expert_swiglu grouped_linear\n"
            "network: combine\n"
            "compute: sum_rows add\n");
  EXPECT_EQ(Ops(middle.input_gradient, middle.input_gradient_parts),
            "compute: gather_rows linear_input_grad swiglu_grad linear_input_grad\n"
            "network: dispatch\n"
            "compute: grouped_linear_input_grad expert_swiglu_grad grouped_linear_input_grad\n"
            "network: combine combine\n"
            "compute: constant scatter_weights sum_rows add balance_loss_grad route_grad "
            "choice_counts add linear_input_grad linear_weight_grad add rms_norm_grad add "
            "linear_input_grad attention_grad rotary linear_input_grad rms_norm_grad add\n");
  EXPECT_EQ(Ops(middle.weight_gradient, middle.weight_gradient_parts),
            "compute: linear_weight_grad linear_weight_grad\n"
            "compute: grouped_linear_weight_grad grouped_linear_weight_grad\n"
            "compute: linear_weight_grad linear_weight_grad\n");
  const StageProgram& last = programs[2];
  EXPECT_EQ(Ops(last.input_gradient, last.input_gradient_parts),
            "compute: constant cross_entropy_grad linear_input_grad linear_weight_grad "
            "rms_norm_grad gather_rows linear_input_grad swiglu_grad linear_input_grad\n"
            "network: dispatch\n"
            "compute: grouped_linear_input_grad expert_swiglu_grad grouped_linear_input_grad\n"
            "network: combine combine\n"
            "compute: constant scatter_weights sum_rows add balance_loss_grad route_grad add "
            "linear_input_grad linear_weight_grad add rms_norm_grad add linear_input_grad "
            "attention_grad rotary linear_input_grad rms_norm_grad add gather_rows "
            "linear_input_grad swiglu_grad linear_input_grad\n"
            "network: dispatch\n"
            "compute: grouped_linear_input_grad expert_swiglu_grad grouped_linear_input_grad\n"
            "network: combine combine\n"
            "compute: constant choice_counts scatter_weights sum_rows add balance_loss_grad "
            "route_grad choice_counts add linear_input_grad linear_weight_grad add rms_norm_grad "
            "add linear_input_grad attention_grad rotary linear_input_grad rms_norm_grad add\n");
}

// The experts' products are recomputed when the rows' gradients have arrived, attention before its
// own backward; with `for_weights` a second time beside the weights' gradients.
TEST(MoeCut, WhatIsComputedAgainStandsLate) {
  const StageProgram all = Build(Mixtral(), {1, 1, 2}, {Recompute::kAll, false})[1];
  EXPECT_EQ(Ops(all.input_gradient, all.input_gradient_parts),
            "compute: gather_rows\n"
            "network: dispatch\n"
            "compute: grouped_linear_input_grad grouped_linear expert_swiglu expert_swiglu_grad "
            "grouped_linear_input_grad\n"
            "network: combine combine\n"
            "compute: constant scatter_weights sum_rows rms_norm linear rotary attention "
            "linear_add rms_norm linear balance_loss_grad route_grad add linear_input_grad "
            "linear_weight_grad add rms_norm_grad add linear_input_grad attention_grad rotary "
            "linear_input_grad rms_norm_grad add\n");
  EXPECT_EQ(Ops(all.weight_gradient, all.weight_gradient_parts),
            "compute:\n"
            "compute: grouped_linear_weight_grad grouped_linear_weight_grad\n"
            "compute: linear_weight_grad linear_weight_grad\n");
  const StageProgram experts = Build(Mixtral(), {1, 1, 2}, {Recompute::kExperts, true})[1];
  EXPECT_EQ(Ops(experts.input_gradient, experts.input_gradient_parts),
            "compute: gather_rows\n"
            "network: dispatch\n"
            "compute: grouped_linear_input_grad grouped_linear expert_swiglu_grad "
            "grouped_linear_input_grad\n"
            "network: combine combine\n"
            "compute: constant scatter_weights sum_rows balance_loss_grad route_grad add "
            "linear_input_grad linear_weight_grad add rms_norm_grad add linear_input_grad "
            "attention_grad rotary linear_input_grad rms_norm_grad add\n");
  EXPECT_EQ(Ops(experts.weight_gradient, experts.weight_gradient_parts),
            "compute:\n"
            "compute: grouped_linear expert_swiglu grouped_linear_weight_grad "
            "grouped_linear_weight_grad\n"
            "compute: linear_weight_grad linear_weight_grad\n");
}

// By index of a stash: the compute part that produces it.
std::vector<int> StashParts(const StageProgram& program) {
  std::vector<int> parts(program.stash.size(), 0);
  const Graph& graph = program.input_gradient;
  const std::vector<int> producers = Producers(graph);
  for (const Port& port : graph.outputs) {
    if (port.role != Role::kStash || producers[port.value] < 0) continue;
    const int node = producers[port.value];
    for (size_t p = 0; p < program.input_gradient_parts.size(); ++p) {
      const GraphPart& part = program.input_gradient_parts[p];
      if (node < part.first_node || node >= part.end_node) continue;
      parts[port.index] = static_cast<int>(p + (part.network ? 1 : 0)) / 2;
    }
  }
  return parts;
}

// Each node of W is in the part of the latest of its dependencies.
void ExpectWeightPartsFit(const StageProgram& program) {
  const Graph& graph = program.weight_gradient;
  const std::vector<int> stash = StashParts(program);
  std::vector<int> newest(graph.values.size(), -1);
  for (const Port& port : graph.inputs) {
    if (port.role == Role::kStash) newest[port.value] = stash[port.index];
  }
  for (size_t p = 0; p < program.weight_gradient_parts.size(); ++p) {
    const GraphPart& part = program.weight_gradient_parts[p];
    for (int n = part.first_node; n < part.end_node; ++n) {
      int of_node = -1;
      for (ValueId value : graph.nodes[n].inputs) of_node = std::max(of_node, newest[value]);
      for (ValueId value : graph.nodes[n].outputs) newest[value] = of_node;
      if (of_node < 0) continue;  // recomputed, from saved values
      EXPECT_EQ(of_node, static_cast<int>(p)) << RowOf(graph.nodes[n].op).name;
    }
  }
}

TEST(MoeCut, EveryStageHasTwoNetworkPartsALayer) {
  for (const DecoderShape& shape : MoeShapes()) {
    for (const std::vector<int>& cut : {std::vector<int>{4}, {1, 3}, {0, 4, 0}, {1, 1, 1, 1}}) {
      for (const bool again : {false, true}) {
        int layer = 0;
        const std::vector<StageProgram> programs =
            Build(shape, cut, {again ? Recompute::kAll : Recompute::kNone, again});
        for (size_t s = 0; s < cut.size(); ++s) {
          int experts = 0;
          for (const int end = layer + cut[s]; layer < end; ++layer) {
            experts += layer >= shape.moe.first_dense;
          }
          const StageProgram& program = programs[s];
          EXPECT_EQ(program.moe_layers, experts);
          const size_t parts = 4 * experts + 1;
          EXPECT_EQ(program.forward_parts.size(), parts);
          EXPECT_EQ(program.input_gradient_parts.size(), parts);
          EXPECT_EQ(program.weight_gradient_parts.size(), parts / 2 + 1);
          for (size_t p = 0; p < parts; ++p) {
            EXPECT_EQ(program.forward_parts[p].network, p % 2 == 1);
            EXPECT_EQ(program.input_gradient_parts[p].network, p % 2 == 1);
          }
          for (const GraphPart& part : program.weight_gradient_parts) EXPECT_FALSE(part.network);
          ExpectWeightPartsFit(program);
        }
      }
    }
  }
}

// Without a dependency on the network: a single part, in the original order.
TEST(MoeCut, AGraphWithoutCollectivesStaysAsItIs) {
  DecoderShape shape = Mixtral();
  shape.moe = {};
  shape.hidden = 12;
  for (const StageProgram& program : Build(shape, {2, 2}, {Recompute::kAll, true})) {
    for (const Graph* graph : {&program.forward, &program.backward, &program.input_gradient}) {
      const Cut cut = CutAtCollectives(*graph);
      EXPECT_EQ(cut.graph, *graph);
      const int nodes = static_cast<int>(graph->nodes.size());
      EXPECT_EQ(cut.parts, (std::vector<GraphPart>{{false, 0, nodes}}));
    }
  }
}

// Router, norms, biases and head in I; only the big products in W.
TEST(MoeSplit, PutsTheExpertsProductsIntoW) {
  for (const DecoderShape& shape : MoeShapes()) {
    for (const StageProgram& program : Build(shape, {1, 2, 1})) {
      for (const Port& port : program.input_gradient.outputs) {
        if (port.role != Role::kParamGrad) continue;
        const std::string& name = program.params[port.index].name;
        const bool vector = program.params[port.index].type.shape.size() == 1;
        EXPECT_TRUE(vector || name == "head.weight" || name.find("router") != name.npos) << name;
      }
      for (const Node& node : program.weight_gradient.nodes) {
        EXPECT_TRUE(node.op == Op::kLinearWeightGrad || node.op == Op::kGroupedLinearWeightGrad ||
                    node.op == Op::kEmbeddingGrad)
            << RowOf(node.op).name;
      }
      EXPECT_EQ(program.weight_gradient.nodes.size() + program.input_gradient.nodes.size(),
                program.backward.nodes.size());
    }
  }
}

}  // namespace
}  // namespace stringline
