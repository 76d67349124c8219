// The stand-in for cuBLASLt. Each function counts itself, fails on demand, and checks its arguments
// like the library. Its opaque structs hold ours (cublas_problem.h); a product is enqueued on its
// stream with its reads and writes.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cublas_problem.h"
#include "cublas_standin.h"
#include "executor/cuda/declared_use.h"
#include "standin.h"

namespace {

using standin::CublasAlgorithm;
using standin::CublasLayout;
using standin::CublasOperation;
using standin::CublasPreference;
using standin::CublasProblem;
using standin::Opened;
using standin::Sealed;

struct CublasState {
  std::mutex mutex;
  int64_t calls = 0, fail_at = 0;
  cublasStatus_t fail_with = CUBLAS_STATUS_SUCCESS;
  const char* failed_call = nullptr;
  int64_t searches = 0, products = 0;
  int find_count = 1;
  cublasStatus_t find_state = CUBLAS_STATUS_SUCCESS;
  int32_t sms = 0;
  std::vector<std::array<int64_t, 3>> refused;  // m, n and k; 0: any
  std::map<cublasLtHandle_t, int> handles;      // with their GPUs
};

CublasState& State() {
  static auto* const state = new CublasState;
  return *state;
}

cublasStatus_t Enter(const char* name) {
  CublasState& state = State();
  if (++state.calls != state.fail_at) return CUBLAS_STATUS_SUCCESS;
  state.failed_call = name;
  return state.fail_with;
}

// During its lifetime, this thread is in the stand-in.
struct InsideLibrary {
  InsideLibrary() { standin_enter(1); }
  ~InsideLibrary() { standin_enter(-1); }
};

// The extent from the first number of a matrix to its last.
size_t BytesOf(const CublasLayout& layout) {
  if (layout.rows == 0 || layout.columns == 0) return 0;
  const size_t size = layout.type == CUDA_R_32F ? 4 : 2;
  return static_cast<size_t>((layout.columns - 1) * layout.ld + layout.rows) * size;
}

bool IsRefused(const CublasProblem& problem) {
  const int64_t sizes[] = {problem.m, problem.n, problem.k};
  const auto is = [&sizes](const std::array<int64_t, 3>& refused) {
    return std::equal(refused.begin(), refused.end(), sizes,
                      [](int64_t which, int64_t size) { return which == 0 || which == size; });
  };
  return std::any_of(State().refused.begin(), State().refused.end(), is);
}

// Reads the value of an attribute.
template <class T>
cublasStatus_t Take(const void* buffer, size_t bytes, T* value) {
  if (buffer == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, buffer, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

// Takes the lock, and returns if the call is to fail.
#define CUBLAS_ENTER(name)                                      \
  const InsideLibrary inside;                                   \
  const std::lock_guard<std::mutex> cublas_lock(State().mutex); \
  if (const cublasStatus_t entered = Enter(name); entered != CUBLAS_STATUS_SUCCESS) return entered

extern "C" {

void standin_cublas_reset() {
  CublasState& state = State();
  for (const auto& [handle, gpu] : state.handles) std::free(handle);
  state.handles.clear();
  state.calls = state.fail_at = state.searches = state.products = 0;
  state.failed_call = nullptr;
  state.sms = 0;
  state.find_count = 1;
  state.find_state = CUBLAS_STATUS_SUCCESS;
  state.refused.clear();
}
void standin_cublas_fail_call(int64_t n, int status) {
  State().calls = 0;
  State().fail_at = n;
  State().fail_with = static_cast<cublasStatus_t>(status);
  State().failed_call = nullptr;
}
int64_t standin_cublas_calls() { return State().calls; }
const char* standin_cublas_failed_call() { return State().failed_call; }
int64_t standin_cublas_searches() { return State().searches; }
int64_t standin_cublas_products() { return State().products; }
int32_t standin_cublas_sms() { return State().sms; }
int64_t standin_cublas_handles() { return static_cast<int64_t>(State().handles.size()); }
void standin_cublas_find(int count, int state) {
  State().find_count = count;
  State().find_state = static_cast<cublasStatus_t>(state);
}

void standin_cublas_refuse(int64_t m, int64_t n, int64_t k) {
  State().refused.push_back({m, n, k});
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  CUBLAS_ENTER("cublasLtCreate");
  *handle = static_cast<cublasLtHandle_t>(std::malloc(1));
  State().handles[*handle] = standin_current_device();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  CUBLAS_ENTER("cublasLtDestroy");
  if (State().handles.erase(handle) == 0) return CUBLAS_STATUS_INVALID_VALUE;
  standin_wait();
  std::free(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define CUBLAS_NAME(name) \
  case name:              \
    return #name
    CUBLAS_NAME(CUBLAS_STATUS_SUCCESS);
    CUBLAS_NAME(CUBLAS_STATUS_NOT_INITIALIZED);
    CUBLAS_NAME(CUBLAS_STATUS_ALLOC_FAILED);
    CUBLAS_NAME(CUBLAS_STATUS_INVALID_VALUE);
    CUBLAS_NAME(CUBLAS_STATUS_ARCH_MISMATCH);
    CUBLAS_NAME(CUBLAS_STATUS_MAPPING_ERROR);
    CUBLAS_NAME(CUBLAS_STATUS_EXECUTION_FAILED);
    CUBLAS_NAME(CUBLAS_STATUS_INTERNAL_ERROR);
    CUBLAS_NAME(CUBLAS_STATUS_NOT_SUPPORTED);
    CUBLAS_NAME(CUBLAS_STATUS_LICENSE_ERROR);
#undef CUBLAS_NAME
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  CUBLAS_ENTER("cublasLtMatmulDescInit_internal");
  if (bytes < sizeof(*desc)) return CUBLAS_STATUS_ALLOC_FAILED;
  CublasOperation operation;
  operation.compute = compute;
  operation.scale = scale;
  Sealed(operation, desc);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* buffer, size_t bytes) {
  CUBLAS_ENTER("cublasLtMatmulDescSetAttribute");
  CublasOperation operation;
  if (!Opened(desc, &operation)) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      status = Take(buffer, bytes, &operation.transpose_a);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      status = Take(buffer, bytes, &operation.transpose_b);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      status = Take(buffer, bytes, &operation.epilogue);
      break;
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      status = Take(buffer, bytes, &operation.sms);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      status = Take(buffer, bytes, &operation.bias);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      status = Take(buffer, bytes, &operation.aux);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      status = Take(buffer, bytes, &operation.aux_ld);
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (status == CUBLAS_STATUS_SUCCESS) Sealed(operation, desc);
  return status;
}

// Like the library, accepts any numbers; they are checked later.
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  CUBLAS_ENTER("cublasLtMatrixLayoutInit_internal");
  if (bytes < sizeof(*layout)) return CUBLAS_STATUS_ALLOC_FAILED;
  CublasLayout made;
  made.type = type;
  made.rows = static_cast<int64_t>(rows);
  made.columns = static_cast<int64_t>(columns);
  made.ld = ld;
  Sealed(made, layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t bytes) {
  CUBLAS_ENTER("cublasLtMatmulPreferenceInit_internal");
  if (bytes < sizeof(*preference)) return CUBLAS_STATUS_ALLOC_FAILED;
  Sealed(CublasPreference(), preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* buffer, size_t bytes) {
  CUBLAS_ENTER("cublasLtMatmulPreferenceSetAttribute");
  CublasPreference made;
  if (!Opened(preference, &made)) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      status = Take(buffer, bytes, &made.most_workspace);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      status = Take(buffer, bytes, &made.reductions);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      status = Take(buffer, bytes, &made.alignment[0]);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      status = Take(buffer, bytes, &made.alignment[1]);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      status = Take(buffer, bytes, &made.alignment[2]);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      status = Take(buffer, bytes, &made.alignment[3]);
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (status == CUBLAS_STATUS_SUCCESS) Sealed(made, preference);
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  CUBLAS_ENTER("cublasLtMatmulAlgoGetHeuristic");
  CublasPreference wanted;
  if (State().handles.count(handle) == 0 || most < 1 || results == nullptr || found == nullptr ||
      !Opened(preference, &wanted)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 0;
  if (standin_capturing()) return CUBLAS_STATUS_INTERNAL_ERROR;
  CublasProblem problem;
  const cublasStatus_t status = problem.Read(operation, a, b, c, d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  ++State().searches;
  *found = IsRefused(problem) ? 0 : State().find_count;
  results[0] = {};
  results[0].state = State().find_state;
  if (*found == 0 || results[0].state != CUBLAS_STATUS_SUCCESS) return CUBLAS_STATUS_SUCCESS;
  const CublasAlgorithm algorithm = problem.Search(wanted);
  Sealed(algorithm, &results[0].algo);
  results[0].workspaceSize = algorithm.workspace;
  results[0].wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* buffer, size_t bytes, size_t* written) {
  CUBLAS_ENTER("cublasLtMatmulAlgoConfigGetAttribute");
  CublasAlgorithm found;
  if (!Opened(algorithm, &found) || buffer == nullptr || bytes != sizeof(int32_t)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  int32_t value = 0;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      value = found.id;
      break;
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      value = CUBLASLT_MATMUL_TILE_64x64;
      break;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      value = CUBLASLT_MATMUL_STAGES_32x3;
      break;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      value = found.splits;
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  std::memcpy(buffer, &value, sizeof(value));
  if (written != nullptr) *written = sizeof(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  CUBLAS_ENTER("cublasLtMatmul");
  CublasAlgorithm algorithm;
  // A handle belongs to the GPU that was current at its creation.
  const auto found = State().handles.find(handle);
  if (found != State().handles.end() && found->second != standin_device_of_stream(stream)) {
    return CUBLAS_STATUS_ARCH_MISMATCH;
  }
  // Without an algorithm the library searches itself; callers must not rely on it.
  if (found == State().handles.end() || alpha == nullptr || beta == nullptr ||
      !Opened(algo, &algorithm)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  CublasProblem problem;
  cublasStatus_t status = problem.Read(operation, a_layout, b_layout, c_layout, d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  std::memcpy(&problem.alpha, alpha, sizeof(float));
  std::memcpy(&problem.beta, beta, sizeof(float));
  problem.a_at = a;
  problem.b_at = b;
  problem.c_at = c;
  problem.d_at = d;
  problem.workspace = static_cast<char*>(workspace);
  status = problem.Check(algorithm, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  problem.workspace_bytes = algorithm.workspace;
  problem.rounds_parts = algorithm.rounds_parts;
  // A problem stands for its kernel.
  if (!standin_capturing() &&
      standin_load(reinterpret_cast<const void*>(algorithm.problem), "a product") != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  ++State().products;
  State().sms = problem.operation.sms;
  const auto run = [problem] {
    const auto use = [](const CublasLayout& layout, const void* at, bool writes) {
      stringline_twin_uses(at, BytesOf(layout), writes ? 1 : 0);
    };
    use(problem.a, problem.a_at, false);
    use(problem.b, problem.b_at, false);
    if (problem.beta != 0) use(problem.c, problem.c_at, false);
    stringline_twin_uses(problem.operation.aux, problem.AuxBytes(), 0);
    use(problem.d, problem.d_at, true);
    stringline_twin_uses(problem.workspace, problem.workspace_bytes, 1);
    problem.Run();
  };
  return standin_enqueue(stream, "a product", run) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
