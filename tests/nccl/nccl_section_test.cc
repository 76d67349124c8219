// The NCCL section of gpu_check finds no fault beside the stand-ins.
#include "gtest/gtest.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/nccl_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

struct SaidRows final : CheckRows {
  void Say(CheckRow row) override { all.push_back(std::move(row)); }
  std::vector<CheckRow> all;
};

// On a machine with enough GPUs for every row, also for ranks on a GPU each.
TEST(NcclSection, Passes) {
  standin_reset(1);
  standin_cublas_reset();
  standin_nccl_reset();
  standin_set_devices(4);
  SaidRows rows;
  CheckNccl(STRINGLINE_SOURCE_DIR "/schedules", &rows);
  EXPECT_EQ(rows.all.size(), 11u);
  for (const CheckRow& row : rows.all) {
    EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
  }
}

}  // namespace
}  // namespace stringline
