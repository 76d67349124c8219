// A stage is a stretch of the whole graph's nodes, appended to its own builder: incoming values
// have the run's types, and the shape rules give the types of results. A parameter becomes the
// stage's when the first node reads it.
#include "stages/models/raised.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "stages/models/batch_sizes.h"
#include "stages/ops.h"

namespace stringline {
namespace {

constexpr int kMostSequences = 1 << 20;
constexpr double kMostElements = 2147483648.0;

const Port& InputOf(const Graph& graph, Role role) {
  return *std::find_if(graph.inputs.begin(), graph.inputs.end(),
                       [role](const Port& port) { return port.role == role; });
}

// Scales and shifts of norms are F32 whatever the type of activations.
bool ScalesNorm(Op op, size_t input) {
  return input > 0 && (op == Op::kLayerNorm || op == Op::kRmsNorm || op == Op::kHeadNorm);
}

// The id of a value is that in the whole graph.
class RaisedStage : public StageBuilder {
 public:
  // `shape` outlives the object.
  RaisedStage(const RaisedShape& shape, const BuildOptions& options)
      : StageBuilder(shape.microbatch, shape.context, shape.width, options),
        shape_(shape),
        model_(*shape.model),
        dtype_(options.dtype) {
    const int64_t sequences =
        model_.graph.values[InputOf(model_.graph, Role::kInput).value].type.shape[0];
    if (sequences == shape.microbatch) return;
    of_batch_ = *SizesOfBatch(model_.graph);  // CheckShape
    sequences_ = sequences;
  }

  void Part(int part) override {
    const std::vector<int>& starts = model_.starts;
    const auto index = static_cast<size_t>(part);
    const bool last = index == starts.size();
    if (part == 0) Carry(InputOf(model_.graph, Role::kInput).value, TakeTokens());
    if (last) {
      TargetsFrom(shape_.context - shape_.targets());
      Carry(InputOf(model_.graph, Role::kTarget).value,
            builder_.Input(Role::kTarget, 0, {DType::kI32, {shape_.microbatch, shape_.targets()}},
                           "target"));
    }
    Repeat(part == 0 ? 0 : starts[index - 1],
           last ? static_cast<int>(model_.graph.nodes.size()) : starts[index]);
    if (last) builder_.Output(Role::kLoss, 0, Carried(model_.graph.outputs.front().value));
  }

 private:
  void Repeat(int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const Node& node = model_.graph.nodes[n];
      std::vector<ValueId> inputs;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId value = node.inputs[i];
        if (!Carries(value)) Carry(value, IsMaskKey(value) ? TakeMaskKey() : TakeParam(node, i));
        inputs.push_back(Carried(value));
      }
      const std::string& name = model_.graph.values[node.outputs.front()].name;
      if (!of_batch_.empty()) MakeAlike(node, &inputs);
      const std::vector<ValueId> outputs =
          builder_.AppendAll(node.op, std::move(inputs), AttributesOf(n), name);
      for (size_t i = 0; i < outputs.size(); ++i) Carry(node.outputs[i], outputs[i]);
    }
  }

  // With the sizes of the run's microbatch.
  std::vector<double> AttributesOf(int node) const {
    std::vector<double> attributes = model_.graph.nodes[node].attributes;
    if (of_batch_.empty() || of_batch_[node] < 0) return attributes;
    double& size = attributes[static_cast<size_t>(of_batch_[node])];
    size = size / static_cast<double>(sequences_) * shape_.microbatch;
    return attributes;
  }

