// The microbatch of each action: the elaborator against a model that follows the words of the
// language literally, with sets and scans from 0, on random rank blocks.
#include "schedlang/elaborate/counters.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

constexpr int kStages = 3;  // all on a single rank
constexpr int kMicrobatches = 4;

struct Part {
  char letter = 'F';
  int stage = 0;        // -1: a bare W
  int microbatch = -1;  // -1: the counters decide
};
using Group = std::vector<Part>;

class Model {
 public:
  explicit Model(int padded) : padded_(padded) {}

  // The groups' elaborated order, or the slug of the first finding.
  std::string Answer(const std::vector<Group>& groups) {
    std::string plan = "rank 0:";
    for (const Group& group : groups) {
      std::vector<std::pair<int, int>> deferred_here;
      const char* before = " ";
      for (const Part& part : group) {
        int stage = part.stage;
        int microbatch = part.microbatch;
        const char* problem = Number(part.letter, &stage, &microbatch);
        if (problem != nullptr) return problem;
        if (part.letter == 'I') deferred_here.emplace_back(stage, microbatch);
        if (microbatch >= kMicrobatches) continue;
        absl::StrAppend(&plan, before, stage, std::string(1, part.letter), microbatch);
        before = "&";
      }
      deferred_.insert(deferred_.end(), deferred_here.begin(), deferred_here.end());
    }
    return plan;
  }

 private:
  const char* Number(char letter, int* stage, int* microbatch) {
    if (letter == 'W') {
      for (size_t i = 0; i < deferred_.size(); ++i) {
        if (*stage >= 0 && deferred_[i].first != *stage) continue;
        if (*microbatch >= 0 && deferred_[i].second != *microbatch) continue;
        *stage = deferred_[i].first;
        *microbatch = deferred_[i].second;
        deferred_.erase(deferred_.begin() + static_cast<int>(i));
        return nullptr;
      }
      return "nothing-deferred";
    }
    std::set<int>& done = letter == 'F' ? forward_[*stage] : gradient_[*stage];
    if (*microbatch < 0) {
      *microbatch = 0;
      while (done.count(*microbatch) > 0) ++*microbatch;
    }
    if (*microbatch >= padded_) return "past-last-microbatch";
    return done.insert(*microbatch).second ? nullptr : "done-twice";
  }

  int padded_;
  std::set<int> forward_[kStages], gradient_[kStages];
  std::vector<std::pair<int, int>> deferred_;
};

std::string GroupsText(const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    const char* before = "";
    for (const Part& part : group) {
      absl::StrAppend(&text, before, std::string(1, part.letter));
      if (part.stage >= 0) absl::StrAppend(&text, " ", part.stage);
      if (part.microbatch >= 0) absl::StrAppend(&text, " @ ", part.microbatch);
      before = " & ";
    }
    absl::StrAppend(&text, "; ");
  }
  return text;
}

std::vector<Group> RandomGroups(std::mt19937* random) {
  const auto below = [random](unsigned n) { return static_cast<int>((*random)() % n); };
  std::vector<Group> groups;
  for (int g = 1 + below(12); g > 0; --g) {
    groups.emplace_back();
    for (int p = below(4) == 0 ? 2 + below(2) : 1; p > 0; --p) {
      Part part;
      part.letter = "FBIIW"[below(5)];
      part.stage = part.letter == 'W' && below(2) == 0 ? -1 : below(kStages);
      if (part.stage >= 0 && below(4) == 0) part.microbatch = below(kMicrobatches + 1);
      groups.back().push_back(part);
    }
  }
  return groups;
}

std::string Elaborate(const std::string& body, int padded) {
  const Source source("x.sched",
                      absl::StrCat("schedule s(P, M) { pad microbatches to ", padded, "; stages ",
                                   kStages, " on s -> 0; rank r { ", body, "} }"));
  Diagnostics diagnostics;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  if (!file) return Render(diagnostics, source);
  const auto plan =
      stringline::Elaborate(*file, "", {{"P", 1}, {"M", kMicrobatches}}, &diagnostics);
  if (!plan) return SlugOf(diagnostics.findings().front().code);
  const std::string text = Print(*plan);
  const size_t begin = text.find("rank 0:");
  return text.substr(begin, text.size() - begin - 1);
}

TEST(Counters, FollowTheWordsOfTheLanguage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  int plans = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int padded = kMicrobatches + static_cast<int>(random() % 2);
    const std::vector<Group> groups = RandomGroups(&random);
    const std::string text = GroupsText(groups);
    const std::string expected = Model(padded).Answer(groups);
    ASSERT_EQ(Elaborate(text, padded), expected) << text;
    if (expected.rfind("rank", 0) == 0) ++plans;
  }
  EXPECT_GT(plans, 1000);
}

TEST(Counters, TakeEachNumberOnce) {
  Counter counter;
  EXPECT_TRUE(counter.Take(2));
  EXPECT_TRUE(counter.Take(0));
  EXPECT_EQ(counter.lowest_free(), 1);
  EXPECT_FALSE(counter.Take(0));
  EXPECT_FALSE(counter.Take(2));
  EXPECT_TRUE(counter.Take(1));
  EXPECT_EQ(counter.lowest_free(), 3);
  EXPECT_TRUE(counter.Take(2'000'000'000));
  EXPECT_EQ(counter.lowest_free(), 3);
}

}  // namespace
}  // namespace stringline
