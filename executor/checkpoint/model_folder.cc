// A folder is a config and tensors, or tensors alone. load_tensors.h reads tensors; here they are
// written, one after the other, each from the pieces of its parameter.
#include "executor/checkpoint/model_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/load_tensors.h"
#include "executor/checkpoint/model_sizes.h"
#include "executor/checkpoint/param_reader.h"
#include "executor/checkpoint/tensor_files.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Texts that a run takes over from a folder. A tokeniser's files are not read.
constexpr const char* kGivenFiles[] = {kConfigFile, "generation_config.json"};

constexpr uint64_t kMostBytes = 10'000'000;  // for a text

std::string ConfigOf(const std::string& folder) {
  return (std::filesystem::path(folder) / kConfigFile).string();
}

absl::StatusOr<FamilyConfig> ReadConfig(const std::string& folder, int context,
                                        bool without_dropout) {
  const std::string path = ConfigOf(folder);
  SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(path, kMostBytes));
  absl::StatusOr<FamilyConfig> config = ReadFamilyConfig(text, context, without_dropout);
  if (config.ok()) return config;
  return absl::Status(config.status().code(), absl::StrCat(path, ": ", config.status().message()));
}

absl::string_view AsBytes(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Appends the tensor to the file, in the process that has the file.
absl::Status AppendTensor(const ParamReader& reader, absl::Span<const ParamPlace> places,
                          size_t place, const StoredSlice& slice, NewFile* file) {
  std::vector<float> whole;  // for a transposed tensor
  for (const ParamPlace::Range& range : RangesOf(places[place], slice)) {
    SL_ASSIGN_OR_RETURN(const std::vector<float> values, reader.Read(place, range));
    if (file == nullptr) continue;
    if (slice.transposed) {
      whole.insert(whole.end(), values.begin(), values.end());
    } else {
      SL_RETURN_IF_ERROR(file->Append(AsBytes(values)));
    }
  }
  if (file == nullptr) return absl::OkStatus();
  if (!slice.transposed) return file->Append(AsBytes(slice.rest()));
  std::vector<float> turned(whole.size());
  for (int64_t r = 0; r < slice.rows; ++r) {
    for (int64_t c = 0; c < slice.columns; ++c) {
      turned[c * slice.rows + r] = whole[r * slice.columns + c];
    }
  }
  return file->Append(AsBytes(turned));
}

// The first of this process's parameters with a value that is not finite, or "".
absl::StatusOr<std::string> FindNotFinite(const ParamReader& reader,
                                          absl::Span<const ParamPlace> places) {
  std::vector<float> host;
  for (size_t p = 0; p < places.size(); ++p) {
    for (size_t piece = 0; piece < places[p].pieces.size(); ++piece) {
      if (!reader.Gives(p, piece)) continue;
      const absl::Span<float> values = places[p].pieces[piece].copies.front();
      host.resize(values.size());
      SL_RETURN_IF_ERROR(places[p].Read(values, host.data()));
      for (const float value : host) {
        if (!std::isfinite(value)) return places[p].param.name;
      }
    }
  }
  return std::string();
}

absl::Status CheckFinite(const std::string& file, const ParamReader& reader,
                         absl::Span<const ParamPlace> places) {
  SL_ASSIGN_OR_RETURN(const std::string own, FindNotFinite(reader, places));
  SL_ASSIGN_OR_RETURN(const std::string found, reader.FirstText(own));
  if (found.empty()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(file, ": not written: parameter ", Quoted(found),
                                            " holds a value that is not finite"));
}

absl::Status WriteParams(const std::string& file, const FamilyConfig& config, int64_t steps,
                         const ParamReader& reader, absl::Span<const ParamPlace> places) {
  TensorHeader header;
  header.metadata = {{"format", "pt"}, {"steps", absl::StrCat(steps)}};
  if (config.params.empty()) {
    for (auto& [name, value] : SizesOf(config.shape)) header.metadata[name] = value;
  }
  std::vector<std::pair<StoredSlice, size_t>> slices;
  uint64_t end = 0;
  for (size_t p = 0; p < places.size(); ++p) {
    for (const StoredSlice& slice : SlicesOf(places[p].param, config.shape, config.params)) {
      std::vector<std::string> names = slice.aliases;
      names.insert(names.begin(), slice.name);
      for (const std::string& name : names) {
        const uint64_t begin = end;
        const auto values = static_cast<uint64_t>(slice.rows * slice.columns) + slice.rest().size();
        end += values * sizeof(float);
        header.tensors.push_back({name, "F32", slice.whole_shape(), begin, end});
        slices.emplace_back(slice, p);
      }
    }
  }
  std::optional<NewFile> written;
  if (reader.gets()) {
    SL_ASSIGN_OR_RETURN(NewFile made, NewFile::Create(file));
    written.emplace(std::move(made));
    SL_RETURN_IF_ERROR(written->Append(PrintTensorHeader(header)));
  }
  for (const auto& [slice, place] : slices) {
    SL_RETURN_IF_ERROR(AppendTensor(reader, places, place, slice, written ? &*written : nullptr));
  }
  return written ? written->Commit() : absl::OkStatus();
}

absl::Status WriteText(const std::string& file, const std::string& text) {
  SL_ASSIGN_OR_RETURN(NewFile written, NewFile::Create(file));
  SL_RETURN_IF_ERROR(written.Append(text));
  return written.Commit();
}

// The table of positions, if its rows exceed the context.
absl::StatusOr<std::vector<float>> ReadLongerPositions(const std::string& folder,
                                                       const GptShape& shape) {
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  for (const char* const name : {"transformer.wpe.weight", "wpe.weight"}) {
    const auto found = files.all().find(name);
    if (found == files.all().end()) continue;
    const StoredTensor& tensor = *found->second.tensor;
    const auto width = static_cast<uint64_t>(shape.width);
    // Any other shape is refused where the parameters are read.
    if (!IsReadable(tensor.dtype) || tensor.shape.size() != 2 || tensor.shape[1] != width ||
        tensor.shape[0] <= static_cast<uint64_t>(shape.context)) {
      return std::vector<float>();
    }
    std::vector<float> values(tensor.shape[0] * tensor.shape[1]);
    SL_RETURN_IF_ERROR(found->second.file->Read(tensor, 0, absl::MakeSpan(values)));
    if (std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
      return values;
    }
    return absl::InvalidArgumentError(absl::StrCat(found->second.file->path(), ": tensor ",
                                                   Quoted(name),
                                                   " holds a value that is not finite"));
  }
  return std::vector<float>();
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
                          absl::Span<const ParamPlace> places, World* world) {
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  if (!files.all().empty()) {
    const TensorFile& file = *files.all().begin()->second.file;
    SL_RETURN_IF_ERROR(CheckSizes(file.path(), file.header().metadata, shape));
  }
  return LoadTensors(files, {"", shape, {}, {}}, places, world);
}

}  // namespace

