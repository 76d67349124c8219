// Links with times of their own and slow links: steps beside a second simulation, which knows
// nothing but the formula of a message; searches; and answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/ask/free_split.h"
#include "schedlang/ask/places.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/step_answers.h"
#include "schedlang/report/bounds.h"
#include "tests/tools/tool_run.h"
#include "tools/answers/found_schedule.h"

namespace stringline {
namespace {

// The times in ns of messages from a rank to the next one, and back.
struct LinkTimes {
  int64_t latency[2] = {}, transfer[2] = {};
};

// The makespan of a line of stages that performs F and B in the plan's order.
int64_t MakespanOfLine(const Plan& plan, int64_t forward_ns, int64_t backward_ns,
                       const std::vector<LinkTimes>& links) {
  const int ranks = plan.ranks(), microbatches = plan.microbatches;
  // When the value for F m, and for B m, is there.
  std::vector<std::vector<int64_t>> there[2];
  std::vector<std::vector<Action>> todo(static_cast<size_t>(ranks));
  for (auto& of : there) {
    of.assign(static_cast<size_t>(ranks),
              std::vector<int64_t>(static_cast<size_t>(microbatches), -1));
  }
  there[0][0].assign(static_cast<size_t>(microbatches), 0);
  for (int r = 0; r < ranks; ++r) {
    for (const Action& action : plan.of(RankId(r))) {
      if (IsCompute(action.kind)) todo[static_cast<size_t>(r)].push_back(action);
    }
    std::reverse(todo[static_cast<size_t>(r)].begin(), todo[static_cast<size_t>(r)].end());
  }
  std::vector<int64_t> free(static_cast<size_t>(ranks), 0);
  std::vector<int64_t> left[2] = {free, free};  // the end of the transfers of the rank's messages
  int64_t makespan = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < todo.size(); ++r) {
      while (!todo[r].empty()) {
        const int way = todo[r].back().kind == ActionKind::kForward ? 0 : 1;
        const auto m = static_cast<size_t>(todo[r].back().microbatch.value);
        if (there[way][r][m] < 0) break;
        free[r] = std::max(free[r], there[way][r][m]) + (way == 0 ? forward_ns : backward_ns);
        makespan = std::max(makespan, free[r]);
        if (way == 0 && r + 1 == todo.size()) there[1][r][m] = free[r];
        if (way == 0 ? r + 1 < todo.size() : r > 0) {
          const LinkTimes& link = links[way == 0 ? r : r - 1];
          left[way][r] = std::max(left[way][r], free[r]) + link.transfer[way];
          there[way][way == 0 ? r + 1 : r - 1][m] = left[way][r] + link.latency[way];
        }
        todo[r].pop_back();
        moved = true;
      }
    }
  }
  return makespan;
}

