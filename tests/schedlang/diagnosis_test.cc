// The finding, on made-up dumps of every kind of fault; and its time for 1,024 ranks.
#include "schedlang/diagnose/diagnosis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "tests/schedlang/made_dumps.h"

namespace stringline {
namespace {

using Calls = std::vector<MadeCall>;

Records RecordsOf(const std::vector<Calls>& ranks, int64_t first = 0) {
  RecordCollector collector;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const std::string dump = MadeDump(static_cast<int>(ranks.size()), ranks[r], first);
    EXPECT_TRUE(collector.Add(static_cast<int>(r), absl::StrCat("rank", r), dump).ok());
  }
  return collector.Finish(0);
}

MadeCall Open(const std::string& name, int64_t sequence, int size = 4) {
  return {.name = name, .ended = false, .sequence = sequence, .size = size};
}
MadeCall Ended(const std::string& name, int64_t sequence) {
  return {.name = name, .sequence = sequence};
}

TEST(DiagnosisTest, AllIsWell) {
  const Calls calls = {Ended("all_reduce", 1), Ended("broadcast", 2)};
  const Records records = RecordsOf({calls, calls});
  EXPECT_TRUE(Diagnose(records, CommLayout::kPair).IsClean());
}

TEST(DiagnosisTest, LateRank) {
  const Calls waiting = {Ended("all_reduce", 1), Open("all_reduce", 2)};
  const Records records = RecordsOf({waiting, {Ended("all_reduce", 1)}, waiting});
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.behind.size(), 1u);
  EXPECT_EQ(found.behind[0].why, BehindWhy::kLate);
  EXPECT_EQ(found.behind[0].ranks, std::vector<int>{1});
  EXPECT_EQ(found.behind[0].waiting, 2);
  EXPECT_TRUE(found.mismatches.empty());
  EXPECT_TRUE(found.circles.empty());
}

TEST(DiagnosisTest, ChainEndsAtTheLateRank) {
  // Rank 0 waits for 1, which waits for 2, which waits for 3.
  const Records records =
      RecordsOf({{Open("recv 0<-1", 1)}, {Open("recv 1<-2", 1)}, {Open("recv 2<-3", 1)}, {}});
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.behind.size(), 1u);
  EXPECT_EQ(found.behind[0].ranks, std::vector<int>{3});
  ASSERT_EQ(found.behind[0].chain.size(), 3u);
  EXPECT_EQ(found.behind[0].chain[0].call.rank, 0);
  EXPECT_EQ(found.behind[0].chain[2].lacking.rank, 3);
}

TEST(DiagnosisTest, DeadRanks) {
  RecordCollector collector;
  const std::string waiting = MadeDump(4, {Open("all_reduce", 1)});
  ASSERT_TRUE(collector.Add(0, "a0", waiting).ok());
  ASSERT_TRUE(collector.Add(1, "a1", waiting).ok());
  ASSERT_TRUE(collector.Add(2, "a2", waiting.substr(0, 100)).ok());
  const Records records = collector.Finish(0);
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.behind.size(), 2u);
  EXPECT_EQ(found.behind[0].why, BehindWhy::kCutShort);
  EXPECT_EQ(found.behind[0].ranks, std::vector<int>{2});
  EXPECT_EQ(found.behind[1].why, BehindWhy::kNoDump);
  EXPECT_EQ(found.behind[1].ranks, std::vector<int>{3});
}

TEST(DiagnosisTest, SendsOfOneQueueWaitInACircle) {
  const Records records = RecordsOf(
      {{Open("send 0->1", 1), Open("recv 0<-1", 2)}, {Open("send 1->0", 1), Open("recv 1<-0", 2)}});
  const Diagnosis pair = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(pair.circles.size(), 1u);
  EXPECT_EQ(pair.circles[0].size(), 2u);
  EXPECT_EQ(pair.circles[0][0].lacking.lack, Lack::kBehind);
  EXPECT_TRUE(pair.behind.empty());
  // Each direction has a queue of its own there, so nothing is in the way.
  EXPECT_TRUE(Diagnose(records, CommLayout::kEdge).IsClean());
}

