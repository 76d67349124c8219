// A product is three loops in double precision. All other code detects misuse: shapes, alignment,
// overlaps, an algorithm found for another problem. Liberties of the library that are not forbidden
// are taken: sums are split, and their parts rounded.
#include "cublas_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "standin.h"

namespace standin {
namespace {

struct Extent {
  const char* name;
  const void* at;
  size_t bytes;
};

// Bytes of an entry; 0 for unknown types.
size_t SizeOf(cudaDataType type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 0; }

size_t BytesOf(const CublasLayout& layout) {
  return static_cast<size_t>((layout.columns - 1) * layout.ld + layout.rows) * SizeOf(layout.type);
}

// Entry i; bf16 is the upper half of a float's bits.
float Entry(const void* at, cudaDataType type, int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(at)[i];
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(at)[i]} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounded once, to nearest even.
void SetEntry(void* at, cudaDataType type, int64_t i, double value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(at)[i] = static_cast<float>(value);
    return;
  }
  uint16_t* const entry = static_cast<uint16_t*>(at) + i;
  if (!std::isfinite(value)) {
    *entry = std::isnan(value) ? 0x7FFF : value > 0 ? 0x7F80 : 0xFF80;
    return;
  }
  // Eight bits of the fraction; subnormal numbers have fewer.
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  const int unit = std::max(exponent, -125) - 8;
  const auto rounded =
      static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit));
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  *entry = static_cast<uint16_t>(bits >> 16);
}

double InTypeOf(cudaDataType type, double value) {
  float entry = 0;  // large enough for any
  SetEntry(&entry, type, 0, value);
  return Entry(&entry, type, 0);
}

// The derivative of x (1 + tanh(u)) / 2, u = sqrt(2/pi) (x + 0.044715 x^3).
double GeluSlope(double x) {
  const double root = std::sqrt(2 / M_PI);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x) / 2;
}

bool Overlap(const Extent& x, const Extent& y) {
  const auto* const x_at = static_cast<const char*>(x.at);
  const auto* const y_at = static_cast<const char*>(y.at);
  return x_at < y_at + y.bytes && y_at < x_at + x.bytes;
}

