#include "executor/checkpoint/tensor_files.h"

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/json_tree.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string InFolder(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

absl::Status InFile(const std::string& path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

}  // namespace

bool IsThere(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::StatusOr<TensorFiles> TensorFiles::Open(const std::string& folder) {
  TensorFiles files;
  const std::string one = InFolder(folder, kOneFile), index = InFolder(folder, kIndex);
  if (!IsThere(one) && IsThere(index)) {
    SL_RETURN_IF_ERROR(files.OpenIndex(folder, index));
    return files;
  }
  SL_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(one));
  files.files_.push_back(std::make_unique<TensorFile>(std::move(file)));
  files.Place(*files.files_.back());
  return files;
}

void TensorFiles::Place(const TensorFile& file) {
  for (const StoredTensor& tensor : file.header().tensors) tensors_[tensor.name] = {&file, &tensor};
}

absl::Status TensorFiles::OpenIndex(const std::string& folder, const std::string& index) {
  constexpr uint64_t kMostBytes = 100'000'000;
  SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(index, kMostBytes));
  const auto tree = ParseJsonObject(text, "the index", 4);
  if (!tree.ok()) return InFile(index, tree.status().message());
  const auto map = tree->find("weight_map");
  if (map == tree->end() || !map->is_object()) return InFile(index, "no object 'weight_map'");
  std::map<std::string, std::set<std::string>> names;  // the tensors in each file
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) return InFile(index, absl::StrCat(Quoted(tensor), " is in no file"));
    const std::string name = file.get<std::string>();
    if (absl::StrContains(name, "/") || !absl::EndsWith(name, ".safetensors")) {
      return InFile(index, absl::StrCat(Quoted(name), " is no safetensors file in this folder"));
    }
    names[name].insert(tensor);
  }
  for (const auto& [name, tensors] : names) {
    SL_ASSIGN_OR_RETURN(TensorFile opened, TensorFile::Open(InFolder(folder, name)));
    files_.push_back(std::make_unique<TensorFile>(std::move(opened)));
    const TensorFile& file = *files_.back();
    std::set<std::string> left = tensors;
    for (const StoredTensor& tensor : file.header().tensors) {
      if (left.erase(tensor.name) == 1) continue;
      return InFile(file.path(),
                    absl::StrCat("tensor ", Quoted(tensor.name), " is here, but not by the index"));
    }
    if (!left.empty()) {
      return InFile(file.path(), absl::StrCat("tensor ", Quoted(*left.begin()),
                                              " is missing: the index says that it is here"));
    }
    Place(file);
  }
  return absl::OkStatus();
}

}  // namespace stringline
