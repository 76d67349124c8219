// The text of a plan is that of plan.cc; of a plan whose messages are issued as written the lines
// from `messages` on are made here, with the waits in their places.
#include "schedlang/plan/plan_file.h"

#include "absl/strings/str_cat.h"

namespace stringline {

std::string Print(const Plan& plan, const MessageWait& wait) {
  const std::string message =
      PrintAction(plan.pipes, plan.rows, plan.slices, wait.of, wait.stage, wait.microbatch);
  const size_t kind = PrintStage(plan.pipes, wait.stage).size();
  return absl::StrCat(message.substr(0, kind), "WAIT_", message.substr(kind));
}

std::string Print(const Plan& plan, const std::optional<IssuedMessages>& issued,
                  const std::vector<MessageWait>& waits) {
  const std::string whole = Print(plan);
  if (!issued) return whole;
  std::string out = whole.substr(0, whole.find("\nrank 0:") + 1);
  absl::StrAppend(&out, "messages ", NameOf(issued->layout), issued->lazy ? " lazy" : "", "\n");
  size_t wait = 0;
  for (int r = 0; r < plan.ranks(); ++r) {
    absl::StrAppend(&out, "rank ", r, ":");
    for (uint32_t i = plan.first[r]; i <= plan.first[r + 1]; ++i) {
      while (wait < waits.size() && waits[wait].rank.value == r && waits[wait].before == i) {
        absl::StrAppend(&out, " ", Print(plan, waits[wait++]));
      }
      if (i == plan.first[r + 1]) break;
      absl::StrAppend(&out, plan.actions[i].joined ? "&" : " ", Print(plan, plan.actions[i]));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace stringline
