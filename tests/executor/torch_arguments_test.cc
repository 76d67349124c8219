// Arguments of the ops of an exported program: a rule reads each of them, or they are refused by
// name.
#include "executor/torch_model/torch_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/torch_model/export_file.h"
#include "executor/torch_model/raise.h"
#include "stages/text.h"
#include "tests/executor/torch_archive.h"

namespace stringline {
namespace {

using testing::HasSubstr;

TorchArgument NumberArgument(TorchArgument::Kind kind, double number) {
  TorchArgument argument;
  argument.kind = kind;
  argument.numbers = {number};
  return argument;
}

TorchArgument TextArgument(const std::string& text) {
  TorchArgument argument;
  argument.kind = TorchArgument::Kind::kText;
  argument.text = text;
  return argument;
}

// A graph of no nodes, in which messages name what they are asked about.
struct EmptyGraph {
  const Pt2Archive archive =
      Pt2Archive::Open(STRINGLINE_SOURCE_DIR "/tests/golden/torch/llama.pt2").value();
  const TorchProgram program;
  TorchConstants constants{program, archive};
  const TorchGraph graph{program, &constants};
};

// For every op: an argument that has to keep its default, and an argument of an unknown name.
TEST(TorchArgumentsTest, RefusesArgumentsThatAreNotRead) {
  const EmptyGraph empty;
  const TorchGraph& graph = empty.graph;
  using Kind = TorchArgument::Kind;
  int defaults = 0;
  for (const auto& [name, op] : TorchOps()) {
    TorchNode node;
    node.op = name;
    node.target = absl::StrCat("aten.", name, ".default");
    node.module = "layers.3";
    node.source = "model.py:7 'y = x'";
    const auto says = [&](const std::string& argument, const TorchArgument& value) {
      node.inputs = {{argument, value}};
      return std::string(CheckArguments(graph, node).message());
    };
    const std::string place = "; node '', module 'layers.3', model.py:7 'y = x'";
    EXPECT_EQ(
        says("novel", NumberArgument(Kind::kInt, 0)),
        absl::StrCat(node.target, " is not known here: its argument 'novel' is not read", place));
    for (const std::string& read : op.read)
      EXPECT_EQ(says(read, NumberArgument(Kind::kInt, 7)), "");
    for (const auto& [argument, known] : op.defaults) {
      ++defaults;
      EXPECT_EQ(says(argument, NumberArgument(Kind::kInt, 7)),
                absl::StrCat(node.target, " is not known here: its '", argument,
                             "' is 7, and only ", known, " is known", place));
      EXPECT_NE(says(argument, TextArgument("floor")), "") << name << " " << argument;
      EXPECT_NE(says(argument, NumberArgument(Kind::kBool, 1)), "") << name << " " << argument;
    }
  }
  EXPECT_GE(defaults, 10);
}

// A rule takes the default for a number that it does not find: so an argument that is there and is
// no number has to be refused before.
TEST(TorchArgumentsTest, RefusesNumbersThatAreNone) {
  const EmptyGraph empty;
  const TorchGraph& graph = empty.graph;
  using Kind = TorchArgument::Kind;
  TorchArgument tensor, list = NumberArgument(Kind::kInts, 1), other, size;
  tensor.kind = Kind::kTensor;
  tensor.tensors = {"x"};
  list.numbers.push_back(2);
  other.kind = Kind::kOther;
  size = NumberArgument(Kind::kInt, 4);
  size.symbolic = true;
  int numbers = 0;
  for (const auto& [name, op] : TorchOps()) {
    TorchNode node;
    node.op = name;
    const auto says = [&](const std::string& argument, const TorchArgument& value) {
      node.inputs = {{argument, value}};
      return std::string(CheckArguments(graph, node).message());
    };
    for (const std::string& number : op.numbers) {
      ++numbers;
      EXPECT_EQ(std::count(op.read.begin(), op.read.end(), number), 1) << name << " " << number;
      EXPECT_THAT(says(number, tensor),
                  HasSubstr("its '" + number + "' is the tensor 'x', and only numbers are known"));
      EXPECT_THAT(says(number, list), HasSubstr("its '" + number + "' is [1, 2], and only"));
      EXPECT_THAT(says(number, TextArgument("inf")), HasSubstr("and only numbers are known"));
      EXPECT_EQ(says(number, TorchArgument()), "") << name << " " << number;
    }
    for (const std::string& read : op.read) {
      EXPECT_THAT(says(read, other), HasSubstr("its '" + read + "' is of another kind")) << name;
    }
  }
  EXPECT_GE(numbers, 50);
  TorchNode mul;
  mul.op = "mul";
  mul.inputs = {{"other", size}};
  EXPECT_THAT(std::string(CheckArguments(graph, mul).message()),
              HasSubstr("its 'other' is a size that may vary, 4 at the export: export the model"));
  mul.op = "select";
  mul.inputs = {{"index", size}};
  EXPECT_TRUE(CheckArguments(graph, mul).ok());
}

// The names of arguments that some rule reads as a number, from the sources of the rules.
std::set<std::string> NamesReadAsNumbers() {
  const std::regex read("(?:[Nn]umber|Dimension)\\((?:node, )?\"(\\w+)\"");
  std::set<std::string> names;
  for (const auto& file :
       std::filesystem::directory_iterator(STRINGLINE_SOURCE_DIR "/executor/torch_model")) {
    std::ifstream opened(file.path());
    const std::string text((std::istreambuf_iterator<char>(opened)),
                           std::istreambuf_iterator<char>());
    for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at) {
      names.insert((*at)[1]);
    }
  }
  return names;
}

TEST(TorchArgumentsTest, EveryNumberThatARuleReadsIsMarked) {
  const std::set<std::string> names = NamesReadAsNumbers();
  EXPECT_GE(names.size(), 20u);
  // Tensors or lists of numbers, too, which their rules tell apart.
  const std::set<std::string> others = {"self",
                                        "other",
                                        "exponent",
                                        "mean dim",
                                        "sum dim",
                                        "var dim",
                                        "std dim",
                                        "linalg_vector_norm dim",
                                        "masked_fill value",
                                        "repeats",
                                        "scaled_dot_product_attention value",
                                        "gather index",
                                        "index_select index",
                                        "index_add index",
                                        "index_copy index",
                                        "index_fill index",
                                        "index_fill value",
                                        "scatter index",
                                        "scatter_add index",
                                        "scatter value",
                                        "clamp min",
                                        "clamp max",
                                        "clamp_min min",
                                        "clamp_min max",
                                        "clamp_max min",
                                        "clamp_max max"};
  for (const auto& [name, op] : TorchOps()) {
    for (const std::string& read : op.read) {
      if (names.count(read) == 0 || others.count(read) > 0) continue;
      if (others.count(absl::StrCat(name, " ", read)) > 0) continue;
      EXPECT_EQ(std::count(op.numbers.begin(), op.numbers.end(), read), 1) << name << " " << read;
    }
  }
}

std::vector<TorchArgument> OtherValuesOf(const TorchArgument& argument) {
  using Kind = TorchArgument::Kind;
  TorchArgument changed = argument;
  switch (argument.kind) {
    case Kind::kText:
      changed.text = "other";
      return {changed};
    case Kind::kBool:
      changed.numbers = {1 - argument.numbers.front()};
      return {changed};
    case Kind::kInt:
    case Kind::kFloat:
      return {NumberArgument(argument.kind, argument.numbers.front() + 1),
              NumberArgument(argument.kind, -argument.numbers.front() - 7)};
    case Kind::kInts:
    case Kind::kFloats:
      changed.numbers.push_back(3);
      return {changed};
    default:
      return {};
  }
}

std::string Summary(const RaisedModel& model) {
  std::string text = PrintGraph(model.graph);
  for (const RaisedParam& param : model.params) {
    absl::StrAppend(&text, param.param.name, " ", param.transposed, param.positions);
    for (const auto& part : param.parts) absl::StrAppend(&text, " ", part.rows);
  }
  return text;
}

// True for an argument that a rule reads, but whose value changes nothing at this node: sizes state
// the columns that are sliced, and the place of a new dimension of 1.
bool MayChangeNothing(const TorchProgram& program, const TorchNode& node,
                      const std::string& argument) {
  if (node.op == "dropout") return argument == "p" && node.Number("train", 1) == 0;
  if (node.op == "unsqueeze") return argument == "dim";
  const auto sizes = [&](const std::string& value) { return program.values.at(value).sizes; };
  return node.op == "slice" && sizes(node.Tensor("self")) == sizes(node.outputs.front());
}

// Another value of any argument in a real program: it is refused, or the model is another one, or
// the table says that the argument has no effect. Constants are left out: a mask or an angle is
// looked at by its values, and most other arguments give values that fit no sizes.
TEST(TorchArgumentsTest, ReadsEveryArgumentOrSaysItHasNoEffect) {
  for (const char* const file : {"gpt2", "llama"}) {
    const auto archive =
        Pt2Archive::Open(absl::StrCat(STRINGLINE_SOURCE_DIR "/tests/golden/torch/", file, ".pt2"));
    ASSERT_TRUE(archive.ok()) << archive.status();
    const auto text = archive->Program();
    ASSERT_TRUE(text.ok()) << text.status();
    const auto program = ReadTorchProgram(*text);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto whole = RaiseTorchProgram(*program, *archive);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const std::string expected = Summary(*whole);
    const TorchConstants constants(*program, *archive);
    std::map<std::string, int> tried;
    for (size_t n = 0; n < program->nodes.size(); ++n) {
      const TorchNode& node = program->nodes[n];
      const auto op = TorchOps().find(node.op);
      if (op == TorchOps().end() || constants.Is(node.outputs.front())) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const auto& [name, argument] = node.inputs[i];
        const auto& free = op->second.without_effect;
        if (std::count(free.begin(), free.end(), name) > 0 ||
            MayChangeNothing(*program, node, name))
          continue;
        if (++tried[node.target + " " + name] > 3) continue;
        for (const TorchArgument& other : OtherValuesOf(argument)) {
          TorchProgram changed = *program;
          changed.nodes[n].inputs[i].second = other;
          const auto raised = RaiseTorchProgram(changed, *archive);
          EXPECT_TRUE(!raised.ok() || Summary(*raised) != expected)
              << file << ": " << name << " of " << node.target << ", node " << node.name;
        }
      }
    }
    EXPECT_GT(tried.size(), 10u) << file;
  }
}

}  // namespace
}  // namespace stringline
