// The schedules of the library against their papers' orders, written down here once more as plain
// loops: for every P in 2..16 and M in 1..4P that a schedule admits, the plans are equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

using Words = std::vector<std::string>;

std::string Word(int stage, const char* kind, int microbatch) {
  return absl::StrCat(stage, kind, microbatch);
}

Words GPipe(int, int M, int r) {
  Words out;
  for (int m = 0; m < M; ++m) out.push_back(Word(r, "F", m));
  for (int m = 0; m < M; ++m) out.push_back(Word(r, "B", m));
  return out;
}

Words OneFOneB(int P, int M, int r) {
  Words out;
  const int warm = std::min(P - 1 - r, M);
  for (int m = 0; m < warm; ++m) out.push_back(Word(r, "F", m));
  for (int m = warm; m < M; ++m) {
    out.push_back(Word(r, "F", m));
    out.push_back(Word(r, "B", m - warm));
  }
  for (int m = M - warm; m < M; ++m) out.push_back(Word(r, "B", m));
  return out;
}

// The words of a rank with `chunks` stages when microbatches go through them in groups, in order:
// its k-th forward, its k-th backward (of kind B or I) and the weight gradient deferred by this
// backward.
struct Rounds {
  Words forward, backward, weight;

  Rounds(int P, int M, int r, int chunks, int group, const char* kind) {
    for (int from = 0; from < M; from += group) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        for (int m = from; m < std::min(from + group, M); ++m) {
          const int back = (chunks - 1 - chunk) * P + r;
          forward.push_back(Word(chunk * P + r, "F", m));
          backward.push_back(Word(back, kind, m));
          weight.push_back(Word(back, "W", m));
        }
      }
    }
  }
};

Words Grouped(int P, int M, int r, int chunks, int group) {
  const Rounds rounds(P, M, r, chunks, group, "B");
  const int all = M * chunks;
  const int warm = std::min(2 * (P - 1 - r) + (chunks - 1) * group, all);
  Words out(rounds.forward.begin(), rounds.forward.begin() + warm);
  for (int k = 0; k < all; ++k) {
    if (warm + k < all) out.push_back(rounds.forward[warm + k]);
    out.push_back(rounds.backward[k]);
  }
  return out;
}

// A further forward in the warm-up, and each steady pair is a single action. Weight gradients come
// with the backward (lag < 0) or `lag` input gradients late.
Words Combined(int P, int M, int r, int lag) {
  const Rounds rounds(P, M, r, 2, P, lag < 0 ? "B" : "I");
  const int all = 2 * M;
  const int warm = std::min(2 * (P - 1 - r) + P + 1, all);
  Words out(rounds.forward.begin(), rounds.forward.begin() + warm);
  for (int k = 0; k < all; ++k) {
    const bool steady = warm + k < all;
    out.push_back((steady ? rounds.forward[warm + k] + "&" : "") + rounds.backward[k]);
    if (lag >= 0 && k >= lag) out.push_back(rounds.weight[k - lag]);
  }
  for (int k = std::max(0, all - lag); lag >= 0 && k < all; ++k) out.push_back(rounds.weight[k]);
  return out;
}

Words MegatronCombined(int P, int M, int r) { return Combined(P, M, r, -1); }
Words KimiK2(int P, int M, int r) { return Combined(P, M, r, 1); }

// Half the warm-up, weight gradients r input gradients late on rank r.
Words InterleavedZb(int P, int M, int r) {
  const Rounds rounds(P, M, r, 2, M / std::max(1, M / P), "I");
  const int all = 2 * M;
  const int warm = std::min(P - 1 - r + M / std::max(1, M / P), all);
  Words out(rounds.forward.begin(), rounds.forward.begin() + warm);
  int weights = 0;
  for (int k = 0; k < all; ++k) {
    if (warm + k < all) out.push_back(rounds.forward[warm + k]);
    out.push_back(rounds.backward[k]);
    if (k - weights >= r) out.push_back(rounds.weight[weights++]);
  }
  out.insert(out.end(), rounds.weight.begin() + weights, rounds.weight.end());
  return out;
}

Words LoopedBfs(int P, int M, int r) {
  Words out;
  for (int stage : {r, P + r}) {
    for (int m = 0; m < M; ++m) out.push_back(Word(stage, "F", m));
  }
  for (int stage : {P + r, r}) {
    for (int m = 0; m < M; ++m) out.push_back(Word(stage, "B", m));
  }
  return out;
}

Words Interleaved(int P, int M, int r) { return Grouped(P, M, r, 2, P); }

