// The share of the experts' all-to-alls that schedules hide, and its prediction by the simulator
// from costs measured under another schedule.
//
//   overlap_bench [P [X [M [STEPS [LAYERS [THREADS]]]]]]        2 2 8 9 4 2*P*X
//
// trains a small mixture of experts on P pipeline ranks times X expert ranks. Every all-to-all of
// rows takes the same time, chosen so that all of them are 40 % of a step of 1f1b, which hides
// none. The schedules take their steps by turns, so that all run under the same load. Prints a line
// per schedule, over STEPS steps of the mesh's first coordinate:
//
//   step      makespan, the median
//   network   all-to-alls, of all its ranks
//   exposed   of it, what no computation hides; and only in groups of an F beside a B or I
//   own       the simulator's step from the costs of that run, and how far that is off
//   other     the same from the costs of 1f1b's run; for 1f1b from those of dualpipe_v's; and how
//             much of the network it would expose
//
// Ranks that share cores compute more slowly the more of them compute at once: with more ranks than
// cores, or on a busy machine, costs measured under one schedule are too short for another that
// waits less.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "executor/rehearsal/rehearsal.h"
#include "executor/training/measured_costs.h"
#include "executor/training/trainer.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/lower/message_order.h"
#include "schedlang/plan/group_order.h"
#include "schedlang/report/network_time.h"
#include "schedlang/sim/simulate.h"
#include "stages/models/model.h"
#include "tools/microbench/library_plan.h"

namespace stringline {
namespace {

constexpr double kNetworkShare = 0.4;

struct Sizes {
  int ranks = 2, expert = 2, microbatches = 8, steps = 9, layers = 4, threads = 0;
};

AnyShape Model(const Sizes& sizes) {
  DecoderShape shape;
  shape.layers = sizes.layers;
  shape.width = 256;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 64;
  shape.context = 256;
  shape.microbatch = 2;
  shape.vocabulary = 64;
  shape.moe.experts = 4;
  shape.moe.top_k = 2;
  shape.moe.expert_hidden = 256;
  return shape;
}

// Rows travel slowly, all else at once.
struct SlowRows {
  int64_t ns = 0;
  std::atomic<int64_t> calls = 0;
  static int64_t Ns(const void* self, absl::Span<const Call* const> met) {
    if (met[0]->kind != CallKind::kAllToAllCounted) return 0;
    auto& link = *static_cast<SlowRows*>(const_cast<void*>(self));
    ++link.calls;
    return link.ns;
  }
};

// The network time in groups that overlap, without all other exchanges.
NetworkTime InPairs(const Plan& plan, Timeline timeline) {
  std::vector<bool> paired(plan.actions.size(), false);
  for (size_t i = 0; i < plan.actions.size();) {
    const auto group = GroupAt(absl::MakeConstSpan(plan.actions), i);
    if (IsCompute(group[0].kind) && PairOf(group).forward != nullptr) {
      for (size_t k = 0; k < group.size(); ++k) paired[i + k] = true;
    }
    i += group.size();
  }
  std::erase_if(timeline.parts, [&](const PartEvent& part) {
    return LaneOf(part.part) == Lane::kNetwork && !paired[part.event];
  });
  return MeasureNetwork(plan, timeline).all;
}

// The results of a run of one schedule.
struct Measured {
  Plan plan;
  CostModel costs;
  Timeline step;        // the median
  int64_t step_ns = 0;  // of that step
  int64_t busy_ns = 0;  // computation of the busiest rank
  int64_t calls = 0;    // exchanges of rows, of a rank per step
};

class Run {
 public:
  Run(const std::string& schedule, const Sizes& sizes, Recompute recompute, int64_t exchange_ns)
      : sizes_(sizes), link_{exchange_ns} {
    Plan lowered = LibraryPlan(schedule, sizes.ranks, sizes.microbatches).value();
    if (sizes.expert > 1) lowered = ReduceGradients(lowered);
    const auto stages = static_cast<int>(lowered.stages.size());
    SL_CHECK(sizes.layers % stages == 0) << stages << " stages";
    auto programs =
        BuildModelStages(Model(sizes), std::vector<int>(stages, sizes.layers / stages),
                         {.expert_ranks = sizes.expert, .recompute = {recompute, false}});
    SL_CHECK(programs.ok()) << programs.status();
    TrainerSettings settings;
    settings.mesh.expert = sizes.expert;
    settings.threads = sizes.threads;
    settings.link = {SlowRows::Ns, &link_};
    auto made = Trainer::Make(lowered, *std::move(programs), settings);
    SL_CHECK(made.ok()) << made.status();
    trainer_ = *std::move(made);
    seen_.emplace(trainer_->plan());
    Step();  // warms up
    timelines_.clear();
    seen_.emplace(trainer_->plan());
  }

