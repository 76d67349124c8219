// What gpu_check looks at on a GPU finds nothing wrong beside the stand-in, and sees what is.
#include "gtest/gtest.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

struct KeptRows final : CheckRows {
  void Say(CheckResult result, const std::string& name, const std::string& said) override {
    all.push_back({"", name, result, said});
  }
  std::vector<CheckRow> all;
};

TEST(GpuSections, TheDevicePasses) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    standin_reset(seed);
    KeptRows rows;
    CheckDevice(&rows);
    EXPECT_EQ(rows.all.size(), 3u);
    for (const CheckRow& row : rows.all) {
      EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
    }
    EXPECT_EQ(standin_alive(), 0);
  }
}

TEST(GpuSections, TrainingPasses) {
  standin_reset(1);
  standin_cublas_reset();
  KeptRows rows;
  CheckTraining(STRINGLINE_SOURCE_DIR "/schedules", {2}, &rows);
  EXPECT_GE(rows.all.size(), 34u);  // 17 schedules, two models each
  for (const CheckRow& row : rows.all) {
    EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
  }
}

TEST(GpuSections, AnErrorOfTheDeviceIsARowThatSaysSo) {
  standin_reset(1);
  standin_fail_call(30, 700);
  KeptRows rows;
  CheckDevice(&rows);
  ASSERT_FALSE(rows.all.empty());
  EXPECT_EQ(rows.all.back().result, CheckResult::kFail);
  EXPECT_NE(rows.all.back().said, "");
  standin_reset(1);
}

}  // namespace
}  // namespace stringline
