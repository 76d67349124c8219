#include "stages/text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "stages/builder.h"
#include "stages/models/gpt.h"
#include "stages/split.h"

namespace stringline {
namespace {

constexpr char kSmall[] = R"(graph {
  in param 0 = gamma : f32[4]
  in param 1 = beta : f32[4]
  in input 0 = x : f32[2,3,4]
  y : f32[2,3,4], mean : f32[2,3], rstd : f32[2,3] = layer_norm x gamma beta {epsilon=1e-05}
  one : f32[] = constant {value=0.1}
  z : f32[2,3,4] = gelu y
  out output 0 = z
  out saved 0 = x
  out saved 1 = mean
}
)";

TEST(Text, ReadsWhatItPrints) {
  const absl::StatusOr<Graph> graph = ReadGraph(kSmall);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(PrintGraph(*graph), kSmall);
  EXPECT_EQ(graph->nodes.size(), 3u);
  EXPECT_EQ(graph->nodes[1].attributes[0], 0.1);
  EXPECT_EQ(graph->outputs[1].value, graph->inputs[2].value);
}

TEST(Text, EveryProgramOfAModelComesBackEqual) {
  const GptShape shape{3, 8, 2, 5, 11, 2};
  for (const std::vector<int>& cut : {std::vector<int>{3}, {1, 1, 1}, {0, 3, 0}}) {
    const absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages(shape, cut);
    ASSERT_TRUE(programs.ok()) << programs.status();
    for (const StageProgram& program : *programs) {
      for (const Graph* graph : {&program.forward, &program.backward, &program.input_gradient,
                                 &program.weight_gradient}) {
        const absl::StatusOr<Graph> back = ReadGraph(PrintGraph(*graph));
        ASSERT_TRUE(back.ok()) << back.status();
        EXPECT_EQ(*back, *graph);
      }
    }
  }
}

// The four programs in stages/README.md are the actual output.
TEST(Text, TheReadmeShowsRealPrograms) {
  const Type weight{DType::kF32, {3, 4}};
  Builder builder;
  const ValueId w = builder.Input(Role::kParam, 0, weight, "w");
  const ValueId x = builder.Input(Role::kInput, 0, {DType::kF32, {2, 4}}, "x");
  const ValueId h = builder.Append(Op::kLinear, {x, w}, {}, "h");
  builder.Output(Role::kOutput, 0, builder.Append(Op::kGelu, {h}, {}, "y"));
  const absl::StatusOr<StageProgram> program =
      MakeStageProgram({false, false, {{"w", weight}}, builder.Finish()});
  ASSERT_TRUE(program.ok()) << program.status();
  std::ifstream file(STRINGLINE_SOURCE_DIR "/stages/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  for (const Graph* graph : {&program->forward, &program->backward, &program->input_gradient,
                             &program->weight_gradient}) {
    EXPECT_NE(readme.find(PrintGraph(*graph)), std::string::npos) << PrintGraph(*graph);
  }
}

TEST(Text, CommentsAndBlankLinesAreSkipped) {
  const absl::StatusOr<Graph> graph =
      ReadGraph("# a graph\n\ngraph {\n  in input 0 = x : f32[2]   # here\n}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->values.size(), 1u);
}

TEST(Text, BadTextIsSaid) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "line 1: expected '}'"},
      {"graph", "line 1: expected 'graph {'"},
      {"graph {\n", "line 2: expected '}'"},
      {"graph {\n}\nmore", "line 3: something after the closing '}'"},
      {"graph {\nin input 0 = x f32[2]\n}", "line 2: expected 'in ROLE INDEX = NAME : TYPE'"},
      {"graph {\nin output 0 = x : f32[2]\n}", "line 2: 'output' is not a role of an input"},
      {"graph {\nin input -1 = x : f32[2]\n}", "line 2: '-1' is not an index"},
      {"graph {\nin input 0 = x/y : f32[2]\n}", "line 2: 'x/y' is not a name"},
      {"graph {\nin input 0 = x : f64[2]\n}", "line 2: 'f64[2]' is not a type"},
      {"graph {\nin input 0 = x : f32[2\n}", "line 2: 'f32[2' is not a type"},
      {"graph {\nin input 0 = x : f32[2,0]\n}", "line 2: '0' is not a size, in 'f32[2,0]'"},
      {"graph {\nin input 0 = x : f32[9999999999,9999999999]\n}",
       "line 2: '9999999999' is not a size, in 'f32[9999999999,9999999999]'"},
      {"graph {\nin input 0 = x : f32[2]\nin input 0 = x : f32[2]\n}",
       "line 3: 'x' is defined twice"},
      {"graph {\nout output 0 = x\n}", "line 2: 'x' is not defined yet"},
      {"graph {\nout loss = x\n}", "line 2: expected 'out ROLE INDEX = NAME'"},
      {"graph {\nnonsense\n}", "line 2: expected 'NAME : TYPE = OP NAME ... {ATTRIBUTE=NUMBER}'"},
      {"graph {\ny : f32[2] = gelo x\n}", "line 2: 'gelo' is not an op"},
      {"graph {\ny : f32[2] = gelu x\n}", "line 2: 'x' is not defined yet"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[3] = gelu x\n}",
       "line 3: 'y' is f32[2], not f32[3]"},
      {"graph {\nin input 0 = x : f32[2]\ny = gelu x\n}",
       "line 3: expected 'NAME : TYPE' before '='"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2], z : f32[2] = gelu x\n}",
       "line 3: gelu gives 1 values, named are 2"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2] = gelu x x\n}",
       "line 3: gelu has 2 inputs instead of 1"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2] = gelu x\nin input 0 = z : f32[2]\n}",
       "line 4: an input after a node"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2] = scale x\n}",
       "line 3: scale has 0 attributes instead of 1"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2] = scale x {by=2}\n}",
       "line 3: 'by' is not attribute 0 of scale"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2] = scale x {factor=two}\n}",
       "line 3: 'two' is not a number"},
      {"graph {\nin input 0 = x : f32[2]\ny : f32[2] = scale x {factor=2\n}",
       "line 3: expected '{ATTRIBUTE=NUMBER}'"},
  };
  for (const auto& test : cases) {
    const absl::StatusOr<Graph> graph = ReadGraph(test.text);
    ASSERT_FALSE(graph.ok()) << test.text;
    EXPECT_EQ(graph.status().message(), test.message) << test.text;
  }
}

}  // namespace
}  // namespace stringline
