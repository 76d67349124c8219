#include "tools/search/places.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/text/parse.h"
#include "tools/open_source.h"
#include "tools/schedule_library.h"
#include "tools/session.h"

namespace stringline {
namespace {

constexpr const char* kAnyPlace[] = {"line", "v", "loop 2", "wave 4", "loop 3"};
constexpr int kMostTurns = 64;

// "loop 2" -> its layout and how many stages a rank has; 0 for a word that is none.
struct Place {
  std::string layout;
  int turns = 0;
};
Place ReadPlace(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.empty() || words.size() > 2) return {};
  Place place{words[0], words[0] == "line" ? 1 : 2};
  const bool counted = place.layout == "loop" || place.layout == "wave";
  if (!counted && place.layout != "line" && place.layout != "v") return {};
  if (words.size() == 2 && (!counted || !absl::SimpleAtoi(words[1], &place.turns))) return {};
  return place;
}

Plan StagesAt(const Place& place, int64_t p, int64_t m) {
  const std::string count = place.turns == 1 ? "P" : absl::StrCat(place.turns, " * P");
  const Source source =
      Source("found.sched", absl::StrCat("schedule found(P, M) {\n  stages ", count, " on ",
                                         place.layout, ";\n  rank r {}\n}\n"));
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  SL_CHECK(file.has_value()) << Render(diagnostics, source);
  auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return *std::move(plan);
}

bool IsSamePlace(const Plan& a, const Plan& b) {
  if (a.stages.size() != b.stages.size() || a.ranks() != b.ranks()) return false;
  if (a.pipes.size() != b.pipes.size()) return false;
  for (size_t s = 0; s < a.stages.size(); ++s) {
    if (a.stages[s].rank != b.stages[s].rank || a.stages[s].pipe != b.stages[s].pipe) return false;
  }
  return true;
}

// The library's schedule with these stages' parameters, and V stages a rank where it has such a
// parameter; nothing where that cannot be.
std::optional<Plan> LibraryPlan(const LibrarySchedule& schedule, const Plan& stages) {
  Source source(schedule.name, schedule.text);
  Diagnostics diagnostics;
  const auto file = ParseWithUses(
      &source, [](const std::string& name, const std::string&) { return OpenOfLibrary(name); },
      &diagnostics);
  if (!file || !diagnostics.empty()) return std::nullopt;
  std::vector<Parameter> values = stages.parameters;
  const int turns = static_cast<int>(stages.stages.size()) / std::max(1, stages.ranks());
  values.push_back({"V", turns});
  std::vector<Parameter> parameters;
  for (const std::string& name : ParameterNames(*file, "")) {
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const Parameter& one) { return one.name == name; });
    if (value != values.end()) parameters.push_back(*value);
  }
  return ElaboratedPlan(*file, "", parameters, &diagnostics);
}

}  // namespace

absl::StatusOr<std::vector<Plan>> StagesOf(const std::string& places, int64_t p, int64_t m) {
  std::vector<std::string> words = {places};
  if (places == "any") words.assign(std::begin(kAnyPlace), std::end(kAnyPlace));
  std::vector<Plan> plans;
  for (const std::string& word : words) {
    const Place place = ReadPlace(word);
    if (place.turns < 1 || place.turns > kMostTurns) {
      return absl::InvalidArgumentError(
          absl::StrCat("--place ", word,
                       ": a placement is line, v, loop N or wave N (N stages a rank), or any"));
    }
    plans.push_back(StagesAt(place, p, m));
  }
  return plans;
}

std::vector<KnownOrders> LibraryOrdersOn(const Plan& stages) {
  std::vector<KnownOrders> known;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    const std::optional<Plan> plan = LibraryPlan(schedule, stages);
    if (!plan || !IsSamePlace(*plan, stages)) continue;
    absl::StatusOr<search::Words> words = search::WordsOf(*plan);
    if (words.ok()) known.push_back({schedule.name, *std::move(words)});
  }
  return known;
}

}  // namespace stringline
