// A run that is stopped and resumed equals an uninterrupted run.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoints.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/checkpoint/resume.h"
#include "executor/checkpoint/tensor_files.h"
#include "executor/checkpoint/training_state.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/source.h"
#include "tests/executor/plans.h"
#include "tests/executor/shared_machine.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// The configuration of a part of a training.
struct Way {
  const char* schedule;
  int pipeline;
  int microbatches;  // per coordinate
  Mesh mesh;
  std::vector<std::vector<int>> processes = {};  // the ranks of each; empty: one process, no world
  Sharding sharding = Sharding::kNone;
};

// All values of the model with their moments, by name.
using Everything = std::map<std::string, std::vector<float>>;

struct OneProcess {
  absl::StatusOr<TrainResult> result;
  std::vector<double> norms;
  ResumedRun resumed;
};

struct Ran {
  std::vector<OneProcess> processes;
  Everything state;
  const OneProcess& first() const { return processes[0]; }
};

void AddState(const Trainer& trainer, Everything* all) {
  for (const StateTensor& tensor : StateOf(trainer)) {
    std::vector<float>& whole = (*all)[tensor.param.name];
    const auto size = static_cast<size_t>(tensor.param.type.elements());
    whole.resize(kStateKinds * size);
    for (const StateTensor::Part& part : tensor.parts) {
      for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
        std::copy(part.of[kind].begin(), part.of[kind].end(),
                  whole.begin() + static_cast<int64_t>(kind * size) + part.first);
      }
    }
  }
}

RunConfig ConfigOf(TinyFamily family, const std::string& folder) {
  RunConfig config = SmallRun(6);
  config.shape = TinyModel(family, 8);
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.checkpoint = {1000, folder, 3};
  config.warmup_steps = 2;
  return config;
}