  void Step() {
    for (int32_t m = 0; m < trainer_->microbatches(); ++m) {
      const MicrobatchId of(m);
      for (const auto& data : {trainer_->tokens(of), trainer_->targets(of)}) {
        for (int32_t& token : data) token = static_cast<int32_t>(random_() % 64);
      }
    }
    link_.calls = 0;
    SL_CHECK(trainer_->ComputeGradients().ok());
    SL_CHECK(trainer_->Update(1e-4).ok());
    timelines_.push_back(trainer_->Measured());
    seen_->Add(timelines_.back());
  }

  Measured Finish() {
    Measured run;
    run.plan = trainer_->plan();
    run.costs = seen_->Model();
    std::sort(timelines_.begin(), timelines_.end(), [](const Timeline& a, const Timeline& b) {
      return MeasureBubbles(a).makespan_ns < MeasureBubbles(b).makespan_ns;
    });
    run.step = std::move(timelines_[timelines_.size() / 2]);
    run.step_ns = MeasureBubbles(run.step).makespan_ns;
    std::vector<int64_t> busy_ns(run.plan.ranks(), 0);
    for (const PartEvent& part : run.step.parts) {
      if (LaneOf(part.part) == Lane::kNetwork) continue;
      const StageId stage = run.plan.actions[part.event].stage;
      busy_ns[run.plan.stage(stage).rank.value] += part.end_ns - part.start_ns;
    }
    run.calls = link_.calls / sizes_.ranks;
    run.busy_ns = *std::max_element(busy_ns.begin(), busy_ns.end());
    return run;
  }

