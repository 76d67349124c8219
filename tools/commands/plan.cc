// stringline plan: each rank's actions, in order.
#include "schedlang/plan/plan.h"

#include "absl/strings/str_split.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

// The line `messages`, and every rank's line with its waits.
Json MessagesAsJson(const Session& session) {
  Json ranks = Json::array();
  for (const absl::string_view line :
       absl::StrSplit(Print(*session.plan, session.issued, session.waits), '\n')) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || words[0] != "rank") continue;
    ranks.push_back(std::vector<std::string>(words.begin() + 2, words.end()));
  }
  return {{"layout", NameOf(session.issued->layout)},
          {"lazy", session.issued->lazy},
          {"ranks", std::move(ranks)}};
}

}  // namespace

int RunPlan(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan) {
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  }
  Plan& plan = *session->plan;
  if (flags.lowered) plan = LoweredPlan(std::move(plan), LayoutOf(flags));
  if (output.json) {
    Json json = PlanAsJson(plan);
    if (session->issued) json["messages"] = MessagesAsJson(*session);
    WriteJson(output.out, json);
  } else {
    output.out << Print(plan, session->issued, session->waits);
  }
  return kOk;
}

}  // namespace stringline
