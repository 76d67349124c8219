// A parameter is read slice by slice, a slice being one tensor: its rows stand one after the other
// in the parameter, or, where the family stores (in, out), it is turned over some rows at a time.
#include "executor/checkpoint/model_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/model_sizes.h"
#include "executor/checkpoint/tensor_files.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr const char* kConfig = "config.json";
// What older files hold beside the parameters: masks and angles, which are computed here.
constexpr const char* kComputed[] = {"h.#.attn.bias", "h.#.attn.masked_bias",
                                     "layers.#.self_attn.rotary_emb.inv_freq"};
constexpr absl::string_view kGpt2Prefix = "transformer.";

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

bool IsComputed(absl::string_view name) {
  std::string pattern = WithoutNumber(name);
  absl::string_view rest = pattern;
  for (const absl::string_view prefix :
       {absl::string_view("transformer."), absl::string_view("model.")}) {
    absl::ConsumePrefix(&rest, prefix);
  }
  return std::find(std::begin(kComputed), std::end(kComputed), rest) != std::end(kComputed);
}

std::string PrintSizes(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Where a tensor's values belong. One that is turned over is in one piece.
std::vector<ParamPlace::Range> RangesOf(const ParamPlace& place, const StoredSlice& slice) {
  std::vector<ParamPlace::Range> ranges =
      place.Ranges(slice.first_row * slice.columns, slice.rows * slice.columns);
  SL_CHECK(!slice.transposed || ranges.size() == 1) << slice.name;
  return ranges;
}

class FolderLoader {
 public:
  FolderLoader(const TensorFiles& files, const FamilyConfig& config)
      : files_(files), config_(config), left_(files.all()) {}

  absl::Status Check(absl::Span<const ParamPlace> places) {
    for (const ParamPlace& place : places) {
      for (StoredSlice& slice : SlicesOf(place.param, config_.shape, config_.params)) {
        SL_ASSIGN_OR_RETURN(const PlacedTensor stored, Take(slice.name));
        SL_RETURN_IF_ERROR(CheckTensor(slice, stored));
        slices_.push_back({&place, std::move(slice), stored});
      }
    }
    return CheckLeft();
  }

  absl::Status Read() const {
    for (const Slice& slice : slices_) {
      const std::vector<ParamPlace::Range> ranges = RangesOf(*slice.place, slice.stored);
      for (const ParamPlace::Range& range : ranges) {
        const absl::Span<float> values = range.copies.front();
        const auto before = static_cast<uint64_t>(range.first - ranges.front().first);
        SL_RETURN_IF_ERROR(slice.stored.transposed
                               ? ReadTurned(slice, values)
                               : slice.from.file->Read(*slice.from.tensor, before, values));
        if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
          return Wrong(slice.from, "holds a value that is not finite");
        }
        for (const absl::Span<float> copy : range.copies) {
          if (copy.data() != values.data()) std::copy(values.begin(), values.end(), copy.begin());
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Slice {
    const ParamPlace* place;
    StoredSlice stored;
    PlacedTensor from;
  };

  static absl::Status Wrong(const PlacedTensor& at, absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.file->path(), ": tensor ", Quoted(at.tensor->name), " ", what));
  }

  // Some files of GPT-2 hold its parameters without the first part of their names.
  absl::StatusOr<PlacedTensor> Take(absl::string_view name) {
    absl::string_view shorter = name;
    absl::ConsumePrefix(&shorter, kGpt2Prefix);
    for (const absl::string_view called : {name, shorter}) {
      const auto found = left_.find(std::string(called));
      if (found == left_.end()) continue;
      const PlacedTensor tensor = found->second;
      left_.erase(found);
      return tensor;
    }
    const std::string path =
        files_.all().empty() ? "the files" : files_.all().begin()->second.file->path();
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", Quoted(name), " is missing"));
  }

  absl::Status CheckTensor(const StoredSlice& slice, const PlacedTensor& stored) const {
    const StoredTensor& tensor = *stored.tensor;
    if (!IsReadable(tensor.dtype)) {
      return Wrong(stored,
                   absl::StrCat("has dtype ", tensor.dtype, "; F32, BF16 and F16 are read"));
    }
    std::vector<uint64_t> wanted = slice.shape();
    if (slice.longer && tensor.shape.size() == wanted.size() && tensor.shape[0] > wanted[0]) {
      wanted[0] = tensor.shape[0];
    }
    if (tensor.shape == wanted) return absl::OkStatus();
    return Wrong(stored, absl::StrCat("has shape ", PrintSizes(tensor.shape), "; the model's has ",
                                      PrintSizes(wanted)));
  }

  absl::Status CheckLeft() {
    const bool tied =
        std::visit([](const auto& shape) { return shape.tied; }, config_.shape.family);
    for (const auto& [name, stored] : left_) {
      if (IsComputed(name)) continue;
      if (tied && name == "lm_head.weight") {
        return Wrong(stored,
                     "is there, but the config says that it is the embedding "
                     "(tie_word_embeddings)");
      }
      return Wrong(stored, "is not a parameter of this model");
    }
    return absl::OkStatus();
  }

  // values (rows, columns) = the tensor (columns, rows), turned over.
  static absl::Status ReadTurned(const Slice& slice, absl::Span<float> values) {
    constexpr int64_t kAtOnce = 64;
    const int64_t rows = slice.stored.rows, columns = slice.stored.columns;
    std::vector<float> piece(kAtOnce * rows);
    for (int64_t first = 0; first < columns; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, columns - first);
      SL_RETURN_IF_ERROR(slice.from.file->Read(*slice.from.tensor,
                                               static_cast<uint64_t>(first * rows),
                                               absl::MakeSpan(piece).first(count * rows)));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < count; ++c) values[r * columns + first + c] = piece[c * rows + r];
      }
    }
    return absl::OkStatus();
  }

  const TensorFiles& files_;
  const FamilyConfig& config_;
  std::map<std::string, PlacedTensor> left_;  // that no parameter has taken
  std::vector<Slice> slices_;
};

