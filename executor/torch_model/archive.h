// A .pt2 file: the output of torch.export.save, a zip of a folder.
//
//   ROOT/models/model.json                    the program (program.h)
//   ROOT/data/weights/model_weights_config.json, weight_0, weight_1, ...
//   ROOT/data/constants/model_constants_config.json, tensor_0, ...
//
// The configs map every name of a parameter or buffer to the file of its storage, raw little-endian
// bytes, and to sizes, strides and offset there. Several names may share a storage.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct zip;

namespace stringline {

// torch's numbers of types, as its schema has them.
enum class TorchType : int {
  kByte = 1,
  kChar = 2,
  kShort = 3,
  kInt = 4,
  kLong = 5,
  kHalf = 6,
  kFloat = 7,
  kDouble = 8,
  kBool = 12,
  kBFloat16 = 13,
};
// "float32"; "type 29" for a type without a name here.
std::string NameOf(TorchType type);
inline bool IsFloat(TorchType type) {
  return type == TorchType::kHalf || type == TorchType::kFloat || type == TorchType::kDouble ||
         type == TorchType::kBFloat16;
}
// Whole numbers wide enough for any vocabulary.
inline bool HoldsTokens(TorchType type) {
  return type == TorchType::kInt || type == TorchType::kLong;
}

struct TorchTensor {
  std::string file;  // in the archive
  TorchType type = TorchType::kFloat;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  // elements
  bool pickled = false;

  int64_t elements() const;
};

class Pt2Archive {
 public:
  // Every error names the path: NotFound; InvalidArgument for a file that is no zip, is cut short,
  // holds no program or a program of an older form, or has compressed files of more than 256 MiB.
  // No reader takes more memory than that and the file's own size.
  static absl::StatusOr<Pt2Archive> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // The program as JSON.
  absl::StatusOr<std::string> Program() const;
  // Parameters, buffers and constants, by name.
  const std::map<std::string, TorchTensor>& tensors() const { return tensors_; }
  // The tensor's values, row-major. InvalidArgument for a type that is not read, a pickled tensor,
  // or a tensor beyond the end of its storage; the message names the tensor.
  absl::StatusOr<std::vector<double>> Values(const std::string& name) const;
  absl::StatusOr<std::vector<float>> Floats(const std::string& name) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };

  explicit Pt2Archive(std::string path) : path_(std::move(path)) {}
  absl::Status CheckSizes() const;
  absl::Status Begin();
  absl::Status ReadConfig(const std::string& folder, const std::string& ending);
  absl::Status Wrong(const std::string& what) const;
  absl::StatusOr<std::string> Read(const std::string& file) const;
  template <typename Number>
  absl::StatusOr<std::vector<Number>> ValuesAs(const std::string& name) const;

  std::string path_;
  std::unique_ptr<zip, Close> archive_;
  std::string root_;   // "llama/"
  std::string model_;  // "model"
  std::vector<std::string> files_;
  std::map<std::string, TorchTensor> tensors_;
};

}  // namespace stringline
