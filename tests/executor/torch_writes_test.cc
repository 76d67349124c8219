// Programs before and after: a line is "result[sizes], ... = op name:operand ...", where an operand
// that begins with a digit, or with a minus, is a number.
#include "executor/torch_model/torch_writes.h"

#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace stringline {
namespace {

TorchNode ReadLine(absl::string_view line, TorchProgram* program) {
  TorchNode node;
  const std::vector<absl::string_view> sides = absl::StrSplit(line, " = ");
  for (const absl::string_view result : absl::StrSplit(sides[0], ", ")) {
    const std::vector<std::string> parts = absl::StrSplit(result, absl::ByAnyChar("[]"));
    TorchValue value{TorchType::kFloat, {4, 6}};
    if (parts.size() > 1) {
      value.sizes.clear();
      for (const absl::string_view size : absl::StrSplit(parts[1], 'x')) {
        EXPECT_TRUE(absl::SimpleAtoi(size, &value.sizes.emplace_back()));
      }
    }
    program->values[parts[0]] = value;
    node.outputs.push_back(parts[0]);
  }
  const std::vector<std::string> words = absl::StrSplit(sides[1], ' ');
  node.op = words[0];
  node.target = absl::StrCat("aten.", words[0]);
  node.name = node.outputs.front();
  for (size_t w = 1; w < words.size(); ++w) {
    const std::pair<std::string, std::string> input = absl::StrSplit(words[w], ':');
    TorchArgument argument;
    double number = 0;
    if (absl::SimpleAtod(input.second, &number)) {
      argument = {TorchArgument::Kind::kInt, {}, {number}, ""};
    } else {
      argument = {TorchArgument::Kind::kTensor, {input.second}, {}, ""};
    }
    node.inputs.emplace_back(input.first, argument);
  }
  return node;
}

std::string Line(const TorchNode& node) {
  std::string line = absl::StrCat(absl::StrJoin(node.outputs, ", "), " = ", node.op);
  for (const auto& [name, argument] : node.inputs) {
    absl::StrAppend(&line, " ", name, ":", absl::StrJoin(argument.tensors, ","),
                    absl::StrJoin(argument.numbers, ","));
  }
  return line;
}

// The functional program, with "-> result", or the error up to its first ';'.
std::string Functional(absl::string_view text) {
  TorchProgram program;
  program.params["p"] = "weight";
  program.constants["b"] = "buffer";
  program.inputs = {"i"};
  for (const char* const name : {"p", "b", "i"}) program.values[name].sizes = {4, 6};
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    program.nodes.push_back(ReadLine(line, &program));
  }
  program.outputs = {program.nodes.back().outputs.front()};
  const auto made = WithoutWrites(program);
  if (!made.ok()) {
    return std::string(*absl::StrSplit(made.status().message(), "; node").begin());
  }
  std::string lines;
  for (const TorchNode& node : made->nodes) absl::StrAppend(&lines, Line(node), "\n");
  return absl::StrCat(lines, "-> ", made->outputs.front());
}

struct WriteCase {
  const char* program;
  const char* functional;
};

