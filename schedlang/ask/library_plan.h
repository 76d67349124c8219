// The library's schedules as lowered plans, for programs beside the tool.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/text/uses.h"

namespace stringline {

// FOLDER/NAME.sched, the library's folder; nothing where the schedule does not admit P and M.
// `collectives` are added first, to a plan of so many steps; 1: as many as the schedule says.
inline std::optional<Plan> PlanOfSchedule(const std::string& folder, const std::string& name,
                                          int64_t p, int64_t m,
                                          CommLayout layout = CommLayout::kEdge,
                                          const CollectiveChoice& collectives = {},
                                          int64_t steps = 1) {
  auto source = ReadSource(folder + "/" + name + ".sched");
  SL_CHECK(source.ok()) << source.status();
  Diagnostics diagnostics;
  const auto file = ParseWithUses(&*source, ReadBeside, &diagnostics);
  SL_CHECK(file.has_value()) << Render(diagnostics, *source);
  std::vector<Parameter> parameters = {{"P", p}, {"M", m}};
  if (steps > 1) parameters.push_back({"steps", steps});
  auto plan = Elaborate(*file, "", parameters, &diagnostics);
  if (!plan) return std::nullopt;
  return Lower(AddCollectives(*std::move(plan), collectives), layout);
}

}  // namespace stringline
