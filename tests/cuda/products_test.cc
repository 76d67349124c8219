// Matrix products beside the stand-ins for cuBLASLt and the runtime: no GPU, and never the real
// library.
#include "executor/cuda/products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cpu/kernel.h"
#include "executor/cuda/cublas_lt.h"
#include "executor/engine/bf16.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"

namespace stringline::cuda {
namespace {

using Numbers = std::vector<float>;

Numbers RandomNumbers(int64_t count, std::mt19937* random) {
  std::uniform_real_distribution<float> between(-1, 1);
  Numbers numbers(count);
  for (float& number : numbers) number = between(*random);
  return numbers;
}

// The matrices of one product, in memory of the host. `out` holds the initial contents.
struct HostProduct {
  Numbers a, b, bias, z, out;
};

HostProduct RandomProduct(const ProductShape& shape, std::mt19937* random) {
  const int64_t x = shape.rows * shape.inputs, w = shape.outputs * shape.inputs;
  const int64_t y = shape.rows * shape.outputs;
  const bool forward = shape.kind == ProductKind::kForward;
  const bool weight_grad = shape.kind == ProductKind::kWeightGrad;
  HostProduct host;
  host.a = RandomNumbers(forward ? x : y, random);
  host.b = RandomNumbers(weight_grad ? x : w, random);
  if (shape.bias) host.bias = RandomNumbers(shape.outputs, random);
  if (shape.residual) host.z = RandomNumbers(y, random);
  // Overwritten contents are never read.
  const int64_t count = forward ? y : weight_grad ? w : x;
  host.out = shape.accumulate ? RandomNumbers(count, random)
                              : Numbers(count, std::numeric_limits<float>::quiet_NaN());
  return host;
}

// By the kernels of the CPU backend.
Numbers OnTheCpu(const ProductShape& shape, HostProduct host) {
  const Type x = {DType::kF32, {shape.rows, shape.inputs}};
  const Type w = {DType::kF32, {shape.outputs, shape.inputs}};
  const Type y = {DType::kF32, {shape.rows, shape.outputs}};
  const Type b = {DType::kF32, {shape.outputs}};
  std::vector<Tensor> in;
  const Type* out = &y;
  Op op = Op::kLinear;
  switch (shape.kind) {
    case ProductKind::kForward:
      in = {{host.a.data(), &x}, {host.b.data(), &w}};
      if (shape.bias) in.push_back({host.bias.data(), &b});
      if (shape.residual) in.push_back({host.z.data(), &y});
      op = shape.bias       ? shape.residual ? Op::kLinearResidual : Op::kLinearBias
           : shape.residual ? Op::kLinearAdd
                            : Op::kLinear;
      break;
    case ProductKind::kInputGrad:
      in = {{host.a.data(), &y}, {host.b.data(), &w}};
      out = &x;
      op = Op::kLinearInputGrad;
      break;
    case ProductKind::kWeightGrad:
      in = {{host.a.data(), &y}, {host.b.data(), &x}};
      out = &w;
      op = Op::kLinearWeightGrad;
      break;
  }
  const Tensor outs[] = {{host.out.data(), out}};
  const bool accumulate[] = {shape.accumulate};
  cpu::KernelFor(op)(Node{op, {}, {}, {}}, in, absl::MakeConstSpan(outs),
                     absl::MakeConstSpan(accumulate), nullptr);
  return host.out;
}

std::vector<ProductShape> ShapesOf(int64_t rows, int64_t inputs, int64_t outputs) {
  std::vector<ProductShape> shapes;
  for (const bool bias : {false, true}) {
    for (const bool residual : {false, true}) {
      shapes.push_back({ProductKind::kForward, rows, inputs, outputs, bias, residual});
    }
  }
  shapes.push_back({ProductKind::kInputGrad, rows, inputs, outputs});
  for (const bool accumulate : {false, true}) {
    shapes.push_back({ProductKind::kWeightGrad, rows, inputs, outputs, false, false, accumulate});
  }
  return shapes;
}

class ProductsTest : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(11);
    standin_cublas_reset();
    (void)cudaGetLastError();
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
    auto made = Products::Make();
    ASSERT_TRUE(made.ok()) << made.status();
    products_ = *std::move(made);
  }
  void TearDown() override {
    products_ = nullptr;
    EXPECT_EQ(standin_cublas_handles(), 0);
    standin_reset(11);  // frees the tests' memory
  }

