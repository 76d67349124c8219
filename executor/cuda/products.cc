// A shape is described to the library once, and the library's first choice is kept in a table that
// the GPUs of a process share. A run only fills in pointers. A product without terms is a copy or a
// fill, without the library.
#include "executor/cuda/products.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/cublas_lt.h"
#include "executor/cuda/cuda_error.h"
#include "executor/cuda/product_descriptors.h"
#include "executor/cuda/run_on_zeros.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

struct Product {
  ProductShape shape;
  bool is_empty = false;   // no outputs
  bool has_terms = false;  // otherwise all sums are zero, without the library
  ProductDescriptors descriptors;
  cublasLtMatmulAlgo_t algorithm;
  int64_t workspace_bytes = 0;
  std::string text;  // the algorithm, for people
};

struct Products::Table {
  absl::Status Checked(cublasStatus_t status, const char* call) const {
    return CheckedCall(library, status, call);
  }
  absl::Status FindAlgorithm(cublasLtHandle_t handle, Product* product) const;
  absl::Status Prepare(cublasLtHandle_t handle, Product* product) const;

  CublasLt library;
  int32_t sms = 0;  // 0: all
  bool load = false;
  std::mutex mutex;  // guards the members below
  absl::flat_hash_map<ProductShape, std::unique_ptr<const Product>> products;
  std::map<std::string, std::string> refused;  // lines for people, by refused shape
};

struct Products::Handle {
  explicit Handle(const CublasLt& library) : library(library) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (handle != nullptr) (void)library.cublasLtDestroy(handle);
  }
  const CublasLt& library;
  cublasLtHandle_t handle = nullptr;
};

namespace {

constexpr int64_t kAuxiliaryMultiple = 8;  // of CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD

absl::Status AboutProduct(const ProductShape& shape, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(ToString(shape), ": ", status.message()));
}

absl::Status CheckShape(const ProductShape& shape) {
  if (std::min({shape.rows, shape.inputs, shape.outputs}) < 0) {
    return absl::InvalidArgumentError("a size is negative");
  }
  const bool forward = shape.kind == ProductKind::kForward;
  if ((shape.bias || shape.residual) && !forward) {
    return absl::InvalidArgumentError("only forward products have a bias or a residual");
  }
  if (shape.accumulate && shape.kind != ProductKind::kWeightGrad) {
    return absl::InvalidArgumentError("only gradients of weights are accumulated");
  }
  if (shape.gelu_grad && (shape.kind != ProductKind::kInputGrad || !shape.bf16)) {
    return absl::InvalidArgumentError("only gradients of inputs in bf16 go through a GELU");
  }
  if (shape.gelu_grad && shape.inputs % kAuxiliaryMultiple != 0) {
    return absl::UnimplementedError(absl::StrCat("rows of u are multiples of ", kAuxiliaryMultiple,
                                                 " numbers for the library"));
  }
  if (shape.bias && shape.inputs == 0) {
    return absl::InvalidArgumentError("a bias without inputs is not supported");
  }
  return absl::OkStatus();
}

absl::Status CheckCudaCall(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", ErrorText(error)));
}

// Checks that exactly the pointers needed by the product are given, with the promised alignment.
absl::Status CheckPointers(const Product& product, const ProductRun& run) {
  static constexpr const char* kNames[][3] = {
      {"x", "w", "y"}, {"dy", "w", "dx"}, {"dy", "x", "dw"}};
  const ProductShape& shape = product.shape;
  const auto& names = kNames[static_cast<int>(shape.kind)];
  const struct {
    const char* name;
    const void* at;
    bool needed, refused;
  } pointers[] = {
      {names[0], run.a, product.has_terms, false},
      {names[1], run.b, product.has_terms, false},
      {names[2], run.out, true, false},
      {"the bias", run.bias, shape.bias, !shape.bias},
      {"z", run.residual, shape.residual, !shape.residual},
      {"u", run.gelu_input, shape.gelu_grad, !shape.gelu_grad},
      {"the workspace", run.workspace, product.workspace_bytes > 0, false},
  };
  for (const auto& pointer : pointers) {
    if (pointer.needed && pointer.at == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(pointer.name, " is missing"));
    }
    if (pointer.refused && pointer.at != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(pointer.name, " is not part of it"));
    }
    const int64_t alignment =
        pointer.at == run.workspace ? Products::kWorkspaceAlignment : Products::kAlignment;
    if (reinterpret_cast<uintptr_t>(pointer.at) % static_cast<uintptr_t>(alignment) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(pointer.name, " is not aligned to ", alignment, " bytes"));
    }
  }
  return absl::OkStatus();
}

size_t OutputBytes(const ProductShape& shape) {
  const ProductMapping mapping = MappingOf(shape);
  const bool half = shape.bf16 && shape.kind != ProductKind::kWeightGrad;
  return static_cast<size_t>(mapping.m * mapping.n) * (half ? 2 : 4);
}

