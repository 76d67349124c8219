// Processes of a run that heals are killed at random moments: the losses and the parameters are
// those of a run on the full mesh whose checkpoint of that step is resumed on the smaller mesh.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "executor/processes/heal_decision.h"
#include "executor/processes/sockets.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;
using Held = std::vector<std::optional<std::vector<HeldVersion>>>;

constexpr int kSteps = 120;

std::vector<std::string> NamesOf(size_t count) {
  std::vector<std::string> names;
  for (size_t p = 0; p < count; ++p) names.push_back(absl::StrCat("process ", p));
  return names;
}

HealDecision Decide(int data, const Held& held, const std::vector<bool>& ended,
                    bool stood_still = false) {
  return DecideHealing({.data = data,
                        .held = held,
                        .ended = ended,
                        .names = NamesOf(held.size()),
                        .stood_still = stood_still});
}

// The versions of process p where each copy of the pipeline has all of the state.
std::vector<HeldVersion> Versions(int p, int of_copy, const std::vector<int64_t>& steps) {
  std::vector<HeldVersion> versions;
  for (const int64_t step : steps) versions.push_back({0, step, of_copy, {p % of_copy}});
  return versions;
}

// Every subset of processes that died, with every choice of the one or two newest steps.
TEST(Healing, TheDecisionIsTheMostCopiesThatAreWhole) {
  std::mt19937 random(1);
  for (const auto& [data, processes] : {std::pair{4, 8}, {4, 4}, {4, 2}, {2, 6}, {6, 6}, {6, 3}}) {
    const int of_copy = std::max(1, processes / data), copies = std::max(1, data / processes);
    for (int lives = 1; lives < 1 << processes; ++lives) {
      SCOPED_TRACE(absl::StrCat(data, " ", processes, " ", lives));
      Held held(processes);
      std::vector<bool> died(processes);
      for (int p = 0; p < processes; ++p) {
        const int64_t newest = 7 + static_cast<int64_t>(random() % 2);
        died[p] = (lives >> p & 1) == 0;
        if (!died[p]) held[p] = Versions(p, of_copy, {newest, newest - 1});
      }
      const HealDecision decision = Decide(data, held, died);
      // Independently: the copies whose processes all live, cut to a divisor.
      std::vector<int> whole;
      for (int first = 0; first < processes; first += of_copy) {
        bool all = true;
        for (int p = first; p < first + of_copy; ++p) all = all && !died[p];
        if (all) whole.push_back(first);
      }
      int most = 0;
      for (int n = 1; n <= static_cast<int>(whole.size()); ++n) {
        if (data % (n * copies) == 0) most = n;
      }
      EXPECT_EQ(decision.data, most * copies);
      std::vector<int> members;
      // The newest step that some process has at each place of the pipeline, as those that go on
      // have the one before in any case.
      int64_t step = 100;
      for (int place = 0; place < of_copy; ++place) {
        int64_t newest = 0;
        for (int p = place; p < processes; p += of_copy) {
          if (held[p].has_value()) newest = std::max(newest, held[p]->front().step);
        }
        step = std::min(step, newest);
      }
      for (int i = 0; i < most; ++i) {
        for (int p = whole[i]; p < whole[i] + of_copy; ++p) members.push_back(p);
      }
      if (step == 8 && most > 0) {
        const auto has = [&](int p) { return held[p]->front().step == 8; };
        if (std::none_of(members.begin(), members.end(), has)) step = 7;
      }
      EXPECT_EQ(decision.members, members);
      EXPECT_EQ(decision.age.second, most > 0 ? step : 0);
    }
  }
}

// A process that may live elsewhere could decide the opposite: at most one side goes on.
TEST(Healing, OfTwoSidesThatDoNotReachEachOtherOneGoesOn) {
  constexpr int kProcesses = 6;
  for (int side = 0; side < 1 << kProcesses; ++side) {
    int sides = 0;
    for (const int here : {0, 1}) {
      Held held(kProcesses);
      for (int p = 0; p < kProcesses; ++p) {
        if ((side >> p & 1) == here) held[p] = Versions(p, 1, {3});
      }
      sides += Decide(kProcesses, held, std::vector<bool>(kProcesses)).members.empty() ? 0 : 1;
    }
    EXPECT_EQ(sides, 1) << side;
  }
}

