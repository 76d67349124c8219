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

Timeline TimelineWithCopies() {
  const Source source(
      "copies.timeline",
      "timeline simulated offloaded P=2 M=2\n"
      "rank 0: 0F0@0+1000 0SEND_F0@1000+0 0F1@1000+1000 0SEND_F1@2000+0 0D0@1000+1500 "
      "0U0@2500+2500 0D1@2500+1500 0U1@5000+2500 0RECV_B0@4000+0 0B0@5000+2000 0RECV_B1@7000+0 "
      "0B1@7500+2000\n"
      "rank 1: 1RECV_F0@1000+0 1F0@1000+1000 1B0@2000+2000 1SEND_B0@4000+0 1RECV_F1@2000+0 "
      "1F1@4000+1000 1B1@5000+2000 1SEND_B1@7000+0\n");
  Diagnostics diagnostics;
  std::optional<Timeline> timeline = ReadTimeline(source, &diagnostics);
  EXPECT_TRUE(timeline.has_value()) << Render(diagnostics, source);
  return timeline.value_or(Timeline{});
}

}  // namespace stringline
