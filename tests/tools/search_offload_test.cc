// Searches that choose copies to the host, beside all plans of small problems: every choice of
// every stage, every order, and every place of every R, D and U. Larger ones are held against the
// searches without copies and with all of them.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/session.h"
#include "schedlang/check/check.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

using Lists = std::vector<std::vector<Action>>;

// All lists of one stage: F and B in the order of microbatches; with `remakes` an R of each; any
// D and U.
class AllLists {
 public:
  AllLists(int stage, int microbatches, bool remakes, bool copies)
      : stage_(stage), remakes_(remakes), copies_(copies), kept_(microbatches) {}

  Lists All() {
    Extend();
    return std::move(lists_);
  }

 private:
  struct State {
    bool here = false, copied = false, remade = false;
  };
  void Try(ActionKind kind, int microbatch, State then) {
    const State before = std::exchange(kept_[static_cast<size_t>(microbatch)], then);
    list_.push_back(
        {.kind = kind, .stage = StageId(stage_), .microbatch = MicrobatchId(microbatch)});
    Extend();
    list_.pop_back();
    kept_[static_cast<size_t>(microbatch)] = before;
  }
  void Extend() {
    const int count = static_cast<int>(kept_.size());
    if (done_ == count) {
      lists_.push_back(list_);
      return;
    }
    if (begun_ < count) {
      ++begun_;
      Try(ActionKind::kForward, begun_ - 1, {true, false, false});
      --begun_;
    }
    for (int m = done_; m < begun_; ++m) {
      const State now = kept_[static_cast<size_t>(m)];
      if (copies_ && now.here && !now.copied && !now.remade) {
        Try(ActionKind::kOffload, m, {false, true, false});
      }
      if (!now.here) Try(ActionKind::kFetch, m, {true, true, false});
      if (remakes_ && now.here && !now.remade) {
        Try(ActionKind::kRecompute, m, {true, now.copied, true});
      }
    }
    const State next = kept_[static_cast<size_t>(done_)];
    if (done_ < begun_ && next.here && (next.remade || !remakes_)) {
      ++done_;
      Try(ActionKind::kBackward, done_ - 1, next);
      --done_;
    }
  }

  const int stage_;
  const bool remakes_, copies_;
  std::vector<State> kept_;
  int begun_ = 0, done_ = 0;
  std::vector<Action> list_;
  Lists lists_;
};

Plan PlanOfLists(const Plan& stages, const std::vector<const std::vector<Action>*>& lists) {
  Plan plan = stages;
  plan.actions.clear();
  plan.first = {0};
  for (const auto* list : lists) {
    plan.actions.insert(plan.actions.end(), list->begin(), list->end());
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }
  FindRemaking(&plan);
  return Lower(plan);
}

// A list of a stage with the costs of its choice.
struct Way {
  std::vector<Action> list;
  bool recomputes = false, remakes = false;
};

class AllPlans {
 public:
  AllPlans(const Plan& stages, std::string costs, int64_t memory, int64_t host)
      : stages_(stages), costs_(std::move(costs)), memory_(memory), host_(host) {}

  // The least makespan of all that fit; -1 without one.
  int64_t Least(bool recomputes, bool copies) {
    const auto ranks = static_cast<size_t>(stages_.ranks());
    std::vector<std::vector<Way>> ways(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      for (const int choice : {0, 1, 2}) {
        if (choice > 0 && !recomputes) break;
        const bool remakes = choice == 2;
        for (auto& list :
             AllLists(static_cast<int>(r), stages_.microbatches, remakes, copies).All()) {
          Way way{std::move(list), choice > 0, remakes};
          if (Fits(static_cast<int>(r), way)) ways[r].push_back(std::move(way));
        }
      }
    }
    int64_t least = -1;
    const auto offer = [&](const std::vector<const Way*>& of) {
      const auto timeline = Simulate(PlanOf(of), CostsOf(of));
      if (!timeline.ok()) return;
      const int64_t makespan = MeasureBubbles(*timeline).makespan_ns;
      if (least < 0 || makespan < least) least = makespan;
    };
    for (const Way& first : ways[0]) {
      if (ranks == 1) offer({&first});
      for (size_t k = 0; ranks == 2 && k < ways[1].size(); ++k) offer({&first, &ways[1][k]});
    }
    return least;
  }

 private:
  Plan PlanOf(const std::vector<const Way*>& of) const {
    std::vector<const std::vector<Action>*> lists;
    for (const Way* const way : of) lists.push_back(&way->list);
    return PlanOfLists(stages_, lists);
  }

