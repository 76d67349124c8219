// The cost of checkpoints to a training: steps after a checkpoint and steps without, by turns.
//
//   checkpoint_bench [LAYERS [WIDTH [PAIRS [FOLDER]]]]        4 192 15, a temporary folder
//
// trains a GPT (1f1b, P=2 M=4, microbatches of 1 x 32 tokens) in blocks of 200 steps. Every second
// block begins with a checkpoint, which is written beside its steps. Two consecutive other are a
// pair. A line a pair, and the medians of all but the first:
//
//   step        mean of a step without and with, and the second over the first
//   processor   the same of the processor time of all threads, which other programs disturb less
//   worst       the longest step of a block: with checkpoints the one behind the copy of the state
#include <time.h>
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
#include "executor/run/train.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "stages/models/gpt.h"
#include "tools/microbench/library_plan.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 200;

std::string Text() {
  std::string text;
  for (int i = 0; text.size() < 100'000; ++i) absl::StrAppend(&text, i * 7919 % 10007, " words ");
  return text;
}

double ProcessorNs() {
  timespec now;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Block {
  double step_ms = 0;       // mean
  double processor_ms = 0;  // the same
  double worst_ms = 0;
};

// The blocks of a run. Every second block from the third on begins with a checkpoint.
std::vector<Block> TrainInBlocks(const RunConfig& config, const Plan& plan) {
  std::vector<Block> blocks;
  Block block;
  int64_t start_ns = NowNs(), before_ns = start_ns;
  double processor_ns = ProcessorNs();
  TrainHooks hooks;
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    const int64_t now_ns = NowNs();
    block.worst_ms = std::max(block.worst_ms, static_cast<double>(now_ns - before_ns) * 1e-6);
    before_ns = now_ns;
    if (step.step % kBlock != 0) return absl::OkStatus();
    const double used_ns = ProcessorNs();
    block.step_ms = static_cast<double>(now_ns - start_ns) * 1e-6 / kBlock;
    block.processor_ms = (used_ns - processor_ns) * 1e-6 / kBlock;
    blocks.push_back(block);
    block = {};
    start_ns = now_ns;
    processor_ns = used_ns;
    return absl::OkStatus();
  };
  const auto result = Train(config, plan, Text(), hooks);
  SL_CHECK(result.ok()) << result.status();
  return blocks;
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

int Bench(int layers, int width, int pairs, const std::string& folder) {
  RunConfig config;
  config.shape = GptShape{
      .layers = layers, .width = width, .heads = width / 32, .context = 32, .microbatch = 1};
  // The first two pairs only warm up.
  config.checkpoint = {2 * kBlock, folder, 1};
  config.steps = 2 * kBlock * (pairs + 1) + kBlock;
  const std::vector<Block> blocks = TrainInBlocks(config, LibraryPlan("1f1b", 2, 4).value());
  std::vector<double> steps, processors, worst[2];
  for (size_t with = 4; with < blocks.size(); with += 2) {
    const Block& one = blocks[with - 1];
    const Block& other = blocks[with];
    steps.push_back(100 * (other.step_ms / one.step_ms - 1));
    processors.push_back(100 * (other.processor_ms / one.processor_ms - 1));
    worst[0].push_back(one.worst_ms);
    worst[1].push_back(other.worst_ms);
    std::cout << absl::StreamFormat(
        "step %.2f ms, with %.2f ms: %+.2f %%   processor %.2f ms, with %.2f ms: %+.2f %%   worst "
        "%.1f ms, with %.1f ms\n",
        one.step_ms, other.step_ms, steps.back(), one.processor_ms, other.processor_ms,
        processors.back(), one.worst_ms, other.worst_ms);
  }
  std::cout << absl::StreamFormat(
      "median: step %+.2f %%, processor %+.2f %%, with a checkpoint of %.1f MB every %d steps; "
      "worst step %.1f ms, with %.1f ms\n",
      Median(steps), Median(processors), static_cast<double>(BytesIn(folder)) * 1e-6, kBlock,
      Median(worst[0]), Median(worst[1]));
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  int numbers[] = {4, 192, 15};
  for (int i = 0; i < 3 && i + 1 < argc; ++i) {
    if (!absl::SimpleAtoi(argv[i + 1], &numbers[i]) || numbers[i] < 1) return 2;
  }
  const std::string folder =
      argc > 4 ? argv[4]
               : (std::filesystem::temp_directory_path() / absl::StrCat("checkpoints-", getpid()))
                     .string();
  return stringline::Bench(numbers[0], numbers[1], numbers[2], folder);
}
