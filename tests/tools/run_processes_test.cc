// `stringline run --processes N`: ranks in processes of this host, which train as one process does.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

Answer RunProcesses(const std::string& folder, const std::string& options) {
  ToolProcess process(folder, Words(absl::StrCat("run run.yaml ", options)));
  return process.Wait();
}

TEST(RunProcesses, TrainAsOneDoesBitForBit) {
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  const Answer one = RunProcesses(folder, "--out one --save saved_one");
  ASSERT_EQ(one.status, 0) << one.err;
  const Answer two = RunProcesses(folder, "--out two --save saved_two --processes 2");
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(ReadText(folder + "/two/losses.csv"), ReadText(folder + "/one/losses.csv"));
  const std::string saved = ReadText(folder + "/saved_one/model.safetensors");
  EXPECT_FALSE(saved.empty());
  EXPECT_TRUE(ReadText(folder + "/saved_two/model.safetensors") == saved);
  // What is printed is what one prints, but for times.
  EXPECT_EQ(two.out.substr(0, two.out.find("step ")), one.out.substr(0, one.out.find("step ")));
  EXPECT_EQ(two.err, "");
}

TEST(RunProcesses, CopiesThatShareOutTheirStateTrainAsWholeOnesDo) {
  std::string losses, saved;
  for (const char* const sharding : {"none", "optimizer", "gradients", "parameters"}) {
    SCOPED_TRACE(sharding);
    const std::string folder = PrepareRun(
        "train:", absl::StrCat("device: cpu\nmesh: {data: 2}\nbucket: 4KiB\nsharding: ", sharding,
                               "\ntrain:"));
    const Answer run = RunProcesses(
        folder, absl::StrCat("--out made --save saved", losses.empty() ? "" : " --processes 4"));
    ASSERT_EQ(run.status, 0) << run.err;
    if (losses.empty()) {
      losses = ReadText(folder + "/made/losses.csv");
      saved = ReadText(folder + "/saved/model.safetensors");
      ASSERT_FALSE(losses.empty() || saved.empty());
    }
    EXPECT_EQ(ReadText(folder + "/made/losses.csv"), losses);
    EXPECT_TRUE(ReadText(folder + "/saved/model.safetensors") == saved);
  }
}

TEST(RunProcesses, WhatOneSaysIsSaidOnce) {
  const std::string folder = PrepareRun();
  const Answer many = RunProcesses(folder, "--out made --processes 3");
  EXPECT_EQ(many.status, 2);
  EXPECT_EQ(
      many.err,
      "stringline: the command line says that there are 3 processes, but the run has 2 ranks\n");
  const Answer no_text = RunProcesses(folder, "--text nothing.txt --processes 2");
  EXPECT_EQ(no_text.status, 2);
  EXPECT_EQ(no_text.err, "stringline: nothing.txt: no such file\n");
}

TEST(RunProcesses, ASignalEndsThemAllAfterAStep) {
  const std::string folder = PrepareRun("steps: 6", "steps: 1000000");
  std::filesystem::remove_all(folder + "/made");
  ToolProcess process(folder, Words("run run.yaml --out made --processes 2"));
  const std::string losses = folder + "/made/losses.csv.part";
  ASSERT_TRUE(process.WaitUntil(
      [&] { return std::filesystem::exists(losses) && ReadText(losses).size() > 100; }));
  process.Signal(SIGTERM);
  const Answer answer = process.Wait();
  EXPECT_EQ(answer.status, 128 + SIGTERM) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.out, "stopped by SIGTERM after step ")) << answer.out;
}

}  // namespace
}  // namespace stringline