const WriteCase kCases[] = {
    // Without writes
    {"x = relu self:p\ny = view self:x", "x = relu self:p\ny = view self:x\n-> y"},
    // A value, by its old name and by the write's result
    {"x = relu self:p\ny = add_ self:x other:p\nz = mul self:x other:y",
     "x = relu self:p\ny = add self:x other:p\nz = mul self:y other:y\n-> z"},
    {"x = relu self:p\ny = __imul__ self:x other:2\nz = relu_ self:y\nw = neg self:x",
     "x = relu self:p\ny = mul self:x other:2\nz = relu self:y\nw = neg self:z\n-> w"},
    // Overwritten values are not read
    {"x = relu self:p\ny = copy_ self:x src:p\nz = fill_ self:y value:1\nw = zero_ self:x",
     "x = relu self:p\ny = copy src:p\nz = full_like self:y fill_value:1\nw = zeros_like self:z\n"
     "-> w"},
    // Through a view into its base
    {"x = relu self:p\nv[24] = view self:x\ny[24] = add_ self:v other:1\nz = neg self:x",
     "x = relu self:p\nv = view self:x\ny = add self:v other:1\nx@1 = reshape self:y shape:4,6\n"
     "z = neg self:x@1\n-> z"},
    {"x = relu self:p\nv[6x4] = t self:x\ns[2x4] = slice self:v dim:0 start:-3 end:5\n"
     "y[2x4] = mul_ self:s other:2\nz = neg self:x\nw = neg self:v",
     "x = relu self:p\nv = t self:x\ns = slice self:v dim:0 start:-3 end:5\n"
     "y = mul self:s other:2\nv@1 = slice_scatter self:v src:y dim:0 start:-3 step:1\n"
     "x@2 = t self:v@1\nz = neg self:x@2\nw = neg self:v@1\n-> w"},
    {"x = relu self:p\na[4x2], c[4x4] = split self:x split_sizes:2 dim:-1\n"
     "y[4x4] = mul_ self:c other:2\nz[6] = select self:x dim:0 index:1\nw[6] = neg_ self:z\n"
     "u = add self:a other:x",
     "x = relu self:p\na, c = split self:x split_sizes:2 dim:-1\ny = mul self:c other:2\n"
     "x@1 = slice_scatter self:x src:y dim:-1 start:2 step:1\nz = select self:x@1 dim:0 index:1\n"
     "w = neg self:z\nx@2 = select_scatter self:x@1 src:w dim:0 index:1\n"
     "a@3, c@4 = split self:x@2 split_sizes:2 dim:-1\nu = add self:a@3 other:x@2\n-> u"},
    // Into a base under its views
    {"x = relu self:p\nv[24] = view self:x\nu[24] = alias self:v\ny = add_ self:x other:1\n"
     "z[24] = neg self:u",
     "x = relu self:p\nv = view self:x\nu = alias self:v\ny = add self:x other:1\n"
     "v@1 = view self:y\nu@2 = alias self:v@1\nz = neg self:u@2\n-> z"},
    // Errors
    {"y = add_ self:p other:1",
     "aten.add_ is not known here: it writes into 'p', a parameter, "
     "buffer or input of the program, which keeps what is written; "
     "write into a clone()"},
    {"v[24] = view self:b\ny[24] = add_ self:v other:1",
     "aten.add_ is not known here: it writes into 'b', a parameter, buffer or input of the "
     "program, which keeps what is written; write into a clone()"},
    {"v[24] = reshape self:i\ny[24] = add_ self:v other:1",
     "aten.add_ is not known here: it writes into 'i', a parameter, buffer or input of the "
     "program, which keeps what is written; write into a clone()"},
    {"x = relu self:p\nv[24] = reshape self:x\ny[24] = add_ self:v other:1\nz = neg self:x",
     "aten.neg is not known here: its operand 'x' may share memory with what 'y' wrote into; "
     "write into a clone() instead"},
    {"x = relu self:p\nv = unheard_of self:x\ny = add_ self:v other:1",
     "aten.unheard_of is not known here"},
    {"x = relu self:p\nv[2x4x6] = expand self:x\ny[2x4x6] = add_ self:v other:1",
     "aten.add_ is not known here: it writes through expand(), 'v'; write into a clone() instead"},
    {"x = relu self:p\nv = detach self:x\ny = add_ self:v other:1",
     "aten.add_ is not known here: it writes through detach(), 'v'; write into a clone() instead"},
    {"x = relu self:p\ny[6x4] = t_ self:x",
     "aten.t_ is not known here: it changes its operand's sizes"},
};

TEST(TorchWritesTest, GiveVersions) {
  for (const WriteCase& test : kCases) EXPECT_EQ(Functional(test.program), test.functional);
}

}  // namespace
}  // namespace stringline
