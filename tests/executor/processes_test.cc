// A run with its ranks in several processes equals the run of one process.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/checkpoint/param_reader.h"
#include "executor/engine/packed_numbers.h"
#include "executor/engine/world_clock.h"
#include "executor/run/build_stages.h"
#include "executor/run/train.h"
#include "executor/training/shared_figures.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/source.h"
#include "tests/executor/plans.h"
#include "tests/executor/shared_machine.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

// By coordinate, stage and index.
using Params = std::map<std::vector<int>, std::vector<float>>;

void AddParams(Trainer& trainer, Params* params) {
  for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      if (!trainer.holds(stage, c)) continue;
      for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
        const auto values = trainer.param(stage, static_cast<int>(p), c);
        const std::vector<int> place = {c, static_cast<int>(s), static_cast<int>(p)};
        EXPECT_TRUE(params->try_emplace(place, values.begin(), values.end()).second);
      }
    }
  }
}

struct RunCase {
  TinyFamily family;
  const char* schedule;
  int pipeline;
  Mesh mesh;
  std::vector<std::vector<int>> processes;  // the ranks of each
  bool packed = false;                      // every word of the corpus is a document
};

RunConfig ConfigOf(const RunCase& run, int stages) {
  RunConfig config = SmallRun(4);
  config.shape = TinyModel(run.family, stages);
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.mesh = run.mesh;
  if (run.packed) config.data.packed.end = ' ';
  return config;
}

TrainingData DataOf(const RunCase& run) {
  static const std::string& text = *new std::string(Corpus());
  static const Documents& words = *new Documents(Documents::EndingWith(' '));
  return run.packed ? TrainingData(text).PackedOf(words) : TrainingData(text);
}