  // The costs of plans of such ways, with copies.
  const CostModel& CostsOf(const std::vector<const Way*>& of) {
    std::string key;
    for (const Way* const way : of) absl::StrAppend(&key, way->recomputes, way->remakes, " ");
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    std::vector<std::string> recomputes;
    Plan sample = stages_;
    sample.actions.clear();
    sample.first = {0};
    for (size_t r = 0; r < of.size(); ++r) {
      recomputes.push_back(of[r]->recomputes ? "1" : "0");
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kOffload, ActionKind::kFetch,
                                    ActionKind::kRecompute}) {
        if (kind == ActionKind::kRecompute && !of[r]->remakes) continue;
        sample.actions.push_back({.kind = kind,
                                  .stage = StageId(static_cast<int32_t>(r)),
                                  .microbatch = MicrobatchId(0)});
      }
      sample.first.push_back(static_cast<uint32_t>(sample.actions.size()));
    }
    FindRemaking(&sample);
    const auto spec =
        ParseCosts(absl::StrCat(costs_, ",recompute=[", absl::StrJoin(recomputes, ","), "]"));
    const auto costs = ResolveCosts(*spec, sample);
    EXPECT_TRUE(costs.ok()) << costs.status();
    return known_[key] = *costs;
  }

  // Without bytes of messages the memory of a rank is that of its own list, beside any list of the
  // other rank with which it ends.
  bool Fits(int rank, const Way& way) {
    for (const auto& list : AllLists(1 - rank, stages_.microbatches, false, false).All()) {
      const Way other{list};
      std::vector<const Way*> all = {&way};
      if (stages_.ranks() == 2) all.insert(rank == 0 ? all.end() : all.begin(), &other);
      const Plan plan = PlanOf(all);
      const auto memory = PlanMemory(plan, SizesOfCosts(plan, CostsOf(all).memory));
      if (!memory.ok()) continue;
      const RankMemory& own = memory->ranks[static_cast<size_t>(rank)];
      return own.all() <= memory_ && (host_ < 0 || own.host <= host_);
    }
    return false;
  }

  const Plan& stages_;
  const std::string costs_;
  const int64_t memory_, host_;
  std::map<std::string, CostModel> known_;
};

absl::StatusOr<FoundSchedule> Search(const SearchQuestion& question) {
  const auto request = SearchRequestOf(question, nullptr);
  if (!request.ok()) return request.status();
  return SearchSchedule(*request, [](const SearchProgress&) {});
}

// The plan keeps its limits, passes the check, and takes what the search says.
void ExpectHonest(const FoundSchedule& found, const SearchQuestion& question) {
  const auto memory = PlanMemory(found.lowered, SizesOfCosts(found.lowered, found.costs.memory));
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (int r = 0; r < found.lowered.ranks(); ++r) {
    const RankMemory& rank = memory->ranks[static_cast<size_t>(r)];
    EXPECT_LE(rank.all(), question.memory.of(r)) << r;
    EXPECT_TRUE(!question.host.is_given() || rank.host <= question.host.of(r)) << r;
    EXPECT_EQ(found.bytes[static_cast<size_t>(r)], rank.all());
    if (!found.host_bytes.empty()) {
      EXPECT_EQ(found.host_bytes[static_cast<size_t>(r)], rank.host);
    }
  }
  Diagnostics diagnostics;
  EXPECT_TRUE(Check(found.lowered, &diagnostics));
  const auto timeline = Simulate(found.lowered, found.costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(MeasureBubbles(*timeline).makespan_ns, found.value);
  EXPECT_LE(found.least, found.value);
}

TEST(SearchOffload, FindsTheBestOfAllPlans) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
  };
  int cases = 0, best = 0, with_copies = 0, remade = 0;
  while (cases < 60) {
    const int ranks = draw(1, 2), microbatches = ranks == 1 ? draw(2, 3) : 2;
    const int saved = draw(2, 6);
    SearchQuestion question;
    question.parameters = {{"P", ranks}, {"M", microbatches}};
    question.split = false;
    question.costs.text =
        absl::StrCat("F=", draw(3, 15), ",B=", draw(3, 15), ",D=", draw(1, 8), ",U=", draw(1, 20),
                     ",p2p=", draw(0, 5), ",memory.saved_for_W=", saved,
                     "KiB,memory.kept=", draw(1, saved), "KiB");
    question.memory = MemoryLimit(1024 * draw(saved, 2 * saved - 1));
    if (draw(0, 2) == 0) question.host = MemoryLimit(1024 * draw(saved, 2 * saved));
    question.iterations = 800;
    const bool recomputes = draw(0, 1) == 1, copies = draw(0, 3) > 0;
    question.recompute = recomputes ? SearchRecompute::kAny : SearchRecompute::kNone;
    question.offload = copies ? SearchOffload::kAny : SearchOffload::kNone;
    if (!copies) question.host = {};
    SCOPED_TRACE(absl::StrCat("P=", ranks, " M=", microbatches, " ", question.costs.text,
                              " within ", question.memory.all, " and ", question.host.all,
                              recomputes ? " recompute" : "", copies ? " offload" : ""));
    const auto request = SearchRequestOf(question, nullptr);
    ASSERT_TRUE(request.ok()) << request.status();
    const int64_t least =
        AllPlans(request->stages[0], question.costs.text, question.memory.all, question.host.all)
            .Least(recomputes, copies);
    const auto found = Search(question);
    ++cases;
    if (least < 0) {
      EXPECT_FALSE(found.ok());
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    ExpectHonest(*found, question);
    EXPECT_GE(found->value, least);
    EXPECT_LE(found->least, least);
    best += found->value == least ? 1 : 0;
    with_copies += found->offloading.empty() ? 0 : 1;
    remade += found->remaking.empty() ? 0 : 1;
  }
  std::cout << best << " of " << cases << ", " << with_copies << " copy, " << remade << " list R\n";
  EXPECT_GE(best, cases - 2) << best << " of " << cases;
  EXPECT_GT(with_copies, 0);
}

