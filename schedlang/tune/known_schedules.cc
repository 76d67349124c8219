// A table beside the library: the order of actions of a schedule is in its text, and the places of
// its stages are here, so that bounds need no order. A test holds the table against the texts.
#include "schedlang/tune/known_schedules.h"

#include <algorithm>
#include <set>

namespace stringline::tune {
namespace {

constexpr const char* kOldWeights = "it trains with weights of earlier steps";

constexpr KnownSchedule kSchedules[] = {
    {"1f1b", Place::kLine},
    {"1f1b_offload", Place::kLine},
    {"bitpipe", Place::kTwoVs},
    {"bpipe", Place::kLine},
    {"chimera", Place::kTwoLines},
    {"circular", Place::kLoop, "V"},
    {"dualpipe", Place::kTwoLines, "", "", 1, true, true},
    {"dualpipe_v", Place::kV, "", "", 1, true, true},
    {"eager_1f1b", Place::kLine, "", "", 1, true},
    {"gems", Place::kTwoLines},
    {"gis", Place::kLoop, "V", "", 1, true},
    {"gpipe", Place::kLine},
    {"hanayo", Place::kWave, "waves"},
    {"inference", Place::kLine, "", "it has no backwards"},
    {"interleaved", Place::kLoop, "V"},
    {"interleaved_zb", Place::kLoop, "V", "", 1, true},
    {"kfkb", Place::kLine},
    {"kimi_k2", Place::kLoop, "V", "", 1, true, true},
    {"llama3", Place::kLoop, "V"},
    {"looped_bfs", Place::kLoop, "V"},
    {"mario", Place::kLine},
    {"megatron_combined", Place::kLoop, "V", "", 1, false, true},
    {"ooo_backprop", Place::kLoop, "V", "", 1, true},
    {"pipedream", Place::kLine, "", kOldWeights},
    {"pipedream_2bw", Place::kLine, "", kOldWeights},
    {"seq1f1b", Place::kLine, "", "", 4},
    {"slimpipe", Place::kLoop, "V", "", 0},
    {"svpp", Place::kLoop, "V", "", 4},
    {"terapipe", Place::kLine, "", "", 4},
    {"two_bp", Place::kLine, "", "", 1, true},
    {"v_1f1b", Place::kV},
    {"v_adaptive", Place::kV, "", "", 1, true},
    {"v_half", Place::kV, "", "", 1, true},
    {"v_min", Place::kV, "", "", 1, true},
    {"vocab_1f1b", Place::kLine, "",
     "its own actions, shares of the embedding and the head, have "
     "no costs in the formula"},
    {"zb_h1", Place::kLine, "", "", 1, true},
    {"zb_h2", Place::kLine, "", "", 1, true},
    {"zb_v", Place::kV, "", "", 1, true},
};

bool Turns(Place place) {
  return place == Place::kV || place == Place::kWave || place == Place::kTwoVs;
}

void AddStages(const KnownSchedule& schedule, int64_t ranks, int64_t turns, bool reversed,
               int32_t pipe, Plan* plan) {
  for (int64_t s = 0; s < ranks * turns; ++s) {
    const int64_t along = s % ranks;
    const bool back = (Turns(schedule.place) && s / ranks % 2 == 1) != reversed;
    const int64_t rank = back ? ranks - 1 - along : along;
    plan->stages.push_back({RankId(static_cast<int32_t>(rank)), pipe});
  }
}

}  // namespace

absl::Span<const KnownSchedule> KnownSchedules() { return kSchedules; }

int IndexOfSchedule(absl::string_view name) {
  for (size_t i = 0; i < std::size(kSchedules); ++i) {
    if (kSchedules[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int64_t> TurnsToTry(const KnownSchedule& schedule, int64_t ranks, int64_t layers) {
  constexpr int64_t kMostTurns = 64;
  if (schedule.place == Place::kLine || schedule.place == Place::kTwoLines) return {1};
  if (schedule.place == Place::kV || schedule.place == Place::kTwoVs) return {2};
  std::set<int64_t> turns;
  // A stage of the model counts embedding and head as layers, or does not.
  for (const int64_t units : {layers, layers + 2}) {
    for (int64_t largest = 1; largest <= units; ++largest) {
      const int64_t fewest = (units + ranks * largest - 1) / (ranks * largest);
      if (fewest < 2) break;
      const bool halves = schedule.place == Place::kWave;
      if (fewest <= kMostTurns && ranks * fewest <= units && (!halves || fewest % 2 == 0)) {
        turns.insert(fewest);
      }
    }
  }
  return {turns.begin(), turns.end()};
}

Plan StagesOnly(const KnownSchedule& schedule, int64_t ranks, int64_t microbatches, int64_t turns) {
  Plan plan;
  plan.schedule = schedule.name;
  plan.slices = static_cast<int>(schedule.slices == 0 ? ranks : schedule.slices);
  plan.microbatches = static_cast<int>(microbatches) * plan.slices;
  plan.first.assign(static_cast<size_t>(ranks) + 1, 0);
  AddStages(schedule, ranks, turns, false, 0, &plan);
  if (schedule.place == Place::kTwoLines || schedule.place == Place::kTwoVs) {
    const auto stages = static_cast<int>(ranks * turns);
    AddStages(schedule, ranks, turns, true, 1, &plan);
    const auto up = static_cast<int>(microbatches / 2);
    const int down = static_cast<int>(microbatches) - up;
    plan.pipes = {{"down", StageId(0), stages, 0, down}, {"up", StageId(stages), stages, down, up}};
  }
  plan.SetChains();
  return plan;
}

}  // namespace stringline::tune
