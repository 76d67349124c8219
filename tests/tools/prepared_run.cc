#include "tests/tools/prepared_run.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

constexpr const char* kRunFile =
    "schedule: {file: s.sched, P: 2, M: 4}\n"
    "model: {layers: 2, width: 16, heads: 2, context: 8}\n"
    "data: {text: words.txt, microbatch: 2}\n"
    "train: {steps: 6, learning_rate: 1e-2}\n";

}  // namespace

std::string PrepareRun(const std::string& from, const std::string& to) {
  const std::string folder = ScratchFolder();
  WriteText(folder + "/s.sched", ReadText(SourceFolder() + "/schedules/zb_h1.sched"));
  std::string words;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&words, "the ", i % 7, "th of ", i % 5, " words\n");
  WriteText(folder + "/words.txt", words);
  const std::string text = from.empty() ? kRunFile : absl::StrReplaceAll(kRunFile, {{from, to}});
  EXPECT_TRUE(from.empty() || text != kRunFile) << from;
  WriteText(folder + "/run.yaml", text);
  return folder;
}

}  // namespace stringline
