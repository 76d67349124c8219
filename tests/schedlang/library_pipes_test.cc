// The library's bidirectional schedules, its group-interleaved schedule and PipeDream, against
// loops written from their sources.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

// A rank's words, "" if the schedule refuses the parameters.
std::vector<std::string> RanksOf(const std::string& name,
                                 const std::vector<Parameter>& parameters) {
  auto source = ReadSource(std::string(STRINGLINE_SOURCE_DIR "/schedules/") + name + ".sched");
  EXPECT_TRUE(source.ok());
  Diagnostics diagnostics;
  const auto file = Parse(*source, &diagnostics);
  EXPECT_TRUE(file) << Render(diagnostics, *source);
  const auto plan = Elaborate(*file, "", parameters, &diagnostics);
  if (!plan) {
    EXPECT_EQ(diagnostics.findings().front().code, Code::kRequire);
    return {};
  }
  std::vector<std::string> ranks;
  for (int r = 0; r < plan->ranks(); ++r) {
    std::string words;
    for (const Action& action : plan->of(RankId(r))) {
      absl::StrAppend(&words, words.empty() ? "" : action.joined ? "&" : " ", Print(*plan, action));
    }
    ranks.push_back(std::move(words));
  }
  return ranks;
}

// Performs the steps of DualPipe's own code: phase 0 is the direction in which the rank leads.
class DualPipeRank {
 public:
  DualPipeRank(int P, int r) : P_(P), r_(r) {}

  void F(int phase) { Write(Next(phase, 'F')); }
  void B(int phase) { Write(Next(phase, 'B')); }
  void I(int phase) {
    Write(Next(phase, 'I'));
    deferred_.push_back(Name(phase, 'W', backwards_[phase] - 1));
  }
  void W() {
    Write(deferred_.front());
    deferred_.pop_front();
  }
  void Both(int forward, int backward) {
    const std::string first = Next(forward, 'F');
    Write(absl::StrCat(first, "&", Next(backward, 'B')));
  }
  std::string words() const { return absl::StrJoin(words_, " "); }

 private:
  std::string Name(int phase, char letter, int m) const {
    const bool leads_down = r_ < P_ / 2;
    const bool down = (phase == 0) == leads_down;
    return absl::StrCat(down ? "down" : "up", "[", down ? r_ : P_ - 1 - r_, "]",
                        std::string(1, letter), m);
  }
  std::string Next(int phase, char letter) {
    return Name(phase, letter, letter == 'F' ? forwards_[phase]++ : backwards_[phase]++);
  }
  void Write(std::string word) { words_.push_back(std::move(word)); }

  int P_, r_;
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
  std::deque<std::string> deferred_;
  std::vector<std::string> words_;
};

std::string DualPipeWords(int P, int M, int r) {
  const int half = P / 2, h = std::min(r, P - 1 - r), steady = M / 2 - P + h + 1;
  DualPipeRank d(P, r);
  for (int i = 0; i < 2 * (half - h - 1); ++i) d.F(0);
  for (int i = 0; i < h + 1; ++i) d.F(0), d.F(1);
  for (int i = 0; i < half - h - 1; ++i) d.I(1), d.W(), d.F(1);
  for (int i = 0; i < steady; ++i) {
    if (i == 0 && h == half - 1) {
      d.F(0), d.B(1);
    } else {
      d.Both(0, 1);
    }
    d.Both(1, 0);
  }
  for (int i = 0; i < half - h - 1; ++i) d.B(1), d.Both(1, 0);
  bool split = false;
  for (int i = 0; i < h + 1; ++i) {
    if (i == (h + 1) / 2 && h % 2 == 1) split = true;
    split ? d.I(1) : d.B(1);
    if (i == (h + 1) / 2 && h % 2 == 0) split = true;
    split ? d.I(0) : d.B(0);
  }
  for (int i = 0; i < half - h - 1; ++i) d.W(), d.I(0);
  for (int i = 0; i < h + 1; ++i) d.W();
  return d.words();
}

