// A problem is a graph of one attention node between tensors in packed rows: cuDNN gets dimensions
// in the order (B,H,T,D), and their places as strides. cuDNN's header-only frontend makes the
// graph's plan; its calls go through cudnn_library.cc.
#include "executor/cuda/cudnn_attention.h"

#include <cudnn_frontend.h>

#include <cmath>
#include <exception>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cudnn_library.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// The ids of tensors in a plan's run.
enum Uid : int64_t { kQ = 1, kK, kV, kY, kLse, kDy, kDq, kDk, kDv };

absl::Status AsStatus(const fe::error_t& error) {
  if (error.is_good()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("cuDNN: ", error.err_msg));
}

absl::Status AsStatus(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(call, ": ", cudnnGetErrorString(status), " (", static_cast<int>(status), ")"));
}

// The headers throw if a descriptor or memory is unavailable.
template <class Function>
absl::Status WithoutExceptions(Function function) {
  try {
    return function();
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrCat("cuDNN: ", thrown.what()));
  }
}

// Heads of D channels side by side in rows that lie `row` elements apart.
fe::graph::Tensor_attributes HeadsIn(const AttentionProblem& problem, Uid uid, int64_t heads,
                                     int64_t row) {
  fe::graph::Tensor_attributes tensor;
  tensor.set_uid(uid)
      .set_dim({problem.batch, heads, problem.positions, problem.size})
      .set_stride({problem.positions * row, problem.size, row, 1})
      .set_data_type(fe::DataType_t::BFLOAT16);
  return tensor;
}

fe::graph::Tensor_attributes Packed(const AttentionProblem& problem, Uid uid) {
  const bool queries = uid == kQ || uid == kDq;
  return HeadsIn(problem, uid, queries ? problem.heads : problem.kv_heads,
                 (problem.heads + 2 * problem.kv_heads) * problem.size);
}

fe::graph::Tensor_attributes Mixed(const AttentionProblem& problem, Uid uid) {
  return HeadsIn(problem, uid, problem.heads, problem.heads * problem.size);
}

