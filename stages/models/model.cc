#include "stages/models/model.h"

namespace stringline {
namespace {

absl::StatusOr<std::vector<StageProgram>> StagesOf(const GptShape& shape,
                                                   const std::vector<int>& layers_per_stage,
                                                   const BuildOptions& options) {
  return BuildGptStages(shape, layers_per_stage, options);
}

absl::StatusOr<std::vector<StageProgram>> StagesOf(const DecoderShape& shape,
                                                   const std::vector<int>& layers_per_stage,
                                                   const BuildOptions& options) {
  return BuildDecoderStages(shape, layers_per_stage, options);
}

const char* NameOf(const GptShape&) { return "gpt"; }
const char* NameOf(const DecoderShape&) { return "llama"; }

}  // namespace

int ModelShape::layers() const {
  return std::visit([](const auto& shape) { return shape.layers; }, family);
}
int ModelShape::width() const {
  return std::visit([](const auto& shape) { return shape.width; }, family);
}
int ModelShape::context() const {
  return std::visit([](const auto& shape) { return shape.context; }, family);
}
int ModelShape::vocabulary() const {
  return std::visit([](const auto& shape) { return shape.vocabulary; }, family);
}
int ModelShape::microbatch() const {
  return std::visit([](const auto& shape) { return shape.microbatch; }, family);
}
int64_t ModelShape::tokens() const {
  return std::visit([](const auto& shape) { return shape.tokens(); }, family);
}

ModelShape ModelShape::WithLayers(int layers) const {
  ModelShape changed = *this;
  std::visit([layers](auto& shape) { shape.layers = layers; }, changed.family);
  return changed;
}

ModelShape ModelShape::WithMicrobatch(int microbatch) const {
  ModelShape changed = *this;
  std::visit([microbatch](auto& shape) { shape.microbatch = microbatch; }, changed.family);
  return changed;
}

const char* KindOf(const ModelShape& shape) {
  return std::visit([](const auto& of_family) { return NameOf(of_family); }, shape.family);
}

absl::Status CheckShape(const ModelShape& shape) {
  return std::visit([](const auto& of_family) { return CheckShape(of_family); }, shape.family);
}

int64_t CountParams(const ModelShape& shape) {
  return std::visit([](const auto& of_family) { return CountParams(of_family); }, shape.family);
}

ModelWork WorkOf(const ModelShape& shape) {
  return std::visit([](const auto& of_family) { return WorkOf(of_family); }, shape.family);
}

absl::StatusOr<std::vector<StageProgram>> BuildModelStages(const ModelShape& shape,
                                                           const std::vector<int>& layers_per_stage,
                                                           const BuildOptions& options) {
  return std::visit(
      [&](const auto& of_family) { return StagesOf(of_family, layers_per_stage, options); },
      shape.family);
}

}  // namespace stringline
