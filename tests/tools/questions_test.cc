// Every question of the front door without a command line: structs go in, values come out, and an
// error names its field.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/step_answers.h"
#include "schedlang/base/fields.h"
#include "schedlang/memory/memory_limit.h"

namespace stringline {
namespace {

const PlanRequest kPlan = {.file = "zb_h1", .parameters = {{"P", 4}, {"M", 8}}};
const CostRequest kCosts = {.table =
                                CostTable{{"F", 10}, {"I", "10us"}, {"W", 7.5}, {"p2p", "1us"}}};

TEST(QuestionsTest, AStepIsCheckedSimulatedReportedAndExplained) {
  const auto proven = OpenCheckedPlan(kPlan, {.activations = 4});
  ASSERT_TRUE(proven.ok() && proven->plan) << proven.status();
  const auto step = OpenSimulated(kPlan, kCosts, {});
  ASSERT_TRUE(step.ok() && step->timeline) << step.status();
  const auto report = MakeReport(*step);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->analysis.makespan_ns, MakespanOf(*step->timeline));
  EXPECT_LE(report->bound->makespan_ns, report->analysis.makespan_ns);
  const auto explanation = Explained(*step, "1I1");
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_EQ(explanation->chain.back().begin_ns, 0);
  const auto slower = OpenSimulated(kPlan, {.slow = {{1, 100'000}}, .table = kCosts.table}, {});
  ASSERT_TRUE(slower.ok() && slower->timeline) << slower.status();
  EXPECT_GT(Compared(*step, *slower).difference.second_ns, report->analysis.makespan_ns);
}

// Reports and explanations use the links of the simulation.
TEST(QuestionsTest, LinksAreMadeOnce) {
  const auto step = OpenSimulated(kPlan, kCosts, {});
  ASSERT_TRUE(step.ok() && step->links) << step.status();
  const Session copy = *step;
  EXPECT_EQ(copy.links, step->links);
  EXPECT_EQ(step->links->wires.size(), step->plan->actions.size());
}

TEST(QuestionsTest, AnOrderIsSearched) {
  const SearchQuestion question = {
      .parameters = {{"P", 2}, {"M", 4}}, .activations = 2, .costs = kCosts, .iterations = 500};
  const auto request = SearchRequestOf(question, nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_LE(found->least, found->value);
}

TEST(QuestionsTest, CostsOfATableAreThoseOfAText) {
  const CostTable table = {{"F", std::vector<CostValue>{1, "2ms"}},
                           {"B", 0.25},
                           {"node", CostTable{{"ranks", 8}, {"p2p", "1us"}}}};
  const auto of_table = ReadCosts(table);
  const auto of_text = ParseCosts("F=[1,2ms],B=0.25,node.ranks=8,node.p2p=1us");
  ASSERT_TRUE(of_table.ok() && of_text.ok()) << of_table.status() << of_text.status();
  EXPECT_EQ(*of_table, *of_text);
  EXPECT_EQ(ReadCosts(CostTable{{"Fd", 1}}).status().message().substr(0, 28),
            "`costs`: unknown cost 'Fd'; ");
  EXPECT_EQ(ReadCosts(CostTable{{"F", 1}, {"F", 2}}).status().message(),
            "`costs`: F: is given twice");
}

TEST(QuestionsTest, AnErrorNamesItsField) {
  const auto slow = OpenSimulated(kPlan, {.slow = {{9, 100'000}}}, {});
  EXPECT_EQ(FieldOf(slow.status()), "slow[9]");
  EXPECT_EQ(WithFields(slow.status().message(), AsKeyword),
            "slow[9]: there is no rank 9; the plan has 4");
  EXPECT_EQ(WithFields(slow.status().message(), AsOption),
            "--slow: there is no rank 9; the plan has 4");
  EXPECT_EQ(FieldOf(OpenCheckedPlan(kPlan, {.memory = 1}).status()), "memory");
  EXPECT_EQ(FieldOf(ParseMemoryLimit("80").status()), "memory");
  EXPECT_EQ(FieldOf(OpenSimulated(kPlan, {.table = CostTable{}}, {}).status()), "costs");
  EXPECT_EQ(FieldOf(absl::OkStatus()), "");
}

TEST(QuestionsTest, EachDoorSpellsFieldsAsItsUsersDo) {
  constexpr const char* kMessage =
      "`memory`: give `work=model`, `layers=N`, or `local_rank`; `I W`";
  EXPECT_EQ(WithFields(kMessage, AsOption),
            "--memory: give --work model, --layers N, or --local-rank; `I W`");
  EXPECT_EQ(WithFields(kMessage, AsKeyword),
            "memory: give work=\"model\", layers=N, or local_rank; `I W`");
  EXPECT_EQ(WithFields(kMessage, AsKey),
            "memory: give work: model, layers: N, or local_rank; `I W`");
  EXPECT_EQ(WithFields("`F` and `memory` and `", AsOption), "`F` and --memory and `");
}

}  // namespace
}  // namespace stringline
