// The rows of gpu_check's table beside its checks: algorithms, time by op, branches side by side,
// the sanitizer; and its two halves.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tools/gpu/branches.h"
#include "tools/gpu/chosen_sections.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr char kSchedules[] = STRINGLINE_SOURCE_DIR "/schedules";

struct TableRows final : CheckRows {
  void Say(CheckRow row) override { all.push_back(std::move(row)); }
  const CheckRow* Named(const std::string& name) const {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&name](const CheckRow& row) { return row.name == name; });
    return found == all.end() ? nullptr : &*found;
  }
  std::vector<CheckRow> all;
};

void ResetAll() {
  standin_reset(1);
  standin_cublas_reset();
}

SpeedCase Tiny() {
  AnyShape shape = GptShape{
      .layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 256, .microbatch = 3};
  shape.dtype = DType::kBF16;
  return {"tiny", shape, 2, 1};
}

TEST(GpuCheckTable, SpeedListsTheAlgorithms) {
  for (const bool refused : {false, true}) {
    ResetAll();
    if (refused) standin_cublas_refuse(/*m=*/64, /*n=*/24, /*k=*/16);
    TableRows rows;
    CheckSpeed(kSchedules, {Tiny()}, &rows);
    const CheckRow* const chosen =
        rows.Named("tiny: y = x w' + bias of 24 rows, 16 inputs, 64 outputs in bf16");
    const auto own = std::find_if(rows.all.begin(), rows.all.end(), [](const CheckRow& row) {
      return row.name == "tiny: by our own kernel" && row.result == CheckResult::kFail &&
             absl::StartsWith(row.said, "y = x w' + bias of 24 rows, 16 inputs, 64 outputs");
    });
    EXPECT_EQ(chosen != nullptr, !refused);
    EXPECT_EQ(own != rows.all.end(), refused);
    if (chosen != nullptr) {
      EXPECT_TRUE(absl::StartsWith(chosen->said, "algorithm ")) << chosen->said;
    }
  }
}

