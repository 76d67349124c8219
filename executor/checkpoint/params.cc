#include "executor/checkpoint/params.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/tensor_file.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/status.h"
#include "stages/text.h"

namespace stringline {
namespace {

// A parameter of the model and where it lives: in one stage, or in one of every pipe.
struct PlacedParam {
  const Param* param;
  StageId stage;  // of the first pipe
  int index;
};

std::vector<PlacedParam> ParamsOf(const Trainer& trainer) {
  const std::vector<Pipe>& pipes = trainer.plan().pipes;
  const size_t stages = pipes.empty() ? trainer.programs().size() : pipes[0].stages;
  std::vector<PlacedParam> params;
  for (size_t s = 0; s < stages; ++s) {
    const std::vector<Param>& of_stage = trainer.programs()[s].params;
    for (size_t i = 0; i < of_stage.size(); ++i) {
      params.push_back({&of_stage[i], StageId(static_cast<int32_t>(s)), static_cast<int>(i)});
    }
  }
  return params;
}

using Sizes = std::vector<std::pair<const char*, std::string>>;

std::string YesOrNo(bool yes) { return yes ? "true" : "false"; }

// Of a family alone.
Sizes OwnSizes(const GptShape& shape) {
  return {{"heads", absl::StrCat(shape.heads)}, {"tied", YesOrNo(shape.tied)}};
}
Sizes OwnSizes(const DecoderShape& shape) {
  return {{"heads", absl::StrCat(shape.heads)},       {"kv_heads", absl::StrCat(shape.kv_heads)},
          {"head_dim", absl::StrCat(shape.head_dim)}, {"hidden", absl::StrCat(shape.hidden)},
          {"qkv_bias", YesOrNo(shape.qkv_bias)},      {"qk_norm", YesOrNo(shape.qk_norm)},
          {"theta", PrintNumber(shape.rope_theta)},   {"epsilon", PrintNumber(shape.norm_epsilon)}};
}
// "pt" tells other readers that weights are (out, in) and row-major, as PyTorch's are.
std::map<std::string, std::string> MetadataOf(const AnyShape& shape, int64_t steps) {
  std::map<std::string, std::string> metadata = {{"format", "pt"}, {"steps", absl::StrCat(steps)}};
  for (const auto& [name, value] : SizesOf(shape)) metadata[name] = value;
  return metadata;
}

bool AllFinite(absl::Span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

std::string PrintShape(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

class Loader {
 public:
  Loader(const TensorFile& file, Trainer& trainer) : file_(file), trainer_(trainer) {}

  absl::Status CheckModel(const AnyShape& shape) const {
    const auto& metadata = file_.header().metadata;
    for (const auto& [name, wanted] : SizesOf(shape)) {
      const auto said = metadata.find(name);
      if (said == metadata.end() || said->second == wanted) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": the parameters of a model with ", name, " ",
                       Quoted(said->second), "; the run file's has ", wanted));
    }
    return absl::OkStatus();
  }

  absl::Status CheckTensors() {
    std::map<std::string, const StoredTensor*> left;
    for (const StoredTensor& tensor : file_.header().tensors) left[tensor.name] = &tensor;
    for (const PlacedParam& placed : ParamsOf(trainer_)) {
      const auto stored = left.find(placed.param->name);
      if (stored == left.end()) return Wrong(placed.param->name, "is missing");
      SL_RETURN_IF_ERROR(CheckTensor(*placed.param, *stored->second));
      pairs_.emplace_back(placed, stored->second);
      left.erase(stored);
    }
    if (left.empty()) return absl::OkStatus();
    return Wrong(left.begin()->first, "is not a parameter of this model");
  }

  // Sets all replicas. The checks come first: a parameter is either of the file or untouched.
  absl::Status Read() {
    const std::vector<Pipe>& pipes = trainer_.plan().pipes;
    for (const auto& [placed, stored] : pairs_) {
      const absl::Span<float> values = trainer_.param(placed.stage, placed.index);
      SL_RETURN_IF_ERROR(file_.Read(*stored, 0, values));
      if (!AllFinite(values)) return Wrong(stored->name, "holds a value that is not finite");
      for (size_t p = 1; p < pipes.size(); ++p) {
        const StageId replica(pipes[p].first_stage.value + placed.stage.value);
        std::copy(values.begin(), values.end(), trainer_.param(replica, placed.index).begin());
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Wrong(absl::string_view tensor, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": tensor ", Quoted(tensor), " ", what));
  }

  absl::Status CheckTensor(const Param& param, const StoredTensor& stored) const {
    if (stored.dtype != "F32") {
      return Wrong(param.name, absl::StrCat("has dtype ", stored.dtype, "; F32 is needed"));
    }
    const std::vector<uint64_t> shape(param.type.shape.begin(), param.type.shape.end());
    if (stored.shape == shape) return absl::OkStatus();
    return Wrong(param.name, absl::StrCat("has shape ", PrintShape(stored.shape),
                                          "; the model's has ", PrintShape(shape)));
  }

  const TensorFile& file_;
  Trainer& trainer_;
  std::vector<std::pair<PlacedParam, const StoredTensor*>> pairs_;
};

}  // namespace

Sizes SizesOf(const AnyShape& shape) {
  Sizes sizes = {{"model", absl::StrCat("stringline ", KindOf(shape))},
                 {"layers", absl::StrCat(shape.layers())},
                 {"width", absl::StrCat(shape.width())},
                 {"context", absl::StrCat(shape.context())},
                 {"vocabulary", absl::StrCat(shape.vocabulary())}};
  for (auto& size : std::visit([](const auto& of) { return OwnSizes(of); }, shape.family)) {
    sizes.push_back(std::move(size));
  }
  return sizes;
}

std::string ParamsFile(const std::string& folder) {
  return (std::filesystem::path(folder) / "model.safetensors").string();
}

absl::Status SaveParams(const std::string& file, const AnyShape& shape, int64_t steps,
                        Trainer& trainer) {
  const std::vector<PlacedParam> params = ParamsOf(trainer);
  TensorHeader header;
  header.metadata = MetadataOf(shape, steps);
  uint64_t end = 0;
  for (const PlacedParam& placed : params) {
    const Type& type = placed.param->type;
    if (!AllFinite(trainer.param(placed.stage, placed.index))) {
      return absl::OutOfRangeError(absl::StrCat(file, ": not written: parameter ",
                                                Quoted(placed.param->name),
                                                " holds a value that is not finite"));
    }
    const uint64_t begin = end;
    end += static_cast<uint64_t>(type.bytes());
    header.tensors.push_back(
        {placed.param->name, "F32", {type.shape.begin(), type.shape.end()}, begin, end});
  }
  SL_ASSIGN_OR_RETURN(NewFile written, NewFile::Create(file));
  SL_RETURN_IF_ERROR(written.Append(PrintTensorHeader(header)));
  for (const PlacedParam& placed : params) {
    const absl::Span<const float> values = trainer.param(placed.stage, placed.index);
    SL_RETURN_IF_ERROR(written.Append(absl::string_view(
        reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))));
  }
  return written.Commit();
}

absl::Status LoadParams(const std::string& file, const AnyShape& shape, Trainer& trainer) {
  SL_ASSIGN_OR_RETURN(const TensorFile opened, TensorFile::Open(file));
  Loader loader(opened, trainer);
  SL_RETURN_IF_ERROR(loader.CheckModel(shape));
  SL_RETURN_IF_ERROR(loader.CheckTensors());
  return loader.Read();
}

}  // namespace stringline