  // Expands a value that is the same for all sequences to the other operand: a program of one
  // sequence needs no expand there.
  void MakeAlike(const Node& node, std::vector<ValueId>* inputs) {
    const Op op = node.op;
    const bool indexes = op == Op::kGather || op == Op::kScatter;
    const bool pairs = op == Op::kAdd || op == Op::kMul || op == Op::kZip || op == Op::kMatMul;
    if (!pairs && !indexes) return;
    const auto shape_of = [&](size_t i) { return builder_.TypeOf((*inputs)[i]).shape; };
    std::vector<int64_t> a = shape_of(0), b = shape_of(1);
    for (size_t d = 0; d + (op == Op::kMatMul ? 2 : 0) < a.size(); ++d) {
      if (indexes && static_cast<double>(d) == node.attributes[0]) continue;
      a[d] = b[d] = std::max(a[d], b[d]);
    }
    for (const auto& [i, shape] : {std::pair(size_t{0}, a), std::pair(size_t{1}, b)}) {
      if (shape_of(i) == shape) continue;
      (*inputs)[i] = builder_.Append(Op::kExpand, {(*inputs)[i]}, {shape.begin(), shape.end()});
    }
  }

  bool IsMaskKey(ValueId value) const {
    return std::any_of(model_.graph.inputs.begin(), model_.graph.inputs.end(), [&](const Port& of) {
      return of.role == Role::kMaskKey && of.value == value;
    });
  }

  ValueId TakeMaskKey() {
    return builder_.Input(Role::kMaskKey, 0, {DType::kI32, {4}}, "mask_key");
  }

  ValueId TakeParam(const Node& node, size_t input) {
    const auto port = std::find_if(
        model_.graph.inputs.begin(), model_.graph.inputs.end(),
        [&](const Port& of) { return of.role == Role::kParam && of.value == node.inputs[input]; });
    SL_CHECK(port != model_.graph.inputs.end()) << model_.graph.values[node.inputs[input]].name;
    const RaisedParam& raised = model_.params[port->index];
    Param param = raised.param;
    if (!ScalesNorm(node.op, input)) param.type.dtype = dtype_;
    if (raised.positions) param.type.shape[0] = shape_.context;
    return AddParam(std::move(param));
  }

  const RaisedShape& shape_;
  const RaisedModel& model_;
  const DType dtype_;
  std::vector<int> of_batch_;  // SizesOfBatch; empty for the program's own microbatch
  int64_t sequences_ = 0;      // that of the program
};

// The elements of a value in a microbatch of the run.
double ElementsOf(const RaisedShape& shape, ValueId value) {
  const Graph& graph = shape.model->graph;
  const Type& tokens = graph.values[InputOf(graph, Role::kInput).value].type;
  return static_cast<double>(graph.values[value].type.elements()) *
         static_cast<double>(shape.tokens()) / static_cast<double>(tokens.elements());
}

// Additions and multiplications of a node.
double WorkOfNode(const Graph& graph, const Node& node, const RaisedShape& shape) {
  const std::vector<int64_t>& result = graph.values[node.outputs.front()].type.shape;
  const double columns = result.empty() ? 1 : static_cast<double>(result.back());
  const double elements = ElementsOf(shape, node.outputs.front());
  const auto weights = [&] {
    return static_cast<double>(graph.values[node.inputs[1]].type.elements());
  };
  switch (node.op) {
    case Op::kLinear:
    case Op::kLinearBias:
    case Op::kLinearAdd:
    case Op::kLinearResidual:
      return 2 * weights() * elements / columns;
    case Op::kConvolution:
      return 2 * weights() * elements / static_cast<double>(result[1]);
    case Op::kCrossEntropy:  // a row each
      return ElementsOf(shape, node.outputs[1]);
    case Op::kAttention:
      return 4 * elements * shape.context;
    case Op::kMatMul:
      return 2 * ElementsOf(shape, node.inputs[0]) * columns;
    default:
      return elements;
  }
}

// The channels of the activation that was made last before `node`, among those that cross there.
int WidthAt(const Graph& graph, int node) {
  int width = 0;
  for (const ValueId value : CrossingsAt(graph, node)) {
    const Type& type = graph.values[value].type;
    if (IsFloat(type.dtype)) width = static_cast<int>(type.shape.back());
  }
  return width;
}

