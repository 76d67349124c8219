// Plans of attention for an absent H100: cuDNN itself chooses, compiles and sizes them, for every
// model of examples/ and of the tests and for some large ones. Linked with the stand-ins for the
// driver, the runtime and cuBLASLt.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/cuda_kernels.h"
#include "executor/cuda/cudnn_attention.h"
#include "executor/cuda/cudnn_library.h"
#include "gtest/gtest.h"
#include "stages/models/model.h"
#include "stages/ops.h"
#include "tests/cuda/known_models.h"
#include "tests/cuda/standin/noting_cudnn.h"
#include "tests/cuda/standin/standin.h"

namespace stringline::cuda {
namespace {

constexpr char kH100[] = R"({
  "cudaDeviceId": 0, "deviceName": "H100", "deviceVer": 900, "driverVer": 13000, "isTccDriver": 0,
  "l2CacheSize": 52428800, "maxCtasPerSM": 32, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "memClockRateKHz": 2619000,
  "multiProcessorCount": 132, "pciDeviceId": 9008, "regsPerBlock": 65536,
  "reservedSharedMemoryPerBlock": 1024, "smClockRateKHz": 1980000, "supportCoopLaunch": 1,
  "totalGlobalMem": 85017755648, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64]})";

absl::StatusOr<std::unique_ptr<AttentionLibrary>> Library() { return CudnnAttentionFor(kH100); }

