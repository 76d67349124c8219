// Two results of a suite: noise is told apart from change, for any distribution of the times.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

#include "tests/tools/suite_results.h"
#include "tests/tools/tool_run.h"
#include "tools/bench/compare_results.h"

namespace stringline {
namespace {

TEST(SpreadTest, QuantilesOfShortLists) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({4, 1}), 2.5);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Quantile({1, 2, 3, 4, 5}, 0.25), 2);
  EXPECT_EQ(Quantile({0, 10}, 0.75), 7.5);
  EXPECT_EQ(Quantile({2, 1}, 1), 2);
}

// The tables of the rank test: so many of the ratios are left out on each side.
TEST(SpreadTest, IntervalsAreThoseOfTheRankTest) {
  const auto left_out = [](int n, int m) {
    std::vector<double> before(static_cast<size_t>(n), 1), after;
    // after / before has m different values, each n times.
    for (int i = 0; i < m; ++i) after.push_back(1 + i);
    const RatioInterval interval = CompareLists(before, after);
    return interval.is_known ? static_cast<int>(interval.least) : 0;
  };
  EXPECT_EQ(left_out(3, 3), 0);  // no interval
  EXPECT_EQ(left_out(1, 30), 0);
  EXPECT_EQ(left_out(4, 4), 1);  // all of them
  // n = m = 10: 23 are left out, the 24th is in the third of the groups of ten.
  EXPECT_EQ(left_out(10, 10), 3);
  std::vector<double> ones(5, 1), five = {1, 2, 3, 4, 5};
  const RatioInterval interval = CompareLists(ones, five);
  EXPECT_EQ(interval.ratio, 3);
  EXPECT_EQ(interval.least, 1);  // the third of 1 1 1 1 1 2 …
  EXPECT_EQ(interval.most, 5);
}

struct Rates {
  double slower = 0, faster = 0, covered = 0;
};

// The rates over many pairs of lists with this noise, and a factor between the two lists.
template <typename Noise>
Rates TryOften(int repetitions, double factor, unsigned seed, Noise noise) {
  constexpr int kTries = 2000;
  std::mt19937 random(seed);
  Rates rates;
  for (int i = 0; i < kTries; ++i) {
    std::vector<double> before, after;
    for (int k = 0; k < repetitions; ++k) {
      before.push_back(1000 * noise(random));
      after.push_back(1000 * factor * noise(random));
    }
    const FigureChange figure = ChangeOf(before, after);
    rates.slower += figure.change == Change::kSlower ? 1.0 / kTries : 0;
    rates.faster += figure.change == Change::kFaster ? 1.0 / kTries : 0;
    const bool covers = figure.interval.least <= factor && factor <= figure.interval.most;
    rates.covered += covers ? 1.0 / kTries : 0;
  }
  return rates;
}

// The promised rate is 0.05; over 2000 tries, 0.072 is exceeded less than once in a hundred
// thousand.
constexpr double kMostFalse = 0.072;

TEST(SuiteCompareTest, NoiseIsNoChange) {
  const unsigned seed = std::random_device{}();
  const auto even = [](std::mt19937& random) {
    return std::exp(std::normal_distribution<>(0, 0.03)(random));
  };
  // Most are alike, and some are disturbed for long.
  const auto disturbed = [](std::mt19937& random) {
    const double base = std::exp(std::normal_distribution<>(0, 0.005)(random));
    return std::bernoulli_distribution(0.2)(random)
               ? base * (1 + std::exponential_distribution<>(2)(random))
               : base;
  };
  for (const int repetitions : {4, 5, 9, 12}) {
    for (const double factor : {1.0, 1.3, 0.7}) {
      const Rates first = TryOften(repetitions, factor, seed, even);
      const Rates second = TryOften(repetitions, factor, seed + 1, disturbed);
      EXPECT_GE(first.covered, 1 - kMostFalse) << "seed " << seed;
      EXPECT_GE(second.covered, 1 - kMostFalse) << "seed " << seed;
      if (factor != 1) continue;
      EXPECT_LE(first.slower + first.faster, kMostFalse) << "seed " << seed;
      EXPECT_LE(second.slower + second.faster, kMostFalse) << "seed " << seed;
      std::cout << "seed " << seed << ", " << repetitions << " repetitions: false alarms "
                << first.slower + first.faster << " and " << second.slower + second.faster << "\n";
    }
  }
}