// ZB-H1 is k = 1, ZB-H2 is k = 2.
Words ZeroBubbleH(int k, int P, int M, int r) {
  Words out;
  const int warm = (P - 1 - r) * k;
  const int delay = (P - 1) * k;
  int f = 0, w = 0;
  while (f < std::min(warm, M)) out.push_back(Word(r, "F", f++));
  for (int i = 0; i < M; ++i) {
    if (f < M) out.push_back(Word(r, "F", f++));
    out.push_back(Word(r, "I", i));
    if (warm + i >= delay) out.push_back(Word(r, "W", w++));
  }
  while (w < M) out.push_back(Word(r, "W", w++));
  return out;
}

Words ZeroBubbleH1(int P, int M, int r) { return ZeroBubbleH(1, P, M, r); }
Words ZeroBubbleH2(int P, int M, int r) { return ZeroBubbleH(2, P, M, r); }

Words ZeroBubbleV(int P, int M, int r) {
  const int n = std::max(2 * P - 1, M);
  const int c[2] = {r, 2 * P - 1 - r};
  int f[2] = {}, b[2] = {}, w[2] = {};
  Words out;
  const auto emit = [&](int chunk, const char* kind, int m) {
    if (m < M) out.push_back(Word(c[chunk], kind, m));
  };
  const auto forward = [&](int chunk) { emit(chunk, "F", f[chunk]++); };
  const auto input = [&](int chunk) { emit(chunk, "I", b[chunk]++); };
  const auto weight = [&](int chunk) { emit(chunk, "W", w[chunk]++); };
  for (int i = 0; i < 2 * (P - r) - 1; ++i) forward(0);
  for (int i = 0; i < r; ++i) forward(1), forward(0);
  for (int i = 0; i < P - r; ++i) forward(1), input(1), weight(1);
  while (f[1] < f[0] || f[0] < n) {
    if (f[0] < n) forward(0);
    input(0), weight(0), forward(1), input(1), weight(1);
  }
  for (int i = 0; i < r; ++i) input(0), input(1);
  for (int i = 0; i < P - r; ++i) input(0), weight(0);
  while (w[1] < b[1]) weight(1);
  while (w[0] < b[0]) weight(0);
  return out;
}

// The eight steps with their queue of deferred weight gradients.
class DualPipe {
 public:
  DualPipe(int P, int r) : chunk_{r, 2 * P - 1 - r} {}

  void Forward(int c) { out_.push_back(Word(chunk_[c], "F", f_[c]++)); }
  void Backward(int c) { out_.push_back(Word(chunk_[c], "B", b_[c]++)); }
  void Both(int f, int b) {
    Forward(f);
    const std::string first = out_.back();
    out_.pop_back();
    Backward(b);
    out_.back() = absl::StrCat(first, "&", out_.back());
  }
  void Input(int c) {
    queue_.emplace_back(c, b_[c]);
    out_.push_back(Word(chunk_[c], "I", b_[c]++));
  }
  void Weight() {
    out_.push_back(Word(chunk_[queue_.front().first], "W", queue_.front().second));
    queue_.pop_front();
  }
  Words out() const { return out_; }

 private:
  int chunk_[2];
  int f_[2] = {}, b_[2] = {};
  std::deque<std::pair<int, int>> queue_;
  Words out_;
};

Words DualPipeV(int P, int M, int r) {
  DualPipe d(P, r);
  for (int i = 0; i < 2 * (P - 1 - r); ++i) d.Forward(0);
  for (int i = 0; i < r + 1; ++i) d.Forward(0), d.Forward(1);
  for (int i = 0; i < P - 1 - r; ++i) d.Input(1), d.Weight(), d.Forward(1);
  for (int i = 0; i < M - 2 * P + r + 1; ++i) {
    if (r == P - 1 && i == 0) {
      d.Forward(0), d.Backward(1);
    } else {
      d.Both(0, 1);
    }
    d.Both(1, 0);
  }
  for (int i = 0; i < P - 1 - r; ++i) d.Backward(1), d.Both(1, 0);
  bool split = false;
  for (int i = 0; i < r + 1; ++i) {
    const bool turn = i == (r + 1) / 2;
    if (turn && r % 2 == 1) split = true;
    split ? d.Input(1) : d.Backward(1);
    if (turn && r % 2 == 0) split = true;
    split ? d.Input(0) : d.Backward(0);
  }
  for (int i = 0; i < P - 1 - r; ++i) d.Weight(), d.Input(0);
  for (int i = 0; i < r + 1; ++i) d.Weight();
  return d.out();
}

// Groups of two microbatches in turn: the forwards of one, then the backwards of the one that is
// P - 1 - r groups behind it. A last group may have one microbatch only.
Words TwoForwardsTwoBackwards(int P, int M, int r) {
  Words out;
  const int groups = (M + 1) / 2, behind = P - 1 - r;
  const auto turn = [&](const char* kind, int group) {
    if (group < 0 || group >= groups) return;
    for (int m = 2 * group; m < std::min(M, 2 * group + 2); ++m) out.push_back(Word(r, kind, m));
  };
  for (int group = 0; group < groups + behind; ++group) {
    turn("F", group);
    turn("B", group - behind);
  }
  return out;
}

