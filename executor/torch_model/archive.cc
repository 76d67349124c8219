// libzip finds the records and checks their sums; their names, sizes and contents are checked here,
// sizes before any memory is taken. A tensor is read with its whole storage, and gathered from the
// storage by its strides.
#include "executor/torch_model/archive.h"

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/json_tree.h"
#include "executor/checkpoint/tensor_header.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/open_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Json = nlohmann::json;

constexpr int kDeepestConfig = 16;
constexpr absl::string_view kModels = "models/";
// The most that compressed files may hold together: torch stores all files as they are.
constexpr uint64_t kMostInflated = uint64_t{256} << 20;
// The most elements of a tensor whose storage holds fewer, as an expanded one.
constexpr int64_t kMostExpanded = int64_t{1} << 27;

struct NamedType {
  TorchType type;
  const char* name;
  int bytes;
};
constexpr NamedType kTorchTypes[] = {
    {TorchType::kByte, "uint8", 1},    {TorchType::kChar, "int8", 1},
    {TorchType::kShort, "int16", 2},   {TorchType::kInt, "int32", 4},
    {TorchType::kLong, "int64", 8},    {TorchType::kHalf, "float16", 2},
    {TorchType::kFloat, "float32", 4}, {TorchType::kDouble, "float64", 8},
    {TorchType::kBool, "bool", 1},     {TorchType::kBFloat16, "bfloat16", 2},
};

const NamedType* TypeRow(TorchType type) {
  const auto* const row = std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                                       [type](const NamedType& of) { return of.type == type; });
  return row == std::end(kTorchTypes) ? nullptr : row;
}

template <typename Stored>
double Load(const char* bytes) {
  Stored value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double NumberAt(TorchType type, const char* bytes) {
  switch (type) {
    case TorchType::kByte:
    case TorchType::kBool:
      return Load<uint8_t>(bytes);
    case TorchType::kChar:
      return Load<int8_t>(bytes);
    case TorchType::kShort:
      return Load<int16_t>(bytes);
    case TorchType::kInt:
      return Load<int32_t>(bytes);
    case TorchType::kLong:
      return Load<int64_t>(bytes);
    case TorchType::kFloat:
      return Load<float>(bytes);
    case TorchType::kDouble:
      return Load<double>(bytes);
    default: {  // kBFloat16: the upper half of a float
      uint16_t half;
      std::memcpy(&half, bytes, sizeof half);
      return std::bit_cast<float>(uint32_t{half} << 16);
    }
  }
}

// {"as_int": 4}, or for a size that may vary {"as_expr": {"hint": {"as_int": 4}}}.
absl::StatusOr<int64_t> StoredSizeIn(const Json& size) {
  if (size.is_object() && size.contains("as_int") && size["as_int"].is_number_integer()) {
    return size["as_int"].get<int64_t>();
  }
  if (size.is_object() && size.contains("as_expr")) {
    const Json& expression = size["as_expr"];
    if (expression.contains("hint") && expression["hint"].is_object()) {
      return StoredSizeIn(expression["hint"]);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("a size is ", InJson(size)));
}

absl::StatusOr<std::vector<int64_t>> StoredSizesIn(const Json& list) {
  std::vector<int64_t> sizes;
  for (const Json& size : list) {
    SL_ASSIGN_OR_RETURN(sizes.emplace_back(), StoredSizeIn(size));
  }
  return sizes;
}

absl::StatusOr<TorchTensor> TensorIn(const Json& entry, const std::string& folder) {
  TorchTensor tensor;
  tensor.file = folder + entry.at("path_name").get<std::string>();
  tensor.pickled = entry.value("use_pickle", false);
  const Json& meta = entry.at("tensor_meta");
  if (meta.is_null()) {
    tensor.pickled = true;
    return tensor;
  }
  tensor.type = static_cast<TorchType>(meta.at("dtype").get<int>());
  SL_ASSIGN_OR_RETURN(tensor.sizes, StoredSizesIn(meta.at("sizes")));
  SL_ASSIGN_OR_RETURN(tensor.strides, StoredSizesIn(meta.at("strides")));
  SL_ASSIGN_OR_RETURN(tensor.offset, StoredSizeIn(meta.at("storage_offset")));
  return tensor;
}

// The largest offset that the tensor reads, or -1 for a malformed tensor.
int64_t LastPlace(const TorchTensor& tensor) {
  constexpr int64_t kFar = int64_t{1} << 50;
  if (tensor.sizes.size() != tensor.strides.size() || tensor.offset < 0) return -1;
  int64_t last = tensor.offset;
  int64_t elements = 1;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] < 1 || tensor.strides[d] < 0) return -1;
    if (tensor.sizes[d] > kFar / elements || tensor.strides[d] > kFar / tensor.sizes[d]) return -1;
    elements *= tensor.sizes[d];
    last += (tensor.sizes[d] - 1) * tensor.strides[d];
    if (last > kFar) return -1;
  }
  return last;
}

}  // namespace

