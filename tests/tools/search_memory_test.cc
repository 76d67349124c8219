// Searches within a limit of bytes, beside all orders of small problems: the values of an order fit
// if they can be laid out, which only the memory plan tells.
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

constexpr int kRanks = 2, kMicrobatches = 3;

// All orders of F, I and W of one stage, by letters; microbatches come in their order.
std::vector<std::string> AllWords() {
  std::vector<std::string> words = {""};
  for (int length = 0; length < 3 * kMicrobatches; ++length) {
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      const auto count = [&](char letter) { return std::count(word.begin(), word.end(), letter); };
      if (count('F') < kMicrobatches) longer.push_back(word + 'F');
      if (count('I') < count('F')) longer.push_back(word + 'I');
      if (count('W') < count('I')) longer.push_back(word + 'W');
    }
    words = std::move(longer);
  }
  return words;
}

// The plan of two stages in a line with an order each.
Plan PlanOfWords(const Plan& stages, const std::string& first, const std::string& second) {
  Plan plan = stages;
  plan.actions.clear();
  plan.first = {0};
  int stage = 0;
  for (const std::string* word : {&first, &second}) {
    int counts[3] = {0, 0, 0};
    for (const char letter : *word) {
      const int kind = letter == 'F' ? 0 : letter == 'I' ? 1 : 2;
      constexpr ActionKind kKinds[] = {ActionKind::kForward, ActionKind::kInputGradient,
                                       ActionKind::kWeightGradient};
      plan.actions.push_back({.kind = kKinds[kind],
                              .stage = StageId(stage),
                              .microbatch = MicrobatchId(counts[kind]++)});
    }
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
    ++stage;
  }
  return Lower(plan);
}

TEST(SearchMemory, FindsTheBestOrderThatFits) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
  };
  const std::vector<std::string> words = AllWords();
  ASSERT_EQ(words.size(), 42u);
  int cases = 0, best = 0;
  while (cases < 40) {
    std::vector<std::string> saved_for_input, saved_for_weight, stash;
    int most = 0;
    for (int stage = 0; stage < kRanks; ++stage) {
      const int input = draw(1, 6), weight = draw(1, 6);
      most = std::max(most, input + weight);
      saved_for_input.push_back(absl::StrCat(input, "KiB"));
      saved_for_weight.push_back(absl::StrCat(weight, "KiB"));
      stash.push_back(absl::StrCat(draw(0, 3), "KiB"));
    }
    SearchQuestion question;
    question.parameters = {{"P", kRanks}, {"M", kMicrobatches}};
    question.whole = false;
    question.costs.text = absl::StrCat(
        "F=", draw(3, 15), ",I=", draw(3, 15), ",W=", draw(3, 15), ",memory.saved_for_I=[",
        absl::StrJoin(saved_for_input, ","), "],memory.saved_for_W=[",
        absl::StrJoin(saved_for_weight, ","), "],memory.stash=[", absl::StrJoin(stash, ","), "]");
    question.memory = MemoryLimit(1024 * draw(most, 3 * most));
    question.iterations = 3000;
    SCOPED_TRACE(absl::StrCat(question.costs.text, " within ", question.memory.all));
    const auto request = SearchRequestOf(question, nullptr);
    ASSERT_TRUE(request.ok()) << request.status();
    const auto found = SearchSchedule(*request, [](const SearchProgress&) {});

    // The least of all orders, of those that fit.
    const auto costs = ResolveCosts(*ParseCosts(question.costs.text), request->stages[0]);
    ASSERT_TRUE(costs.ok()) << costs.status();
    std::vector<std::pair<int64_t, Plan>> orders;
    for (const std::string& first : words) {
      for (const std::string& second : words) {
        Plan plan = PlanOfWords(request->stages[0], first, second);
        const auto timeline = Simulate(plan, *costs);
        if (timeline.ok()) orders.emplace_back(MeasureBubbles(*timeline).makespan_ns, plan);
      }
    }
    std::stable_sort(orders.begin(), orders.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    const auto fits = [&](const Plan& plan) {
      const auto memory = PlanMemory(plan, SizesOfCosts(plan, costs->memory));
      return memory.ok() &&
             std::all_of(memory->ranks.begin(), memory->ranks.end(),
                         [&](const RankMemory& rank) { return rank.all() <= question.memory.all; });
    };
    const auto least = std::find_if(orders.begin(), orders.end(),
                                    [&](const auto& order) { return fits(order.second); });
    if (least == orders.end()) {
      EXPECT_FALSE(found.ok());
      continue;
    }
    ++cases;
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(fits(found->lowered));
    EXPECT_GE(found->value, least->first);
    EXPECT_LE(found->least, least->first);
    best += found->value == least->first ? 1 : 0;
  }
  EXPECT_GE(best, cases - 1) << best << " of " << cases;
}

}  // namespace
}  // namespace stringline
