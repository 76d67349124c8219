// A model that was raised from somebody's program and not built from sizes: its whole forward graph
// and where that may be cut into layers.
//
// The graph is that of F32 and of the program's own microbatch and context. Stages are built from
// it by doing its nodes once more with other types: so a run may have another microbatch, another
// precision, and a shorter context. Not a longer one: what a program does with more tokens, with a
// window of attention for one, does not show.
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

// A tensor of the program that holds rows of a parameter.
struct RaisedPart {
  std::vector<std::string> names;  // more than one where the program has it under several
  int64_t rows = 0;                // of our (out, in); of a table of positions all it has
  // Of a table of positions: its values, for the rows that a run does not use.
  std::shared_ptr<const std::vector<float>> values = nullptr;
};

struct RaisedParam {
  Param param;                    // F32; without tied_to a name of the program, or several joined
  std::vector<RaisedPart> parts;  // in the order of its rows
  bool transposed = false;        // the program stores (in, out)
  bool positions = false;         // its rows are the context's, of those the program has
};

struct RaisedModel {
  std::string name;                  // "GPT2LMHeadModel"
  Graph graph;                       // in: params, tokens, target; out: the loss
  std::vector<RaisedParam> params;   // by index of their ports
  std::vector<std::string> modules;  // by node: the path of the module that it is of, or ""
  // The first node of each layer, and the first behind the last one. Before the first layer is the
  // embedding, behind the last one the head.
  std::vector<int> starts;
  std::vector<std::string> layers;  // their modules
};

struct RaisedShape {
  std::shared_ptr<const RaisedModel> model;
  int layers = 0;
  int width = 0;
  int context = 0;  // tokens per sequence
  int vocabulary = 0;
  int microbatch = 0;  // sequences per microbatch
  bool tied = false;

  int64_t tokens() const { return int64_t{microbatch} * context; }  // of one microbatch
  // The same model, not one that is like it.
  friend bool operator==(const RaisedShape&, const RaisedShape&) = default;
};

// The one value that crosses from the nodes before `node` to it and those behind it: an activation
// (.., width). kNone where it is none, or where another does too: there nothing can be cut.
ValueId CrossingAt(const Graph& graph, int node);

// The shape of a model with one layer at least, or with none: microbatch and context the program's.
RaisedShape ShapeOf(std::shared_ptr<const RaisedModel> model);

// The same model, cut where these modules begin: a stage each, and one before the first. As layers:
// those between two cuts, so that layers per stage are 0, 1, 1, …, 0. InvalidArgument for a module
// that the model does not have, that stands in no order, or where more than one value crosses.
absl::StatusOr<RaisedShape> CutAtModules(const RaisedShape& shape,
                                         const std::vector<std::string>& modules);

// The nodes with which a stage can begin, ascending, each with a module that CutAtModules takes for
// it: of several that begin there a layer, or the outermost.
std::vector<std::pair<int, std::string>> CutPlaces(const RaisedShape& shape);

// By parameter, the part that reads it: 0 the embedding, 1 .. the layers, then the head.
std::vector<int> PartOfEachParam(const RaisedModel& model);

// InvalidArgument for a microbatch or a context that the model does not take.
absl::Status CheckShape(const RaisedShape& shape);

// Number of the model's parameters; tied ones count once.
int64_t CountParams(const RaisedShape& shape);

// Of a layer: the mean.
ModelWork WorkOf(const RaisedShape& shape);

// Of the embedding, of each layer, and of the head, in ModelWork's unit.
std::vector<double> WorkOfEach(const RaisedShape& shape);

// The tensors that a parameter of the model's stages lies in, in the order of its rows.
const RaisedParam& ParamNamed(const RaisedModel& model, const std::string& name);

// The contract of BuildGptStages.
absl::StatusOr<std::vector<StageProgram>> BuildRaisedStages(
    const RaisedShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options = {});

}  // namespace stringline
