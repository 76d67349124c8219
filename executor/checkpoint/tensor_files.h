// All tensors of a folder, in a single safetensors file or in several with an index.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/checkpoint/tensor_file.h"

namespace stringline {

// True if anything exists at this path.
bool IsThere(const std::string& path);

struct PlacedTensor {
  const TensorFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

class TensorFiles {
 public:
  // model.safetensors, or the files in model.safetensors.index.json. InvalidArgument for an index
  // that is malformed, names a file outside the folder or a tensor missing from its file, or lacks
  // tensors of its files; NotFound without either; errors of TensorFile.
  static absl::StatusOr<TensorFiles> Open(const std::string& folder);

  const std::map<std::string, PlacedTensor>& all() const { return tensors_; }

 private:
  absl::Status OpenIndex(const std::string& folder, const std::string& index);
  void Place(const TensorFile& file);

  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, PlacedTensor> tensors_;  // by name
};

}  // namespace stringline