// The values that go from part to part, in the order of the parts that make them.
std::vector<PartValue> ValuesOf(const RaisedModel& model) {
  const std::vector<int> producers = Producers(model.graph);
  std::vector<bool> crosses(model.graph.values.size(), false);
  for (const int start : model.starts) {
    for (const ValueId value : CrossingsAt(model.graph, start)) crosses[value] = true;
  }
  std::map<ValueId, PartValue> values;
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const int reader = PartOfNode(model, static_cast<int>(n));
    for (const ValueId value : model.graph.nodes[n].inputs) {
      if (!crosses[value]) continue;
      const int made_in = producers[value] < 0 ? 0 : PartOfNode(model, producers[value]);
      if (made_in == reader) continue;
      PartValue& of = values.try_emplace(value, PartValue{value, made_in, {}}).first->second;
      if (of.read_in.empty() || of.read_in.back() != reader) of.read_in.push_back(reader);
    }
  }
  std::vector<PartValue> sorted;
  for (auto& [value, of] : values) sorted.push_back(std::move(of));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PartValue& a, const PartValue& b) { return a.made_in < b.made_in; });
  return sorted;
}

// "transformer.h.1" of "transformer.h.1.attn", not of "transformer.h.10".
bool IsWithin(const std::string& module, const std::string& outer) {
  return module == outer || absl::StartsWith(module, outer + ".");
}

}  // namespace

std::vector<ValueId> CrossingsAt(const Graph& graph, int node) {
  const std::vector<int> producers = Producers(graph);
  const ValueId tokens = InputOf(graph, Role::kInput).value;
  std::vector<ValueId> crossings;
  for (size_t n = node; n < graph.nodes.size(); ++n) {
    for (const ValueId value : graph.nodes[n].inputs) {
      if (producers[value] >= 0 ? producers[value] < node : value == tokens) {
        crossings.push_back(value);
      }
    }
  }
  std::sort(crossings.begin(), crossings.end());
  crossings.erase(std::unique(crossings.begin(), crossings.end()), crossings.end());
  const bool active = std::any_of(crossings.begin(), crossings.end(), [&](ValueId value) {
    return IsFloat(graph.values[value].type.dtype);
  });
  return active ? crossings : std::vector<ValueId>();
}

int PartOfNode(const RaisedModel& model, int node) {
  const auto above = std::upper_bound(model.starts.begin(), model.starts.end(), node);
  return static_cast<int>(above - model.starts.begin());
}

int RaisedShape::targets() const {
  const Graph& graph = model->graph;
  const auto count = [&graph](Role role) {
    return graph.values[InputOf(graph, role).value].type.shape[1];
  };
  const int64_t targets = count(Role::kTarget);
  return targets == count(Role::kInput) ? context : static_cast<int>(targets);
}

int64_t RaisedShape::token_kinds() const {
  const Graph& graph = model->graph;
  const ValueId tokens = InputOf(graph, Role::kInput).value;
  int64_t least = 0;
  for (const Node& node : graph.nodes) {
    const bool looks_up = node.op == Op::kEmbedding || node.op == Op::kPaddedEmbedding;
    if (!looks_up || node.inputs[0] != tokens) continue;
    const int64_t rows = graph.values[node.inputs[1]].type.shape[0];
    least = least == 0 ? rows : std::min(least, rows);
  }
  return least;
}

RaisedShape ShapeOf(std::shared_ptr<const RaisedModel> model) {
  const Graph& graph = model->graph;
  const Type& tokens = graph.values[InputOf(graph, Role::kInput).value].type;
  const Node& loss = graph.nodes.back();
  RaisedShape shape;
  shape.layers = static_cast<int>(model->starts.size()) - 1;
  shape.microbatch = static_cast<int>(tokens.shape[0]);
  shape.context = static_cast<int>(tokens.shape[1]);
  shape.vocabulary = static_cast<int>(graph.values[loss.inputs[0]].type.shape.back());
  shape.width = WidthAt(graph, model->starts.front());
  SL_CHECK(shape.width > 0);
  shape.tied = std::any_of(model->params.begin(), model->params.end(),
                           [](const RaisedParam& of) { return !of.param.tied_to.empty(); });
  shape.model = std::move(model);
  return shape;
}

