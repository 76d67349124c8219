// The fast evaluation against the plain evaluation, over random words and moves.
#include "schedlang/search/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedlang/search/list_orders.h"
#include "schedlang/search/policies.h"
#include "schedlang/search/random.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

Score PlainScore(const Problem& problem, const Words& words) {
  const Times times = TimesOf(problem, words);
  if (!times.whole()) return {};
  const bool spans = problem.objective != Objective::kMakespan;
  Score score{spans ? times.span : times.makespan, 0};
  for (size_t r = 0; r < words.size(); ++r) {
    if (words[r].empty()) continue;
    score.ends += times.ends[r].back() - (spans ? times.starts[r].front() : 0);
  }
  return score;
}

Words Moved(Words words, const Move& move) {
  auto& word = words[static_cast<size_t>(move.rank)];
  const Group group = word[static_cast<size_t>(move.from)];
  if (move.kind == Move::Kind::kShift) {
    word.erase(word.begin() + move.from);
    word.insert(word.begin() + move.to, group);
  } else if (move.kind == Move::Kind::kJoin) {
    const Letter other = word[static_cast<size_t>(move.to)].first;
    const bool is_forward = KindOf(group.first) == ActionKind::kForward;
    word[static_cast<size_t>(move.to)] =
        is_forward ? Group{group.first, other} : Group{other, group.first};
    word.erase(word.begin() + move.from);
  } else if (move.kind == Move::Kind::kSplit) {
    const int stage = StageOf(group.first);
    word[static_cast<size_t>(move.from)] = {LetterOf(ActionKind::kInputGradient, stage)};
    word.insert(word.begin() + move.from + 1, {LetterOf(ActionKind::kWeightGradient, stage)});
  } else if (move.kind == Move::Kind::kMerge) {
    word[static_cast<size_t>(move.from)] = {LetterOf(ActionKind::kBackward, StageOf(group.first))};
    word.erase(word.begin() + move.to);
  } else {
    const bool forward = move.kind == Move::Kind::kTakeForward;
    word[static_cast<size_t>(move.from)] = {forward ? group.second : group.first};
    word.insert(word.begin() + move.to, {forward ? group.first : group.second});
  }
  return words;
}

// Makes the move one that splits the B at its place, or merges the I there with a W behind it.
// False if there is neither.
bool DrawSplit(const std::vector<Group>& word, Move* move) {
  const auto from = static_cast<size_t>(move->from);
  if (word[from].is_pair()) return false;
  const int stage = StageOf(word[from].first);
  move->to = move->from;
  move->kind = Move::Kind::kSplit;
  if (KindOf(word[from].first) == ActionKind::kBackward) return true;
  if (KindOf(word[from].first) != ActionKind::kInputGradient) return false;
  move->kind = Move::Kind::kMerge;
  const Group weight{LetterOf(ActionKind::kWeightGradient, stage)};
  move->to =
      static_cast<int>(std::find(word.begin() + move->from, word.end(), weight) - word.begin());
  return move->to < static_cast<int>(word.size());
}

TEST(EvaluatorTest, MovesAreEvaluatedAsThePlainEvaluationDoes) {
  int tried = 0, ended = 0, joined = 0, parted = 0, unequal = 0, split = 0, merged = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::mt19937_64 draws(seed);
    Problem problem = RandomProblem(draws, 4, 7);
    if (seed % 3 == 0) problem = WithUnequalMicrobatches(std::move(problem), draws);
    const std::vector<Policy> policies = PlainPolicies(problem);
    const Policy& policy =
        policies[static_cast<size_t>(random.Below(static_cast<int64_t>(policies.size())))];
    Words words = ListOrders(problem, policy);
    if (words.empty()) continue;
    ASSERT_TRUE(IsComplete(problem, words));
    Evaluator evaluator(problem);
    ASSERT_TRUE(evaluator.Load(words));
    for (int trial = 0; trial < 150; ++trial) {
      ASSERT_EQ(evaluator.base().value, PlainScore(problem, words).value);
      ASSERT_EQ(evaluator.base().ends, PlainScore(problem, words).ends);
      Move move;
      move.rank = static_cast<int>(random.Below(problem.ranks));
      const auto length = static_cast<int64_t>(words[static_cast<size_t>(move.rank)].size());
      if (length == 0) continue;
      move.from = static_cast<int>(random.Below(length));
      move.to = static_cast<int>(random.Below(length));
      const auto& word = words[static_cast<size_t>(move.rank)];
      const bool is_pair = word[static_cast<size_t>(move.from)].is_pair();
      if (is_pair && !random.OneIn(4)) {
        move.kind = random.OneIn(2) ? Move::Kind::kTakeForward : Move::Kind::kTakeBack;
        move.to = static_cast<int>(random.Below(length + 1));
      } else if (!is_pair && !word[static_cast<size_t>(move.to)].is_pair() && random.OneIn(2)) {
        move.kind = Move::Kind::kJoin;
        if (move.from == move.to) continue;
      }
      if (problem.whole && problem.split && random.OneIn(2) && !DrawSplit(word, &move)) continue;
      const Words moved = Moved(words, move);
      ASSERT_EQ(evaluator.IsPossible(move), IsComplete(problem, moved)) << "trial " << trial;
      if (!evaluator.IsPossible(move)) continue;
      ++tried;
      unequal += problem.is_unequal();
      joined += move.kind == Move::Kind::kJoin;
      parted += move.kind == Move::Kind::kTakeForward || move.kind == Move::Kind::kTakeBack;
      split += move.kind == Move::Kind::kSplit;
      merged += move.kind == Move::Kind::kMerge;
      const Score plain = PlainScore(problem, moved);
      const Score score = evaluator.Try(move, kNoLimit);
      ASSERT_EQ(score.value, plain.value) << "trial " << trial;
      ASSERT_EQ(score.ends, plain.ends) << "trial " << trial;
      if (plain.value >= kNoLimit) continue;
      ++ended;
      const Score limited = evaluator.Try(move, plain.value);
      ASSERT_EQ(limited.value, plain.value);
      if (!random.OneIn(3)) continue;
      evaluator.Keep(move);
      words = moved;
      ASSERT_EQ(evaluator.words(), words);
    }
  }
  EXPECT_GT(tried, 1000);
  EXPECT_GT(ended, 500);
  EXPECT_GT(unequal, 1000);
  EXPECT_GT(joined, 100);
  EXPECT_GT(parted, 50);
  EXPECT_GT(split, 200);
  EXPECT_GT(merged, 200);
}

TEST(EvaluatorTest, ThePathBackLeadsToAStartAtZero) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::mt19937_64 draws(seed);
    Problem problem = RandomProblem(draws, 4, 7);
    if (seed % 3 == 0) problem = WithUnequalMicrobatches(std::move(problem), draws);
    const Words words = ListOrders(problem, PlainPolicies(problem).front());
    if (words.empty()) continue;
    Evaluator evaluator(problem);
    ASSERT_TRUE(evaluator.Load(words));
    for (int r = 0; r < problem.ranks; ++r) {
      int rank = r, place = evaluator.length(r) - 1;
      if (place < 0) continue;
      int64_t before = evaluator.StartOf(rank, place);
      while (evaluator.GoBack(&rank, &place)) {
        ASSERT_LE(evaluator.EndOf(rank, place), before);
        before = evaluator.StartOf(rank, place);
      }
      EXPECT_EQ(evaluator.StartOf(rank, place), 0);
    }
  }
}

}  // namespace
}  // namespace stringline::search
