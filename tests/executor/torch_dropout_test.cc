// Dropouts of exported programs: their sites, what drops nothing, and what is refused.
// tests/torch/dropout_test.py has whole models, beside torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/torch_model/export_file.h"
#include "stages/text.h"
#include "tests/executor/torch_archive.h"

namespace stringline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Dropped {
  std::string op;
  double p;
  bool train = true;
};

// A table, a product behind each of these dropouts, and a head. The graph, or the error.
std::string Raised(const std::vector<Dropped>& dropouts) {
  TorchArchive made;
  const std::string table = made.Param("embed.weight", {5, 4}), tokens = made.Input("ids", {1, 3});
  std::string x = made.Node("embedding.default", {{"weight", table}, {"indices", tokens}}, "x",
                            {1, 3, 4}, "embed");
  for (size_t i = 0; i < dropouts.size(); ++i) {
    const std::string layer = absl::StrCat("layers.", i);
    const auto& [op, p, train] = dropouts[i];
    x = made.Node(op + ".default",
                  {{absl::EndsWith(op, "_") ? "self" : "input", x},
                   {"p", TorchFloat(p)},
                   {"train", nlohmann::json{{"as_bool", train}}}},
                  absl::StrCat("dropped_", i), {1, 3, 4}, layer + ".drop");
    const std::string weight = made.Param(layer + ".fc.weight", {4, 4});
    x = made.Node("linear.default", {{"input", x}, {"weight", weight}}, absl::StrCat("linear_", i),
                  {1, 3, 4}, layer + ".fc");
  }
  const std::string head = made.Param("head.weight", {5, 4});
  made.Output(
      made.Node("linear.default", {{"input", x}, {"weight", head}}, "logits", {1, 3, 5}, "head"));
  const std::string path =
      absl::StrCat(testing::TempDir(), "/stringline-torch-dropout-", getpid(), ".pt2");
  made.Write(path);
  const auto shape = ReadExportedShape(path, 0);
  if (!shape.ok()) return std::string(shape.status().message());
  return PrintGraph(std::get<RaisedShape>(shape->family).model->graph);
}

TEST(TorchDropoutTest, SitesCountWhatDrops) {
  const std::string graph = Raised({{"dropout", 0.5},
                                    {"dropout", 0.3, false},
                                    {"dropout", 0},
                                    {"native_dropout", 0.25},
                                    {"dropout_", 1}});
  EXPECT_THAT(graph, AllOf(HasSubstr("  in mask_key 0 = mask_key : i32[4]\n"),
                           HasSubstr("= dropout embed mask_key {p=0.5 site=0}\n"),
                           HasSubstr(" mask_key {p=0.25 site=1}\n"),
                           HasSubstr(" mask_key {p=1 site=2}\n"), Not(HasSubstr("site=3"))));
}

// Without a dropout that drops there is no key, and a layer of its own pattern.
TEST(TorchDropoutTest, OfNothingIsNotThere) {
  for (const char* const op : {"dropout", "feature_dropout", "alpha_dropout"}) {
    const std::string graph = Raised({{op, 0.5, false}, {op, 0}});
    EXPECT_THAT(graph, AllOf(HasSubstr("graph {"), Not(HasSubstr("mask_key")))) << op;
    EXPECT_EQ(graph, Raised({{"dropout", 0}, {"dropout", 0}})) << op;
  }
}

TEST(TorchDropoutTest, OfOtherKindsIsRefused) {
  for (const std::string op : {"feature_dropout", "alpha_dropout", "feature_alpha_dropout"}) {
    EXPECT_THAT(Raised({{op, 0.5}}),
                HasSubstr(absl::StrCat(
                    op,
                    ".default is not known here: dropout of whole channels, or of another "
                    "kind: dropout of single numbers is known, and none at all, after eval(); "
                    "node 'dropped_0', module 'layers.0.drop', /home/me/model.py:")));
  }
  EXPECT_THAT(
      Raised({{"dropout", 1.5}}),
      HasSubstr("dropout.default is not known here: dropout of 1.5, which is no probability "
                "from 0 to 1; node 'dropped_0'"));
}

}  // namespace
}  // namespace stringline