fe::graph::Tensor_attributes Lse(const AttentionProblem& problem) {
  fe::graph::Tensor_attributes lse;
  lse.set_uid(kLse)
      .set_dim({problem.batch, problem.heads, problem.positions, 1})
      .set_stride({problem.heads * problem.positions, problem.positions, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
  return lse;
}

void SetOutput(const Tensor& output, const fe::graph::Tensor_attributes& as) {
  output->set_output(true)
      .set_uid(as.get_uid())
      .set_dim(as.get_dim())
      .set_stride(as.get_stride())
      .set_data_type(as.get_data_type());
}

// The scale, and the causal mask: a query attends to no key behind the diagonal.
template <class Attributes>
Attributes AttributesOf(const AttentionProblem& problem) {
  Attributes attributes;
  attributes.set_name("attention")
      .set_attn_scale(1.0f / std::sqrt(static_cast<float>(problem.size)))
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  return attributes;
}

void AddAttention(const AttentionProblem& problem, fe::graph::Graph* graph) {
  const Tensor q = graph->tensor(Packed(problem, kQ));
  const Tensor k = graph->tensor(Packed(problem, kK));
  const Tensor v = graph->tensor(Packed(problem, kV));
  auto attributes = AttributesOf<fe::graph::SDPA_attributes>(problem);
  attributes.set_generate_stats(true);
  const auto [y, lse] = graph->sdpa(q, k, v, attributes);
  SetOutput(y, Mixed(problem, kY));
  SetOutput(lse, Lse(problem));
}

void AddGradient(const AttentionProblem& problem, fe::graph::Graph* graph) {
  const Tensor q = graph->tensor(Packed(problem, kQ));
  const Tensor k = graph->tensor(Packed(problem, kK));
  const Tensor v = graph->tensor(Packed(problem, kV));
  const Tensor y = graph->tensor(Mixed(problem, kY));
  const Tensor dy = graph->tensor(Mixed(problem, kDy));
  const Tensor lse = graph->tensor(Lse(problem));
  auto attributes = AttributesOf<fe::graph::SDPA_backward_attributes>(problem);
  attributes.set_deterministic_algorithm(problem.deterministic);
  const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, y, dy, lse, attributes);
  SetOutput(dq, Packed(problem, kDq));
  SetOutput(dk, Packed(problem, kDk));
  SetOutput(dv, Packed(problem, kDv));
}

struct CudnnPlan : AttentionPlan {
  fe::graph::Graph graph;
  std::string name;  // cuDNN's, for people
};

// The library of a GPU: with its `handle`, or with `device` for a GPU that is only described.
class Cudnn final : public AttentionLibrary {
 public:
  Cudnn(cudnnHandle_t handle, std::shared_ptr<const fe::DeviceProperties> device)
      : handle_(handle), device_(std::move(device)) {}
  ~Cudnn() override {
    if (handle_ != nullptr) (void)cudnnDestroy(handle_);
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  absl::StatusOr<const AttentionPlan*> Choose(const AttentionProblem& problem) override;
  absl::Status Run(const AttentionPlan* plan, const AttentionRun& run,
                   cudaStream_t stream) const override;
  std::string Describe() const override;

 private:
  using Chosen = absl::StatusOr<std::unique_ptr<const CudnnPlan>>;
  absl::Status Build(CudnnPlan* plan) const;

  const cudnnHandle_t handle_;
  const std::shared_ptr<const fe::DeviceProperties> device_;
  std::map<AttentionProblem, Chosen> plans_;
};

absl::Status Cudnn::Build(CudnnPlan* plan) const {
  fe::graph::Graph& graph = plan->graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (device_ != nullptr) graph.set_device_properties(device_);
  (plan->problem.gradient ? AddGradient : AddAttention)(plan->problem, &graph);
  SL_RETURN_IF_ERROR(AsStatus(graph.validate()));
  SL_RETURN_IF_ERROR(AsStatus(device_ != nullptr ? graph.build_operation_graph()
                                                 : graph.build_operation_graph(handle_)));
  SL_RETURN_IF_ERROR(AsStatus(graph.create_execution_plans({fe::HeurMode_t::A})));
  SL_RETURN_IF_ERROR(AsStatus(graph.check_support()));
  SL_RETURN_IF_ERROR(AsStatus(graph.build_plans()));
  SL_RETURN_IF_ERROR(AsStatus(graph.get_plan_name(plan->name)));
  return AsStatus(graph.get_workspace_size(plan->workspace_bytes));
}

absl::StatusOr<const AttentionPlan*> Cudnn::Choose(const AttentionProblem& problem) {
  auto found = plans_.find(problem);
  if (found == plans_.end()) {
    auto plan = std::make_unique<CudnnPlan>();
    plan->problem = problem;
    const absl::Status status = WithoutExceptions([&] { return Build(plan.get()); });
    found = plans_.emplace(problem, status.ok() ? Chosen(std::move(plan)) : Chosen(status)).first;
  }
  if (!found->second.ok()) return found->second.status();
  return found->second->get();
}

absl::Status Cudnn::Run(const AttentionPlan* plan, const AttentionRun& run,
                        cudaStream_t stream) const {
  if (handle_ == nullptr) {
    return absl::FailedPreconditionError("a plan for a GPU that is not here");
  }
  const AttentionProblem& problem = plan->problem;
  // Byte offsets in a packed row.
  const int64_t keys = 2 * problem.heads * problem.size;
  const int64_t values = keys + 2 * problem.kv_heads * problem.size;
  // Inputs are only read, but share the pointer type of outputs.
  char* const qkv = const_cast<char*>(static_cast<const char*>(run.qkv));
  char* const dqkv = static_cast<char*>(run.dqkv);
  std::unordered_map<int64_t, void*> operands = {
      {kQ, qkv}, {kK, qkv + keys}, {kV, qkv + values}, {kY, run.y}, {kLse, run.lse}};
  if (problem.gradient) {
    operands.insert(
        {{kDy, const_cast<void*>(run.dy)}, {kDq, dqkv}, {kDk, dqkv + keys}, {kDv, dqkv + values}});
  }
  const absl::Status set = AsStatus(cudnnSetStream(handle_, stream), "cudnnSetStream");
  if (!set.ok()) {
    return absl::Status(set.code(), absl::StrCat(set.message(),
                                                 "; cuDNN may refuse the streams of a run with "
                                                 "`sms_per_rank`: leave that out"));
  }
  const auto& graph = static_cast<const CudnnPlan*>(plan)->graph;
  return WithoutExceptions([&] {
    const absl::Status status = AsStatus(graph.execute(handle_, operands, run.workspace));
    return status.ok() ? status : absl::InternalError(status.message());
  });
}

std::string Cudnn::Describe() const {
  const size_t version = cudnnGetVersion();
  std::string text =
      absl::StrCat("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100, "\n");
  for (const auto& [problem, plan] : plans_) {
    absl::StrAppend(&text, ToString(problem), ": ");
    if (plan.ok()) {
      absl::StrAppend(&text, (*plan)->name, ", workspace ", (*plan)->workspace_bytes, " bytes\n");
    } else {
      absl::StrAppend(&text, "no plan: ", plan.status().message(), "\n");
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttention() {
  SL_RETURN_IF_ERROR(OpenCudnn());
  cudnnHandle_t handle = nullptr;
  const absl::Status created = AsStatus(cudnnCreate(&handle), "cudnnCreate");
  if (!created.ok()) return absl::UnavailableError(created.message());
  return std::make_unique<Cudnn>(handle, nullptr);
}

absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttentionFor(const std::string& device,
                                                                    bool with_handle) {
  SL_RETURN_IF_ERROR(OpenCudnn());
  auto properties = std::make_shared<fe::DeviceProperties>();
  SL_RETURN_IF_ERROR(WithoutExceptions([&] {
    return AsStatus(properties->deserialize(std::vector<uint8_t>(device.begin(), device.end())));
  }));
  cudnnHandle_t handle = nullptr;
  if (with_handle) SL_RETURN_IF_ERROR(AsStatus(cudnnCreate(&handle), "cudnnCreate"));
  return std::make_unique<Cudnn>(handle, std::move(properties));
}

}  // namespace stringline::cuda