std::string NameOf(TorchType type) {
  const NamedType* const row = TypeRow(type);
  return row == nullptr ? absl::StrCat("type ", static_cast<int>(type)) : row->name;
}

int64_t TorchTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

void Pt2Archive::Close::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<Pt2Archive> Pt2Archive::Open(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const int file, OpenToRead(path));
  close(file);  // the common errors in the common words
  Pt2Archive archive(path);
  int code = 0;
  archive.archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive.archive_ == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return archive.Wrong(
        absl::StrCat("not a whole zip archive, as torch.export.save writes it: ", why));
  }
  SL_RETURN_IF_ERROR(archive.CheckSizes());
  SL_RETURN_IF_ERROR(archive.Begin());
  return archive;
}

absl::Status Pt2Archive::CheckSizes() const {
  std::error_code error;
  const uint64_t in_all = std::filesystem::file_size(path_, error);
  if (error) return Wrong(error.message());
  uint64_t stored = 0, inflated = 0;
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t about;
    if (zip_stat_index(archive_.get(), i, 0, &about) != 0) return Wrong("a file has no size");
    // Entries whose bytes overlap would hold more than the whole file does.
    if (about.comp_size > in_all - stored)
      return Wrong("its entries hold more than the whole file");
    stored += about.comp_size;
    if (about.comp_method == ZIP_CM_STORE && about.size == about.comp_size) continue;
    if (about.size <= kMostInflated - inflated) {
      inflated += about.size;
      continue;
    }
    return Wrong(absl::StrCat(
        "its compressed files inflate to more than ", PrintBytes(kMostInflated, 0), "; ",
        Quoted(about.name), " is said to become ", about.size, " bytes of ", about.comp_size,
        ". torch.export.save compresses none: store them as they are (zip -0)"));
  }
  return absl::OkStatus();
}

absl::Status Pt2Archive::Wrong(const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
}

absl::Status Pt2Archive::Begin() {
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) files_.emplace_back(zip_get_name(archive_.get(), i, 0));
  for (const std::string& file : files_) {
    if (absl::EndsWith(file, "serialized_exported_program.json")) {
      return Wrong(
          "a program of PyTorch before 2.8, whose weights are pickled: save it with a newer one");
    }
  }
  if (!files_.empty()) root_ = files_.front().substr(0, files_.front().find('/') + 1);
  const std::string prefix = absl::StrCat(root_, kModels);
  std::vector<std::string> models;
  for (const std::string& file : files_) {
    if (absl::StartsWith(file, prefix) && absl::EndsWith(file, ".json")) models.push_back(file);
  }
  if (models.size() != 1) {
    return Wrong(
        absl::StrCat("holds ", models.size(), " programs (models/NAME.json); one is read"));
  }
  model_ = models.front().substr(prefix.size(), models.front().size() - prefix.size() - 5);
  SL_ASSIGN_OR_RETURN(const std::string order, Read("byteorder"));
  if (order != "little") return Wrong(absl::StrCat("its byte order is ", Quoted(order)));
  if (std::count(files_.begin(), files_.end(),
                 absl::StrCat(root_, "data/weights/", model_, ".pt"))) {
    return Wrong("its weights are pickled: save it with PyTorch 2.9 or later");
  }
  SL_RETURN_IF_ERROR(ReadConfig("data/weights/", "_weights_config.json"));
  return ReadConfig("data/constants/", "_constants_config.json");
}

