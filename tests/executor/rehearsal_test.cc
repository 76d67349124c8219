// Links, held stage programs, and rehearsals against the simulator.
#include "executor/rehearsal/rehearsal.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "executor/rehearsal/held_device.h"
#include "executor/rehearsal/held_stages.h"
#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "schedlang/check/replay.h"
#include "schedlang/costs/calibrate.h"
#include "schedlang/costs/microbatch_shares.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/sim/simulate.h"
#include "tests/executor/plans.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/engines.h"

namespace stringline {
namespace {

constexpr int64_t kMs = 1'000'000;

CostModel CostsFor(const Plan& plan, const std::string& text) {
  const auto spec = ParseCosts(text);
  SL_CHECK(spec.ok()) << spec.status();
  const auto costs = ResolveCosts(*spec, plan);
  SL_CHECK(costs.ok()) << costs.status();
  return *costs;
}

TEST(LinkSpeed, IsReadAndTakesItsTime) {
  struct Case {
    const char* text;
    int64_t bytes;
    int64_t takes_ns;
  };
  const Case cases[] = {
      {"5us,2GB/s", 1'000'000, 505'000}, {"5us,2GB/s", 0, 5'000},
      {"5us", 1'000'000, 5'000},         {" 1ms , 1 MiB/s ", 1 << 20, 1'001'000'000},
      {"0,1B/s", 3, 3'000'000'000},      {"0us,3GB/s", 1, 0},
  };
  for (const Case& c : cases) {
    const auto link = ParseLinkSpeed(c.text);
    ASSERT_TRUE(link.ok()) << c.text << " " << link.status();
    EXPECT_EQ(link->TransferNs(c.bytes), c.takes_ns) << c.text;
  }
  for (const char* const bad : {"", ",", "5", "5,2GB/s", "fast", "5us,", "5us,2GB", "5us,2Gb/s",
                                "5us,0B/s", "5us,2GB/s,", "-1us,1B/s"}) {
    EXPECT_FALSE(ParseLinkSpeed(bad).ok()) << bad;
  }
}

TEST(HeldStages, AGroupHoldsItsRankOnce) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=2\n"
      "stages 0 1 1 0\n"
      "rank 0: 0F0 0F1 3F0 3F1&3B0 3B1&0B0 0B1\n"
      "rank 1: 1F0 2F0 1F1 2F1 2B0&2I1 1B0&2W1 1B1\n");
  HeldStages stages(plan, CostsFor(plan, "F=1,I=[10,20,30,40],W=100,FB=[5,6,7,8]"),
                    /*groups=*/nullptr);
  struct Case {
    ActionKind kind;
    int stage, microbatch;
    int64_t holds_ns;
  };
  // Only 3F1&3B0 has an order of parts; the actions of other groups follow each other.
  const Case cases[] = {
      {ActionKind::kForward, 0, 0, 1'000},
      {ActionKind::kForward, 3, 1, 8'000},
      {ActionKind::kBackward, 3, 0, 0},
      {ActionKind::kBackward, 3, 1, 140'000},
      {ActionKind::kBackward, 0, 0, 110'000},
      {ActionKind::kBackward, 2, 0, 130'000},
      {ActionKind::kInputGradient, 2, 1, 30'000},
      {ActionKind::kBackward, 1, 0, 120'000},
      {ActionKind::kWeightGradient, 2, 1, 100'000},
  };
  for (const Case& c : cases) {
    const Action action = {
        .kind = c.kind, .stage = StageId(c.stage), .microbatch = MicrobatchId(c.microbatch)};
    EXPECT_EQ(stages.Compute(action, {}).work.argument, c.holds_ns) << Print(plan, action);
  }
}

// The text of a timeline, without the observed times.
std::string Told(Timeline timeline) {
  timeline.observed.clear();
  timeline.observed_parts.clear();
  return Print(timeline);
}

// The text of a timeline with its origin set to measured.
std::string AsMeasured(Timeline timeline) {
  timeline.origin = "measured";
  return Print(timeline);
}

// The same with holds, slow messages and communicators: the device ends if the checker accepts the
// plan, and otherwise reports the deadlock.
TEST(Rehearsal, EndsExactlyWhenTheCheckerSaysSo) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  CostModel costs;
  int64_t sound[3] = {0, 0, 0}, unsound[3] = {0, 0, 0};
  for (int i = 0; i < 1500; ++i) {
    const Plan plan = RandomPlan(random);
    CheckOptions options;
    options.layout = static_cast<CommLayout>(i % 3);
    Diagnostics diagnostics;
    const bool checked = Check(plan, options, &diagnostics);
    const auto draw = [&](std::vector<int64_t>* of) {
      of->clear();
      for (size_t s = 0; s < plan.stages.size(); ++s) of->push_back(1 + random() % 2'000);
    };
    draw(&costs.forward);
    draw(&costs.backward);
    draw(&costs.input_gradient);
    draw(&costs.weight_gradient);
    draw(&costs.recompute);
    draw(&costs.update);
    draw(&costs.offload);
    draw(&costs.fetch);
    std::vector<int64_t> times;
    draw(&times);
    const auto owned = CpuDevice::Make(1 + i / 3 % 3);
    ASSERT_TRUE(owned.ok()) << owned.status();
    HeldDevice device(owned->get());
    const auto message_ns = [](const void* self, absl::Span<const Call* const> met) {
      const auto& ns = *static_cast<const std::vector<int64_t>*>(self);
      return ns[met[0]->name.index % ns.size()];
    };
    ThreadGroups groups(owned->get(), {message_ns, &times});
    HeldStages stages(plan, costs, &groups);
    auto step = Interpreter::Make(plan, &stages, &device, &groups, nullptr,
                                  {.order = MessageOrder::kListedWork, .layout = options.layout});
    absl::Status status = step.status();
    if (step.ok()) {
      (*step)->EnqueueStep();
      status = device.Synchronize();
    }
    EXPECT_EQ(checked, status.ok())
        << Print(plan) << NameOf(options.layout) << ": " << status << "\n"
        << (checked ? "" : diagnostics.findings()[0].text);
    ++(checked ? sound : unsound)[i % 3];
  }
  for (int layout = 0; layout < 3; ++layout) {
    EXPECT_GT(sound[layout], 50) << layout;
    EXPECT_GT(unsound[layout], 50) << layout;
  }
}

constexpr CommLayout kLayouts[] = {CommLayout::kEdge, CommLayout::kPair, CommLayout::kShared};

// The durations of messages: on a link that they occupy, in flight alone, and first on the link,
// then in flight.
enum class Way : uint8_t { kOccupying, kInFlight, kBoth };

CostModel WithMessages(const Plan& plan, CostModel costs, Way way) {
  if (way == Way::kOccupying) return WithLink(plan, std::move(costs), {500'000, 4e9}, 4 << 20);
  const Hop hop = {1'548'576, way == Way::kBoth ? 900'000 : 0};
  costs.activation_hops.assign(plan.stages.size(), hop);
  costs.gradient_hops = costs.activation_hops;
  return costs;
}

constexpr const char* kLibrary[] = {
    "gpipe",      "1f1b",        "1f1b_offload",   "mario",
    "looped_bfs", "interleaved", "interleaved_zb", "megatron_combined",
    "kimi_k2",    "gis",         "zb_h1",          "zb_h2",
    "zb_v",       "dualpipe_v",  "v_half",         "v_min",
    "hanayo",     "chimera",     "dualpipe",       "pipedream_2bw",
    "terapipe",   "seq1f1b",     "svpp",           "slimpipe",
    "inference",  "pipedream",   "gems",           "eager_1f1b",
    "kfkb",       "llama3",      "circular",       "ooo_backprop",
    "bitpipe",    "two_bp",
};

// The simulator with costs calibrated from the measurement predicts the same time. For both ways at
// once a recording does not always separate the two durations.
void ExpectCalibratesToTheSame(const Plan& plan, const Rehearsal& rehearsal, CommLayout layout,
                               Way way) {
  if (way == Way::kBoth) return;
  CostModel costs = Calibrate(rehearsal.measured).costs;
  if (way == Way::kOccupying) costs = WithOccupyingHops(plan, std::move(costs));
  const auto again = Simulate(plan, costs, layout);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Told(rehearsal.measured), AsMeasured(*again));
}

// On a device whose time jumps only holds take time: then the executor takes the simulated time, to
// the nanosecond and action by action, and so does the simulator with costs calibrated from the
// run. (tools/microbench/rehearsal_bench does so in real time.)
TEST(Rehearsal, TakesWhatTheSimulatorSays) {
  int rehearsed = 0;
  for (const char* const schedule : kLibrary) {
    for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {4, 12}, {8, 16}}) {
      for (const CommLayout layout : kLayouts) {
        const auto plan = LibraryPlan(schedule, p, m, layout);
        if (!plan.has_value()) continue;
        const auto way = static_cast<Way>(rehearsed % 3);
        SCOPED_TRACE(absl::StrCat(schedule, " P=", p, " M=", m, " ", NameOf(layout), ", way ",
                                  rehearsed % 3));
        const CostModel costs =
            WithMessages(*plan, CostsFor(*plan, "F=3ms,I=4ms,W=2ms,FB=7ms,D=2ms,U=3ms"), way);
        const RehearsalSettings settings = {layout, /*steps=*/1, /*threads=*/1 + rehearsed / 3 % 3,
                                            DeviceTime::kJumps};
        const auto rehearsal = Rehearse(*plan, costs, settings);
        ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
        EXPECT_EQ(Told(rehearsal->measured), AsMeasured(rehearsal->simulated));
        // Work starts as soon as its dependencies allow, so no start moves.
        const auto reconstruction = ReconstructionOf(rehearsal->measured);
        ASSERT_TRUE(reconstruction.has_value());
        EXPECT_GT(reconstruction->seen, 0);
        EXPECT_EQ(reconstruction->moved, 0);
        ExpectCalibratesToTheSame(*plan, *rehearsal, layout, way);
        ++rehearsed;
      }
    }
  }
  EXPECT_GT(rehearsed, 150);
}

// Every microbatch has times of its own, and so have its messages and its copies to the host.
TEST(Rehearsal, OfUnequalMicrobatchesTakesWhatTheSimulatorSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int rehearsed = 0;
  for (const char* const schedule : kLibrary) {
    for (int round = 0; round < 6; ++round) {
      const auto plan = LibraryPlan(schedule, 4, 8, kLayouts[round % 3], 0, 1 + round / 3);
      // The sums of two steps of gems wait for each other on one communicator, as `check` says.
      if (!plan.has_value() || !Ends(*plan, kLayouts[round % 3])) continue;
      SCOPED_TRACE(absl::StrCat(schedule, " round ", round));
      std::string text = "F=3ms,I=4ms,W=2ms,FB=7ms,D=2ms,U=3ms,attention=0.3,microbatch=[";
      const int of_step = plan->microbatches / plan->steps / plan->slices;
      for (int m = 0; m < of_step; ++m) {
        absl::StrAppend(&text, m > 0 ? "," : "", 0.25 + static_cast<double>(random() % 200) / 100);
      }
      const CostModel costs =
          WithMessages(*plan, CostsFor(*plan, text + "]"), static_cast<Way>(rehearsed % 3));
      const auto rehearsal =
          Rehearse(*plan, costs, {kLayouts[round % 3], 1, 1 + round % 3, DeviceTime::kJumps});
      ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
      EXPECT_EQ(Told(rehearsal->measured), AsMeasured(rehearsal->simulated));
      const auto equal = Simulate(*plan, WithEqualMicrobatches(costs), kLayouts[round % 3]);
      ASSERT_TRUE(equal.ok()) << equal.status();
      EXPECT_NE(MeasureBubbles(*equal).makespan_ns,
                MeasureBubbles(rehearsal->simulated).makespan_ns);
      ++rehearsed;
    }
  }
  EXPECT_GT(rehearsed, 60);
}

// Collectives in one bucket and in several, of one pipe and of replicas, and of stages cut into
// layers, whose groups overlap, with and without chunks.
TEST(Rehearsal, MeetsBucketsAsTheSimulatorSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int inside = 0, waited = 0, cut_waited = 0, parts_waited = 0;
  for (const char* const schedule : kLibrary) {
    for (int round = 0; round < 12; ++round) {
      const CommLayout layout = kLayouts[round % 3];
      const auto plan = LibraryPlan(schedule, 4, 12, layout);
      if (!plan.has_value()) continue;
      Plan collects = AddCollectives(*plan, /*resident=*/1 + round % 3);
      const auto draw = [&](int most) { return absl::StrCat("=", random() % most, "us,"); };
      std::string text = absl::StrCat("unshard", draw(600), "reduce", draw(900), "D", draw(300),
                                      "U", draw(300), "buckets=", 1 + random() % 6);
      const bool cut = round >= 6;
      if (cut && plan->slices > 1) break;  // whose costs have no parts
      if (cut) {
        if (round >= 9) collects.chunks = 2;
        absl::StrAppend(&text, ",layers=", 1 + random() % 2);
        for (int part = 0; part < kParts; ++part) {
          // Parts that take no time end together, and keep their order all the same.
          const auto us = random() % 4 == 0 ? 0 : random() % 60;
          absl::StrAppend(&text, ",", PartName(part), "=", us, "us");
        }
      } else {
        absl::StrAppend(&text, ",F", draw(300), "I", draw(300), "W=", random() % 300, "us");
      }
      CostModel costs = CostsFor(collects, text);
      costs = WithMessages(collects, std::move(costs), static_cast<Way>(round % 3));
      const RehearsalSettings settings = {layout, /*steps=*/1, /*threads=*/1 + round % 2,
                                          DeviceTime::kJumps};
      const auto rehearsal = Rehearse(collects, costs, settings);
      ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
      Timeline measured = rehearsal->measured, simulated = rehearsal->simulated;
      for (size_t i = 0; i < simulated.events.size(); ++i) {
        inside += simulated.events[i].first_bucket_ns > 0 ? 1 : 0;
        (cut ? cut_waited : waited) += simulated.events[i].waited_ns > 0 ? 1 : 0;
        const bool by_part = cut && IsCompute(simulated.events[i].kind);
        parts_waited += by_part && simulated.events[i].waited_ns > 0 ? 1 : 0;
        if (plan->pipes.empty() || simulated.events[i].kind != ActionKind::kReduceGrad) continue;
        // A recording does not say which of several ranks a bucket waited for.
        EXPECT_LE(measured.events[i].waited_ns, simulated.events[i].waited_ns);
        measured.events[i].waited_ns = simulated.events[i].waited_ns = 0;
      }
      EXPECT_EQ(Told(measured), AsMeasured(simulated)) << schedule << " " << text;
    }
  }
  EXPECT_GT(inside, 500);
  EXPECT_GT(waited, 20);
  EXPECT_GT(cut_waited, 10);
  EXPECT_GT(parts_waited, 100);
}

// A model with one mistake: costs, or a layout, other than those performed.
struct BrokenModel {
  const char* name;
  void (*breaks)(CostModel* costs, CommLayout* layout);
};

constexpr BrokenModel kBrokenModels[] = {
    {"messages take no time",
     [](CostModel* costs, CommLayout*) {
       for (Hop& hop : costs->activation_hops) hop = {0, 0};
       for (Hop& hop : costs->gradient_hops) hop = {0, 0};
     }},
    {"messages do not wait for each other",
     [](CostModel* costs, CommLayout* layout) {
       for (Hop& hop : costs->activation_hops) hop = {hop.all_ns(), 0};
       for (Hop& hop : costs->gradient_hops) hop = {hop.all_ns(), 0};
       *layout = CommLayout::kEdge;
     }},
    {"a latency keeps the next message waiting",
     [](CostModel* costs, CommLayout*) {
       for (Hop& hop : costs->activation_hops) hop = {0, hop.all_ns()};
       for (Hop& hop : costs->gradient_hops) hop = {0, hop.all_ns()};
     }},
    {"collectives are free",
     [](CostModel* costs, CommLayout*) {
       costs->unshard.clear();
       costs->reduce.clear();
     }},
    {"a pair takes as long as its parts one after the other",
     [](CostModel* costs, CommLayout*) { costs->forward_backward.clear(); }},
};

// The bound by which a rehearsal is judged exposes every one of these mistakes, in this many plans
// of the library; without a mistake it accepts all.
TEST(Rehearsal, ABrokenModelIsFound) {
  constexpr CommLayout kLayout = CommLayout::kShared;
  int plans = 0, right = 0, found[std::size(kBrokenModels)] = {};
  for (const char* const schedule : kLibrary) {
    const auto plan = LibraryPlan(schedule, 4, 12, kLayout);
    if (!plan.has_value()) continue;
    ++plans;
    const Plan collects = AddCollectives(*plan, /*resident=*/1);
    const CostModel costs = WithMessages(
        collects, CostsFor(collects, "F=3ms,I=4ms,W=2ms,FB=7ms,unshard=2ms,reduce=9ms,D=2ms,U=2ms"),
        Way::kBoth);
    auto rehearsal = Rehearse(collects, costs, {kLayout, /*steps=*/1, 1, DeviceTime::kJumps});
    ASSERT_TRUE(rehearsal.ok()) << schedule << ": " << rehearsal.status();
    const RehearsalJudgement judgement = Judge(*rehearsal);
    EXPECT_EQ(judgement.misprediction, 0) << schedule;
    EXPECT_EQ(judgement.disturbance, 0) << schedule;
    right += judgement.verdict == RehearsalVerdict::kRight ? 1 : 0;
    for (size_t b = 0; b < std::size(kBrokenModels); ++b) {
      CostModel broken = costs;
      CommLayout layout = kLayout;
      kBrokenModels[b].breaks(&broken, &layout);
      const auto simulated = Simulate(collects, broken, layout);
      ASSERT_TRUE(simulated.ok()) << simulated.status();
      rehearsal->simulated = *simulated;
      found[b] += Judge(*rehearsal).verdict == RehearsalVerdict::kWrong ? 1 : 0;
    }
  }
  EXPECT_GT(plans, 12);
  EXPECT_EQ(right, plans);
  for (size_t b = 0; b < std::size(kBrokenModels); ++b) {
    EXPECT_GT(found[b], 2) << kBrokenModels[b].name << " is found in " << found[b] << " of "
                           << plans << " plans";
  }
}

// A timeline of one computation of the given duration.
Timeline Lasting(int64_t ns) {
  Timeline timeline;
  timeline.events.push_back(
      {.stage = StageId(0), .microbatch = MicrobatchId(0), .start_ns = 0, .end_ns = ns});
  timeline.first.push_back(1);
  return timeline;
}

// The control is judged first: on a disturbed machine the prediction is not judged.
TEST(Rehearsal, IsJudgedByItsMedianAndItsControl) {
  struct Case {
    int64_t predicted_ns, median_ns;
    std::vector<int64_t> controls_ns;  // known: 1000
    RehearsalVerdict verdict;
  };
  const Case cases[] = {
      {1'000, 1'000, {1'000, 1'000, 1'000}, RehearsalVerdict::kRight},
      {1'000, 1'030, {1'030, 1'030, 1'000}, RehearsalVerdict::kRight},
      {1'000, 1'040, {1'000, 1'010, 1'030}, RehearsalVerdict::kWrong},
      {1'000, 1'040, {1'000, 1'010, 9'000}, RehearsalVerdict::kDisturbed},
      {1'000, 1'020, {1'000, 1'010, 9'000}, RehearsalVerdict::kRight},
      {1'040, 1'000, {1'000, 1'000, 1'000}, RehearsalVerdict::kWrong},
      {1'000, 1'040, {1'031, 1'000, 1'020}, RehearsalVerdict::kDisturbed},
      {1'000, 1'000, {1'031, 1'031, 1'000}, RehearsalVerdict::kDisturbed},
      {1'000, 1'000, {960, 960, 1'000}, RehearsalVerdict::kDisturbed},
  };
  for (const Case& c : cases) {
    Rehearsal rehearsal;
    rehearsal.simulated = Lasting(c.predicted_ns);
    rehearsal.measured = Lasting(c.median_ns);
    rehearsal.control_ns = 1'000;
    rehearsal.controls_ns = c.controls_ns;
    EXPECT_EQ(Judge(rehearsal).verdict, c.verdict) << c.predicted_ns << " " << c.median_ns;
  }
}

// The longest computation of every round, without messages: the known and the measured time.
TEST(Rehearsal, TheControlTakesWhatItIsKnownToTake) {
  const Plan plan = LibraryPlan("dualpipe_v", 4, 8).value();
  CostModel costs = CostsFor(plan, "F=3ms,I=4ms,W=2ms,FB=7ms,p2p=90ms");
  const auto rehearsal = Rehearse(plan, costs, {.steps = 3, .time = DeviceTime::kJumps});
  ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
  std::vector<std::vector<int64_t>> rounds(plan.ranks());
  for (int r = 0; r < plan.ranks(); ++r) {
    for (const Event& event : rehearsal->simulated.of(RankId(r))) {
      if (!IsCompute(event.kind) || event.joined) continue;
      rounds[r].push_back(event.end_ns - event.start_ns);
    }
  }
  int64_t known_ns = 0;
  for (size_t k = 0;; ++k) {
    int64_t longest_ns = 0;
    for (const auto& of_rank : rounds)
      longest_ns = std::max(longest_ns, k < of_rank.size() ? of_rank[k] : 0);
    if (longest_ns == 0) break;
    known_ns += longest_ns;
  }
  EXPECT_EQ(rehearsal->control_ns, known_ns);
  EXPECT_EQ(rehearsal->controls_ns, std::vector<int64_t>(3, rehearsal->control_ns));
}

// Collectives of sharded stages take their time too, beside the computation.
TEST(Rehearsal, GathersAndReducesTakeWhatTheSimulatorSays) {
  for (const char* const schedule : {"1f1b", "interleaved", "zb_v", "dualpipe_v"}) {
    Plan plan = AddCollectives(LibraryPlan(schedule, 4, 8).value(), /*resident=*/1);
    const CostModel costs = CostsFor(plan, "F=3ms,I=4ms,W=2ms,p2p=1ms,unshard=2ms,reduce=5ms");
    const auto rehearsal = Rehearse(plan, costs, {.steps = 1, .time = DeviceTime::kJumps});
    ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
    EXPECT_EQ(Told(rehearsal->measured), AsMeasured(rehearsal->simulated)) << schedule;
  }
}

// A different cost for every stage, of which some reductions take the larger.
CostModel UnevenCosts(const Plan& plan, std::mt19937_64* random) {
  CostSpec spec;
  for (const char* const key : {"F", "I", "W", "reduce", "unshard"}) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      spec.values[key].push_back(static_cast<int64_t>(1 + (*random)() % 20'000'000));
    }
  }
  spec.values["p2p"] = {static_cast<int64_t>((*random)() % 5'000'000)};
  const auto costs = ResolveCosts(spec, plan);
  SL_CHECK(costs.ok()) << costs.status();
  return *costs;
}

void ExpectRehearsedAsSimulated(const Plan& plan, const CostModel& costs) {
  const auto rehearsal = Rehearse(plan, costs, {.steps = 2, .time = DeviceTime::kJumps});
  ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
  EXPECT_EQ(Told(rehearsal->measured), AsMeasured(rehearsal->simulated));
  const Calibration calibration = Calibrate(rehearsal->measured);
  const auto again = Simulate(plan, calibration.costs);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Told(rehearsal->measured), AsMeasured(*again));
}

// The ranks that hold replicas wait for each other, in both alike; also with gathers listed after
// their reductions.
TEST(Rehearsal, ReplicasMeetAsTheSimulatorSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* const schedule : {"chimera", "dualpipe"}) {
    for (int n = 0; n < 20; ++n) {
      const Plan plan = LibraryPlan(schedule, 4, 8).value();
      ExpectRehearsedAsSimulated(plan, UnevenCosts(plan, &random));
    }
  }
  // Rank 0 holds two replicas of the second part.
  const Plan by_hand = PlanFrom(
      "plan v P=2 M=3\n"
      "pipe a M=1 stages 0 1\npipe b M=1 stages 1 0\npipe c M=1 stages 1 0\n"
      "rank 0: a[0]F0 b[1]F0 b[1]B0 a[0]B0 c[1]F0 c[1]B0\n"
      "rank 1: b[0]F0 a[1]F0 a[1]B0 b[0]B0 c[0]F0 c[0]B0\n");
  // A replica without microbatches, on a rank without other work.
  const Plan idle = PlanFrom(
      "plan v P=3 M=1\npipe a M=1 stages 0 1\npipe b M=0 stages 1 2\n"
      "rank 0: a[0]F0 a[0]B0\nrank 1: a[1]F0 a[1]B0\nrank 2:\n");
  for (int n = 0; n < 20; ++n) {
    for (const Plan& plan :
         {Lower(by_hand), Lower(AddCollectives(by_hand, /*resident=*/1)), Lower(idle)}) {
      ExpectRehearsedAsSimulated(plan, UnevenCosts(plan, &random));
    }
  }
}

// No rank waits for another one's updates, and updates wait for the sums of their gradients.
TEST(Rehearsal, StepsFollowEachOtherAsTheSimulatorSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* const schedule : {"1f1b", "interleaved", "zb_v", "chimera", "pipedream_2bw"}) {
    for (int n = 0; n < 8; ++n) {
      std::string text = ReadTestFile(absl::StrCat("schedules/", schedule, ".sched"));
      const std::string parameters = absl::StrCat("P=4 M=8 steps=", 2 + n % 2);
      Plan plan = PlanFrom(Elaborated(text, ParametersOf(parameters)));
      const bool gathers = n >= 4 && plan.versions == 1;
      if (n % 4 >= 2) plan = AddCollectives(plan, {.gathers = gathers, .reduces = true});
      plan = Lower(plan);
      CostModel costs = UnevenCosts(plan, &random);
      for (int64_t& ns : costs.update) ns = static_cast<int64_t>(random() % 3'000'000);
      ExpectRehearsedAsSimulated(plan, costs);
    }
  }
}

TEST(Rehearsal, NeverTakesLessInRealTime) {
  const auto plan = LibraryPlan("dualpipe_v", 4, 8, CommLayout::kShared);
  ASSERT_TRUE(plan.has_value());
  const CostModel costs =
      WithLink(*plan, CostsFor(*plan, "F=1ms,I=2ms,W=1ms,FB=3ms"), {500'000, 4e9}, 4 << 20);
  const auto rehearsal = Rehearse(*plan, costs, {CommLayout::kShared, /*steps=*/3});
  ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
  const int64_t least_ns = MeasureBubbles(rehearsal->simulated).makespan_ns;
  EXPECT_EQ(rehearsal->makespans_ns.size(), 3u);
  for (const int64_t took_ns : rehearsal->makespans_ns) EXPECT_GE(took_ns, least_ns);
}

// The arrivals of two activations sent 1 ms apart.
std::pair<int64_t, int64_t> Arrivals(const Plan& plan, const CostModel& costs) {
  const auto rehearsal = Rehearse(plan, costs, {.steps = 1, .time = DeviceTime::kJumps});
  SL_CHECK(rehearsal.ok()) << rehearsal.status();
  int64_t arrived_ns[2] = {0, 0};
  for (const Event& event : rehearsal->measured.events) {
    if (event.kind == ActionKind::kRecvForward) arrived_ns[event.microbatch.value] = event.end_ns;
  }
  return {arrived_ns[0], arrived_ns[1]};
}

TEST(Rehearsal, ATransferHoldsItsChannelAndALatencyDoesNot) {
  const Plan plan = LoweredFrom(
      "plan two P=2 M=2\n"
      "stages 0 1\n"
      "rank 0: 0F0 0F1 0B0 0B1\n"
      "rank 1: 1F0 1F1 1B0 1B1\n");
  const CostModel in_flight = CostsFor(plan, "F=1ms,B=1ms,p2p=20ms");
  EXPECT_EQ(Arrivals(plan, in_flight), std::pair(21 * kMs, 22 * kMs));
  EXPECT_EQ(Arrivals(plan, WithOccupyingHops(plan, in_flight)), std::pair(21 * kMs, 41 * kMs));
  const CostModel both = CostsFor(plan, "F=1ms,B=1ms,p2p=20ms,message=5MB,bandwidth=1GB/s");
  EXPECT_EQ(Arrivals(plan, both), std::pair(26 * kMs, 31 * kMs));
}

}  // namespace
}  // namespace stringline
