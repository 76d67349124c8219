// A rank's list is walked group by group: what a group gives is alive from its begin, what it
// releases until its end.
#include "schedlang/check/live_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/base/align.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

// Walks over the rank's groups: `visit(begin, end)` with indices into plan.actions.
template <typename Visit>
void ForEachGroup(const Plan& plan, RankId rank, Visit visit) {
  for (uint32_t i = plan.first[rank.value]; i < plan.first[rank.value + 1];) {
    const auto end = i + static_cast<uint32_t>(GroupAt(plan.actions, i).size());
    visit(i, end);
    i = end;
  }
}

// "microbatches 0 .. 4, 7"; with slices "3.0 .. 4.1".
std::string Ranges(const Plan& plan, const std::set<int32_t>& numbers) {
  const auto print = [&plan](int32_t number) {
    return PrintMicrobatch(plan.slices, MicrobatchId(number));
  };
  std::string out = numbers.size() == 1 ? "microbatch " : "microbatches ";
  const char* separator = "";
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int32_t first = *it;
    int32_t last = first;
    for (++it; it != numbers.end() && *it == last + 1; ++it) last = *it;
    absl::StrAppend(&out, separator, print(first));
    if (last > first) absl::StrAppend(&out, last == first + 1 ? ", " : " .. ", print(last));
    separator = ", ";
  }
  return out;
}

using MicrobatchesByStage = std::map<StageId, std::set<int32_t>>;

// "stage 0: microbatches 0 .. 4, 7; stage 7: microbatch 2"
std::string Print(const Plan& plan, const MicrobatchesByStage& stages) {
  std::string out;
  for (const auto& [stage, microbatches] : stages) {
    if (microbatches.empty()) continue;
    absl::StrAppend(&out, out.empty() ? "" : "; ", "stage ", PrintStage(plan.pipes, stage), ": ",
                    Ranges(plan, microbatches));
  }
  return out;
}

// Calls visit(index, comes) for the F and the B or W of every microbatch that a D copies: between
// them the host has room for it.
template <typename Visit>
void ForEachOnHost(const Plan& plan, RankId rank, Visit visit) {
  std::set<std::pair<StageId, int32_t>> copied;
  for (const Action& action : plan.of(rank)) {
    if (action.kind != ActionKind::kOffload) continue;
    copied.emplace(action.stage, action.microbatch.value);
  }
  for (uint32_t i = plan.first[rank.value]; i < plan.first[rank.value + 1]; ++i) {
    const Action& action = plan.actions[i];
    const bool comes = action.kind == ActionKind::kForward;
    if (!comes && !Performs(action.kind, ActionKind::kWeightGradient)) continue;
    if (copied.count({action.stage, action.microbatch.value}) > 0) visit(i, comes);
  }
}

// The bytes of own values that other ranks keep on this one, as if all did so most of what they
// ever do at once: lists of several ranks have no common order.
int64_t MostLentTo(const Plan& plan, RankId rank, const std::vector<StageSizes>& bytes) {
  int64_t all = 0;
  for (int r = 0; r < plan.ranks() && !plan.rows.values.empty(); ++r) {
    int64_t lent = 0, most = 0;
    for (const Action& action : plan.of(RankId(r))) {
      if (!IsOwn(action.kind)) continue;
      const Effects& effects = EffectsOf(plan, action);
      for (const OwnValue& value : plan.rows.values) {
        const auto s = static_cast<size_t>(action.stage.value);
        if (!IsAway(value.value) || value.ranks[s] != rank.value) continue;
        const int64_t size = bytes[s].of_microbatch[value.value];
        if (effects.gives & SetOf(value.value)) most = std::max(most, lent += size);
        if (effects.releases & SetOf(value.value)) lent -= size;
      }
    }
    all += most;
  }
  return all;
}

}  // namespace

PeakActivations PeakActivationsOf(const Plan& plan, RankId rank) {
  PeakActivations peak;
  int live = 0;
  ForEachGroup(plan, rank, [&](uint32_t begin, uint32_t end) {
    int released = 0;
    for (uint32_t i = begin; i < end; ++i) {
      const int change = ActivationChange(plan, plan.actions[i].kind);
      (change > 0 ? live : released) += change;
    }
    if (live > peak.count) peak = {live, end - 1};
    live += released;
  });
  return peak;
}

