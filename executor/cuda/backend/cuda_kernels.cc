// A node is prepared once, on every GPU: its tables, its algorithms, and the function that launches
// it. A run is a single call of the function. A launch returns no status, so the first error is
// kept here until the device asks.
#include "executor/cuda/backend/cuda_kernels.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/bodies/own_kernels.h"
#include "executor/cuda/cuda_error.h"
#include "executor/cuda/declared_use.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"

namespace stringline {
namespace {

cudaStream_t StreamOf(NativeStream stream) { return static_cast<cudaStream_t>(stream); }

bool HasBf16(const Graph& graph, const Node& node) {
  const auto is = [&](ValueId value) { return graph.values[value].type.dtype == DType::kBF16; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is);
}

// All operands, whole, the workspace, and the node's table.
absl::InlinedVector<StringlineUse, 16> UsesOf(const NodeRun& run, int64_t workspace_bytes,
                                              const cuda::NodeData& data) {
  absl::InlinedVector<StringlineUse, 16> uses;
  if (stringline_declare == nullptr) return uses;
  for (const Tensor& in : run.in) {
    const bool writes = data.leaves_gradient && uses.empty();
    uses.push_back({in.data, static_cast<size_t>(in.type->bytes()), writes ? 1 : 0});
  }
  for (const Tensor& out : run.out) {
    uses.push_back({out.data, static_cast<size_t>(out.type->bytes()), 1});
  }
  uses.push_back({run.workspace, static_cast<size_t>(workspace_bytes), 1});
  uses.push_back({data.rotary, static_cast<size_t>(data.rotary_bytes), 0});
  return uses;
}

template <typename Number>
StringlineUse UseOf(absl::Span<Number> values, bool writes) {
  return {values.data(), values.size() * sizeof(Number), writes ? 1 : 0};
}

// The memory used by a sum of squares, which only reads gradients, or by an update, which writes
// all; and that of the list.
std::vector<StringlineUse> UsesOf(absl::Span<const ParamBlock> blocks, const cuda::ParamList& list,
                                  bool updates) {
  std::vector<StringlineUse> uses;
  if (stringline_declare == nullptr) return uses;
  uses = updates ? list.UsesOfUpdate() : list.UsesOfSums();
  uses.insert(uses.begin(), StringlineUse{});  // known at the launch
  for (const ParamBlock& block : blocks) {
    uses.push_back(UseOf(block.gradient, updates));
    if (!updates) continue;
    for (const auto values : {block.values, block.m, block.v}) uses.push_back(UseOf(values, true));
    uses.push_back(UseOf(block.working, true));
  }
  return uses;
}

// The number of multiprocessors for a product; 0: all.
absl::StatusOr<int> ProductSms(const CudaDevice& device, int free_sms) {
  if (device.sms_per_rank() > 0 || free_sms == 0) return device.sms_per_rank();
  int sms = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device.ordinal());
  if (error != cudaSuccess) return absl::InternalError(cuda::ErrorText(error));
  return std::max(1, sms - free_sms);
}

// A kernel is loaded when its attributes are asked for.
absl::Status LoadOwnKernels() {
  for (const void* const kernel : OwnKernels()) {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess) return absl::InternalError(cuda::ErrorText(error));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernels>> CudaKernels::Make(CudaDevice* device,
                                                               const CudaKernelSettings& settings) {
  std::vector<Gpu> gpus(static_cast<size_t>(device->places()));
  SL_ASSIGN_OR_RETURN(const int sms, ProductSms(*device, settings.free_sms));
  for (int place = 0; place < device->places(); ++place) {
    SL_RETURN_IF_ERROR(device->Enter(place));
    if (settings.load) SL_RETURN_IF_ERROR(LoadOwnKernels());
    SL_ASSIGN_OR_RETURN(gpus[place].products, place == 0 ? cuda::Products::Make(sms, settings.load)
                                                         : gpus[0].products->ForAnotherGpu());
  }
  return std::unique_ptr<CudaKernels>(new CudaKernels(device, std::move(gpus), settings));
}

CudaKernels::CudaKernels(CudaDevice* device, std::vector<Gpu> gpus,
                         const CudaKernelSettings& settings)
    : device_(device), gpus_(std::move(gpus)), settings_(settings) {
  device->AddCheck(FirstError, this);
}

CudaKernels::~CudaKernels() {
  for (int place = 0; place < device_->places(); ++place) {
    Gpu& gpu = gpus_[place];
    if (device_->abandoned()) {
      gpu.products->Abandon();
      // Closing a library may block on a GPU that hangs.
      if (gpu.attention.has_value() && gpu.attention->ok()) (void)(*gpu.attention)->release();
    } else {
      (void)device_->Enter(place);  // the place at which its libraries were opened
      gpu = Gpu();
    }
  }
}

absl::StatusOr<ReadyKernel> CudaKernels::ReadyFor(const Graph& graph, const Node& node) {
  const cuda::OpLaunch launch = cuda::LaunchOf(node.op);
  const bool bf16 = HasBf16(graph, node);
  if ((bf16 ? launch.in_bf16 : launch.in_f32) == nullptr) {
    return absl::UnimplementedError(absl::StrCat("the CUDA backend has no kernel for ",
                                                 RowOf(node.op).name, bf16 ? " in bf16" : ""));
  }
  const cuda::NodeTypes types = {graph, node};
  ReadyNode& ready = nodes_.emplace_back();
  ready.kernels = this;
  ready.launch = bf16 ? launch.in_bf16 : launch.in_f32;
  const int64_t own_bytes = launch.workspace_bytes == nullptr ? 0 : launch.workspace_bytes(types);
  ready.workspace_bytes = 0;
  for (int gpu = 0; gpu < device_->places(); ++gpu) {
    SL_RETURN_IF_ERROR(device_->Enter(gpu));
    int64_t bytes = own_bytes;
    SL_ASSIGN_OR_RETURN(ready.data.emplace_back(), DataFor(gpu, types, &bytes));
    ready.workspace_bytes = std::max(ready.workspace_bytes, bytes);
  }
  // The GPUs are of one kind and share a table of products.
  const int with = ready.data.front().with;
  if (with >= 0) {
    const cuda::OpLaunch joined = cuda::JoinedLaunch(graph.nodes[static_cast<size_t>(with)].op);
    ready.launch = bf16 ? joined.in_bf16 : joined.in_f32;
  }
  const bool is_there = node.op == Op::kCrossEntropyGrad && ready.data.front().leaves_gradient;
  return ReadyKernel{RunNode, &ready, ready.workspace_bytes, with, is_there ? 1 : -1};
}

absl::StatusOr<cuda::NodeData> CudaKernels::DataFor(int gpu, const cuda::NodeTypes& types,
                                                    int64_t* workspace_bytes) {
  cuda::NodeData data;
  const Node& node = types.node;
  data.leaves_gradient = cuda::LeavesGradient(types);
  if (node.op == Op::kRotary || node.op == Op::kPackedRotary) {
    const int64_t heads =
        static_cast<int64_t>(node.attributes[0]) + 2 * static_cast<int64_t>(node.attributes[1]);
    const Type& x = types.in(0);
    const int64_t half = cuda::ColumnsOf(x) / heads / 2;
    const double first = node.op == Op::kRotary ? node.attributes[4] : 0;
    SL_ASSIGN_OR_RETURN(data.rotary, RotaryTable(gpu, {static_cast<int64_t>(first), x.shape[1],
                                                       half, node.attributes[2]}));
    data.rotary_bytes = 2 * x.shape[1] * half * static_cast<int64_t>(sizeof(float));
  }
  if (cuda::IsAttention(node.op) || cuda::IsOwnAttention(node.op)) {
    const bool may_be_librarys = cuda::IsAttention(node.op) && HasBf16(types.graph, node);
    cuda::AttentionLibrary* const library = may_be_librarys ? Attention(&gpus_[gpu]) : nullptr;
    SL_RETURN_IF_ERROR(
        cuda::ChooseAttention(types, library, settings_.deterministic, &data, workspace_bytes));
    if (settings_.load && data.attention_plan != nullptr &&
        gpus_[gpu].loaded.insert(data.attention_plan).second) {
      SL_RETURN_IF_ERROR(cuda::LoadAttention(*data.attention, data.attention_plan));
    }
  }
  cuda::Products* const products = gpus_[gpu].products.get();
  SL_RETURN_IF_ERROR(cuda::ChooseProducts(types, products, &data, workspace_bytes));
  cuda::JoinNodes(types, products, &data, workspace_bytes);
  return data;
}

cuda::AttentionLibrary* CudaKernels::Attention(Gpu* gpu) {
  if (!gpu->attention.has_value()) gpu->attention = settings_.attention();
  return gpu->attention->ok() ? (*gpu->attention)->get() : nullptr;
}

// The GPUs are of one kind, so the first GPU's choices hold for all.
std::string CudaKernels::Describe() const {
  const Gpu& gpu = gpus_.front();
  std::string text = gpu.products->Describe();
  if (!gpu.attention.has_value()) return text;
  if (gpu.attention->ok()) return absl::StrCat(text, (**gpu.attention)->Describe());
  return absl::StrCat(text, "attention by our own kernel: ", gpu.attention->status().message(),
                      "\n");
}

void CudaKernels::RunNode(const void* self, const NodeRun& run) {
  const auto& ready = *static_cast<const ReadyNode*>(self);
  const cuda::NodeData& data = ready.data[ready.kernels->device_->current_place()];
  const auto uses = UsesOf(run, ready.workspace_bytes, data);
  const DeclaredUse declared(uses.data(), uses.size());
  const cuda::StreamRun launch(StreamOf(run.stream));
  const cuda::OpRun op = {run, data, launch, cuda::Workspace(run.workspace)};
  ready.launch(op);
  ready.kernels->Keep(launch.error(), RowOf(run.node.op).name);
  ready.kernels->Keep(op.status, RowOf(run.node.op).name);
}

void CudaKernels::Keep(cudaError_t error, const char* what) const {
  if (error == cudaSuccess) return;
  Keep(absl::InternalError(cuda::ErrorText(error)), what);
}

void CudaKernels::Keep(const absl::Status& status, const char* what) const {
  if (status.ok() || !error_.ok()) return;
  error_ =
      absl::Status(status.code(), absl::StrCat("the launch of ", what, ": ", status.message()));
}

absl::Status CudaKernels::FirstError(const void* self) {
  return std::exchange(static_cast<const CudaKernels*>(self)->error_, absl::OkStatus());
}

// Computed in doubles on the host, which has time for it.
absl::StatusOr<const float*> CudaKernels::RotaryTable(int gpu, const RotaryKey& key) {
  const float*& table = gpus_[gpu].rotary[key];
  if (table != nullptr) return table;
  const auto& [first, positions, half, theta] = key;
  std::vector<float> values(static_cast<size_t>(2 * positions * half));
  cuda::RunOnHost(cuda::RotaryTable{values.data(), values.data() + positions * half, positions,
                                    half, theta, first},
                  32);
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  SL_ASSIGN_OR_RETURN(void* const memory, device_->AllocateOn(gpu, bytes));
  SL_RETURN_IF_ERROR(device_->CopyNow(memory, values.data(), bytes));
  table = static_cast<const float*>(memory);
  return table;
}

absl::Status CudaKernels::Prepare(absl::Span<const ParamBlock> blocks) {
  if (blocks.empty()) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(cuda::ParamList list, cuda::ParamList::Make(blocks, device_));
  std::vector<StringlineUse> sums = UsesOf(blocks, list, false);
  std::vector<StringlineUse> update = UsesOf(blocks, list, true);
  lists_.insert_or_assign(blocks.data(),
                          ReadyList{std::move(list), std::move(sums), std::move(update)});
  return absl::OkStatus();
}

CudaKernels::ReadyList& CudaKernels::ListOf(absl::Span<const ParamBlock> blocks) {
  const auto found = lists_.find(blocks.data());
  SL_CHECK(found != lists_.end()) << "a list of parameters that was not prepared";
  return found->second;
}

void CudaKernels::Copy(void* to, const void* from, int64_t bytes, NativeStream stream) {
  Keep(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, StreamOf(stream)),
       "copy");
}

void CudaKernels::Add(float* to, const float* from, int64_t count, NativeStream stream) {
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  const DeclaredUse declared = {{from, bytes, 0}, {to, bytes, 1}};
  Keep(cuda::Launch(StreamOf(stream), cuda::Add<float>{to, from, to, count}), "add");
}

void CudaKernels::ClearBehind(const CountedRows& rows, NativeStream stream) {
  const DeclaredUse declared = {
      {rows.rows, static_cast<size_t>(rows.most_rows * rows.row_bytes), 1},
      {rows.counts, static_cast<size_t>(rows.how_many) * sizeof(int32_t), 0}};
  // Rows of bf16 may have an odd length.
  const bool words = rows.row_bytes % static_cast<int64_t>(sizeof(float)) == 0;
  const auto clear = [&](auto* first) {
    using T = std::remove_pointer_t<decltype(first)>;
    return cuda::Launch(StreamOf(stream),
                        cuda::ClearBehind<T>{first, rows.counts, rows.how_many, rows.most_rows,
                                             rows.row_bytes / static_cast<int64_t>(sizeof(T))});
  };
  Keep(words ? clear(reinterpret_cast<float*>(rows.rows))
             : clear(reinterpret_cast<cuda::Bf16*>(rows.rows)),
       "clearing rows");
}

void CudaKernels::SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                               NativeStream stream) {
  if (blocks.empty()) return;
  const cuda::StreamRun launch(StreamOf(stream));
  ReadyList& ready = ListOf(blocks);
  if (!ready.sums.empty()) ready.sums.front() = {sums, blocks.size() * sizeof(double), 1};
  const DeclaredUse declared(ready.sums.data(), ready.sums.size());
  ready.list.SumOfSquares(launch, sums);
  Keep(launch.error(), "the sum of squares");
}

void CudaKernels::Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
                         NativeStream stream) {
  if (blocks.empty()) return;
  const cuda::StreamRun launch(StreamOf(stream));
  ReadyList& ready = ListOf(blocks);
  if (!ready.update.empty()) ready.update.front() = {&step, sizeof step, 0};
  const DeclaredUse declared(ready.update.data(), ready.update.size());
  ready.list.Update(launch, step);
  Keep(launch.error(), "the update");
}

}  // namespace stringline
