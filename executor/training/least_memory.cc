#include "executor/training/least_memory.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "executor/training/ready_graph.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Memory of a value or a node with its name, its shape, its lists, and its place.
constexpr double kBytesOfGraphPart = 400;

struct WholeModel {
  double params = 0;  // with gradients, moments and working copies, as far as a copy keeps them
  double saved = 0;
  double graphs = 0;
};

// A lower bound: an even share of the state that is sharded.
double LeastState(const StageLayout& layout, const StateSharing& sharing) {
  const auto params = static_cast<double>(layout.param_bytes);
  const auto working = static_cast<double>(layout.working_bytes);
  const double share = 1.0 / sharing.shards;
  if (sharing.sharding == Sharding::kParameters) {
    return params + share * (3 * params + working);
  }
  return 2 * params + working + share * 2 * params;
}

absl::StatusOr<WholeModel> WithLayers(const AnyShape& shape, int layers, int expert_ranks,
                                      const StateSharing& sharing) {
  SL_ASSIGN_OR_RETURN(
      const std::vector<StageProgram> stages,
      BuildModelStages(shape.WithLayers(layers), {layers}, {.expert_ranks = expert_ranks}));
  const StageProgram& stage = stages.front();
  const StageLayout layout(stage);
  WholeModel model;
  model.params = LeastState(layout, sharing);
  for (const StageValue saved : {StageValue::kSavedForInput, StageValue::kSavedForWeight}) {
    model.saved += static_cast<double>(layout.bytes[saved]);
  }
  for (const Graph* graph :
       {&stage.forward, &stage.backward, &stage.input_gradient, &stage.weight_gradient}) {
    model.graphs +=
        kBytesOfGraphPart * static_cast<double>(graph->values.size() + graph->nodes.size());
  }
  return model;
}

// The model with all its layers of the same kind, for every kind that it has, or one that takes no
// more than it: without its skips, or without its encoder's share.
std::vector<AnyShape> OfOneKindOfLayers(const AnyShape& shape) {
  AnyShape less = shape;
  if (auto* const gpt = std::get_if<GptShape>(&less.family)) {
    gpt->skips = false;
    return {less};
  }
  if (const auto* const both = std::get_if<EncoderDecoderShape>(&shape.family)) {
    less.family = GptShape{.layers = both->layers,
                           .width = both->width,
                           .heads = both->heads,
                           .context = std::min(both->source, both->targets()),
                           .vocabulary = both->vocabulary,
                           .microbatch = both->microbatch};
    return {less};
  }
  const auto* const decoder = std::get_if<DecoderShape>(&shape.family);
  if (decoder == nullptr || decoder->moe.experts == 0 || decoder->moe.first_dense == 0) {
    return {shape};
  }
  std::vector<AnyShape> kinds(2, shape);
  std::get<DecoderShape>(kinds[0].family).moe = MoeShape();
  std::get<DecoderShape>(kinds[1].family).moe.first_dense = 0;
  return kinds;
}

bool HasExperts(const AnyShape& shape) {
  const auto* const decoder = std::get_if<DecoderShape>(&shape.family);
  return decoder != nullptr && decoder->moe.experts > 0;
}

// A raised model's layers may be of many kinds, so the whole model is counted.
absl::StatusOr<NeededMemory> OfRaised(const AnyShape& shape, int pipes, const Mesh& mesh,
                                      const StateSharing& sharing) {
  SL_ASSIGN_OR_RETURN(const WholeModel whole, WithLayers(shape, shape.layers(), 1, sharing));
  NeededMemory needed;
  needed.params = static_cast<double>(pipes) * mesh.coordinates() * whole.params;
  needed.activations = mesh.coordinates() * whole.saved;
  needed.graphs = pipes * whole.graphs;
  return needed;
}

absl::StatusOr<NeededMemory> OfAlikeLayers(const AnyShape& shape, int pipes, const Mesh& mesh,
                                           const StateSharing& sharing) {
  const int expert_ranks = HasExperts(shape) ? mesh.expert : 1;
  SL_ASSIGN_OR_RETURN(const WholeModel one, WithLayers(shape, 1, expert_ranks, sharing));
  SL_ASSIGN_OR_RETURN(const WholeModel two, WithLayers(shape, 2, expert_ranks, sharing));
  const double more = shape.layers() - 1;
  const double copies = static_cast<double>(pipes) * mesh.coordinates();
  NeededMemory needed;
  needed.params = copies * (one.params + more * (two.params - one.params));
  needed.activations = mesh.coordinates() * (one.saved + more * (two.saved - one.saved));
  needed.graphs = pipes * (one.graphs + more * (two.graphs - one.graphs));
  return needed;
}

}  // namespace

absl::StatusOr<NeededMemory> LeastMemory(const AnyShape& shape, int pipes, const Mesh& mesh,
                                         const StateSharing& sharing) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  if (std::holds_alternative<RaisedShape>(shape.family)) {
    return OfRaised(shape, pipes, mesh, sharing);
  }
  NeededMemory least;
  bool first = true;
  for (const AnyShape& alike : OfOneKindOfLayers(shape)) {
    SL_ASSIGN_OR_RETURN(const NeededMemory needed, OfAlikeLayers(alike, pipes, mesh, sharing));
    least.params = first ? needed.params : std::min(least.params, needed.params);
    least.activations =
        first ? needed.activations : std::min(least.activations, needed.activations);
    least.graphs = first ? needed.graphs : std::min(least.graphs, needed.graphs);
    first = false;
  }
  return least;
}

}  // namespace stringline