cublasStatus_t Refuse(const char* what, const char* why) {
  std::fprintf(stderr, "stand-in: %s of a product %s\n", what, why);
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

// The greatest power of two up to 256 that divides the address.
uint32_t AlignmentOf(const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace

cublasStatus_t CublasProblem::Read(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout,
                                   cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
                                   cublasLtMatrixLayout_t d_layout) {
  if (!Opened(desc, &operation) || !Opened(a_layout, &a) || !Opened(b_layout, &b) ||
      !Opened(c_layout, &c) || !Opened(d_layout, &d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const int32_t op : {operation.transpose_a, operation.transpose_b}) {
    if (op == CUBLAS_OP_C) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (op != CUBLAS_OP_N && op != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const CublasLayout* const layout : {&a, &b, &c, &d}) {
    if (layout->rows < 1 || layout->columns < 1 || layout->ld < layout->rows) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (SizeOf(layout->type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (a.type != b.type || c.type != d.type || SizeOf(d.type) < SizeOf(a.type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool a_turned = operation.transpose_a == CUBLAS_OP_T;
  const bool b_turned = operation.transpose_b == CUBLAS_OP_T;
  m = a_turned ? a.columns : a.rows;
  k = a_turned ? a.rows : a.columns;
  n = b_turned ? b.rows : b.columns;
  if ((b_turned ? b.columns : b.rows) != k || d.rows != m || d.columns != n || c.rows != m ||
      c.columns != n) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool known_epilogue =
      operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT || operation.HasBias() || operation.HasAux();
  if (operation.HasAux()) {
    if (operation.aux_ld < m || operation.aux_ld % 8 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (d.type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!known_epilogue || operation.compute != CUBLAS_COMPUTE_32F || operation.scale != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

uint64_t CublasProblem::InShort() const {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const int64_t value :
       {m, n, k, a.ld, b.ld, c.ld, d.ld, int64_t{operation.transpose_a},
        int64_t{operation.transpose_b}, int64_t{operation.epilogue}, int64_t{operation.sms},
        operation.aux_ld, int64_t{a.type}, int64_t{d.type}}) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001B3U;
  }
  return hash;
}

// Long sums for few entries are split, and need room for their parts, which are rounded to D's type
// unless the preference excludes it: the library is free to do so.
CublasAlgorithm CublasProblem::Search(const CublasPreference& preference) const {
  CublasAlgorithm found;
  found.problem = InShort();
  found.id = 1 + static_cast<int32_t>(found.problem % 99);
  for (int i = 0; i < 4; ++i) found.alignment[i] = static_cast<uint16_t>(preference.alignment[i]);
  if (operation.HasBias()) found.bias_alignment = AlignmentOf(operation.bias);
  if (operation.HasAux()) found.aux_alignment = AlignmentOf(operation.aux);
  const uint64_t parts = static_cast<uint64_t>(m * n) * sizeof(float) * 2;
  if (k >= 32 && m * n <= 4096 && parts <= preference.most_workspace) {
    found.splits = 2;
    found.workspace = parts;
    constexpr uint32_t kInOutputType =
        CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    found.rounds_parts = (preference.reductions & kInOutputType) != 0;
  }
  return found;
}

cublasStatus_t CublasProblem::Check(const CublasAlgorithm& algorithm,
                                    size_t given_workspace) const {
  const bool has_bias = operation.HasBias(), has_aux = operation.HasAux();
  if (a_at == nullptr || b_at == nullptr || d_at == nullptr || (c_at == nullptr && beta != 0) ||
      (has_bias && operation.bias == nullptr) || (has_aux && operation.aux == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm.problem != InShort()) return CUBLAS_STATUS_NOT_SUPPORTED;
  const void* const operands[] = {a_at, b_at, c_at, d_at};
  for (int i = 0; i < 4; ++i) {
    const uint32_t promised = algorithm.alignment[i];
    if (AlignmentOf(operands[i]) < promised) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (has_bias && AlignmentOf(operation.bias) < algorithm.bias_alignment) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (has_aux && AlignmentOf(operation.aux) < algorithm.aux_alignment) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm.workspace > 0 && (workspace == nullptr || given_workspace < algorithm.workspace ||
                                  AlignmentOf(workspace) < 256)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (c_at == d_at && c.ld != d.ld) return CUBLAS_STATUS_INVALID_VALUE;

  const Extent written = {"D", d_at, BytesOf(d)};
  std::vector<Extent> read = {{"A", a_at, BytesOf(a)}, {"B", b_at, BytesOf(b)}};
  if (beta != 0 && c_at != d_at) read.push_back({"C", c_at, BytesOf(c)});
  if (has_bias) {
    read.push_back({"the bias", operation.bias, static_cast<size_t>(m) * SizeOf(d.type)});
  }
  if (has_aux) read.push_back({"the GELU's input", operation.aux, AuxBytes()});
  const Extent scratch = {"the workspace", workspace, algorithm.workspace};
  const bool has_scratch = scratch.bytes > 0;
  std::vector<Extent> all = read;
  all.push_back(written);
  if (has_scratch) all.push_back(scratch);
  for (const Extent& extent : all) {
    if (!standin_on_device(extent.at, extent.bytes)) {
      return Refuse(extent.name, "is not on the device");
    }
  }
  for (const Extent& extent : read) {
    if (Overlap(extent, written)) return Refuse(extent.name, "overlaps what it writes");
    if (has_scratch && Overlap(extent, scratch)) {
      return Refuse(extent.name, "overlaps its workspace");
    }
  }
  if (has_scratch && Overlap(written, scratch)) return Refuse("D", "overlaps its workspace");
  return CUBLAS_STATUS_SUCCESS;
}

size_t CublasProblem::AuxBytes() const {
  if (!operation.HasAux()) return 0;
  return static_cast<size_t>((n - 1) * operation.aux_ld + m) * SizeOf(d.type);
}

void CublasProblem::Run() const {
  if (workspace_bytes > 0) std::memset(workspace, 0x5A, workspace_bytes);
  const bool a_turned = operation.transpose_a == CUBLAS_OP_T;
  const bool b_turned = operation.transpose_b == CUBLAS_OP_T;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        if (rounds_parts && l == k / 2) sum = InTypeOf(d.type, sum);
        const double left = Entry(a_at, a.type, a_turned ? l + i * a.ld : i + l * a.ld);
        const double right = Entry(b_at, b.type, b_turned ? j + l * b.ld : l + j * b.ld);
        sum += left * right;
      }
      if (rounds_parts) sum = InTypeOf(d.type, sum);
      sum *= alpha;
      // With beta = 0, C is not read.
      if (beta != 0) sum += double{beta} * Entry(c_at, c.type, i + j * c.ld);
      if (operation.HasBias()) sum += Entry(operation.bias, d.type, i);
      if (operation.HasAux())
        sum *= GeluSlope(Entry(operation.aux, d.type, i + j * operation.aux_ld));
      SetEntry(d_at, d.type, i + j * d.ld, sum);
    }
  }
}

}  // namespace standin
