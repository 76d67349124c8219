// All tensors of a folder, in one safetensors file or in several with an index.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/checkpoint/tensor_file.h"

namespace stringline {

// Whether there is a file, or anything, of this name.
bool IsThere(const std::string& path);

struct PlacedTensor {
  const TensorFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

class TensorFiles {
 public:
  // model.safetensors, or what model.safetensors.index.json names. InvalidArgument for an index
  // that is none, that names a file outside the folder, a tensor that is not in the file where it
  // says, or not all tensors of its files; NotFound where neither is there; errors of TensorFile.
  static absl::StatusOr<TensorFiles> Open(const std::string& folder);

  const std::map<std::string, PlacedTensor>& all() const { return tensors_; }

 private:
  absl::Status OpenIndex(const std::string& folder, const std::string& index);
  void Place(const TensorFile& file);

  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, PlacedTensor> tensors_;  // by name
};

}  // namespace stringline
