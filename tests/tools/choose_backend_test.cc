// What a run file's device is on this machine, which may have a GPU or none.
#include "tools/choose_backend.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

TEST(ChooseBackend, TheCpusIsTheTrainersOwn) {
  const auto backend = MakeBackend(RunConfig());
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(*backend, nullptr);
}

TEST(ChooseBackend, AGpuIsThereOrTheErrorSaysWhatIsMissing) {
  RunConfig config;
  config.device = DeviceKind::kCuda;
  const auto backend = MakeBackend(config);
  if (backend.ok()) {
    ASSERT_NE(*backend, nullptr);
    EXPECT_GT((*backend)->available().bytes, 0);
    return;
  }
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(backend.status().message(), "device: cuda: ")) << backend.status();
}

}  // namespace
}  // namespace stringline