TEST(SuiteCompareTest, ATrueChangeIsFound) {
  const unsigned seed = std::random_device{}();
  const auto noise = [](std::mt19937& random) {
    return std::exp(std::normal_distribution<>(0, 0.02)(random));
  };
  EXPECT_GE(TryOften(5, 1.10, seed, noise).slower, 0.99) << "seed " << seed;
  EXPECT_GE(TryOften(5, 0.90, seed, noise).faster, 0.99) << "seed " << seed;
  EXPECT_EQ(TryOften(5, 1.10, seed, noise).faster, 0) << "seed " << seed;
  EXPECT_GE(TryOften(20, 1.04, seed, noise).slower, 0.97) << "seed " << seed;
}

TEST(SuiteCompareTest, TooFewAndTooLittleAreNoChange) {
  EXPECT_EQ(ChangeOf({1, 1, 1}, {2, 2, 2}).change, Change::kTooFew);
  const FigureChange little = ChangeOf({1, 1, 1, 1}, {1.005, 1.005, 1.005, 1.005});
  EXPECT_EQ(little.change, Change::kNone);
  EXPECT_NEAR(little.within(), 0.005, 1e-9);
}

TEST(SuiteCompareTest, SaysWhatChanged) {
  SuiteResults before = MadeResults(), after = MadeResults();
  SlowDown(1.2, &after.cases[0]);
  after.cases[1].inputs["steps"] = 99;
  after.cases[2].repetitions[0].loss += 1;
  for (Repetition& of : after.cases[2].repetitions) of.loss += 1;
  after.device["cpu"] = "another";
  for (CaseResult& result : after.cases) {
    for (Repetition& of : result.repetitions) of.control = {0.2, 900};
  }
  const SuiteComparison comparison = CompareResults(before, after);
  const std::string text = PrintComparison(before, after, comparison);
  for (const char* const line :
       {"the devices differ: 2 cores of a made CPU; then 2 cores of another",
        "small 1f1b P=2 M=4 fp32", "1.200 .. 1.200", "slower by 20.0 %",
        "small 1f1b P=2 M=4 fp32 in torch: is not the same in both", "no change (within 0.0 %)",
        "the loss was 5.0000 and is 6.0000: another training",
        "the machine alone: 10.0 % slower than before; disturbed in 0 % and 100 %"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(CountSlower(comparison), 1);
  EXPECT_EQ(CountSlower(CompareResults(before, after, 0.25)), 0);
}

// The case's repetitions take these times as long as made.
void Vary(const std::vector<double>& factors, CaseResult* result) {
  for (size_t i = 0; i < factors.size(); ++i) {
    for (double& us : result->repetitions[i].step_us) us *= factors[i];
  }
}

TEST(SuiteCompareTest, SaysWhereNoiseHidesTheChange) {
  const std::vector<double> noisy = {1, 1.7, 1.02, 2.08, 1.4}, quiet = {1, 1.03, 1.01, 0.99, 1.02};
  const FigureChange unclear = ChangeOf(noisy, noisy);
  EXPECT_EQ(unclear.change, Change::kUnclear);
  EXPECT_NEAR(unclear.spread, 1.08, 1e-9);
  EXPECT_EQ(ChangeOf(noisy, quiet).spread, unclear.spread);
  EXPECT_EQ(ChangeOf(quiet, quiet).change, Change::kNone);
  EXPECT_EQ(ChangeOf(quiet, quiet, 0.01).change, Change::kUnclear);
  EXPECT_EQ(ChangeOf(noisy, noisy, 2).change, Change::kNone);

  const SuiteResults before = MadeResults();
  SuiteResults after = MadeResults();
  Vary(noisy, &after.cases[0]);
  Vary(quiet, &after.cases[2]);
  const std::string text = PrintComparison(before, after, CompareResults(before, after));
  EXPECT_NE(text.find("cannot tell 5 % here: the repetitions differ by 108 %"), std::string::npos)
      << text;
  EXPECT_NE(text.find("no change (within 3.0 %)"), std::string::npos) << text;
}

// A gate that cannot see what it is asked is no gate that is passed.
TEST(SuiteCompareTest, FailsWhereItCannotSeeWhetherACaseIsSlower) {
  const SuiteResults before = MadeResults();
  const auto unseen = [&](const SuiteResults& after, double asked) {
    return UnseenCases(CompareResults(before, after, asked));
  };
  EXPECT_TRUE(unseen(before, 0.05).empty());
  SuiteResults after = before;
  Vary({1, 1.7, 1.02, 2.08, 1.4}, &after.cases[0]);
  Vary({1, 1.7, 1.02, 2.08, 1.4}, &after.cases[1]);  // torch's side: none of ours
  EXPECT_EQ(unseen(after, 0.05),
            std::vector<std::string>{"small 1f1b P=2 M=4 fp32: 1.000 to 2.080 times as long: the "
                                     "repetitions differ by 108 %"});
  EXPECT_TRUE(unseen(after, 1.1).empty());
  // Faster for certain: noise above that hides nothing.
  SlowDown(0.4, &after.cases[0]);
  EXPECT_TRUE(unseen(after, 0.05).empty());

  after = before;
  after.cases[0].repetitions.resize(1);
  after.cases[2].repetitions.clear();
  after.cases[2].reason = "out of memory";
  EXPECT_EQ(unseen(after, 0.05),
            (std::vector<std::string>{"small 1f1b P=2 M=4 fp32: too few repetitions",
                                      "small zb_h1 P=2 M=4 fp32: not in the second: out of "
                                      "memory"}));
  after.cases.pop_back();
  after.cases.pop_back();
  EXPECT_EQ(unseen(after, 0.05).back(), "small zb_h1 P=2 M=4 fp32: only in the first");

  const std::string folder = ScratchFolder();
  WriteText(folder + "/old.json", Print(before));
  WriteText(folder + "/new.json", Print(after));
  EXPECT_EQ(RunToolIn(folder, Words("bench --compare old.json new.json")).status, 0);
  const Answer blind =
      RunToolIn(folder, Words("bench --compare old.json new.json --fail-slower 5%"));
  EXPECT_EQ(blind.status, 1);
  EXPECT_NE(
      blind.out.find("--fail-slower cannot see whether 2 cases are slower by more than 5%:\n"),
      std::string::npos)
      << blind.out;
  const auto json = Json::parse(
      RunToolIn(folder, Words("bench --compare old.json new.json --fail-slower 5% --json")).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["slower"], 0);
  EXPECT_EQ(json["unseen"].size(), 2);
}

TEST(SuiteCompareTest, FailsWhereACaseIsSlower) {
  const std::string folder = ScratchFolder();
  SuiteResults after = MadeResults();
  SlowDown(1.2, &after.cases[0]);
  SlowDown(2, &after.cases[1]);  // torch's side: none of ours
  WriteText(folder + "/old.json", Print(MadeResults()));
  WriteText(folder + "/new.json", Print(after));
  const auto status = [&](const char* line) { return RunToolIn(folder, Words(line)).status; };
  EXPECT_EQ(status("bench --compare old.json new.json"), 0);
  EXPECT_EQ(status("bench --compare old.json new.json --fail-slower 5%"), 1);
  EXPECT_EQ(status("bench --compare old.json new.json --fail-slower 25%"), 0);
  EXPECT_EQ(status("bench --compare new.json old.json --fail-slower 0.05"), 0);
  EXPECT_EQ(status("bench --compare old.json new.json --fail-slower much"), 2);
  EXPECT_EQ(status("bench --compare old.json"), 2);
  const auto json = Json::parse(
      RunToolIn(folder, Words("bench --compare old.json new.json --fail-slower 5% --json")).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["slower"], 1);
  EXPECT_EQ(json["cases"][0]["step"]["change"], "slower");
  EXPECT_NEAR(json["cases"][0]["step"]["ratio"].get<double>(), 1.2, 1e-9);
}

}  // namespace
}  // namespace stringline