Words EagerOneFOneB(int P, int M, int r) {
  Words out;
  const int warm = std::min(2 * (P - 1 - r), M);
  for (int m = 0; m < M + warm; ++m) {
    if (m < M) out.push_back(Word(r, "F", m));
    if (m < warm) continue;
    out.push_back(Word(r, "I", m - warm));
    out.push_back(Word(r, "W", m - warm));
  }
  return out;
}

// The same as interleaved, but M may be any: each of M / P rounds gets a microbatch more until none
// is left over.
Words Llama3(int P, int M, int r) {
  const int rounds = std::max(1, M / P);
  std::vector<int> sizes(rounds, M / rounds);
  for (int left = 0; left < M % rounds; ++left) ++sizes[left];
  Words forward, backward;
  int from = 0;
  for (const int size : sizes) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (int m = from; m < from + size; ++m) {
        forward.push_back(Word(chunk * P + r, "F", m));
        backward.push_back(Word((1 - chunk) * P + r, "B", m));
      }
    }
    from += size;
  }
  Words out;
  const int all = 2 * M, warm = std::min(2 * (P - 1 - r) + sizes[0], all);
  for (int k = 0; k < all + warm; ++k) {
    if (k < all) out.push_back(forward[k]);
    if (k >= warm) out.push_back(backward[k - warm]);
  }
  return out;
}

// The forwards of a loop over microbatches and stages, and the loop's actions from behind.
Words Circular(int P, int M, int r) {
  std::vector<std::pair<int, int>> done;
  for (int stage : {r, P + r}) {
    for (int m = 0; m < M; ++m) done.emplace_back(stage, m);
  }
  Words out;
  for (const auto& [stage, m] : done) out.push_back(Word(stage, "F", m));
  for (auto last = done.rbegin(); last != done.rend(); ++last) {
    out.push_back(Word(last->first, "B", last->second));
  }
  return out;
}

Words OutOfOrder(int P, int M, int r) {
  Words out = LoopedBfs(P, M, r), weights;
  for (std::string& word : out) {
    const size_t letter = word.find('B');
    if (letter == std::string::npos) continue;
    word[letter] = 'W';
    weights.push_back(word);
    word[letter] = 'I';
  }
  out.insert(out.end(), weights.begin(), weights.end());
  return out;
}

// 1F1B without weight gradients until its cool-down; there, one before each input gradient, if one
// is left to do.
Words TwoStageBackward(int P, int M, int r) {
  Words out;
  const int warm = std::min(P - 1 - r, M);
  int weights = 0;
  for (int m = 0; m < M + warm; ++m) {
    const int back = m - warm;
    if (m < M) out.push_back(Word(r, "F", m));
    if (m >= M && weights < back) out.push_back(Word(r, "W", weights++));
    if (back >= 0) out.push_back(Word(r, "I", back));
  }
  while (weights < M) out.push_back(Word(r, "W", weights++));
  return out;
}

struct Published {
  const char* file;
  Words (*order)(int P, int M, int r);
  bool (*admits)(int P, int M);
  int stages_per_rank;
  bool turns;  // the second stages of the ranks go back from the last rank
  const char* overlap = "";
};

// The order of parts in an F beside a B: per pair of layers, turned so that it begins
// where a stage does. Figure 4 of the DeepSeek-V3 report and Megatron's code have the same order.
constexpr const char* kPartsOfPairs =
    "overlap F&B compute F.attn B.experts W.experts F.experts B.attn W.attn "
    "network B.combine F.dispatch B.dispatch F.combine\n";

bool Any(int, int) { return true; }
bool WholeGroups(int P, int M) { return M % P == 0; }  // with groups of P, a last group is whole
bool EqualRounds(int P, int M) { return M % std::max(1, M / P) == 0; }
bool TwoPerRank(int P, int M) { return M >= 2 * P; }

constexpr Published kPublished[] = {
    {"gpipe", GPipe, Any, 1, false},
    {"1f1b", OneFOneB, Any, 1, false},
    {"looped_bfs", LoopedBfs, Any, 2, false},
    {"interleaved", Interleaved, WholeGroups, 2, false},
    {"interleaved_zb", InterleavedZb, EqualRounds, 2, false},
    {"megatron_combined", MegatronCombined, WholeGroups, 2, false, kPartsOfPairs},
    {"kimi_k2", KimiK2, WholeGroups, 2, false},
    {"zb_h1", ZeroBubbleH1, Any, 1, false},
    {"zb_h2", ZeroBubbleH2, Any, 1, false},
    {"zb_v", ZeroBubbleV, Any, 2, true},
    {"dualpipe_v", DualPipeV, TwoPerRank, 2, true, kPartsOfPairs},
    {"kfkb", TwoForwardsTwoBackwards, Any, 1, false},
    {"eager_1f1b", EagerOneFOneB, Any, 1, false},
    {"llama3", Llama3, Any, 2, false},
    {"circular", Circular, Any, 2, false},
    {"ooo_backprop", OutOfOrder, Any, 2, false},
    {"two_bp", TwoStageBackward, Any, 1, false},
};

