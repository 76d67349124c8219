// Products of rows with weights: by cuBLASLt if all rows share a matrix, with the algorithm chosen
// for their types; by bodies of our own if each row has its expert's matrix, in bf16 on tensor
// cores, or if the library refuses the shape.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "executor/cuda/backend/ops.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

// Zero without a product: bodies of our own need no workspace.
int64_t PaddedBytes(const Product* product) {
  return product == nullptr ? 0 : LibraryBytes(Products::WorkspaceBytes(product));
}

// The product by a body of our own.
template <typename T>
void RunOwnProduct(const OpRun& run, const ProductRun& operands) {
  const T *const a = run.in<T>(0), *const b = run.in<T>(1);
  const AllRows rows = {RowsOf(run.in_type(0))};
  const int64_t columns = ColumnsOf(run.in_type(0));
  switch (run.node.node.op) {
    case Op::kLinearInputGrad:
      return run.launch(
          LinearInputGrad<T>{a, b, run.out<T>(0), rows, ColumnsOf(run.out_type(0)), columns});
    case Op::kLinearWeightGrad:
      return run.launch(LinearWeightGrad<T>{a, b, run.out(0), rows, ColumnsOf(run.in_type(1)),
                                            columns, run.adds(0)});
    default:
      return run.launch(Linear<T>{a, b, run.out<T>(0), rows, columns, ColumnsOf(run.out_type(0)),
                                  static_cast<const T*>(operands.bias),
                                  static_cast<const T*>(operands.residual)});
  }
}

void RunProduct(const OpRun& run, ProductRun operands) {
  const bool adds = run.adds(0);
  if (run.data.products[adds ? 1 : 0] == nullptr) {
    const bool bf16 = run.in_type(0).dtype == DType::kBF16;
    return bf16 ? RunOwnProduct<Bf16>(run, operands) : RunOwnProduct<float>(run, operands);
  }
  operands.a = run.in(0);
  operands.b = run.in(1);
  operands.out = run.out(0);
  operands.workspace = LibraryWorkspace(run.node.workspace);
  run.status.Update(run.data.library->Run(run.data.products[adds ? 1 : 0], operands,
                                          static_cast<cudaStream_t>(run.node.stream)));
}

void LaunchPlain(const OpRun& run) { RunProduct(run, {}); }
void LaunchBias(const OpRun& run) {
  ProductRun operands = {};
  operands.bias = run.in(2);
  RunProduct(run, operands);
}
void LaunchResidual(const OpRun& run) {
  ProductRun operands = {};
  operands.bias = run.in(2);
  operands.residual = run.in(3);
  RunProduct(run, operands);
}
void LaunchLinearAdd(const OpRun& run) {
  ProductRun operands = {};
  operands.residual = run.in(2);
  RunProduct(run, operands);
}

// received (X,e) is input 2 of each of these ops.
int64_t GroupedBytes(const NodeTypes& types) {
  const Type& received = types.in(2);
  return Workspace::BytesOf({GroupedPlanIntegers(received.shape[0], received.shape[1])});
}
GroupedRows RowsByExpert(const OpRun& run, int64_t tile) {
  const int64_t ranks = run.in_type(2).shape[0], experts = run.in_type(2).shape[1];
  return PlanGroupedRows(run.launch, run.integers_in(2), run.in_type(0).shape[0], ranks, experts,
                         run.workspace.Take<int32_t>(GroupedPlanIntegers(ranks, experts)), tile);
}

// On tensor cores where that fits: in bf16, by the sizes of `weights` alone, since buffers are
// aligned.
template <typename T>
bool OnTensorCores(const OpRun& run, const Type& weights) {
  return std::is_same_v<T, Bf16> &&
         TensorProductsFit(weights.shape[2], weights.shape[1], run.in(0), run.in(1), run.out(0));
}

template <typename T>
void LaunchGroupedLinear(const OpRun& run) {
  const Type& w = run.in_type(1);
  if (OnTensorCores<T>(run, w)) {
    return run.launch(GroupedTensorLinear{run.in<Bf16>(0), run.in<Bf16>(1), run.out<Bf16>(0),
                                          RowsByExpert(run, kTensorRows), w.shape[2], w.shape[1]});
  }
  run.launch(GroupedLinear<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0),
                              RowsByExpert(run, kProductTile), w.shape[2], w.shape[1]});
}

template <typename T>
void LaunchGroupedLinearInputGrad(const OpRun& run) {
  const Type& w = run.in_type(1);
  if (OnTensorCores<T>(run, w)) {
    return run.launch(GroupedTensorInputGrad{run.in<Bf16>(0), run.in<Bf16>(1), run.out<Bf16>(0),
                                             RowsByExpert(run, kTensorRows), w.shape[2],
                                             w.shape[1]});
  }
  run.launch(GroupedLinearInputGrad<T>{run.in<T>(0), run.in<T>(1), run.out<T>(0),
                                       RowsByExpert(run, kProductTile), w.shape[2], w.shape[1]});
}

