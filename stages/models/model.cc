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

absl::StatusOr<std::vector<StageProgram>> StagesOf(const EncoderDecoderShape& shape,
                                                   const std::vector<int>& layers_per_stage,
                                                   const BuildOptions& options) {
  return BuildEncoderDecoderStages(shape, layers_per_stage, options);
}

absl::StatusOr<std::vector<StageProgram>> StagesOf(const RaisedShape& shape,
                                                   const std::vector<int>& layers_per_stage,
                                                   const BuildOptions& options) {
  return BuildRaisedStages(shape, layers_per_stage, options);
}

const char* NameOf(const GptShape&) { return "gpt"; }
const char* NameOf(const DecoderShape& shape) { return shape.moe.experts == 0 ? "llama" : "moe"; }
const char* NameOf(const EncoderDecoderShape&) { return "encoder_decoder"; }
const char* NameOf(const RaisedShape&) { return "export"; }

}  // namespace

int AnyShape::layers() const {
  return std::visit([](const auto& shape) { return shape.layers; }, family);
}
int AnyShape::width() const {
  return std::visit([](const auto& shape) { return shape.width; }, family);
}
int AnyShape::context() const {
  return std::visit([](const auto& shape) { return shape.context; }, family);
}
int AnyShape::source() const {
  if (const auto* const both = std::get_if<EncoderDecoderShape>(&family)) return both->source;
  const auto* const raised = std::get_if<RaisedShape>(&family);
  return raised == nullptr ? 0 : raised->context - raised->targets();
}
int AnyShape::vocabulary() const {
  return std::visit([](const auto& shape) { return shape.vocabulary; }, family);
}
int AnyShape::microbatch() const {
  return std::visit([](const auto& shape) { return shape.microbatch; }, family);
}
int64_t AnyShape::tokens() const {
  return std::visit([](const auto& shape) { return shape.tokens(); }, family);
}

SampleShape AnyShape::sample() const {
  SampleShape sample = {{context()}, false, vocabulary(), context() - source(), vocabulary()};
  if (const auto* const raised = std::get_if<RaisedShape>(&family)) {
    sample.token_kinds = raised->token_kinds();
    sample.numbers = !raised->model->sample.empty();
    if (sample.numbers) sample.sizes = raised->model->sample;
  }
  return sample;
}

const std::string* AnyShape::GivenFile(const std::string& name) const {
  if (given == nullptr) return nullptr;
  const auto found = given->files.find(name);
  return found == given->files.end() ? nullptr : &found->second;
}

AnyShape AnyShape::WithLayers(int layers) const {
  AnyShape changed = *this;
  std::visit([layers](auto& shape) { shape.layers = layers; }, changed.family);
  return changed;
}

AnyShape AnyShape::WithMicrobatch(int microbatch) const {
  AnyShape changed = *this;
  std::visit([microbatch](auto& shape) { shape.microbatch = microbatch; }, changed.family);
  return changed;
}

const char* KindOf(const AnyShape& shape) {
  return std::visit([](const auto& of_family) { return NameOf(of_family); }, shape.family);
}

absl::Status CheckShape(const AnyShape& shape) {
  return std::visit([](const auto& of_family) { return CheckShape(of_family); }, shape.family);
}

int64_t CountParams(const AnyShape& shape) {
  return std::visit([](const auto& of_family) { return CountParams(of_family); }, shape.family);
}

ModelWork WorkOf(const AnyShape& shape) {
  return std::visit([](const auto& of_family) { return WorkOf(of_family); }, shape.family);
}

absl::StatusOr<std::vector<StageProgram>> BuildModelStages(const AnyShape& shape,
                                                           const std::vector<int>& layers_per_stage,
                                                           const BuildOptions& options) {
  BuildOptions of_shape = options;
  of_shape.dtype = shape.dtype;
  return std::visit(
      [&](const auto& of_family) { return StagesOf(of_family, layers_per_stage, of_shape); },
      shape.family);
}

}  // namespace stringline
