// `stringline search --for`: one text for several sizes. What it says of each size is held against
// the text itself, checked and simulated there by the other commands.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schedlang/ask/any_size_search.h"
#include "schedlang/ask/family_texts.h"
#include "schedlang/ask/session.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

constexpr const char* kUnequal = "F=18522,I=18086,W=9337,p2p=601";

Answer SearchFor(const std::string& line) {
  return RunToolIn(SourceFolder(), Words("search " + line));
}

// The parameters of a size, "P=4 M=12".
std::string SizeOf(const nlohmann::json& size) {
  std::string words;
  for (const auto& [name, value] : size["parameters"].items()) {
    absl::StrAppend(&words, words.empty() ? "" : " ", name, "=", value.get<int64_t>());
  }
  return words;
}

// The search's answer, whose every figure is what check and sim say of the text that it wrote.
nlohmann::json Confirmed(const std::string& line, const std::string& costs,
                         const std::string& between) {
  const std::string path = ScratchFolder() + "/any_size.sched";
  const std::string cost = absl::StrCat(" --cost ", costs);
  const Answer answer = SearchFor(absl::StrCat(line, cost, " --json --emit ", path));
  EXPECT_EQ(answer.status, 0) << line << answer.err;
  if (answer.status != 0) return nlohmann::json();
  nlohmann::json found = nlohmann::json::parse(answer.out);
  for (const nlohmann::json& size : found["sizes"]) {
    const std::string at = SizeOf(size);
    const Answer simulated =
        RunToolIn(SourceFolder(), Words(absl::StrCat("sim ", path, " ", at, cost, " --json")));
    const nlohmann::json step = nlohmann::json::parse(simulated.out);
    EXPECT_EQ(step["makespan_us"], size["value_us"]) << line << at;
    EXPECT_EQ(step["makespan_us"], size["makespan_us"]) << line << at;
    const Answer checked =
        RunToolIn(SourceFolder(), Words(absl::StrCat("check ", path, " ", at, " --activations ",
                                                     size["activations"].get<int>())));
    EXPECT_EQ(checked.status, 0) << line << at << checked.err;
    EXPECT_GE(size["value_us"], size["bound_us"]) << line << at;
  }
  const Answer elsewhere =
      RunToolIn(SourceFolder(), Words(absl::StrCat("check ", path, " ", between)));
  EXPECT_EQ(elsewhere.status, 0) << line << between << elsewhere.err;
  EXPECT_EQ(found["proof"]["right"], found["proof"]["plans"]) << line;
  return found;
}

TEST(SearchForTest, ReachesTheBoundOfEverySizeWithinAnyMemory) {
  // Blocks of a V reach the bound where F, I and W take equally long, with each memory between a
  // third of 1F1B's and all of it.
  for (const char* const memory : {"P", "P+2", "3*P/2", "2*P"}) {
    const nlohmann::json found =
        Confirmed(absl::StrCat("--for P=4,8 --for M=3*P --place v --kinds F,I,W --iterations 2000 "
                               "--activations ",
                               memory),
                  "F=1,I=1,W=1", "P=6 M=18");
    if (found.is_null()) continue;
    EXPECT_EQ(found["worst_gap"], 0) << memory;
  }
}

TEST(SearchForTest, IsAsGoodAsThePapersSchedules) {
  const auto makespan = [](const std::string& schedule, int p, const std::string& costs) {
    const Answer answer =
        RunToolIn(SourceFolder(), Words(absl::StrCat("sim ", schedule, " P=", p, " M=", 3 * p,
                                                     " --cost ", costs, " --json")));
    return nlohmann::json::parse(answer.out)["makespan_us"].get<double>();
  };
  const std::string cases[][4] = {
      {"", "F,I,W", "P", "zb_h1"},
      {"", "F,I,W", "2*P-1", "zb_h2"},
      {"--place v ", "F,I,W", "P+2", "v_half"},
      {"--place v ", "F,B", "4*P/3+3", "v_1f1b"},
  };
  for (const auto& [place, kinds, memory, schedule] : cases) {
    for (const char* const costs : {"F=1,I=1,W=1,B=2", "F=18522,I=18086,W=9337,B=27423,p2p=601"}) {
      const nlohmann::json found =
          Confirmed(absl::StrCat("--for P=4,8 --for M=3*P ", place, "--kinds ", kinds,
                                 " --iterations 500 --activations ", memory),
                    costs, "P=6 M=18");
      if (found.is_null()) continue;
      for (const nlohmann::json& size : found["sizes"]) {
        EXPECT_LE(size["value_us"], makespan(schedule, size["parameters"]["P"], costs))
            << schedule << " " << costs;
      }
    }
  }
}