TEST(Healing, StatesOfDifferentStepsDoNotHeal) {
  const HealDecision decision =
      Decide(2, {Versions(0, 2, {5, 4}), Versions(1, 2, {3, 2}), std::nullopt, std::nullopt},
             {false, false, true, true});
  EXPECT_TRUE(decision.members.empty());
  EXPECT_TRUE(absl::StrContains(decision.told, "before the others held the state of the same step"))
      << decision.told;
}

// Each copy has a share of its own, and that of the copy before it: for every set of lost copies
// the state is whole exactly where of two neighbours one is left.
TEST(Healing, SharesAreWholeWhereNoCopyIsLostWithItsKeeper) {
  constexpr int kCopies = 6, kOfCopy = 2, kProcesses = kCopies * kOfCopy;
  for (int lives = 1; lives < 1 << kCopies; ++lives) {
    SCOPED_TRACE(lives);
    const auto alive = [lives](int copy) { return (lives >> (copy % kCopies) & 1) == 1; };
    Held held(kProcesses);
    std::vector<bool> ended(kProcesses);
    bool whole = true;
    for (int c = 0; c < kCopies; ++c) whole = whole && (alive(c) || alive(c + 1));
    for (int p = 0; p < kProcesses; ++p) {
      ended[p] = !alive(p / kOfCopy);
      const int kept = (p + kProcesses - kOfCopy) % kProcesses;
      if (!ended[p]) {
        held[p] =
            std::vector<HeldVersion>{{0, 9, kProcesses, {std::min(p, kept), std::max(p, kept)}}};
      }
    }
    const HealDecision decision = Decide(kCopies, held, ended);
    EXPECT_EQ(!decision.members.empty(), whole) << decision.told;
    if (!whole) {
      EXPECT_TRUE(absl::StrContains(decision.told, "so the state is lost with both"))
          << decision.told;
      EXPECT_TRUE(absl::StrContains(decision.told, "--restarts with checkpoints would help"));
      continue;
    }
    // The processes that go on have all shares once the others have given them theirs.
    std::set<int> shares;
    for (const int p : decision.members)
      shares.insert(held[p]->front().holds.begin(), held[p]->front().holds.end());
    for (const auto& [from, to] : decision.gifts) {
      EXPECT_TRUE(held[from].has_value());
      EXPECT_TRUE(std::binary_search(decision.members.begin(), decision.members.end(), to));
      EXPECT_FALSE(std::binary_search(decision.members.begin(), decision.members.end(), from));
      shares.insert(held[from]->front().holds.begin(), held[from]->front().holds.end());
    }
    EXPECT_EQ(shares.size(), static_cast<size_t>(kProcesses));
  }
}

// A process that stood still while the others ended goes on only with most of them.
TEST(Healing, AProcessThatStoodStillDoesNotGoOnAlone) {
  const auto decide = [](const std::vector<int>& here, bool stood_still) {
    Held held(4);
    std::vector<bool> ended(4, true);
    for (const int p : here) held[p] = Versions(p, 1, {3});
    for (const int p : here) ended[p] = false;
    return Decide(4, held, ended, stood_still);
  };
  EXPECT_EQ(decide({3}, false).members, (std::vector<int>{3}));
  const HealDecision alone = decide({3}, true);
  EXPECT_TRUE(alone.members.empty());
  EXPECT_TRUE(absl::StrContains(
      alone.told,
      "this process stood still for longer than 'timeout': the others may have gone on "
      "without it, and ended, and 1 of 4 processes are too few to go on alone"))
      << alone.told;
  EXPECT_TRUE(decide({2, 3}, true).members.empty());
  EXPECT_EQ(decide({0, 3}, true).members, (std::vector<int>{0, 3}));
  EXPECT_EQ(decide({1, 2, 3}, true).members, (std::vector<int>{1, 2}));
}

