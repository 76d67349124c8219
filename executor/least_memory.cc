#include "executor/least_memory.h"

#include <vector>

#include "executor/cpu/program.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Of a value or a node with its name, its shape, its lists, and where it was placed.
constexpr double kBytesOfGraphPart = 400;

struct WholeModel {
  double params = 0;
  double saved = 0;
  double graphs = 0;
};

absl::StatusOr<WholeModel> WithLayers(const AnyShape& shape, int layers) {
  SL_ASSIGN_OR_RETURN(const std::vector<StageProgram> stages,
                      BuildModelStages(shape.WithLayers(layers), {layers}));
  const StageProgram& stage = stages.front();
  const cpu::StageLayout layout(stage);
  WholeModel model;
  model.params = static_cast<double>(layout.param_bytes);
  for (const ValueClass saved : {ValueClass::kSavedForInput, ValueClass::kSavedForWeight}) {
    model.saved += static_cast<double>(layout.bytes[static_cast<int>(saved)]);
  }
  for (const Graph* graph :
       {&stage.forward, &stage.backward, &stage.input_gradient, &stage.weight_gradient}) {
    model.graphs +=
        kBytesOfGraphPart * static_cast<double>(graph->values.size() + graph->nodes.size());
  }
  return model;
}

}  // namespace

absl::StatusOr<NeededMemory> LeastMemory(const AnyShape& shape, int pipes) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_ASSIGN_OR_RETURN(const WholeModel one, WithLayers(shape, 1));
  SL_ASSIGN_OR_RETURN(const WholeModel two, WithLayers(shape, 2));
  const double more = shape.layers() - 1;
  NeededMemory least;
  // Beside the parameters, their gradients and two moments.
  least.params = 4 * pipes * (one.params + more * (two.params - one.params));
  least.activations = one.saved + more * (two.saved - one.saved);
  least.graphs = pipes * (one.graphs + more * (two.graphs - one.graphs));
  return least;
}

}  // namespace stringline