TEST(SearchForTest, IsBetterThanTheLibraryWhereMemoryLiesBetweenItsSchedules) {
  const nlohmann::json v = Confirmed(
      "--for P=4,8 --for M=3*P --place v --kinds F,I,W --iterations 4000 --activations 3*P/2",
      kUnequal, "P=6 M=18");
  EXPECT_LE(v["worst_gap"], 0.006);
  EXPECT_GE(v["sizes"][1]["library"]["value_us"], 1.03 * v["sizes"][1]["value_us"].get<double>());
  const nlohmann::json line =
      Confirmed("--for P=4,8 --for M=3*P --kinds F,I,W --iterations 4000 --activations 3*P/2",
                kUnequal, "P=6 M=18");
  EXPECT_LE(line["worst_gap"], 0.007);
  const nlohmann::json whole =
      Confirmed("--for P=4,8 --for M=3*P --place v --kinds F,B --iterations 4000 --activations 2*P",
                "F=18522,B=27423,p2p=601", "P=6 M=18");
  EXPECT_LE(whole["worst_gap"], 0.005);
}

TEST(SearchForTest, TakesSchedulesOfAsManyStagesARank) {
  // interleaved has two stages a rank unless V says more, and hanayo one wave.
  const std::string cases[][2] = {{"loop 3", "interleaved V=3"}, {"wave 4", "hanayo waves=2"}};
  for (const auto& [place, schedule] : cases) {
    const Answer answer =
        RunToolIn(SourceFolder(), {"search", "--for", "P=2,4", "--for", "M=2*P", "--place", place,
                                   "--kinds", "F,B", "--iterations", "400", "--json"});
    ASSERT_EQ(answer.status, 0) << answer.err;
    for (const nlohmann::json& size : nlohmann::json::parse(answer.out)["sizes"]) {
      const Answer step = RunToolIn(
          SourceFolder(), Words(absl::StrCat("sim ", schedule, " ", SizeOf(size), " --json")));
      ASSERT_EQ(step.status, 0) << step.err;
      EXPECT_LE(size["value_us"], nlohmann::json::parse(step.out)["makespan_us"]) << place;
    }
  }
}

