// The stand-in for cuBLASLt itself: it refuses the misuse that the library refuses.
#include "tests/cuda/standin/cublas_standin.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda/standin/standin.h"

namespace {

#define EXPECT_CUBLAS(expected, call) \
  EXPECT_STREQ(cublasLtGetStatusName(expected), cublasLtGetStatusName(call))

// D (4,3) = A (4,64) B (64,3), with a workspace. Tests change a part of the problem.
class CublasStandIn : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(2);
    standin_cublas_reset();
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    a_layout = Layout(4, 64, 4);
    b_layout = Layout(64, 3, 64);
    d_layout = Layout(4, 3, 4);
    ASSERT_EQ(cublasLtMatmulPreferenceInit(&preference), CUBLAS_STATUS_SUCCESS);
    const uint64_t room = 1 << 20;
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof(room)),
              CUBLAS_STATUS_SUCCESS);
    a = Memory(4 * 64);
    b = Memory(64 * 3);
    d = Memory(4 * 3);
    workspace = Memory(1024);
  }
  void TearDown() override { standin_cublas_reset(); }

  static cublasLtMatrixLayoutOpaque_t Layout(uint64_t rows, uint64_t columns, int64_t ld,
                                             cudaDataType type = CUDA_R_32F) {
    cublasLtMatrixLayoutOpaque_t layout;
    EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS,
                  cublasLtMatrixLayoutInit(&layout, type, rows, columns, ld));
    return layout;
  }
  static float *Memory(size_t count) {
    void *memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(float)), cudaSuccess);
    return static_cast<float *>(memory);
  }
  template <class T>
  cublasStatus_t Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value));
  }
  cublasStatus_t Search() {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, &operation, &a_layout, &b_layout, &d_layout,
                                          &d_layout, &preference, 1, &result, &found);
  }
  cublasStatus_t Multiply() {
    const float alpha = 1, beta = 0;
    return cublasLtMatmul(handle, &operation, &alpha, a, &a_layout, b, &b_layout, &beta, d,
                          &d_layout, d, &d_layout, &result.algo, workspace, workspace_bytes,
                          stream);
  }

  cudaStream_t stream = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulHeuristicResult_t result = {};
  float *a = nullptr, *b = nullptr, *d = nullptr, *workspace = nullptr;
  size_t workspace_bytes = 4096;
};

TEST_F(CublasStandIn, AProductRunsWhenItsStreamDoes) {
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Search());
  EXPECT_GT(result.workspaceSize, 0u);
  const std::vector<float> ones(4 * 64, 1), before = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
  ASSERT_EQ(cudaMemcpy(a, ones.data(), 4 * 64 * 4, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(b, ones.data(), 64 * 3 * 4, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(d, before.data(), 4 * 3 * 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Multiply());
  EXPECT_EQ(standin_ops_pending(), 1);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(standin_ops_pending(), 0);
  std::vector<float> out(4 * 3);
  ASSERT_EQ(cudaMemcpy(out.data(), d, 4 * 3 * 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out, std::vector<float>(4 * 3, 64));
  EXPECT_EQ(standin_cublas_products(), 1);
}

TEST_F(CublasStandIn, RefusesLayoutsThatDoNotFit) {
  const cublasLtMatrixLayoutOpaque_t good_a = a_layout, good_d = d_layout;
  for (const auto &bad : {Layout(4, 64, 3), Layout(0, 64, 4), Layout(4, 63, 4), Layout(5, 64, 5)}) {
    a_layout = bad;
    EXPECT_CUBLAS(CUBLAS_STATUS_INVALID_VALUE, Search());
  }
  a_layout = Layout(4, 64, 4, CUDA_R_16BF);
  EXPECT_CUBLAS(CUBLAS_STATUS_NOT_SUPPORTED, Search());
  a_layout = good_a;
  d_layout = Layout(3, 4, 3);
  EXPECT_CUBLAS(CUBLAS_STATUS_INVALID_VALUE, Search());
  d_layout = good_d;
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T}));
  EXPECT_CUBLAS(CUBLAS_STATUS_INVALID_VALUE, Search());
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_N}));
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Search());
}

TEST_F(CublasStandIn, RefusesWhatItDoesNotKnow) {
  EXPECT_CUBLAS(CUBLAS_STATUS_INVALID_VALUE, Set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{0}));
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS,
                Set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_GELU}));
  EXPECT_CUBLAS(CUBLAS_STATUS_NOT_SUPPORTED, Search());
  operation = {};  // never initialised
  EXPECT_CUBLAS(CUBLAS_STATUS_INVALID_VALUE, Search());
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS,
                cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F));
  EXPECT_CUBLAS(CUBLAS_STATUS_NOT_SUPPORTED, Search());
  EXPECT_CUBLAS(CUBLAS_STATUS_INVALID_VALUE, Multiply());  // no algorithm was found
}

TEST_F(CublasStandIn, RefusesAnAlgorithmOfAnotherProblem) {
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Search());
  a_layout = Layout(4, 64, 8);
  EXPECT_CUBLAS(CUBLAS_STATUS_NOT_SUPPORTED, Multiply());
}

TEST_F(CublasStandIn, RefusesPointersThatWouldNotDo) {
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Search());
  float *const good_a = a, *const good_d = d, *const good_workspace = workspace;
  const auto refused = [this](cublasStatus_t status) { EXPECT_CUBLAS(status, Multiply()); };
  workspace_bytes = result.workspaceSize - 1;
  refused(CUBLAS_STATUS_INVALID_VALUE);
  workspace_bytes = result.workspaceSize;
  workspace = nullptr;
  refused(CUBLAS_STATUS_INVALID_VALUE);
  workspace = good_workspace + 4;
  refused(CUBLAS_STATUS_INVALID_VALUE);
  workspace = good_a;
  refused(CUBLAS_STATUS_EXECUTION_FAILED);  // overlaps A
  workspace = good_workspace;
  a = nullptr;
  refused(CUBLAS_STATUS_INVALID_VALUE);
  a = good_a + 4;  // less aligned than promised
  refused(CUBLAS_STATUS_INVALID_VALUE);
  a = good_a + 64;  // the end of A lies beyond its memory
  refused(CUBLAS_STATUS_EXECUTION_FAILED);
  a = good_a;
  alignas(256) float host[12];
  d = host;
  refused(CUBLAS_STATUS_EXECUTION_FAILED);
  d = good_a;
  refused(CUBLAS_STATUS_EXECUTION_FAILED);
  d = good_d;
  EXPECT_EQ(standin_cublas_products(), 0);
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Multiply());
  // An announced bias must be given.
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS,
                Set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS}));
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Search());
  refused(CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasStandIn, FailsOnDemand) {
  standin_cublas_fail_call(2, CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Search());
  EXPECT_CUBLAS(CUBLAS_STATUS_ALLOC_FAILED, Multiply());
  EXPECT_STREQ(standin_cublas_failed_call(), "cublasLtMatmul");
  EXPECT_CUBLAS(CUBLAS_STATUS_SUCCESS, Multiply());
  EXPECT_EQ(standin_cublas_calls(), 3);
  EXPECT_EQ(standin_cublas_products(), 1);
}

}  // namespace