TEST(DiagnosisTest, BatchesHaveNoOrderInside) {
  // The parts of a batch never end for the recorder: its end speaks for them.
  const Calls first = {Open("send 0->1", 1), Open("recv 0<-1", 1), Ended("coalesced", 1)};
  const Calls second = {Open("send 1->0", 1), Open("recv 1<-0", 1), Ended("coalesced", 1)};
  EXPECT_TRUE(Diagnose(RecordsOf({first, second}), CommLayout::kPair).IsClean());
  Calls open = second;
  open.back().ended = false;
  open[0].size = 8;
  const Records records = RecordsOf({first, open});
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.mismatches.size(), 1u);
  EXPECT_EQ(found.mismatches[0].about, Disagreement::kSize);
}

TEST(DiagnosisTest, OtherSizesDtypesAndCalls) {
  const Records sizes = RecordsOf({{Open("all_reduce", 1)}, {Open("all_reduce", 1, 5)}});
  ASSERT_EQ(Diagnose(sizes, CommLayout::kPair).mismatches.size(), 1u);
  EXPECT_EQ(Diagnose(sizes, CommLayout::kPair).mismatches[0].about, Disagreement::kSize);
  Calls half = {Open("all_reduce", 1)};
  half[0].dtype = "Half";
  const Records dtypes = RecordsOf({{Open("all_reduce", 1)}, half});
  EXPECT_EQ(Diagnose(dtypes, CommLayout::kPair).mismatches.at(0).about, Disagreement::kDtype);
  const Records calls = RecordsOf({{Open("all_reduce", 1)}, {Open("broadcast", 1)}});
  EXPECT_EQ(Diagnose(calls, CommLayout::kPair).mismatches.at(0).about, Disagreement::kCall);
  // Each rank has its own part of an all-to-all.
  const Records uneven = RecordsOf({{Ended("all_to_all", 1)}, {Ended("all_to_all", 1)}});
  EXPECT_TRUE(Diagnose(uneven, CommLayout::kPair).IsClean());
}

TEST(DiagnosisTest, HintsOfTheCallsBehind) {
  const Calls right = {Open("all_reduce", 1), Open("broadcast", 2), Open("barrier", 3)};
  const Calls swapped = {Open("broadcast", 1), Open("all_reduce", 2), Open("barrier", 3)};
  const Calls left_out = {Open("broadcast", 1), Open("barrier", 2)};
  const Calls surplus = {Open("reduce", 1), Open("all_reduce", 2), Open("broadcast", 3)};
  const auto hint = [&](const Calls& odd) {
    return Diagnose(RecordsOf({right, odd, right}), CommLayout::kPair).mismatches.at(0).hint;
  };
  EXPECT_EQ(hint(swapped), Hint::kSwapped);
  EXPECT_EQ(hint(left_out), Hint::kLeftOut);
  EXPECT_EQ(hint(surplus), Hint::kSurplus);
}

TEST(DiagnosisTest, MessagesOfOtherSizes) {
  const Records records = RecordsOf({{Ended("send 0->1", 1), Open("send 0->1", 2, 8)},
                                     {Ended("recv 1<-0", 1), Open("recv 1<-0", 2, 9)}});
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.mismatches.size(), 1u);
  const Pair& pair = found.partners.pairs[found.mismatches[0].pair];
  EXPECT_EQ(NumberOf(records, pair, found.mismatches[0].sides[0][0]), 1);
}

TEST(DiagnosisTest, DroppedMessagesAreCountedFromTheFirstOpen) {
  // Recorders hold other parts of the past, and the same present.
  const Records records =
      RecordsOf({{Ended("send 0->1", 7), Ended("send 0->1", 8), Open("send 0->1", 9, 8)},
                 {Ended("recv 1<-0", 9), Open("recv 1<-0", 10, 8)}},
                100);
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  EXPECT_TRUE(found.IsClean());
  EXPECT_TRUE(found.dropped);
  EXPECT_EQ(NumberOf(records, found.partners.pairs[0], {0, 2}), std::nullopt);
}