absl::StatusOr<RaisedShape> CutAtModules(const RaisedShape& shape,
                                         const std::vector<std::string>& modules) {
  RaisedModel cut = *shape.model;
  cut.starts.clear();
  for (const std::string& module : modules) {
    const auto first =
        std::find_if(cut.modules.begin(), cut.modules.end(),
                     [&module](const std::string& of) { return IsWithin(of, module); });
    if (first == cut.modules.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the model has no module '", module, "'"));
    }
    const int node = static_cast<int>(first - cut.modules.begin());
    if (CrossingsAt(cut.graph, node).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no stage can begin with module '", module, "': no activation goes there"));
    }
    if (!cut.starts.empty() && node <= cut.starts.back()) {
      return absl::InvalidArgumentError(
          absl::StrCat("module '", module, "' does not come after the one named before it"));
    }
    cut.starts.push_back(node);
  }
  if (cut.starts.empty()) return absl::InvalidArgumentError("no module to cut at");
  cut.layers.assign(modules.begin(), modules.end() - 1);
  RaisedShape result = ShapeOf(std::make_shared<const RaisedModel>(std::move(cut)));
  result.microbatch = shape.microbatch;
  result.context = shape.context;
  return result;
}

std::vector<std::pair<int, std::string>> CutPlaces(const RaisedShape& shape) {
  const RaisedModel& model = *shape.model;
  std::vector<std::pair<int, std::string>> places;
  for (int n = 1; n < static_cast<int>(model.modules.size()); ++n) {
    const auto layer = std::find(model.starts.begin(), model.starts.end() - 1, n);
    const bool of_layer = layer != model.starts.end() - 1;
    const std::vector<ValueId> crossings = CrossingsAt(model.graph, n);
    if (crossings.empty() || (crossings.size() > 1 && !of_layer)) continue;
    const auto starts_here = [&](const std::string& module) {
      return std::none_of(model.modules.begin(), model.modules.begin() + n,
                          [&](const std::string& of) { return IsWithin(of, module); });
    };
    std::string name = of_layer ? model.layers[layer - model.starts.begin()] : "";
    const std::string& own = model.modules[n];
    for (size_t dot = own.find('.'); name.empty(); dot = own.find('.', dot + 1)) {
      if (starts_here(own.substr(0, dot))) name = own.substr(0, dot);
      if (dot == std::string::npos) break;
    }
    if (!name.empty() && starts_here(name)) places.emplace_back(n, name);
  }
  return places;
}

std::vector<int> PartOfEachParam(const RaisedModel& model) {
  std::vector<int> part_of(model.params.size(), 0);
  for (const Port& port : model.graph.inputs) {
    if (port.role != Role::kParam) continue;
    const auto reader =
        std::find_if(model.graph.nodes.begin(), model.graph.nodes.end(), [&](const Node& node) {
          return std::count(node.inputs.begin(), node.inputs.end(), port.value) > 0;
        });
    const int node = static_cast<int>(reader - model.graph.nodes.begin());
    part_of[port.index] = PartOfNode(model, node);
  }
  return part_of;
}

namespace {

// The first node on tensors of any shape, whose attributes are sizes of the program; null: none.
const Node* FindSized(const Graph& graph) {
  const auto sized = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const Node& node) { return IsOfAnyTensor(node.op); });
  return sized == graph.nodes.end() ? nullptr : &*sized;
}

