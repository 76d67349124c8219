// Ranks of one process on several GPUs, simulated by the stand-in: their places, numbers that do
// not depend on places, and the errors of impossible placements.
#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/cuda/copies/group.h"
#include "executor/cuda/gpus.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/run_numbers.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/group_contract.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

void StartStandin(int gpus, unsigned order = 1) {
  standin_reset(order);
  standin_cublas_reset();
  standin_set_devices(gpus);
}

// No GPU may use the memory of another.
void KeepApart(int gpus) {
  for (int a = 0; a < gpus; ++a) {
    for (int b = 0; b < gpus; ++b) {
      if (a != b) standin_keep_apart(a, b);
    }
  }
}

std::vector<int> FirstGpus(int count) {
  std::vector<int> gpus;
  for (int gpu = 0; gpu < count; ++gpu) gpus.push_back(gpu);
  return gpus;
}

struct PlacedModel {
  const char* schedule;
  int pipeline;
  TinyFamily family;
  Mesh mesh;
  DType dtype = DType::kF32;
};

std::string NameOf(const PlacedModel& model) {
  return absl::StrCat(model.schedule, "_P", model.pipeline, "_", NameOf(model.family),
                      model.mesh.data > 1 ? "_data2" : "", model.mesh.expert > 1 ? "_experts2" : "",
                      model.dtype == DType::kBF16 ? "_bf16" : "");
}

RunConfig ConfigOf(const PlacedModel& model, const Plan& plan) {
  RunConfig config;
  const size_t pipes = std::max<size_t>(1, plan.pipes.size());
  config.shape = TinyModel(model.family, static_cast<int>(plan.stages.size() / pipes));
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.shape.dtype = model.dtype;
  config.mesh = model.mesh;
  config.steps = 4;
  config.optimizer.learning_rate = 1e-2;
  return config;
}

// The results of a run that must not depend on its places.
struct PlacedRun {
  absl::Status status;
  TrainResult result;
  std::vector<double> norms;
  std::vector<ParamValues> gradients;  // by step
  ParamValues params;                  // at the end
};

// On the stand-in in its present state.
PlacedRun TrainOn(const std::vector<int>& gpus, const PlacedModel& model, bool capture = true,
                  std::function<void(Trainer&)> at_start = nullptr) {
  const Plan plan =
      WithSums(LibraryPlan(model.schedule, model.pipeline, 2 * model.pipeline).value(), model.mesh);
  RunConfig config = ConfigOf(model, plan);
  config.capture = capture;
  PlacedRun run;
  auto backend =
      CudaBackend::Make({.gpus = gpus, .ranks = plan.ranks() * model.mesh.coordinates()});
  if (!backend.ok()) {
    run.status = backend.status();
    return run;
  }
  TrainHooks hooks;
  hooks.start = [&](Trainer& trainer) {
    if (at_start != nullptr) at_start(trainer);
    return absl::OkStatus();
  };
  hooks.gradients = [&](int64_t, Trainer& trainer) {
    run.gradients.push_back(GradientsOf(trainer));
  };
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    run.norms.push_back(step.grad_norm);
    return absl::OkStatus();
  };
  hooks.end = [&](int64_t, Trainer& trainer) {
    run.params = ParamsOf(trainer);
    return absl::OkStatus();
  };
  const std::string text = Corpus();
  auto result = Train(config, plan, TrainingData(text), hooks, *std::move(backend));
  run.status = result.status();
  if (result.ok()) run.result = *std::move(result);
  return run;
}

void ExpectSameNumbers(const PlacedRun& seen, const PlacedRun& expected) {
  ASSERT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.result.losses_nats, expected.result.losses_nats);
  EXPECT_EQ(seen.result.aux_loss_nats, expected.result.aux_loss_nats);
  EXPECT_EQ(seen.norms, expected.norms);
  EXPECT_TRUE(seen.gradients == expected.gradients);
  EXPECT_TRUE(seen.params == expected.params);
}

class SeveralGpus : public testing::TestWithParam<PlacedModel> {};

