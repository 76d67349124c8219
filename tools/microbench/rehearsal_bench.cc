// The simulator's predictions of the executor: every schedule of the library, performed with
// programs and messages that only take time. First messages occupy their channel for their whole
// duration; then they are in flight instead; then stages are sharded, so that parameters are
// gathered and gradients reduced.
//
//   rehearsal_bench [COSTS [LINK [BYTES [STEPS [LAYOUT]]]]]
//
// prints a table for each: predicted, the median of STEPS steps, the misprediction, how far the
// median control is off its known time (executor/rehearsal/rehearsal.h), the verdict of the two,
// how much of the ranks' time the analysis gives to other causes of idling, and the least and the
// most of the steps. Nothing is measured twice. It ends with 1 if a prediction is wrong, and with 3
// if none is but the machine was disturbed, so that not all were judged.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/rehearsal/rehearsal.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/report/analysis.h"
#include "tools/microbench/library_plan.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr const char* kSchedules[] = {
    "gpipe",   "1f1b",  "looped_bfs", "interleaved", "interleaved_zb", "megatron_combined",
    "kimi_k2", "gis",   "zb_h1",      "zb_h2",       "zb_v",           "dualpipe_v",
    "v_half",  "v_min", "hanayo",     "chimera",     "dualpipe",
};

struct StepSize {
  int p, m;
};
constexpr StepSize kSizes[] = {{4, 8}, {4, 12}, {4, 16}, {8, 16}};

// The variant performed in a table.
struct Kind {
  const char* says;
  bool in_flight;
  const char* collectives;  // their costs; "": no collectives
  size_t first_size;        // index into kSizes
};
constexpr Kind kKinds[] = {
    {"messages occupy their channel", false, "", 0},
    {"messages are in flight, and occupy nothing", true, "", 2},
    {"messages occupy their channel; stages are sharded", false, "unshard=2ms,reduce=3ms", 2},
};

constexpr const char* kVerdicts[] = {"right", "wrong", "disturbed"};  // by RehearsalVerdict

// The share of all ranks' time with a different idle cause in `a` than in `b`.
double CausesApart(const Plan& plan, const Timeline& a, const Timeline& b) {
  const Analysis of_a = Analyze(plan, a), of_b = Analyze(plan, b);
  int64_t apart_ns = 0;
  for (int c = 0; c < kIdleCauses; ++c) {
    int64_t difference_ns = 0;
    for (int r = 0; r < plan.ranks(); ++r) difference_ns += of_a.causes[r][c] - of_b.causes[r][c];
    apart_ns += std::abs(difference_ns);
  }
  return static_cast<double>(apart_ns) / static_cast<double>(plan.ranks() * of_b.makespan_ns);
}

// The totals of a table.
struct Tally {
  std::vector<double> errors;  // for the predictions judged
  int verdicts[std::size(kVerdicts)] = {};
};

// Performs the plan and prints a line of the table.
void Row(const StepSize& size, const Plan& plan, const CostModel& costs,
         const RehearsalSettings& settings, Tally* tally) {
  const auto rehearsal = Rehearse(plan, costs, settings);
  SL_CHECK(rehearsal.ok()) << plan.schedule << ": " << rehearsal.status();
  const RehearsalJudgement judgement = Judge(*rehearsal);
  const auto verdict = static_cast<int>(judgement.verdict);
  ++tally->verdicts[verdict];
  if (judgement.verdict != RehearsalVerdict::kDisturbed) {
    tally->errors.push_back(std::fabs(judgement.misprediction));
  }
  const auto [least, most] =
      std::minmax_element(rehearsal->makespans_ns.begin(), rehearsal->makespans_ns.end());
  std::cout << absl::StreamFormat(
                   "| %-17s | %d | %2d | %11s | %11s | %+5.2f %% | %+5.2f %% | %-9s | %5.2f %% | "
                   "%s .. %s |\n",
                   plan.schedule, size.p, size.m,
                   PrintTime(MeasureBubbles(rehearsal->simulated).makespan_ns),
                   PrintTime(MeasureBubbles(rehearsal->measured).makespan_ns),
                   100 * judgement.misprediction, 100 * judgement.disturbance, kVerdicts[verdict],
                   100 * CausesApart(plan, rehearsal->measured, rehearsal->simulated),
                   PrintTime(*least), PrintTime(*most))
            << std::flush;
}

struct BenchSettings {
  std::string costs;
  LinkSpeed link;
  int64_t bytes = 0;
  RehearsalSettings rehearsal;
};

