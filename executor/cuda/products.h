// Matrix products on a GPU, by cuBLASLt: of float32 without TF32, or of bf16 with sums in float32.
//
// The algorithm of a shape is chosen on its first request, and is the same in every run, on every
// GPU of a process: the same inputs give the same bits, whatever the schedule and the place. The
// library is looked up at run time, so that programs start on machines without it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/cuda/product_shape.h"
#include "schedlang/base/align.h"

namespace stringline::cuda {

// A shape with its algorithm.
struct Product;

// The matrices of a run. All are aligned to Products::kAlignment, the workspace to
// kWorkspaceAlignment; out overlaps no other matrix, but may be the residual itself.
struct ProductRun {
  const void* a;  // kForward: x, w.  kInputGrad: dy, w.  kWeightGrad: dy, x.
  const void* b;
  void* out;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* workspace = nullptr;         // of WorkspaceBytes; not shared with concurrent runs
  const void* gelu_input = nullptr;  // u
};

class Products {
 public:
  // For the current GPU. Unavailable: no library, or no GPU. `sms`: the number of multiprocessors
  // for a product; 0: all. `load`: every product runs once when it is chosen, so that its code is
  // loaded before any message waits (own_kernels.h).
  static absl::StatusOr<std::unique_ptr<Products>> Make(int sms = 0, bool load = false);
  // The same table for another GPU of the same kind, which is the current GPU.
  absl::StatusOr<std::unique_ptr<Products>> ForAnotherGpu() const;
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Bound on the workspace of any product.
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
  // The alignment of matrices, for which algorithms are chosen: that of all buffers.
  static constexpr int64_t kAlignment = kBufferAlignment;
  static constexpr int64_t kWorkspaceAlignment = 256;

  // Queries the library on a shape's first request; never while a stream is captured. The product
  // lives as long as this object. Any thread may call.
  absl::StatusOr<const Product*> Choose(const ProductShape& shape);
  // Null if the library has no algorithm: the table then holds the reason.
  const Product* ChooseIfThere(const ProductShape& shape);
  // Null if the library refuses the shape: the caller computes it, and the table says so.
  absl::StatusOr<const Product*> ChooseUnlessRefused(const ProductShape& shape);
  // The workspace of a product.
  static int64_t WorkspaceBytes(const Product* product);
  // Enqueues the product; allocates nothing. Any thread may call, and the stream may be under
  // capture.
  absl::Status Run(const Product* product, const ProductRun& run, cudaStream_t stream) const;

  // Keeps the library open when this object ends: closing it waits for the GPU.
  void Abandon();

  // The table of chosen algorithms, a line a shape, in the order of shapes.
  std::string Describe() const;

 private:
  struct Table;
  struct Handle;
  Products(std::shared_ptr<Table> table, std::unique_ptr<Handle> handle);
  absl::Status Load(const Product* product) const;
  void KeepRefusal(const ProductShape& shape, const char* instead, const absl::Status& why);
  static absl::StatusOr<std::unique_ptr<Products>> MakeWith(std::shared_ptr<Table> table);
  const std::shared_ptr<Table> table_;
  const std::unique_ptr<Handle> handle_;  // of one GPU
};

}  // namespace stringline::cuda