// A healing of a run: "copies 0, 2 of 4 go on from step 53".
struct Healed {
  int64_t step = 0;
  int data = 0;
};

class HealedRun : public testing::Test {
 protected:
  // A run of `data` copies of two stages; `more` are lines of the run file.
  void Prepare(int data, int steps, const std::string& more) {
    folder_ = PrepareRun("train: {steps: 6,",
                         absl::StrCat("device: cpu\nmesh: {data: ", data, "}\n", more,
                                      "train: {log_every: 1000000, steps: ", steps, ","));
    data_ = data;
  }

  // Losses and parameters of a run that was resumed on fewer copies after these steps, over
  // checkpoints, each part by a single process.
  std::string Resumed(const std::vector<Healed>& healed) {
    std::string key = "0";
    std::string from = Part(key, "");
    for (size_t i = 0; i < healed.size(); ++i) {
      // Changed again before its first step.
      if (i + 1 < healed.size() && healed[i + 1].step == healed[i].step) continue;
      const std::string resume = absl::StrFormat(" --resume %s/ckpt/step-%06d --mesh-data %d", from,
                                                 healed[i].step, healed[i].data);
      absl::StrAppend(&key, "_", healed[i].step, "x", healed[i].data);
      from =
          Part(key, healed[i].step == 0 ? absl::StrCat(" --mesh-data ", healed[i].data) : resume);
    }
    return from;
  }