class AttentionPlansTest : public testing::Test {
 protected:
  // The libraries are opened where the configuration found them. Once loaded, no others of the same
  // name are found.
  static void SetUpTestSuite() {
    void* opened = nullptr;
    for (const char* const library : {STRINGLINE_NVRTC_LIBRARY, STRINGLINE_CUDNN_LIBRARY}) {
      if (*library == '\0') continue;
      opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(opened, nullptr) << dlerror();
    }
    if (*STRINGLINE_CUDNN_LIBRARY == '\0') return;
    const auto version = reinterpret_cast<size_t (*)()>(dlsym(opened, "cudnnGetVersion"));
    ASSERT_NE(version, nullptr);
    version_ = version();
    // Behind functions that note its runs.
    void* const noting = dlopen(STRINGLINE_NOTING_CUDNN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(noting, nullptr) << dlerror();
    start_ = reinterpret_cast<NotingCudnnStart*>(dlsym(noting, "noting_cudnn_start"));
    last_ = reinterpret_cast<NotingCudnnLast*>(dlsym(noting, "noting_cudnn_last"));
    ASSERT_TRUE(start_ != nullptr && last_ != nullptr);
    const absl::Status opened_noting = OpenCudnn(STRINGLINE_NOTING_CUDNN);
    ASSERT_TRUE(opened_noting.ok()) << opened_noting;
  }
  void SetUp() override {
    if (*STRINGLINE_CUDNN_LIBRARY == '\0') {
      GTEST_SKIP() << "the libraries of cuDNN are not installed: tools/install --cuda";
    }
    standin_reset(1);
    start_(/*has_handle=*/false, /*refuses=*/false);
    auto library = Library();
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
  }
  static inline NotingCudnnStart* start_ = nullptr;
  static inline NotingCudnnLast* last_ = nullptr;
  static inline size_t version_ = 0;  // 92500 is 9.25.0
  std::unique_ptr<AttentionLibrary> library_;
};

// The attention problems in a model's programs; all layers of a model are alike.
std::set<AttentionProblem> ProblemsOf(const AnyShape& shape) {
  const auto stages = BuildModelStages(shape.WithLayers(1), {1});
  EXPECT_TRUE(stages.ok()) << stages.status();
  std::set<AttentionProblem> problems;
  for (const Graph* const graph : {&stages->front().forward, &stages->front().backward}) {
    for (const Node& node : graph->nodes) {
      if (IsAttention(node.op)) problems.insert(AttentionProblemOf({*graph, node}));
    }
  }
  EXPECT_EQ(problems.size(), 2);
  return problems;
}

std::set<AttentionProblem> AllProblems() {
  std::set<AttentionProblem> problems;
  for (const AnyShape& model : KnownModels()) problems.merge(ProblemsOf(model));
  return problems;
}

// Bounds on a gradient's workspace, to the last 1024: all dS in bf16, in whole tiles; a float per
// row; and if keys serve several queries, the gradients of keys and values for each of these.
// Attention itself needs almost none.
int64_t MostBytes(const AttentionProblem& p) {
  if (!p.gradient) return 1024;
  const int64_t rows = p.batch * p.heads * p.positions;
  const int64_t down = (p.positions + 63) / 64 * 64, across = (p.positions + 127) / 128 * 128;
  const int64_t grouped = p.kv_heads == p.heads ? 0 : 4 * rows * p.size;
  return 2 * p.batch * p.heads * down * across + 4 * rows + grouped + 1024;
}

TEST_F(AttentionPlansTest, EveryModelHasOneOrCannot) {
  const auto began = std::chrono::steady_clock::now();
  int with_plan = 0;
  for (const AttentionProblem& problem : AllProblems()) {
    SCOPED_TRACE(ToString(problem));
    const auto plan = library_->Choose(problem);
    if (problem.size % 8 != 0) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented);
      EXPECT_TRUE(absl::StrContains(plan.status().message(), "multiple of 8")) << plan.status();
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    ++with_plan;
    EXPECT_EQ((*plan)->problem, problem);
    EXPECT_LE((*plan)->workspace_bytes, MostBytes(problem));
    // A gradient with atomic additions takes less, and so does a later cuDNN's without.
    if (problem.gradient && version_ < 92500) {
      EXPECT_GE((*plan)->workspace_bytes,
                2 * problem.batch * problem.heads * problem.positions * problem.positions);
    }
    // The plan is chosen once.
    EXPECT_EQ(library_->Choose(problem).value(), *plan);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::cout << with_plan << " plans in " << took.count() << " s\n" << library_->Describe();
  EXPECT_GE(with_plan, 10);
  EXPECT_LE(with_plan, 24) << "they take about half a second each";
}

// A graph of one node, with activations in bf16.
Graph OneNode(const AttentionProblem& p) {
  const Type qkv = {DType::kBF16, {p.batch, p.positions, (p.heads + 2 * p.kv_heads) * p.size}};
  Node node = {Op::kAttention, {0}, {}, {double(p.heads), double(p.kv_heads)}};
  std::vector<Type> types = {qkv};
  if (p.gradient) {
    const auto forward = InferTypes(Op::kAttention, types, node.attributes).value();
    types = {forward[0], qkv, forward[0], forward[1]};
    node.op = Op::kAttentionGrad;
    node.inputs = {0, 1, 2, 3};
  }
  const std::vector<Type> outputs = InferTypes(node.op, types, node.attributes).value();
  for (const Type& type : outputs) {
    node.outputs.push_back(static_cast<ValueId>(types.size()));
    types.push_back(type);
  }
  Graph graph;
  for (const Type& type : types) {
    graph.values.push_back({type, absl::StrCat("v", graph.values.size())});
  }
  graph.nodes.push_back(std::move(node));
  return graph;
}

// The memory plan takes a node's workspace from the library's plan, or from our own kernel without
// one.
TEST_F(AttentionPlansTest, AreWhatNodesInBf16AskMemoryFor) {
  auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  auto kernels = CudaKernels::Make(device->get(), {.attention = Library});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_FALSE(absl::StrContains((*kernels)->Describe(), "cuDNN"));
  for (const bool gradient : {false, true}) {
    const AttentionProblem with = {gradient, 2, 100, 6, 2, 16};
    const Graph graph = OneNode(with);
    const auto ready = (*kernels)->ReadyFor(graph, graph.nodes[0]);
    ASSERT_TRUE(ready.ok()) << ready.status();
    const int64_t bytes = library_->Choose(with).value()->workspace_bytes;
    EXPECT_EQ(ready->workspace_bytes, bytes + 192) << "room to begin at a multiple of 256";

    const AttentionProblem without = {gradient, 2, 100, 6, 2, 12};
    const Graph other = OneNode(without);
    const auto own = (*kernels)->ReadyFor(other, other.nodes[0]);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(own->workspace_bytes, gradient ? 4 * 2 * 6 * 100 : 0);
  }
  const std::string said = (*kernels)->Describe();
  for (const char* const text :
       {"cuDNN 9.", "\nattention of 2 x 100 positions, 6 heads of 16 channels, 2 of keys: eng",
        "\nattention of 2 x 100 positions, 6 heads of 12 channels, 2 of keys: no plan: cuDNN: ",
        "\nthe gradient of attention of 2 x 100 positions, 6 heads of 16 channels, 2 of keys: "
        "eng"}) {
    EXPECT_TRUE(absl::StrContains(said, text)) << text << " is not in\n" << said;
  }
}

// One position: cuDNN has attention, but no gradient of it.
TEST_F(AttentionPlansTest, RefusalsAreKept) {
  EXPECT_TRUE(library_->Choose({false, 1, 1, 3, 3, 32}).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(library_->Choose({true, 1, 1, 3, 3, 32}).status(),
              absl::UnimplementedError("cuDNN: s_q = s_kv = 1 is not supported."));
  }
}

TEST_F(AttentionPlansTest, OfAGpuThatIsNotHereDoNotRun) {
  const auto plan = library_->Choose({false, 1, 16, 1, 1, 16});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(library_->Run(*plan, {}, nullptr),
            absl::FailedPreconditionError("a plan for a GPU that is not here"));
  const absl::Status here = CudnnAttention().status();
  EXPECT_EQ(here.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(here.message(), "cudnnCreate: CUDNN_STATUS_")) << here;
  EXPECT_EQ(CudnnAttentionFor("{}").status().code(), absl::StatusCode::kUnimplemented);
}

// The addresses of a run's operands, as Run has to give them to the library.
std::map<int64_t, void*> OperandsOf(const AttentionProblem& problem, const AttentionRun& run) {
  const auto at = [](const void* begin, int64_t elements) {
    return const_cast<char*>(static_cast<const char*>(begin)) + 2 * elements;
  };
  const int64_t keys = problem.heads * problem.size;
  const int64_t values = keys + problem.kv_heads * problem.size;
  std::map<int64_t, void*> operands = {{1, at(run.qkv, 0)},
                                       {2, at(run.qkv, keys)},
                                       {3, at(run.qkv, values)},
                                       {4, run.y},
                                       {5, run.lse}};
  if (!problem.gradient) return operands;
  operands.insert(
      {{6, at(run.dy, 0)}, {7, run.dqkv}, {8, at(run.dqkv, keys)}, {9, at(run.dqkv, values)}});
  return operands;
}

// By the library's own plans, with a handle that notes.
TEST_F(AttentionPlansTest, RunsGiveOperandsWorkspaceAndStream) {
  start_(/*has_handle=*/true, /*refuses=*/false);
  const auto library = CudnnAttentionFor(kH100, /*with_handle=*/true);
  ASSERT_TRUE(library.ok()) << library.status();
  auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  cudaStream_t const stream = (*device)->native((*device)->NewStream({}, 4));
  int runs = 0;
  for (const AttentionProblem& problem : {AttentionProblem{false, 2, 100, 6, 6, 16},
                                          {false, 2, 100, 6, 2, 64},
                                          {true, 2, 100, 6, 6, 16},
                                          {true, 2, 100, 6, 2, 64}}) {
    SCOPED_TRACE(ToString(problem));
    const auto plan = (*library)->Choose(problem);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const int64_t rows = problem.batch * problem.positions, of_heads = problem.heads * problem.size;
    const int64_t packed = of_heads + 2 * problem.kv_heads * problem.size;
    const auto take = [&](int64_t bytes) { return (*device)->Allocate(bytes).value(); };
    AttentionRun run = {.qkv = take(2 * rows * packed),
                        .y = take(2 * rows * of_heads),
                        .lse = static_cast<float*>(take(4 * rows * problem.heads))};
    if (problem.gradient) {
      run.dy = take(2 * rows * of_heads);
      run.dqkv = take(2 * rows * packed);
    }
    const int64_t bytes = std::max<int64_t>(256, (*plan)->workspace_bytes);
    run.workspace = take(bytes);
    const absl::Status status = (*library)->Run(*plan, run, stream);
    ASSERT_TRUE(status.ok()) << status;
    const NotedCudnnRun& noted = *last_();
    EXPECT_EQ(noted.runs, ++runs);
    EXPECT_EQ(noted.stream, stream);
    for (const auto& [id, pointer] : OperandsOf(problem, run)) {
      EXPECT_EQ(noted.operands.count(id) == 0 ? nullptr : noted.operands.at(id), pointer) << id;
    }
    // The frontend keeps the first bytes for itself.
    const char* const begin = static_cast<const char*>(run.workspace);
    EXPECT_GE(static_cast<const char*>(noted.workspace), begin);
    EXPECT_LE(static_cast<const char*>(noted.workspace), begin + bytes);
    EXPECT_TRUE((*device)->Synchronize().ok());
  }
}

TEST_F(AttentionPlansTest, ARefusedStreamIsAnErrorWithAWayOut) {
  start_(/*has_handle=*/true, /*refuses=*/true);
  const auto library = CudnnAttentionFor(kH100, /*with_handle=*/true);
  ASSERT_TRUE(library.ok()) << library.status();
  const auto plan = (*library)->Choose({false, 1, 16, 1, 1, 16});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status status = (*library)->Run(*plan, {}, nullptr);
  EXPECT_TRUE(absl::StartsWith(status.message(), "cudnnSetStream: CUDNN_STATUS_BAD_PARAM"))
      << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "`sms_per_rank`: leave that out")) << status;
}

}  // namespace
}  // namespace stringline::cuda
