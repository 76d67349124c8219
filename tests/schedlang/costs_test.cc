#include "schedlang/costs/costs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
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
    {"", "expected KEY=VALUE, got ''"},
    {"F", "expected KEY=VALUE, got 'F'"},
    {"F=1 W=2", "F: '1 W=2' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=", "F: '' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=-1", "F: '-1' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=nan", "F: 'nan' is not a time (a number of microseconds, or one with ns, us, ms or s)"},
    {"F=1e9",
     "F: '1e9' is not a time (a number of microseconds, or one with ns, us, ms or s); write "
     "1000000000"},
    {"F=2.5e3us",
     "F: '2.5e3us' is not a time (a number of microseconds, or one with ns, us, ms or s); write "
     "2500us"},
    {"F=1_000ns",
     "F: '1_000ns' is not a time (a number of microseconds, or one with ns, us, ms or s); write "
     "1000ns"},
    {"bandwidth=100Gb/s",
     "bandwidth: '100Gb/s' is not a bandwidth (25GB/s); it counts bytes, and 100Gb/s are 12.5GB/s"},
    {"bandwidth=400Gbps",
     "bandwidth: '400Gbps' is not a bandwidth (25GB/s); it counts bytes, and 400Gbps are 50GB/s"},
    {"bandwidth=25", "bandwidth: '25' is not a bandwidth (25GB/s)"},
    {"jitter=5", "jitter: '5' has no unit: write 5%"},
    {"slowdown=1", "slowdown: '1' has no unit: write 1%"},
    {"F=99999999999999", "F: '99999999999999' is longer than eleven days"},
    {"F=[1,2", "F: the list has no ']'"},
    {"F=[1]2", "expected ',' before '2'"},
    {"F=1,F=2", "F: is given twice"},
    {"p2p=[1,2]", "p2p: takes one value"},
    {"p2q=1", "unknown cost 'p2q'; did you mean 'p2p'?"},
    {"speed=1", "unknown cost 'speed' ('stringline sim --help' lists them)"},
    {"message=1XB", "message: '1XB' is not a number of bytes (16MiB, 2GB, 4096)"},
    {"bandwidth=25", "bandwidth: '25' is not a bandwidth (25GB/s)"},
    {"jitter=many", "jitter: 'many' is not a share (5% or 0.05)"},
    {"node.ranks=1.5", "node.ranks: '1.5' is not a whole number"},
    {"links.3-4.p2p=-80us",
     "links.3-4.p2p: '-80us' is not a time (a number of microseconds, or one with ns, us, ms or "
     "s)"},
    {"links.3-4.bandwidth=-1GB/s", "links.3-4.bandwidth: '-1GB/s' is not a bandwidth (25GB/s)"},
    {"links.3-4.bandwidth=0GB/s", "links.3-4.bandwidth: expected more than 0"},
    {"links.3-4.p2p=[1,2]",
     "links.3-4.p2p: '[1,2]' is not a time (a number of microseconds, or one with ns, us, ms or "
     "s)"},
    {"links.3-4.p2q=1", "links.3-4.p2q: a link has no 'p2q'; did you mean 'p2p'?"},
    {"links.3-4.speed=1",
     "links.3-4.speed: a link has no 'speed'; p2p and bandwidth are what it may have"},
    {"links.3-3.p2p=1",
     "links.3-3.p2p: '3-3' leads from a rank to itself, and messages go to another"},
    {"links.3.p2p=1",
     "links.3.p2p: '3' is no link: write its two ranks as 3-4, or as 3->4 for one direction"},
    {"links.A-B.p2p=1",
     "links.A-B.p2p: 'A-B' is no link: write its two ranks as 3-4, or as 3->4 for one direction"},
    {"links.3--4.p2p=1",
     "links.3--4.p2p: '3--4' is no link: write its two ranks as 3-4, or as 3->4 for one "
     "direction"},
    {"links.3-4=80us",
     "links.3-4: expected a link's p2p or bandwidth, as links: {3-4: {p2p: 80us}}"},
    {"links.3-4.p2p=1,links.4-3.p2p=2",
     "links.4-3.p2p: is given twice; links.3-4.p2p says it, too"},
    {"links.4->3.p2p=1,links.3-4.p2p=2",
     "links.3-4.p2p: is given twice; links.4->3.p2p says it, too"},
    {"link.3-4.p2p=1", "unknown cost 'link.3-4.p2p'; did you mean 'links.3-4.p2p'?"},
};