int MostActivationsOf(const Plan& plan) {
  std::vector<int> most(static_cast<size_t>(plan.ranks()), 0);
  if (plan.window > 0) {
    most = RoomOf(plan).ranks;
  } else {
    ForEachOnCores(plan.ranks(), plan.actions.size(), [&](int rank) {
      most[static_cast<size_t>(rank)] = PeakActivationsOf(plan, RankId(rank)).count;
    });
  }
  return most.empty() ? 0 : *std::max_element(most.begin(), most.end());
}

PeakBytes PeakBytesOf(const Plan& plan, RankId rank, const std::vector<StageSizes>& bytes) {
  int64_t live = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].rank == rank) live += bytes[s].resident;
  }
  live += MostLentTo(plan, rank, bytes);
  PeakBytes peak{live, plan.first[rank.value]};
  const auto bytes_of = [&](const Action& action, Values values, bool given) {
    int64_t sum = 0;
    ForEachOf(values, [&](StageValue value) {
      if (IsOnHost(value) || IsAway(value)) return;
      const MicrobatchId m = given ? GivenTo(plan, action.microbatch, value) : action.microbatch;
      ForEachEntry(plan, action, value, [&](StageId entry) {
        sum += bytes[entry.value].of_microbatch[value] * SlicesIn(plan, m, value);
      });
    });
    return sum;
  };
  ForEachGroup(plan, rank, [&](uint32_t begin, uint32_t end) {
    int64_t released = 0;
    for (uint32_t i = begin; i < end; ++i) {
      const Action& action = plan.actions[i];
      if (IsCollective(action.kind)) {
        const int64_t gathered = bytes[action.stage.value].gathered;
        if (action.kind == ActionKind::kUnshard) live += gathered;
        if (action.kind == ActionKind::kReshard) released += gathered;
        continue;
      }
      const Effects& effects = EffectsOf(plan, action);
      live += bytes_of(action, effects.gives, /*given=*/true);
      released += bytes_of(action, effects.releases, /*given=*/false);
    }
    if (live > peak.bytes) peak = {live, end - 1};
    live -= released;
  });
  return peak;
}

namespace {

// In ready order there is room for all microbatches that the first of two stages may hold.
int ReceiveBuffersOfReady(const Plan& plan, RankId rank) {
  const ReadyRoom room = RoomOf(plan);
  int sum = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId next = plan.graph.Behind(StageId(static_cast<int32_t>(s)));
    if (!next.valid() || plan.stage(next).rank == plan.stages[s].rank) continue;
    const bool receives = plan.stage(next).rank == rank || plan.stages[s].rank == rank;
    sum += receives ? room.stages[s].activations : 0;
  }
  return sum;
}

}  // namespace

std::vector<int> ReceiveBuffersOf(const Plan& plan) {
  std::vector<int> most(static_cast<size_t>(plan.ranks()), 0);
  if (plan.window > 0) {
    for (int r = 0; r < plan.ranks(); ++r) most[r] = ReceiveBuffersOfReady(plan, RankId(r));
    return most;
  }
  // By entry and microbatch: 1 between the receive and the last use. Of an entry one rank has the
  // inputs, and one the gradients.
  const auto microbatches = static_cast<size_t>(plan.microbatches);
  std::vector<char> inputs(static_cast<size_t>(plan.graph.entries()) * microbatches, 0);
  std::vector<char> gradients(inputs);
  ForEachOnCores(plan.ranks(), plan.actions.size(), [&](int rank) {
    int posted = 0;
    const auto take = [&](const Action& action, StageValue value, bool comes) {
      ForEachEntry(plan, action, value, [&](StageId entry) {
        char& there = (value == StageValue::kInput
                           ? inputs
                           : gradients)[static_cast<size_t>(entry.value) * microbatches +
                                        static_cast<size_t>(action.microbatch.value)];
        posted += (comes ? 1 : 0) - there;
        there = comes ? 1 : 0;
      });
    };
    ForEachGroup(plan, RankId(rank), [&](uint32_t begin, uint32_t end) {
      for (uint32_t i = begin; i < end; ++i) {
        const Action& action = plan.actions[i];
        if (!IsRecv(action.kind)) continue;
        const bool forward = action.kind == ActionKind::kRecvForward;
        take(action, forward ? StageValue::kInput : StageValue::kOutGrad, true);
      }
      most[static_cast<size_t>(rank)] = std::max(most[static_cast<size_t>(rank)], posted);
      for (uint32_t i = begin; i < end; ++i) {
        const Action& action = plan.actions[i];
        if (!IsCompute(action.kind)) continue;
        const Values releases = EffectsOf(action.kind).releases;
        ForEachOf(releases & (kInput | kOutGrad),
                  [&](StageValue value) { take(action, value, false); });
      }
    });
  });
  return most;
}

