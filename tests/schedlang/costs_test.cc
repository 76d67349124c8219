#include "schedlang/sim/costs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

TEST(Costs, UnitsAreUnderstood) {
  const auto spec = ParseCosts("F=18522, B=1.5ms,I=[1us, 2ns ,0.5],W=1s,p2p=601");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::map<std::string, std::vector<int64_t>> want = {{"F", {18522000}},
                                                            {"B", {1500000}},
                                                            {"I", {1000, 2, 500}},
                                                            {"W", {1000000000}},
                                                            {"p2p", {601000}}};
  EXPECT_EQ(spec->values, want);
}

struct Bad {
  const char* text;
  const char* message;
};

const Bad kBad[] = {
    {"", "expected KEY=TIME, got ''"},
    {"F", "expected KEY=TIME, got 'F'"},
    {"F=1 W=2", "F: '1 W=2' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=", "F: '' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=-1", "F: '-1' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=nan", "F: 'nan' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=1e9", "F: '1e9' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=99999999999999", "F: '99999999999999' is longer than eleven days"},
    {"F=[1,2", "F: the list has no ']'"},
    {"F=[1]2", "expected ',' before '2'"},
    {"F=1,F=2", "F: is given twice"},
    {"p2p=[1,2]", "p2p: takes one value, the latency of every hop"},
    {"p2q=1", "unknown cost 'p2q' (there are F, B, I, W, FB and p2p); did you mean 'p2p'?"},
    {"latency=1", "unknown cost 'latency' (there are F, B, I, W, FB and p2p)"},
};

TEST(Costs, BadTextIsOneError) {
  for (const Bad& bad : kBad)
    EXPECT_EQ(std::string(ParseCosts(bad.text).status().message()), bad.message);
}

std::string WriteFile(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / "stringline_costs_test.yaml";
  std::ofstream(path) << text;
  return path.string();
}

TEST(Costs, FileSaysTheSameAsTheCommandLine) {
  const auto file = ReadCostFile(WriteFile("F: 18522\nB: 1.5ms\nI: [1us, 2ns, 0.5]\np2p: 601\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->values, ParseCosts("F=18522,B=1.5ms,I=[1us,2ns,0.5],p2p=601")->values);
}

TEST(Costs, BadFileIsOneErrorWithItsLine) {
  const std::string path = WriteFile("F: 1\np2q: 2\n");
  EXPECT_EQ(
      std::string(ReadCostFile(path).status().message()),
      path + ":2: unknown cost 'p2q' (there are F, B, I, W, FB and p2p); did you mean 'p2p'?");
  WriteFile("F: {a: 1}\n");
  EXPECT_EQ(std::string(ReadCostFile(path).status().message()),
            path + ":1: F: expected a time or a list of times");
  WriteFile("F: [1, 2\n");
  EXPECT_FALSE(ReadCostFile(path).ok());
  WriteFile("- F\n");
  EXPECT_EQ(std::string(ReadCostFile(path).status().message()),
            path + ": expected a map of costs, for example 'F: 18522'");
  EXPECT_EQ(ReadCostFile("/nowhere/x.yaml").status().message(), "/nowhere/x.yaml: no such file");
}

TEST(Costs, ResolveGivesEveryStageItsCosts) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1I0 1W0\n");
  const auto model = ResolveCosts(*ParseCosts("F=[1,2],I=3,W=4,FB=5,p2p=6"), plan);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->forward, (std::vector<int64_t>{1000, 2000}));
  EXPECT_EQ(model->backward, (std::vector<int64_t>{7000, 7000}));
  EXPECT_EQ(model->hop, 6000);
  EXPECT_EQ(ResolveCosts(*ParseCosts("F=[1,2,3],B=1"), plan).status().message(),
            "F: 3 values for 2 stages (give one for all, or one a stage)");
  EXPECT_EQ(ResolveCosts(*ParseCosts("F=1,I=1"), plan).status().message(),
            "the schedule performs 0B0, but there is no cost for B (nor for I and W)");
  EXPECT_EQ(ResolveCosts(*ParseCosts("F=1,B=1,W=1"), plan).status().message(),
            "the schedule performs 1I0, but there is no cost for I");
}

TEST(Costs, AGroupCostsItsPartsUnlessItIsAForwardAndABackward) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1&0B0 0I1 0W1\n");
  const auto group = [&](size_t i, size_t n) {
    return absl::MakeConstSpan(plan.actions).subspan(i, n);
  };
  const CostModel plain = *ResolveCosts(*ParseCosts("F=1,I=10,W=100"), plan);
  EXPECT_EQ(GroupCost(plain, group(1, 2)), 111000);
  const CostModel fused = *ResolveCosts(*ParseCosts("F=1,I=10,W=100,FB=60"), plan);
  EXPECT_EQ(GroupCost(fused, group(1, 2)), 60000);
  EXPECT_EQ(GroupCost(fused, group(0, 1)), 1000);
}

}  // namespace
}  // namespace stringline
