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
#include "gtest/gtest.h"
#include "stages/models/model.h"
#include "stages/ops.h"
#include "tests/cuda/known_models.h"
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
  }
  void SetUp() override {
    if (*STRINGLINE_CUDNN_LIBRARY == '\0') {
      GTEST_SKIP() << "the libraries of cuDNN are not installed: tools/install --cuda";
    }
    standin_reset(1);
    auto library = Library();
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
  }
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

}  // namespace
}  // namespace stringline::cuda
