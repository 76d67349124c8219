// `stringline tune` as people use it: what it writes is held against `sim` and `check`, and what
// is wrong is told in one line.
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel =
    "model: {kind: llama, layers: 6, width: 512, hidden: 1536, heads: 8, kv_heads: 4, "
    "vocabulary: 8000, context: 512}\nprecision: bf16\n";
constexpr const char* kCluster = "hardware: h100\ngpus: 8\nnode: {ranks: 4}\n";

// The answer for these files, with further words.
Answer Tuned(const std::string& model, const std::string& cluster, const std::string& words) {
  const std::string folder = ScratchFolder();
  WriteText(folder + "/model.yaml", model);
  WriteText(folder + "/cluster.yaml", cluster);
  return RunToolIn(folder, Words("tune model.yaml cluster.yaml " + words));
}

TEST(TuneToolTest, EmittedFilesSimulateToTheSameStep) {
  const std::string folder = ScratchFolder();
  int count = 0, found = 0;
  for (const char* const pins :
       {"schedule=1f1b", "schedule=interleaved,split=light-ends", "schedule=zb_v,recompute=full",
        "schedule=chimera", "schedule=hanayo", "schedule=llama3,sharding=parameters",
        "schedule=dualpipe_v,tp=2", "tp=2", "microbatch=1",
        "schedule=1f1b,tp=2,cp=1 --slow 5=20% --slow 1-5=300% --slow 2-7=300%"}) {
    SCOPED_TRACE(pins);
    const std::string out = absl::StrCat(folder, "/emitted", count++);
    const Answer answer = Tuned(kModel, kCluster,
                                absl::StrCat("--global-batch 16 --evaluations 60 --pin pp=2 --pin ",
                                             pins, " --json --emit ", out));
    ASSERT_EQ(answer.status, 0) << answer.err << answer.out;
    const nlohmann::json best = nlohmann::json::parse(answer.out)["choices"][0];
    if (best["schedule"] == "found") {
      EXPECT_FALSE(absl::StrContains(pins, "schedule=")) << best;
      ++found;
    }
    const std::string schedule = absl::StrCat("schedule.sched P=", best["pp"].get<int>(),
                                              " M=", best["microbatches"].get<int>());
    // The command that the file itself tells.
    const std::string second = Lines(ReadText(out + "/costs.yaml"))[1];
    ASSERT_TRUE(absl::StartsWith(second, "# stringline ")) << second;
    const std::string command = second.substr(std::string("# stringline ").size());
    EXPECT_EQ(absl::StrContains(command, " --slow 1=20% --slow 0-1=300%"),
              absl::StrContains(pins, "slow"))
        << command;
    const Answer simulated = RunToolIn(out, Words(command + " --json"));
    ASSERT_EQ(simulated.status, 0) << simulated.err << simulated.out;
    const double makespan_us = nlohmann::json::parse(simulated.out)["makespan_us"];
    EXPECT_NEAR(makespan_us + best["parts_us"]["update"].get<double>(),
                best["step_us"].get<double>(), 0.002);
    const Answer checked =
        RunToolIn(out, Words(absl::StrCat("check ", schedule, " --costs costs.yaml --json")));
    ASSERT_EQ(checked.status, 0) << checked.err << checked.out;
    int64_t most = 0;
    const nlohmann::json said = nlohmann::json::parse(checked.out);
    for (const nlohmann::json& bytes : said["bytes"]) {
      most = std::max(most, bytes.get<int64_t>());
    }
    EXPECT_EQ(most, best["memory"].get<int64_t>());
  }
  EXPECT_GT(found, 0) << "no order of the optimiser's was written";
}

TEST(TuneToolTest, FlagsOfOtherFrameworksMeanTheSame) {
  const std::string out = ScratchFolder() + "/flags";
  const Answer answer =
      Tuned(kModel, kCluster,
            "--global-batch 16 --pin "
            "tp=2,cp=1,pp=2,vp=3,schedule=interleaved,microbatch=1,sharding=optimizer,"
            "recompute=full,split=even --emit " +
                out);
  ASSERT_EQ(answer.status, 0) << answer.err;
  const std::string megatron = ReadText(out + "/megatron.txt");
  for (const char* const line :
       {"--tensor-model-parallel-size 2\n", "--sequence-parallel\n",
        "--pipeline-model-parallel-size 2\n", "--num-layers-per-virtual-pipeline-stage 1\n",
        "--micro-batch-size 1\n", "--global-batch-size 16\n", "--use-distributed-optimizer\n",
        "--recompute-granularity full\n", "--recompute-num-layers 1\n", "--bf16\n"}) {
    EXPECT_TRUE(absl::StrContains(megatron, line)) << line << megatron;
  }
  const std::string titan = ReadText(out + "/torchtitan.toml");
  for (const char* const line :
       {"tensor_parallel_degree = 2\n", "pipeline_parallel_degree = 2\n",
        "pipeline_parallel_schedule = \"Interleaved1F1B\"\n", "mode = \"full\"\n",
        "does not share out the optimizer's state alone"}) {
    EXPECT_TRUE(absl::StrContains(titan, line)) << line << titan;
  }
  EXPECT_TRUE(absl::StrContains(ReadText(out + "/run.yaml"), "cannot run this choice"));
}