TEST(LibraryPipes, DualPipeIsItsAuthorsOrder) {
  for (int P = 2; P <= 16; ++P) {
    for (int M = 1; M <= 4 * P; ++M) {
      const auto ranks = RanksOf("dualpipe", {{"P", P}, {"M", M}});
      const bool admitted = P % 2 == 0 && M % 2 == 0 && M >= 2 * P;
      ASSERT_EQ(ranks.size(), admitted ? P : 0) << P << " " << M;
      for (int r = 0; admitted && r < P; ++r) {
        ASSERT_EQ(ranks[r], DualPipeWords(P, M, r)) << "P=" << P << " M=" << M << " rank " << r;
      }
    }
  }
}

// Units of P microbatches, half of them in each direction, every action at its own slot.
std::string ChimeraWords(int P, int M, int r) {
  std::map<int, std::string> slots;
  for (int unit = 0, m = 0; m < M / 2; ++unit) {
    for (int j = 0; j < P / 2 && m < M / 2; ++j, ++m) {
      for (const bool down : {true, false}) {
        const int stage = down ? r : P - 1 - r;
        const std::string name = absl::StrCat(down ? "down[" : "up[", stage, "]");
        slots[2 * j + stage + 2 * P * unit] = absl::StrCat(name, "F", m);
        slots[2 * j + 2 * P - 1 - stage + 2 * P * unit] = absl::StrCat(name, "B", m);
      }
    }
  }
  std::vector<std::string> words;
  for (const auto& [slot, word] : slots) words.push_back(word);
  return absl::StrJoin(words, " ");
}

TEST(LibraryPipes, ChimeraIsItsSlots) {
  for (int P = 2; P <= 16; ++P) {
    for (int M = 1; M <= 4 * P; ++M) {
      const auto ranks = RanksOf("chimera", {{"P", P}, {"M", M}});
      const bool admitted = P % 2 == 0 && M % 2 == 0;
      ASSERT_EQ(ranks.size(), admitted ? P : 0) << P << " " << M;
      for (int r = 0; admitted && r < P; ++r) {
        ASSERT_EQ(ranks[r], ChimeraWords(P, M, r)) << "P=" << P << " M=" << M << " rank " << r;
      }
    }
  }
}

// As Chimera, with both stages of a rank: 2 P stages there, and 2 P back.
std::string BitPipeWords(int P, int M, int r) {
  std::map<int, std::string> slots;
  for (int m = 0; m < M / 2; ++m) {
    const int from = 2 * (m % (P / 2)) + 4 * P * (m / (P / 2));
    for (const bool down : {true, false}) {
      const int first = down ? r : P - 1 - r;
      for (const int stage : {first, 2 * P - 1 - first}) {
        const std::string name = absl::StrCat(down ? "down[" : "up[", stage, "]");
        slots[from + stage] = absl::StrCat(name, "F", m);
        slots[from + 4 * P - 1 - stage] = absl::StrCat(name, "B", m);
      }
    }
  }
  std::vector<std::string> words;
  for (const auto& [slot, word] : slots) words.push_back(word);
  EXPECT_EQ(words.size(), static_cast<size_t>(4 * M)) << "two actions share a slot";
  return absl::StrJoin(words, " ");
}

TEST(LibraryPipes, BitPipeIsItsSlots) {
  for (int P = 2; P <= 16; ++P) {
    for (int M = 1; M <= 4 * P; ++M) {
      const auto ranks = RanksOf("bitpipe", {{"P", P}, {"M", M}});
      const bool admitted = P % 2 == 0 && M % 2 == 0;
      ASSERT_EQ(ranks.size(), admitted ? P : 0) << P << " " << M;
      for (int r = 0; admitted && r < P; ++r) {
        ASSERT_EQ(ranks[r], BitPipeWords(P, M, r)) << "P=" << P << " M=" << M << " rank " << r;
      }
    }
  }
}

