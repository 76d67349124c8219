#include "schedlang/ask/places.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/text/parse.h"
#include "schedlang/write/rank_expression.h"

namespace stringline {
namespace {

constexpr const char* kAnyPlace[] = {"line", "v", "loop 2", "wave 4", "loop 3"};
constexpr int kMostTurns = 64;

// "loop 2" -> its layout and the stages of a rank; 0 for an unknown word.
struct Place {
  std::string layout;
  int turns = 0;
  std::vector<int> ranks;  // of the stages, where they are listed: turns is the most of a rank
};

// "[0, 1, 1, 0]": the rank of each stage. Errors: other words; a rank beyond P, or without stages.
absl::StatusOr<Place> ReadList(const std::string& text, int64_t p) {
  Place place{.layout = "list"};
  std::vector<int> stages(static_cast<size_t>(p), 0);
  const std::string inside = text.substr(1, text.size() - 2);
  for (const absl::string_view word : absl::StrSplit(inside, ',')) {
    int rank = 0;
    if (text.back() != ']' || !absl::SimpleAtoi(word, &rank) || rank < 0 || rank >= p) {
      return absl::InvalidArgumentError(
          absl::StrCat("`place=", text, "`: a list names the rank of each stage, 0 to ", p - 1,
                       " for P=", p, ", as [0,1,1,0] for P=2"));
    }
    place.ranks.push_back(rank);
    place.turns = std::max(place.turns, ++stages[static_cast<size_t>(rank)]);
  }
  const auto none = std::find(stages.begin(), stages.end(), 0);
  if (none != stages.end()) {
    return absl::InvalidArgumentError(absl::StrCat("`place=", text, "`: no stage lives on rank ",
                                                   none - stages.begin(), " of P=", p));
  }
  return place;
}

absl::StatusOr<Place> ReadPlace(const std::string& text, int64_t p) {
  if (!text.empty() && text[0] == '[') return ReadList(text, p);
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.empty() || words.size() > 2) return Place{};
  Place place{words[0], words[0] == "line" ? 1 : 2};
  const bool counted = place.layout == "loop" || place.layout == "wave";
  if (!counted && place.layout != "line" && place.layout != "v") return Place{};
  if (words.size() == 2 && (!counted || !absl::SimpleAtoi(words[1], &place.turns))) return Place{};
  return place;
}

Plan StagesAt(const Place& place, int64_t p, int64_t m) {
  std::string count = place.turns == 1 ? "P" : absl::StrCat(place.turns, " * P");
  std::string layout = place.layout;
  if (!place.ranks.empty()) {
    count = absl::StrCat(place.ranks.size());
    const std::vector<std::optional<int64_t>> ranks(place.ranks.begin(), place.ranks.end());
    layout = absl::StrCat("s -> ", search::WriteCases(ranks, "s", 0));
  }
  const Source source =
      Source("found.sched", absl::StrCat("schedule found(P, M) {\n  stages ", count, " on ", layout,
                                         ";\n  rank r {}\n}\n"));
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  SL_CHECK(file.has_value()) << Render(diagnostics, source);
  auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return *std::move(plan);
}

// The library's schedule with these stages' parameters, and V stages a rank where it has such a
// parameter; nothing where that cannot be.
std::optional<Plan> LibraryPlan(const LibrarySchedule& schedule, const Plan& stages,
                                const Stop* stop) {
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
  return ElaboratedPlan(*file, "", parameters, &diagnostics, {.stop = stop});
}

}  // namespace

bool IsSamePlace(const Plan& a, const Plan& b) {
  if (a.stages.size() != b.stages.size() || a.ranks() != b.ranks()) return false;
  if (a.pipes.size() != b.pipes.size()) return false;
  for (size_t s = 0; s < a.stages.size(); ++s) {
    if (a.stages[s].rank != b.stages[s].rank || a.stages[s].pipe != b.stages[s].pipe) return false;
  }
  return true;
}

absl::StatusOr<std::vector<PlacedStages>> StagesOf(const std::string& places, int64_t p,
                                                   int64_t m) {
  std::vector<std::string> words = {places};
  if (places == "any") words.assign(std::begin(kAnyPlace), std::end(kAnyPlace));
  std::vector<PlacedStages> plans;
  std::string too_large;
  for (const std::string& word : words) {
    SL_ASSIGN_OR_RETURN(const Place place, ReadPlace(word, p));
    if (place.turns < 1 || place.turns > kMostTurns) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`place=", word,
          "`: a placement is line, v, loop N or wave N (N stages a rank), any, or the rank "
          "of each stage, as [0,1,1,0]"));
    }
    // These products do not overflow: the caller has limited P and M.
    const auto stages =
        place.ranks.empty() ? place.turns * p : static_cast<int64_t>(place.ranks.size());
    const std::string why = search::WhyTooLarge(stages, 3 * stages * m);
    if (why.empty()) {
      plans.push_back({word, StagesAt(place, p, m)});
    } else if (too_large.empty()) {
      too_large = absl::StrCat("P=", p, " M=", m, " `place=", word, "`: ", why);
    }
  }
  if (plans.empty()) return absl::InvalidArgumentError(too_large);
  return plans;
}

std::vector<KnownOrders> LibraryOrdersOn(const Plan& stages, const Stop* stop) {
  std::vector<KnownOrders> known;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    if (IsWished(stop)) break;
    const std::optional<Plan> plan = LibraryPlan(schedule, stages, stop);
    if (!plan || !IsSamePlace(*plan, stages)) continue;
    absl::StatusOr<search::Words> words = search::WordsOf(*plan);
    if (words.ok()) known.push_back({schedule.name, *std::move(words)});
  }
  return known;
}

}  // namespace stringline