absl::string_view BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

absl::Status AppendTensor(const ParamPlace& place, const StoredSlice& slice, NewFile* file) {
  for (const ParamPlace::Range& range : RangesOf(place, slice)) {
    const absl::Span<const float> own = range.copies.front();
    if (!slice.transposed) {
      SL_RETURN_IF_ERROR(file->Append(BytesOf(own)));
      continue;
    }
    std::vector<float> turned(own.size());
    for (int64_t r = 0; r < slice.rows; ++r) {
      for (int64_t c = 0; c < slice.columns; ++c) {
        turned[c * slice.rows + r] = own[r * slice.columns + c];
      }
    }
    SL_RETURN_IF_ERROR(file->Append(BytesOf(turned)));
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(const std::string& file, absl::Span<const ParamPlace> places) {
  for (const ParamPlace& place : places) {
    for (const std::vector<absl::Span<float>>& piece : place.pieces) {
      for (const float value : piece.front()) {
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

// How many of the model's tensors are not there by the names of a table.
size_t CountMissing(const TensorFiles& files, const FamilyConfig& config,
                    absl::Span<const StoredParam> table, absl::Span<const ParamPlace> places) {
  size_t missing = 0;
  for (const ParamPlace& place : places) {
    for (const StoredSlice& slice : SlicesOf(place.param, config.shape, table)) {
      missing += files.all().count(slice.name) == 0 ? 1 : 0;
    }
  }
  return missing;
}

// A folder without a config.
absl::Status LoadOwnNames(const std::string& folder, const AnyShape& shape,
                          absl::Span<const ParamPlace> places) {
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  if (!files.all().empty()) {
    const TensorFile& file = *files.all().begin()->second.file;
    SL_RETURN_IF_ERROR(CheckSizes(file.path(), file.header().metadata, shape));
  }
  const FamilyConfig own{"", shape, {}, {}};
  FolderLoader loader(files, own);
  SL_RETURN_IF_ERROR(loader.Check(places));
  return loader.Read();
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
  SL_ASSIGN_OR_RETURN(FamilyConfig config, ReadConfig(folder, shape.context()));
  std::map<std::string, std::string> said;
  for (auto& [name, value] : SizesOf(config.shape)) said[name] = value;
  SL_RETURN_IF_ERROR(CheckSizes(ConfigOf(folder), said, shape));
  SL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(folder));
  if (!config.packed.empty() && CountMissing(files, config, config.packed, places) <
                                    CountMissing(files, config, config.params, places)) {
    config.params = config.packed;
  }
  FolderLoader loader(files, config);
  SL_RETURN_IF_ERROR(loader.Check(places));
  return loader.Read();
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
