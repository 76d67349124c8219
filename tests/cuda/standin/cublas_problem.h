// A matrix product of the stand-in for cuBLASLt: its description, its faults, its numbers.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace standin {

// The contents of descriptors. Each begins with a mark of its kind, so that an uninitialised
// descriptor or another kind is detected.
struct CublasOperation {
  static constexpr uint32_t kMark = 0xC0B1A501;
  uint32_t mark = kMark;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t sms = 0;             // 0: all
  const void* bias = nullptr;  // in the type of D
  const void* aux = nullptr;   // the input of a GELU, of the type of D
  int64_t aux_ld = 0;
  bool HasBias() const { return epilogue == CUBLASLT_EPILOGUE_BIAS; }
  bool HasAux() const { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
};
struct CublasLayout {
  static constexpr uint32_t kMark = 0xC0B1A502;
  uint32_t mark = kMark;
  cudaDataType type;
  int64_t rows, columns, ld;
};
struct CublasPreference {
  static constexpr uint32_t kMark = 0xC0B1A503;
  uint32_t mark = kMark;
  uint32_t alignment[4] = {256, 256, 256, 256};  // for A, B, C and D
  uint64_t most_workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;  // allowed ways to add parts of split sums
};
struct CublasAlgorithm {
  static constexpr uint32_t kMark = 0xC0B1A504;
  uint32_t mark = kMark;
  int32_t id = 0, splits = 1;
  uint32_t bias_alignment = 1, aux_alignment = 1;
  uint64_t problem = 0;  // a hash of its problem
  uint64_t workspace = 0;
  uint16_t alignment[4] = {};
  bool rounds_parts = false;  // for a split sum, to the type of D
};

template <class T, class Opaque>
void Sealed(const T& value, Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  std::memset(opaque, 0, sizeof(Opaque));
  std::memcpy(opaque, &value, sizeof(T));
}
template <class T, class Opaque>
bool Opened(const Opaque* opaque, T* value) {
  if (opaque == nullptr) return false;
  std::memcpy(static_cast<void*>(value), opaque, sizeof(T));
  return value->mark == T::kMark;
}

struct CublasProblem {
  CublasOperation operation;
  CublasLayout a, b, c, d;
  int64_t m, n, k;
  float alpha = 1, beta = 0;
  const void *a_at = nullptr, *b_at = nullptr, *c_at = nullptr;
  void* d_at = nullptr;
  char* workspace = nullptr;
  uint64_t workspace_bytes = 0;
  bool rounds_parts = false;

  // Reads the description without the matrices; refuses inconsistent descriptors.
  cublasStatus_t Read(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout,
                      cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
                      cublasLtMatrixLayout_t d_layout);
  CublasAlgorithm Search(const CublasPreference& preference) const;
  // Checks that the product may run with this algorithm and workspace.
  cublasStatus_t Check(const CublasAlgorithm& algorithm, size_t given_workspace) const;
  void Run() const;
  size_t AuxBytes() const;  // 0 without aux

 private:
  uint64_t InShort() const;
};

}  // namespace standin