// Trains in a thread per process; hooks are made for each.
template <typename HooksOf>
std::vector<absl::StatusOr<TrainResult>> TrainApart(const RunCase& run, const RunConfig& config,
                                                    const Plan& plan, HooksOf hooks_of) {
  SharedMachine machine(run.processes);
  std::vector<absl::StatusOr<TrainResult>> results(run.processes.size());
  std::vector<std::thread> threads;
  for (size_t p = 0; p < run.processes.size(); ++p) {
    threads.emplace_back([&, p] {
      results[p] = Train(config, plan, DataOf(run), hooks_of(static_cast<int>(p)),
                         machine.Join(static_cast<int>(p)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

int StagesOfOnePipe(const Plan& plan) {
  return plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages;
}

class Processes : public testing::TestWithParam<RunCase> {};

TEST_P(Processes, TogetherDoWhatOneDoes) {
  const RunCase& run = GetParam();
  const Plan plan = WithSums(LibraryPlan(run.schedule, run.pipeline, 8).value(), run.mesh);
  const RunConfig config = ConfigOf(run, StagesOfOnePipe(plan));
  Params expected_params;
  TrainHooks hooks;
  hooks.end = [&](int64_t, Trainer& trainer) {
    AddParams(trainer, &expected_params);
    return absl::OkStatus();
  };
  const auto expected = Train(config, plan, DataOf(run), hooks);
  ASSERT_TRUE(expected.ok()) << expected.status();

  std::vector<Params> params_of(run.processes.size());
  std::vector<std::vector<double>> norms_of(run.processes.size());
  const auto results = TrainApart(run, config, plan, [&](int process) {
    TrainHooks own;
    own.after_step = [&norms = norms_of[process]](const TrainStep& step, Trainer&) {
      norms.push_back(step.grad_norm);
      return absl::OkStatus();
    };
    own.end = [&params = params_of[process]](int64_t, Trainer& trainer) {
      AddParams(trainer, &params);
      return absl::OkStatus();
    };
    return own;
  });
  Params params;
  for (size_t p = 0; p < results.size(); ++p) {
    ASSERT_TRUE(results[p].ok()) << "process " << p << ": " << results[p].status();
    const TrainResult& result = *results[p];
    EXPECT_EQ(result.losses_nats, expected->losses_nats) << p;
    EXPECT_EQ(result.aux_loss_nats, expected->aux_loss_nats) << p;
    EXPECT_EQ(norms_of[p], norms_of[0]) << p;
    EXPECT_EQ(result.tokens_per_step, expected->tokens_per_step);
    ASSERT_EQ(result.rank_bytes.size(), expected->rank_bytes.size());
    for (size_t r = 0; r < result.rank_bytes.size(); ++r) {
      // Process 0 has the memory of all ranks.
      if (p > 0) continue;
      EXPECT_EQ(result.rank_bytes[r].planned, expected->rank_bytes[r].planned) << r;
      EXPECT_EQ(result.rank_bytes[r].allocated, expected->rank_bytes[r].allocated) << r;
    }
    // Process 0 has the times of all ranks.
    EXPECT_EQ(result.measured.events.size(), p == 0 ? expected->measured.events.size() : 0);
    EXPECT_EQ(result.measured.parts.size(), p == 0 ? expected->measured.parts.size() : 0);
    for (const Event& event : result.measured.events) EXPECT_GT(event.end_ns, 0);
    for (auto& [place, values] : params_of[p]) {
      EXPECT_TRUE(params.try_emplace(place, values).second) << "two processes hold it";
    }
  }
  EXPECT_EQ(params, expected_params);
}

INSTANTIATE_TEST_SUITE_P(
    All, Processes,
    testing::Values(RunCase{TinyFamily::kGpt, "1f1b", 2, {}, {{0}, {1}}},
                    RunCase{TinyFamily::kGpt, "zb_v", 2, {}, {{0}, {1}}},
                    RunCase{TinyFamily::kGpt, "interleaved", 4, {}, {{0, 2}, {1}, {3}}},
                    RunCase{TinyFamily::kLlama, "dualpipe_v", 2, {}, {{0}, {1}}},
                    RunCase{TinyFamily::kLlama, "1f1b", 4, {}, {{0}, {1}, {2}, {3}}},
                    RunCase{TinyFamily::kGpt, "dualpipe", 4, {}, {{0, 1}, {2, 3}}},
                    RunCase{TinyFamily::kLlama, "1f1b", 2, {.data = 2}, {{0, 1}, {2, 3}}},
                    RunCase{TinyFamily::kGpt, "zb_h1", 2, {.data = 2}, {{0, 3}, {1, 2}}},
                    RunCase{TinyFamily::kMoe, "1f1b", 2, {.expert = 2}, {{0}, {1}, {2}, {3}}},
                    RunCase{TinyFamily::kMoe,
                            "dualpipe_v",
                            2,
                            {.data = 2, .expert = 2},
                            {{0, 1, 2, 3}, {4, 5, 6, 7}}},
                    RunCase{TinyFamily::kGpt, "zb_h1", 4, {}, {{0}, {1, 2}, {3}}, true},
                    RunCase{TinyFamily::kLlama, "1f1b", 2, {.data = 2}, {{0, 1}, {2, 3}}, true}),
    [](const testing::TestParamInfo<RunCase>& info) {
      return absl::StrCat(NameOf(info.param.family), "_", info.param.schedule, "_",
                          info.param.pipeline, "_data", info.param.mesh.data, "_expert",
                          info.param.mesh.expert, "_in", info.param.processes.size(),
                          info.param.packed ? "_packed" : "");
    });

// The bytes that processes exchange in steps at whose times nobody looks, beside those of one step
// more, at which somebody does.
TEST(ProcessesExchange, TimesOnlyWhereSomebodyLooks) {
  const RunCase run = {TinyFamily::kGpt, "1f1b", 4, {}, {{0}, {1}, {2}, {3}}};
  const Plan plan = LibraryPlan(run.schedule, run.pipeline, 32).value();
  const RunConfig config = ConfigOf(run, StagesOfOnePipe(plan));
  const auto bytes_with = [&](bool looks) {
    SharedMachine machine(run.processes);
    std::vector<int64_t> of_step(run.processes.size(), 0);
    std::vector<std::thread> threads;
    for (size_t p = 0; p < run.processes.size(); ++p) {
      threads.emplace_back([&, p] {
        auto trainer = Trainer::Make(plan, BuildStages(config, plan).value(), {},
                                     machine.Join(static_cast<int>(p)));
        ASSERT_TRUE(trainer.ok()) << trainer.status();
        const int64_t before = machine.exchanged_bytes(static_cast<int>(p));
        ASSERT_TRUE((*trainer)->ComputeGradients().ok());
        const absl::Status gathered = looks ? (*trainer)->GatherTimes() : absl::OkStatus();
        ASSERT_TRUE(gathered.ok()) << gathered;
        of_step[p] = machine.exchanged_bytes(static_cast<int>(p)) - before;
      });
    }
    for (std::thread& thread : threads) thread.join();
    int64_t sum = 0;
    for (const int64_t bytes : of_step) sum += bytes;
    return sum;
  };
  // The losses alone: exact sums of each of four processes, whatever the number of microbatches.
  EXPECT_EQ(bytes_with(false),
            4 * SharedFigures::kResultWords * static_cast<int64_t>(sizeof(uint64_t)));
  // 24 bytes of times for each action, at least.
  EXPECT_GT(bytes_with(true), 24 * static_cast<int64_t>(plan.actions.size()));
}

// An empty folder.
std::string ScratchFolder() {
  static int made = 0;
  const std::string folder = absl::StrCat(testing::TempDir(), "/processes-", getpid(), "-", made++);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// The files left by a run, by name.
std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto bytes = ReadBytes(entry.path().string(), uint64_t{1} << 30);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (bytes.ok()) files[entry.path().filename().string()] = *bytes;
  }
  return files;
}

TrainHooks SavesTo(const std::string& folder, const RunConfig& config) {
  TrainHooks hooks;
  hooks.end = [folder, &config](int64_t step, Trainer& trainer) {
    return SaveModelFolder(folder, config.shape, step, PlacesOf(trainer).all(), trainer.world());
  };
  return hooks;
}

class ProcessesSave : public testing::TestWithParam<RunCase> {};

TEST_P(ProcessesSave, WhatOneDoesAndAnyLoadIt) {
  const RunCase& run = GetParam();
  const Plan plan = WithSums(LibraryPlan(run.schedule, run.pipeline, 8).value(), run.mesh);
  RunConfig config = ConfigOf(run, StagesOfOnePipe(plan));
  config.steps = 2;
  const std::string one = ScratchFolder(), apart = ScratchFolder();
  const auto expected = Train(config, plan, Corpus(), SavesTo(one, config));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const auto& result :
       TrainApart(run, config, plan, [&](int) { return SavesTo(apart, config); })) {
    ASSERT_TRUE(result.ok()) << result.status();
  }
  EXPECT_GE(FilesOf(one).size(), 1u);
  EXPECT_EQ(FilesOf(apart), FilesOf(one));

  // The runs go on with the saved parameters instead of the seed's.
  config.seed = 77;
  const std::string again = ScratchFolder();
  for (const auto& result : TrainApart(run, config, plan, [&](int) {
         TrainHooks hooks;
         hooks.start = [&](Trainer& trainer) {
           const ParamPlaces places = PlacesOf(trainer);
           const absl::Status loaded = LoadModelFolder(apart, config.shape, places.all());
           if (!loaded.ok()) return loaded;
           return SaveModelFolder(again, config.shape, 2, places.all(), trainer.world());
         };
         return hooks;
       })) {
    ASSERT_TRUE(result.ok()) << result.status();
  }
  EXPECT_EQ(FilesOf(again), FilesOf(one));
}

INSTANTIATE_TEST_SUITE_P(
    All, ProcessesSave,
    testing::Values(RunCase{TinyFamily::kGpt, "interleaved", 4, {}, {{0, 2}, {1}, {3}}},
                    RunCase{TinyFamily::kGpt, "dualpipe", 4, {}, {{0, 1}, {2, 3}}},
                    RunCase{TinyFamily::kLlama, "1f1b", 2, {.data = 2}, {{1, 2}, {0, 3}}},
                    RunCase{TinyFamily::kMoe, "1f1b", 2, {.expert = 2}, {{0}, {1}, {2}, {3}}},
                    RunCase{TinyFamily::kMoe,
                            "dualpipe_v",
                            2,
                            {.data = 2, .expert = 2},
                            {{0, 3}, {1, 2}, {4, 5}, {6, 7}}}),
    [](const testing::TestParamInfo<RunCase>& info) {
      return absl::StrCat(NameOf(info.param.family), "_", info.param.schedule, "_data",
                          info.param.mesh.data, "_expert", info.param.mesh.expert);
    });

const RunCase kTwo = {TinyFamily::kGpt, "1f1b", 2, {}, {{0}, {1}}};

TEST(ProcessesSaveErrors, AFolderThatTakesNothingEndsAll) {
  const Plan plan = LibraryPlan(kTwo.schedule, 2, 4).value();
  const RunConfig config = ConfigOf(kTwo, 2);
  const std::string file = ScratchFolder() + "/file";
  std::ofstream(file) << "no folder";
  const auto results = TrainApart(kTwo, config, plan, [&](int) { return SavesTo(file, config); });
  ASSERT_FALSE(results[0].ok());
  EXPECT_TRUE(absl::StrContains(results[0].status().message(), file)) << results[0].status();
  EXPECT_EQ(results[1].status(),
            absl::AbortedError(absl::StrCat("process 0: ", results[0].status().message())));
}

TEST(ProcessesSaveErrors, AValueThatIsNotFiniteIsNamedByAll) {
  const Plan plan = LibraryPlan(kTwo.schedule, 2, 4).value();
  const RunConfig config = ConfigOf(kTwo, 2);
  const std::string folder = ScratchFolder();
  const auto results = TrainApart(kTwo, config, plan, [&](int process) {
    TrainHooks hooks;
    hooks.end = [&, process](int64_t step, Trainer& trainer) {
      if (process == 1) trainer.param(StageId(1), 3)[1] = std::nanf("");
      return SaveModelFolder(folder, config.shape, step, PlacesOf(trainer).all(), trainer.world());
    };
    return hooks;
  });
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kOutOfRange) << results[0].status();
  EXPECT_TRUE(absl::StrContains(results[0].status().message(), "is not finite"));
  EXPECT_EQ(results[1].status(), results[0].status());
  EXPECT_TRUE(FilesOf(folder).empty());
}

// A parameter of the second process reaches the first in pieces of a few values.
TEST(ParamReader, WhatTravelsAtOnceIsBounded) {
  SharedMachine machine(std::vector<std::vector<int>>{{0}, {1}});
  Param param;
  param.name = "weight";
  param.type = {DType::kF32, {7, 3}};
  std::vector<float> values(21);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<float> got[2];
  size_t most = 0;
  std::vector<std::thread> threads;
  for (int p = 0; p < 2; ++p) {
    threads.emplace_back([&, p] {
      const auto backend = machine.Join(p);
      struct Counting final : World {
        Counting(World* world, size_t* most) : world(world), most(most) {}
        int ranks() const override { return world->ranks(); }
        absl::Span<const int> local() const override { return world->local(); }
        int processes() const override { return world->processes(); }
        int process() const override { return world->process(); }
        absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) override {
          return world->Exchange(mine);
        }
        absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) override {
          if (process() == 1) *most = std::max(*most, mine.size());
          return world->GiveToFirst(mine);
        }
        void Fail(const absl::Status& status) override { world->Fail(status); }
        World* world;
        size_t* most;
      } world(backend->world(), &most);
      ParamPlaces places;
      places.Add(param, p == 1 ? absl::MakeSpan(values) : absl::Span<float>());
      const auto reader = ParamReader::Make(places.all(), &world, /*most_bytes=*/16);
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ(reader->gets(), p == 0);
      for (const ParamPlace::Range& range : places.all()[0].Ranges(3, 14)) {
        const auto read = reader->Read(0, range);
        ASSERT_TRUE(read.ok()) << read.status();
        got[p].insert(got[p].end(), read->begin(), read->end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got[0], std::vector<float>(values.begin() + 3, values.begin() + 17));
  EXPECT_TRUE(got[1].empty());
  EXPECT_EQ(most, 16u);
}

TEST(ProcessesStop, WhereOneOfThemWants) {
  const Plan plan = LibraryPlan(kTwo.schedule, 2, 4).value();
  const auto results = TrainApart(kTwo, ConfigOf(kTwo, 2), plan, [&](int process) {
    TrainHooks hooks;
    hooks.stop = [process, steps = 0]() mutable { return ++steps == 2 && process == 1; };
    return hooks;
  });
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->stopped);
    EXPECT_EQ(result->steps, 2);
  }
}

TEST(ProcessesStop, WhereOneOfThemFails) {
  const Plan plan = LibraryPlan(kTwo.schedule, 2, 4).value();
  const auto results = TrainApart(kTwo, ConfigOf(kTwo, 2), plan, [&](int process) {
    TrainHooks hooks;
    hooks.after_step = [process](const TrainStep& step, Trainer&) {
      return process == 0 && step.step == 2 ? absl::DataLossError("the disk is full")
                                            : absl::OkStatus();
    };
    return hooks;
  });
  EXPECT_EQ(results[0].status(), absl::DataLossError("the disk is full"));
  EXPECT_EQ(results[1].status(), absl::AbortedError("process 0: the disk is full"));
}

TEST(ProcessesStop, WhereAGradientIsNotFinite) {
  const Plan plan = LibraryPlan(kTwo.schedule, 2, 4).value();
  const auto results = TrainApart(kTwo, ConfigOf(kTwo, 2), plan, [&](int process) {
    TrainHooks hooks;
    hooks.gradients = [process](int64_t step, Trainer& trainer) {
      if (process == 1 && step == 2) trainer.grad(StageId(1), 3)[1] = std::nanf("");
    };
    return hooks;
  });
  ASSERT_FALSE(results[0].ok());
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kOutOfRange) << results[0].status();
  EXPECT_EQ(results[1].status(), results[0].status());
  EXPECT_TRUE(absl::StrContains(results[0].status().message(), "(stage 1) is not finite (nan)"))
      << results[0].status();
}

TEST(ProcessesStop, WhereTheirRanksAreNotThoseOfTheRun) {
  const RunCase run = {TinyFamily::kGpt, "1f1b", 2, {}, {{0}, {1, 2}}};
  const Plan plan = LibraryPlan(run.schedule, 2, 4).value();
  const auto results = TrainApart(run, ConfigOf(run, 2), plan, [](int) { return TrainHooks(); });
  for (const auto& result : results) {
    EXPECT_EQ(result.status().message(),
              "the processes hold 3 ranks, but the run has 2: 2 of the pipeline on 1 coordinate of "
              "the mesh");
  }
}

// A clock that is ahead of the machine's.
struct SkewedClock {
  int64_t ahead_ns;
  static int64_t Now(const void* self) {
    return NowNs() + static_cast<const SkewedClock*>(self)->ahead_ns;
  }
};

TEST(WorldClock, IsFoundFromExchanges) {
  for (const bool apart : {true, false}) {
    SharedMachine machine({{0}, {1}, {2}});
    const SkewedClock clocks[] = {{5'000}, {1'000'000'000}, {-777'000'000}};
    std::vector<absl::StatusOr<ClockOffset>> found(3);
    std::vector<std::thread> threads;
    for (int p = 0; p < 3; ++p) {
      threads.emplace_back([&, p] {
        const std::string kernel = apart ? absl::StrCat("kernel ", p) : "one kernel";
        const auto backend = machine.Join(p);
        found[p] = FindClockOffset(backend->world(), kernel, SkewedClock::Now, &clocks[p]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int p = 0; p < 3; ++p) {
      ASSERT_TRUE(found[p].ok()) << found[p].status();
      const int64_t ahead_ns = apart ? clocks[p].ahead_ns - clocks[0].ahead_ns : 0;
      EXPECT_LE(std::llabs(found[p]->ahead_ns - ahead_ns), found[p]->at_most_off_ns) << p;
    }
  }
}

TEST(PackedNumbers, ComeBackInOrder) {
  PackedNumbers packed;
  packed.Add<int32_t>(7);
  packed.AddAll<double>({0.5, -1});
  packed.Add<char>('x');
  NumberReader reader(packed.bytes());
  EXPECT_EQ(reader.Take<int32_t>(), 7);
  double numbers[2];
  reader.TakeAll(absl::MakeSpan(numbers));
  EXPECT_EQ(numbers[0], 0.5);
  EXPECT_EQ(numbers[1], -1);
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.Take<char>(), 'x');
  EXPECT_TRUE(reader.done());
}

}  // namespace
}  // namespace stringline