// Runs until the end, or until `stop_after` steps.
Ran RunAs(const Way& way, RunConfig config, int64_t stop_after = 1000) {
  config.mesh = way.mesh;
  config.sharding = way.sharding;
  const int resident = way.sharding == Sharding::kParameters ? 2 : 0;
  const Plan plan = WithSums(
      LibraryPlan(way.schedule, way.pipeline, way.microbatches, CommLayout::kEdge, resident)
          .value(),
      way.mesh);
  const size_t count = std::max<size_t>(1, way.processes.size());
  Ran ran;
  ran.processes.resize(count);
  std::mutex mutex;
  std::optional<SharedMachine> machine;
  if (!way.processes.empty()) machine.emplace(way.processes);
  std::vector<std::thread> threads;
  for (size_t p = 0; p < count; ++p) {
    threads.emplace_back([&, p] {
      OneProcess& told = ran.processes[p];
      int64_t done = 0;
      TrainHooks hooks;
      hooks.resumed = [&](const ResumedRun& resumed) {
        told.resumed = resumed;
        return absl::OkStatus();
      };
      hooks.after_step = [&](const TrainStep& step, Trainer&) {
        told.norms.push_back(step.grad_norm);
        done = step.step;
        return absl::OkStatus();
      };
      hooks.stop = [&] { return done >= stop_after && p + 1 == count; };
      hooks.end = [&](int64_t, Trainer& trainer) {
        const std::lock_guard lock(mutex);
        AddState(trainer, &ran.state);
        return absl::OkStatus();
      };
      told.result = Train(config, plan, Corpus(), hooks,
                          machine ? machine->Join(static_cast<int>(p)) : nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ran;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() { fs::remove_all(folder_); }
  ~Checkpoint() override { fs::remove_all(folder_); }
  const std::string folder_ = absl::StrCat(testing::TempDir(), "/checkpoints-", getpid());
};

struct ResumeCase {
  const char* name;
  TinyFamily family;
  Way before, after;
  bool same_additions;  // all losses have the same bits; else the next does, and the others nearly
};

class CheckpointResume : public Checkpoint, public testing::WithParamInterface<ResumeCase> {};

TEST_P(CheckpointResume, GoesOnAsIfItHadNeverStopped) {
  const ResumeCase& of = GetParam();
  RunConfig config = ConfigOf(of.family, folder_);
  config.checkpoint.every = 0;
  const Ran straight = RunAs(of.before, config);
  ASSERT_TRUE(straight.first().result.ok()) << straight.first().result.status();
  config.checkpoint.every = 1000;
  const Ran stopped = RunAs(of.before, config, 3);
  for (const OneProcess& told : stopped.processes) {
    ASSERT_TRUE(told.result.ok()) << told.result.status();
    EXPECT_TRUE(told.result->stopped);
    EXPECT_EQ(told.result->checkpoint, folder_ + "/step-000003");
  }
  EXPECT_EQ(NamesIn(folder_), Names{"step-000003"});

  config.resume = folder_;
  const Ran resumed = RunAs(of.after, config);
  const std::vector<double>& wanted = straight.first().result->losses_nats;
  for (const OneProcess& told : resumed.processes) {
    ASSERT_TRUE(told.result.ok()) << told.result.status();
    EXPECT_EQ(told.resumed.folder, folder_ + "/step-000003");
    EXPECT_EQ(told.resumed.step, 3);
    const std::vector<double>& losses = told.result->losses_nats;
    ASSERT_EQ(losses.size(), 6u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(losses[i], wanted[i]) << "step " << i + 1;
    if (of.same_additions) {
      EXPECT_EQ(losses, wanted);
      const std::vector<double>& norms = straight.first().norms;
      EXPECT_EQ(told.norms, std::vector<double>(norms.begin() + 3, norms.end()));
    } else {
      for (size_t i = 4; i < 6; ++i) EXPECT_NEAR(losses[i], wanted[i], 1e-4) << "step " << i + 1;
    }
  }
  if (of.same_additions) {
    EXPECT_EQ(resumed.state, straight.state);
  }
  EXPECT_EQ(NamesIn(folder_), Names{"step-000003"});
}

const Mesh kData2 = {.data = 2}, kExpert2 = {.expert = 2};

INSTANTIATE_TEST_SUITE_P(
    All, CheckpointResume,
    testing::Values(
        ResumeCase{"gpt_schedule", TinyFamily::kGpt, {"1f1b", 2, 8}, {"zb_v", 4, 8}, true},
        ResumeCase{"gpt_processes",
                   TinyFamily::kGpt,
                   {"1f1b", 4, 8, {}, {{0, 1}, {2}, {3}}},
                   {"zb_h1", 2, 8, {}, {{1}, {0}}},
                   true},
        ResumeCase{"llama_to_one",
                   TinyFamily::kLlama,
                   {"interleaved", 4, 8, {}, {{0, 2}, {1}, {3}}},
                   {"gpipe", 1, 8},
                   true},
        ResumeCase{"llama_from_one",
                   TinyFamily::kLlama,
                   {"gpipe", 1, 8},
                   {"dualpipe_v", 2, 8, {}, {{0}, {1}}},
                   true},
        ResumeCase{"llama_data",
                   TinyFamily::kLlama,
                   {"1f1b", 2, 4, kData2, {{0, 1}, {2, 3}}},
                   {"1f1b", 4, 4, kData2, {{0, 1}, {2, 3, 4, 5}, {6, 7}}},
                   true},
        ResumeCase{"gpt_shared_out",
                   TinyFamily::kGpt,
                   {"1f1b", 2, 4, kData2, {{0, 1}, {2, 3}}, Sharding::kParameters},
                   {"1f1b", 4, 4, kData2, {{0, 1, 2, 3}, {4, 5, 6, 7}}, Sharding::kOptimizer},
                   true},
        ResumeCase{"llama_shared_out_no_more",
                   TinyFamily::kLlama,
                   {"1f1b", 2, 4, kData2, {{0}, {1}, {2}, {3}}, Sharding::kGradients},
                   {"1f1b", 2, 4, kData2},
                   true},
        ResumeCase{"moe_shared_out_from_now_on",
                   TinyFamily::kMoe,
                   {"1f1b", 2, 8},
                   {"1f1b", 2, 4, kData2, {{0, 1}, {2, 3}}, Sharding::kParameters},
                   false},
        ResumeCase{"gpt_fewer_data",
                   TinyFamily::kGpt,
                   {"1f1b", 2, 4, kData2, {{0, 1}, {2, 3}}},
                   {"1f1b", 2, 8},
                   false},
        ResumeCase{"dropout_schedule", TinyFamily::kDropout, {"1f1b", 2, 8}, {"zb_h1", 4, 8}, true},
        ResumeCase{"dropout_processes",
                   TinyFamily::kDropout,
                   {"zb_v", 4, 8, {}, {{0, 1}, {2}, {3}}},
                   {"gpipe", 1, 8},
                   true},
        ResumeCase{"dropout_fewer_data",
                   TinyFamily::kDropout,
                   {"1f1b", 2, 4, kData2, {{0, 1}, {2, 3}}},
                   {"1f1b", 2, 8},
                   false},
        ResumeCase{"moe_schedule", TinyFamily::kMoe, {"1f1b", 2, 8}, {"zb_v", 4, 8}, true},
        ResumeCase{"moe_experts",
                   TinyFamily::kMoe,
                   {"1f1b", 2, 4, kExpert2, {{0}, {1}, {2}, {3}}},
                   {"1f1b", 4, 4, kExpert2, {{0, 1, 2, 3}, {4, 5, 6, 7}}},
                   true},
        ResumeCase{"moe_no_experts",
                   TinyFamily::kMoe,
                   {"1f1b", 2, 4, kExpert2, {{0, 1}, {2, 3}}},
                   {"1f1b", 2, 8, {}, {{0}, {1}}},
                   false}),
    [](const testing::TestParamInfo<ResumeCase>& info) { return info.param.name; });

TEST_F(Checkpoint, IsAFolderOfAModel) {
  for (const TinyFamily family : kTinyFamilies) {
    fs::remove_all(folder_);
    RunConfig config = ConfigOf(family, folder_ + "/made");
    config.steps = 2;
    config.checkpoint.every = 2;
    const Way way = {"1f1b", 2, 4, {}, {{0}, {1}}};
    const Ran ran = RunAs(way, config);
    ASSERT_TRUE(ran.first().result.ok()) << ran.first().result.status();
    const std::string made = folder_ + "/made/step-000002";
    const auto shape = ReadFolderShape(made, 0);
    const bool has_config = WhySavedWithoutConfig(config.shape).empty();
    EXPECT_EQ(shape.ok(), has_config) << shape.status();
    // The checkpoint equals the output of --save for the same parameters.
    RunConfig loads = config;
    loads.checkpoint = {};
    TrainHooks hooks;
    hooks.start = [&](Trainer& trainer) {
      const ParamPlaces places = PlacesOf(trainer);
      const absl::Status loaded = LoadModelFolder(made, config.shape, places.all());
      if (!loaded.ok()) return loaded;
      Everything state;
      AddState(trainer, &state);
      for (const auto& [name, values] : state) {
        const std::vector<float>& whole = ran.state.at(name);
        const auto size = static_cast<int64_t>(whole.size() / kStateKinds);
        EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + size, values.begin())) << name;
      }
      return absl::OkStatus();
    };
    const auto loaded = Train(loads, LibraryPlan("1f1b", 1, 4).value(), Corpus(), hooks);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  }
}

// Rows of positions that no sequence reaches, and texts that no training changes.
TEST_F(Checkpoint, HoldsWhatAFolderCameWith) {
  RunConfig config = ConfigOf(TinyFamily::kGpt, folder_ + "/made");
  config.steps = 2;
  config.checkpoint.every = 2;
  const GptShape& gpt = std::get<GptShape>(config.shape.family);
  GptShape longer = gpt;
  longer.context += 2;
  GivenFolder given;
  given.files = {{"config.json", PrintFamilyConfig(longer)}, {"generation_config.json", "{ }"}};
  for (int i = 0; i < longer.context * gpt.width; ++i) given.positions.push_back(0.5F * i);
  config.shape.given = std::make_shared<const GivenFolder>(given);
  const Way way = {"1f1b", 2, 4, {}, {{0}, {1}}};
  const Ran ran = RunAs(way, config);
  ASSERT_TRUE(ran.first().result.ok()) << ran.first().result.status();
  const std::string made = folder_ + "/made/step-000002";
  EXPECT_EQ(ReadBytes(made + "/config.json", 1 << 20).value(), given.files["config.json"]);
  EXPECT_EQ(ReadBytes(made + "/generation_config.json", 1 << 20).value(), "{ }");
  const auto files = TensorFiles::Open(made);
  ASSERT_TRUE(files.ok()) << files.status();
  const PlacedTensor tensor = files->all().at("transformer.wpe.weight");
  const auto rows = static_cast<uint64_t>(longer.context), width = static_cast<uint64_t>(gpt.width);
  ASSERT_EQ(tensor.tensor->shape, (std::vector<uint64_t>{rows, width}));
  const size_t rest = 2 * width;
  std::vector<float> values(rest);
  ASSERT_TRUE(tensor.file->Read(*tensor.tensor, (rows - 2) * width, absl::MakeSpan(values)).ok());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), given.positions.end() - rest));
  // It is whole, and goes on.
  config.resume = made;
  config.steps = 4;
  const Ran resumed = RunAs(way, config);
  ASSERT_TRUE(resumed.first().result.ok()) << resumed.first().result.status();
  EXPECT_EQ(resumed.first().result->steps, 4);
}