template <typename T>
void LaunchGroupedLinearWeightGrad(const OpRun& run) {
  const Type& dw = run.out_type(0);
  if (OnTensorCores<T>(run, dw)) {
    return run.launch(GroupedTensorWeightGrad{run.in<Bf16>(0), run.in<Bf16>(1), run.out(0),
                                              RowsByExpert(run, kTensorRows), dw.shape[2],
                                              dw.shape[1], run.adds(0)});
  }
  run.launch(GroupedLinearWeightGrad<T>{run.in<T>(0), run.in<T>(1), run.out(0),
                                        RowsByExpert(run, kProductTile), dw.shape[2], dw.shape[1],
                                        run.adds(0)});
}

}  // namespace

OpLaunch ProductLaunch(Op op) {
  switch (op) {
    case Op::kLinear:
    case Op::kLinearInputGrad:
    case Op::kLinearWeightGrad:
      return {LaunchPlain, LaunchPlain};
    case Op::kLinearBias:
      return {LaunchBias, LaunchBias};
    case Op::kLinearResidual:
      return {LaunchResidual, LaunchResidual};
    case Op::kLinearAdd:
      return {LaunchLinearAdd, LaunchLinearAdd};
    case Op::kGroupedLinear:
      return {LaunchGroupedLinear<float>, LaunchGroupedLinear<Bf16>, GroupedBytes};
    case Op::kGroupedLinearInputGrad:
      return {LaunchGroupedLinearInputGrad<float>, LaunchGroupedLinearInputGrad<Bf16>,
              GroupedBytes};
    case Op::kGroupedLinearWeightGrad:
      return {LaunchGroupedLinearWeightGrad<float>, LaunchGroupedLinearWeightGrad<Bf16>,
              GroupedBytes};
    default:
      return {};
  }
}

void LaunchProductWithGelu(const OpRun& run) {
  ProductRun operands = {};
  operands.gelu_input = run.in(2);
  RunProduct(run, operands);
}

bool ChooseProductWithGelu(const NodeTypes& product, Products* library, NodeData* data,
                           int64_t* workspace_bytes) {
  // In float32 the library's GELU is less exact than our own.
  if (product.out(0).dtype != DType::kBF16) return false;
  ProductShape shape = {ProductKind::kInputGrad, RowsOf(product.in(0)), ColumnsOf(product.out(0)),
                        ColumnsOf(product.in(0))};
  shape.bf16 = shape.gelu_grad = true;
  data->products[0] = library->ChooseIfThere(shape);
  if (data->products[0] == nullptr) return false;
  data->library = library;
  *workspace_bytes = PaddedBytes(data->products[0]);
  return true;
}

std::optional<ProductShape> ProductShapeOf(const NodeTypes& types) {
  ProductShape shape = {};
  switch (types.node.op) {
    case Op::kLinear:
    case Op::kLinearBias:
    case Op::kLinearResidual:
    case Op::kLinearAdd: {
      const bool both = types.node.op == Op::kLinearResidual;
      shape.kind = ProductKind::kForward;
      shape.bias = both || types.node.op == Op::kLinearBias;
      shape.residual = both || types.node.op == Op::kLinearAdd;
      shape.inputs = ColumnsOf(types.in(0));
      shape.outputs = ColumnsOf(types.out(0));
      break;
    }
    case Op::kLinearInputGrad:
      shape.kind = ProductKind::kInputGrad;
      shape.inputs = ColumnsOf(types.out(0));
      shape.outputs = ColumnsOf(types.in(0));
      break;
    case Op::kLinearWeightGrad:
      shape.kind = ProductKind::kWeightGrad;
      shape.inputs = ColumnsOf(types.in(1));
      shape.outputs = ColumnsOf(types.in(0));
      break;
    default:
      return std::nullopt;
  }
  shape.rows = RowsOf(types.in(0));
  shape.bf16 = types.in(0).dtype == DType::kBF16;
  return shape;
}

absl::Status ChooseProducts(const NodeTypes& types, Products* library, NodeData* data,
                            int64_t* workspace_bytes) {
  const std::optional<ProductShape> found = ProductShapeOf(types);
  if (!found.has_value()) return absl::OkStatus();
  ProductShape shape = *found;
  data->library = library;
  SL_ASSIGN_OR_RETURN(data->products[0], library->ChooseUnlessRefused(shape));
  *workspace_bytes = PaddedBytes(data->products[0]);
  if (shape.kind != ProductKind::kWeightGrad) return absl::OkStatus();
  shape.accumulate = true;
  SL_ASSIGN_OR_RETURN(data->products[1], library->ChooseUnlessRefused(shape));
  *workspace_bytes = std::max(*workspace_bytes, PaddedBytes(data->products[1]));
  return absl::OkStatus();
}

}  // namespace stringline::cuda
