#include "tools/view/stage_shades.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

std::string Ordinal(int place) {
  constexpr const char* kOrdinals[] = {"first", "second", "third", "fourth"};
  return place < 4 ? kOrdinals[place] : absl::StrCat(place + 1, "th");
}

// The names of `count` places, `most` of them for each pipe, in the order of shades.
std::vector<std::string> NamesOf(const std::vector<Pipe>& pipes, int most, int count) {
  std::vector<std::string> names(std::min(count, kShades));
  for (int place = 0; place < count; ++place) {
    std::string name = absl::StrCat(Ordinal(place % most), " stage of a rank");
    if (!pipes.empty()) {
      const std::string pipe = absl::StrCat("pipe ", pipes[place / most].name);
      name = most == 1 ? pipe : absl::StrCat(pipe, ", ", name);
    }
    std::string& known = names[place % kShades];
    absl::StrAppend(&known, known.empty() ? "" : ", or ", name);
  }
  if (pipes.empty() && count == 2) names = {"", "every second stage of a rank"};
  return names;
}

}  // namespace

StageShades ShadesOf(const Timeline& timeline) {
  std::map<std::pair<int, int>, std::set<int>> stages;  // by rank and pipe
  int last = -1;
  for (int r = 0; r < timeline.ranks(); ++r) {
    for (const Event& event : timeline.of(RankId(r))) {
      last = std::max(last, event.stage.value);
      // An own action of every rank is no stage of its rank.
      if (timeline.rows.IsOfEveryRank(event.kind)) continue;
      const int pipe = timeline.pipes.empty() ? 0 : PipeOf(timeline, event.stage);
      stages[{r, pipe}].insert(event.stage.value);
    }
  }
  int most = 1;
  for (const auto& [where, own] : stages) most = std::max(most, static_cast<int>(own.size()));
  StageShades shades;
  shades.of.resize(static_cast<size_t>(last) + 1);
  for (const auto& [where, own] : stages) {
    int place = where.second * most;
    for (const int stage : own) shades.of[static_cast<size_t>(stage)] = place++ % kShades;
  }
  const int pipes = std::max(1, static_cast<int>(timeline.pipes.size()));
  shades.names = NamesOf(timeline.pipes, most, pipes * most);
  return shades;
}

void ShadeNames::Add(const StageShades& shades) {
  if (shades.names.size() < 2) return;
  for (size_t shade = 0; shade < shades.names.size(); ++shade) {
    std::vector<std::string>& names = names_[shade];
    const std::string& name = shades.names[shade];
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
    if (!name.empty() && !is_known) names.push_back(name);
  }
}

std::string ShadeNames::Of(int shade) const {
  return absl::StrJoin(names_[static_cast<size_t>(shade)], "; ");
}

}  // namespace stringline
