// Matrix products on a GPU, by cuBLASLt: of float32 without TF32, or of bf16 with sums in float32.
//
// The algorithm of a shape is chosen once, when it is first asked for, and is the same in every run
// of it, on every GPU of a process: the same inputs give the same bits, whichever schedule runs it,
// and wherever. Where the library lies is
// looked up at run time, so that programs start on machines that have none.
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

// Where the matrices of one run are. All are aligned to Products::kAlignment, the workspace to
// kWorkspaceAlignment; out overlaps nothing else, but may be the residual itself.
struct ProductRun {
  const void* a;  // kForward: x, w.  kInputGrad: dy, w.  kWeightGrad: dy, x.
  const void* b;
  void* out;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* workspace = nullptr;  // of WorkspaceBytes; nothing that may run at the same time has it
  const void* gelu_input = nullptr;  // u
};

class Products {
 public:
  // Of the current GPU. Unavailable: no library, or no GPU.
  // `sms`: how many multiprocessors a product has; 0: all.
  static absl::StatusOr<std::unique_ptr<Products>> Make(int sms = 0);
  // The same table for another GPU of the same kind, which is the current one.
  absl::StatusOr<std::unique_ptr<Products>> ForAnotherGpu() const;
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // The most that a product needs.
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
  // Of matrices; algorithms are chosen for it. It is that of all buffers.
  static constexpr int64_t kAlignment = kBufferAlignment;
  static constexpr int64_t kWorkspaceAlignment = 256;

  // Asks the library the first time; never while a stream is captured. Lives as long as this. Any
  // thread may ask.
  absl::StatusOr<const Product*> Choose(const ProductShape& shape);
  // Null where the library has none: then that is in the table, with its reason.
  const Product* ChooseIfThere(const ProductShape& shape);
  // What this one needs.
  static int64_t WorkspaceBytes(const Product* product);
  // Enqueues it; allocates nothing. Any thread may, and a stream may be under capture.
  absl::Status Run(const Product* product, const ProductRun& run, cudaStream_t stream) const;

  // Leaves the library open when this ends: closing it waits for the GPU.
  void Abandon();

  // The table of chosen algorithms, a line a shape, in the order of shapes.
  std::string Describe() const;

 private:
  struct Table;
  struct Handle;
  Products(std::shared_ptr<Table> table, std::unique_ptr<Handle> handle);
  static absl::StatusOr<std::unique_ptr<Products>> MakeWith(std::shared_ptr<Table> table);
  const std::shared_ptr<Table> table_;
  const std::unique_ptr<Handle> handle_;  // of one GPU
};

}  // namespace stringline::cuda
