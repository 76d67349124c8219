// Ready order: a judge that visits every state of all ranks of small plans, written from the rules
// of plan/ready.h and not from the code, and a clock that looks for the next event by trying all.
#include "schedlang/sim/ready_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/rules.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/ready.h"
#include "schedlang/report/variations.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/ready_plans.h"

namespace stringline {
namespace {

int SeedOfTest() { return 20'260'527; }

// The numbers that a limit is about: of the rank, of a stage, and of its deferred gradients.
using Counts = std::map<std::string, int>;

void Add(const Plan& plan, const Action& action, int sign, Counts* counts) {
  const std::string rank = absl::StrCat("rank ", plan.stage(action.stage).rank.value);
  const std::string stage = absl::StrCat("stage ", action.stage.value);
  const std::string deferred = absl::StrCat("deferred ", action.stage.value);
  if (action.kind == ActionKind::kForward) {
    (*counts)[rank] += sign;
    (*counts)[stage] += sign;
  }
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
    (*counts)[rank] -= sign;
    (*counts)[stage] -= sign;
  }
  if (action.kind == ActionKind::kInputGradient) (*counts)[deferred] += sign;
  if (action.kind == ActionKind::kWeightGradient) (*counts)[deferred] -= sign;
}

bool Within(const Counts& counts, const Counts& limits) {
  return std::all_of(counts.begin(), counts.end(), [&](const auto& count) {
    const auto limit = limits.find(count.first);
    return count.second <= (limit == limits.end() ? 0 : limit->second);
  });
}

// A plan without messages, and its limits.
struct ReadyRules {
  explicit ReadyRules(const Plan& plan) : plan(plan) {
    for (int r = 0; r < plan.ranks(); ++r) {
      Counts counts;
      for (const Action& action : plan.of(RankId(r))) {
        Add(plan, action, 1, &counts);
        for (const auto& [name, count] : counts) limits[name] = std::max(limits[name], count);
      }
    }
    for (auto& [name, limit] : limits) {
      if (limit > 0 || name.rfind("deferred", 0) != 0) limit += plan.slack;
    }
  }

  // The rank's choice; -1: it waits.
  int Choose(int rank, uint64_t performed, uint64_t ready) const {
    std::vector<uint32_t> left;
    Counts now;
    for (uint32_t i = plan.first[rank]; i < plan.first[rank + 1]; ++i) {
      if (performed >> i & 1) {
        Add(plan, plan.actions[i], 1, &now);
      } else {
        left.push_back(i);
      }
    }
    for (size_t k = 0; k < left.size() && k < static_cast<size_t>(plan.window); ++k) {
      if ((ready >> left[k] & 1) == 0) continue;
      Counts counts = now;
      Add(plan, plan.actions[left[k]], 1, &counts);
      bool fits = Within(counts, limits);
      for (size_t j = 0; j < left.size(); ++j) {
        if (j == k) continue;
        Add(plan, plan.actions[left[j]], 1, &counts);
        fits = fits && Within(counts, limits);
      }
      if (fits) return static_cast<int>(left[k]);
    }
    return -1;
  }

  const Plan& plan;
  Counts limits;
};

uint32_t FindOf(const Plan& plan, StageId stage, MicrobatchId m,
                const std::set<ActionKind>& kinds) {
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (action.stage == stage && action.microbatch == m && kinds.count(action.kind) > 0) return i;
  }
  return UINT32_MAX;
}

const std::set<ActionKind> kForwardKinds = {ActionKind::kForward};
const std::set<ActionKind> kGradientKinds = {ActionKind::kBackward, ActionKind::kInputGradient};
const std::set<ActionKind> kWeightKinds = {ActionKind::kWeightGradient};

// The actions that an ended one gives a value: on its rank, and by a message.
struct Takers {
  uint64_t here = 0;
  uint32_t there = UINT32_MAX;
};