// The lowered plan with its costs; nullopt if the schedule does not admit P and M.
struct PricedPlan {
  Plan plan;
  CostModel costs;
};
std::optional<PricedPlan> Price(const std::string& name, const StepSize& size, const Kind& kind,
                                const BenchSettings& settings) {
  std::optional<Plan> plan = LibraryPlan(name, size.p, size.m, settings.rehearsal.layout);
  if (!plan) return std::nullopt;
  const bool collects = *kind.collectives != 0;
  if (collects) plan = AddCollectives(*plan);
  const auto spec =
      ParseCosts(collects ? absl::StrCat(settings.costs, ",", kind.collectives) : settings.costs);
  SL_CHECK(spec.ok()) << spec.status();
  const auto resolved = ResolveCosts(*spec, *plan);
  SL_CHECK(resolved.ok()) << resolved.status();
  CostModel costs = WithLink(*plan, *resolved, settings.link, settings.bytes);
  if (kind.in_flight) {
    for (std::vector<Hop>* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
      for (Hop& hop : *hops) hop = {hop.all_ns(), 0};
    }
  }
  return PricedPlan{*std::move(plan), std::move(costs)};
}

Tally Table(const Kind& kind, const BenchSettings& settings) {
  std::cout << absl::StreamFormat(
      "%s; they take %s, layout %s\n\n"
      "| schedule          | P |  M |   predicted |    measured |     off | control | verdict   |  "
      "causes | of %d steps |\n|---|---|---|---|---|---|---|---|---|---|\n",
      kind.says, PrintTime(settings.link.TransferNs(settings.bytes)),
      NameOf(settings.rehearsal.layout), settings.rehearsal.steps);
  Tally tally;
  for (size_t size = kind.first_size; size < std::size(kSizes); ++size) {
    for (const char* const name : kSchedules) {
      const auto priced = Price(name, kSizes[size], kind, settings);
      if (priced) Row(kSizes[size], priced->plan, priced->costs, settings.rehearsal, &tally);
    }
  }
  std::sort(tally.errors.begin(), tally.errors.end());
  std::cout << "\n";
  for (size_t v = 0; v < std::size(kVerdicts); ++v) {
    std::cout << (v == 0 ? "" : ", ") << tally.verdicts[v] << " " << kVerdicts[v];
  }
  if (!tally.errors.empty()) {
    std::cout << absl::StreamFormat(
        "; of those judged the median is off by %.2f %%, the worst by "
        "%.2f %%",
        100 * tally.errors[tally.errors.size() / 2], 100 * tally.errors.back());
  }
  std::cout << "\n\n" << std::flush;
  return tally;
}

int Bench(const BenchSettings& settings) {
  constexpr int kWrongStatus = 1, kDisturbedStatus = 3;
  int wrong = 0, disturbed = 0;
  for (const Kind& kind : kKinds) {
    const Tally tally = Table(kind, settings);
    wrong += tally.verdicts[static_cast<int>(RehearsalVerdict::kWrong)];
    disturbed += tally.verdicts[static_cast<int>(RehearsalVerdict::kDisturbed)];
  }
  return wrong > 0 ? kWrongStatus : disturbed > 0 ? kDisturbedStatus : 0;
}

int Main(const std::vector<std::string>& args) {
  const auto arg = [&](size_t i, const char* otherwise) {
    return args.size() > i ? args[i] : std::string(otherwise);
  };
  BenchSettings settings;
  settings.costs = arg(0, "F=4ms,I=5ms,W=3ms,FB=10ms");
  const auto link = ParseLinkSpeed(arg(1, "5us,2GB/s"));
  const auto bytes = ParseInUnit(CostUnit::kBytes, arg(2, "1MB"));
  const auto layout = ReadCommLayout(arg(4, "edge"));
  if (!ParseCosts(settings.costs).ok() || !layout || !link.ok() || !bytes.ok() ||
      !absl::SimpleAtoi(arg(3, "5"), &settings.rehearsal.steps) || settings.rehearsal.steps < 1) {
    std::cerr << "usage: rehearsal_bench [COSTS [LINK [BYTES [STEPS [LAYOUT]]]]]\n";
    return 2;
  }
  settings.link = *link;
  settings.bytes = *bytes;
  settings.rehearsal.layout = *layout;
  return Bench(settings);
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) { return stringline::Main({argv + 1, argv + argc}); }