// Exactly `keep` of them, from the first that is taken to where there are more.
TEST_F(Checkpoint, AsManyAsAreKeptStay) {
  for (const auto& [steps, names] :
       std::map<int, Names>{{2, {"step-000001", "step-000002"}},
                            {3, {"step-000001", "step-000002", "step-000003"}},
                            {4, {"step-000002", "step-000003", "step-000004"}}}) {
    fs::remove_all(folder_);
    RunConfig config = ConfigOf(TinyFamily::kGpt, folder_);
    config.steps = steps;
    config.checkpoint = {1, folder_, 3};
    const Ran ran = RunAs({"1f1b", 2, 4, {}, {{0}, {1}}}, config);
    ASSERT_TRUE(ran.first().result.ok()) << ran.first().result.status();
    EXPECT_EQ(NamesIn(folder_), names) << steps;
  }
}

TEST_F(Checkpoint, TheNewestAreKept) {
  RunConfig config = ConfigOf(TinyFamily::kGpt, folder_);
  config.checkpoint = {1, folder_, 2};
  const Ran ran = RunAs({"1f1b", 2, 4, {}, {{0}, {1}}}, config);
  ASSERT_TRUE(ran.first().result.ok()) << ran.first().result.status();
  EXPECT_EQ(NamesIn(folder_), (Names{"step-000005", "step-000006"}));
  EXPECT_EQ(ran.first().result->checkpoint, folder_ + "/step-000006");
}