void PrintTo(const Published& row, std::ostream* out) { *out << row.file; }

// The body of the text form of a plan with these stages on the ranks and this order.
std::string PlanText(int P, int stages, bool turns, const std::string& overlap,
                     const std::function<Words(int)>& order) {
  std::string text = "stages";
  for (int s = 0; s < stages; ++s) {
    absl::StrAppend(&text, " ", turns && s >= P ? 2 * P - 1 - s : s % P);
  }
  absl::StrAppend(&text, "\n", overlap);
  for (int r = 0; r < P; ++r) {
    absl::StrAppend(&text, "rank ", r, ":");
    for (const std::string& word : order(r)) absl::StrAppend(&text, " ", word);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

class LibraryFile {
 public:
  explicit LibraryFile(const char* name)
      : source_(name, ReadTestFile(absl::StrCat("schedules/", name, ".sched"))) {
    Diagnostics diagnostics;
    file_ = Parse(source_, &diagnostics);
    EXPECT_TRUE(file_) << Render(diagnostics, source_);
  }

  // The plan's text form without its header; "" if the schedule does not admit the parameters.
  std::string PlanFor(const std::vector<Parameter>& parameters) const {
    Diagnostics found;
    const std::optional<Plan> plan = Elaborate(*file_, "", parameters, &found);
    if (plan) {
      const std::string text = Print(*plan);
      return text.substr(text.find('\n') + 1);
    }
    EXPECT_EQ(found.findings().front().code, Code::kRequire) << Render(found, source_);
    return "";
  }

 private:
  Source source_;
  std::optional<ast::File> file_;
};

class LibraryOrder : public testing::TestWithParam<Published> {};

TEST_P(LibraryOrder, IsThePublishedOne) {
  const Published& row = GetParam();
  const LibraryFile file(row.file);
  for (int P = 2; P <= 16; ++P) {
    for (int M = 1; M <= 4 * P; ++M) {
      const auto order = [&](int r) { return row.order(P, M, r); };
      const std::string expected =
          row.admits(P, M) ? PlanText(P, row.stages_per_rank * P, row.turns, row.overlap, order)
                           : "";
      ASSERT_EQ(file.PlanFor({{"P", P}, {"M", M}}), expected) << "P=" << P << " M=" << M;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, LibraryOrder, testing::ValuesIn(kPublished),
                         [](const auto& test) { return "Of_" + std::string(test.param.file); });

TEST(Library, InterleavedWithEveryGroupAndNumberOfStages) {
  const LibraryFile file("interleaved");
  for (int P = 2; P <= 5; ++P) {
    for (int M = 1; M <= 4 * P; ++M) {
      for (int V = 1; V <= 4; ++V) {
        for (int G = 1; G <= M + 1; ++G) {
          const bool admitted = P <= G && G <= M && (M % G == 0 || M % G >= P);
          const auto order = [&](int r) { return Grouped(P, M, r, V, G); };
          const std::string expected = admitted ? PlanText(P, V * P, false, "", order) : "";
          ASSERT_EQ(file.PlanFor({{"P", P}, {"M", M}, {"V", V}, {"G", G}}), expected)
              << "P=" << P << " M=" << M << " V=" << V << " G=" << G;
        }
      }
    }
  }
}

TEST(Library, GroupsOfOneAndOfAllMicrobatchesAreOneFOneBAndGPipe) {
  const LibraryFile file("kfkb");
  for (int P = 1; P <= 6; ++P) {
    for (int M = 1; M <= 3 * P; ++M) {
      const auto single = [&](int r) { return OneFOneB(P, M, r); };
      const auto all = [&](int r) { return GPipe(P, M, r); };
      ASSERT_EQ(file.PlanFor({{"P", P}, {"M", M}, {"k", 1}}), PlanText(P, P, false, "", single));
      ASSERT_EQ(file.PlanFor({{"P", P}, {"M", M}, {"k", M}}), PlanText(P, P, false, "", all));
    }
  }
  EXPECT_EQ(file.PlanFor({{"P", 2}, {"M", 4}, {"k", 0}}), "");
}

TEST(Library, FilesAreShortAndBeginWithWhatTheyAre) {
  for (const Published& row : kPublished) {
    const std::string text = ReadTestFile(absl::StrCat("schedules/", row.file, ".sched"));
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40) << row.file;
    EXPECT_EQ(text.substr(0, 2), "# ") << row.file;
  }
}

}  // namespace
}  // namespace stringline