  // Kills processes of a run, at most `kills` at different times, and compares it. Where processes
  // come back, the next kill waits until all have.
  void KillAndCompare(int processes, int kills, std::mt19937* random, std::string* row) {
    fs::remove_all(folder_ + "/made");
    fs::remove_all(folder_ + "/kept");
    fs::remove_all(folder_ + "/ckpt");
    ToolProcess run(folder_,
                    Words(absl::StrCat("run run.yaml --out made --save kept --link ",
                                       returns_ ? "3ms" : "500us", " --processes ", processes)));
    std::vector<std::string> killed;
    int64_t rows = 0;
    for (int k = 0; k < kills; ++k) {
      rows += 1 + static_cast<int64_t>((*random)() % (kSteps * (returns_ ? 3 : 8) / 10 / kills));
      ASSERT_TRUE(
          run.WaitUntil([&] { return Rows() > rows && (!returns_ || k == 0 || Back() > 0); }));
      std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 5000));
      const std::vector<pid_t> children = ChildrenOf(run.id());
      if (children.empty()) break;
      const size_t which = (*random)() % children.size();
      killed.push_back(absl::StrCat("child ", which, " of ", children.size(), " after ", rows));
      if (::kill(children[which], SIGKILL) != 0) break;
    }
    const Answer answer = run.Wait();
    const std::string what =
        absl::StrCat(absl::StrJoin(killed, ", "), "\n", answer.out, answer.err);
    ASSERT_EQ(answer.status, 0) << what;
    const std::vector<Healed> healed = ReadHealed(answer.out);
    for (const Healed& one : healed) returned_ += one.data == data_ ? 1 : 0;
    *row = "it had ended before the kill";
    if (healed.empty() && answer.status == 0) return;
    const std::string expected = Resumed(healed);
    EXPECT_EQ(ReadText(folder_ + "/made/losses.csv"),
              ReadText(absl::StrCat(folder_, "/", expected, "/losses.csv")))
        << what;
    EXPECT_TRUE(ReadText(folder_ + "/kept/model.safetensors") ==
                ReadText(absl::StrCat(folder_, "/", expected, "/kept/model.safetensors")))
        << what;
    EXPECT_GT(FlightRecords(), 0) << "records of the loss stay\n" << what;
    *row = absl::StrJoin(killed, ", ");
    for (const Healed& one : healed) {
      absl::StrAppend(row, "; from step ", one.step, " on mesh.data ", one.data);
    }
  }

  static std::vector<Healed> ReadHealed(const std::string& out) {
    std::vector<Healed> healed;
    const std::regex line("cop(?:y|ies) ([0-9, ]+) of [0-9]+ go(?:es)? on from step ([0-9]+)");
    for (std::sregex_iterator at(out.begin(), out.end(), line), end; at != end; ++at) {
      const std::string copies = (*at)[1];
      Healed healing;
      EXPECT_TRUE(absl::SimpleAtoi((*at)[2].str(), &healing.step));
      healing.data = 1 + static_cast<int>(std::count(copies.begin(), copies.end(), ','));
      healed.push_back(healing);
    }
    return healed;
  }

  // The times that the run under way is whole again, so far; none unless it is so now.
  int Back() const {
    const std::vector<Healed> healed = ReadHealed(ReadText(folder_ + "/said.out"));
    return !healed.empty() && healed.back().data == data_ ? static_cast<int>(healed.size()) : 0;
  }

  // Kills `count` times in all and prints a table.
  void KillMany(int data, int processes, int count, const std::string& more = "") {
    const auto seed = static_cast<uint32_t>(std::random_device()());
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    Prepare(data, kSteps,
            absl::StrCat(more, "heal: {every: 1", returns_ ? ", return: true" : "",
                         "}\ncheckpoint: {every: 7, folder: ckpt, keep: 2}\n"));
    if (!model_.empty()) {
      const std::string text = ReadText(folder_ + "/run.yaml");
      WriteText(folder_ + "/run.yaml", std::regex_replace(text, std::regex("model:.*"), model_));
    }
    for (int done = 0; done < count;) {
      const int kills = data == 4 && count - done > 1 ? 1 + static_cast<int>(random() % 2) : 1;
      std::string row;
      ASSERT_NO_FATAL_FAILURE(KillAndCompare(processes, kills, &random, &row)) << "seed " << seed;
      std::cout << data << " copies x 2 stages, " << processes << " processes: " << row << "\n";
      done += kills;
    }
  }

  int FlightRecords() const {
    int records = 0;
    for (const auto& file : fs::directory_iterator(folder_ + "/made")) {
      const std::string name = file.path().filename().string();
      records += absl::StartsWith(name, "flight-") && absl::EndsWith(name, ".timeline") ? 1 : 0;
    }
    return records;
  }

  int64_t Rows() const {
    FILE* const file = fopen((folder_ + "/made/losses.csv.part").c_str(), "r");
    if (file == nullptr) return 0;
    int64_t rows = -1;
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) rows += c == '\n' ? 1 : 0;
    (void)fclose(file);
    return rows;
  }

  std::string folder_;
  int data_ = 0;
  std::string model_;     // the line of the run file; "": PrepareRun's
  bool returns_ = false;  // lost processes come back
  int returned_ = 0;      // times that all were there again

 private:
  // The folder of a part of the reference, with a checkpoint of every step.
  std::string Part(const std::string& key, const std::string& options) {
    const std::string folder = absl::StrCat("part", data_, "_", key);
    if (!parts_.insert(folder).second) return folder;
    std::string text = ReadText(folder_ + "/run.yaml");
    text = std::regex_replace(text, std::regex("(heal|metrics):.*\n"), "");
    text = std::regex_replace(
        text, std::regex("checkpoint:.*\n"),
        absl::StrCat("checkpoint: {every: 1, folder: ", folder, "/ckpt, keep: 1000}\n"));
    WriteText(folder_ + "/part.yaml", text);
    ToolProcess run(folder_, Words(absl::StrCat("run part.yaml --out ", folder, " --save ", folder,
                                                "/kept", options)));
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, 0) << key << " " << options << "\n" << answer.err;
    return folder;
  }

  std::set<std::string> parts_;
};

