// A product as cuBLASLt is told of it: descriptors in our own memory. No GPU is needed for them.
#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "absl/status/status.h"
#include "executor/cuda/cublas_lt.h"
#include "executor/cuda/product_shape.h"

namespace stringline::cuda {

// Without pointers of ours, so a copy is as good. C has the layout of D.
struct ProductDescriptors {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, d;
};

// `sms`: the number of multiprocessors for the product; 0: all. The pointers of a bias and of a
// GELU's input are set to an address of the promised alignment; every run sets its own.
absl::Status DescribeProduct(const CublasLt& library, const ProductShape& shape, int32_t sms,
                             ProductDescriptors* made);

// The wishes for every algorithm: the bounds of products.h.
absl::Status DescribePreference(const CublasLt& library,
                                cublasLtMatmulPreferenceOpaque_t* preference);

// The status of a call by name. Unimplemented: the library does not support it.
absl::Status CheckedCall(const CublasLt& library, cublasStatus_t status, const char* call);

}  // namespace stringline::cuda
