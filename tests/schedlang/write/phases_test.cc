// Words as repeats, and numbers of a rank, both as a person would write them.
#include "schedlang/write/phases.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/write/rank_expression.h"

namespace stringline::search {
namespace {

std::string TextOf(const Phases& phases) {
  std::string out;
  for (const Phase& phase : phases) {
    if (phase.sign >= 0) {
      out += static_cast<char>(phase.sign);
    } else {
      absl::StrAppend(&out, phase.times, "(", TextOf(phase.body), ")");
    }
  }
  return out;
}

std::string Compressed(const std::string& word) {
  return TextOf(PhasesOf(std::vector<int>(word.begin(), word.end()), 2));
}

TEST(PhasesTest, FewestSigns) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"F", "F"},
      {"FF", "FF"},
      {"FFFFF", "5(F)"},
      {"FFFFBFBFBFBBBB", "3(F)4(FB)3(B)"},
      {"FFFIFIWFIWFIWIWW", "3(F)I3(FIW)IWW"},
      {"FFFFGGGGFFFFGGGGFFFFGGGG", "3(4(F)4(G))"},
      {"ABCABCABD", "2(ABC)ABD"},
      {"ABCDEFG", "ABCDEFG"},
  };
  for (const auto& [word, expected] : cases) EXPECT_EQ(Compressed(word), expected) << word;
}

TEST(PhasesTest, TheWordComesBack) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<int> word;
    while (random() % 12 != 0) {
      const size_t from = word.empty() ? 0 : random() % word.size();
      const std::vector<int> again(word.begin() + static_cast<std::ptrdiff_t>(from), word.end());
      if (random() % 3 == 0 && word.size() < 500) {
        for (size_t n = random() % 6; n > 0; --n) {
          word.insert(word.end(), again.begin(), again.end());
        }
      }
      word.push_back(static_cast<int>(random() % 3));
    }
    const Phases phases = PhasesOf(word, 1 + i % 2);
    EXPECT_EQ(WordOf({.times = 1, .body = phases}), word);
    EXPECT_LE(SizeOf(phases, 1 + i % 2), static_cast<int64_t>(word.size()));
  }
}

TEST(RankExpressionTest, AsAPersonWritesIt) {
  struct Case {
    Affine value;
    const char* alone;
    const char* behind;
  };
  const Case cases[] = {
      // P = 4
      {{0, 0}, "0", "M"},
      {{3, 0}, "3", "M + P - 1"},
      {{0, 1}, "r", "M + r"},
      {{0, 2}, "2 * r", "M + 2 * r"},
      {{3, -1}, "P - 1 - r", "M + P - 1 - r"},
      {{4, -1}, "P - r", "M + P - r"},
      {{7, -1}, "2 * P - 1 - r", "M + 2 * P - 1 - r"},
      {{6, -2}, "2 * (P - 1 - r)", "M + 2 * P - 2 - 2 * r"},
      {{7, -2}, "2 * (P - 1 - r) + 1", "M + 2 * P - 1 - 2 * r"},
      {{8, -2}, "2 * (P - r)", "M + 2 * P - 2 * r"},
      {{-3, 0}, "-3", "M - P + 1"},
      {{-7, 1}, "r - 7", "M - 2 * P + r + 1"},
      {{4, 1}, "P + r", "M + P + r"},
      {{-4, 1}, "r - P", "M - P + r"},
      {{29, -3}, "29 - 3 * r", "M + 29 - 3 * r"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(WriteAffine(c.value, 4), c.alone);
    EXPECT_EQ(WriteSum("M", c.value, 4), c.behind);
  }
}

TEST(RankExpressionTest, Cases) {
  const auto cases = [](const std::vector<std::optional<int64_t>>& values) {
    return WriteCases(values, "s", 0);
  };
  EXPECT_EQ(cases({0, 1, 2, 3, 3, 2, 1, 0}), "s < 4 ? s : 7 - s");
  EXPECT_EQ(cases({5, 0, 0, 0}), "s == 0 ? 5 : 0");
  EXPECT_EQ(cases({2, {}, 2, 7, 2, 2}), "s < 3 ? 2 : s == 3 ? 7 : 2");
  EXPECT_EQ(cases({4}), "4");
}

}  // namespace
}  // namespace stringline::search