TEST_F(HealedRun, AFewKillsOfTwoCopies) { KillMany(2, 4, 2); }
TEST_F(HealedRun, AFewKillsOfFourCopies) { KillMany(4, 8, 3); }
TEST_F(HealedRun, ProcessesOfWholeCopies) { KillMany(4, 2, 1); }
TEST_F(HealedRun, LostProcessesComeBack) {
  returns_ = true;
  // A run on a busy machine may end before a process has come back: then there is another run.
  for (int run = 0; run < 5 && returned_ == 0; ++run) KillMany(4, 4, 1);
  EXPECT_GT(returned_, 0);
}
TEST_F(HealedRun, LostProcessesComeBackToShares) {
  returns_ = true;
  for (int run = 0; run < 5 && returned_ == 0; ++run) KillMany(2, 4, 1, "sharding: parameters\n");
  EXPECT_GT(returned_, 0);
}
TEST_F(HealedRun, ExpertsInBf16WithMetricsAndEvaluations) {
  model_ =
      "model: {kind: moe, layers: 2, width: 16, heads: 2, context: 8, hidden: 24, experts: 4, "
      "top_k: 2, expert_hidden: 8, aux_coefficient: 0.01, balance_rate: 0.001, scores: sigmoid}";
  KillMany(2, 4, 1,
           "precision: bf16\nsharding: optimizer\nmetrics: {every: 5}\n"
           "evaluate: {every: 10, text: words.txt}\n");
  // Every fifth step is noted once.
  const std::string metrics = ReadText(folder_ + "/made/metrics.jsonl");
  std::vector<int> steps, expected;
  const std::regex step("^\\{\"step\":([0-9]+)", std::regex::multiline);
  for (std::sregex_iterator at(metrics.begin(), metrics.end(), step), end; at != end; ++at) {
    ASSERT_TRUE(absl::SimpleAtoi((*at)[1].str(), &steps.emplace_back()));
  }
  for (int i = 5; i <= kSteps; i += 5) expected.push_back(i);
  EXPECT_EQ(steps, expected) << metrics.substr(0, 300);
}
TEST_F(HealedRun, SharesOfTheOptimizer) { KillMany(2, 4, 1, "sharding: optimizer\n"); }
TEST_F(HealedRun, SharesOfGradients) { KillMany(4, 4, 1, "sharding: gradients\n"); }
TEST_F(HealedRun, SharesOfParameters) { KillMany(4, 8, 1, "sharding: parameters\n"); }

class Kills : public HealedRun {};
TEST_F(Kills, HundredOfTwoAndOfFourCopies) {
  KillMany(2, 4, 30);
  KillMany(4, 8, 50);
  KillMany(4, 4, 20);
}
TEST_F(Kills, ThirtyOfSharedState) {
  KillMany(2, 4, 8, "sharding: optimizer\n");
  KillMany(4, 8, 12, "sharding: gradients\n");
  KillMany(4, 4, 10, "sharding: parameters\n");
}
TEST_F(Kills, ThirtyWithReturns) {
  returns_ = true;
  KillMany(2, 4, 8);
  KillMany(4, 8, 12, "sharding: optimizer\n");
  KillMany(4, 4, 10, "sharding: parameters\n");
  EXPECT_GT(returned_, 10);
}

// Both copies lose a process at once: nobody can go on, and a restart does.
TEST_F(HealedRun, TheLossOfAllCopiesEndsTheRunOrStartsItAgain) {
  Prepare(2, 2000, "heal: {every: 1}\ncheckpoint: {every: 50, folder: ckpt, keep: 2}\n");
  for (const bool restarts : {false, true}) {
    fs::remove_all(folder_ + "/made");
    fs::remove_all(folder_ + "/ckpt");
    ToolProcess run(folder_, Words(absl::StrCat("run run.yaml --out made --processes 4",
                                                restarts ? " --restarts 1" : "")));
    ASSERT_TRUE(run.WaitUntil([&] { return Rows() > 60; }));
    const std::vector<pid_t> children = ChildrenOf(run.id());
    ASSERT_EQ(children.size(), 4u);
    for (const size_t which : {size_t{0}, size_t{3}}) ::kill(children[which], SIGKILL);
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, restarts ? 0 : 3) << answer.out << answer.err;
    if (restarts) {
      EXPECT_TRUE(absl::StrContains(answer.err, "starting again from ")) << answer.err;
    } else {
      EXPECT_TRUE(absl::StrContains(answer.err, "no copy of the pipeline is whole")) << answer.err;
    }
  }
}