TEST_P(SeveralGpus, GiveEveryBitOfOne) {
  const PlacedModel& model = GetParam();
  StartStandin(4);
  const PlacedRun one = TrainOn({0}, model, /*capture=*/false);
  ASSERT_TRUE(one.status.ok()) << one.status;
  for (const int gpus : {2, 4}) {
    if (gpus > model.pipeline * model.mesh.coordinates()) continue;
    const unsigned order = std::random_device{}();
    SCOPED_TRACE(testing::Message() << gpus << " GPUs, order " << order);
    StartStandin(4, order);
    const PlacedRun several = TrainOn(FirstGpus(gpus), model);
    ExpectSameNumbers(several, one);
    EXPECT_EQ(several.result.not_captured, "");
    EXPECT_EQ(several.result.host.captured_steps, 1);  // the other steps are issued, or the first
    ExpectWholeTimeline(several.result.measured);
    EXPECT_EQ(standin_alive(), 0);
    EXPECT_EQ(standin_cublas_handles(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, SeveralGpus,
    testing::Values(PlacedModel{"1f1b", 2, TinyFamily::kGpt, {}},
                    PlacedModel{"1f1b", 4, TinyFamily::kLlama, {}},
                    PlacedModel{"interleaved", 4, TinyFamily::kGpt, {}},
                    PlacedModel{"zb_v", 4, TinyFamily::kGpt, {}, DType::kBF16},
                    PlacedModel{"dualpipe", 4, TinyFamily::kLlama, {}},
                    PlacedModel{"dualpipe_v", 4, TinyFamily::kMoe, {}},
                    PlacedModel{"1f1b", 2, TinyFamily::kLlama, {.data = 2}},
                    PlacedModel{"zb_v", 2, TinyFamily::kMoe, {.expert = 2}},
                    PlacedModel{"dualpipe_v", 2, TinyFamily::kMoe, {.expert = 2}},
                    PlacedModel{"dualpipe_v", 2, TinyFamily::kMoe, {.expert = 2}, DType::kBF16}),
    [](const auto& info) { return "s_" + NameOf(info.param); });

constexpr PlacedModel kPlain = {"zb_v", 4, TinyFamily::kGpt, {}};
constexpr PlacedModel kExperts = {"dualpipe_v", 2, TinyFamily::kMoe, {.expert = 2}};

// GPUs 2 and 0 of four, in this order: the others hold no memory.
TEST(SeveralGpusMemory, EachRankHasItsOwnOnItsGpu) {
  StartStandin(4);
  std::vector<int> stage_gpus;
  int64_t used[4] = {};
  const PlacedRun run = TrainOn({2, 0}, kPlain, true, [&](Trainer& trainer) {
    EXPECT_EQ(trainer.DescribePlaces(), "ranks 0 to 1 on GPU 2, ranks 2 to 3 on GPU 0");
    std::vector<int64_t> allocated(4);
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      const int rank = trainer.plan().stage(stage).rank.value;
      const int gpu = rank < 2 ? 2 : 0;
      for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
        const auto index = static_cast<int>(p);
        EXPECT_EQ(standin_device_of_memory(trainer.param(stage, index).data()), gpu);
        EXPECT_EQ(standin_device_of_memory(trainer.grad(stage, index).data()), gpu);
      }
    }
    for (int rank = 0; rank < 4; ++rank) {
      allocated[rank < 2 ? 2 : 0] += trainer.rank_bytes()[static_cast<size_t>(rank)].allocated;
    }
    for (int gpu = 0; gpu < 4; ++gpu) {
      used[gpu] = standin_memory_used(gpu);
      EXPECT_GE(used[gpu], allocated[static_cast<size_t>(gpu)]);
      EXPECT_EQ(used[gpu] > 0, allocated[static_cast<size_t>(gpu)] > 0);
      // Tables of the update and the like are small.
      EXPECT_LT(used[gpu] - allocated[static_cast<size_t>(gpu)], 64 << 10);
    }
  });
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_EQ(used[1], 0);
  EXPECT_EQ(used[3], 0);
}

// A model that fits into all GPUs together need not fit into each.
TEST(SeveralGpusMemory, EachGpuMustHaveRoomForItsRanks) {
  StartStandin(2);
  int64_t used[2] = {};
  const PlacedRun run = TrainOn({0, 1}, kPlain, true, [&](Trainer&) {
    for (int gpu = 0; gpu < 2; ++gpu) used[gpu] = standin_memory_used(gpu);
  });
  ASSERT_TRUE(run.status.ok()) << run.status;
  const int most = used[0] > used[1] ? 0 : 1;
  ASSERT_NE(used[0], used[1]);
  StartStandin(2);
  standin_set_memory(used[most] * 15 / 16);
  const PlacedRun refused = TrainOn({0, 1}, kPlain);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(refused.status.message(),
                                absl::StrCat("available (the free memory of GPU ", most, ");")))
      << refused.status;
}

