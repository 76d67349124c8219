#include "tests/tools/simulated_timeline.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"

namespace stringline {

Timeline SimulatedTimeline(const std::string& words) {
  const std::string path = ScratchFolder() + "/simulated.timeline";
  const Answer answer =
      RunToolIn(ScratchFolder(), Words(absl::StrCat("sim ", words, " --timeline ", path)));
  EXPECT_EQ(answer.status, 0) << answer.err;
  Diagnostics diagnostics;
  const Source source(path, ReadText(path));
  return ReadTimeline(source, &diagnostics).value_or(Timeline{});
}

}  // namespace stringline