namespace {

using ValueOf = std::tuple<StageId, MicrobatchId, StageValue>;

// The values of the rank that are alive while action `last` of its list runs.
std::set<ValueOf> AliveDuring(const Plan& plan, RankId rank, uint32_t last) {
  std::set<ValueOf> alive;
  const auto change = [&](const Action& action, Values values, bool gives) {
    ForEachOf(values, [&](StageValue value) {
      if (IsOnHost(value) || IsAway(value)) return;
      ForEachEntry(plan, action, value, [&](StageId entry) {
        if (gives) alive.emplace(entry, GivenTo(plan, action.microbatch, value), value);
        if (!gives) alive.erase({entry, action.microbatch, value});
      });
    });
  };
  ForEachGroup(plan, rank, [&](uint32_t begin, uint32_t end) {
    if (begin > last) return;
    for (const bool gives : {true, false}) {
      if (!gives && last < end) return;  // the group of `last` is running
      for (uint32_t i = begin; i < end; ++i) {
        const Action& action = plan.actions[i];
        if (IsCollective(action.kind)) continue;
        const Effects& effects = EffectsOf(plan, action);
        change(action, gives ? effects.gives : effects.releases, gives);
      }
    }
  });
  return alive;
}

}  // namespace

BlockGap LargestGapOf(const Plan& plan, RankId rank, uint32_t last,
                      const std::vector<StageSizes>& bytes, const MemoryPlan& memory) {
  struct Piece {
    int64_t begin, end;
    std::string name;
  };
  std::vector<Piece> pieces;
  for (const auto& [stage, microbatch, value] : AliveDuring(plan, rank, last)) {
    const int64_t begin = memory.OffsetOf(stage, microbatch, value);
    const int64_t size =
        bytes[stage.value].of_microbatch[value] * SlicesIn(plan, microbatch, value);
    if (begin < 0 || size == 0) continue;
    pieces.push_back({begin, begin + AlignUp(size), DescribeEntry(plan, stage, microbatch, value)});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& x, const Piece& y) { return x.begin < y.begin; });
  const int64_t block = memory.ranks[rank.value].block;
  pieces.push_back({block, block, ""});
  BlockGap largest{last, 0, 0, "", ""};
  int64_t end = 0;
  std::string below;
  for (const Piece& piece : pieces) {
    if (piece.begin - end > largest.end - largest.begin) {
      largest = {last, end, piece.begin, below, piece.name};
    }
    if (piece.end <= end) continue;
    end = piece.end;
    below = piece.name;
  }
  return largest;
}

std::string Describe(const BlockGap& gap) {
  if (gap.begin == gap.end) return "";
  std::string text = absl::StrCat(PrintBytes(gap.end - gap.begin), ", from ", PrintBytes(gap.begin),
                                  " to ", PrintBytes(gap.end), " of the block");
  if (gap.below.empty() && gap.above.empty()) return text + ", in which nothing is alive";
  absl::StrAppend(&text, ", ", gap.below.empty() ? "" : absl::StrCat("above ", gap.below),
                  gap.below.empty() || gap.above.empty() ? "" : ", and ",
                  gap.above.empty() ? "" : absl::StrCat("below ", gap.above));
  return text;
}

bool UsesHosts(const Plan& plan) {
  return std::any_of(plan.rows.values.begin(), plan.rows.values.end(),
                     [](const OwnValue& value) { return IsOnHost(value.value); }) ||
         std::any_of(plan.actions.begin(), plan.actions.end(),
                     [](const Action& action) { return action.kind == ActionKind::kOffload; });
}

