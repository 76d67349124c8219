// A matrix product by its operands, and the same product in column-major terms for libraries.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace stringline::cuda {

// All matrices are dense row-major.
enum class ProductKind : uint8_t {
  kForward,     // y (N,O) = x (N,I) w (O,I)' [+ bias (O)] [+ z (N,O)]
  kInputGrad,   // dx (N,I) = dy (N,O) w (O,I) [* gelu'(u (N,I))]
  kWeightGrad,  // dw (O,I) = dy (N,O)' x (N,I), or +=
};

struct ProductShape {
  ProductKind kind;
  int64_t rows, inputs, outputs;  // N, I and O
  bool bias = false;              // only of kForward
  bool residual = false;          // z, only of kForward
  bool accumulate = false;        // only of kWeightGrad
  bool bf16 = false;              // type of all matrices but dw, which is float32, as are sums
  bool gelu_grad = false;         // u, only of kInputGrad

  friend bool operator==(const ProductShape&, const ProductShape&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const ProductShape& s) {
    return H::combine(std::move(hash), s.kind, s.rows, s.inputs, s.outputs, s.bias, s.residual,
                      s.accumulate, s.gelu_grad, s.bf16);
  }
};

// For messages: "y = x w' + bias of 128 rows, 64 inputs, 32 outputs", and " in bf16".
std::string ToString(const ProductShape& shape);

// D (m,n) = op(A) op(B), all column-major, each entry a sum of k terms. Row-major matrices are the
// transposes of the column-major ones in the same memory, so the factors swap: A is ProductRun's b,
// w or x, and B its a, x or dy.
struct ProductMapping {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t lda, ldb, ldd;

  // The matrices' sizes in memory.
  int64_t a_rows() const { return transpose_a ? k : m; }
  int64_t a_columns() const { return transpose_a ? m : k; }
  int64_t b_rows() const { return transpose_b ? n : k; }
  int64_t b_columns() const { return transpose_b ? k : n; }
};

ProductMapping MappingOf(const ProductShape& shape);

}  // namespace stringline::cuda