TEST(DiagnosisTest, GivenUpWithAllItsRanks) {
  MadeCall call = Open("all_reduce", 1);
  call.retired = true;
  const Records records = RecordsOf({{call}, {call}});
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.given_up.size(), 1u);
  EXPECT_EQ(found.given_up[0].size(), 2u);
  // One that goes on is no finding.
  const Records going = RecordsOf({{Open("all_reduce", 1)}, {Open("all_reduce", 1)}});
  EXPECT_TRUE(Diagnose(going, CommLayout::kPair).IsClean());
  EXPECT_EQ(Diagnose(going, CommLayout::kPair).under_way, 2);
}

TEST(DiagnosisTest, GlooGivesUpAsIfEnded) {
  MadeCall gone = Open("all_reduce", 1);
  gone.backend = "gloo";
  gone.retired = true;
  MadeCall second = gone;
  second.sequence = 2;
  const Records records = RecordsOf({{gone, second}, {gone}});
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.behind.size(), 1u);
  EXPECT_EQ(found.behind[0].ranks, std::vector<int>{1});
  EXPECT_TRUE(found.waits.held[found.behind[0].held].has_failed);
}

double Seconds(int ranks, int calls) {
  RecordCollector collector;
  Calls made;
  for (int i = 1; i <= calls; ++i) made.push_back(Ended("all_reduce", i));
  made.push_back(Open("all_reduce", calls + 1));
  const std::string waiting = MadeDump(ranks, made);
  made.pop_back();
  const std::string late = MadeDump(ranks, made);
  const auto begin = std::chrono::steady_clock::now();
  for (int r = 0; r < ranks; ++r) {
    EXPECT_TRUE(collector.Add(r, "r", r == ranks / 2 ? late : waiting).ok());
  }
  const Records records = collector.Finish(0);
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(found.behind.size(), 1u);
  EXPECT_EQ(found.behind.at(0).ranks, std::vector<int>{ranks / 2});
  EXPECT_EQ(found.behind.at(0).waiting, ranks - 1);
  return took.count();
}

TEST(DiagnosisTest, ThousandRanks) {
  const double some = Seconds(1024, 50), more = Seconds(1024, 200);
  std::cout << "1,024 ranks: 50 calls each " << some << " s, 200 calls each " << more << " s\n";
  EXPECT_LT(more, 10);
}

// Groups of two ranks each, of which the second is late, and has made the seventh of its calls at
// another place than the first.
Records PairsWithALateRank(int groups, int calls) {
  Records records;
  records.shapes.push_back({.name = "all_reduce"});
  records.places.resize(2);
  records.world = 2 * groups;
  for (int g = 0; g < groups; ++g) {
    records.groups.push_back({.name = absl::StrCat(g), .members = {2 * g, 2 * g + 1}});
    for (const bool is_late : {false, true}) {
      RankRecord rank{.rank = 2 * g + (is_late ? 1 : 0)};
      for (int i = 1; i <= (is_late ? calls - 1 : calls); ++i) {
        rank.calls.push_back({.group = g,
                              .place = is_late && i >= 7 ? 1 : 0,
                              .record = i,
                              .sequence = i,
                              .state = i == calls ? CallState::kStarted : CallState::kEnded});
      }
      records.ranks.push_back(std::move(rank));
    }
  }
  return records;
}

// The cost is counted in launches, not in time: each late rank's own ones, once.
TEST(DiagnosisTest, LateRanksOfManyGroupsCostTheirOwnCalls) {
  constexpr int kGroups = 512, kCalls = 200;
  const Records records = PairsWithALateRank(kGroups, kCalls);
  const Diagnosis found = Diagnose(records, CommLayout::kPair);
  ASSERT_EQ(found.behind.size(), size_t{kGroups});
  for (int g = 0; g < kGroups; ++g) {
    const Behind& behind = found.behind[g];
    EXPECT_EQ(behind.ranks, std::vector<int>{2 * g + 1});
    ASSERT_TRUE(behind.divergence) << g;
    EXPECT_EQ(records.At(behind.divergence->late).sequence, 7);
    EXPECT_EQ(behind.divergence->late.rank, 2 * g + 1);
    EXPECT_EQ(behind.divergence->other.rank, 2 * g);
    EXPECT_EQ(records.At(behind.divergence->other).sequence, 7);
  }
  EXPECT_GT(found.visited_for_divergence, 0);
  EXPECT_LE(found.visited_for_divergence, int64_t{kGroups} * kCalls);
}

}  // namespace
}  // namespace stringline