TEST(LibraryPipes, GemsGoesThereAndBack) {
  for (int P = 1; P <= 8; ++P) {
    for (int M = 1; M <= 4 * P; ++M) {
      const auto ranks = RanksOf("gems", {{"P", P}, {"M", M}});
      ASSERT_EQ(ranks.size(), P);
      for (int r = 0; r < P; ++r) {
        std::vector<std::string> words;
        for (int m = 0; m < M; ++m) {
          const std::string stage =
              m % 2 == 0 ? absl::StrCat("down[", r, "]") : absl::StrCat("up[", P - 1 - r, "]");
          words.push_back(absl::StrCat(stage, "F", m / 2));
          words.push_back(absl::StrCat(stage, "B", m / 2));
        }
        ASSERT_EQ(ranks[r], absl::StrJoin(words, " ")) << "P=" << P << " M=" << M << " rank " << r;
      }
    }
  }
}

// 1F1B over the microbatches of all steps, with an update behind the last backward of each.
TEST(LibraryPipes, PipeDreamIsOneFOneBWithUpdates) {
  for (int P = 1; P <= 6; ++P) {
    for (int M = 1; M <= 2 * P; ++M) {
      for (const int steps : {1, 5}) {
        const auto ranks = RanksOf("pipedream", {{"P", P}, {"M", M}, {"steps", steps}});
        const auto without = RanksOf("1f1b", {{"P", P}, {"M", M * steps}});
        ASSERT_EQ(ranks.size(), P);
        for (int r = 0; r < P; ++r) {
          std::string words;
          int backwards = 0;
          for (const absl::string_view word : absl::StrSplit(without[r], ' ')) {
            absl::StrAppend(&words, words.empty() ? "" : " ", word);
            if (!absl::StrContains(word, "B") || ++backwards % M != 0) continue;
            absl::StrAppend(&words, " ", r, "UPDATE", backwards / M - 1);
          }
          ASSERT_EQ(ranks[r], words) << P << " " << M << " " << steps << " rank " << r;
        }
      }
    }
  }
}

TEST(LibraryPipes, GroupInterleaved) {
  for (int P = 2; P <= 8; ++P) {
    for (int G = (P + 1) / 2; G <= P; ++G) {
      const int M = 3 * G, V = 3;
      const auto ranks = RanksOf("gis", {{"P", P}, {"M", M}, {"V", V}, {"G", G}});
      ASSERT_EQ(ranks.size(), P);
      for (int r = 0; r < P; ++r) {
        // Action k of a kind: its chunk, and its microbatch.
        const auto chunk = [&](int k) { return k / G % V; };
        const auto microbatch = [&](int k) { return k / (G * V) * G + k % G; };
        const int warmup = std::min(P - 1 - r + (V - 1) * G, V * M);
        std::vector<std::string> words;
        for (int k = 0; k < V * M + warmup; ++k) {
          if (k < V * M) words.push_back(absl::StrCat(chunk(k) * P + r, "F", microbatch(k)));
          const int b = k - warmup;
          if (b < 0) continue;
          for (const char letter : {'I', 'W'}) {
            words.push_back(
                absl::StrCat((V - 1 - chunk(b)) * P + r, std::string(1, letter), microbatch(b)));
          }
        }
        ASSERT_EQ(ranks[r], absl::StrJoin(words, " ")) << P << " " << G << " rank " << r;
      }
    }
  }
}

// A greedy rule that gives the order of 1F1B.
TEST(LibraryPipes, OneFOneBAsARule) {
  const Source source("x.sched",
                      "schedule rule(P, M) { stages P on line;\n"
                      "  rank r greedy { hold at most P - r; prefer B, F } }");
  for (int P = 1; P <= 12; ++P) {
    for (int M = 1; M <= 3 * P; ++M) {
      Diagnostics diagnostics;
      const auto file = Parse(source, &diagnostics);
      const auto plan = Elaborate(*file, "", {{"P", P}, {"M", M}}, &diagnostics);
      ASSERT_TRUE(plan) << Render(diagnostics, source);
      const auto ranks = RanksOf("1f1b", {{"P", P}, {"M", M}});
      for (int r = 0; r < P; ++r) {
        std::vector<std::string> words;
        for (const Action& action : plan->of(RankId(r))) words.push_back(Print(*plan, action));
        ASSERT_EQ(absl::StrJoin(words, " "), ranks[r]) << P << " " << M << " rank " << r;
      }
    }
  }
}

}  // namespace
}  // namespace stringline