absl::Status CheckSizesOfOps(const RaisedShape& shape) {
  const Graph& graph = shape.model->graph;
  const std::vector<int64_t>& tokens = graph.values[InputOf(graph, Role::kInput).value].type.shape;
  const Node* const sized = FindSized(graph);
  if (sized == nullptr) return absl::OkStatus();
  const auto fixed = [&](absl::string_view what, int64_t wanted, int64_t has) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ", what, " of ", wanted, ", of a program whose sizes are those of ", has,
        ", as that of the ", RowOf(sized->op).name, " '", graph.values[sized->outputs.front()].name,
        "': export the model with the ", what, " of the run"));
  };
  if (shape.context != tokens[1]) return fixed("context", shape.context, tokens[1]);
  if (shape.microbatch == tokens[0] || SizesOfBatch(graph)) return absl::OkStatus();
  return fixed("microbatch", shape.microbatch, tokens[0]);
}

}  // namespace

absl::Status CheckShape(const RaisedShape& shape) {
  if (shape.microbatch < 1 || shape.microbatch > kMostSequences || shape.context < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a microbatch of ", shape.microbatch,
                                                   " sequences of ", shape.context, " tokens"));
  }
  const Graph& graph = shape.model->graph;
  const int64_t longest = graph.values[InputOf(graph, Role::kInput).value].type.shape[1];
  if (shape.context > longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a context of ", shape.context, " tokens, of a program with ", longest));
  }
  SL_RETURN_IF_ERROR(CheckSizesOfOps(shape));
  const std::vector<int> producers = Producers(graph);
  for (size_t v = 0; v < producers.size(); ++v) {
    if (producers[v] < 0 || ElementsOf(shape, static_cast<ValueId>(v)) <= kMostElements) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a microbatch of ", shape.microbatch, " sequences of ", shape.context,
        " tokens has an activation of more than 2^31 elements, '", graph.values[v].name, "'"));
  }
  return absl::OkStatus();
}

int64_t CountParams(const RaisedShape& shape) {
  int64_t count = 0;
  for (const RaisedParam& of : shape.model->params) {
    if (!of.param.tied_to.empty() || of.param.update == Update::kAverage) continue;
    count += of.positions ? shape.context * of.param.type.shape.back() : of.param.type.elements();
  }
  return count;
}

std::vector<double> WorkOfEach(const RaisedShape& shape) {
  const RaisedModel& model = *shape.model;
  std::vector<double> work(model.starts.size() + 1);
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    work[PartOfNode(model, static_cast<int>(n))] +=
        WorkOfNode(model.graph, model.graph.nodes[n], shape);
  }
  return work;
}

ModelWork WorkOf(const RaisedShape& shape) {
  const std::vector<double> each = WorkOfEach(shape);
  ModelWork work;
  work.embedding = each.front();
  work.head = each.back();
  for (size_t i = 1; i + 1 < each.size(); ++i) work.layer += each[i] / shape.layers;
  return work;
}

const RaisedParam& ParamNamed(const RaisedModel& model, const std::string& name) {
  const auto found = std::find_if(model.params.begin(), model.params.end(),
                                  [&name](const RaisedParam& of) { return of.param.name == name; });
  SL_CHECK(found != model.params.end()) << name;
  return *found;
}

absl::StatusOr<std::vector<StageProgram>> BuildRaisedStages(
    const RaisedShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_RETURN_IF_ERROR(CheckNotShared(options.expert_ranks));
  if (options.slices > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule cuts sequences into ", options.slices,
                     " slices, and the program of an exported model is of whole ones"));
  }
  const Node* const sized = FindSized(shape.model->graph);
  if (sized != nullptr && options.dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat("precision ", NameOf(options.dtype),
                                                   ": the model has a ", RowOf(sized->op).name,
                                                   ", which computes in f32; give precision: f32"));
  }
  if (options.packed) {
    return absl::InvalidArgumentError(
        "data.packed: the program of an exported model has positions and masks of whole sequences; "
        "a model of a `kind` or of a `folder` would help");
  }
  return BuildPrograms(
      shape.layers, layers_per_stage, options, ValuesOf(*shape.model),
      [&](const SlicePlace&) { return std::make_unique<RaisedStage>(shape, options); });
}

}  // namespace stringline
