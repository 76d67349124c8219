// A model raised from a given program instead of built from sizes: its whole forward graph, and the
// places where it may be cut into layers.
//
// The graph has F32 and the program's own microbatch and context. Stages are built by repeating its
// nodes with other types: so a run may have another microbatch, another precision, and a shorter
// context. A longer context is refused: the program's behaviour for more tokens, such as a window
// of attention, does not show.
//
// A program of images, or of other numbers, has as its sequences their F32 numbers, one behind the
// other, as I32 with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "stages/models/stage_builder.h"
#include "stages/stage_program.h"

namespace stringline {

// A tensor of the program with rows of a parameter.
struct RaisedPart {
  std::vector<std::string> names;  // several if the program has aliases
  int64_t rows = 0;                // rows in our (out, in); for a table of positions all its rows
  // The values of a table of positions, for the rows that a run does not use.
  std::shared_ptr<const std::vector<float>> values = nullptr;
};

struct RaisedParam {
  Param param;                    // F32; without tied_to a name of the program, or several joined
  std::vector<RaisedPart> parts;  // in the order of its rows
  bool transposed = false;        // the program stores (in, out)
  bool positions = false;         // its rows are the first of the program's, one per position of
                                  // the context
};

struct RaisedModel {
  std::string name;                  // "GPT2LMHeadModel"
  Graph graph;                       // in: params, tokens, target; out: the loss
  std::vector<int64_t> sample;       // the sizes of a sequence's numbers; empty: tokens
  std::vector<RaisedParam> params;   // by index of their ports
  std::vector<std::string> modules;  // by node: the path of its module, or ""
  // The first node of each layer, and the first node behind the last layer. The embedding precedes
  // the first layer, the head follows the last.
  std::vector<int> starts;
  std::vector<std::string> layers;  // their modules
};

struct RaisedShape {
  std::shared_ptr<const RaisedModel> model;
  int layers = 0;
  int width = 0;
  int context = 0;     // tokens per sequence, or numbers
  int vocabulary = 0;  // different targets
  int microbatch = 0;  // sequences per microbatch
  bool tied = false;

  int64_t tokens() const { return int64_t{microbatch} * context; }  // per microbatch
  int targets() const;  // per sequence: one for each token, or fewer, as one for an image
  // The different token numbers that the model reads; 0 for a model of numbers.
  int64_t token_kinds() const;
  // The same model object, not merely an equal model.
  friend bool operator==(const RaisedShape&, const RaisedShape&) = default;
};

// The values that cross from the nodes before `node` to the others, ascending: activations, and
// tokens where the embedding is not their only reader. Empty if the graph cannot be cut here.
std::vector<ValueId> CrossingsAt(const Graph& graph, int node);

// The shape of a model with at least one layer, or with none: microbatch and context the program's.
RaisedShape ShapeOf(std::shared_ptr<const RaisedModel> model);

// The same model, cut at the beginnings of these modules: a stage each, and one before the first. A
// layer is the stretch between two cuts, so layers per stage are 0, 1, 1, …, 0. InvalidArgument for
// an unknown module, or modules out of order.
absl::StatusOr<RaisedShape> CutAtModules(const RaisedShape& shape,
                                         const std::vector<std::string>& modules);

// The nodes at which only one value crosses, and those of layers, ascending, each with a module for
// CutAtModules: of several modules that begin with the node a layer, or the outermost.
std::vector<std::pair<int, std::string>> CutPlaces(const RaisedShape& shape);

// The part of a node: 0 the embedding, 1 .. the layers, then the head.
int PartOfNode(const RaisedModel& model, int node);

// By parameter, the part that reads it.
std::vector<int> PartOfEachParam(const RaisedModel& model);

// InvalidArgument for a microbatch or a context that the model does not take.
absl::Status CheckShape(const RaisedShape& shape);

// Number of the model's parameters; tied ones count once.
int64_t CountParams(const RaisedShape& shape);

// `layer` is the mean.
ModelWork WorkOf(const RaisedShape& shape);

// The work of the embedding, of each layer, and of the head, in ModelWork's unit.
std::vector<double> WorkOfEach(const RaisedShape& shape);

// The tensors of a parameter of the model's stages, in the order of its rows.
const RaisedParam& ParamNamed(const RaisedModel& model, const std::string& name);

// The contract of BuildGptStages.
absl::StatusOr<std::vector<StageProgram>> BuildRaisedStages(
    const RaisedShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options = {});

}  // namespace stringline
