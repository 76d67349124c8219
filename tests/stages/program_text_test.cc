#include "stages/program_text.h"

#include <gtest/gtest.h>

#include "stages/models/gpt.h"

namespace stringline {
namespace {

constexpr char kSmallProgram[] = R"(program {
  param w : f32[3,4] normal=0.02 decay
  input : f32[2,4]
  output : f32[2,3]
  saved : f32[2,4] weight
  stash : f32[2,3]
}
forward graph {
  in param 0 = w : f32[3,4]
  in input 0 = x : f32[2,4]
  y : f32[2,3] = linear x w
  out output 0 = y
  out saved 0 = x
}
backward graph {
  in param 0 = w : f32[3,4]
  in saved 0 = x : f32[2,4]
  in out_grad 0 = d.out : f32[2,3]
  d.x : f32[2,4] = linear_input_grad d.out w
  d.w : f32[3,4] = linear_weight_grad d.out x
  out in_grad 0 = d.x
  out param_grad 0 = d.w
}
input_gradient graph {
  in param 0 = w : f32[3,4]
  in saved 0 = x : f32[2,4]
  in out_grad 0 = d.out : f32[2,3]
  d.x : f32[2,4] = linear_input_grad d.out w
  out in_grad 0 = d.x
  out stash 0 = d.out
}
weight_gradient graph {
  in saved 0 = x : f32[2,4]
  in stash 0 = d.out : f32[2,3]
  d.w : f32[3,4] = linear_weight_grad d.out x
  out param_grad 0 = d.w
}
)";

TEST(ProgramText, ReadsWhatItPrints) {
  const absl::StatusOr<StageProgram> program = ReadStageProgram(kSmallProgram);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(PrintStageProgram(*program), kSmallProgram);
  EXPECT_TRUE(program->saved[0].needed_by_weight);
  EXPECT_EQ(program->params[0].stddev, 0.02f);
}

TEST(ProgramText, EveryStageOfAModelComesBackEqual) {
  for (const std::vector<int>& cut : {std::vector<int>{3}, {1, 1, 1}, {0, 3, 0}}) {
    const absl::StatusOr<std::vector<StageProgram>> programs =
        BuildGptStages({3, 8, 2, 5, 11, 2}, cut);
    ASSERT_TRUE(programs.ok()) << programs.status();
    for (const StageProgram& program : *programs) {
      const absl::StatusOr<StageProgram> back = ReadStageProgram(PrintStageProgram(program));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, program);
    }
  }
}

TEST(ProgramText, StagesOfPackedSequencesComeBackEqual) {
  const auto programs = BuildGptStages({2, 8, 2, 5, 11, 2}, {1, 1}, {.packed = true});
  ASSERT_TRUE(programs.ok()) << programs.status();
  for (const StageProgram& program : *programs) {
    ASSERT_TRUE(program.positions.has_value());
    const std::string text = PrintStageProgram(program);
    EXPECT_NE(text.find("  positions : i32[2,5]\n"), std::string::npos);
    EXPECT_NE(text.find("in positions 0 = positions : i32[2,5]\n"), std::string::npos);
    const absl::StatusOr<StageProgram> back = ReadStageProgram(text);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, program);
  }
}

TEST(ProgramText, BadTextIsSaid) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"program {", "programm {", "line 1: expected 'program {'"},
      {"param w : ", "param w ", "line 2: expected 'param NAME : TYPE ...'"},
      {"decay", "decays", "line 2: 'decays' says nothing of a param"},
      {"normal=0.02", "normal=x", "line 2: 'x' is not a number"},
      {"input : f32[2,4]", "input : f32", "line 3: 'f32' is not a type"},
      {"input : ", "import : ", "line 3: 'import' says nothing of a program"},
      {"output : f32[2,3]", "output : f32[2,3] weight", "line 4: 'weight' is no edge"},
      {"forward graph {", "forwards graph {", "line 8: expected 'forward graph {'"},
      {"linear x w", "linear x v", "line 11: 'v' is not defined yet"},
      {"linear_weight_grad d.out x\n  out param_grad 0 = d.w\n}\n", "linear_weight_grad d.out x\n",
       "line 36: expected '}'"},
      {"param w", "last\n  param w", "forward has a port output 0 that the program does not state"},
      {"param w", "first\n  param w",
       "backward has a port in_grad 0 that the program does not state"},
      {"out stash 0", "out stash 1",
       "input_gradient has a port stash 1 that the program does not state"},
      {"input : f32[2,4]", "input : f32[2,5]",
       "forward has a port input 0 of type f32[2,4], stated as f32[2,5]"},
      {"stash : ", "parts forward : compute=2\n  stash : ",
       "the parts of forward are not its 1 nodes in a row"},
      {"stash : ", "parts forward : compute=0 network=1\n  stash : ",
       "forward has linear in a network part"},
      {"stash : ", "parts forward : compute=-1\n  stash : ", "line 6: 'compute=-1' is not a part"},
      {"stash : ", "parts backward : compute=1\n  stash : ",
       "line 6: expected 'parts GRAPH : compute=COUNT network=COUNT ...'"},
      {"stash : ", "moe_layers : many\n  stash : ", "line 6: 'many' is not a number"},
      {"out output 0", "out dropped 0",
       "forward has a port dropped 0 that the program does not state"},
  };
  for (const auto& test : cases) {
    const size_t at = std::string(kSmallProgram).find(test.from);
    ASSERT_NE(at, std::string::npos) << test.from;
    const std::string text =
        std::string(kSmallProgram).replace(at, std::string(test.from).size(), test.to);
    const absl::StatusOr<StageProgram> program = ReadStageProgram(text);
    ASSERT_FALSE(program.ok()) << test.message;
    EXPECT_EQ(program.status().message(), test.message);
  }
}

// A text truncated anywhere gives one message.
TEST(ProgramText, EveryTruncationIsRefused) {
  const std::string whole = kSmallProgram;
  for (size_t length = 0; length + 2 < whole.size(); ++length) {
    const absl::StatusOr<StageProgram> program = ReadStageProgram(whole.substr(0, length));
    ASSERT_FALSE(program.ok()) << length;
    EXPECT_FALSE(program.status().message().empty());
  }
}

}  // namespace
}  // namespace stringline