Takers TakersOf(const Plan& plan, uint32_t i) {
  Takers takers;
  const Action& action = plan.actions[i];
  const Stage& stage = plan.stage(action.stage);
  const auto give = [&](StageId to, const std::set<ActionKind>& kinds) {
    const uint32_t taker = FindOf(plan, to, action.microbatch, kinds);
    if (taker == UINT32_MAX) return;
    if (plan.stage(to).rank == stage.rank) {
      takers.here |= uint64_t{1} << taker;
    } else {
      takers.there = taker;
    }
  };
  if (action.kind == ActionKind::kForward) {
    const StageId next = plan.graph.Behind(action.stage);
    next.valid() ? give(next, kForwardKinds) : give(action.stage, kGradientKinds);
  } else if (action.kind != ActionKind::kWeightGradient) {
    if (action.kind == ActionKind::kInputGradient) give(action.stage, kWeightKinds);
    const StageId previous = plan.graph.Before(action.stage);
    if (previous.valid()) give(previous, kGradientKinds);
  }
  return takers;
}

uint64_t ReadyAtFirst(const Plan& plan) {
  uint64_t ready = 0;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (action.kind == ActionKind::kForward && plan.graph.In(action.stage).empty()) {
      ready |= uint64_t{1} << i;
    }
  }
  return ready;
}

// Visits every state that the ranks of a plan without messages can reach.
class ReadyJudge {
 public:
  explicit ReadyJudge(const Plan& plan) : plan_(plan), rules_(plan) {
    for (uint32_t i = 0; i < plan.actions.size(); ++i) takers_.push_back(TakersOf(plan, i));
  }

  bool Run() {
    State first{0, ReadyAtFirst(plan_), {}, std::vector<int>(plan_.ranks(), -1)};
    Add(first);
    while (!left_.empty()) {
      const State state = left_.back();
      left_.pop_back();
      if (!Step(state) && state.performed != All()) stuck = true;
    }
    return !stuck;
  }

  bool stuck = false;
  bool keeps_order = true;                                 // of each stage, in F, B or I, and W
  std::vector<int> peaks = std::vector<int>(8, 0);         // by rank
  std::vector<int> stage_peaks = std::vector<int>(16, 0);  // by stage
  size_t states = 0;

 private:
  struct State {
    uint64_t performed = 0;
    uint64_t ready = 0;
    std::vector<uint32_t> sent;  // messages on their way, as they were sent: their takers
    std::vector<int> running;    // by rank; -1: none
    bool operator<(const State& o) const {
      return std::tie(performed, ready, sent, running) <
             std::tie(o.performed, o.ready, o.sent, o.running);
    }
  };

  uint64_t All() const { return (uint64_t{1} << plan_.actions.size()) - 1; }

  void Add(const State& state) {
    if (!seen_.insert(state).second) return;
    ++states;
    left_.push_back(state);
    for (int r = 0; r < plan_.ranks(); ++r) {
      int held = 0;
      std::vector<int> of_stage(plan_.stages.size(), 0);
      for (uint32_t i = plan_.first[r]; i < plan_.first[r + 1]; ++i) {
        const Action& action = plan_.actions[i];
        const bool done = state.performed >> i & 1;
        int by = 0;
        if (action.kind == ActionKind::kForward && (done || state.running[r] == int(i))) by = 1;
        if (done &&
            (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient)) {
          by = -1;
        }
        held += by;
        of_stage[action.stage.value] += by;
      }
      peaks[r] = std::max(peaks[r], held);
      for (size_t s = 0; s < of_stage.size(); ++s) {
        stage_peaks[s] = std::max(stage_peaks[s], of_stage[s]);
      }
    }
  }

  // The action begins: all of its sort that its stage lists before it have been performed.
  void NoteOrder(uint32_t i, const State& state) {
    const Action& action = plan_.actions[i];
    for (uint32_t k = plan_.first[plan_.stage(action.stage).rank.value]; k < i; ++k) {
      const Action& other = plan_.actions[k];
      if (other.stage == action.stage && other.kind == action.kind && !(state.performed >> k & 1)) {
        keeps_order = false;
      }
    }
  }