// ---- Checkpoints that cannot be resumed ----

class BrokenCheckpoint : public Checkpoint {
 protected:
  BrokenCheckpoint() {
    config_.checkpoint = {2, folder_, 3};
    EXPECT_TRUE(RunAs(way_, config_, 4).first().result.ok());
    EXPECT_EQ(NamesIn(folder_), (Names{"step-000002", "step-000004"}));
    config_.resume = folder_;
  }
  std::string PathOf(const std::string& name) const { return folder_ + "/step-000004/" + name; }
  std::string Read(const std::string& path) const { return ReadBytes(path, 1 << 24).value(); }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Checks the message of a run that resumes from the folder, and from the broken checkpoint alone.
  void ExpectSkipped(const std::string& why) {
    const OneProcess told = RunAs(way_, config_, 3).first();
    ASSERT_TRUE(told.result.ok()) << told.result.status();
    EXPECT_EQ(told.resumed.step, 2);
    EXPECT_EQ(told.resumed.skipped, Names{why});
    config_.resume = folder_ + "/step-000004";
    const absl::Status status = RunAs(way_, config_).first().result.status();
    EXPECT_EQ(status.message(), absl::StrCat("`resume`: the checkpoint is not whole: ", why));
  }
  const Way way_ = {"1f1b", 2, 4, {}, {{0}, {1}}};
  RunConfig config_ = ConfigOf(TinyFamily::kGpt, folder_);
};