// A search block counts bytes by the list, and copies take as long as an F. Without messages and
// recomputing that is what the checker counts; beside recomputing the checker counts more.
TEST(SearchOffload, BlocksFindTheBestOfAllPlans) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
  };
  int best = 0, cases = 0, with_copies = 0;
  while (cases < 40) {
    const int ranks = draw(1, 2), microbatches = ranks == 1 ? draw(2, 3) : 2;
    const int f = draw(1, 4), b = draw(1, 9), p2p = draw(0, 12), saved = draw(2, 5);
    const int input = draw(1, saved - 1), most = draw(saved, 2 * saved);
    const bool recomputes = draw(0, 2) == 0;
    const std::string text = absl::StrCat(
        "schedule s(P, M) {\n  stages P on line;\n  rank r search {\n    offload any;\n    prefer "
        "F, B;\n    within memory ",
        most, ";\n    costs F ", f, ", B ", b, ", p2p ", p2p, ", saved_for_W ", saved,
        recomputes ? absl::StrCat(", input ", input, ";\n    recompute any;\n") : ";\n",
        "  }\n}\n");
    SCOPED_TRACE(absl::StrCat("P=", ranks, " M=", microbatches, "\n", text));
    PlanRequest request{.file = "s.sched", .parameters = {{"P", ranks}, {"M", microbatches}}};
    request.text = text;
    const auto session = OpenPlan(request);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->plan) << Render(session->diagnostics, session->source);
    const Plan& plan = *session->plan;
    const auto costs = ResolveCosts(CostSpec(), plan);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const auto timeline = Simulate(Lower(plan), *costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    constexpr int64_t kUnit = 1'000'000;
    EXPECT_EQ(MeasureBubbles(*timeline).makespan_ns, plan.searched.value * kUnit) << Print(plan);
    Plan stages = plan;
    stages.recompute.clear();
    const int64_t least =
        AllPlans(stages,
                 absl::StrCat("F=", f, "ms,B=", b, "ms,D=", f, "ms,p2p=", p2p,
                              "ms,memory.saved_for_W=", saved, "KiB,memory.kept=", input, "KiB"),
                 1024 * most, -1)
            .Least(recomputes, true);
    ASSERT_GT(least, 0);
    if (!recomputes) {
      EXPECT_GE(plan.searched.value * kUnit, least);
    }
    EXPECT_LE(plan.searched.bound * kUnit, least);
    EXPECT_LE(plan.searched.bound, plan.searched.value);
    best += plan.searched.value * kUnit <= least ? 1 : 0;
    with_copies += HasCopies(plan) ? 1 : 0;
    ++cases;
  }
  std::cout << best << " of " << cases << ", " << with_copies << " copy\n";
  EXPECT_GE(best, cases - 2);
  EXPECT_GT(with_copies, 0);
}