  // True if anything can happen in the state.
  bool Step(const State& state) {
    bool moved = false;
    for (int r = 0; r < plan_.ranks(); ++r) {
      State next = state;
      if (state.running[r] < 0) {
        const int chosen = rules_.Choose(r, state.performed, state.ready);
        if (chosen < 0) continue;
        NoteOrder(static_cast<uint32_t>(chosen), state);
        next.running[r] = chosen;
      } else {
        const auto ended = static_cast<uint32_t>(state.running[r]);
        next.running[r] = -1;
        next.performed |= uint64_t{1} << ended;
        next.ready |= takers_[ended].here;
        if (takers_[ended].there != UINT32_MAX) next.sent.push_back(takers_[ended].there);
      }
      moved = true;
      Add(next);
    }
    // Messages of a stage in one direction arrive as they were sent; all others in any order.
    std::set<std::pair<int, int>> channels;
    for (size_t k = 0; k < state.sent.size(); ++k) {
      const Action& taker = plan_.actions[state.sent[k]];
      const bool forward = taker.kind == ActionKind::kForward;
      if (!channels.insert({taker.stage.value, forward ? 0 : 1}).second) continue;
      State next = state;
      next.ready |= uint64_t{1} << state.sent[k];
      next.sent.erase(next.sent.begin() + static_cast<std::ptrdiff_t>(k));
      moved = true;
      Add(next);
    }
    return moved;
  }

  const Plan& plan_;
  const ReadyRules rules_;
  std::vector<Takers> takers_;  // by action
  std::set<State> seen_;
  std::vector<State> left_;
};

int DrawNumber(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<uint64_t>(most - least + 1));
}

std::string FindingOf(const Plan& plan, const CheckOptions& options = {}) {
  Diagnostics findings;
  Check(Lower(plan), options, &findings);
  return findings.empty() ? "" : findings.findings()[0].text;
}

Code CodeOf(const Plan& plan) {
  Diagnostics findings;
  Check(Lower(plan), &findings);
  return findings.findings().at(0).code;
}

TEST(ReadyOrder, EveryStateOfProvenPlansGoesOnAndStaysWithinItsRoom) {
  std::mt19937_64 random(SeedOfTest());
  int64_t states = 0;
  int tight = 0, ranks = 0;
  constexpr int kPlans = 3000;
  for (int n = 0; n < kPlans; ++n) {
    const Plan plan = RandomReadyPlan(random, 15, false);
    ASSERT_EQ(FindingOf(plan), "") << "plan " << n << " of seed " << SeedOfTest() << "\n"
                                   << Print(plan);
    const ReadyRoom room = RoomOf(plan);
    ReadyJudge judge(plan);
    ASSERT_TRUE(judge.Run()) << Print(plan);
    ASSERT_TRUE(judge.keeps_order) << Print(plan);
    for (int r = 0; r < plan.ranks(); ++r) {
      ASSERT_LE(judge.peaks[r], room.ranks[r]) << Print(plan);
      if (plan.slack == 0 && room.ranks[r] > 0) {
        ++ranks;
        tight += judge.peaks[r] == room.ranks[r] ? 1 : 0;
      }
    }
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      ASSERT_LE(judge.stage_peaks[s], room.stages[s].activations) << Print(plan);
    }
    states += static_cast<int64_t>(judge.states);
  }
  EXPECT_GT(states, 100'000);
  // Without slack nearly every rank can reach what `check` says.
  EXPECT_GT(tight, ranks * 9 / 10) << ranks;
  RecordProperty("states", std::to_string(states));
}