TEST(SearchForTest, KeepsALimitOfBytes) {
  const std::string costs = "F=10,B=20,memory.saved_for_W=1GB,message=1MB";
  const nlohmann::json found = Confirmed(
      "--for P=4,6 --for M=2*P --kinds F,B --iterations 300 --memory 4GB", costs, "P=5 M=10");
  for (const nlohmann::json& size : found["sizes"]) {
    for (const nlohmann::json& bytes : size["bytes"]) EXPECT_LE(bytes, 4'000'000'000);
  }
  EXPECT_EQ(found["proof"]["within"], found["proof"]["plans"]);
}

TEST(SearchForTest, VariesTheParametersOfAFile) {
  const std::string path = ScratchFolder() + "/mine.sched";
  WriteText(path,
            "# Mine.\n"
            "schedule mine(P, M, ahead = 0, other = 7) {\n"
            "  stages P on line;\n"
            "  require other == 7 or other == 3 \"no\";\n"
            "  rank r {\n"
            "    let warmup = min(P - 1 - r + max(0, ahead - r), M);\n"
            "    repeat warmup { F r }\n"
            "    repeat M - warmup { F r; B r }\n"
            "    repeat warmup { B r }\n"
            "  }\n"
            "}\n");
  // Messages as long as an F: more forwards ahead are better, and `other` does not matter.
  const std::string line =
      absl::StrCat("--from ", path, " --for P=3,6 --for M=4*P --iterations 400", " --kinds F,B");
  const nlohmann::json found = Confirmed(line, "F=10,B=20,p2p=10", "P=5 M=20");
  EXPECT_TRUE(found["chosen"].contains("ahead")) << found["chosen"];
  EXPECT_FALSE(found["chosen"].contains("other")) << found["chosen"];
  EXPECT_EQ(found["families"], 1);
  EXPECT_TRUE(absl::StrContains(found["text"].get<std::string>(), "# Mine.")) << found["text"];
  // A parameter that is given is not varied.
  const nlohmann::json fixed = nlohmann::json::parse(
      SearchFor(absl::StrCat(line, " ahead=0 --cost F=10,B=20,p2p=10 --json")).out);
  EXPECT_EQ(fixed["chosen"], nlohmann::json::object());
  EXPECT_GT(fixed["worst_gap"], found["worst_gap"]);
}

TEST(SearchForTest, SaysWhereATextDoesNotHold) {
  const std::string path = ScratchFolder() + "/even.sched";
  WriteText(path,
            "schedule even(P, M) {\n"
            "  require P % 2 == 0 \"P must be even\";\n"
            "  stages P on line;\n"
            "  rank r { repeat M { F r } repeat M { B r } }\n"
            "}\n");
  const Answer found = SearchFor(
      absl::StrCat("--from ", path, " --for P=4,6 --for M=P --kinds F,B --activations 6"));
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(absl::StrContains(
      found.out, "proven for its sizes, and 2 of the 3 plans of P=4..6 M=P; not P=5 M=5: "))
      << found.out;
  EXPECT_TRUE(absl::StrContains(found.out, "P must be even")) << found.out;
}

TEST(SearchForTest, FindsTheSameWithTheSameIterations) {
  const std::string line =
      "--for P=4,6 --for M=2*P --place v --kinds F,I,W --iterations 300 --activations P+3 --cost ";
  const Answer once = SearchFor(absl::StrCat(line, kUnequal));
  const Answer again = SearchFor(absl::StrCat(line, kUnequal));
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_EQ(once.out, again.out);
}

TEST(SearchForTest, RefusesByNameWhatIsOfOneSize) {
  const char* const cases[][2] = {
      {"--cost F=[1,2,3,4],B=2", "--for and costs of each stage: F has 4 values"},
      {"--cost F=1,B=2,microbatch=[1,2]", "microbatch"},
      {"--place any", "--for and --place any"},
      {"--place [0,1,1,0]", "--for and --place [0,1,1,0]"},
      {"--split any", "--for and --split any"},
      {"--recompute any", "--for and --recompute"},
      {"--offload any", "--for and --offload"},
      {"--jitter 10%", "--for and --jitter"},
      {"--slow 1=10%", "--for and --slow"},
      {"--expect worst", "--for and --expect"},
      {"--host-memory 1GB", "--for and --host-memory"},
      {"--memory 1GB,2GB --cost F=1,B=2,memory.saved_for_W=1GB", "--for and --memory of each rank"},
      {"--activations Q", "--activations Q: 'Q' is no parameter"},
      {"--activations 2-P", "--activations 2-P: that is -2; it may be 0"},
      {"--activations P-4", "P=4 M=8: no order exists within that memory"},
      {"V=2", "'V' is a parameter of a schedule"},
      {"P=3", "'P' is given twice"},
  };
  for (const auto& [words, message] : cases) {
    const Answer answer =
        SearchFor(absl::StrCat("--for P=4,6 --for M=2*P --kinds F,B --iterations 20 ", words));
    EXPECT_EQ(answer.status, 2) << words << answer.out;
    EXPECT_TRUE(absl::StrContains(answer.err, message)) << words << "\n" << answer.err;
  }
  const Answer sizes = SearchFor("--for P=4..200 --for M=P");
  EXPECT_TRUE(absl::StrContains(sizes.err, "197 sizes")) << sizes.err;
  const Answer none = SearchFor(
      "--for P=4,6 --for M=2*P --place v --kinds F,B --activations P/2 "
      "--iterations 40");
  EXPECT_NE(none.status, 0);
  EXPECT_TRUE(absl::StrContains(none.err, "P=4 M=8")) << none.err;
}

TEST(SearchForTest, AnswersWheneverItIsStopped) {
  AnySizeQuestion question;
  question.search.place = "v";
  question.activations = "P + 2";
  question.search.iterations = 2'000'000'000;
  question.search.costs.text = kUnequal;
  for (const char* const range : {"P=2,4", "M=2*P"})
    question.ranges.push_back(*ParseSweepRange(range));
  int answers = 0;
  for (const int looks : {0, 1, 5, 20, 60, 200, 600, 1500}) {
    std::atomic<int> left = looks;
    const Stop stop([&left] { return --left < 0; }, Stop::kNever);
    const auto found = SearchForSizes(question, &stop, [](const AnySizeProgress&) {});
    if (!found.ok()) {
      EXPECT_TRUE(absl::IsNotFound(found.status())) << looks << found.status();
      EXPECT_TRUE(absl::StrContains(found.status().message(), "stopped")) << found.status();
      continue;
    }
    ++answers;
    for (const FoundAtSize& size : found->sizes) {
      EXPECT_LE(size.least(), size.value) << looks;
      EXPECT_LE(size.activations, size.parameters[0].value + 2) << looks;
    }
  }
  EXPECT_GE(answers, 2);
}

// A value as a function of P, in words and in numbers.
TEST(FamilyTexts, ValuesAreThoseOfTheirWords) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const ValueOfRanks value{static_cast<int64_t>(random() % 9),
                             1 + static_cast<int64_t>(random() % 8),
                             static_cast<int64_t>(random() % 9) - 4};
    const int64_t p = 1 + static_cast<int64_t>(random() % 70);
    const auto read = ValueWith(value.Text(), {{"P", p}});
    ASSERT_TRUE(read.ok()) << value.Text() << read.status();
    EXPECT_EQ(*read, value.At(p)) << value.Text() << " P=" << p;
  }
}