PeakBytes PeakOnHostOf(const Plan& plan, RankId rank, const std::vector<StageSizes>& bytes) {
  PeakBytes peak{0, plan.first[rank.value]};
  int64_t there = 0;
  ForEachOnHost(plan, rank, [&](uint32_t i, bool comes) {
    const StageId stage = plan.actions[i].stage;
    const int64_t moved = bytes[stage.value].of_microbatch[StageValue::kHosted];
    there += comes ? moved : -moved;
    if (there > peak.bytes) peak = {there, i};
  });
  if (plan.rows.values.empty()) return peak;
  // Own values on the host, beside the most that D leaves there.
  int64_t own = 0, most = 0;
  uint32_t at = peak.action;
  for (uint32_t i = plan.first[rank.value]; i < plan.first[rank.value + 1]; ++i) {
    const Action& action = plan.actions[i];
    if (!IsOwn(action.kind)) continue;
    const Effects& effects = EffectsOf(plan, action);
    const StageBytes& sizes = bytes[action.stage.value].of_microbatch;
    ForEachOf(effects.gives & kOwnValues,
              [&](StageValue value) { own += IsOnHost(value) ? sizes[value] : 0; });
    if (own > most) {
      most = own;
      at = i;
    }
    ForEachOf(effects.releases & kOwnValues,
              [&](StageValue value) { own -= IsOnHost(value) ? sizes[value] : 0; });
  }
  return most > 0 ? PeakBytes{peak.bytes + most, at} : peak;
}

absl::StatusOr<std::vector<RankMemory>> MemoryOfRanks(const Plan& lowered,
                                                      const std::vector<StageSizes>& bytes) {
  if (lowered.rows.empty()) {
    SL_ASSIGN_OR_RETURN(MemoryPlan memory, PlanMemory(lowered, bytes));
    return std::move(memory.ranks);
  }
  std::vector<RankMemory> ranks;
  for (int r = 0; r < lowered.ranks(); ++r) {
    const RankId rank(r);
    RankMemory& of = ranks.emplace_back();
    of.block = of.alive = PeakBytesOf(lowered, rank, bytes).bytes;
    of.host = PeakOnHostOf(lowered, rank, bytes).bytes;
    int64_t temporaries = 0;
    for (const Action& action : lowered.of(rank)) {
      if (!IsCompute(action.kind)) continue;
      temporaries = std::max(
          temporaries, bytes[action.stage.value].temporaries[static_cast<size_t>(action.kind)]);
    }
    of.arenas = {temporaries};
  }
  return ranks;
}

std::string DescribeOnHost(const Plan& plan, RankId rank, uint32_t last) {
  MicrobatchesByStage there;
  ForEachOnHost(plan, rank, [&](uint32_t i, bool comes) {
    if (i > last) return;
    const Action& action = plan.actions[i];
    if (comes) {
      there[action.stage].insert(action.microbatch.value);
    } else {
      there[action.stage].erase(action.microbatch.value);
    }
  });
  return Print(plan, there);
}

std::string DescribeAlive(const Plan& plan, RankId rank, uint32_t last) {
  MicrobatchesByStage alive;
  std::set<StageId> gathered;
  for (uint32_t i = plan.first[rank.value]; i <= last; ++i) {
    const Action& action = plan.actions[i];
    if (action.kind == ActionKind::kUnshard) gathered.insert(action.stage);
    if (action.kind == ActionKind::kReshard) gathered.erase(action.stage);
    const int change = ActivationChange(plan, action.kind);
    // A value released by a part of the peak's own group is still live at the peak.
    const bool releases = change < 0 && !(i <= last && last - i < GroupAt(plan.actions, i).size());
    if (change > 0) alive[action.stage].insert(action.microbatch.value);
    if (releases) alive[action.stage].erase(action.microbatch.value);
  }
  std::string out = Print(plan, alive);
  const char* separator = out.empty() ? "gathered: stage " : "; gathered: stage ";
  for (const StageId stage : gathered) {
    absl::StrAppend(&out, separator, PrintStage(plan.pipes, stage));
    separator = ", ";
  }
  return out;
}

}  // namespace stringline
