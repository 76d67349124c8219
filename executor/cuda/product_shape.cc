#include "executor/cuda/product_shape.h"

#include "absl/strings/str_cat.h"

namespace stringline::cuda {

std::string ToString(const ProductShape& shape) {
  std::string text;
  switch (shape.kind) {
    case ProductKind::kForward:
      text = absl::StrCat("y = x w'", shape.bias ? " + bias" : "", shape.residual ? " + z" : "");
      break;
    case ProductKind::kInputGrad:
      text = shape.gelu_grad ? "dx = dy w * gelu'(u)" : "dx = dy w";
      break;
    case ProductKind::kWeightGrad:
      text = shape.accumulate ? "dw += dy' x" : "dw = dy' x";
      break;
  }
  return absl::StrCat(text, " of ", shape.rows, " rows, ", shape.inputs, " inputs, ", shape.outputs,
                      " outputs", shape.bf16 ? " in bf16" : "");
}

ProductMapping MappingOf(const ProductShape& shape) {
  const int64_t rows = shape.rows, inputs = shape.inputs, outputs = shape.outputs;
  ProductMapping mapping = {};
  switch (shape.kind) {
    case ProductKind::kForward:
      mapping = {.m = outputs, .n = rows, .k = inputs, .transpose_a = true};
      break;
    case ProductKind::kInputGrad:
      mapping = {.m = inputs, .n = rows, .k = outputs};
      break;
    case ProductKind::kWeightGrad:
      mapping = {.m = inputs, .n = outputs, .k = rows, .transpose_b = true};
      break;
  }
  mapping.lda = mapping.a_rows();
  mapping.ldb = mapping.b_rows();
  mapping.ldd = mapping.m;
  return mapping;
}

}  // namespace stringline::cuda