// Sums without terms: out = 0, out = z, or out unchanged.
absl::Status RunWithoutTerms(const ProductShape& shape, const ProductRun& run,
                             cudaStream_t stream) {
  const size_t bytes = OutputBytes(shape);
  if (shape.accumulate || run.residual == run.out) return absl::OkStatus();
  if (shape.residual) {
    return CheckCudaCall(
        cudaMemcpyAsync(run.out, run.residual, bytes, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  }
  return CheckCudaCall(cudaMemsetAsync(run.out, 0, bytes, stream), "cudaMemsetAsync");
}

}  // namespace

absl::Status Products::Table::FindAlgorithm(cublasLtHandle_t handle, Product* product) const {
  cublasLtMatmulPreferenceOpaque_t preference;
  SL_RETURN_IF_ERROR(DescribePreference(library, &preference));
  ProductDescriptors& made = product->descriptors;
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  SL_RETURN_IF_ERROR(Checked(
      library.cublasLtMatmulAlgoGetHeuristic(handle, &made.operation, &made.a, &made.b, &made.d,
                                             &made.d, &preference, 1, &result, &found),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (found < 1) {
    return absl::UnimplementedError("cublasLtMatmulAlgoGetHeuristic: it knows no algorithm");
  }
  SL_RETURN_IF_ERROR(Checked(result.state, "the result of cublasLtMatmulAlgoGetHeuristic"));
  product->algorithm = result.algo;
  product->workspace_bytes = static_cast<int64_t>(result.workspaceSize);
  return absl::OkStatus();
}

absl::Status Products::Table::Prepare(cublasLtHandle_t handle, Product* product) const {
  const ProductMapping mapping = MappingOf(product->shape);
  product->is_empty = mapping.m == 0 || mapping.n == 0;
  product->has_terms = mapping.k > 0;
  if (product->is_empty || !product->has_terms) {
    product->text = "no algorithm";
    return absl::OkStatus();
  }
  SL_RETURN_IF_ERROR(DescribeProduct(library, product->shape, sms, &product->descriptors));
  SL_RETURN_IF_ERROR(FindAlgorithm(handle, product));
  const auto add = [this, product](const char* name, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                   auto value) {
    size_t written = 0;
    SL_RETURN_IF_ERROR(Checked(library.cublasLtMatmulAlgoConfigGetAttribute(
                                   &product->algorithm, attribute, &value, sizeof(value), &written),
                               "cublasLtMatmulAlgoConfigGetAttribute"));
    absl::StrAppend(&product->text, name, " ", value, ", ");
    return absl::OkStatus();
  };
  SL_RETURN_IF_ERROR(add("algorithm", CUBLASLT_ALGO_CONFIG_ID, int32_t{0}));
  SL_RETURN_IF_ERROR(add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t{0}));
  SL_RETURN_IF_ERROR(add("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, uint32_t{0}));
  SL_RETURN_IF_ERROR(add("split-k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t{0}));
  absl::StrAppend(&product->text, "workspace ", product->workspace_bytes, " bytes");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Products>> Products::Make(int sms, bool load) {
  auto table = std::make_shared<Table>();
  table->sms = sms;
  table->load = load;
  SL_ASSIGN_OR_RETURN(table->library, CublasLt::Open());
  return MakeWith(std::move(table));
}

absl::StatusOr<std::unique_ptr<Products>> Products::ForAnotherGpu() const {
  return MakeWith(table_);
}

absl::StatusOr<std::unique_ptr<Products>> Products::MakeWith(std::shared_ptr<Table> table) {
  auto handle = std::make_unique<Handle>(table->library);
  const cublasStatus_t created = table->library.cublasLtCreate(&handle->handle);
  if (created == CUBLAS_STATUS_SUCCESS) {
    return std::unique_ptr<Products>(new Products(std::move(table), std::move(handle)));
  }
  handle->handle = nullptr;
  const absl::Status status = table->Checked(created, "cublasLtCreate");
  if (created != CUBLAS_STATUS_NOT_INITIALIZED) return status;
  return absl::UnavailableError(absl::StrCat("cuBLASLt finds no GPU: ", status.message()));
}

Products::Products(std::shared_ptr<Table> table, std::unique_ptr<Handle> handle)
    : table_(std::move(table)), handle_(std::move(handle)) {}
Products::~Products() = default;

absl::StatusOr<const Product*> Products::Choose(const ProductShape& shape) {
  const std::lock_guard<std::mutex> lock(table_->mutex);
  std::unique_ptr<const Product>& place = table_->products[shape];
  if (place != nullptr) return place.get();
  auto product = std::make_unique<Product>();
  product->shape = shape;
  absl::Status status = CheckShape(shape);
  if (status.ok()) status = table_->Prepare(handle_->handle, product.get());
  if (status.ok() && table_->load) status = Load(product.get());
  if (!status.ok()) {
    table_->products.erase(shape);
    return AboutProduct(shape, status);
  }
  place = std::move(product);
  return place.get();
}

// On zeros, with all matrices in one piece of memory that is freed again.
absl::Status Products::Load(const Product* product) const {
  const ProductShape& shape = product->shape;
  const ProductMapping mapping = MappingOf(shape);
  constexpr int64_t kMostElementBytes = 4;
  const auto bytes_of = [](int64_t rows, int64_t columns) {
    return kMostElementBytes * rows * columns;
  };
  const int64_t out_bytes = bytes_of(mapping.m, mapping.n);
  const std::vector<int64_t> sizes = {bytes_of(mapping.b_rows(), mapping.b_columns()),
                                      bytes_of(mapping.a_rows(), mapping.a_columns()),
                                      out_bytes,
                                      out_bytes,
                                      bytes_of(shape.outputs, 1),
                                      product->workspace_bytes};
  return RunOnZeros(sizes, [&](absl::Span<char* const> at, cudaStream_t stream) {
    ProductRun run = {at[0], at[1], at[2]};
    if (shape.residual) run.residual = at[3];
    if (shape.gelu_grad) run.gelu_input = at[3];
    if (shape.bias) run.bias = at[4];
    run.workspace = at[5];
    return Run(product, run, stream);
  });
}

const Product* Products::ChooseIfThere(const ProductShape& shape) {
  const absl::StatusOr<const Product*> product = Choose(shape);
  if (product.ok()) return *product;
  KeepRefusal(shape, "not in one", product.status());
  return nullptr;
}

absl::StatusOr<const Product*> Products::ChooseUnlessRefused(const ProductShape& shape) {
  absl::StatusOr<const Product*> product = Choose(shape);
  if (!absl::IsUnimplemented(product.status())) return product;
  KeepRefusal(shape, "by our own kernel", product.status());
  return nullptr;
}

void Products::KeepRefusal(const ProductShape& shape, const char* instead,
                           const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(table_->mutex);
  table_->refused[ToString(shape)] = absl::StrCat(instead, ": ", why.message());
}

int64_t Products::WorkspaceBytes(const Product* product) { return product->workspace_bytes; }

absl::Status Products::Run(const Product* product, const ProductRun& run,
                           cudaStream_t stream) const {
  const ProductShape& shape = product->shape;
  if (product->is_empty) return absl::OkStatus();
  if (const absl::Status status = CheckPointers(*product, run); !status.ok()) {
    return AboutProduct(shape, status);
  }
  if (!product->has_terms) {
    const absl::Status status = RunWithoutTerms(shape, run, stream);
    return status.ok() ? status : AboutProduct(shape, status);
  }
  // A copy, since concurrent runs of the product may have another bias or u.
  ProductDescriptors made = product->descriptors;
  if (shape.bias || shape.gelu_grad) {
    const void* const pointer = shape.bias ? run.bias : run.gelu_input;
    const absl::Status status =
        table_->Checked(table_->library.cublasLtMatmulDescSetAttribute(
                            &made.operation,
                            shape.bias ? CUBLASLT_MATMUL_DESC_BIAS_POINTER
                                       : CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                            &pointer, sizeof(pointer)),
                        "cublasLtMatmulDescSetAttribute");
    if (!status.ok()) return AboutProduct(shape, status);
  }
  const float one = 1, beta = shape.accumulate || shape.residual ? 1 : 0;
  const absl::Status status = table_->Checked(
      table_->library.cublasLtMatmul(handle_->handle, &made.operation, &one, run.b, &made.a, run.a,
                                     &made.b, &beta, shape.residual ? run.residual : run.out,
                                     &made.d, run.out, &made.d, &product->algorithm, run.workspace,
                                     static_cast<size_t>(product->workspace_bytes), stream),
      "cublasLtMatmul");
  return status.ok() ? status : AboutProduct(shape, status);
}

void Products::Abandon() { handle_->handle = nullptr; }

std::string Products::Describe() const {
  const std::lock_guard<std::mutex> lock(table_->mutex);
  std::vector<const Product*> products;
  for (const auto& [shape, product] : table_->products) products.push_back(product.get());
  const auto key = [](const Product* product) {
    const ProductShape& s = product->shape;
    return std::tuple(s.bf16, s.kind, s.rows, s.inputs, s.outputs, s.bias, s.residual, s.accumulate,
                      s.gelu_grad);
  };
  std::sort(products.begin(), products.end(),
            [&key](const Product* a, const Product* b) { return key(a) < key(b); });
  std::string text = absl::StrCat("cuBLASLt ", table_->library.cublasLtGetVersion(), "\n");
  for (const Product* const product : products) {
    absl::StrAppend(&text, ToString(product->shape), ": ", product->text, "\n");
  }
  for (const auto& [shape, line] : table_->refused) absl::StrAppend(&text, line, "\n");
  return text;
}

}  // namespace stringline::cuda