 private:
  const Sizes& sizes_;
  SlowRows link_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<MeasuredCosts> seen_;
  std::vector<Timeline> timelines_;
  std::mt19937 random_{1};
};

// The costs of the same model cut into other stages: every layer's from its old stage, costs
// outside layers from the first, the last and the other stages.
CostModel OnStages(const CostModel& from, size_t stages) {
  const auto share = [](const std::vector<int64_t>& of, size_t s, int64_t layers) {
    return of.empty() ? 0 : of[s] / layers;
  };
  std::vector<PartCosts> layers;
  std::vector<int64_t> reduce_ns;
  for (size_t s = 0; s < from.parts.size(); ++s) {
    for (int64_t l = 0; l < from.parts[s].layers; ++l) {
      layers.push_back(from.parts[s]);
      reduce_ns.push_back(share(from.reduce, s, from.parts[s].layers));
    }
  }
  CostModel costs;
  costs.parts.resize(stages);
  costs.by_parts.fill(true);
  costs.hop = from.hop;
  if (!from.reduce.empty()) costs.reduce.resize(stages, 0);
  const size_t each = layers.size() / stages;
  for (size_t s = 0; s < stages; ++s) {
    PartCosts& stage = costs.parts[s];
    stage.layers = static_cast<int64_t>(each);
    for (int part = 0; part < kParts; ++part) {
      if (RowOfPart(part).once) {
        const size_t like = s == stages - 1 ? from.parts.size() - 1 : 0;
        stage.ns[part] = from.parts[like].ns[part];
        continue;
      }
      for (size_t l = s * each; l < (s + 1) * each; ++l) stage.ns[part] += layers[l].ns[part];
      stage.ns[part] /= stage.layers;
    }
    for (size_t l = s * each; l < (s + 1) * each && !costs.reduce.empty(); ++l) {
      costs.reduce[s] += reduce_ns[l];
    }
    costs.forward.push_back(stage.Forward());
    costs.input_gradient.push_back(stage.InputGradient());
    costs.weight_gradient.push_back(stage.WeightGradient());
    costs.backward.push_back(stage.InputGradient() + stage.WeightGradient());
  }
  return costs;
}

Timeline Predicted(const Plan& plan, CostModel costs) {
  PriceGroups(plan, &costs);
  auto timeline = Simulate(plan, WithOccupyingHops(plan, costs));
  SL_CHECK(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }
double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void PrintRow(const std::string& schedule, const Measured& run, const CostModel& others) {
  const NetworkTime all = MeasureNetwork(run.plan, run.step).all;
  const NetworkTime paired = InPairs(run.plan, run.step);
  const int64_t own_ns = MeasureBubbles(Predicted(run.plan, run.costs)).makespan_ns;
  const Timeline other = Predicted(run.plan, OnStages(others, run.plan.stages.size()));
  const int64_t other_ns = MeasureBubbles(other).makespan_ns;
  const NetworkTime expected = MeasureNetwork(run.plan, other).all;
  std::cout << absl::StreamFormat(
      "%-18s %8.1f %9.1f %8.1f %% %8.1f %% %9.1f %+6.1f %% %9.1f %+6.1f %% %8.1f %%\n", schedule,
      Ms(run.step_ns), Ms(all.network_ns), Percent(all.exposed_ns, all.network_ns),
      Percent(paired.exposed_ns, paired.network_ns), Ms(own_ns),
      Percent(own_ns - run.step_ns, run.step_ns), Ms(other_ns),
      Percent(other_ns - run.step_ns, run.step_ns),
      Percent(expected.exposed_ns, expected.network_ns));
}

void PrintTable(const Sizes& sizes, Recompute recompute) {
  Run without("1f1b", sizes, recompute, /*exchange_ns=*/0);
  for (int step = 0; step < sizes.steps; ++step) without.Step();
  const Measured at_once = without.Finish();
  const auto exchange_ns =
      static_cast<int64_t>(static_cast<double>(at_once.busy_ns) * kNetworkShare /
                           (1 - kNetworkShare) / static_cast<double>(at_once.calls));
  std::cout << absl::StreamFormat(
      "%s: a rank computes %.1f ms of a step, each of its %d all-to-alls takes %.2f ms\n\n"
      "schedule            step ms   network    exposed   in pairs    own ms      off  other ms    "
      "  "
      "off   exposed\n",
      recompute == Recompute::kNone ? "no recompute" : "recompute all", Ms(at_once.busy_ns),
      at_once.calls, Ms(exchange_ns));
  const std::vector<std::string> schedules = {"1f1b", "dualpipe_v", "megatron_combined", "kimi_k2"};
  std::deque<Run> runs;
  for (const std::string& name : schedules) runs.emplace_back(name, sizes, recompute, exchange_ns);
  for (int step = 0; step < sizes.steps; ++step) {
    for (Run& run : runs) run.Step();
  }
  std::vector<Measured> measured;
  for (Run& run : runs) measured.push_back(run.Finish());
  for (size_t i = 0; i < measured.size(); ++i) {
    PrintRow(schedules[i], measured[i], measured[i == 0 ? 1 : 0].costs);
  }
  std::cout << std::endl;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  stringline::Sizes sizes;
  int* const of[] = {&sizes.ranks, &sizes.expert, &sizes.microbatches,
                     &sizes.steps, &sizes.layers, &sizes.threads};
  for (int i = 1; i < argc && i <= 6; ++i) {
    if (!absl::SimpleAtoi(argv[i], of[i - 1]) || *of[i - 1] < 1) {
      std::cerr << "overlap_bench [P [X [M [STEPS [LAYERS [THREADS]]]]]]\n";
      return 2;
    }
  }
  // A thread for each lane: a computing thread does not notice the end of an exchange.
  if (sizes.threads == 0) sizes.threads = 2 * sizes.ranks * sizes.expert;
  std::cout << absl::StreamFormat("P=%d, experts over %d, M=%d, %d layers, %d threads\n",
                                  sizes.ranks, sizes.expert, sizes.microbatches, sizes.layers,
                                  sizes.threads);
  stringline::PrintTable(sizes, stringline::Recompute::kNone);
  stringline::PrintTable(sizes, stringline::Recompute::kAll);
  return 0;
}
