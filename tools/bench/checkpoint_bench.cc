// What checkpoints cost a training: the time of its steps with them and without, side by side.
//
//   checkpoint_bench [LAYERS [WIDTH [REPEATS [FOLDER]]]]        4 256 5, a temporary folder
//
// trains a GPT (1f1b, P=2 M=4, microbatches of 1 x 32 tokens) for 300 steps, once without and once
// with a checkpoint after step 200, by turns and REPEATS times each. Looked at are the 200 steps
// from step 101 on, so that one of them in 200 is followed by a checkpoint. A line a repeat, and
// the medians:
//
//   mean       of these steps, without and with, and the second over the first
//   worst      the longest of them: with checkpoints the one behind the copy of the state
//   bytes      of a checkpoint
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/clock.h"
#include "executor/train.h"
#include "schedlang/base/sl_check.h"
#include "stages/models/gpt.h"
#include "tools/bench/library_plan.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr int kFirst = 100, kEvery = 200, kSteps = 300;

std::string Text() {
  std::string text;
  for (int i = 0; text.size() < 100'000; ++i) absl::StrAppend(&text, i * 7919 % 10007, " words ");
  return text;
}

struct StepTimes {
  double mean_ms = 0;
  double worst_ms = 0;
};

StepTimes TimeSteps(const RunConfig& config, const Plan& plan, const std::string& text) {
  std::vector<int64_t> ends_ns;
  TrainHooks hooks;
  hooks.after_step = [&ends_ns](const TrainStep&, Trainer&) {
    ends_ns.push_back(NowNs());
    return absl::OkStatus();
  };
  const auto result = Train(config, plan, text, hooks);
  SL_CHECK(result.ok()) << result.status();
  StepTimes times;
  for (int step = kFirst; step < kSteps; ++step) {
    const auto ns = static_cast<double>(ends_ns[step] - ends_ns[step - 1]);
    times.worst_ms = std::max(times.worst_ms, ns * 1e-6);
    times.mean_ms += ns * 1e-6 / (kSteps - kFirst);
  }
  return times;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int64_t BytesIn(const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

int Bench(int layers, int width, int repeats, const std::string& folder) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  const std::string text = Text();
  RunConfig without;
  without.shape = GptShape{
      .layers = layers, .width = width, .heads = width / 32, .context = 32, .microbatch = 1};
  without.steps = kSteps;
  RunConfig with = without;
  with.checkpoint = {kEvery, folder, 1};
  std::vector<double> ratios, worst_without, worst_with;
  int64_t bytes = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    StepTimes of[2];
    for (const int turn : {repeat % 2, 1 - repeat % 2}) {
      of[turn] = TimeSteps(turn == 0 ? without : with, plan, text);
      if (turn == 0) continue;
      bytes = BytesIn(folder);
      fs::remove_all(folder);
    }
    ratios.push_back(of[1].mean_ms / of[0].mean_ms);
    worst_without.push_back(of[0].worst_ms);
    worst_with.push_back(of[1].worst_ms);
    std::cout << absl::StreamFormat(
                     "mean %.2f ms, with checkpoints %.2f ms: %+.2f %%   worst %.1f ms, with %.1f "
                     "ms\n",
                     of[0].mean_ms, of[1].mean_ms, 100 * (ratios.back() - 1), of[0].worst_ms,
                     of[1].worst_ms)
              << std::flush;
  }
  std::cout << absl::StreamFormat(
      "median: %+.2f %% with a checkpoint of %.1f MB every %d steps; worst step %.1f ms, with %.1f "
      "ms\n",
      100 * (Median(ratios) - 1), static_cast<double>(bytes) * 1e-6, kEvery, Median(worst_without),
      Median(worst_with));
  return 0;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  int numbers[] = {4, 256, 5};
  for (int i = 0; i < 3 && i + 1 < argc; ++i) {
    if (!absl::SimpleAtoi(argv[i + 1], &numbers[i]) || numbers[i] < 1) return 2;
  }
  const std::string folder =
      argc > 4 ? argv[4]
               : (std::filesystem::temp_directory_path() / absl::StrCat("checkpoints-", getpid()))
                     .string();
  return stringline::Bench(numbers[0], numbers[1], numbers[2], folder);
}