std::string ParamsFile(const std::string& folder) {
  return (std::filesystem::path(folder) / "model.safetensors").string();
}

absl::StatusOr<AnyShape> ReadFolderShape(const std::string& folder, int context,
                                         bool without_dropout) {
  SL_ASSIGN_OR_RETURN(const FamilyConfig config, ReadConfig(folder, context, without_dropout));
  return config.shape;
}

absl::Status KeepGiven(const std::string& folder, AnyShape* shape) {
  const bool raised = std::holds_alternative<RaisedShape>(shape->family);
  if (raised || !IsThere(ConfigOf(folder))) return absl::OkStatus();
  GivenFolder given;
  for (const char* const name : kGivenFiles) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    if (!IsThere(path)) continue;
    SL_ASSIGN_OR_RETURN(given.files[name], ReadBytes(path, kMostBytes));
  }
  if (const auto* const gpt = std::get_if<GptShape>(&shape->family)) {
    SL_ASSIGN_OR_RETURN(given.positions, ReadLongerPositions(folder, *gpt));
  }
  shape->given = std::make_shared<const GivenFolder>(std::move(given));
  return absl::OkStatus();
}

std::vector<std::pair<std::string, std::string>> TextsOf(const AnyShape& shape) {
  std::vector<std::pair<std::string, std::string>> texts;
  if (!FamilyOf(shape).ok()) return texts;
  texts.emplace_back(kConfigFile, PrintFamilyConfig(shape));
  for (const char* const name : kGivenFiles) {
    const std::string* const text = shape.GivenFile(name);
    if (text != nullptr && name != absl::string_view(kConfigFile)) texts.emplace_back(name, *text);
  }
  return texts;
}

absl::Status LoadModelFolder(const std::string& folder, const AnyShape& shape,
                             absl::Span<const ParamPlace> places, World* world) {
  const bool raised = std::holds_alternative<RaisedShape>(shape.family);
  if (raised || !IsThere(ConfigOf(folder))) return LoadOwnNames(folder, shape, places, world);
  // Dropout changes no parameter, and the run file asks for training without dropout.
  SL_ASSIGN_OR_RETURN(const FamilyConfig config,
                      ReadConfig(folder, shape.context(), /*without_dropout=*/true));
  std::map<std::string, std::string> said;
  for (auto& [name, value] : SizesOf(config.shape)) said[name] = value;
  SL_RETURN_IF_ERROR(CheckSizes(ConfigOf(folder), said, shape));
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  return LoadTensors(files, config, places, world);
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
                             absl::Span<const ParamPlace> places, World* world) {
  SL_ASSIGN_OR_RETURN(const ParamReader reader, ParamReader::Make(places, world));
  if (reader.gets()) SL_RETURN_IF_ERROR(CheckSavable(folder, shape));
  SL_RETURN_IF_ERROR(CheckFinite(ParamsFile(folder), reader, places));
  const absl::StatusOr<FamilyConfig> known = FamilyOf(shape);
  if (reader.gets()) {
    for (const auto& [name, text] : TextsOf(shape)) {
      SL_RETURN_IF_ERROR(WriteText((std::filesystem::path(folder) / name).string(), text));
    }
  }
  const FamilyConfig config = known.ok() ? *known : FamilyConfig{"", shape, {}, {}};
  SL_RETURN_IF_ERROR(WriteParams(ParamsFile(folder), config, steps, reader, places));
  // The other processes learn that the files are there.
  return reader.FirstText("").status();
}

}  // namespace stringline