// Costs as of a model's shape: four ranks, of which the first hold most microbatches.
SearchQuestion Question(int case_number) {
  SearchQuestion question;
  question.parameters = {{"P", 4}, {"M", 6}};
  question.iterations = 60;
  question.split = case_number % 2 == 1;
  question.costs.text = absl::StrCat(
      "F=10ms,I=9ms,W=", case_number == 3 ? 12 : 8, "ms,p2p=", case_number == 2 ? 9 : 1,
      "ms,host.bandwidth=", case_number == 1 ? 20 : 150,
      "GB/s,message=50MB,memory.weights=3GB,memory.saved_for_I=300MB,memory.saved_for_W=700MB,"
      "memory.stash=100MB");
  question.memory = MemoryLimit((case_number == 4 ? 55 : 75) * int64_t{100'000'000});
  if (case_number == 4) question.memory.ranks = {-1, 4'500'000'000};
  if (case_number == 3) question.host = MemoryLimit(2'000'000'000);
  return question;
}

TEST(SearchOffload, IsNoWorseThanAnyPartOfIt) {
  int64_t shorter = 0;
  for (const int i : {0, 2, 3, 4}) {
    SCOPED_TRACE(i);
    const auto value = [&](SearchRecompute recompute, SearchOffload offload) {
      SearchQuestion question = Question(i);
      question.recompute = recompute;
      question.offload = offload;
      if (offload == SearchOffload::kNone) question.host = {};
      const auto found = Search(question);
      if (!found.ok()) return search::kNoLimit;
      ExpectHonest(*found, Question(i));
      return found->value;
    };
    const int64_t none = value(SearchRecompute::kNone, SearchOffload::kNone);
    const int64_t all = value(SearchRecompute::kNone, SearchOffload::kAll);
    const int64_t any = value(SearchRecompute::kNone, SearchOffload::kAny);
    const int64_t remade = value(SearchRecompute::kAny, SearchOffload::kNone);
    const int64_t both = value(SearchRecompute::kAny, SearchOffload::kAny);
    EXPECT_LE(any, none);
    EXPECT_LE(any, all);
    EXPECT_LE(both, remade);
    EXPECT_LE(static_cast<double>(both), 1.02 * static_cast<double>(any));
    EXPECT_LE(both, value(SearchRecompute::kAny, SearchOffload::kAll));
    EXPECT_LT(both, search::kNoLimit);
    std::cout << "none " << none / 1000 << " all " << all / 1000 << " any " << any / 1000
              << " recompute " << remade / 1000 << " both " << both / 1000 << " us\n";
    shorter += any < none ? 1 : 0;
  }
  EXPECT_GT(shorter, 1);
}

// Li et al., "OptPipe: Memory- and Scheduling-Optimized Pipeline Parallelism for LLM Training",
// 2025: within the memory of 1F1B with offload, up to half less idle time.
TEST(SearchOffload, HalvesTheIdleTimeOfOffloadingInTheOrderOf1F1B) {
  const CostRequest costs = {.text =
                                 "F=10ms,B=20ms,I=10ms,W=10ms,D=8ms,U=8ms,"
                                 "memory.saved_for_I=600MiB,memory.saved_for_W=400MiB"};
  const std::vector<Parameter> parameters = {{"P", 4}, {"M", 12}};
  const auto usual = OpenSimulated(
      {std::string(STRINGLINE_SOURCE_DIR) + "/schedules/1f1b_offload.sched", "", parameters}, costs,
      {});
  ASSERT_TRUE(usual.ok() && usual->timeline) << usual.status();
  const auto memory = PlanMemory(*usual->plan, SizesOfCosts(*usual->plan, usual->costs->memory));
  ASSERT_TRUE(memory.ok()) << memory.status();
  int64_t most = 0;
  for (const RankMemory& rank : memory->ranks) most = std::max(most, rank.all());
  EXPECT_EQ(most, int64_t{3000} << 20);  // three microbatches
  SearchQuestion question{.parameters = parameters, .costs = costs, .iterations = 5000};
  question.memory = MemoryLimit(most);
  question.offload = SearchOffload::kAny;
  const auto found = Search(question);
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectHonest(*found, question);
  constexpr int64_t kWork = 12 * 30'000'000;  // of every rank
  const int64_t idle = MeasureBubbles(*usual->timeline).makespan_ns - kWork;
  EXPECT_EQ(idle, 3 * 30'000'000);  // (P - 1) (F + B)
  EXPECT_LE(found->value - kWork, idle / 2);
  EXPECT_EQ(found->value, found->least);
}

// A second search gives the same plan: nothing depends on the clock or on threads.
TEST(SearchOffload, IsTheSameTwice) {
  SearchQuestion question = Question(0);
  question.recompute = SearchRecompute::kAny;
  question.offload = SearchOffload::kAny;
  const auto first = Search(question), second = Search(question);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Print(first->plan), Print(second->plan));
}

}  // namespace
}  // namespace stringline