absl::Status Pt2Archive::ReadConfig(const std::string& folder, const std::string& ending) {
  const std::string file = absl::StrCat(folder, model_, ending);
  if (std::count(files_.begin(), files_.end(), root_ + file) == 0) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(const std::string text, Read(file));
  const absl::StatusOr<Json> config = ParseJsonObject(text, file, kDeepestConfig);
  if (!config.ok()) return Wrong(std::string(config.status().message()));
  try {
    for (const auto& [name, entry] : config->at("config").items()) {
      const absl::StatusOr<TorchTensor> tensor = TensorIn(entry, folder);
      if (!tensor.ok()) {
        return Wrong(absl::StrCat(file, ": ", Quoted(name), ": ", tensor.status().message()));
      }
      tensors_[name] = *tensor;
    }
  } catch (const Json::exception& error) {
    return Wrong(absl::StrCat(file, ": ", error.what()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Pt2Archive::Program() const {
  return Read(absl::StrCat(kModels, model_, ".json"));
}

absl::StatusOr<std::string> Pt2Archive::Read(const std::string& file) const {
  const std::string name = root_ + file;
  zip_stat_t about;
  if (zip_stat(archive_.get(), name.c_str(), 0, &about) != 0) {
    return Wrong(absl::StrCat("has no ", Quoted(file)));
  }
  std::string bytes(about.size, '\0');
  zip_file_t* const opened = zip_fopen(archive_.get(), name.c_str(), 0);
  const zip_int64_t got = opened == nullptr ? -1 : zip_fread(opened, bytes.data(), bytes.size());
  // The record's sum is checked behind the last byte.
  char beyond;
  const bool whole =
      got == static_cast<zip_int64_t>(bytes.size()) && zip_fread(opened, &beyond, 1) == 0;
  const bool closed = opened == nullptr || zip_fclose(opened) == 0;
  if (!whole || !closed) {
    return Wrong(absl::StrCat(Quoted(file), " cannot be read: was the file cut short or changed?"));
  }
  return bytes;
}

template <typename Value>
absl::StatusOr<std::vector<Value>> Pt2Archive::ValuesAs(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return Wrong(absl::StrCat("has no values of ", Quoted(name)));
  const TorchTensor& tensor = found->second;
  const auto wrong = [&](const std::string& what) {
    return Wrong(absl::StrCat("tensor ", Quoted(name), ": ", what));
  };
  if (tensor.pickled) return wrong("is pickled; raw values are read");
  const NamedType* const row = TypeRow(tensor.type);
  if (row == nullptr || tensor.type == TorchType::kHalf) {
    return wrong(absl::StrCat("is of ", NameOf(tensor.type), "; float32 and bfloat16 are read"));
  }
  SL_ASSIGN_OR_RETURN(const std::string storage, Read(tensor.file));
  const int64_t last = LastPlace(tensor);
  if (last < 0 || static_cast<uint64_t>(last + 1) * row->bytes > storage.size()) {
    return wrong(absl::StrCat("reaches beyond its storage of ", storage.size(), " bytes"));
  }
  const int64_t most = std::max(static_cast<int64_t>(storage.size()) / row->bytes, kMostExpanded);
  if (tensor.elements() > most) {
    return wrong(absl::StrCat("has ", tensor.elements(), " elements in a storage of ",
                              storage.size(), " bytes"));
  }
  std::vector<Value> values(tensor.elements());
  std::vector<int64_t> at(tensor.sizes.size());
  int64_t place = tensor.offset;
  for (Value& value : values) {
    value = static_cast<Value>(NumberAt(tensor.type, storage.data() + place * row->bytes));
    for (size_t d = at.size(); d-- > 0;) {
      place += tensor.strides[d];
      if (++at[d] < tensor.sizes[d]) break;
      place -= at[d] * tensor.strides[d];
      at[d] = 0;
    }
  }
  return values;
}

absl::StatusOr<std::vector<double>> Pt2Archive::Values(const std::string& name) const {
  return ValuesAs<double>(name);
}

absl::StatusOr<std::vector<float>> Pt2Archive::Floats(const std::string& name) const {
  return ValuesAs<float>(name);
}

}  // namespace stringline