  // Exactly sized, so that the stand-in sees accesses beyond its end.
  float* OnDevice(const Numbers& numbers) {
    void* memory = nullptr;
    const size_t bytes = numbers.size() * sizeof(float);
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    if (bytes == 0) return nullptr;
    EXPECT_EQ(cudaMemcpy(memory, numbers.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return static_cast<float*>(memory);
  }
  Numbers FromDevice(const void* memory, size_t count) {
    Numbers numbers(count);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(numbers.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return numbers;
  }
  void* Workspace(const Product* product) {
    return OnDevice(Numbers(Products::WorkspaceBytes(product) / sizeof(float)));
  }
  // With a workspace of exactly the requested size.
  ProductRun RunOf(const Product* product, const HostProduct& host, bool in_place) {
    ProductRun run = {OnDevice(host.a), OnDevice(host.b), nullptr};
    run.bias = OnDevice(host.bias);
    float* const z = OnDevice(host.z);
    run.residual = z;
    run.out = in_place ? z : OnDevice(host.out);
    run.workspace = Workspace(product);
    return run;
  }
  const Product* Chosen(const ProductShape& shape) {
    const auto product = products_->Choose(shape);
    EXPECT_TRUE(product.ok()) << product.status();
    return product.ok() ? *product : nullptr;
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Products> products_;
};

void ExpectNear(const Numbers& expected, const Numbers& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  float largest = 0;
  for (const float number : expected) largest = std::max(largest, std::fabs(number));
  for (size_t i = 0; i < expected.size(); ++i) {
    // Fails for NaN, too.
    ASSERT_TRUE(std::fabs(expected[i] - actual[i]) <= 1e-5F * largest)
        << i << ": " << expected[i] << " and " << actual[i];
  }
}

TEST_F(ProductsTest, EveryKindIsThatOfTheCpu) {
  std::mt19937 random(3);
  const int64_t sizes[][3] = {{1, 1, 1}, {1, 64, 48}, {7, 5, 3},    {64, 32, 16}, {33, 65, 17},
                              {5, 1, 9}, {16, 96, 1}, {128, 8, 12}, {1, 1, 40},   {2, 100, 3}};
  int with_workspace = 0;
  for (const auto& size : sizes) {
    for (const ProductShape& shape : ShapesOf(size[0], size[1], size[2])) {
      SCOPED_TRACE(ToString(shape));
      const HostProduct host = RandomProduct(shape, &random);
      const Numbers expected = OnTheCpu(shape, host);
      const Product* const product = Chosen(shape);
      ASSERT_NE(product, nullptr);
      with_workspace += Products::WorkspaceBytes(product) > 0 ? 1 : 0;
      for (const bool in_place : {false, true}) {
        if (in_place && !shape.residual) continue;
        const ProductRun run = RunOf(product, host, in_place);
        const auto status = products_->Run(product, run, stream_);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(standin_ops_pending(), 1);
        ExpectNear(expected, FromDevice(run.out, expected.size()));
        // Inputs are unchanged.
        EXPECT_EQ(FromDevice(run.a, host.a.size()), host.a);
        EXPECT_EQ(FromDevice(run.b, host.b.size()), host.b);
        if (!in_place && shape.residual) {
          EXPECT_EQ(FromDevice(run.residual, host.z.size()), host.z);
        }
      }
    }
  }
  EXPECT_GT(with_workspace, 5);
}

TEST_F(ProductsTest, GradientsAddUpOverRuns) {
  std::mt19937 random(4);
  const ProductShape shape = {ProductKind::kWeightGrad, 9, 6, 5, false, false, true};
  HostProduct host = RandomProduct(shape, &random);
  const Product* const product = Chosen(shape);
  const ProductRun run = RunOf(product, host, false);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(products_->Run(product, run, stream_).ok());
    host.out = OnTheCpu(shape, host);
  }
  ExpectNear(host.out, FromDevice(run.out, host.out.size()));
}

// Both are enqueued before either runs.
TEST_F(ProductsTest, RunsOfOneProductHaveABiasOfTheirOwn) {
  std::mt19937 random(5);
  const ProductShape shape = {ProductKind::kForward, 4, 3, 8, true};
  const Product* const product = Chosen(shape);
  const HostProduct hosts[] = {RandomProduct(shape, &random), RandomProduct(shape, &random)};
  const ProductRun runs[] = {RunOf(product, hosts[0], false), RunOf(product, hosts[1], false)};
  for (const ProductRun& run : runs) ASSERT_TRUE(products_->Run(product, run, stream_).ok());
  EXPECT_EQ(standin_ops_pending(), 2);
  for (int i = 0; i < 2; ++i) {
    ExpectNear(OnTheCpu(shape, hosts[i]), FromDevice(runs[i].out, hosts[i].out.size()));
  }
}

TEST_F(ProductsTest, AlgorithmsAreSearchedForOncePerShape) {
  std::vector<ProductShape> shapes;
  for (const int64_t rows : {1, 8, 16}) {
    for (const ProductShape& shape : ShapesOf(rows, 24, 40)) shapes.push_back(shape);
  }
  std::vector<const Product*> first;
  for (const ProductShape& shape : shapes) first.push_back(Chosen(shape));
  const auto different = static_cast<int64_t>(shapes.size());
  EXPECT_EQ(standin_cublas_searches(), different);
  std::vector<std::thread> threads;
  std::vector<std::vector<const Product*>> again(4);
  for (auto& chosen : again) {
    threads.emplace_back([&, this] {
      for (const ProductShape& shape : shapes) chosen.push_back(Chosen(shape));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& chosen : again) EXPECT_EQ(chosen, first);
  std::sort(first.begin(), first.end());
  EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
  // Neither does a run search.
  std::mt19937 random(6);
  const ProductRun run = RunOf(first[0], RandomProduct(shapes[0], &random), false);
  const Product* const product = Chosen(shapes[0]);
  ASSERT_TRUE(products_->Run(product, run, stream_).ok());
  EXPECT_EQ(standin_cublas_searches(), different);
}

TEST_F(ProductsTest, TheTableIsInTheOrderOfShapes) {
  const ProductShape small = {ProductKind::kForward, 2, 3, 4};
  const ProductShape empty = {ProductKind::kForward, 0, 3, 4};
  Chosen({ProductKind::kWeightGrad, 2, 3, 4});
  Chosen({ProductKind::kForward, 20, 30, 40, true});
  Chosen(small);
  Chosen({ProductKind::kForward, 1, 3, 4, false, false, false, /*bf16=*/true});
  Chosen(empty);
  const std::string table = products_->Describe();
  EXPECT_TRUE(absl::StartsWith(table, "cuBLASLt 1")) << table;
  size_t at = 0;
  for (const char* const line :
       {"y = x w' of 0 rows, 3 inputs, 4 outputs: no algorithm\n",
        "y = x w' of 2 rows, 3 inputs, 4 outputs: algorithm ", "split-k 1, workspace 0 bytes\n",
        "y = x w' + bias of 20 rows, 30 inputs, 40 outputs: algorithm ",
        "dw = dy' x of 2 rows, 3 inputs, 4 outputs: algorithm ",
        "y = x w' of 1 rows, 3 inputs, 4 outputs in bf16: algorithm "}) {
    at = table.find(line, at);
    ASSERT_NE(at, std::string::npos) << line << " is not there, or not after the last:\n" << table;
  }
}

TEST_F(ProductsTest, SumsWithoutTermsAreZeros) {
  const Numbers z = {1, 2, 3, 4, 5, 6}, before = {7, 7, 7, 7, 7, 7};
  const auto run = [&](const ProductShape& shape, ProductRun run) {
    const Product* const product = Chosen(shape);
    const auto status = products_->Run(product, run, stream_);
    EXPECT_TRUE(status.ok()) << status;
    return FromDevice(run.out, 6);
  };
  const Numbers zeros(6, 0);
  EXPECT_EQ(run({ProductKind::kForward, 2, 0, 3}, {nullptr, nullptr, OnDevice(before)}), zeros);
  EXPECT_EQ(run({ProductKind::kInputGrad, 2, 3, 0}, {nullptr, nullptr, OnDevice(before)}), zeros);
  EXPECT_EQ(run({ProductKind::kWeightGrad, 0, 2, 3}, {nullptr, nullptr, OnDevice(before)}), zeros);
  EXPECT_EQ(run({ProductKind::kWeightGrad, 0, 2, 3, false, false, true},
                {nullptr, nullptr, OnDevice(before)}),
            before);
  float* const residual = OnDevice(z);
  const ProductShape added = {ProductKind::kForward, 2, 0, 3, false, true};
  EXPECT_EQ(run(added, {nullptr, nullptr, OnDevice(before), nullptr, residual}), z);
  EXPECT_EQ(run(added, {nullptr, nullptr, residual, nullptr, residual}), z);
  // Without rows no memory is accessed, and null pointers are allowed.
  for (const ProductShape& shape : ShapesOf(0, 2, 3)) {
    if (shape.kind == ProductKind::kWeightGrad) continue;
    EXPECT_TRUE(products_->Run(Chosen(shape), {}, stream_).ok());
  }
  EXPECT_EQ(standin_ops_pending(), 0);
  EXPECT_EQ(standin_cublas_searches(), 0);
}

// 256 + 1 is no number of bf16; as a part of a split sum it must not be rounded.
TEST_F(ProductsTest, SumsInBf16AreRoundedOnce) {
  constexpr int64_t kInputs = 64;
  const Product* const product =
      Chosen({ProductKind::kForward, 1, kInputs, 1, false, false, false, /*bf16=*/true});
  ASSERT_GT(Products::WorkspaceBytes(product), 0) << "the sum is not split";
  std::vector<uint16_t> x(kInputs, 0), w(kInputs, stringline::ToBf16(1));
  x[0] = stringline::ToBf16(256), x[1] = stringline::ToBf16(1),
  x[kInputs - 1] = stringline::ToBf16(-256);
  const auto place = [&](const std::vector<uint16_t>& values) {
    Numbers numbers(values.size() / 2);
    std::memcpy(numbers.data(), values.data(), values.size() * sizeof(uint16_t));
    return OnDevice(numbers);
  };
  ProductRun run = {place(x), place(w), place({0, 0})};
  run.workspace = Workspace(product);
  ASSERT_TRUE(products_->Run(product, run, stream_).ok());
  const Numbers y = FromDevice(run.out, 1);
  uint16_t sum = 0;
  std::memcpy(&sum, y.data(), sizeof(sum));
  EXPECT_EQ(stringline::FromBf16(sum), 1);
}

TEST_F(ProductsTest, SumsWithoutTermsInBf16AreZeros) {
  for (const ProductKind kind :
       {ProductKind::kForward, ProductKind::kInputGrad, ProductKind::kWeightGrad}) {
    ProductShape shape = {kind, 2, 2, 3};
    shape.bf16 = true;
    (kind == ProductKind::kForward     ? shape.inputs
     : kind == ProductKind::kInputGrad ? shape.outputs
                                       : shape.rows) = 0;
    const int64_t bytes = kind == ProductKind::kForward     ? 2 * 2 * 3
                          : kind == ProductKind::kInputGrad ? 2 * 2 * 2
                                                            : 4 * 2 * 3;
    SCOPED_TRACE(ToString(shape));
    const std::string before(64, 'x');
    void* out = nullptr;
    ASSERT_EQ(cudaMalloc(&out, before.size()), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(out, before.data(), before.size(), cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_TRUE(products_->Run(Chosen(shape), {nullptr, nullptr, out}, stream_).ok());
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    std::string after(64, 'y');
    ASSERT_EQ(cudaMemcpy(after.data(), out, after.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(after, std::string(bytes, '\0') + std::string(64 - bytes, 'x'));
  }
}

TEST_F(ProductsTest, WhatMakesNoSenseIsRefused) {
  const auto refused = [this](const ProductShape& shape, const char* why) {
    const absl::Status status = products_->Choose(shape).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), absl::StrCat(ToString(shape), ": ", why));
  };
  refused({ProductKind::kForward, 2, -3, 4}, "a size is negative");
  refused({ProductKind::kInputGrad, 2, 3, 4, true},
          "only forward products have a bias or a residual");
  refused({ProductKind::kWeightGrad, 2, 3, 4, false, true},
          "only forward products have a bias or a residual");
  refused({ProductKind::kForward, 2, 3, 4, false, false, true},
          "only gradients of weights are accumulated");
  refused({ProductKind::kForward, 2, 0, 4, true}, "a bias without inputs is not supported");
  EXPECT_EQ(products_->Describe(), absl::StrCat("cuBLASLt ", CUBLAS_VERSION, "\n"));

  std::mt19937 random(8);
  const ProductShape shape = {ProductKind::kForward, 2, 64, 4, true, true};
  const Product* const product = Chosen(shape);
  const ProductRun good = RunOf(product, RandomProduct(shape, &random), false);
  ASSERT_TRUE(products_->Run(product, good, stream_).ok());
  const auto wrong = [&](auto change, const char* why) {
    ProductRun run = good;
    change(&run);
    const absl::Status status = products_->Run(product, run, stream_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), absl::StrCat(ToString(shape), ": ", why));
  };
  wrong([](ProductRun* run) { run->a = nullptr; }, "x is missing");
  wrong([](ProductRun* run) { run->b = nullptr; }, "w is missing");
  wrong([](ProductRun* run) { run->out = nullptr; }, "y is missing");
  wrong([](ProductRun* run) { run->bias = nullptr; }, "the bias is missing");
  wrong([](ProductRun* run) { run->residual = nullptr; }, "z is missing");
  wrong([](ProductRun* run) { run->workspace = nullptr; }, "the workspace is missing");
  wrong([](ProductRun* run) { run->b = static_cast<const float*>(run->b) + 8; },
        "w is not aligned to 64 bytes");
  const ProductShape plain = {ProductKind::kInputGrad, 2, 64, 4};
  EXPECT_EQ(products_->Run(Chosen(plain), good, stream_).message(),
            absl::StrCat(ToString(plain), ": the bias is not part of it"));
}

// Chooses and runs a product that needs all operands.
absl::Status MakeChooseAndRun(const ProductShape& shape, const ProductRun& run,
                              cudaStream_t stream) {
  const auto products = Products::Make();
  if (!products.ok()) return products.status();
  const auto product = (*products)->Choose(shape);
  if (!product.ok()) return product.status();
  return (*products)->Run(*product, run, stream);
}

TEST_F(ProductsTest, EveryCallThatFailsIsOneClearStatus) {
  std::mt19937 random(9);
  const ProductShape shape = {ProductKind::kForward, 2, 64, 4, true, true};
  const ProductRun run = RunOf(Chosen(shape), RandomProduct(shape, &random), false);
  products_ = nullptr;
  standin_cublas_fail_call(0, 0);
  ASSERT_TRUE(MakeChooseAndRun(shape, run, stream_).ok());
  // The last of them destroys the handle, at the end.
  const int64_t calls = standin_cublas_calls() - 1;
  EXPECT_GT(calls, 15);
  for (int64_t n = 1; n <= calls; ++n) {
    standin_cublas_fail_call(n, CUBLAS_STATUS_INTERNAL_ERROR);
    const absl::Status status = MakeChooseAndRun(shape, run, stream_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << n;
    ASSERT_NE(standin_cublas_failed_call(), nullptr) << n;
    EXPECT_EQ(status.message(),
              absl::StrCat(n == 1 ? "" : ToString(shape) + ": ", standin_cublas_failed_call(),
                           ": CUBLAS_STATUS_INTERNAL_ERROR (14)"));
    EXPECT_EQ(standin_cublas_handles(), 0);
  }
}

TEST_F(ProductsTest, CallsOfTheRuntimeFailClearly) {
  const ProductShape filled = {ProductKind::kForward, 2, 0, 3};
  const ProductShape copied = {ProductKind::kForward, 2, 0, 3, false, true};
  const Product *const fill = Chosen(filled), *const copy = Chosen(copied);
  float *const out = OnDevice(Numbers(6)), *const z = OnDevice(Numbers(6));
  standin_fail_call(1, cudaErrorInvalidValue);
  EXPECT_EQ(products_->Run(fill, {nullptr, nullptr, out}, stream_).message(),
            absl::StrCat(ToString(filled),
                         ": cudaMemsetAsync: invalid argument (cudaErrorInvalidValue)"));
  standin_fail_call(1, cudaErrorInvalidValue);
  EXPECT_EQ(products_->Run(copy, {nullptr, nullptr, out, nullptr, z}, stream_).message(),
            absl::StrCat(ToString(copied),
                         ": cudaMemcpyAsync: invalid argument (cudaErrorInvalidValue)"));
}

TEST_F(ProductsTest, AShapeThatFailedCanBeAskedForAgain) {
  const ProductShape shape = {ProductKind::kInputGrad, 2, 3, 4};
  const std::string about = ToString(shape) + ": ";
  standin_cublas_find(0, CUBLAS_STATUS_SUCCESS);
  absl::Status status = products_->Choose(shape).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), about + "cublasLtMatmulAlgoGetHeuristic: it knows no algorithm");
  standin_cublas_find(1, CUBLAS_STATUS_NOT_SUPPORTED);
  status = products_->Choose(shape).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), about +
                                  "the result of cublasLtMatmulAlgoGetHeuristic: "
                                  "CUBLAS_STATUS_NOT_SUPPORTED (15)");
  standin_cublas_find(1, CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(Chosen(shape), nullptr);
}

TEST_F(ProductsTest, ACaptureHoldsProductsButNoSearch) {
  std::mt19937 random(10);
  const ProductShape shape = {ProductKind::kWeightGrad, 40, 6, 5, false, false, true};
  const Product* const product = Chosen(shape);
  HostProduct host = RandomProduct(shape, &random);
  const ProductRun run = RunOf(product, host, false);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_TRUE(products_->Run(product, run, stream_).ok());
  EXPECT_EQ(products_->Choose({ProductKind::kForward, 2, 3, 4}).status().message(),
            "y = x w' of 2 rows, 3 inputs, 4 outputs: cublasLtMatmulAlgoGetHeuristic: "
            "CUBLAS_STATUS_INTERNAL_ERROR (14)");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    host.out = OnTheCpu(shape, host);
  }
  ExpectNear(host.out, FromDevice(run.out, host.out.size()));
}

TEST_F(ProductsTest, WithoutLibraryOrGpuItIsUnavailable) {
  standin_cublas_fail_call(1, CUBLAS_STATUS_NOT_INITIALIZED);
  const absl::Status no_gpu = Products::Make().status();
  EXPECT_EQ(no_gpu.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(no_gpu.message(),
            "cuBLASLt finds no GPU: cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED (1)");
  const absl::Status none = CublasLt::Open("libnowhere.so.13").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(none.message(), "cuBLASLt cannot be loaded: libnowhere.so.13: "))
      << none;
  const absl::Status other = CublasLt::Open("libcudart.so.13").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(other.message(), "libcudart.so.13 has no cublasLtCreate");
}

// For any LD_LIBRARY_PATH.
TEST_F(ProductsTest, TheLibraryIsTheStandIn) {
  const auto library = CublasLt::Open();
  ASSERT_TRUE(library.ok()) << library.status();
  const int64_t calls = standin_cublas_calls();
  EXPECT_EQ(library->cublasLtDestroy(nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(standin_cublas_calls(), calls + 1);
}

}  // namespace
}  // namespace stringline::cuda