TEST(Costs, BadTextIsOneError) {
  for (const Bad& bad : kBad)
    EXPECT_EQ(std::string(ParseCosts(bad.text).status().message()), bad.message);
}

std::string WriteFile(const std::string& text) {
  // Tests run side by side, each in its own process.
  const auto path = std::filesystem::temp_directory_path() /
                    ("stringline_costs_" + std::to_string(getpid()) + ".yaml");
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
  EXPECT_EQ(std::string(ReadCostFile(path).status().message()),
            path + ":2: unknown cost 'p2q'; did you mean 'p2p'?");
  WriteFile("F: {a: 1}\n");
  EXPECT_EQ(std::string(ReadCostFile(path).status().message()),
            path + ":1: unknown cost 'F.a' ('stringline sim --help' lists them)");
  WriteFile("F: [[1]]\n");
  EXPECT_EQ(std::string(ReadCostFile(path).status().message()),
            path + ":1: F: expected a value or a list of them");
  WriteFile("F: [1, 2\n");
  EXPECT_FALSE(ReadCostFile(path).ok());
  WriteFile("- F\n");
  EXPECT_EQ(std::string(ReadCostFile(path).status().message()),
            path + ": expected a map of costs, for example 'F: 18522'");
  EXPECT_EQ(ReadCostFile("/nowhere/x.yaml").status().message(), "/nowhere/x.yaml: no such file");
}

