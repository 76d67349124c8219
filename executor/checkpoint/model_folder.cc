// A folder is a config and tensors, or tensors alone; load_tensors.h reads those, here they are
// written: one after the other, each from wherever its parameter's pieces are.
#include "executor/checkpoint/model_folder.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/load_tensors.h"
#include "executor/checkpoint/model_sizes.h"
#include "executor/checkpoint/tensor_files.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr const char* kConfig = "config.json";

std::string ConfigOf(const std::string& folder) {
  return (std::filesystem::path(folder) / kConfig).string();
}

absl::StatusOr<FamilyConfig> ReadConfig(const std::string& folder, int context) {
  constexpr uint64_t kMostBytes = 10'000'000;
  const std::string path = ConfigOf(folder);
  SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(path, kMostBytes));
  absl::StatusOr<FamilyConfig> config = ReadFamilyConfig(text, context);
  if (config.ok()) return config;
  return absl::Status(config.status().code(), absl::StrCat(path, ": ", config.status().message()));
}

absl::string_view AsBytes(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

absl::Status AppendTensor(const ParamPlace& place, const StoredSlice& slice, NewFile* file) {
  for (const ParamPlace::Range& range : RangesOf(place, slice)) {
    std::vector<float> own(range.copies.front().size());
    SL_RETURN_IF_ERROR(place.Read(range.copies.front(), own.data()));
    if (!slice.transposed) {
      SL_RETURN_IF_ERROR(file->Append(AsBytes(own)));
      continue;
    }
    std::vector<float> turned(own.size());
    for (int64_t r = 0; r < slice.rows; ++r) {
      for (int64_t c = 0; c < slice.columns; ++c) {
        turned[c * slice.rows + r] = own[r * slice.columns + c];
      }
    }
    SL_RETURN_IF_ERROR(file->Append(AsBytes(turned)));
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(const std::string& file, absl::Span<const ParamPlace> places) {
  std::vector<float> host;
  for (const ParamPlace& place : places) {
    for (const std::vector<absl::Span<float>>& piece : place.pieces) {
      host.resize(piece.front().size());
      SL_RETURN_IF_ERROR(place.Read(piece.front(), host.data()));
      for (const float value : host) {
        if (std::isfinite(value)) continue;
        return absl::OutOfRangeError(absl::StrCat(file, ": not written: parameter ",
                                                  Quoted(place.param.name),
                                                  " holds a value that is not finite"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status WriteParams(const std::string& file, const FamilyConfig& config, int64_t steps,
                         absl::Span<const ParamPlace> places) {
  TensorHeader header;
  header.metadata = {{"format", "pt"}, {"steps", absl::StrCat(steps)}};
  if (config.params.empty()) {
    for (auto& [name, value] : SizesOf(config.shape)) header.metadata[name] = value;
  }
  std::vector<std::pair<StoredSlice, const ParamPlace*>> slices;
  uint64_t end = 0;
  for (const ParamPlace& place : places) {
    for (StoredSlice& slice : SlicesOf(place.param, config.shape, config.params)) {
      const uint64_t begin = end;
      end += static_cast<uint64_t>(slice.rows * slice.columns) * sizeof(float);
      header.tensors.push_back({slice.name, "F32", slice.shape(), begin, end});
      slices.emplace_back(std::move(slice), &place);
    }
  }
  SL_ASSIGN_OR_RETURN(NewFile written, NewFile::Create(file));
  SL_RETURN_IF_ERROR(written.Append(PrintTensorHeader(header)));
  for (const auto& [slice, place] : slices) {
    SL_RETURN_IF_ERROR(AppendTensor(*place, slice, &written));
  }
  return written.Commit();
}

absl::Status CheckSizes(const std::string& file, const std::map<std::string, std::string>& said,
                        const AnyShape& shape) {
  for (const auto& [name, wanted] : SizesOf(shape)) {
    const auto found = said.find(name);
    if (found == said.end() || found->second == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": the parameters of a model with ", name,
                                                   " ", Quoted(found->second),
                                                   "; the run file's has ", wanted));
  }
  return absl::OkStatus();
}

// A folder without a config.
absl::Status LoadOwnNames(const std::string& folder, const AnyShape& shape,
                          absl::Span<const ParamPlace> places) {
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  if (!files.all().empty()) {
    const TensorFile& file = *files.all().begin()->second.file;
    SL_RETURN_IF_ERROR(CheckSizes(file.path(), file.header().metadata, shape));
  }
  return LoadTensors(files, {"", shape, {}, {}}, places);
}

}  // namespace

std::string ParamsFile(const std::string& folder) {
  return (std::filesystem::path(folder) / "model.safetensors").string();
}

absl::StatusOr<AnyShape> ReadFolderShape(const std::string& folder, int context) {
  SL_ASSIGN_OR_RETURN(const FamilyConfig config, ReadConfig(folder, context));
  return config.shape;
}

absl::Status LoadModelFolder(const std::string& folder, const AnyShape& shape,
                             absl::Span<const ParamPlace> places) {
  if (!IsThere(ConfigOf(folder))) return LoadOwnNames(folder, shape, places);
  SL_ASSIGN_OR_RETURN(const FamilyConfig config, ReadConfig(folder, shape.context()));
  std::map<std::string, std::string> said;
  for (auto& [name, value] : SizesOf(config.shape)) said[name] = value;
  SL_RETURN_IF_ERROR(CheckSizes(ConfigOf(folder), said, shape));
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  return LoadTensors(files, config, places);
}

absl::Status CheckSavable(const std::string& folder, const AnyShape& shape) {
  const absl::Status known = FamilyOf(shape).status();
  if (known.ok() || !IsThere(ConfigOf(folder))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      ConfigOf(folder), ": is there, and the model would be saved without one: ", known.message(),
      "; another folder would help"));
}

std::string WhySavedWithoutConfig(const AnyShape& shape) {
  return std::string(FamilyOf(shape).status().message());
}

absl::Status SaveModelFolder(const std::string& folder, const AnyShape& shape, int64_t steps,
                             absl::Span<const ParamPlace> places) {
  SL_RETURN_IF_ERROR(CheckSavable(folder, shape));
  SL_RETURN_IF_ERROR(CheckFinite(ParamsFile(folder), places));
  const absl::StatusOr<FamilyConfig> config = FamilyOf(shape);
  if (!config.ok()) return WriteParams(ParamsFile(folder), {"", shape, {}, {}}, steps, places);
  SL_ASSIGN_OR_RETURN(NewFile written, NewFile::Create(ConfigOf(folder)));
  SL_RETURN_IF_ERROR(written.Append(PrintFamilyConfig(shape)));
  SL_RETURN_IF_ERROR(written.Commit());
  return WriteParams(ParamsFile(folder), *config, steps, places);
}

}  // namespace stringline