TEST(LinksTest, StepsTakeWhatTheFormulaSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
  };
  for (int round = 0; round < 60; ++round) {
    const int ranks = 2 + static_cast<int>(draw(3)), microbatches = 1 + static_cast<int>(draw(7));
    const int64_t forward = 1'000 * (1 + draw(20)), backward = 1'000 * (1 + draw(40));
    const int64_t p2p = 1 + draw(9'000), bandwidth = 100'000'000;
    constexpr int64_t kBytes = 1'000;
    CostRequest costs = {.text = absl::StrCat("F=", forward, "ns,B=", backward, "ns,p2p=", p2p,
                                              "ns,message=", kBytes, ",bandwidth=100MB/s")};
    std::vector<LinkTimes> links(static_cast<size_t>(ranks - 1));
    for (int r = 0; r + 1 < ranks; ++r) {
      LinkTimes& link = links[static_cast<size_t>(r)];
      for (const int way : {0, 1}) {
        const std::string name =
            way == 0 ? absl::StrCat(r, "->", r + 1) : absl::StrCat(r + 1, "->", r);
        const bool own_latency = draw(2) == 0, own_bandwidth = draw(2) == 0;
        link.latency[way] = own_latency ? draw(20'000) : p2p;
        const int64_t own = own_bandwidth ? 1'000'000 * (10 + draw(400)) : bandwidth;
        link.transfer[way] = std::llround(static_cast<double>(kBytes) / own * 1e9);
        if (own_latency) {
          absl::StrAppend(&costs.text, ",links.", name, ".p2p=", link.latency[way], "ns");
        }
        if (own_bandwidth) {
          absl::StrAppend(&costs.text, ",links.", name, ".bandwidth=", own / 1'000'000, "MB/s");
        }
      }
      if (draw(1) == 0) continue;
      const int64_t share = 10'000 * draw(200);
      costs.slow_links.push_back({{r + 1, r, true}, share});
      for (int64_t* const ns :
           {&link.latency[0], &link.latency[1], &link.transfer[0], &link.transfer[1]}) {
        *ns = std::llround(static_cast<double>(*ns) * (1 + static_cast<double>(share) * 1e-6));
      }
    }
    const auto step = OpenSimulated(
        {.file = "1f1b", .parameters = {{"P", ranks}, {"M", microbatches}}}, costs, {});
    ASSERT_TRUE(step.ok() && step->timeline) << step.status() << " " << costs.text;
    const int64_t makespan = MakespanOf(*step->timeline);
    EXPECT_EQ(makespan, MakespanOfLine(*step->plan, forward, backward, links)) << costs.text;
    EXPECT_LE(LowerBoundOf(*step->plan, *step->costs).makespan_ns, makespan) << costs.text;
  }
}

// On one microbatch all messages of the link are in the way.
TEST(LinksTest, ASlowLinkTakesLongerOnEveryWay) {
  const auto makespan = [](const std::string& slow) {
    const Answer answer = RunToolIn(
        SourceFolder(),
        Words("sim schedules/1f1b.sched P=3 M=1 --cost "
              "F=1ms,B=2ms,p2p=10us,message=1MB,bandwidth=10GB/s,links.1-2.p2p=20us --json" +
              slow));
    EXPECT_EQ(answer.status, 0) << answer.err;
    return nlohmann::json::parse(answer.out);
  };
  EXPECT_EQ(makespan("")["makespan_us"], 9'000 + 2 * 110 + 2 * 120);
  EXPECT_FALSE(makespan("").contains("slow"));
  const auto slow = makespan(" --slow 1-2=50% --slow 1->0=100% --slow 2=10%");
  EXPECT_EQ(slow["makespan_us"], 6'000 + 3'300 + 110 + 220 + 2 * 180);
  EXPECT_EQ(slow["slow"], (nlohmann::json{{"2", 0.1}, {"1->0", 1.0}, {"1-2", 0.5}}));
}

TEST(LinksTest, AnswersSayWhatIsSlow) {
  const std::string costs = " --cost F=4ms,B=8ms,p2p=1ms --slow 1=10% --slow 0-1=25%";
  const std::string said = "rank 1 computes 10 % longer, messages over 0-1 take 25 % longer\n";
  const nlohmann::json slow = {{"1", 0.1}, {"0-1", 0.25}};
  for (const std::string line :
       {"sim schedules/1f1b.sched P=2 M=2", "report schedules/1f1b.sched P=2 M=2",
        "sim schedules/1f1b.sched P=2 --for M=2,3", "search P=2 M=2 --kinds F,B --iterations 100",
        "rehearse schedules/1f1b.sched P=2 M=2 --steps 1"}) {
    const Answer text = RunToolIn(SourceFolder(), Words(line + costs));
    EXPECT_TRUE(absl::StrContains(text.out, said)) << line << "\n" << text.out << text.err;
    const Answer json = RunToolIn(SourceFolder(), Words(line + costs + " --json"));
    EXPECT_EQ(nlohmann::json::parse(json.out)["slow"], slow) << line;
  }
}

// Where several places or two steps are compared, one of them must use a link.
TEST(LinksTest, OneOfSeveralUsesALink) {
  const SearchQuestion any = {.parameters = {{"P", 3}, {"M", 4}},
                              .place = "any",
                              .costs = {.text = "F=30,I=30,W=30,p2p=1,links.2-0.p2p=2",
                                        .slow_links = {{{0, 2, false}, 500'000}},
                                        .work = "model"},
                              .iterations = 300};
  const auto request = SearchRequestOf(any, nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->places, request->places);
  SearchQuestion line = any;
  line.place = "line";
  const auto of_line = SearchRequestOf(line, nullptr);
  EXPECT_TRUE(absl::StrContains(of_line.status().message(), "no message of this plan goes over"))
      << of_line.status();

  const std::string sides = "compare schedules/1f1b.sched schedules/interleaved.sched P=3 M=3 ";
  const auto compared = [&](const std::string& costs) {
    return RunToolIn(SourceFolder(), Words(sides + costs));
  };
  EXPECT_EQ(compared("--cost F=1,B=2,links.2->0.p2p=1").status, 0);
  const Answer none = compared("--cost F=1,B=2,links.2-4.p2p=1");
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(absl::StrContains(none.err, "links.2-4.p2p: there is no rank 4")) << none.err;
}

// Bounds for all splits are of layers: no layer is slow, and links are those of ranks.
TEST(LinksTest, LayersInLineAreNotSlow) {
  const Plan stages = (*StagesOf("loop 2", /*p=*/2, /*m=*/4))[0].stages;
  const auto split_of = [&](const std::string& more, std::vector<SlowRank> slow) {
    const CostRequest costs = {.text = absl::StrCat("F=80,I=80,W=80,p2p=1,memory.saved_for_I=8MiB,"
                                                    "memory.saved_for_W=8MiB",
                                                    more),
                               .slow = std::move(slow),
                               .work = "model"};
    const SearchRequest request = {.costs = costs,
                                   .memory = MemoryLimit(16 << 20),
                                   .recompute = SearchRecompute::kAny,
                                   .layers = 8};
    return *FreeSplit(request, *FindCosts(costs), stages, {});
  };
  const search::Partitioning plain = split_of("", {});
  const search::Partitioning slow = split_of(",links.1-0.p2p=9", {{1, 3'000'000}});
  EXPECT_EQ(slow.pieces, plain.pieces);
  ASSERT_FALSE(plain.held.empty());
  ASSERT_EQ(slow.held.size(), plain.held.size());
  for (size_t i = 0; i < plain.held.size(); ++i) {
    EXPECT_EQ(slow.held[i].work, plain.held[i].work) << i;
    EXPECT_EQ(slow.held[i].area, plain.held[i].area) << i;
  }
}

}  // namespace
}  // namespace stringline