TEST(Costs, MapsAreKeysWithADot) {
  const auto file = ReadCostFile(
      WriteFile("F: 1\nnode: {ranks: 8, p2p: 2us, bandwidth: 450GB/s}\nmemory:\n  stash: 2 MiB\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->values,
            ParseCosts("F=1,node.ranks=8,node.p2p=2us,node.bandwidth=450GB/s,memory.stash=2097152")
                ->values);
}

TEST(Costs, MessagesTakeBytesByBandwidth) {
  const Plan plan = PlanFromText(
      "plan x P=4 M=1\nstages 0 1 2 3\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n"
      "rank 3: 3F0 3B0\n");
  const auto model = ResolveCosts(
      *ParseCosts("F=1,B=1,p2p=5us,message=[1MB,2MB,3MB,4MB],bandwidth=1GB/s,node.ranks=2,"
                  "node.p2p=1us,node.bandwidth=10GB/s"),
      plan);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto hop = [&](ActionKind kind, int stage) {
    return HopOf(plan, *model,
                 {.kind = kind, .stage = StageId(stage), .microbatch = MicrobatchId(0)});
  };
  EXPECT_EQ(hop(ActionKind::kSendForward, 0).latency_ns, 1000);
  EXPECT_EQ(hop(ActionKind::kSendForward, 0).transfer_ns, 100'000);
  EXPECT_EQ(hop(ActionKind::kSendForward, 1).latency_ns, 5000);
  EXPECT_EQ(hop(ActionKind::kSendForward, 1).transfer_ns, 2'000'000);
  // The gradient for the activation that stage 1 sent comes back from stage 2.
  EXPECT_EQ(hop(ActionKind::kSendBackward, 2).transfer_ns, 2'000'000);
  EXPECT_EQ(hop(ActionKind::kSendBackward, 3).transfer_ns, 300'000);
  EXPECT_EQ(ResolveCosts(*ParseCosts("F=1,B=1,bandwidth=1GB/s"), plan).status().message(),
            "bandwidth: needs the size of a message ('message=16MiB')");
}

// A link's own times come before those of all links and of nodes, each for itself.
TEST(Costs, LinksHaveTimesOfTheirOwn) {
  const Plan plan = PlanFromText(
      "plan x P=4 M=1\nstages 0 1 2 3\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n"
      "rank 3: 3F0 3B0\n");
  using Times = std::vector<std::pair<int64_t, int64_t>>;
  const auto times = [&](const CostSpec& spec, bool back) {
    const auto model = ResolveCosts(spec, plan);
    EXPECT_TRUE(model.ok()) << model.status();
    Times times;
    for (const Hop& hop : back ? model->gradient_hops : model->activation_hops) {
      times.emplace_back(hop.latency_ns, hop.transfer_ns);
    }
    return times;
  };
  const std::string all = "F=1,B=1,p2p=5us,message=1MB,bandwidth=1GB/s,";
  const CostSpec one = *ParseCosts(all +
                                   "node.ranks=2,node.p2p=1us,node.bandwidth=10GB/s,"
                                   "links.1-0.p2p=80us,links.1->2.bandwidth=4GB/s");
  EXPECT_EQ(times(one, false), (Times{{80'000, 100'000}, {5'000, 250'000}, {1'000, 100'000}}));
  EXPECT_EQ(times(one, true), (Times{{80'000, 100'000}, {5'000, 1'000'000}, {1'000, 100'000}}));
  const CostSpec latency = *ParseCosts("F=1,B=1,p2p=5us,links.2-3.p2p=0");
  EXPECT_EQ(times(latency, true), (Times{{5'000, 0}, {5'000, 0}, {0, 0}}));
  const CostSpec bytes = *ParseCosts("F=1,B=1,message=1MB,links.2->3.bandwidth=1GB/s");
  EXPECT_EQ(times(bytes, false), (Times{{0, 0}, {0, 0}, {0, 1'000'000}}));
  EXPECT_EQ(times(bytes, true), (Times{{0, 0}, {0, 0}, {0, 0}}));

  const auto file =
      ReadCostFile(WriteFile("F: 1\nB: 1\np2p: 5us\nmessage: 1MB\nbandwidth: 1GB/s\n"
                             "node: {ranks: 2, p2p: 1us, bandwidth: 10GB/s}\n"
                             "links:\n  1-0: {p2p: 80us}\n  1->2: {bandwidth: 4GB/s}\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(times(*file, false), times(one, false));
  EXPECT_EQ(times(*file, true), times(one, true));
  const auto table = ReadCosts(CostTable{
      {"F", 1}, {"B", 1}, {"p2p", 5}, {"links", CostTable{{"2-3", CostTable{{"p2p", 0}}}}}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(times(*table, true), times(latency, true));
}

// Messages of a link with a bandwidth of its own share it with no others of the two nodes.
TEST(Costs, LinksWithABandwidthAreSharedByTheirOwnMessages) {
  const Plan plan = PlanFromText(
      "plan x P=4 M=1\nstages 0 2 1 3 0\nrank 0: 0F0 4F0 4B0 0B0\nrank 1: 2F0 2B0\n"
      "rank 2: 1F0 1B0\nrank 3: 3F0 3B0\n");
  const auto links = [&](const std::string& more) {
    const auto model = ResolveCosts(
        *ParseCosts("F=1,B=1,message=1MB,bandwidth=1GB/s,node.ranks=2,node.sharing=1" + more),
        plan);
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<int32_t> links;
    for (const Hop& hop : model->activation_hops) links.push_back(hop.link);
    return links;
  };
  const std::vector<int32_t> alike = links(""), own = links(",links.0-2.bandwidth=2GB/s");
  EXPECT_EQ(alike[0], alike[2]);  // 0 -> 2 and 1 -> 3
  EXPECT_EQ(alike[1], alike[3]);  // 2 -> 1 and 3 -> 0
  EXPECT_NE(own[0], own[2]);
  EXPECT_EQ(own[1], own[3]);
  for (const int32_t link : own) EXPECT_GE(link, 0);
  EXPECT_EQ(links(",links.0-2.p2p=9us"), alike);
}

TEST(Costs, LinksThatThePlanDoesNotHaveAreRefused) {
  const Plan plan = PlanFromText(
      "plan x P=3 M=1\nstages 0 1 2\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n");
  const auto refusal = [&](const absl::StatusOr<CostSpec>& spec) {
    return std::string(spec.ok() ? ResolveCosts(*spec, plan).status().message()
                                 : spec.status().message());
  };
  EXPECT_EQ(refusal(ParseCosts("F=1,B=1,links.1-3.p2p=80us")),
            "links.1-3.p2p: there is no rank 3; the plan has 3");
  EXPECT_EQ(refusal(ParseCosts("F=1,B=1,links.0-2.p2p=80us")),
            "links.0-2.p2p: no message of this plan goes over 0-2; messages go over 0-1, 1-2");
  EXPECT_EQ(refusal(ParseCosts("F=1,B=1,links.0-1.bandwidth=1GB/s")),
            "links.0-1.bandwidth: needs the size of a message ('message=16MiB')");
  const std::string path = WriteFile("F: 1\nB: 1\nlinks:\n  0-1: {p2p: 1us}\n  0-2: {p2p: 1us}\n");
  EXPECT_EQ(refusal(ReadCostFile(path)),
            path +
                ":5: links.0-2.p2p: no message of this plan goes over 0-2; messages go over "
                "0-1, 1-2");
  for (const char* const empty : {"links: {}\n", "links: [3-4]\n"}) {
    WriteFile(empty);
    EXPECT_EQ(refusal(ReadCostFile(path)),
              path + ":1: links: expected links with their times, as links: {3-4: {p2p: 80us}}");
  }
  WriteFile("links: 80us\n");
  EXPECT_EQ(refusal(ReadCostFile(path)),
            path + ":1: links: expected a link's p2p or bandwidth, as links: {3-4: {p2p: 80us}}");
}

// Words for the parts of a dense layer are the parts'.
TEST(Costs, PartsOfDenseLayersHaveTheirWords) {
  const auto words = ParseCosts("F.attn=1,F.scatter=2,F.mlp=3,F.gather=4,B.scatter=5,W.mlp=6");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(
      words->values,
      ParseCosts("F.attn=1,F.dispatch=2,F.experts=3,F.combine=4,B.dispatch=5,W.experts=6")->values);
  EXPECT_EQ(ReadCostFile(WriteFile("F: {mlp: 3}\n"))->values.count("F.experts"), 1u);
  EXPECT_EQ(ParseCosts("F.mlp=1,F.experts=2").status().message(), "F.experts: is given twice");
  for (const char* const none : {"W.scatter=1", "mlp=1", "X.mlp=1"}) {
    EXPECT_FALSE(ParseCosts(none).ok()) << none;
  }
}

// Without an overlap, actions of a group follow each other, and each has its chunks side by side.
TEST(Costs, ActionsInARowHaveTheirOwnChunks) {
  const std::string costs =
      "F.attn=4us,F.dispatch=2us,F.experts=4us,F.combine=2us,B.attn=4us,B.dispatch=2us,"
      "B.experts=4us,B.combine=2us,W.attn=1us,W.experts=1us";
  const auto cost_of = [&](const std::string& ranks) {
    const Plan plan =
        PlanFromText(absl::StrCat("plan x P=1 M=2\nstages 0\nchunks 2\nrank 0: ", ranks, "\n"));
    const auto model = ResolveCosts(*ParseCosts(costs), plan);
    EXPECT_TRUE(model.ok()) << model.status();
    int64_t sum = 0;
    for (uint32_t i = 0; i < plan.actions.size(); ++i) {
      const auto group = GroupAt(absl::MakeConstSpan(plan.actions), i);
      if (!plan.actions[i].joined) sum += GroupCost(*model, group);
    }
    return sum;
  };
  EXPECT_EQ(cost_of("0F0&0F1 0B0&0B1"), cost_of("0F0 0F1 0B0 0B1"));
  EXPECT_LT(cost_of("0F0&0F1 0B0&0B1"), 2 * 12'000 + 2 * 14'000);
}

TEST(Costs, PartsMakeUpActionsAndOverlap) {
  const Plan plan = PlanFromText(
      "plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1&1B0 1B1\n");
  const auto model = ResolveCosts(
      *ParseCosts("F.attn=3us,F.dispatch=1us,F.experts=4us,F.combine=1us,B.attn=3us,B.dispatch=1us,"
                  "B.experts=4us,B.combine=1us,W.attn=2us,W.experts=3us,slowdown=0"),
      plan);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->forward[0], 9000);
  EXPECT_EQ(model->backward[0], 14000);
  // compute: F.attn 0-3, B.experts 3-7, W.experts 7-10, F.experts 10-14, B.attn 14-17, W.attn
  // 17-19; network: B.combine 0-1, F.dispatch 3-4, B.dispatch 7-8, F.combine 14-15: all hidden.
  EXPECT_EQ(GroupCost(*model, absl::MakeConstSpan(plan.actions).subspan(5, 2)), 19000);
  const auto slower = RunGroup(
      {{ActionKind::kForward, &model->parts[0]}, {ActionKind::kBackward, &model->parts[0]}},
      nullptr, {.slowdown = 1'000'000});
  int64_t end_ns = 0;
  for (const PartTime& part : slower) end_ns = std::max(end_ns, part.end_ns);
  // At half speed while one of four messages of 1 us moves: 0.5 us lost to each.
  EXPECT_EQ(end_ns, 21000);
}

TEST(Costs, WhatLiesBehindTheLayersIsPaidOnce) {
  const Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1&0B0 0I1 0W1\n");
  const char* const layers =
      "F.attn=3us,F.dispatch=1us,F.experts=4us,F.combine=1us,B.attn=3us,B.dispatch=1us,"
      "B.experts=4us,B.combine=1us,W.attn=2us,W.experts=3us,layers=3";
  const auto without = ResolveCosts(*ParseCosts(layers), plan);
  const auto with =
      ResolveCosts(*ParseCosts(std::string(layers) + ",F.post=10us,B.post=20us,W.post=40us"), plan);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->forward[0], without->forward[0] + 10'000);
  EXPECT_EQ(with->input_gradient[0], without->input_gradient[0] + 20'000);
  EXPECT_EQ(with->weight_gradient[0], without->weight_gradient[0] + 40'000);
  EXPECT_EQ(with->backward[0], without->backward[0] + 60'000);
  // Nothing hides behind them: B.post precedes the first all-to-all, the others follow the last.
  const auto pair = absl::MakeConstSpan(plan.actions).subspan(1, 2);
  EXPECT_EQ(GroupCost(*with, pair), GroupCost(*without, pair) + 70'000);
}

// Two chunks whose transfers D and computations E take equally long on average take D + max(E, D)
// + E. The mean of the larger of two lognormal durations of mean m is 2 m Phi(sigma / sqrt 2).
TEST(Costs, LanesWaitForTheLaterOfTwoPartsWithJitter) {
  Plan plan = PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0B0 0F1 0B1\n");
  plan.chunks = 2;
  const auto forward = absl::MakeConstSpan(plan.actions).first(1);
  const auto cost = [&](const std::string& jitter) {
    const auto model = ResolveCosts(
        *ParseCosts(absl::StrCat("F.dispatch=20ms,F.experts=20ms,B.attn=1us,W.attn=1us", jitter)),
        plan);
    SL_CHECK(model.ok()) << model.status();
    return static_cast<double>(GroupCost(*model, forward));
  };
  EXPECT_EQ(cost(""), 30e6);
  EXPECT_EQ(cost(",part_jitter=0"), 30e6);
  for (const double jitter : {0.05, 0.2, 0.5}) {
    const double sigma = std::sqrt(std::log(1 + jitter * jitter));
    const double larger = std::erfc(-sigma / 2);  // 2 Phi(sigma / sqrt 2)
    EXPECT_NEAR(cost(absl::StrCat(",part_jitter=", jitter)), 10e6 * (2 + larger),
                0.02 * jitter * 30e6);
  }
  // Parts in a row take their mean.
  plan.chunks = 1;
  EXPECT_EQ(cost(",part_jitter=0.2"), 40e6);
  EXPECT_EQ(ResolveCosts(*ParseCosts("F=1,B=2,part_jitter=5%"), plan).status().message(),
            "part_jitter: needs costs of parts ('F.attn=10')");
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

// A cost that is not given has its usual value, or is asked for; no cost is silently zero.
TEST(Costs, NothingIsFreeByAccident) {
  const Plan plan =
      PlanFromText("plan x P=1 M=3\nstages 0\nrank 0: 0F0 0F1&0B0 0F2&0I1 0W1 0I2 0W2\n");
  const auto resolved = [&plan](absl::string_view text) {
    return ResolveCosts(*ParseCosts(text), plan);
  };
  const CostModel usual = *ResolveCosts(UnitCosts(), plan);
  for (const char* const text : {"p2p=100", "message=16MiB,bandwidth=25GB/s", "reduce=5",
                                 "memory.weights=1GiB", "jitter=5%"}) {
    const auto model = resolved(text);
    ASSERT_TRUE(model.ok()) << text << model.status();
    EXPECT_EQ(model->forward, usual.forward) << text;
    EXPECT_EQ(model->backward, usual.backward) << text;
    EXPECT_EQ(model->input_gradient, usual.input_gradient) << text;
    EXPECT_EQ(model->weight_gradient, usual.weight_gradient) << text;
  }
  EXPECT_EQ(resolved("p2p=100")->hop, 100'000);
  struct Case {
    const char* costs;
    const char* message;
  };
  const Case cases[] = {
      {"F.attn=10", "the schedule performs 0B0, but there is no cost for B (nor for I and W)"},
      {"F.attn=10,B.attn=10",
       "the schedule performs 0B0, but there is no cost for B (nor for I and W)"},
      {"F.attn=10,W.attn=10,B=20", "the schedule performs 0I1, but there is no cost for I"},
      {"B.attn=10,W.attn=10", "the schedule performs 0F0, but there is no cost for F"},
      {"F.attn=10,I=10,W=10",
       "the schedule performs 0F1 & 0B0, whose parts overlap, but of I there is no cost of a part "
       "(B.attn, B.post); give them, or FB"},
      {"F.attn=10,B.attn=10,W=10",
       "the schedule performs 0F1 & 0B0, whose parts overlap, but of W there is no cost of a part "
       "(W.attn, W.post); give them, or FB"},
      {"F=10,B.attn=10,W.attn=10,FB=20",
       "the schedule performs 0F2 & 0I1, whose parts overlap, but of F there is no cost of a part "
       "(F.attn, F.post); give them"},
      {"F=1,B=2,node.p2p=3", "node.p2p: needs the ranks of a node ('node.ranks=8')"},
      {"F=1,B=2,layers=3", "layers: needs costs of parts ('F.attn=10')"},
      {"F=1,B=2,slowdown=5%", "slowdown: needs costs of parts ('F.attn=10')"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(resolved(c.costs).status().message(), c.message) << c.costs;
  }
  // A cost given as zero is zero.
  EXPECT_EQ(resolved("F.attn=10,B.attn=10,W.attn=0")->weight_gradient[0], 0);
}

// A cost of the model, or of a rank's stages, is divided over them: by the split's layers.
TEST(Costs, WorkOfAModelIsDividedOverItsStages) {
  const auto plan = [](absl::string_view split) {
    return PlanFromText(absl::StrCat("plan x P=2 M=1\nstages 0 1 1 0\n", split,
                                     "rank 0: 0F0 3F0 3B0 0B0\nrank 1: 1F0 2F0 2B0 1B0\n"));
  };
  const Plan even = plan(""), uneven = plan("split layers 1 2 2 5\n");
  const auto at = [](WorkScope work, const Plan& plan) {
    CostSpec spec = *ParseCosts("F=100,B=200,p2p=7,memory.weights=1000,message=8,reduce=40");
    spec.work = work;
    return *ResolveCosts(spec, plan);
  };
  using Times = std::vector<int64_t>;
  EXPECT_EQ(at(WorkScope::kStage, uneven).forward, Times(4, 100'000));
  EXPECT_EQ(at(WorkScope::kModel, even).forward, Times(4, 25'000));
  EXPECT_EQ(at(WorkScope::kRank, even).forward, Times(4, 50'000));
  const CostModel model = at(WorkScope::kModel, uneven);
  EXPECT_EQ(model.forward, (Times{10'000, 20'000, 20'000, 50'000}));
  EXPECT_EQ(model.backward, (Times{20'000, 40'000, 40'000, 100'000}));
  EXPECT_EQ(model.reduce, (Times{4'000, 8'000, 8'000, 20'000}));
  EXPECT_EQ(model.memory[3][MemoryClass::kWeights], 500);
  EXPECT_EQ(model.memory[3][MemoryClass::kMessages], 8);
  EXPECT_EQ(model.hop, 7'000);
  // Rank 0 has stages 0 and 3.
  EXPECT_EQ(at(WorkScope::kRank, uneven).forward,
            (Times{100'000 / 6 + 1, 50'000, 50'000, 500'000 / 6}));

  CostSpec list = *ParseCosts("F=[1,2,3,4],B=2");
  list.work = WorkScope::kModel;
  EXPECT_EQ(ResolveCosts(list, even).status().message(),
            "F: a list gives costs of stages; with 'work: model' there is one value, of the model");
}

// Pipes share nothing with each other: each has the whole model, and a rank has its stages of each.
TEST(Costs, WorkIsDividedInEveryPipe) {
  const std::string pipes = "plan x P=2 M=2\npipe a M=1 stages 0 1 1\npipe b M=1 stages 1 0 0\n";
  const std::string ranks =
      "rank 0: a[0]F0 b[1]F0 b[2]F0 b[2]B0 b[1]B0 a[0]B0\n"
      "rank 1: b[0]F0 a[1]F0 a[2]F0 a[2]B0 a[1]B0 b[0]B0\n";
  const Plan even = PlanFromText(pipes + ranks);
  const Plan uneven = PlanFromText(pipes + "split layers 1 2 5\n" + ranks);
  const Plan laid_out = PlanFromText(pipes + "split layout E tt tL\n" + ranks);
  using Shares = std::vector<double>;
  EXPECT_EQ(WorkShares(even, WorkScope::kStage), Shares(6, 1));
  EXPECT_EQ(WorkShares(uneven, WorkScope::kStage), Shares(6, 1));
  const double third = 1.0 / 3;
  EXPECT_EQ(WorkShares(even, WorkScope::kModel), Shares(6, third));
  EXPECT_EQ(WorkShares(even, WorkScope::kRank), (Shares{1, 0.5, 0.5, 1, 0.5, 0.5}));
  EXPECT_EQ(WorkShares(uneven, WorkScope::kModel),
            (Shares{0.125, 0.25, 0.625, 0.125, 0.25, 0.625}));
  EXPECT_EQ(WorkShares(uneven, WorkScope::kRank),
            (Shares{1, 2.0 / 7, 5.0 / 7, 1, 2.0 / 7, 5.0 / 7}));
  // A stage without layers has no work, and a rank of such stages has none either.
  EXPECT_EQ(WorkShares(laid_out, WorkScope::kModel),
            (Shares{0, 2 * third, third, 0, 2 * third, third}));
  EXPECT_EQ(WorkShares(laid_out, WorkScope::kRank),
            (Shares{0, 2 * third, third, 0, 2 * third, third}));
  EXPECT_EQ(StagesOfModel(even), 3);
  EXPECT_EQ(StagesOfModel(PlanFromText("plan x P=1 M=1\nstages 0 0\nrank 0: 0F0 1F0 1B0 0B0\n")),
            2);
  // The first stages have a layer more; every layer is in a single stage of each pipe.
  constexpr int64_t kLaidOut[] = {0, 2, 1};
  for (int64_t layers = 0; layers <= 10; ++layers) {
    int64_t sum = 0;
    for (int s = 0; s < 6; ++s) {
      const int64_t own = LayersOfStage(even, StageId(s), layers);
      EXPECT_EQ(own, (layers + 2 - s % 3) / 3) << layers << " layers, stage " << s;
      sum += own;
      EXPECT_EQ(LayersOfStage(uneven, StageId(s), layers), s % 3 == 2 ? 5 : s % 3 + 1);
      EXPECT_EQ(LayersOfStage(laid_out, StageId(s), layers), kLaidOut[s % 3]);
    }
    EXPECT_EQ(sum, 2 * layers);
  }
  EXPECT_FALSE(LayersBySplit(even, StageId(0)).has_value());
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

TEST(Costs, StagesThatRecomputeDoTheirForwardAgain) {
  const Plan plan =
      PlanFromText("plan x P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1I0 1W0\n");
  const std::string common =
      "F=[10,20],I=7,W=5,FB=25,message=3,memory.saved_for_I=40,memory.saved_for_W=60,"
      "memory.stash=2";
  const auto costs = ResolveCosts(*ParseCosts(common + ",recompute=[0,1]"), plan);
  ASSERT_TRUE(costs.ok()) << costs.status();
  using Times = std::vector<int64_t>;
  EXPECT_EQ(costs->forward, (Times{10'000, 20'000}));
  EXPECT_EQ(costs->backward, (Times{12'000, 32'000}));
  EXPECT_EQ(costs->input_gradient, (Times{7'000, 27'000}));
  EXPECT_EQ(costs->weight_gradient, (Times{5'000, 5'000}));
  const Action pair[] = {{.kind = ActionKind::kForward, .stage = StageId(0)},
                         {.kind = ActionKind::kBackward, .joined = true, .stage = StageId(1)}};
  EXPECT_EQ(GroupCost(*costs, pair), 45'000);
  const Action other[] = {{.kind = ActionKind::kForward, .stage = StageId(1)},
                          {.kind = ActionKind::kBackward, .joined = true, .stage = StageId(0)}};
  EXPECT_EQ(GroupCost(*costs, other), 25'000);
  // The rank keeps the layer's input. I recomputes the rest, and leaves W its part.
  EXPECT_EQ(costs->memory[0][MemoryClass::kSavedForInput], 40);
  EXPECT_EQ(costs->memory[1][MemoryClass::kSavedForInput], 3);
  EXPECT_EQ(costs->memory[1][MemoryClass::kSavedForWeight], 0);
  EXPECT_EQ(costs->memory[1][MemoryClass::kStash], 62);
  EXPECT_EQ(costs->memory[1].remade_for_input, 37);
  EXPECT_EQ(costs->memory[1].remade_for_weight, 60);
  // At the beginning of the model nothing enters.
  const auto first = ResolveCosts(*ParseCosts(common + ",recompute=1"), plan);
  EXPECT_EQ(first->memory[0][MemoryClass::kSavedForInput], 0);

  EXPECT_EQ(ResolveCosts(*ParseCosts(common + ",recompute=2"), plan).status().message(),
            "recompute: a stage does (1) or does not (0), not 2");
  EXPECT_EQ(ResolveCosts(*ParseCosts(common + ",recompute=[1,0,1]"), plan).status().message(),
            "recompute: 3 values for 2 stages (give one for all, or one a stage)");
}

}  // namespace
}  // namespace stringline
