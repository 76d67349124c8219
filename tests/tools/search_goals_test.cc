// Searches for values that only the simulator knows, beside all orders of small problems: with
// jitter, slow ranks, receive buffers, collectives, shared links and updates.
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/session.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/report/period.h"
#include "schedlang/sim/simulate.h"
#include "tools/answers/found_schedule.h"

namespace stringline {
namespace {

// All orders of F, I and W of one stage, by letters; microbatches come in their order.
std::vector<std::string> AllWords(int microbatches) {
  std::vector<std::string> words = {""};
  for (int length = 0; length < 3 * microbatches; ++length) {
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      const auto count = [&](char letter) { return std::count(word.begin(), word.end(), letter); };
      if (count('F') < microbatches) longer.push_back(word + 'F');
      if (count('I') < count('F')) longer.push_back(word + 'I');
      if (count('W') < count('I')) longer.push_back(word + 'W');
    }
    words = std::move(longer);
  }
  return words;
}

// The plan of a stage on each rank, with an order by rank.
Plan PlanOfWords(const Plan& stages, const std::vector<std::string>& words) {
  Plan plan = stages;
  plan.actions.clear();
  plan.first = {0};
  for (int r = 0; r < stages.ranks(); ++r) {
    for (int s = 0; s < stages.ranks(); ++s) {
      if (stages.stages[static_cast<size_t>(s)].rank.value != r) continue;
      int counts[3] = {0, 0, 0};
      for (const char letter : words[static_cast<size_t>(r)]) {
        const int kind = letter == 'F' ? 0 : letter == 'I' ? 1 : 2;
        constexpr ActionKind kKinds[] = {ActionKind::kForward, ActionKind::kInputGradient,
                                         ActionKind::kWeightGradient};
        plan.actions.push_back({.kind = kKinds[kind],
                                .stage = StageId(s),
                                .microbatch = MicrobatchId(counts[kind]++)});
      }
    }
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }
  plan.places.assign(1, plan.header);
  return plan;
}

void ForAllOrders(const Plan& stages, const std::function<void(const Plan&)>& visit) {
  const std::vector<std::string> words = AllWords(stages.microbatches);
  std::vector<size_t> which(static_cast<size_t>(stages.ranks()), 0);
  while (true) {
    std::vector<std::string> of;
    for (const size_t k : which) of.push_back(words[k]);
    visit(PlanOfWords(stages, of));
    size_t r = 0;
    while (r < which.size() && ++which[r] == words.size()) which[r++] = 0;
    if (r == which.size()) return;
  }
}

struct GoalCase {
  const char* name;
  int ranks, microbatches;
  const char* place;
  std::string costs;
  SearchQuestion question = {};
};

// Costs drawn by `random`: of F, I and W by stage, and others.
std::vector<GoalCase> Cases(std::mt19937_64& random) {
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  const auto list = [&](const char* key, int low, int high) {
    return absl::StrCat(key, "=[", draw(low, high), ",", draw(low, high), "]");
  };
  const auto times = [&] {
    return absl::StrCat(list("F", 3, 15), ",", list("I", 3, 15), ",", list("W", 3, 15),
                        ",p2p=", draw(0, 4));
  };
  const auto collectives = [&] {
    return absl::StrCat(times(), ",", list("unshard", 1, 9), ",", list("reduce", 3, 20));
  };
  const std::string updates = absl::StrCat(",", list("UPDATE", 0, 15));
  const auto one = [&](const char* key, int low, int high) {
    return absl::StrCat(key, "=", draw(low, high), ",");
  };
  const std::string alike = one("F", 3, 15) + one("I", 3, 15) + one("W", 3, 15);
  constexpr auto kSpan = search::Objective::kSpan, kPeriod = search::Objective::kPeriod;
  return {
      {"mean", 2, 3, "line", times(), {.jitter = "30%"}},
      {"worst", 2, 3, "line", times(), {.jitter = "30%", .seeds = 5, .expect = "worst"}},
      {"microbatches", 2, 3, "line", times() + ",jitter.microbatch=20%", {.seeds = 8}},
      {"slow", 2, 3, "line", times(), {.costs = {.slow = {{draw(0, 1), 400'000}}}}},
      {"slow link",
       3,
       2,
       "line",
       alike + "p2p=3,links.0-1.p2p=8",
       {.costs = {.slow_links = {{{1, 2, false}, 500'000}, {{1, 0}, draw(0, 9) * 100'000}}}}},
      {"links",
       2,
       3,
       "line",
       times() + ",message=1kB,links.0->1.bandwidth=200MB/s,links.1->0.p2p=6",
       {}},
      {"buffers", 3, 2, "line", alike + "p2p=2,receive_buffers=1", {}},
      {"collectives", 2, 3, "line", collectives(), {}},
      {"collectives and jitter", 2, 2, "line", collectives(), {.jitter = "20%", .seeds = 3}},
      {"shared links",
       4,
       2,
       "[0,2,1,3]",
       alike + "message=100kB,bandwidth=20GB/s,node.ranks=2,node.bandwidth=100GB/s,node.sharing=1",
       {}},
      {"span", 2, 3, "line", collectives(), {.minimize = kSpan}},
      {"period", 2, 3, "line", times() + updates, {.minimize = kPeriod}},
      {"period with collectives", 2, 2, "line", collectives() + updates, {.minimize = kPeriod}},
  };
}

SearchQuestion QuestionOf(const GoalCase& of) {
  SearchQuestion question = of.question;
  question.parameters = {{"P", of.ranks}, {"M", of.microbatches}};
  question.place = of.place;
  question.whole = question.pairs;
  question.costs.text = of.costs;
  question.iterations = 8000;
  return question;
}

// The value of a plan by the phases of `sim`, one after the other; nothing if it never ends.
std::optional<int64_t> ValueBySim(const Plan& plan, const SearchQuestion& question) {
  const bool is_period = question.minimize == search::Objective::kPeriod;
  Session opened{.source = Source("order.plan", ""), .kind = FileKind::kPlan};
  opened.plan = is_period ? RepeatSteps(plan, 8) : plan;
  auto step = SimulatedSession(std::move(opened), question.costs, {});
  if (!step.ok() || !step->timeline) return std::nullopt;
  if (is_period) return SteadyStepsOf(*step->plan, *step->timeline)->period_ns;
  if (question.minimize == search::Objective::kSpan) {
    return MeasureBubbles(*step->timeline).span_ns;
  }
  if (question.jitter.empty() && question.seeds == 0) return MakespanOf(*step->timeline);
  EXPECT_TRUE(SetJitter(question.jitter, &*step->costs).ok());
  const int draws = question.seeds > 0 ? question.seeds : 20;
  const std::vector<int64_t> ns = StepsUnderJitter(*step, {.runs = draws})->listed_ns;
  if (question.expect == "worst") return *std::max_element(ns.begin(), ns.end());
  return (std::accumulate(ns.begin(), ns.end(), int64_t{0}) + draws / 2) / draws;
}

TEST(SearchGoals, FindTheBestOfAllOrders) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr int kRounds = 4;
  int all = 0, best_found = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const GoalCase& of : Cases(random)) {
      SCOPED_TRACE(absl::StrCat(of.name, ": ", of.costs));
      const SearchQuestion question = QuestionOf(of);
      const auto request = SearchRequestOf(question, nullptr);
      ASSERT_TRUE(request.ok()) << request.status();
      const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
      ASSERT_TRUE(found.ok()) << found.status();
      std::optional<int64_t> best;
      ForAllOrders(request->stages[0], [&](const Plan& plan) {
        const std::optional<int64_t> value = ValueBySim(plan, question);
        if (value && (!best || *value < *best)) best = value;
      });
      ASSERT_TRUE(best);
      EXPECT_GE(found->value, *best);
      EXPECT_LE(found->least, *best);
      EXPECT_GT(found->least, 0);
      EXPECT_EQ(ValueBySim(found->plan, question), found->value);
      ++all;
      best_found += found->value == *best ? 1 : 0;
    }
  }
  EXPECT_GE(best_found, all - 1) << best_found << " of " << all;
}

// A fixed set of cases.
std::vector<GoalCase> SomeCases() {
  std::mt19937_64 random(7);
  std::vector<GoalCase> cases = Cases(random);
  SearchQuestion drawn{.jitter = "20%", .seeds = 6};
  drawn.pairs = true;
  cases.push_back({"pairs", 2, 4, "v", "F=7,B=13,I=8,W=5,FB=16,p2p=1", drawn});
  drawn.pairs = false;
  drawn.memory = MemoryLimit(10 * 1024);
  drawn.offload = SearchOffload::kAny;
  cases.push_back({"copies", 2, 4, "line",
                   "F=7,I=8,W=5,p2p=1,D=3,memory.saved_for_I=4KiB,memory.saved_for_W=1KiB,"
                   "memory.hosted=4KiB,reduce=9",
                   drawn});
  return cases;
}

// The schedule that is written is worth what was said.
TEST(SearchGoals, WrittenSchedulesHaveTheValue) {
  for (const GoalCase& of : SomeCases()) {
    SCOPED_TRACE(of.name);
    const SearchQuestion question = QuestionOf(of);
    const auto request = SearchRequestOf(question, nullptr);
    ASSERT_TRUE(request.ok()) << request.status();
    const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
    ASSERT_TRUE(found.ok()) << found.status();
    const auto text = EmittedText(FoundQuestion{}, *found, nullptr);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto opened =
        OpenPlan({.file = "found.sched", .parameters = question.parameters, .text = *text});
    ASSERT_TRUE(opened.ok() && opened->plan) << *text;
    EXPECT_EQ(ValueBySim(*opened->plan, question), found->value);
  }
}

TEST(SearchGoals, AreFoundAgain) {
  for (const GoalCase& of : SomeCases()) {
    SCOPED_TRACE(of.name);
    SearchQuestion question = QuestionOf(of);
    question.parameters = {{"P", of.ranks}, {"M", 6}};
    question.iterations = 1500;
    std::string first;
    for (int i = 0; i < 2; ++i) {
      const auto request = SearchRequestOf(question, nullptr);
      ASSERT_TRUE(request.ok()) << request.status();
      const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
      ASSERT_TRUE(found.ok()) << found.status();
      const std::string plan = Print(found->plan);
      if (i == 0) first = plan;
      EXPECT_EQ(plan, first);
    }
  }
}

// A limit of bytes holds for orders that are best by their simulated value, too.
TEST(SearchGoals, KeepLimitsOfBytes) {
  SearchQuestion question = QuestionOf(SomeCases()[0]);
  question.parameters = {{"P", 3}, {"M", 6}};
  question.costs.text =
      "F=7,I=9,W=4,p2p=2,memory.saved_for_I=3KiB,memory.saved_for_W=2KiB,memory.stash=1KiB";
  question.memory = MemoryLimit(24 * 1024);
  question.iterations = 4000;
  const auto request = SearchRequestOf(question, nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  for (const int64_t bytes : found->bytes) EXPECT_LE(bytes, 24 * 1024);
  EXPECT_EQ(ValueBySim(found->plan, question), found->value);
}

TEST(SearchGoals, RefusesWhatNothingHonours) {
  SearchQuestion question = QuestionOf(SomeCases()[0]);
  question.minimize = search::Objective::kSpan;
  EXPECT_NE(SearchRequestOf(question, nullptr).status().message().find("jitter"),
            absl::string_view::npos);
  question = QuestionOf(SomeCases()[0]);
  question.jitter = "";
  question.expect = "worst";
  EXPECT_NE(SearchRequestOf(question, nullptr).status().message().find("expect"),
            absl::string_view::npos);
  question.seeds = 3;  // and no jitter in the costs
  const auto request = SearchRequestOf(question, nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(SearchSchedule(*request, [](const SearchProgress&) {}).ok());
}

}  // namespace
}  // namespace stringline