TEST_F(BrokenCheckpoint, AShardThatWasCutShort) {
  const std::string shard = PathOf("model-00002-of-00002.safetensors");
  const auto bytes = fs::file_size(shard);
  fs::resize_file(shard, bytes - 4);
  ExpectSkipped(absl::StrCat(shard, ": has ", bytes - 4, " bytes; ", bytes, " were written"));
}

TEST_F(BrokenCheckpoint, AShardThatIsMissing) {
  const std::string shard = PathOf("optimizer-00001-of-00002.safetensors");
  fs::remove(shard);
  ExpectSkipped(absl::StrCat(shard, ": cannot be read: No such file or directory"));
}

TEST_F(BrokenCheckpoint, AShardOfAnotherRun) {
  RunConfig other = config_;
  other.resume.clear();
  other.checkpoint.folder = folder_ + "-other";
  other.seed = 77;
  fs::remove_all(other.checkpoint.folder);
  ASSERT_TRUE(RunAs(way_, other, 4).first().result.ok());
  const std::string shard = PathOf("model-00001-of-00002.safetensors");
  fs::copy_file(other.checkpoint.folder + "/step-000004/model-00001-of-00002.safetensors", shard,
                fs::copy_options::overwrite_existing);
  fs::remove_all(other.checkpoint.folder);
  ExpectSkipped(absl::StrCat(shard, ": is of another run's checkpoint"));
}

TEST_F(BrokenCheckpoint, AShardOfAnotherStep) {
  const std::string shard = PathOf("model-00001-of-00002.safetensors");
  fs::copy_file(folder_ + "/step-000002/model-00001-of-00002.safetensors", shard,
                fs::copy_options::overwrite_existing);
  ExpectSkipped(absl::StrCat(shard, ": is of the checkpoint after 2 steps, not after 4"));
}

TEST_F(BrokenCheckpoint, AValueThatChanged) {
  const std::string shard = PathOf("optimizer-00002-of-00002.safetensors");
  std::string bytes = Read(shard);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  Write(shard, bytes);
  ExpectSkipped(absl::StrCat(shard, ": holds other values than were written"));
}

// Only programs that take the folder for a model read it.
TEST_F(BrokenCheckpoint, AConfigThatChanged) {
  std::string text = Read(PathOf("config.json"));
  text[text.size() / 2] ^= 1;
  Write(PathOf("config.json"), text);
  ExpectSkipped(PathOf("config.json") + ": holds another text than was written");
}

TEST_F(BrokenCheckpoint, AnIndexThatIsMissing) {
  const std::string index = PathOf("model.safetensors.index.json");
  fs::remove(index);
  ExpectSkipped(index + ": no such file");
}

// A seed with another bit is the seed of another run.
TEST_F(BrokenCheckpoint, ASeedThatChanged) {
  std::string text = Read(PathOf("state.json"));
  const size_t seed = text.find("\"seed\": 5");
  ASSERT_NE(seed, std::string::npos) << text;
  text[seed + 8] ^= 2;
  Write(PathOf("state.json"), text);
  ExpectSkipped(absl::StrCat(PathOf("state.json"),
                             ": holds another text than was written: its sum is wrong"));
}

// A tensor with another name would be missing.
TEST_F(BrokenCheckpoint, AHeaderThatChanged) {
  const std::string shard = PathOf("optimizer-00001-of-00002.safetensors");
  std::string bytes = Read(shard);
  const size_t name = bytes.find(".m\"");
  ASSERT_NE(name, std::string::npos);
  bytes[name + 1] ^= 1;
  Write(shard, bytes);
  ExpectSkipped(absl::StrCat(shard, ": begins with another list of tensors than was written"));
}

TEST_F(BrokenCheckpoint, AStateThatIsNone) {
  Write(PathOf("state.json"), "{\"format\": 3}");
  ExpectSkipped(absl::StrCat(PathOf("state.json"), ": 'format' is not 'stringline checkpoint 2'"));
}