TEST(GpuCheckTable, OpsAreTimedBesideThePaper) {
  ResetAll();
  standin_set_op_ns(20'000);
  const std::string paper = testing::TempDir() + "/paper.json";
  std::ofstream(paper) << R"({"attention": 12.5, "thinking": 3})";
  TableRows rows;
  CheckOps(kSchedules, Tiny(), paper, &rows);
  const CheckRow* const attention = rows.Named("tiny: attention");
  ASSERT_NE(attention, nullptr);
  EXPECT_NE(attention->said.find(" us in 2 launches; on paper 12.5 us"), std::string::npos)
      << attention->said;
  EXPECT_EQ(attention->figures.paper_us, 12.5);
  // Two layers with a launch of 20 us each, and calls of the host in between.
  ASSERT_TRUE(attention->figures.us.has_value());
  EXPECT_GE(*attention->figures.us, 39.9);
  EXPECT_LE(*attention->figures.us, 60);
  const CheckRow* const thinking = rows.Named("tiny: thinking");
  ASSERT_NE(thinking, nullptr);
  EXPECT_EQ(thinking->result, CheckResult::kSkip);
  EXPECT_NE(rows.Named("tiny: update"), nullptr);
  // The loss has left the gradient of the logits (ReadyKernel::same_as).
  EXPECT_EQ(rows.Named("tiny: cross_entropy_grad"), nullptr);
  const CheckRow* const all = rows.Named("tiny: all, one microbatch");
  ASSERT_NE(all, nullptr);
  double sum = 0;
  for (const CheckRow& row : rows.all) {
    EXPECT_NE(row.result, CheckResult::kFail) << row.name << ": " << row.said;
    if (&row != all) sum += row.figures.us.value_or(0);
  }
  EXPECT_NEAR(*all->figures.us, sum, 1e-6 * sum);
  EXPECT_EQ(standin_alive(), 0);
}

TEST(GpuCheckTable, OpsAreTimedWithoutAPaperAndWithABrokenOne) {
  const std::string broken = testing::TempDir() + "/broken.json";
  std::ofstream(broken) << R"({"attention": "slow"})";
  for (const std::string& path : {testing::TempDir() + "/none.json", broken}) {
    ResetAll();
    TableRows rows;
    CheckOps(kSchedules, Tiny(), path, &rows);
    const CheckRow* const about = rows.Named("paper.json");
    ASSERT_NE(about, nullptr);
    EXPECT_EQ(about->result, path == broken ? CheckResult::kFail : CheckResult::kSkip);
    EXPECT_NE(about->said.find(path), std::string::npos) << about->said;
    EXPECT_NE(rows.Named("tiny: attention"), nullptr);
  }
}

TEST(GpuCheckTable, BranchesSideBySideAreCounted) {
  for (const int side_by_side : {1, 2, 3, 31, 32, 100, 127, 128, 500}) {
    ResetAll();
    twin_branches_side_by_side = side_by_side;
    TableRows rows;
    CheckBranches(&rows);
    ASSERT_EQ(rows.all.size(), 2u);
    for (const CheckRow& row : rows.all) {
      EXPECT_EQ(row.result, CheckResult::kPass) << row.said;
      EXPECT_EQ(row.said,
                absl::StrCat(std::min(side_by_side, 128), side_by_side >= 128 ? " or more" : "",
                             " wait side by side"));
    }
    EXPECT_EQ(standin_alive(), 0);
  }
  twin_branches_side_by_side = 1;
}

// An error of any call is a row; that of the end of what is not needed any more is not.
TEST(GpuCheckTable, ErrorsOfTheBranchesAreRows) {
  ResetAll();
  twin_branches_side_by_side = 3;
  TableRows whole;
  CheckBranches(&whole);
  const int64_t calls = standin_calls();
  int failed = 0;
  for (int64_t n = 1; n <= calls; n += n < 20 || n > 250 ? 1 : 17) {
    ResetAll();
    standin_fail_call(n, /*cudaErrorMemoryAllocation*/ 2);
    TableRows rows;
    CheckBranches(&rows);
    const std::string call = standin_failed_call() == nullptr ? "" : standin_failed_call();
    if (call.empty() || call.find("Destroy") != std::string::npos || call == "cudaFree") continue;
    ++failed;
    EXPECT_TRUE(std::any_of(rows.all.begin(), rows.all.end(), [](const CheckRow& row) {
      return row.result == CheckResult::kFail && !row.said.empty();
    })) << call;
  }
  EXPECT_GT(failed, 30);
  twin_branches_side_by_side = 1;
  ResetAll();
}

// A sanitizer is a program that runs another and says a summary.
TEST(GpuCheckTable, TheSanitizerIsAskedForItsFindings) {
  const std::string clean = testing::TempDir() + "/clean", finds = testing::TempDir() + "/finds",
                    silent = testing::TempDir() + "/silent";
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  };
  write(clean, R"(echo '========= COMPUTE-SANITIZER'
shift 4
"$@"
ended=$?
echo '========= ERROR SUMMARY: 0 errors'
exit $ended
)");
  write(finds, R"(echo '========= COMPUTE-SANITIZER'
echo '========='
echo '========= Invalid read of size 4'
echo '=========     at Kernel'
echo '========= ERROR SUMMARY: 1 error'
exit $4
)");
  write(silent, "exit 0\n");
  const struct {
    std::string sanitizer, watched;
    CheckResult result;
    std::string said;
  } cases[] = {
      {clean, "true", CheckResult::kPass, "ERROR SUMMARY: 0 errors"},
      {clean, "false", CheckResult::kPass, "ERROR SUMMARY: 0 errors"},  // checks failed in it
      {clean, "sh -c 'exit 3'", CheckResult::kFail, " failed: "},
      {finds, "true", CheckResult::kFail, "Invalid read of size 4; ERROR SUMMARY: 1 error"},
      {silent, "true", CheckResult::kFail, "it ended without a summary: it says nothing"},
  };
  for (const auto& one : cases) {
    TableRows rows;
    CheckSanitizer(one.sanitizer, one.watched, &rows);
    ASSERT_EQ(rows.all.size(), 3u);
    EXPECT_EQ(rows.all[0].name, "memcheck of kernels");
    for (const CheckRow& row : rows.all) {
      EXPECT_EQ(row.result, one.result) << row.said;
      EXPECT_NE(row.said.find(one.said), std::string::npos) << row.said;
    }
  }
  TableRows rows;
  CheckSanitizer("sanitizer-of-nobody", "true", &rows);
  ASSERT_EQ(rows.all.size(), 1u);
  EXPECT_EQ(rows.all[0].result, CheckResult::kSkip);
  EXPECT_EQ(rows.all[0].said, "not run: there is no sanitizer-of-nobody");
}

TEST(GpuCheckHalves, FitInTheirTime) {
  const std::vector<CheckSection> all = AllSections({});
  int seconds[2] = {kNamingSeconds, kNamingSeconds};
  std::vector<std::string> names;
  for (const CheckSection& section : all) {
    ASSERT_TRUE(section.half == 1 || section.half == 2) << section.name;
    seconds[section.half - 1] += section.deadline_s;
    names.push_back(section.name);
    EXPECT_NE(section.about, "") << section.name;
  }
  EXPECT_LE(seconds[0], kHalfSeconds);
  EXPECT_LE(seconds[1], kHalfSeconds);
  EXPECT_LE(kHalfSeconds, 570) << "a command may take ten minutes, its start included";
  EXPECT_EQ(names,
            (std::vector<std::string>{"device", "kernels", "attention", "training", "nccl",
                                      "overlap", "branches", "rates", "speed", "ops", "prediction",
                                      "copies", "places", "sanitizer", "torch"}));
  // Both halves together are all sections, each once, and in this order.
  const auto both = ChooseSections(all, {});
  ASSERT_TRUE(both.ok());
  std::vector<std::string> chosen;
  for (const auto& half : both->runs) {
    for (const CheckSection& section : half) chosen.push_back(section.name);
  }
  EXPECT_EQ(chosen, names);
}

// The script explains them where nothing can be built.
TEST(GpuCheckHalves, AreInTheHelpOfTheScript) {
  FILE* const pipe = popen("bash " STRINGLINE_SOURCE_DIR "/tools/gpu_check --help", "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  EXPECT_EQ(pclose(pipe), 0);
  const std::string sections = DescribeSections(AllSections({}));
  EXPECT_NE(text.find(sections), std::string::npos) << text << "\ndoes not have\n" << sections;
  EXPECT_NE(text.find(absl::StrCat("after ", kHalfSeconds, " s")), std::string::npos) << text;
}

}  // namespace
}  // namespace stringline