TEST(ReadyOrder, RefusedOrdersGetStuckWhereTheWindowIsOne) {
  std::mt19937_64 random(SeedOfTest() + 1);
  int refused = 0, moved_on = 0, of_order = 0;
  for (int n = 0; n < 3000; ++n) {
    Plan plan = RandomReadyPlan(random, 12, true);
    const std::string finding = FindingOf(plan);
    if (finding.empty()) {
      ASSERT_TRUE(ReadyJudge(plan).Run()) << Print(plan);
      continue;
    }
    if (CodeOf(plan) == Code::kReadyOrder) {
      ++of_order;
      continue;
    }
    ++refused;
    moved_on += ReadyJudge(plan).Run() ? 1 : 0;
    plan.window = 1;
    ReadyJudge judge(plan);
    EXPECT_FALSE(judge.Run()) << finding << "\n" << Print(plan);
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(of_order, 50);
  EXPECT_GT(moved_on, 0);  // a list is refused by its own order, though a window may save it
}

// Ready order without the rule about the order of microbatches lets a stage begin them in another
// order.
TEST(ReadyOrder, WithoutOneOrderOfMicrobatchesAStageMayChangeItsOwn) {
  Plan plan = PlanFromText(
      "plan s P=2 M=2\nstages 0 1\nwindow 4 slack 0\n"
      "rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0\n");
  EXPECT_EQ(CodeOf(plan), Code::kReadyOrder);
  ReadyJudge judge(plan);
  judge.Run();
  EXPECT_FALSE(judge.keeps_order);
}

CostModel RandomReadyCosts(const Plan& plan, std::mt19937_64& random) {
  const auto times = [&] {
    std::string list = "[";
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      absl::StrAppend(&list, s == 0 ? "" : ",", DrawNumber(random, 1, 9), "us");
    }
    return list + "]";
  };
  std::string text = absl::StrCat("F=", times(), ",B=", times(), ",I=", times(), ",W=", times());
  absl::StrAppend(&text, ",p2p=", DrawNumber(random, 0, 3), "us");
  if (random() % 2 == 0) {
    absl::StrAppend(&text, ",bandwidth=1GB/s,message=", DrawNumber(random, 1, 6000), "B");
  }
  const auto costs = ResolveCosts(*ParseCosts(text), plan);
  EXPECT_TRUE(costs.ok()) << costs.status() << text;
  return *costs;
}

// The end of the step, found by trying all events for the next one.
int64_t NaiveEnd(const Plan& plan, const CostModel& costs) {
  const ReadyRules rules(plan);
  const size_t n = plan.actions.size();
  uint64_t performed = 0, ready = ReadyAtFirst(plan);
  std::vector<int> running(plan.ranks(), -1);
  std::vector<int64_t> ends(plan.ranks(), 0), comes(n, -1);
  std::map<std::pair<int, int>, int64_t> free_at;
  int64_t now = 0;
  while (performed != (uint64_t{1} << n) - 1) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (int r = 0; r < plan.ranks(); ++r) {
        if (running[r] < 0 || ends[r] != now) continue;
        const auto i = static_cast<uint32_t>(running[r]);
        const Action& action = plan.actions[i];
        const Takers takers = TakersOf(plan, i);
        performed |= uint64_t{1} << i;
        ready |= takers.here;
        running[r] = -1;
        changed = true;
        if (takers.there == UINT32_MAX) continue;
        Action send = action;
        send.kind = action.kind == ActionKind::kForward ? ActionKind::kSendForward
                                                        : ActionKind::kSendBackward;
        const Hop hop = HopOf(plan, costs, send);
        int64_t& free = free_at[{r, plan.stage(plan.actions[takers.there].stage).rank.value}];
        free = std::max(free, now) + hop.transfer_ns;
        comes[takers.there] = free + hop.latency_ns;
      }
      for (uint32_t i = 0; i < n; ++i) {
        if (comes[i] != now || (ready >> i & 1)) continue;
        ready |= uint64_t{1} << i;
        changed = true;
      }
      if (changed) continue;
      for (int r = 0; r < plan.ranks(); ++r) {
        const int chosen = running[r] >= 0 ? -1 : rules.Choose(r, performed, ready);
        if (chosen < 0) continue;
        running[r] = chosen;
        ends[r] = now + GroupCost(costs, {&plan.actions[chosen], 1});
      }
    }
    int64_t next = INT64_MAX;
    for (int r = 0; r < plan.ranks(); ++r) {
      if (running[r] >= 0) next = std::min(next, ends[r]);
    }
    for (uint32_t i = 0; i < n; ++i) {
      if (comes[i] > now && !(ready >> i & 1)) next = std::min(next, comes[i]);
    }
    if (next == INT64_MAX) break;
    now = next;
  }
  return now;
}