TEST(TuneToolTest, RunFileOfAChoiceIsRead) {
  const std::string out = ScratchFolder() + "/runs";
  const Answer answer = Tuned(kModel, kCluster,
                              "--global-batch 16 --pin tp=1,cp=1,pp=2,schedule=1f1b,recompute=none "
                              "--evaluations 20 --emit " +
                                  out);
  ASSERT_EQ(answer.status, 0) << answer.err;
  const Answer program = RunToolIn(out, Words("program run.yaml --stage 0"));
  EXPECT_EQ(program.status, 0) << program.err;
}

TEST(TuneToolTest, WritesAllFilesOrNone) {
  const std::string folder = ScratchFolder();
  fs::create_directories(folder + "/there");
  WriteText(folder + "/there/file", "x");
  const Answer refused =
      Tuned(kModel, kCluster,
            absl::StrCat("--global-batch 16 --evaluations 10 --emit ", folder, "/there"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(absl::StrContains(refused.err, "is there already; name a new folder")) << refused.err;
  const Answer blocked = Tuned(
      kModel, kCluster,
      absl::StrCat("--global-batch 16 --evaluations 10 --emit ", folder, "/there/file/below"));
  EXPECT_EQ(blocked.status, 2) << blocked.out;
  size_t entries = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    entries += 1;
    EXPECT_FALSE(absl::StrContains(entry.path().string(), ".tmp")) << entry.path();
  }
  EXPECT_EQ(entries, 4u);  // model.yaml, cluster.yaml, there, there/file
}

TEST(TuneToolTest, DrawsThroughputOverMemory) {
  const std::string folder = ScratchFolder();
  const Answer answer = Tuned(kModel, kCluster,
                              absl::StrCat("--global-batch 16 --evaluations 40 --svg ", folder,
                                           "/a.svg --html ", folder, "/a.html"));
  ASSERT_EQ(answer.status, 0) << answer.err;
  const std::string svg = ReadText(folder + "/a.svg");
  EXPECT_TRUE(absl::StartsWith(svg, "<svg"));
  EXPECT_TRUE(absl::StrContains(svg, "tokens/s/GPU"));
  EXPECT_TRUE(absl::StrContains(ReadText(folder + "/a.html"), svg));
}

TEST(TuneToolTest, SaysWhatIsWrong) {
  const std::string fits = "--global-batch 16 --evaluations 5 ";
  const struct {
    std::string model, cluster, words, says;
  } cases[] = {
      {kModel, "hardware: h10\ngpus: 8\n", fits,
       "cluster.yaml:1: hardware: 'h10' is not known; did you mean 'h100'? (there are a100, b200, "
       "b300, gb200, gb300, h100, h200, h800, mi300x); else give the path of a file: a hardware "
       "file has flops"},
      {kModel, "hardware: ./none.yaml\ngpus: 8\n", fits, "cluster.yaml:1: hardware: "},
      {kModel, "gpus: 8\n", fits, "cluster.yaml: 'hardware' is missing"},
      {kModel, "hardware: h100\ngpus: none\n", fits, "cluster.yaml:2: gpus: expected a number"},
      {kModel, "hardware: h100\ngpus: 8\nmemroy: 80GB\n", fits, "memroy"},
      {absl::StrCat(kModel, "mesh: {tensor: 2}\n"), kCluster, fits,
       "model.yaml: mesh: the planner chooses it; fix it with --pin"},
      {absl::StrCat(kModel, "hardware: h100\n"), kCluster, fits,
       "model.yaml:3: hardware: is said by cluster.yaml; leave it out here"},
      {absl::StrCat(kModel, "F: 1ms\n"), kCluster, fits, "model.yaml: F: is a measured cost"},
      {"precision: bf16\n", kCluster, fits, "model.yaml: 'model' is missing"},
      {kModel, kCluster, fits + "--pin tp=3", "--pin: no mesh of 8 GPUs is so"},
      {kModel, kCluster, fits + "--pin xp=3", "--pin: there is no 'xp' to fix; there are tp, cp"},
      {kModel, kCluster, fits + "--pin schedule=zbv", "did you mean 'zb_v'?"},
      {kModel, kCluster, fits + "--pin schedule=pipedream", "pipedream is not planned with: it "},
      {kModel, kCluster, "--global-batch 3 --pin dp=2,pp=4", "--global-batch: none of "},
      {kModel, kCluster, fits + "--slow 8=10%", "--slow: there is no GPU 8; the cluster has 8"},
      {kModel, kCluster, fits + "--slow 1-8=10%", "--slow: there is no GPU 8; the cluster has 8"},
      {kModel, std::string(kCluster) + "reserve: 2\n", fits, "reserve: expected a share"},
      {kModel, kCluster, fits + "--pin recompute=some",
       "--pin: recompute is none or selective or part or full or offload, not 'some'"},
      {kModel, kCluster, fits + "--jitter much", "jitter"},
      {kModel, "hardware: h100\ngpus: 8\nmemory: 10MB\n", fits, "no choice fits: the nearest, tp="},
  };
  for (const auto& wrong : cases) {
    SCOPED_TRACE(wrong.says);
    const Answer answer = Tuned(wrong.model, wrong.cluster, wrong.words);
    EXPECT_EQ(answer.status, 2) << answer.out;
    EXPECT_TRUE(absl::StrContains(answer.err, wrong.says)) << answer.err;
    EXPECT_EQ(Lines(answer.err).size(), 1u) << answer.err;
  }
}

}  // namespace
}  // namespace stringline