TEST_F(BrokenCheckpoint, NoneIsWhole) {
  for (const char* const name : {"/step-000002", "/step-000004"}) {
    fs::resize_file(folder_ + name + "/state.json", 10);
  }
  const absl::Status status = RunAs(way_, config_).first().result.status();
  EXPECT_EQ(status.message(), absl::StrCat("`resume`: ", folder_,
                                           ": no checkpoint there is whole: ", PathOf("state.json"),
                                           ": the state is not JSON"));
}

TEST_F(BrokenCheckpoint, ARunThatBeginsAnewDoesNotWriteBesideThem) {
  config_.resume.clear();
  const absl::Status status = RunAs(way_, config_).first().result.status();
  EXPECT_EQ(
      status.message(),
      absl::StrCat("checkpoint.folder: ", folder_,
                   "/step-000004 is there already, and this run begins anew; `resume=", folder_,
                   "` would go on from it; otherwise remove it, or name another "
                   "folder"));
  config_.resume = folder_ + "/step-000002";
  EXPECT_TRUE(absl::StrContains(RunAs(way_, config_).first().result.status().message(),
                                "this run begins after step 2"));
}

struct Misfit {
  const char* name;
  void (*change)(RunConfig* config, Way* way);
  const char* says;  // behind "`resume`: FOLDER/step-000004/state.json: "
};
const Misfit kMisfits[] = {
    {"Seed", [](RunConfig* config, Way*) { config->seed = 6; },
     "the checkpoint of a run with train.seed 5; the run file's has 6"},
    {"Deterministic", [](RunConfig* config, Way*) { config->deterministic = false; },
     "the checkpoint of a run with deterministic on; the run file's has off"},
    {"Model", [](RunConfig* config, Way*) { std::get<GptShape>(config->shape.family).layers = 4; },
     "the checkpoint of a model with layers 8; the run file's has 4"},
    {"Microbatches", [](RunConfig*, Way* way) { way->microbatches = 6; },
     "the checkpoint of a run with 8 sequences in a step (4 microbatches of 2); the run file's has "
     "12 sequences in a step (6 microbatches of 2)"},
};

TEST_F(BrokenCheckpoint, WhatDoesNotFitTheRunIsSaid) {
  for (const Misfit& misfit : kMisfits) {
    RunConfig config = config_;
    Way way = way_;
    misfit.change(&config, &way);
    const Ran ran = RunAs(way, config);
    for (const OneProcess& told : ran.processes) {
      EXPECT_TRUE(
          absl::StrContains(told.result.status().message(),
                            absl::StrCat("`resume`: ", PathOf("state.json"), ": ", misfit.says)))
          << misfit.name << ": " << told.result.status();
    }
  }
  config_.steps = 4;
  EXPECT_EQ(RunAs(way_, config_).first().result.status().message(),
            absl::StrCat("`resume`: ", folder_,
                         "/step-000004: the checkpoint is of step 4, but the run has 4 steps; more "
                         "of them would help"));
  EXPECT_EQ(NamesIn(folder_), (Names{"step-000002", "step-000004"}));
}

// The run was killed behind its last step: `auto` leaves only its end to do.
TEST_F(BrokenCheckpoint, ARunThatHasEndedIsFinished) {
  config_.resume = kResumeAuto;
  for (const int64_t steps : {4, 3}) {
    int64_t ended = -1, performed = 0;
    config_.steps = steps;
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep&, Trainer&) {
      ++performed;
      return absl::OkStatus();
    };
    hooks.end = [&](int64_t step, Trainer& trainer) {
      ended = step;
      EXPECT_EQ(trainer.updates(), step);
      return absl::OkStatus();
    };
    const Plan plan = LibraryPlan("1f1b", 2, 4).value();
    const auto result = Train(config_, plan, Corpus(), hooks);
    if (steps == 3) {
      EXPECT_TRUE(absl::StrContains(result.status().message(), "more of them would help"));
      continue;
    }
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(ended, 4);
    EXPECT_EQ(performed, 0);
    EXPECT_FALSE(result->trained());
    EXPECT_EQ(result->losses_nats.size(), 4u);
    EXPECT_TRUE(result->measured.events.empty());
  }
}

