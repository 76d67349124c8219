// Plans for tests: from their text form, or from the schedule library.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/mesh.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/lower/message_order.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/sharding.h"
#include "schedlang/text/parse.h"

namespace stringline {

inline Plan PlanFrom(const std::string& text) {
  const Source source("test.plan", text);
  Diagnostics diagnostics;
  std::optional<Plan> plan = ReadPlan(source, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return *std::move(plan);
}

inline Plan LoweredFrom(const std::string& text) { return Lower(PlanFrom(text)); }

// A U: the skip of a stage goes to its mirror image on the same rank.
inline constexpr char kUShaped[] = R"(schedule u_shaped(P, M) {
  stages 2 * P on v;
  edges s -> s + 1, s -> 2 * P - 1 - s where s < P - 1;
  rank r greedy { prefer B, F; hold at most 2 * P; }
}
)";

// The lowered plan of the schedule in a text.
inline Plan PlanOfSchedule(const std::string& text, int p, int m) {
  const Source source("test.sched", text);
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  SL_CHECK(file.has_value()) << Render(diagnostics, source);
  const auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return Lower(*plan);
}

// The lowered plan of schedules/NAME.sched; nullopt if the schedule does not admit P and M. With
// `resident`, the plan gathers the parameters of that number of stages at once.
inline std::optional<Plan> LibraryPlan(const std::string& name, int p, int m,
                                       CommLayout layout = CommLayout::kEdge, int resident = 0,
                                       int steps = 1) {
  const auto source =
      ReadSource(std::string(STRINGLINE_SOURCE_DIR "/schedules/") + name + ".sched");
  SL_CHECK(source.ok()) << source.status();
  Diagnostics diagnostics;
  const auto file = Parse(*source, &diagnostics);
  SL_CHECK(file.has_value()) << Render(diagnostics, *source);
  std::vector<Parameter> parameters = {{"P", p}, {"M", m}};
  if (steps > 1) parameters.push_back({"steps", steps});
  const auto plan = Elaborate(*file, "", parameters, &diagnostics);
  if (!plan.has_value()) return std::nullopt;
  return Lower(resident > 0 ? AddCollectives(*plan, resident) : *plan, layout);
}

// The library's schedule with R right before B and I (`remakes`), with copies to the host and back
// (`copies`), or with both; lowered.
inline std::optional<Plan> ChangedPlan(const std::string& name, int p, int m, bool remakes,
                                       bool copies) {
  const std::string changes =
      absl::StrCat(remakes ? " then recompute by 0" : "", copies ? " then offload by 0" : "");
  std::string text;
  const auto source =
      ReadSource(std::string(STRINGLINE_SOURCE_DIR "/schedules/") + name + ".sched");
  SL_CHECK(source.ok()) << source.status();
  absl::StrAppend(&text, source->text(),
                  "schedule changed(P, M) = ", name == "1f1b" ? "one_f_one_b" : name, "(P, M)",
                  changes, ";\n");
  const Source changed("changed.sched", text);
  Diagnostics diagnostics;
  const auto file = Parse(changed, &diagnostics);
  SL_CHECK(file.has_value()) << Render(diagnostics, changed);
  const auto plan = Elaborate(*file, "changed", {{"P", p}, {"M", m}}, &diagnostics);
  if (!plan.has_value()) return std::nullopt;
  return Lower(*plan);
}

// The lowered plan with a REDUCE_GRAD for each stage, as several copies of the pipeline need it.
inline Plan WithSums(const Plan& lowered, const Mesh& mesh) {
  return mesh.coordinates() == 1 ? lowered : ReduceGradients(lowered);
}

// A library schedule of four microbatches with the collectives of such copies.
inline Plan WithCollectives(const std::string& schedule, int ranks, const Mesh& mesh,
                            Sharding sharding) {
  const int resident = sharding == Sharding::kParameters ? 2 : 0;
  return WithSums(LibraryPlan(schedule, ranks, 4, CommLayout::kEdge, resident).value(), mesh);
}

// The names of the library's schedules, in order, but for those with one of these statements.
inline std::vector<std::string> SchedulesWithout(const std::vector<std::string>& statements) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(STRINGLINE_SOURCE_DIR "/schedules")) {
    if (entry.path().extension() != ".sched") continue;
    const auto text = ReadSource(entry.path().string());
    SL_CHECK(text.ok()) << text.status();
    const bool says = std::any_of(statements.begin(), statements.end(), [&](const auto& one) {
      return absl::StrContains(text->text(), absl::StrCat("\n  ", one));
    });
    if (!says) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
// Schedules without actions of their own; then those with backwards as well, which can be trained.
inline std::vector<std::string> LibrarySchedules() { return SchedulesWithout({"action "}); }
inline std::vector<std::string> TrainedSchedules() {
  return SchedulesWithout({"action ", "forward only"});
}

}  // namespace stringline