// Two of four copies with shares of their own are lost at once: others keep the shares of both, or
// one kept the other's.
TEST_F(HealedRun, TwoLostCopiesAreNoNeighbours) {
  Prepare(4, 2000, "sharding: optimizer\nheal: {every: 1}\n");
  for (const bool neighbours : {false, true}) {
    fs::remove_all(folder_ + "/made");
    ToolProcess run(folder_, Words("run run.yaml --out made --processes 4 --steps 200"));
    ASSERT_TRUE(run.WaitUntil([&] { return Rows() > 20; }));
    const std::vector<pid_t> children = ChildrenOf(run.id());
    ASSERT_EQ(children.size(), 4u);
    for (const size_t which : {size_t{1}, size_t{neighbours ? 2u : 3u}}) {
      ::kill(children[which], SIGKILL);
    }
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, neighbours ? 3 : 0) << answer.out << answer.err;
    if (neighbours) {
      EXPECT_TRUE(std::regex_search(
          answer.err,
          std::regex("process.* kept the share of process.* of the state, so the state is "
                     "lost with both; --restarts with checkpoints would help")))
          << answer.err;
    } else {
      EXPECT_TRUE(absl::StrContains(answer.out, "copies 0, 2 of 4 go on from step ")) << answer.out;
    }
  }
}

// A process that is stopped, while the other is at its end, does not go on by itself.
TEST_F(Kills, OneThatStoodStillEnds) {
  Prepare(2, 200, "timeout: 3s\nheal: {every: 1}\n");
  std::vector<std::unique_ptr<ToolProcess>> runs;
  const absl::StatusOr<std::vector<int>> port = ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(port.ok()) << port.status();
  const int number = PortOf(port->front());
  (void)close(port->front());
  for (int p = 0; p < 2; ++p) {
    const std::string folder = absl::StrCat(folder_, "/of", p);
    fs::create_directories(folder);
    runs.push_back(std::make_unique<ToolProcess>(
        folder, Words(absl::StrCat("run ../run.yaml --out ../made --link 5ms --rank ", p,
                                   " --ranks 2 --local-rank ", p, " --master 127.0.0.1:", number,
                                   " --run-id still"))));
  }
  ASSERT_TRUE(runs[0]->WaitUntil([&] { return Rows() > 5; }));
  runs[1]->Signal(SIGSTOP);
  const Answer first = runs[0]->Wait();
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(absl::StrContains(first.out, "copy 0 of 2 goes on from step ")) << first.out;
  runs[1]->Signal(SIGCONT);
  const Answer second = runs[1]->Wait();
  EXPECT_EQ(second.status, 3);
  EXPECT_TRUE(absl::StrContains(second.err, "this process stood still for longer than 'timeout'"))
      << second.err;
}

TEST_F(HealedRun, IsRefusedWhereNobodyCouldGoOn) {
  const auto said = [&](int data, const std::string& more, const std::string& options) {
    Prepare(data, 6, absl::StrCat("heal: {every: 1}\n", more));
    ToolProcess run(folder_, Words("run run.yaml --out made" + options));
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, 2);
    return answer.err;
  };
  EXPECT_TRUE(absl::StrContains(said(1, "", " --processes 2"), "mesh.data would make more"));
  EXPECT_TRUE(absl::StrContains(said(2, "", ""), "--processes would help"));
  EXPECT_TRUE(absl::StrContains(said(4, "", " --processes 3"),
                                "a number of processes that 4 divides, or that divides 4"));
}

}  // namespace
}  // namespace stringline
