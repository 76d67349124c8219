#include "executor/processes/heal_decision.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

// "copy 0"; "copies 0, 2".
std::string PrintCopies(const std::vector<int>& copies) {
  return absl::StrCat(copies.size() == 1 ? "copy " : "copies ", absl::StrJoin(copies, ", "));
}

std::string PrintLostOnes(const FoundProcesses& found) {
  std::vector<std::string> lost;
  for (size_t p = 0; p < found.held.size(); ++p) {
    if (!found.held[p].has_value()) lost.push_back(found.names[p]);
  }
  if (lost.empty()) return "the processes have lost each other";
  return absl::StrCat(absl::StrJoin(lost, " and "), lost.size() == 1 ? " was lost" : " were lost");
}

// The reason why the processes here may not go on: some may live elsewhere, or have gone on, and
// those here are too few. "": they may.
std::string WhyTooFew(const FoundProcesses& found) {
  const size_t all = found.held.size();
  size_t came = 0;
  bool all_ended = true;
  for (size_t p = 0; p < all; ++p) {
    came += found.held[p].has_value() ? 1 : 0;
    all_ended = all_ended && (found.held[p].has_value() || found.ended[p]);
  }
  const bool most = came * 2 > all || (came * 2 == all && found.held[0].has_value());
  if (most || (all_ended && !found.stood_still)) return "";
  if (!all_ended) {
    return ", but may live where it cannot be reached, and too few are left here to go on without "
           "it";
  }
  return absl::StrCat(
      ", but this process stood still for longer than 'timeout': the others may "
      "have gone on without it, and ended, and ",
      came, " of ", all,
      " processes are too few to go on alone; the newest checkpoint, or what the "
      "others have saved, would help");
}

// The shares that processes hold of each version, and their number.
struct Held {
  std::set<int> here;        // of those that came
  std::set<int> of_members;  // of those that go on
  bool has_member = false;
  int shares = 0;
};
std::map<std::pair<int, int64_t>, Held> SharesOf(const FoundProcesses& found,
                                                 const std::vector<int>& members) {
  std::map<std::pair<int, int64_t>, Held> all;
  for (size_t p = 0; p < found.held.size(); ++p) {
    if (!found.held[p].has_value()) continue;
    const bool goes_on = std::binary_search(members.begin(), members.end(), static_cast<int>(p));
    for (const HeldVersion& version : *found.held[p]) {
      Held& held = all[version.age()];
      held.shares = version.shares;
      held.here.insert(version.holds.begin(), version.holds.end());
      if (goes_on) held.of_members.insert(version.holds.begin(), version.holds.end());
      held.has_member = held.has_member || goes_on;
    }
  }
  return all;
}

// The reason why no version is whole.
std::string WhyNoState(const FoundProcesses& found, int of_unit) {
  const size_t all = found.held.size();
  for (size_t p = 0; p < all; ++p) {
    const size_t keeper = (p + static_cast<size_t>(of_unit)) % all;
    if (keeper == p || found.held[p].has_value() || found.held[keeper].has_value()) continue;
    const auto shares_out = [](const auto& versions) {
      return versions.has_value() &&
             std::any_of(versions->begin(), versions->end(), [](const HeldVersion& version) {
               return version.holds.size() < static_cast<size_t>(version.shares);
             });
    };
    if (std::none_of(found.held.begin(), found.held.end(), shares_out)) continue;
    return absl::StrCat(": ", found.names[keeper], " kept the share of ", found.names[p],
                        " of the state, so the state is lost with both; --restarts with "
                        "checkpoints would help");
  }
  // Shares that several copies had, such as those of groups that mesh.shard makes.
  for (const auto& versions : found.held) {
    if (!versions.has_value() || versions->empty() || versions->front().shares <= of_unit) continue;
    return ": the others do not hold all shares of the state of one step; --restarts with "
           "checkpoints would help";
  }
  return " before the others held the state of the same step";
}

}  // namespace

int ProcessesOfUnit(int data, int processes) { return processes / std::min(data, processes); }

int MostDividing(int units, int all) {
  while (units > 1 && all % units != 0) --units;
  return units;
}

absl::Status CheckHealable(int data, int processes) {
  const int units = std::min(data, processes);
  if (data % units == 0 && processes % units == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("heal: ", data, " copies of the pipeline (mesh.data) are in ", processes,
                   " processes, and a process may have ranks of several; a number of processes "
                   "that ",
                   data, " divides, or that divides ", data, ", would help"));
}

std::string PrintGoingOn(const std::vector<int>& copies, int of, int64_t step, size_t processes) {
  return absl::StrCat(PrintCopies(copies), " of ", of, copies.size() == 1 ? " goes" : " go",
                      " on from step ", step, " in ", processes,
                      processes == 1 ? " process" : " processes");
}

HealDecision DecideHealing(const FoundProcesses& found) {
  const auto processes = static_cast<int>(found.held.size());
  const int of_unit = ProcessesOfUnit(found.data, processes);
  const int units = processes / of_unit, copies_of_unit = found.data / units;
  const std::string lost = PrintLostOnes(found);
  HealDecision decision;
  if (const std::string why = WhyTooFew(found); !why.empty()) {
    decision.told = lost + why;
    return decision;
  }
  std::vector<int> whole;
  for (int u = 0; u < units; ++u) {
    const auto first = found.held.begin() + int64_t{u} * of_unit;
    const bool all =
        std::all_of(first, first + of_unit, [](const auto& held) { return held.has_value(); });
    if (all) whole.push_back(u);
  }
  if (whole.empty()) {
    decision.told = lost + ": no copy of the pipeline is whole";
    return decision;
  }
  const int go_on = MostDividing(static_cast<int>(whole.size()), units);
  std::vector<int> copies, leave;
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool goes_on = static_cast<int>(i) < go_on;
    for (int c = 0; c < copies_of_unit; ++c) {
      (goes_on ? copies : leave).push_back(whole[i] * copies_of_unit + c);
    }
    for (int p = 0; goes_on && p < of_unit; ++p) {
      decision.members.push_back(whole[i] * of_unit + p);
    }
  }
  const auto shares = SharesOf(found, decision.members);
  const auto newest = std::find_if(shares.rbegin(), shares.rend(), [](const auto& entry) {
    const Held& held = entry.second;
    return held.has_member && static_cast<int>(held.here.size()) == held.shares;
  });
  if (newest == shares.rend()) return {{}, 0, {}, {}, lost + WhyNoState(found, of_unit)};
  decision.data = static_cast<int>(copies.size());
  decision.age = newest->first;
  const bool lacks = newest->second.of_members.size() < newest->second.here.size();
  for (int p = 0; lacks && p < processes; ++p) {
    if (!found.held[p].has_value()) continue;
    if (std::binary_search(decision.members.begin(), decision.members.end(), p)) continue;
    decision.gifts.emplace_back(p,
                                decision.members[static_cast<size_t>(p) % decision.members.size()]);
  }
  decision.told = absl::StrCat(
      lost, ": ", PrintGoingOn(copies, found.data, decision.age.second, decision.members.size()));
  if (leave.empty()) return decision;
  const char* const verb = found.returns ? (leave.size() == 1 ? " waits" : " wait")
                                         : (leave.size() == 1 ? " leaves" : " leave");
  absl::StrAppend(&decision.told, "; ", PrintCopies(leave), verb, ", since a batch for ",
                  found.data, " copies cannot be shared out evenly among ",
                  whole.size() * static_cast<size_t>(copies_of_unit),
                  found.returns ? ", until others come back" : "");
  return decision;
}

}  // namespace stringline