// Blocks and phases are right for all numbers of ranks and microbatches and all values of their
// parameters: no two actions of a rank meet in a slot, and the checker finds nothing.
TEST(FamilyTexts, AreRightForEveryValueOfTheirParameters) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  int tried = 0;
  for (const char* const place : {"line", "v"}) {
    for (const FamilyText& text : FamilyTextsFor({.place = place, .costs = {}})) {
      const bool is_phases = absl::StrContains(text.name, "phases");
      if (!is_phases && !absl::StrContains(text.name, "blocks")) continue;
      for (int i = 0; i < 150; ++i) {
        const int64_t p = 1 + static_cast<int64_t>(random() % 12);
        const int64_t m = 1 + static_cast<int64_t>(random() % (3 * static_cast<uint64_t>(p)));
        FamilyChoice choice;
        for (size_t at = 0; at < text.open.size(); ++at) {
          // Phases hold P activations at least.
          const bool most = text.NameOf(at) == "most";
          choice.push_back(ValueOfRanks{most ? 1 : static_cast<int64_t>(random() % 3),
                                        most ? 1 : 1 + static_cast<int64_t>(random() % 2),
                                        static_cast<int64_t>(random() % 6)});
        }
        const auto parameters = ParametersOf(text, choice, {{"P", p}, {"M", m}});
        Diagnostics findings;
        std::optional<Plan> plan = ElaboratedPlan(text.file, "", parameters, &findings);
        ASSERT_TRUE(plan) << TextWith(text, choice) << p << " " << m
                          << Render(findings, text.source);
        EXPECT_TRUE(CheckedPlan(*plan, {}, &findings))
            << TextWith(text, choice) << p << " " << m << Render(findings, text.source);
        // The text with these defaults is the same schedule.
        const auto written = FamilyTextOf("found", Source("found", TextWith(text, choice)), {});
        ASSERT_TRUE(written.ok()) << written.status();
        const auto again = ElaboratedPlan(written->file, "", {{"P", p}, {"M", m}}, &findings);
        ASSERT_TRUE(again) << TextWith(text, choice);
        ASSERT_EQ(again->actions.size(), plan->actions.size());
        for (size_t a = 0; a < plan->actions.size(); ++a) {
          EXPECT_TRUE(plan->actions[a].kind == again->actions[a].kind &&
                      plan->actions[a].stage == again->actions[a].stage &&
                      plan->actions[a].microbatch == again->actions[a].microbatch);
        }
        ++tried;
      }
    }
  }
  EXPECT_EQ(tried, 6 * 150);
}

}  // namespace
}  // namespace stringline
