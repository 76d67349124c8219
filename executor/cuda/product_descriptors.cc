// The column-major mapping of a shape becomes an operation with its attributes and three layouts.
// The library refuses attributes of a wrong size, and so each value has the type that cublasLt.h
// names.
#include "executor/cuda/product_descriptors.h"

#include "absl/strings/str_cat.h"
#include "executor/cuda/products.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

absl::Status SetEpilogue(const CublasLt& library, const ProductShape& shape, int64_t ldd,
                         cublasLtMatmulDesc_t operation) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return CheckedCall(
        library,
        library.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  };
  // A search reads the alignment of pointers.
  const auto* const any = reinterpret_cast<const void*>(Products::kAlignment);
  if (shape.bias) {
    SL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS}));
    SL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, any));  // it has D's type
  }
  if (shape.gelu_grad) {
    SL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_DGELU}));
    SL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, any));
    SL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ldd));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckedCall(const CublasLt& library, cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat(call, ": ", library.cublasLtGetStatusName(status), " (",
                                        static_cast<int>(status), ")");
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? absl::UnimplementedError(text)
                                               : absl::InternalError(text);
}

// Calls the function and returns its error.
#define STRINGLINE_CUBLAS_LT(function, ...) \
  SL_RETURN_IF_ERROR(CheckedCall(library, library.function(__VA_ARGS__), #function))

absl::Status DescribeProduct(const CublasLt& library, const ProductShape& shape, int32_t sms,
                             ProductDescriptors* made) {
  const ProductMapping mapping = MappingOf(shape);
  STRINGLINE_CUBLAS_LT(cublasLtMatmulDescInit_internal, &made->operation, sizeof(made->operation),
                       CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const auto operation = [](bool transposed) -> int32_t {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const int32_t of_a = operation(mapping.transpose_a), of_b = operation(mapping.transpose_b);
  STRINGLINE_CUBLAS_LT(cublasLtMatmulDescSetAttribute, &made->operation,
                       CUBLASLT_MATMUL_DESC_TRANSA, &of_a, sizeof(of_a));
  STRINGLINE_CUBLAS_LT(cublasLtMatmulDescSetAttribute, &made->operation,
                       CUBLASLT_MATMUL_DESC_TRANSB, &of_b, sizeof(of_b));
  if (sms > 0) {
    STRINGLINE_CUBLAS_LT(cublasLtMatmulDescSetAttribute, &made->operation,
                         CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &sms, sizeof(sms));
  }
  SL_RETURN_IF_ERROR(SetEpilogue(library, shape, mapping.ldd, &made->operation));
  const cudaDataType in = shape.bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cudaDataType out = shape.kind == ProductKind::kWeightGrad ? CUDA_R_32F : in;
  STRINGLINE_CUBLAS_LT(cublasLtMatrixLayoutInit_internal, &made->a, sizeof(made->a), in,
                       mapping.a_rows(), mapping.a_columns(), mapping.lda);
  STRINGLINE_CUBLAS_LT(cublasLtMatrixLayoutInit_internal, &made->b, sizeof(made->b), in,
                       mapping.b_rows(), mapping.b_columns(), mapping.ldb);
  STRINGLINE_CUBLAS_LT(cublasLtMatrixLayoutInit_internal, &made->d, sizeof(made->d), out, mapping.m,
                       mapping.n, mapping.ldd);
  return absl::OkStatus();
}

absl::Status DescribePreference(const CublasLt& library,
                                cublasLtMatmulPreferenceOpaque_t* preference) {
  STRINGLINE_CUBLAS_LT(cublasLtMatmulPreferenceInit_internal, preference, sizeof(*preference));
  const uint64_t most = Products::kWorkspaceBytes;
  STRINGLINE_CUBLAS_LT(cublasLtMatmulPreferenceSetAttribute, preference,
                       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most));
  // Partial sums of a split sum stay in float32, and are added in order.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  STRINGLINE_CUBLAS_LT(cublasLtMatmulPreferenceSetAttribute, preference,
                       CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof(reductions));
  const uint32_t alignment = Products::kAlignment;
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    STRINGLINE_CUBLAS_LT(cublasLtMatmulPreferenceSetAttribute, preference, which, &alignment,
                         sizeof(alignment));
  }
  return absl::OkStatus();
}

#undef STRINGLINE_CUBLAS_LT

}  // namespace stringline::cuda
