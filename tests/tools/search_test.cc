// `stringline search` on the command line: its output, its files, and its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schedlang/ask/free_split.h"
#include "schedlang/ask/places.h"
#include "schedlang/plan/parts.h"
#include "tests/tools/tool_run.h"
#include "tools/answers/found_schedule.h"

namespace stringline {
namespace {

std::vector<std::string> SearchWords(const std::string& line) { return Words("search " + line); }

Answer Search(const std::string& line) { return RunToolIn(SourceFolder(), SearchWords(line)); }

TEST(SearchTest, ProvesThePapersSchedules) {
  // Qi et al. 2024, ZB-1p: 1310405 us, with the memory of 1F1B.
  const Answer answer =
      Search("P=8 M=24 --cost F=18522,I=18086,W=9337,p2p=601 --activations 8 --iterations 4000");
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(Lines(answer.out)[0], "makespan 1310.405 ms, the best possible: no order is shorter");
  // ZB-V has no bubble but its ranks' late starts.
  const auto json = nlohmann::json::parse(
      Search("P=4 M=12 --place v --activations 8 --iterations 4000 --json").out);
  EXPECT_EQ(json["makespan_us"], 75000);
  EXPECT_EQ(json["proven"], true);
  EXPECT_EQ(json["stages"], 8);
}

TEST(SearchTest, FindsPairsThatNoRuleGives) {
  // dualpipe_v takes 422 us here, rules that pair wherever possible 426.
  const auto json = nlohmann::json::parse(
      Search("P=2 M=8 --place v --pairs --cost F=10,I=10,W=8,FB=24 --iterations 20000 --json").out);
  EXPECT_LE(json["makespan_us"], 418);
  EXPECT_EQ(json["library"][0]["schedule"], "dualpipe_v");
  EXPECT_EQ(json["library"][0]["value_us"], 422);
}

TEST(SearchTest, WhatItWritesIsAScheduleThatReachesWhatItSays) {
  const std::string folder = ScratchFolder();
  const std::string costs = "--cost F=[1,2,2,3],I=[1,2,2,3],W=[1,2,2,1],p2p=0.2";
  const std::string cases[][2] = {
      {"P=4 M=8 " + costs, "P=4 M=8 " + costs},
      {"P=4 M=9 --place v --activations 7 --minimize span", "P=4 M=9"},
      {"P=2 M=6 --place v --pairs --cost F=10,I=10,W=8,FB=24",
       "P=2 M=6 --cost F=10,I=10,W=8,FB=24"},
      {"P=3 M=6 --kinds F,B --cost F=10,B=21", "P=3 M=6 --cost F=10,B=21"},
      {"P=3 M=5 --place wave --activations 6", "P=3 M=5"},
      {"P=2 M=8 --from chimera", "P=2 M=8"}};
  for (const auto& [asked, simulated] : cases) {
    SCOPED_TRACE(asked);
    const std::string path = folder + "/found.sched";
    const Answer found = Search(asked + " --iterations 3000 --json --emit " + path);
    ASSERT_EQ(found.status, 0) << found.out << found.err;
    const auto said = nlohmann::json::parse(found.out);
    const std::string words = path + " " + simulated;
    EXPECT_EQ(RunToolIn(folder, Words("check " + words.substr(0, words.find(" --")))).status, 0);
    EXPECT_EQ(RunToolIn(folder, Words("fmt --check " + path)).status, 0);
    const Answer sim = RunToolIn(folder, Words("sim " + words + " --json"));
    ASSERT_EQ(sim.status, 0) << sim.err;
    EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"], said["makespan_us"]);
    EXPECT_LE(said["bound_us"], said["value_us"]);
  }
}

// An order that a greedy rule gives at the costs of the search, and at no others, is written as
// that rule with these costs.
TEST(SearchTest, WritesGreedyRulesAtItsOwnCosts) {
  const std::string path = ScratchFolder() + "/greedy.sched";
  for (const std::string recompute : {"", "  recompute [1, 0, 0, 0, 0, 0];\n"}) {
    WriteText(path,
              absl::StrCat("schedule g(P, M) {\n  stages 2 * P on wave;\n", recompute,
                           "  rank r greedy {\n    prefer B, F;\n    costs F s -> s == 5 ? 3 : "
                           "2, B s -> s == 5 ? 5 : 4, p2p 1;\n  }\n}\n"));
    const auto step = OpenPlan({.file = path, .parameters = {{"P", 3}, {"M", 7}}});
    ASSERT_TRUE(step.ok() && step->plan) << step.status();
    FoundSchedule found;
    found.plan = *step->plan;
    found.plan.costs = {};
    const auto spec = ParseCosts("F=[20,20,20,20,20,30],B=[40,40,40,40,40,50],p2p=10");
    found.costs = *ResolveCosts(*spec, found.plan);
    const auto text = EmittedText(FoundQuestion{}, found, nullptr);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_NE(text->find("  rank r greedy {\n    prefer B, F;\n    costs F [2, 2, 2, 2, 2, 3], "
                         "B [4, 4, 4, 4, 4, 5], p2p 1;\n  }\n"),
              std::string::npos)
        << *text;
    EXPECT_EQ(text->find("recompute [1") == std::string::npos, recompute.empty()) << *text;
    // At other costs no rule is found.
    found.costs = *ResolveCosts(*ParseCosts("F=1,B=7,p2p=3"), found.plan);
    EXPECT_EQ(EmittedText(FoundQuestion{}, found, nullptr)->find("greedy"), std::string::npos);
  }
}

TEST(SearchTest, IterationsGiveTheSameOnEveryRun) {
  const std::string asked =
      "P=4 M=8 --place v --activations 5 --minimize span --iterations 6000 --seed 7 --json";
  EXPECT_EQ(Search(asked).out, Search(asked).out);
}

TEST(SearchTest, ComparesWithTheLibrarysOwn) {
  const std::string folder = ScratchFolder() + "/names";
  std::filesystem::create_directory(folder);
  const auto search = [](const std::string& folder) {
    const Answer answer =
        RunToolIn(folder, SearchWords("P=4 M=8 --activations 4 --iterations 100 --json"));
    EXPECT_EQ(answer.status, 0) << answer.err;
    return nlohmann::json::parse(answer.out)["library"];
  };
  const auto library = search(SourceFolder());
  EXPECT_FALSE(library.empty());
  // Files of the names of its schedules.
  for (const auto& known : library) {
    WriteText(folder + "/" + known["schedule"].get<std::string>(), "schedule none(P, M) {}\n");
  }
  EXPECT_EQ(search(folder), library);
}

TEST(SearchTest, KeepsWithinBytes) {
  const std::string costs =
      "--cost F=10,I=10,W=8,memory.weights=1GB,memory.saved_for_I=1GB,memory.saved_for_W=2GB,"
      "memory.stash=1GB,message=100MB,bandwidth=100GB/s";
  const std::string path = ScratchFolder() + "/bytes.sched";
  for (const char* const memory : {"7.3GB", "8GB", "11GB", "11.3GB", "14GB"}) {
    const Answer answer = Search(
        absl::StrCat("P=4 M=8 ", costs, " --memory ", memory, " --iterations 2000 --emit ", path));
    ASSERT_EQ(answer.status, 0) << answer.err;
    const Answer check =
        RunToolIn(SourceFolder(),
                  Words(absl::StrCat("check ", path, " P=4 M=8 ", costs, " --memory ", memory)));
    EXPECT_EQ(check.status, 0) << memory << check.out;
  }
  EXPECT_EQ(Search("P=4 M=8 " + costs + " --memory 2GB").err.substr(0, 57),
            "stringline: no order exists within that memory: rank 0 mu");
}

TEST(SearchTest, RanksMayHaveTheirOwnMemory) {
  const std::string costs =
      "--cost F=10,I=10,W=8,memory.weights=1GB,memory.saved_for_I=1GB,memory.saved_for_W=2GB";
  const std::string path = ScratchFolder() + "/ranks.sched";
  const auto search = [&](const std::string& memory) {
    const Answer answer = Search(absl::StrCat("P=4 M=8 ", costs, " --memory ", memory,
                                              " --iterations 2000 --json --emit ", path));
    EXPECT_EQ(answer.status, 0) << answer.err;
    return nlohmann::json::parse(answer.out);
  };
  const auto check = [&](const std::string& memory) {
    return RunToolIn(SourceFolder(), Words(absl::StrCat("check ", path, " P=4 M=8 ", costs,
                                                        " --memory ", memory, " --json")));
  };
  const auto even = search("7.1GB");
  const auto uneven = search("13.1GB,10.1GB,7.1GB,4.1GB");
  EXPECT_LT(uneven["makespan_us"], even["makespan_us"]);
  EXPECT_EQ(uneven["activations"], (nlohmann::json{4, 3, 2, 1}));
  const Answer good = check("13.1GB,10.1GB,7.1GB,4.1GB");
  EXPECT_EQ(good.status, 0) << good.out;
  EXPECT_EQ(nlohmann::json::parse(good.out)["memory"],
            (nlohmann::json{13'100'000'000, 10'100'000'000, 7'100'000'000, 4'100'000'000}));
  const Answer full = check("1:10.1GB,2:6.9GB");
  EXPECT_EQ(full.status, 1) << full.out;
  EXPECT_NE(full.out.find("rank 2 holds 6.52 GiB at "), std::string::npos) << full.out;
  EXPECT_EQ(full.out.find("rank 1 holds"), std::string::npos) << full.out;
  // Ranks without a limit of their own take the limit of the costs.
  const Answer rest =
      RunToolIn(SourceFolder(), Words(absl::StrCat("check ", path, " P=4 M=8 ", costs,
                                                   ",memory.capacity=7.1GB --memory 0:14GB")));
  EXPECT_NE(rest.out.find("rank 1 holds 9.31 GiB at "), std::string::npos) << rest.out;
}

TEST(SearchTest, OfPlacementsTakesTheOneWhoseOrdersFit) {
  // Messages take more memory here than the search's first estimate.
  const std::string costs =
      "--work model --cost F=40,I=40,W=32,memory.weights=4GB,memory.saved_for_I=4GB,"
      "memory.saved_for_W=8GB,message=300MB --iterations 3000 --json";
  for (const char* const memory : {"7GB", "10GB"}) {
    SCOPED_TRACE(memory);
    const auto search = [&](const std::string& place) {
      const Answer answer =
          Search(absl::StrCat("P=4 M=6 --place ", place, " --memory ", memory, " ", costs));
      EXPECT_EQ(answer.status, 0) << answer.err;
      return nlohmann::json::parse(answer.out);
    };
    const auto any = search("any");
    EXPECT_LE(any["bound_us"].get<double>(), any["value_us"].get<double>());
    for (const char* const place : {"line", "v"}) {
      const auto one = search(place);
      EXPECT_LE(any["value_us"].get<double>(), 1.1 * one["value_us"].get<double>()) << place;
    }
  }
}

TEST(SearchTest, ChoosesTheStagesThatRecompute) {
  const std::string path = ScratchFolder() + "/recompute.sched";
  for (const char* const message : {"1MB", "300MB"}) {
    for (const char* const memory : {"5.2GB", "7GB", "10GB"}) {
      SCOPED_TRACE(absl::StrCat(message, " ", memory));
      const std::string costs = absl::StrCat(
          "--cost F=10,I=10,W=8,memory.weights=1GB,memory.saved_for_I=1GB,memory.saved_for_W=2GB,"
          "message=",
          message, ",recompute=");
      const auto search = [&](const std::string& more) {
        const Answer answer = Search(absl::StrCat("P=2 M=3 ", costs, more, " --memory ", memory,
                                                  " --iterations 4000 --json --emit ", path));
        EXPECT_EQ(answer.status, 0) << answer.err;
        return nlohmann::json::parse(answer.out);
      };
      double least = 1e9;
      for (const char* const stages : {"[0,0]", "[0,1]", "[1,0]", "[1,1]"}) {
        least = std::min(least, search(stages)["value_us"].get<double>());
      }
      const auto any = search("1 --recompute any");
      EXPECT_EQ(any["value_us"].get<double>(), least);
      EXPECT_LE(any["bound_us"].get<double>(), least);
      // The file says which stages recompute: at the costs of the search, which do not, the order
      // reaches the found value and fits.
      const std::string there =
          absl::StrCat(path, " P=2 M=3 ", costs.substr(0, costs.rfind(",recompute=")));
      const Answer check =
          RunToolIn(SourceFolder(), Words(absl::StrCat("check ", there, " --memory ", memory)));
      EXPECT_EQ(check.status, 0) << check.out;
      const Answer sim = RunToolIn(SourceFolder(), Words(absl::StrCat("sim ", there, " --json")));
      const auto simulated = nlohmann::json::parse(sim.out);
      EXPECT_EQ(simulated["makespan_us"], any["makespan_us"]);
      EXPECT_EQ(simulated.value("recompute", nlohmann::json::array()), any["recompute"]);
      EXPECT_EQ(RunToolIn(SourceFolder(), {"fmt", "--check", path}).status, 0);
    }
  }
}

// The written schedule holds the copies and the R that were found: it fits, and takes as long.
TEST(SearchTest, WritesCopiesAndR) {
  const std::string path = ScratchFolder() + "/offload.sched";
  const std::string costs =
      "--cost F=10,I=10,W=8,R=9,host.bandwidth=200GB/s,memory.weights=1GB,memory.saved_for_I=1MB,"
      "memory.saved_for_W=2MB,memory.kept=1MB,p2p=4 --memory 1010MB";
  for (const char* const choice : {"--offload any", "--offload all", "--recompute any",
                                   "--recompute any --offload any --host-memory 6MB"}) {
    SCOPED_TRACE(choice);
    const Answer answer = Search(
        absl::StrCat("P=4 M=6 ", costs, " ", choice, " --iterations 400 --json --emit ", path));
    ASSERT_EQ(answer.status, 0) << answer.err;
    const auto found = nlohmann::json::parse(answer.out);
    const std::string there = absl::StrCat(path, " P=4 M=6 ", costs);
    const Answer check = RunToolIn(SourceFolder(), Words(absl::StrCat("check ", there, " --json")));
    ASSERT_EQ(check.status, 0) << check.out << check.err;
    const auto proof = nlohmann::json::parse(check.out);
    EXPECT_EQ(proof["bytes"], found["bytes"]);
    EXPECT_EQ(proof.value("host_bytes", nlohmann::json::array()), found["host_bytes"]);
    const std::string simulated =
        absl::StrCat("sim ", there.substr(0, there.find(" --memory")), " --json");
    const Answer sim = RunToolIn(SourceFolder(), Words(simulated));
    EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"], found["makespan_us"]);
    EXPECT_EQ(found["makespan_us"], found["value_us"]);
    EXPECT_EQ(RunToolIn(SourceFolder(), {"fmt", "--check", path}).status, 0);
  }
}

TEST(SearchTest, FindsWhichLayersStagesHold) {
  const std::string asked =
      "P=4 M=8 --costs examples/06_where_the_time_goes/llama.yaml --iterations 2000 --json ";
  const std::string path = ScratchFolder() + "/split.sched";
  const auto even = nlohmann::json::parse(Search(asked).out);
  EXPECT_EQ(even["layers"], nlohmann::json::array());
  for (const std::string place : {"line", "v", "any"}) {
    const Answer answer =
        Search(absl::StrCat(asked, "--split any --place ", place, " --emit ", path));
    ASSERT_EQ(answer.status, 0) << answer.err;
    const auto found = nlohmann::json::parse(answer.out);
    // The head is worth some layers of the last stage.
    EXPECT_LT(found["value_us"].get<double>(), 0.95 * even["value_us"].get<double>()) << place;
    EXPECT_LE(found["bound_us"], found["value_us"]);
    EXPECT_EQ(found["layers"].size(), found["stages"]);
    int sum = 0;
    for (const int layers : found["layers"]) sum += layers;
    EXPECT_EQ(sum, 32);
    const Answer sim = RunToolIn(SourceFolder(), {"sim", path, "P=4", "M=8", "--json", "--costs",
                                                  "examples/06_where_the_time_goes/llama.yaml"});
    ASSERT_EQ(sim.status, 0) << sim.err;
    EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"], found["makespan_us"]);
    EXPECT_EQ(RunToolIn(SourceFolder(), {"fmt", "--check", path}).status, 0);
  }
}

// Equal layers of a whole model: the best is an even partition, and this is proven.
// The time of the parts of these kinds on the compute lane, which no group can hide.
int64_t Computing(const PartCosts& parts, std::initializer_list<ActionKind> kinds) {
  int64_t sum = 0;
  for (int part = 0; part < kParts; ++part) {
    const PartRow& row = RowOfPart(part);
    if (row.lane == Lane::kNetwork || std::count(kinds.begin(), kinds.end(), row.of) == 0) continue;
    sum += parts.ns[part] * (row.once ? 1 : parts.layers);
  }
  return sum;
}

// Layers of one stage hide each other's communication in pairs and chunks, and stages of a single
// layer cannot: a bound for all splits counts no more than every split takes.
TEST(SearchTest, PiecesOfLayersAreInEverySplit) {
  constexpr ActionKind kF = ActionKind::kForward, kI = ActionKind::kInputGradient,
                       kW = ActionKind::kWeightGradient;
  const CostRequest by_hand = {
      .text =
          "F.attn=6ms,F.dispatch=5ms,F.experts=4ms,F.combine=5ms,B.attn=6ms,B.dispatch=5ms,"
          "B.experts=4ms,B.combine=5ms,W.attn=3ms,W.experts=3ms,layers=9",
      .work = "model"};
  const CostRequest by_formula = {
      .file = SourceFolder() + "/examples/06_where_the_time_goes/llama.yaml",
      .copies = {.mesh = "tensor=8"}};
  constexpr int kMicrobatches = 4;
  for (const auto& [costs, layers] : {std::pair(by_hand, 9), std::pair(by_formula, 32)}) {
    for (const auto& [pairs, chunks] : {std::pair(false, 1), {false, 2}, {true, 1}, {true, 2}}) {
      SCOPED_TRACE(absl::StrCat(layers, " layers, pairs ", pairs, ", chunks ", chunks));
      SearchRequest request = {.costs = costs, .limits = {.pairs = pairs}, .layers = layers};
      Plan stages = (*StagesOf("v", /*p=*/2, kMicrobatches))[0].stages;
      stages.chunks = chunks;
      const StepCosts of_model = *FindCosts(costs);
      const auto split = FreeSplit(request, of_model, stages);
      ASSERT_TRUE(split.ok()) << split.status();
      ASSERT_EQ(split->pieces.size(), static_cast<size_t>(layers) + 2);
      const int64_t pieces =
          std::accumulate(split->pieces.begin(), split->pieces.end(), int64_t{0});
      EXPECT_GT(pieces, 0);
      for (int first = 1; first + 3 <= layers; ++first) {
        const int left = layers - first - 2;
        const std::vector<int> partition = {first, left / 2 + 1, 1, left - left / 2};
        const search::Problem problem = split->problem_of(partition);
        const CostModel priced = *ResolveCosts(of_model, WithPartition(stages, partition));
        int64_t work = 0, computing = 0;
        for (size_t a = 0; a < 4; ++a) {
          const search::StageWork& stage = problem.stages[a];
          const int64_t back =
              std::min(stage.time[search::kWholeAt],
                       stage.time[search::kInputAt] + stage.time[search::kWeightAt]);
          work += kMicrobatches * (stage.time[search::kForwardAt] + back);
          computing += kMicrobatches * Computing(priced.parts[a], {kF, kI, kW});
          for (size_t b = 0; b < 4 && pairs; ++b) {
            if (stage.rank != problem.stages[b].rank) continue;
            EXPECT_GE(problem.whole_pairs[a * 4 + b] + 1,  // rounded
                      Computing(priced.parts[a], {kF}) + Computing(priced.parts[b], {kI, kW}));
          }
        }
        EXPECT_GE(pairs ? computing : work, pieces) << first << " layers in the first stage";
      }
    }
  }
}

TEST(SearchTest, LayersOfAModelWithoutAShape) {
  const Answer answer = Search(
      "P=4 M=9 --split any --layers 8 --work model --cost F=8,B=16 --kinds F,B --iterations 2000");
  EXPECT_EQ(answer.status, 0) << answer.err;
  const std::vector<std::string> lines = Lines(answer.out);
  ASSERT_GT(lines.size(), 3u);
  EXPECT_EQ(lines[0], "makespan 72 us, the best possible: no order is shorter");
  EXPECT_EQ(lines[3], "stages hold 2, 2, 2, 2 layers");
}

TEST(SearchTest, SaysWhichPlaceWon) {
  const std::string asked = "P=4 M=8 --work model --cost F=24,I=24,W=24,p2p=1 --iterations 2000";
  const auto json = [&](const std::string& place) {
    return nlohmann::json::parse(Search(asked + place + " --json").out);
  };
  const auto any = json(" --place any");
  EXPECT_EQ(any["places"], (std::vector<std::string>{"line", "v", "loop 2", "wave 4", "loop 3"}));
  const std::string won = any["place"];
  // A search of the winning place alone has as many stages.
  std::vector<std::string> words = SearchWords(asked + " --place");
  words.push_back(won);
  words.push_back("--json");
  const auto alone = nlohmann::json::parse(RunToolIn(SourceFolder(), words).out);
  EXPECT_EQ(alone["stages"], any["stages"]);
  EXPECT_EQ(alone["place"], won);
  EXPECT_EQ(alone["places"], std::vector<std::string>{won});
  const Answer said = Search(asked + " --place any");
  EXPECT_NE(
      said.out.find("stages live on " + won + ", the best of line, v, loop 2, wave 4, loop 3"),
      std::string::npos)
      << said.out;
  EXPECT_EQ(Search(asked).out.find("stages live on"), std::string::npos);
  EXPECT_TRUE(json(" --from zb_v")["place"].is_null());
}

TEST(SearchTest, PartsOfAModelSayItsLayers) {
  const std::string search = "P=2 M=2 --split any --work model --iterations 50 --cost ";
  const std::string parts = "F.attn=6ms,B.attn=5ms,W.attn=3ms";
  EXPECT_EQ(Search(search + parts + " --layers 5").err,
            "stringline: costs of parts are those of a layer: give the model's layers in the "
            "costs, too (layers=32)\n");
  EXPECT_EQ(Search(search + parts + ",layers=5 --layers 4").err,
            "stringline: --layers 4: the costs say 5\n");
  const Answer answer = Search(search + parts + ",layers=5 --json");
  ASSERT_EQ(answer.status, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["layers"][0].get<int>() + json["layers"][1].get<int>(), 5);
  EXPECT_LE(json["bound_us"], json["value_us"]);
}

TEST(SearchTest, BeginsWithNoOtherGroupsThanItKnows) {
  const Answer answer = Search("P=2 M=2 --from tests/golden/check/unmatched_overlaps.sched");
  EXPECT_EQ(answer.status, 2);
  EXPECT_EQ(answer.err,
            "stringline: tests/golden/check/unmatched_overlaps.sched: 0F0&0F1 is no pair of an F "
            "and a B or I; a search knows no other groups, as F & F or B & B\n");
}

// Merges of I and W make words shorter than the paths on which moves are drawn.
TEST(SearchTest, OutlivesWordsThatBecomeShorter) {
  const Answer answer = Search(
      "P=2 M=4 --kinds F,B,I,W --memory 832B,832B --iterations 20000 --cost "
      "F=[2,4],B=[12,10],I=[5,4],W=[7,6],message=64,bandwidth=64MB/s,"
      "memory.saved_for_I=[64,192],memory.saved_for_W=[320,256],memory.stash=[192,0]");
  EXPECT_EQ(answer.status, 0) << answer.err;
}

// A list of ranks is the placement that it spells, and what is written keeps it.
TEST(SearchTest, TakesTheRankOfEachStage) {
  const std::string rest = " M=8 --cost F=1,I=1,W=1 --iterations 4000";
  EXPECT_EQ(Search("P=2 --place [0,1,1,0]" + rest).out, Search("P=2 --place v" + rest).out);
  std::vector<std::string> loop = SearchWords("P=3 --place" + rest);
  loop.insert(std::find(loop.begin(), loop.end(), "--place") + 1, "loop 2");
  EXPECT_EQ(Search("P=3 --place [0,1,2,0,1,2]" + rest).out, RunToolIn(SourceFolder(), loop).out);
  const std::string path = ScratchFolder() + "/listed.sched";
  const Answer found = Search("P=3 --place [0,1,2,1,0,2,2]" + rest + " --emit " + path);
  ASSERT_EQ(found.status, 0) << found.err;
  const Answer plan = RunToolIn(SourceFolder(), Words("plan " + path + " P=3 M=8"));
  EXPECT_NE(plan.out.find("\nstages 0 1 2 1 0 2 2\n"), std::string::npos) << plan.out << plan.err;
}

TEST(SearchTest, SaysWhatCannotBe) {
  const std::string cases[][2] = {
      {"P=4", "search needs M, as in: stringline search P=8 M=32"},
      {"P=0 M=4", "P=0 cannot be: it is in 1 .. 1000000000"},
      {"P=4 M=8 V=2", "'V' is a parameter of a schedule: name it with --from"},
      {"P=4 M=8 --place ring",
       "--place ring: a placement is line, v, loop N or wave N (N stages a rank), any, or the rank "
       "of each stage, as [0,1,1,0]"},
      {"P=2 M=8 --place [0,2,1]",
       "--place [0,2,1]: a list names the rank of each stage, 0 to 1 for P=2, as [0,1,1,0] for "
       "P=2"},
      {"P=2 M=8 --place [0,1,1,0",
       "--place [0,1,1,0: a list names the rank of each stage, 0 to 1 for P=2, as [0,1,1,0] for "
       "P=2"},
      {"P=3 M=8 --place [0,2,2,0]", "--place [0,2,2,0]: no stage lives on rank 1 of P=3"},
      {"P=4 M=8 --from mario",
       "mario: 0R0: a search begins with an order of F, B, I and W; leave out R, D and U, which "
       "--recompute any and --offload any place anew"},
      {"P=4 M=8 --from 1f1b_offload --cost F=1,I=1,W=1,D=1,U=1",
       "1f1b_offload: 0D0: a search begins with an order of F, B, I and W; leave out R, D and U, "
       "which --recompute any and --offload any place anew"},
      {"P=4 M=8 --place any",
       "--place any compares models cut into more and fewer stages: give costs of the whole model "
       "(--work model), or a model's shape (--costs FILE.yaml)"},
      {"P=4 M=8 --split any",
       "--split any shares out a model's layers: give costs of the whole model (--work model), or "
       "a model's shape (--costs FILE.yaml)"},
      {"P=4 M=8 --split any --work model",
       "--split any shares out a model's layers: say how many it has (--layers N)"},
      {"P=4 M=8 --split any --work model --layers 3",
       "there are 3 layers for 4 stages; a stage has one at least"},
      {"P=4 M=8 --split any --layers 8 --costs examples/06_where_the_time_goes/llama.yaml",
       "--layers 8: the model's shape says 32"},
      {"P=4 M=8 --layers 8", "--layers says how many layers --split any shares out"},
      {"P=4 M=8 --place v --activations 1",
       "no order exists within that memory: rank 0 must hold 2 activations for one microbatch"},
      {"P=4 M=8 --activations 4 --memory 1GB", "--memory and --activations: give one of them"},
      {"P=4 M=8 --cost F=1,I=1,W=1,memory.saved_for_W=1 --memory 1GB,2GB",
       "--memory: 2 limits for 4 ranks"},
      {"P=4 M=8 --cost F=1,I=1,W=1,memory.saved_for_W=1 --memory 4:1GB",
       "--memory: there is no rank 4; the plan has 4"},
      {"P=4 M=8 --memory 1GB,3:2GB",
       "--memory 1GB,3:2GB: give one limit for all ranks, as 80GiB, one for each from rank 0 on, "
       "as "
       "80GiB,40GiB, or those of some, as 0:80GiB,3:40GiB"},
      {"P=4 M=8 --memory 1GB",
       "a limit of bytes needs costs that say what stages hold (memory.saved_for_W …, or a model)"},
  };
  for (const auto& [asked, message] : cases) {
    const Answer answer = Search(asked);
    EXPECT_EQ(answer.status, 2) << asked;
    EXPECT_EQ(answer.err, "stringline: " + message + "\n") << asked;
  }
}

}  // namespace
}  // namespace stringline