// Only messages pass between GPUs: each uses its own memory only.
TEST(SeveralGpusApart, MessagesStillPass) {
  StartStandin(4);
  const PlacedRun one = TrainOn({0}, kPlain);
  for (const int gpus : {2, 4}) {
    StartStandin(4);
    KeepApart(4);
    ExpectSameNumbers(TrainOn(FirstGpus(gpus), kPlain), one);
  }
}

TEST(SeveralGpusApart, SumsAndCountedRowsAreRefused) {
  const struct {
    PlacedModel model;
    const char* says;
  } cases[] = {
      {kExperts, "a counted all-to-all of the rows of "},
      {{"1f1b", 2, TinyFamily::kGpt, {.data = 2}}, "an all-reduce of the gradients of stage "},
      {{"1f1b", 2, TinyFamily::kLlama, {}}, "an all-reduce of the gradient of "},  // tied
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(NameOf(test.model));
    StartStandin(2);
    standin_keep_apart(1, 0);
    const absl::Status status = TrainOn({0, 1}, test.model).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(status.message(), test.says)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  ": GPU 1 has no access to the memory of GPU 0, which sums and "
                                  "counted rows between GPUs of one process need; GPUs joined by "
                                  "NVLink, 'gpus: 1' in the run file, or a process for each GPU "
                                  "would help"))
        << status;
    EXPECT_EQ(standin_alive(), 0);
  }
}

TEST(SeveralGpusContract, GroupsKeepIt) {
  for (const int count : {2, 3, 4}) {
    for (const NamedContract& contract : GpuGroupContracts()) {
      SCOPED_TRACE(absl::StrCat(contract.name, " of ", count));
      StartStandin(2);
      const auto make = [count] {
        auto device = *CudaDevice::Make(std::vector<int>{0, 1}, count);
        GroupMachine machine;
        machine.groups = std::make_unique<CopyGroups>(device.get());
        machine.device = std::move(device);
        machine.work_of = HostWork::Kept();
        for (int m = 0; m < count; ++m) machine.local.push_back(m);
        return machine;
      };
      contract.check(make, count, 7);
      EXPECT_EQ(standin_alive(), 0);
    }
  }
}

// From the first call to the last, each fails once: one status names the call, and all is freed.
TEST(SeveralGpusErrors, WhicheverCallFailsThereIsOneClearStatus) {
  int failures = 0;
  for (int n = 1;; ++n) {
    StartStandin(2);
    standin_fail_call(n, cudaErrorInvalidValue);
    absl::Status status;
    {
      HostWork host;
      WorkTimes times[2];
      std::deque<Call> calls;
      auto device = CudaDevice::Make(std::vector<int>{0, 1}, 2);
      status = device.status();
      if (device.ok()) {
        CopyGroups groups(device->get());
        Group* const group = groups.New({0, 1});
        for (int rank = 0; rank < 2 && status.ok(); ++rank) {
          (*device)->MakeFor(rank);
          const auto memory = (*device)->Allocate(256);
          status = memory.status();
          if (!status.ok()) break;
          const StreamId stream = (*device)->NewStream({}, 16);
          (*device)->Launch(stream, host.Of([] {}), &times[rank]);
          Call call = CallOf(rank == 0 ? CallKind::kSend : CallKind::kRecv, 64, 0, 1 - rank);
          call.from = call.to = *memory;
          group->Enqueue(rank, stream, &calls.emplace_back(call));
          call = CallOf(CallKind::kAllReduce, 64, 1);
          call.from = call.to = *memory;
          group->Enqueue(rank, stream, &calls.emplace_back(call));
        }
        if (status.ok()) status = (*device)->Synchronize();
      }
    }
    if (standin_failed_call() == nullptr) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(standin_alive(), 0);
      break;
    }
    const std::string call = standin_failed_call();
    const bool gives_back =
        call == "cudaFree" || call == "cudaEventDestroy" || call == "cudaStreamDestroy";
    EXPECT_EQ(standin_alive(), gives_back ? 1 : 0) << call;
    if (status.ok()) {
      EXPECT_TRUE(gives_back || call == "cudaStreamQuery" || call == "cudaSetDevice" ||
                  call == "cudaGetDevice")
          << n << " " << call;
      continue;
    }
    ++failures;
    const bool launched = call == "a kernel's launch" || call == "cudaLaunchHostFunc";
    EXPECT_TRUE(absl::StrContains(status.message(), launched                       ? "work on #"
                                                    : call == "cudaGetDeviceCount" ? "no GPU can"
                                                                                   : call))
        << status;
  }
  EXPECT_GT(failures, 40);
}

