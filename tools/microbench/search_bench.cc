// The optimiser: its rate of evaluation, and its results beside published ones.
//
//   search_bench [SECONDS]                                                  3 for each search
//
// 1. Moves tried a second on one core, on words of some 1,000 actions. Aim: 300,000.
// 2. The tables of the Zero Bubble papers (their times in microseconds; their memory model: with h
//    and a of the model and s = 1024 a microbatch of a stage holds 34h + 5as, of which I releases
//    2h + 5as and W 32h): the published cost, what is found within the same memory, and the bound.
// 3. How near the final answer the search is after a second (P=8 M=32) and ten (P=32 M=256).
//
// Exit status 1 if the aim is missed or a published cost is lower than what is found.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "schedlang/ask/places.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/costs/costs.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/policies.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/search/random.h"

namespace stringline {
namespace {

using search::Problem;

constexpr int64_t kSecondNs = 1'000'000'000;

struct PaperRow {
  const char* schedule;
  const char* place;
  int p, m;
  int64_t forward, input, weight, hop;  // microseconds, of a stage
  int64_t width, heads;                 // the model's
  int memory;                           // bound on the forwards held by a rank
  search::Objective objective;
  int64_t published;
};
constexpr auto kSpan = search::Objective::kSpan;
constexpr auto kMakespan = search::Objective::kMakespan;
// schedules/README.md has the sources.
const PaperRow kPaper[] = {
    {"ZB-1p", "line", 8, 24, 18522, 18086, 9337, 601, 2304, 24, 8, kMakespan, 1310405},
    {"ZB-1p", "line", 8, 64, 18546, 18097, 9321, 762, 2304, 24, 8, kMakespan, 3154286},
    {"ZB-1p", "line", 16, 64, 11307, 11254, 8101, 379, 5120, 40, 16, kMakespan, 2202008},
    {"ZB-1p", "line", 32, 256, 10402, 10248, 7698, 460, 6144, 48, 32, kMakespan, 7715640},
    {"ZB-2p", "line", 8, 24, 18522, 18086, 9337, 601, 2304, 24, 16, kSpan, 1152599},
    {"ZB-2p", "line", 8, 32, 18513, 18086, 9331, 626, 2304, 24, 16, kSpan, 1475535},
    {"ZB-2p", "line", 8, 64, 18546, 18097, 9321, 762, 2304, 24, 16, kSpan, 2949221},
    {"ZB-2p", "line", 8, 24, 29718, 29444, 19927, 527, 4096, 32, 16, kSpan, 1903596},
    {"ZB-2p", "line", 8, 32, 29802, 29428, 19530, 577, 4096, 32, 16, kSpan, 2525780},
    {"ZB-2p", "line", 8, 64, 29935, 29621, 19388, 535, 4096, 32, 16, kSpan, 5057708},
    {"ZB-2p", "line", 16, 48, 11347, 11248, 8132, 377, 5120, 40, 32, kSpan, 1484721},
    {"ZB-2p", "line", 16, 64, 11307, 11254, 8101, 379, 5120, 40, 32, kSpan, 1972943},
    {"ZB-2p", "line", 16, 128, 11325, 11308, 8109, 378, 5120, 40, 32, kSpan, 3946061},
    {"ZB-2p", "line", 32, 96, 10419, 10207, 7715, 408, 6144, 48, 64, kSpan, 2731004},
    {"ZB-2p", "line", 32, 128, 10408, 10204, 7703, 408, 6144, 48, 64, kSpan, 3634724},
    {"ZB-2p", "line", 32, 256, 10402, 10248, 7698, 460, 6144, 48, 64, kSpan, 7270432},
    {"ZB-V", "v", 16, 48, 14407, 14380, 9676, 1610, 6144, 48, 32, kSpan, 3969197},
    {"ZB-V", "v", 24, 72, 6763, 6969, 5251, 755, 6144, 48, 48, kSpan, 2919856},
    {"ZB-V", "v", 32, 96, 9458, 9748, 7288, 879, 6144, 48, 64, kSpan, 5407444},
};

Problem ProblemOfRow(const PaperRow& row) {
  const Plan stages = StagesOf(row.place, row.p, row.m)->front().stages;
  const CostSpec spec{{{"F", {row.forward * 1000}},
                       {"I", {row.input * 1000}},
                       {"W", {row.weight * 1000}},
                       {"p2p", {row.hop * 1000}}}};
  Problem problem = *search::ProblemOf(stages, *ResolveCosts(spec, stages),
                                       {.whole = false, .objective = row.objective});
  const int64_t attention = 5 * row.heads * 1024;
  const int64_t all = 34 * row.width + attention, by_input = 2 * row.width + attention;
  for (search::StageWork& stage : problem.stages) {
    stage.during = {all, 0, 0, 0};
    stage.after = {all, -all, -by_input, by_input - all};
  }
  problem.capacity.assign(problem.capacity.size(), row.memory * all);
  return problem;
}

SearchState Search(const Problem& problem, const Plan& stages, double seconds) {
  SearchState state;
  state.bound = search::LowerBoundOf(problem);
  search::Evaluator evaluator(problem);
  for (const KnownOrders& known : LibraryOrdersOn(stages)) {
    if (!search::IsComplete(problem, known.words)) continue;
    state.candidates.Offer(&evaluator, known.words, std::nullopt);
  }
  SearchInRounds(
      problem, {static_cast<int64_t>(seconds * kSecondNs)}, [](const SearchState&) { return true; },
      &state);
  return state;
}

bool BeatsThePapers(double seconds) {
  bool good = true;
  std::printf("%-6s %4s %4s %10s %12s %12s %12s %9s %8s\n", "paper", "P", "M", "minimize",
              "published us", "found us", "bound us", "found", "gap");
  for (const PaperRow& row : kPaper) {
    const Problem problem = ProblemOfRow(row);
    const SearchState state =
        Search(problem, StagesOf(row.place, row.p, row.m)->front().stages, seconds);
    const int64_t found = state.candidates.best().score.value / 1000;
    const int64_t bound = state.bound / 1000;
    good = good && found <= row.published;
    std::printf(
        "%-6s %4d %4d %10s %12ld %12ld %12ld %+8.2f%% %7.2f%%\n", row.schedule, row.p, row.m,
        NameOf(row.objective), static_cast<long>(row.published), static_cast<long>(found),
        static_cast<long>(bound),
        100.0 * static_cast<double>(found - row.published) / static_cast<double>(row.published),
        100.0 * static_cast<double>(found - bound) / static_cast<double>(bound));
    std::fflush(stdout);
  }
  return good;
}

// Moves of random groups to nearby places, in the words of the best plain rule.
double TrialsASecond(const char* place, int p, int m) {
  const Plan stages = StagesOf(place, p, m)->front().stages;
  const Problem problem = *search::ProblemOf(stages, *ResolveCosts(UnitCosts(), stages),
                                             {.activations = 3 * p, .whole = false});
  search::Words words;
  for (const search::Policy& policy : search::PlainPolicies(problem)) {
    words = search::ListOrders(problem, policy);
    if (!words.empty()) break;
  }
  search::Evaluator evaluator(problem);
  SL_CHECK(evaluator.Load(words));
  size_t actions = 0;
  for (const auto& word : words) actions += word.size();
  search::Random random(1);
  const int64_t begin_ns = NowNs();
  int64_t trials = 0, drawn = 0;
  while (NowNs() - begin_ns < kSecondNs) {
    for (int i = 0; i < 1000; ++i, ++drawn) {
      const int rank = static_cast<int>(random.Below(p));
      const int length = evaluator.length(rank);
      const int from = static_cast<int>(random.Below(length));
      const int to = from + 1 + static_cast<int>(random.Below(4));
      const search::Move move{rank, from, to};
      if (to >= length || !evaluator.IsPossible(move)) continue;
      (void)evaluator.Try(move, search::kNoLimit);
      ++trials;
    }
  }
  const double seconds = static_cast<double>(NowNs() - begin_ns) / kSecondNs;
  std::printf("%-5s P=%d M=%d, %zu actions: %.0f moves tried a second (of %.0f drawn)\n", place, p,
              m, actions, static_cast<double>(trials) / seconds,
              static_cast<double>(drawn) / seconds);
  return static_cast<double>(trials) / seconds;
}

void NearTheFinalAnswer(const char* place, int p, int m, double soon, double late) {
  const Plan stages = StagesOf(place, p, m)->front().stages;
  const CostSpec spec = *ParseCosts("F=10,I=11,W=7,p2p=1");
  const Problem problem =
      *search::ProblemOf(stages, *ResolveCosts(spec, stages),
                         {.activations = p * 3 / 2, .whole = false, .objective = kSpan});
  const int64_t first = Search(problem, stages, soon).candidates.best().score.value;
  const int64_t last = Search(problem, stages, late).candidates.best().score.value;
  std::printf("%-5s P=%d M=%d: after %.0f s %+.2f %% of what is found in %.0f s\n", place, p, m,
              soon, 100.0 * static_cast<double>(first - last) / static_cast<double>(last), late);
}

int Main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  bool good = TrialsASecond("line", 8, 42) >= 300'000;
  good = TrialsASecond("v", 8, 21) >= 300'000 && good;
  NearTheFinalAnswer("line", 8, 32, 1, 10 * seconds);
  NearTheFinalAnswer("v", 8, 32, 1, 10 * seconds);
  NearTheFinalAnswer("line", 32, 256, 10, 20 * seconds);
  return BeatsThePapers(seconds) && good ? 0 : 1;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) { return stringline::Main(argc, argv); }