TEST(ReadyOrder, WhatIsPerformedIsAPlanOfTheSameTime) {
  std::mt19937_64 random(SeedOfTest() + 2);
  int sooner = 0, later = 0;
  for (int n = 0; n < 1500; ++n) {
    const Plan plan = RandomReadyPlan(random, 50, false);
    const CostModel costs = RandomReadyCosts(plan, random);
    const Plan performed = PerformedAt(Lower(plan), costs);
    ASSERT_EQ(performed.window, 0);
    ASSERT_EQ(FindingOf(performed), "") << Print(plan);
    const ReadyRoom room = RoomOf(plan);
    for (int r = 0; r < plan.ranks(); ++r) {
      ASSERT_LE(PeakActivationsOf(performed, RankId(r)).count, room.ranks[r]) << Print(plan);
    }
    const auto timeline = Simulate(Lower(performed), costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    ASSERT_EQ(MakespanOf(*timeline), NaiveEnd(plan, costs))
        << "plan " << n << " of seed " << SeedOfTest() + 2 << "\n"
        << Print(plan);
    const auto listed = Simulate(Lower(InListOrder(plan)), costs);
    sooner += MakespanOf(*timeline) < MakespanOf(*listed) ? 1 : 0;
    later += MakespanOf(*timeline) > MakespanOf(*listed) ? 1 : 0;
  }
  EXPECT_GT(sooner, 5 * later);
}

TEST(ReadyOrder, AWindowOfOneIsTheOrderOfTheLists) {
  std::mt19937_64 random(SeedOfTest() + 3);
  for (int n = 0; n < 200; ++n) {
    Plan plan = RandomReadyPlan(random, 50, false);
    plan.window = 1;
    const CostModel costs = RandomReadyCosts(plan, random);
    EXPECT_EQ(Print(PerformedAt(plan, costs)), Print(InListOrder(plan)));
  }
}

TEST(ReadyOrder, LateGradientsAreAnOrderThatCanHappen) {
  std::mt19937_64 random(SeedOfTest() + 4);
  for (int n = 0; n < 500; ++n) {
    const Plan plan = RandomReadyPlan(random, 50, false);
    const Plan late = WithLateGradients(Lower(plan));
    ASSERT_EQ(FindingOf(late), "") << Print(plan);
    for (int r = 0; r < plan.ranks(); ++r) {
      ASSERT_LE(PeakActivationsOf(late, RankId(r)).count, RoomOf(plan).ranks[r]) << Print(plan);
    }
  }
}

// The time and the bytes of a value in a performance.
struct PlacedLife {
  int64_t from, until, begin, end;
  std::string name;
};

// The lives of all values of a performance, by rank, at the places of the plan's memory.
class PlacedLives {
 public:
  PlacedLives(const Plan& performed, const Timeline& timeline, const MemoryPlan& memory,
              const std::vector<StageSizes>& sizes)
      : performed_(performed), timeline_(timeline), memory_(memory), sizes_(sizes) {
    lives.resize(static_cast<size_t>(performed.ranks()));
    for (int32_t s = 0; s < static_cast<int32_t>(performed.stages.size()); ++s) {
      for (int32_t m = 0; m < performed.microbatches; ++m) AddAll(StageId(s), MicrobatchId(m));
    }
  }

  std::vector<std::vector<PlacedLife>> lives;

 private:
  const Event& Of(StageId stage, MicrobatchId m, const std::set<ActionKind>& kinds) const {
    return timeline_.events.at(FindOf(performed_, stage, m, kinds));
  }

  void Add(StageId stage, MicrobatchId m, StageValue value, int64_t from, int64_t until) {
    const int64_t offset = memory_.OffsetOf(stage, m, value);
    const int64_t bytes = sizes_[stage.value].of_microbatch[value];
    const auto rank = static_cast<size_t>(performed_.stage(stage).rank.value);
    ASSERT_GE(offset, 0) << static_cast<int>(value);
    ASSERT_LE(offset + bytes, memory_.ranks[rank].block);
    lives[rank].push_back({from, until, offset, offset + bytes,
                           absl::StrCat(stage.value, " ", m.value, " ", static_cast<int>(value))});
  }

  void AddAll(StageId id, MicrobatchId m) {
    const Event &forward = Of(id, m, kForwardKinds), &back = Of(id, m, kGradientKinds);
    const bool split = FindOf(performed_, id, m, kWeightKinds) != UINT32_MAX;
    const Event& last = split ? Of(id, m, kWeightKinds) : back;
    Add(id, m, StageValue::kSavedForInput, forward.start_ns, back.end_ns);
    Add(id, m, StageValue::kSavedForWeight, forward.start_ns, last.end_ns);
    if (split) Add(id, m, StageValue::kStash, back.start_ns, last.end_ns);
    const StageId next = performed_.graph.Behind(id);
    if (!next.valid()) return;
    const bool crosses = !performed_.SameRank(id, next);
    const Event& taken = Of(next, m, kForwardKinds);
    const Event& given = Of(next, m, kGradientKinds);
    // A message is written on the other rank when its producer has ended.
    if (crosses) Add(id, m, StageValue::kOutput, forward.start_ns, taken.start_ns);
    Add(next, m, StageValue::kInput, crosses ? forward.end_ns : forward.start_ns, taken.end_ns);
    if (crosses) Add(next, m, StageValue::kInGrad, given.start_ns, back.start_ns);
    Add(id, m, StageValue::kOutGrad, crosses ? given.end_ns : given.start_ns, back.end_ns);
  }

  const Plan& performed_;
  const Timeline& timeline_;
  const MemoryPlan& memory_;
  const std::vector<StageSizes>& sizes_;
};

TEST(ReadyOrder, RingsOfPlacesHoldWhatIsAliveInEveryPerformance) {
  std::mt19937_64 random(SeedOfTest() + 5);
  for (int n = 0; n < 300; ++n) {
    const Plan plan = RandomReadyPlan(random, 50, false);
    std::vector<StageSizes> sizes(plan.stages.size());
    for (StageSizes& stage : sizes) {
      for (const StageValue value :
           {StageValue::kSavedForInput, StageValue::kSavedForWeight, StageValue::kStash,
            StageValue::kInput, StageValue::kOutput, StageValue::kInGrad, StageValue::kOutGrad}) {
        stage.of_microbatch[value] = 64 * DrawNumber(random, 1, 4);
      }
    }
    const auto memory = PlanMemory(Lower(plan), sizes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const CostModel costs = RandomReadyCosts(plan, random);
    const Plan performed = Lower(PerformedAt(plan, costs));
    const auto timeline = Simulate(performed, costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    for (const auto& of_rank : PlacedLives(performed, *timeline, *memory, sizes).lives) {
      for (size_t a = 0; a < of_rank.size(); ++a) {
        for (size_t b = a + 1; b < of_rank.size(); ++b) {
          const PlacedLife &x = of_rank[a], &y = of_rank[b];
          const bool share = x.begin < y.end && y.begin < x.end;
          const bool meet = x.from < y.until && y.from < x.until;
          ASSERT_FALSE(share && meet) << x.name << " and " << y.name << "\n" << Print(plan);
        }
      }
    }
  }
}

TEST(ReadyOrder, APlanSaysItsWindow) {
  EXPECT_EQ(Elaborated("schedule s(P, M) { window 3; slack 1; stages P on line; rank r { F r; B r "
                       "} }",
                       ParametersOf("P=1 M=1")),
            "plan s P=1 M=1\nstages 0\nwindow 3 slack 1\nrank 0: 0F0 0B0\n");
  const std::string text = "plan s P=1 M=1 lowered\nstages 0\nwindow 2 slack 0\nrank 0: 0F0 0B0\n";
  EXPECT_EQ(Print(PlanFromText(text)), text);
  // The words are free as names.
  EXPECT_NE(Elaborated("schedule s(P, M, window = 2, slack = 1) { window window; slack slack; "
                       "stages P on line; rank r { F r; B r } }",
                       ParametersOf("P=1 M=1"))
                .find("window 2 slack 1\n"),
            std::string::npos);
}

TEST(ReadyOrder, WhatItDoesNotKnowIsRefusedByName) {
  const auto finding = [](const std::string& before, const std::string& ranks) {
    return Elaborated(absl::StrCat("schedule s(P, M) { ", before, " rank r { ", ranks, " } }"),
                      ParametersOf("P=1 M=1"));
  };
  EXPECT_NE(finding("slack 1; stages P on line;", "F r; B r").find("no 'window e;' says"),
            std::string::npos);
  EXPECT_NE(finding("window 0; stages P on line;", "F r; B r").find("a window is of 1 to 4096"),
            std::string::npos);
  EXPECT_NE(finding("window 2; steps 2; stages P on line;", "F r; B r; F r; B r")
                .find("'window' cannot stand beside 'steps'"),
            std::string::npos);
  const std::string head = "plan s P=1 M=2\n";
  const std::string stages = "stages 0\nwindow 2 slack 0\n";
  EXPECT_EQ(FindingOf(PlanFromText(head + stages + "rank 0: 0F0 0F1&0B0 0B1\n")),
            "ready order ('window') performs one action at a time, and 0B0 stands in a group");
  EXPECT_EQ(FindingOf(PlanFromText(head + stages + "rank 0: 0F0 0F1 0B0 0I1 0W1\n")),
            "0I1: in ready order ('window') a stage does all its microbatches with B, or all with "
            "I and W");
  EXPECT_EQ(FindingOf(PlanFromText(head + stages + "rank 0: 0F0 0F1 0B1 0B0\n")),
            "ready order ('window') keeps one order of microbatches in all stages, and 0B1 is "
            "number 0 of the B or I of its stage: the first stage has microbatch 0 there");
  EXPECT_EQ(FindingOf(PlanFromText("plan s P=1 M=1\nslices 2\n" + stages +
                                   "rank 0: 0F0.0 0F0.1 0B0.1 0B0.0\n")),
            "ready order ('window') knows no slices");
  EXPECT_EQ(FindingOf(PlanFromText("plan s P=1 M=1\nforward only\n" + stages + "rank 0: 0F0\n")),
            "ready order ('window') knows no schedules that are forward only");
  EXPECT_EQ(FindingOf(PlanFromText("plan s P=1 M=2\npipe a M=1 stages 0\npipe b M=1 stages 0\n"
                                   "window 2 slack 0\nrank 0: a[0]F0 b[0]F0 a[0]B0 b[0]B0\n")),
            "ready order ('window') knows no pipes");
  const Plan plain = PlanFromText("plan s P=1 M=1\n" + stages + "rank 0: 0F0 0B0\n");
  EXPECT_EQ(FindingOf(plain, {.layout = CommLayout::kShared}),
            "ready order ('window') has a channel for each stage and direction, with room for its "
            "messages, and knows no other communicator layout");
}

TEST(ReadyOrder, ALimitOfActivationsIsRefusedWithAnOrder) {
  const std::string lists =
      "rank 0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3\nrank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n";
  const Plan tight = PlanFromText("plan s P=2 M=4\nstages 0 1\nwindow 8 slack 0\n" + lists);
  EXPECT_EQ(FindingOf(tight, {.activations = 2}), "");
  const Plan slack = PlanFromText("plan s P=2 M=4\nstages 0 1\nwindow 8 slack 1\n" + lists);
  EXPECT_EQ(FindingOf(slack, {.activations = 3}), "");
  Diagnostics findings;
  Check(Lower(slack), {.activations = 2}, &findings);
  ASSERT_FALSE(findings.empty());
  const Diagnostic& finding = findings.findings()[0];
  EXPECT_EQ(finding.text,
            "rank 0 holds 3 stage activations at 0F2 in an order that can happen, more than 2");
  ASSERT_EQ(finding.notes.size(), 2);
  EXPECT_EQ(finding.notes[1].text, "the order: 0F0 0F1 0F2");
}

TEST(ReadyOrder, DrawsAreThoseOfTheActionWhateverTheOrder) {
  std::mt19937_64 random(SeedOfTest() + 6);
  const Plan plan = RandomReadyPlan(random, 50, false);
  CostModel costs = RandomReadyCosts(plan, random);
  costs.jitter = 300'000;
  costs.microbatch_jitter = 200'000;
  const Plan performed = Lower(PerformedAt(plan, costs));
  const CostModel of_list = WithNoise(plan, costs, 7), of_run = WithNoise(performed, costs, 7);
  for (uint32_t i = 0; i < performed.actions.size(); ++i) {
    const Action& action = performed.actions[i];
    if (!IsCompute(action.kind)) continue;
    const uint32_t k = FindOf(plan, action.stage, action.microbatch, {action.kind});
    EXPECT_EQ(of_list.noise.factors[k], of_run.noise.factors[i]);
  }
}

}  // namespace
}  // namespace stringline