// Matrices of GPT-2 are stored transposed; the calls that write them are counted by the system.
TEST_F(Checkpoint, IsWrittenInLargePieces) {
  RunConfig config = ConfigOf(TinyFamily::kGpt, folder_);
  GptOf(config) = {.layers = 2, .width = 192, .heads = 2, .context = 8, .microbatch = 1};
  config.checkpoint = {1, folder_, 1};
  const auto written = [] {
    const std::string io = ReadBytes("/proc/self/io", 1 << 12).value();
    return std::stoll(io.substr(io.find("syscw: ") + 7));
  };
  const int64_t before = written();
  ASSERT_TRUE(RunAs({"1f1b", 2, 2, {}, {{0}, {1}}}, config, 1).first().result.ok());
  // 200 tensors and their moments; it was a call for each row of each column of a matrix.
  EXPECT_LT(written() - before, 500);
}

TEST_F(Checkpoint, WhereThereIsNone) {
  RunConfig config = ConfigOf(TinyFamily::kGpt, folder_);
  config.resume = folder_;
  const Way way = {"1f1b", 2, 4};
  EXPECT_EQ(RunAs(way, config).first().result.status(),
            absl::NotFoundError(absl::StrCat("`resume`: ", folder_, ": no checkpoint is there")));
  config.resume = kResumeAuto;
  const OneProcess told = RunAs(way, config, 2).first();
  ASSERT_TRUE(told.result.ok()) << told.result.status();
  EXPECT_EQ(told.result->losses_nats.size(), 2u);
  const OneProcess again = RunAs(way, config, 3).first();
  ASSERT_TRUE(again.result.ok()) << again.result.status();
  EXPECT_EQ(again.resumed.step, 2);
}

TEST(CheckpointMemory, TheCopyIsCounted) {
  const AvailableMemory available = {3'000'000'000, "a limit"};
  EXPECT_TRUE(CheckCopyRoom(1e9, 2e9, available).ok());
  EXPECT_EQ(CheckCopyRoom(1.5e9, 2e9, available),
            absl::ResourceExhaustedError(
                "a checkpoint's copy of the state takes 1.5 GB of memory beside the 2 GB of the "
                "run, but 3 GB are available (a limit); more processes on other hosts, or a run "
                "without 'checkpoint' would help"));
}

// ---- The folder ----

constexpr char kRun[] = "0123456789abcdef";

TEST_F(Checkpoint, OnlyWhatKilledRunsLeftIsRemoved) {
  const Names left = {"step-000004.tmp-0123456789abcdef", "step-000002.tmp-00ff00ff00ff00ff-old"};
  const Names others = {"step-000002", "step-000004.tmp-backup", "notes",
                        "step-x.tmp-0123456789abcdef"};
  for (const Names& names : {left, others}) {
    for (const std::string& name : names) fs::create_directories(folder_ + "/" + name + "/in");
  }
  const auto opened = CheckpointFolder::Open(folder_, kRun);
  ASSERT_TRUE(opened.ok()) << opened.status();
  Names kept = others;
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(NamesIn(folder_), kept);
}

TEST_F(Checkpoint, OneRunAtATimeWritesThere) {
  auto first = CheckpointFolder::Open(folder_, kRun);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = CheckpointFolder::Open(folder_, kRun).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.message(),
            absl::StrCat("checkpoint.folder: ", folder_,
                         ": another run writes its checkpoints there; it has to end first, or "
                         "another folder"));
  first->reset();
  EXPECT_TRUE(CheckpointFolder::Open(folder_, kRun).ok());
}

TEST_F(Checkpoint, AFolderThatTakesNothingIsSaidBeforeTraining) {
  Way way = {"1f1b", 2, 4, {}, {{0}, {1}}};
  RunConfig config = ConfigOf(TinyFamily::kGpt, "/proc/checkpoints");
  const Ran ran = RunAs(way, config);
  EXPECT_TRUE(absl::StartsWith(ran.first().result.status().message(),
                               "checkpoint.folder: /proc/checkpoints: cannot be made: "))
      << ran.first().result.status();
  EXPECT_FALSE(ran.processes[1].result.ok());
}

}  // namespace
}  // namespace stringline
