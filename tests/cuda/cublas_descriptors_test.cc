// The products of every model, described to the real cuBLASLt, which needs no GPU for that: a wrong
// size or value of an attribute is refused, and each is read back and held against the table of
// row-major operands below. Searches need a GPU and are not made.
#include <cublasLt.h>
#include <dlfcn.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "executor/cuda/backend/ops.h"
#include "executor/cuda/cublas_lt.h"
#include "executor/cuda/product_descriptors.h"
#include "gtest/gtest.h"
#include "stages/models/model.h"
#include "tests/cuda/known_models.h"

namespace stringline::cuda {
namespace {

// The shapes asked for by a model's programs, by text; and the shapes that the kernels make of
// them: gradients of weights that are added, gradients of inputs in one with a GELU's.
void AddShapesOf(const AnyShape& shape, std::map<std::string, ProductShape>* shapes) {
  const auto stages = BuildModelStages(shape.WithLayers(1), {1});
  ASSERT_TRUE(stages.ok()) << stages.status();
  const auto add = [shapes](const ProductShape& one) { shapes->insert({ToString(one), one}); };
  const StageProgram& stage = stages->front();
  for (const Graph* const graph :
       {&stage.forward, &stage.backward, &stage.input_gradient, &stage.weight_gradient}) {
    for (const Node& node : graph->nodes) {
      std::optional<ProductShape> one = ProductShapeOf({*graph, node});
      if (!one.has_value()) continue;
      add(*one);
      one->accumulate = one->kind == ProductKind::kWeightGrad;
      one->gelu_grad = one->kind == ProductKind::kInputGrad && one->bf16 && one->inputs % 8 == 0;
      add(*one);
    }
  }
}

class CublasDescriptors : public testing::Test {
 protected:
  void SetUp() override {
    if (*STRINGLINE_CUBLASLT_LIBRARY == '\0') {
      GTEST_SKIP() << "libcublasLt.so.13 is not installed";
    }
    auto opened = CublasLt::Open(STRINGLINE_CUBLASLT_LIBRARY);
    ASSERT_TRUE(opened.ok()) << opened.status();
    library_ = *opened;
    void* const handle = dlopen(STRINGLINE_CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const auto find = [handle](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
      ASSERT_NE(*function, nullptr) << name;
    };
    find("cublasLtMatmulDescGetAttribute", &get_operation_);
    find("cublasLtMatrixLayoutGetAttribute", &get_layout_);
    find("cublasLtMatmulPreferenceGetAttribute", &get_preference_);
    // The stand-in has neither of them, and so it is not what was opened.
    for (const bool bf16 : {false, true}) {
      for (AnyShape model : KnownModels()) {
        model.dtype = bf16 ? DType::kBF16 : DType::kF32;
        AddShapesOf(model, &shapes_);
      }
    }
    ASSERT_GE(shapes_.size(), 100u);
  }

  // The value of an attribute, which has exactly the size of T.
  template <class T, class Function, class Object, class Attribute>
  static T Got(Function function, Object* object, Attribute attribute) {
    T value = {};
    size_t written = 0;
    EXPECT_EQ(function(object, attribute, &value, sizeof(value), &written), CUBLAS_STATUS_SUCCESS)
        << "attribute " << attribute;
    EXPECT_EQ(written, sizeof(value)) << "attribute " << attribute;
    return value;
  }
  void ExpectLayout(cublasLtMatrixLayoutOpaque_t layout, bool bf16, int64_t rows, int64_t columns) {
    EXPECT_EQ(Got<uint32_t>(get_layout_, &layout, CUBLASLT_MATRIX_LAYOUT_TYPE),
              static_cast<uint32_t>(bf16 ? CUDA_R_16BF : CUDA_R_32F));
    // In the library's terms a row-major matrix is its transpose, dense.
    EXPECT_EQ(Got<uint64_t>(get_layout_, &layout, CUBLASLT_MATRIX_LAYOUT_ROWS),
              static_cast<uint64_t>(columns));
    EXPECT_EQ(Got<uint64_t>(get_layout_, &layout, CUBLASLT_MATRIX_LAYOUT_COLS),
              static_cast<uint64_t>(rows));
    EXPECT_EQ(Got<int64_t>(get_layout_, &layout, CUBLASLT_MATRIX_LAYOUT_LD), columns);
    EXPECT_EQ(Got<int32_t>(get_layout_, &layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), 1);
  }

  CublasLt library_;
  decltype(&cublasLtMatmulDescGetAttribute) get_operation_ = nullptr;
  decltype(&cublasLtMatrixLayoutGetAttribute) get_layout_ = nullptr;
  decltype(&cublasLtMatmulPreferenceGetAttribute) get_preference_ = nullptr;
  std::map<std::string, ProductShape> shapes_;
};

TEST_F(CublasDescriptors, OfEveryModelAreTakenAndReadBack) {
  std::cout << shapes_.size() << " shapes, cuBLASLt " << library_.cublasLtGetVersion() << "\n";
  for (const auto& [text, s] : shapes_) {
    for (const int sms : {0, 32}) {
      SCOPED_TRACE(text);
      ProductDescriptors made;
      const absl::Status status = DescribeProduct(library_, s, sms, &made);
      ASSERT_TRUE(status.ok()) << status;
      const auto operation = [&](cublasLtMatmulDescAttributes_t attribute, auto like) {
        return Got<decltype(like)>(get_operation_, &made.operation, attribute);
      };
      // Row-major w (O,I), x (N,I), y (N,O): the library's A is w, w or x, its B is x, dy or dy.
      const bool forward = s.kind == ProductKind::kForward;
      const bool weights = s.kind == ProductKind::kWeightGrad;
      ExpectLayout(made.a, s.bf16, weights ? s.rows : s.outputs, s.inputs);
      ExpectLayout(made.b, s.bf16, s.rows, forward ? s.inputs : s.outputs);
      ExpectLayout(made.d, s.bf16 && !weights, weights ? s.outputs : s.rows,
                   forward ? s.outputs : s.inputs);
      EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{}),
                forward ? CUBLAS_OP_T : CUBLAS_OP_N);
      EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{}),
                weights ? CUBLAS_OP_T : CUBLAS_OP_N);
      EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t{}), CUBLAS_COMPUTE_32F);
      EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_SCALE_TYPE, int32_t{}), CUDA_R_32F);
      EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{}), sms);
      EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{}),
                static_cast<uint32_t>(s.bias        ? CUBLASLT_EPILOGUE_BIAS
                                      : s.gelu_grad ? CUBLASLT_EPILOGUE_DGELU
                                                    : CUBLASLT_EPILOGUE_DEFAULT));
      if (s.bias) {
        EXPECT_NE(operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, uint64_t{}), 0u);
      }
      if (s.gelu_grad) {
        EXPECT_NE(operation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t{}), 0u);
        EXPECT_EQ(operation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{}), s.inputs);
      }
    }
  }
}