// Two devices of one thread, used in turns: each finds its own GPU current again.
TEST(SeveralGpus, TwoDevicesOfAThreadKeepTheirGpus) {
  StartStandin(2);
  HostWork host;
  std::vector<std::unique_ptr<CudaDevice>> devices;
  for (const int gpu : {0, 1}) {
    auto device = CudaDevice::Make(gpu);
    ASSERT_TRUE(device.ok()) << device.status();
    devices.push_back(*std::move(device));
  }
  WorkTimes times[4] = {};
  for (int use = 0; use < 4; ++use) {
    CudaDevice& device = *devices[use % 2];
    const auto memory = device.Allocate(256);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(standin_device_of_memory(*memory), use % 2) << use;
    const StreamId stream = device.NewStream({}, 4);
    EXPECT_EQ(standin_device_of_stream(device.native(stream)), use % 2) << use;
    device.Launch(stream, host.Of([] {}), &times[use]);
    const absl::Status status = device.Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
}

TEST(SeveralGpusErrors, OneThatHangsEndsTheRun) {
  StartStandin(2);
  auto device = CudaDevice::Make(std::vector<int>{0, 1}, 2);
  ASSERT_TRUE(device.ok()) << device.status();
  (*device)->set_timeout_ns(30'000'000);
  (*device)->MakeFor(1);
  const StreamId stream = (*device)->NewStream(
      {[](const void*, int64_t) { return std::string("the second's"); }, nullptr, 0}, 4);
  HostWork host;
  WorkTimes times;
  (*device)->Launch(stream, host.Of([] {}), &times);
  standin_hang_op(1);
  const absl::Status status = (*device)->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(status.message(), "the second's came as far as ")) << status;
  standin_hang_op(0);
}

TEST(ChooseGpus, TakesWhatIsThereOrSaysWhatIsNot) {
  const struct {
    GpuWish wish;
    int ranks;
    std::vector<int> gpus;
    const char* says;
  } cases[] = {
      {{}, 4, {0}, ""},
      {{.count = 2}, 4, {0, 1}, ""},
      {{.count = 0}, 2, {0, 1}, ""},
      {{.count = 0}, 8, {0, 1, 2}, ""},
      {{.ordinals = {2, 0}}, 4, {2, 0}, ""},
      {{.count = 4}, 4, {}, "gpus: 4: this machine has 3 GPUs"},
      {{.ordinals = {1, 3}},
       4,
       {},
       "gpus: there is no GPU 3: this machine has 3 GPUs, and the first is 0"},
      {{.ordinals = {1, 1}}, 4, {}, "gpus: GPU 1 is named twice"},
      {{.count = 3}, 2, {}, "gpus: 3 GPUs for 2 ranks: there can be one for each at most"},
      {{.count = 2}, 1, {}, "gpus: 2 GPUs for 1 rank: there can be one for each at most"},
  };
  StartStandin(3);
  for (const auto& test : cases) {
    const auto gpus = cuda::ChooseGpus(test.wish, test.ranks);
    EXPECT_EQ(gpus.status().message(), test.says);
    if (gpus.ok()) {
      EXPECT_EQ(*gpus, test.gpus);
    } else {
      EXPECT_EQ(gpus.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(ChooseGpus, RanksAreInBlocks) {
  EXPECT_EQ(cuda::DescribeBlocks({0, 1}, 3), "ranks 0 to 1 on GPU 0, rank 2 on GPU 1");
  EXPECT_EQ(cuda::DescribeBlocks({3, 1, 0}, 4),
            "ranks 0 to 1 on GPU 3, rank 2 on GPU 1, rank 3 on GPU 0");
  EXPECT_EQ(cuda::DescribeBlocks({5}, 1), "rank 0 on GPU 5");
}

TEST(ChooseGpus, AreOfOneKind) {
  StartStandin(3);
  standin_set_sms(2, 108);
  EXPECT_TRUE(CudaDevice::Make(std::vector<int>{0, 1}, 2).ok());
  EXPECT_EQ(CudaDevice::Make(std::vector<int>{0, 2}, 2).status(),
            absl::InvalidArgumentError(
                "the ranks of one process need GPUs of one kind, but GPU 0 has 132 SMs of compute "
                "capability 9.0, and GPU 2 has 108 SMs of compute capability 9.0"));
}

}  // namespace
}  // namespace stringline
