// The planner against brute force: every choice of a small cluster is simulated, and bounds, counts
// and answers are held against that.
#include "schedlang/tune/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/places.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/ask/session.h"
#include "schedlang/tune/choice_bound.h"
#include "schedlang/tune/choices.h"
#include "schedlang/tune/cluster.h"
#include "schedlang/tune/evaluate.h"
#include "schedlang/tune/known_schedules.h"
#include "schedlang/tune/plan_cache.h"

namespace stringline::tune {
namespace {

constexpr const char* kDense =
    "model: {kind: llama, layers: 6, width: 512, hidden: 1536, heads: 8, kv_heads: 4, "
    "vocabulary: 8000, context: 512}\n";
constexpr const char* kMixed =
    "model: {kind: moe, layers: 6, width: 512, hidden: 1536, heads: 8, kv_heads: 4, vocabulary: "
    "8000, context: 512, experts: 8, top_k: 2, expert_hidden: 512, first_dense: 1}\n";

Cluster ClusterOf(const std::string& text) {
  const absl::StatusOr<Cluster> cluster = ReadCluster(Source("cluster.yaml", text));
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *cluster;
}

TuneRequest RequestOf(const std::string& model, const std::string& cluster, int64_t batch) {
  TuneRequest request;
  const Cluster machines = ClusterOf(cluster);
  const absl::StatusOr<CostSpec> spec = ReadModel(Source("model.yaml", model), machines);
  EXPECT_TRUE(spec.ok()) << spec.status();
  request.base.spec = *spec;
  request.gpus = machines.gpus;
  request.global_batch = batch;
  return request;
}

// Every choice of the request.
std::vector<Choice> AllChoices(const TuneRequest& request) {
  const ModelShape& model = request.base.spec.formula->model;
  const auto groups = ChoiceGroups(model, request.gpus, request.global_batch, request.pins);
  EXPECT_TRUE(groups.ok()) << groups.status();
  std::vector<Choice> choices;
  for (const Choice& group : *groups) {
    for (const Choice& choice : ChoicesOf(group, model, request.pins)) choices.push_back(choice);
  }
  return choices;
}

int64_t CapacityOf(const TuneRequest& request) {
  return request.base.spec.values.at("memory.capacity")[0];
}

Evaluation EvaluationOf(const TuneRequest& request, const Choice& choice, PlanCache* cache) {
  const auto plans = cache->Prepare({KeyOf(choice)}, 1);
  return Evaluate(request.base, choice, *plans[0], CapacityOf(request),
                  std::numeric_limits<int64_t>::max());
}

TEST(TuneTest, TableIsTheLibrary) {
  ASSERT_EQ(KnownSchedules().size(), ScheduleLibrary().size());
  for (size_t i = 0; i < KnownSchedules().size(); ++i) {
    const KnownSchedule& known = KnownSchedules()[i];
    SCOPED_TRACE(known.name);
    EXPECT_STREQ(known.name, ScheduleLibrary()[i].name);
    Choice choice;
    choice.schedule = static_cast<int>(i);
    choice.pipeline = 4;
    choice.microbatches = 16;
    choice.turns = TurnsToTry(known, 4, 24).back();
    const absl::StatusOr<Session> session =
        OpenPlan({.file = known.name, .parameters = ParametersOf(choice)});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->plan.has_value()) << Render(session->diagnostics, session->source);
    const Plan& plan = *session->plan;
    const bool other = plan.forward_only || plan.steps > 1 || plan.versions > 1 ||
                       std::string(known.name) == "vocab_1f1b";
    EXPECT_EQ(other, *known.why_not != '\0');
    if (other) continue;
    EXPECT_TRUE(IsSamePlace(plan, StagesOnly(known, 4, 16, choice.turns)));
    EXPECT_EQ(plan.slices, StagesOnly(known, 4, 16, choice.turns).slices);
    bool halves = false, pairs = false;
    for (const Action& action : plan.actions) {
      halves |= action.kind == ActionKind::kInputGradient;
      pairs |= action.joined;
    }
    EXPECT_EQ(halves, known.halves);
    EXPECT_EQ(pairs, known.pairs);
  }
}

TEST(TuneTest, BoundsAreTrue) {
  const int seed = static_cast<int>(std::random_device()());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  PlanCache cache;
  int simulated = 0, near = 0;
  for (const char* const model : {kDense, kMixed}) {
    for (const char* const more : {"", "node: {ranks: 2}\n", "memory_bandwidth: 300GB/s\n"}) {
      TuneRequest request = RequestOf(model, absl::StrCat("hardware: h100\ngpus: 8\n", more), 16);
      if (*more != '\0') {
        request.base.slow = {{5, 200'000}};
        request.base.slow_links = {{{0, 1, true}, 5'000'000}, {{2, 6, true}, 3'000'000}};
      }
      std::vector<Choice> choices = AllChoices(request);
      std::shuffle(choices.begin(), choices.end(), random);
      choices.resize(std::min<size_t>(choices.size(), 60));
      for (const Choice& choice : choices) {
        SCOPED_TRACE(Print(choice));
        const Evaluation evaluation = EvaluationOf(request, choice, &cache);
        if (evaluation.state != Evaluation::State::kSimulated) continue;
        ++simulated;
        const auto staged = StagedCostsOf(request.base, choice);
        ASSERT_TRUE(staged.ok()) << staged.status();
        const ChoiceBound bound =
            BoundOf(*staged, KnownSchedules()[static_cast<size_t>(choice.schedule)]);
        EXPECT_LE(bound.step_ns, evaluation.step_ns);
        EXPECT_LE(bound.bytes, evaluation.bytes);
        const PreparedPlan& prepared = *cache.Prepare({KeyOf(choice)}, 1)[0];
        const int64_t held = prepared.held->LeastBytes(RankSizesOf(*staged));
        const auto costs = CostsOfChoice(request.base, choice, prepared.written);
        ASSERT_TRUE(costs.ok()) << costs.status();
        const int64_t least = LeastBytesOf(prepared.lowered, *costs);
        EXPECT_LE(held, least);
        near += held >= least - least / 10 ? 1 : 0;
        Choice group = choice;
        group.schedule = -1;
        group.turns = 1;
        group.light_ends = false;
        const auto line = StagedCostsOf(request.base, group);
        ASSERT_TRUE(line.ok()) << line.status();
        const ChoiceBound of_group = BoundOfGroup(*line);
        EXPECT_LE(of_group.step_ns, evaluation.step_ns);
        EXPECT_LE(of_group.bytes, evaluation.bytes);
      }
    }
  }
  EXPECT_GT(simulated, 100);
  EXPECT_GT(near, simulated / 4);
}

TEST(TuneTest, AnswerIsThatOfBruteForce) {
  for (const char* const model : {kDense, kMixed}) {
    // A memory in which a part of the choices fits.
    TuneRequest request = RequestOf(model, "hardware: h100\ngpus: 4\nmemory: 600MB\n", 4);
    request.shown = 4;
    request.evaluations = 1'000'000;  // all of them
    request.improved = 0;
    ASSERT_TRUE(AddPins("microbatch=1,recompute=none", &request.pins).ok());
    std::map<std::array<int64_t, 5>, int64_t> best;
    PlanCache cache;
    const std::vector<Choice> choices = AllChoices(request);
    for (const Choice& choice : choices) {
      const Evaluation evaluation = EvaluationOf(request, choice, &cache);
      if (evaluation.state != Evaluation::State::kSimulated) continue;
      const std::array<int64_t, 5> mesh = {choice.tensor, choice.context, choice.pipeline,
                                           choice.expert, choice.data};
      const auto [place, is_new] = best.try_emplace(mesh, evaluation.step_ns);
      place->second = std::min(place->second, evaluation.step_ns);
    }
    std::vector<int64_t> steps;
    for (const auto& [mesh, step] : best) steps.push_back(step);
    std::sort(steps.begin(), steps.end());
    ASSERT_GE(steps.size(), 4u);
    const absl::StatusOr<TunedChoices> tuned = Tune(request, {});
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    ASSERT_EQ(tuned->best.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(tuned->best[i].step_ns, steps[i]) << i;
    EXPECT_EQ(tuned->bound_ns, steps[0]);
    EXPECT_EQ(tuned->counts.open, 0);
    const Counts& counts = tuned->counts;
    EXPECT_EQ(counts.considered, static_cast<int64_t>(choices.size()));
    EXPECT_EQ(
        counts.by_memory + counts.by_bound + counts.refused + counts.too_large + counts.simulated,
        counts.considered);
    EXPECT_GT(counts.by_bound, 0);
  }
}

TEST(TuneTest, PartsAddUpToTheStep) {
  TuneRequest request = RequestOf(kMixed, "hardware: h100\ngpus: 8\nnode: {ranks: 2}\n", 16);
  request.evaluations = 60;
  const absl::StatusOr<TunedChoices> tuned = Tune(request, {});
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  for (const Outcome& outcome : tuned->best) {
    int64_t sum = 0;
    for (const int64_t part : outcome.parts.ns) {
      EXPECT_GE(part, 0) << Print(outcome.choice);
      sum += part;
    }
    EXPECT_EQ(sum, outcome.step_ns) << Print(outcome.choice);
    const Choice& choice = outcome.choice;
    const bool remakes = choice.schedule == IndexOfSchedule("mario");
    EXPECT_EQ(choice.recompute != Recompute::kNone || remakes, outcome.parts[StepPart::kAgain] > 0);
    const auto is_free = [&](StepPart part) { return outcome.parts[part] == 0; };
    EXPECT_TRUE(choice.pipeline > 1 || is_free(StepPart::kPipeline));
    EXPECT_TRUE(choice.tensor * choice.context * choice.expert > 1 || is_free(StepPart::kLayers));
    EXPECT_TRUE(choice.copies() > 1 || is_free(StepPart::kData));
  }
}

TEST(TuneTest, ThreadsDoNotChangeTheAnswer) {
  TuneRequest request = RequestOf(kMixed, "hardware: h100\ngpus: 8\nmemory: 4GB\n", 16);
  request.evaluations = 60;
  request.jitter = 50'000;
  std::vector<TunedChoices> answers;
  for (const int threads : {1, 3}) {
    request.threads = threads;
    absl::StatusOr<TunedChoices> tuned = Tune(request, {});
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    answers.push_back(*std::move(tuned));
  }
  ASSERT_EQ(answers[0].best.size(), answers[1].best.size());
  for (size_t i = 0; i < answers[0].best.size(); ++i) {
    EXPECT_EQ(answers[0].best[i].choice, answers[1].best[i].choice);
    EXPECT_EQ(answers[0].best[i].step_ns, answers[1].best[i].step_ns);
  }
  EXPECT_EQ(answers[0].bound_ns, answers[1].bound_ns);
  EXPECT_EQ(answers[0].counts.simulated, answers[1].counts.simulated);
  EXPECT_EQ(answers[0].counts.open, answers[1].counts.open);
}

TEST(TuneTest, PinsAreKept) {
  TuneRequest request = RequestOf(kDense, "hardware: h100\ngpus: 8\n", 16);
  ASSERT_TRUE(AddPins("tp=2,cp=1,pp=2,microbatch=2,recompute=full", &request.pins).ok());
  request.improved = 0;
  ASSERT_TRUE(
      AddPins("sharding=optimizer,schedule=interleaved,vp=3,split=even", &request.pins).ok());
  const absl::StatusOr<TunedChoices> tuned = Tune(request, {});
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->counts.considered, 1);
  ASSERT_EQ(tuned->best.size(), 1u);
  EXPECT_EQ(Print(tuned->best[0].choice),
            "tp=2 pp=2 dp=2 microbatch=2 interleaved vp=3 sharding=optimizer recompute=full");
}

// A request with a single choice: GPUs 0 to 7 as tp 2, dp 2, pp 2.
TuneRequest OneChoice() {
  TuneRequest request = RequestOf(kDense, "hardware: h100\ngpus: 8\n", 16);
  const absl::Status pinned =
      AddPins("tp=2,cp=1,pp=2,microbatch=1,schedule=1f1b,split=even,sharding=none,recompute=none",
              &request.pins);
  EXPECT_TRUE(pinned.ok()) << pinned;
  request.improved = 0;
  return request;
}

TEST(TuneTest, SlowGpusSlowTheirRank) {
  TuneRequest request = OneChoice();
  const auto step = [&](int gpu) {
    request.base.slow.clear();
    if (gpu >= 0) request.base.slow.push_back({gpu, 500'000});
    const absl::StatusOr<TunedChoices> tuned = Tune(request, {});
    EXPECT_TRUE(tuned.ok()) << tuned.status();
    return tuned->best[0].step_ns;
  };
  EXPECT_GT(step(0), step(-1));
  EXPECT_EQ(step(0), step(1));  // tensor-parallel ranks of one rank
  EXPECT_EQ(step(0), step(2));  // the same rank of the second copy
  EXPECT_EQ(step(4), step(7));
  EXPECT_NE(step(0), step(4));  // the rank with the head
}

TEST(TuneTest, AllGpusOfARankWaitForTheSlowest) {
  const TuneRequest request = RequestOf(kDense, "hardware: h100\ngpus: 8\n", 16);
  const Choice choice = {.tensor = 2, .pipeline = 2, .data = 2};
  BaseCosts base = request.base;
  base.slow = {{0, 100'000}, {6, 50'000}, {3, 300'000}, {1, 200'000}};
  base.slow_links = {{{1, 5, true}, 100'000}, {{3, 7, true}, 400'000}};
  const StepCosts costs = CostsOfStep(base, choice);
  ASSERT_EQ(costs.slow.size(), 2u);
  EXPECT_EQ(costs.slow[0].rank, 0);
  EXPECT_EQ(costs.slow[0].share, 300'000);
  EXPECT_EQ(costs.slow[1].rank, 1);
  ASSERT_EQ(costs.slow_links.size(), 1u);
  EXPECT_EQ(Print(costs.slow_links[0].link), "0-1");
  EXPECT_EQ(costs.slow_links[0].share, 400'000);
}

// GPUs 0 to 7 as tp 2, dp 2, pp 2: 0-1 share layers, 0-2 are copies, 0-4 neighbours in the
// pipeline.
TEST(TuneTest, SlowLinksSlowWhatGoesOverThem) {
  TuneRequest request = OneChoice();
  const auto parts = [&](int from, int to) {
    request.base.slow_links.clear();
    if (from != to) request.base.slow_links.push_back({{from, to, true}, 3'000'000});
    const absl::StatusOr<TunedChoices> tuned = Tune(request, {});
    EXPECT_TRUE(tuned.ok()) << tuned.status();
    return tuned->best[0].parts;
  };
  const StepParts even = parts(0, 0), tensor = parts(0, 1), data = parts(0, 2), line = parts(0, 4);
  EXPECT_GT(tensor[StepPart::kLayers], even[StepPart::kLayers]);
  EXPECT_EQ(tensor[StepPart::kData], even[StepPart::kData]);
  EXPECT_GT(data[StepPart::kData], even[StepPart::kData]);
  EXPECT_EQ(data[StepPart::kLayers], even[StepPart::kLayers]);
  EXPECT_GT(line[StepPart::kPipeline], even[StepPart::kPipeline]);
  EXPECT_EQ(line[StepPart::kLayers], even[StepPart::kLayers]);
  EXPECT_EQ(parts(4, 5).step_ns > even.step_ns, true);
  for (const auto& [from, to] : {std::pair(0, 3), std::pair(0, 5), std::pair(0, 7)}) {
    EXPECT_EQ(parts(from, to).step_ns, even.step_ns) << from << "-" << to;
  }
}

TEST(TuneTest, NearestMissIsTold) {
  TuneRequest request = RequestOf(kDense, "hardware: h100\ngpus: 4\nmemory: 20MB\n", 8);
  const absl::StatusOr<TunedChoices> tuned = Tune(request, {});
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(tuned->best.empty());
  ASSERT_TRUE(tuned->miss.has_value());
  EXPECT_GT(tuned->miss->bytes, CapacityOf(request));
}

TEST(TuneTest, TurnsAreTheFewestOfALargestStage) {
  const KnownSchedule& interleaved =
      KnownSchedules()[static_cast<size_t>(IndexOfSchedule("interleaved"))];
  EXPECT_EQ(TurnsToTry(interleaved, 8, 126), (std::vector<int64_t>{2, 3, 4, 6, 8, 16}));
}

TEST(TuneTest, LightEndsMakeTheSlowestStageFast) {
  for (const char* const model : {kDense, kMixed}) {
    const TuneRequest request = RequestOf(model, "hardware: h100\ngpus: 8\n", 16);
    for (const int64_t stages : {2, 3, 5, 8}) {
      Choice choice;
      choice.pipeline = stages;
      const CostFormula formula = *ChoiceCosts(request.base.spec, choice).formula;
      const auto slowest = [&](const std::vector<int>& counts) {
        int64_t most = 0, first = 0;
        for (size_t s = 0; s < counts.size(); ++s) {
          const StageFormula stage = FormulaOf(formula.model, formula.machine,
                                               {first, counts[s], s == 0, s + 1 == counts.size()});
          most =
              std::max(most, stage.forward_ns + stage.input_gradient_ns + stage.weight_gradient_ns);
          first += counts[s];
        }
        return most;
      };
      choice.light_ends = true;
      const std::vector<int> light = LayersOfStages(request.base.spec, choice);
      ASSERT_EQ(light.size(), static_cast<size_t>(stages));
      EXPECT_EQ(std::accumulate(light.begin(), light.end(), 0), 6);
      // Brute force over all ways to share six layers out.
      int64_t best = std::numeric_limits<int64_t>::max();
      std::vector<int> counts(static_cast<size_t>(stages), 0);
      const std::function<void(size_t, int)> share = [&](size_t s, int left) {
        if (s + 1 == counts.size()) {
          counts[s] = left;
          best = std::min(best, slowest(counts));
          return;
        }
        for (int n = s == 0 ? 0 : 1; n <= left; ++n) {
          counts[s] = n;
          share(s + 1, left - n);
        }
      };
      share(0, 6);
      EXPECT_NEAR(static_cast<double>(slowest(light)), static_cast<double>(best), 10) << stages;
    }
  }
}

}  // namespace
}  // namespace stringline::tune