TEST_F(CublasDescriptors, WishesAreTakenAndReadBack) {
  cublasLtMatmulPreferenceOpaque_t made;
  const absl::Status status = DescribePreference(library_, &made);
  ASSERT_TRUE(status.ok()) << status;
  const auto wish = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto like) {
    return Got<decltype(like)>(get_preference_, &made, attribute);
  };
  EXPECT_EQ(wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{}), uint64_t{32} << 20);
  EXPECT_EQ(wish(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{}),
            static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    EXPECT_EQ(wish(which, uint32_t{}), 64u);
  }
}

// So that a wrong size would be noticed above.
TEST_F(CublasDescriptors, WrongSizesAreRefused) {
  ProductDescriptors made;
  ASSERT_TRUE(DescribeProduct(library_, {ProductKind::kForward, 2, 8, 8}, 0, &made).ok());
  const int64_t wide = CUBLAS_OP_T;
  EXPECT_NE(library_.cublasLtMatmulDescSetAttribute(&made.operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                    &wide, 1),
            CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceOpaque_t wishes;
  ASSERT_TRUE(DescribePreference(library_, &wishes).ok());
  EXPECT_NE(library_.cublasLtMatmulPreferenceSetAttribute(
                &wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &wide, sizeof(uint32_t)),
            CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace stringline::cuda
