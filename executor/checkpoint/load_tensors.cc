// A parameter is read slice by slice, a slice being a tensor: its rows follow each other in the
// parameter, or, where the family stores (in, out), some rows at a time are transposed.
#include "executor/checkpoint/load_tensors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Further tensors in older files: masks and angles, which are computed here.
constexpr const char* kComputed[] = {"h.#.attn.bias", "h.#.attn.masked_bias",
                                     "layers.#.self_attn.rotary_emb.inv_freq"};
constexpr absl::string_view kGpt2Prefix = "transformer.";

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

class TensorLoader {
 public:
  TensorLoader(const TensorFiles& files, const FamilyConfig& config)
      : files_(files), config_(config), left_(files.all()) {}

  absl::Status Check(absl::Span<const ParamPlace> places) {
    for (const ParamPlace& place : places) {
      for (StoredSlice& slice : SlicesOf(place.param, config_.shape, config_.params)) {
        SL_ASSIGN_OR_RETURN(const PlacedTensor stored, TakeAny(slice));
        SL_RETURN_IF_ERROR(CheckTensor(slice, stored));
        slices_.push_back({&place, std::move(slice), stored});
      }
    }
    return CheckLeft();
  }

  absl::Status Read(World* world) const {
    std::vector<float> host, turned;
    for (const Slice& slice : slices_) {
      const std::vector<ParamPlace::Range> ranges = RangesOf(*slice.place, slice.stored);
      turned.clear();
      for (const ParamPlace::Range& range : ranges) {
        if (range.copies.empty()) continue;  // held by other processes
        host.resize(range.copies.front().size());
        const absl::Span<float> values = absl::MakeSpan(host);
        const auto before = static_cast<uint64_t>(range.first - ranges.front().first);
        if (!slice.stored.transposed) {
          SL_RETURN_IF_ERROR(slice.from.file->Read(*slice.from.tensor, before, values));
        } else {
          if (turned.empty()) {
            turned.resize(slice.stored.rows * slice.stored.columns);
            SL_RETURN_IF_ERROR(ReadTurned(slice, absl::MakeSpan(turned)));
          }
          std::copy_n(turned.begin() + static_cast<int64_t>(before), values.size(), values.begin());
        }
        if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
          return Wrong(slice.from, "holds a value that is not finite");
        }
        for (const absl::Span<float> copy : range.copies) {
          SL_RETURN_IF_ERROR(slice.place->Write(host.data(), copy));
        }
        if (world != nullptr) world->Working();
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

  // Under any of its names; the others hold the same values.
  absl::StatusOr<PlacedTensor> TakeAny(const StoredSlice& slice) {
    absl::StatusOr<PlacedTensor> taken = Take(slice.name);
    for (const std::string& alias : slice.aliases) {
      absl::StatusOr<PlacedTensor> other = Take(alias);
      if (!taken.ok() && other.ok()) taken = std::move(other);
    }
    return taken;
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
  std::map<std::string, PlacedTensor> left_;  // tensors that no parameter has taken
  std::vector<Slice> slices_;
};

// The number of the model's tensors missing under the names of a table.
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

}  // namespace

std::vector<ParamPlace::Range> RangesOf(const ParamPlace& place, const StoredSlice& slice) {
  return place.Ranges(slice.first_row * slice.columns, slice.rows * slice.columns);
}

absl::Status LoadTensors(const TensorFiles& files, const FamilyConfig& config,
                         absl::Span<const ParamPlace> places, World* world) {
  FamilyConfig read = config;
  if (!config.packed.empty() && CountMissing(files, config, config.packed, places) <
                                    CountMissing(files, config, config.params, places)) {
    read.params = config.packed;
  }
  TensorLoader loader(files, read);
  SL_RETURN_IF_ERROR(loader.Check(places));
  return loader.Read(world);
}

}  // namespace stringline
