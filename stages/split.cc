// Programs are sets of nodes of the joint graph. B has the dependencies of all gradients, I those
// of the gradients that cannot wait, W the rest. A value read across sets is saved or stashed, and
// each program is extracted with these values as its ports.
#include "stages/split.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "stages/autodiff.h"
#include "stages/cut.h"
#include "stages/ops.h"

namespace stringline {
namespace {

bool IsGiven(const Port& port) { return port.role == Role::kParam || port.role == Role::kPast; }
bool IsGradient(const Port& port) {
  return port.role == Role::kOutGrad || port.role == Role::kKeyGrad;
}

// Nodes and values are those of the joint graph.
struct Split {
  Split(const ForwardStage& stage, const Joint& joint);

  const ForwardStage& stage;
  const Joint& joint;
  std::vector<int> producers;     // by value; -1 for an input
  std::vector<bool> is_given;     // by value: a param, or of the past; there whoever reads it
  std::vector<bool> is_gradient;  // by value: an input of the backward
  std::vector<int> backward;      // B's nodes: I's and W's
  std::vector<int> input;
  std::vector<int> weight;
  std::vector<ValueId> saved;
  std::vector<ValueId> stash;
  std::vector<ValueId> remade;  // R's of `saved`, ascending
  std::vector<int> recompute;   // R's nodes

  bool OfForward(ValueId value) const {
    return producers[value] < 0 ? !is_gradient[value] : producers[value] < joint.forward_nodes;
  }
};

// The values that `nodes` read, ascending, each once.
std::vector<ValueId> ReadBy(const Graph& graph, const std::vector<int>& nodes) {
  std::vector<ValueId> values;
  for (int n : nodes) {
    values.insert(values.end(), graph.nodes[n].inputs.begin(), graph.nodes[n].inputs.end());
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::vector<int> BackwardBehind(const Joint& joint, const std::vector<ValueId>& targets) {
  std::vector<int> nodes = NodesBehind(joint.graph, targets);
  nodes.erase(nodes.begin(), std::lower_bound(nodes.begin(), nodes.end(), joint.forward_nodes));
  return nodes;
}

std::vector<int> Minus(const std::vector<int>& all, const std::vector<int>& some) {
  std::vector<int> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

Split::Split(const ForwardStage& of_stage, const Joint& of_joint)
    : stage(of_stage),
      joint(of_joint),
      producers(Producers(joint.graph)),
      is_given(joint.graph.values.size(), false),
      is_gradient(joint.graph.values.size(), false) {
  for (const Port& port : joint.graph.inputs) {
    is_given[port.value] = IsGiven(port);
    is_gradient[port.value] = IsGradient(port);
  }
  std::vector<ValueId> targets;
  for (const auto* grads : {&joint.param_grads, &joint.in_grads}) {
    for (const ValueId grad : *grads) {
      if (grad != kNone) targets.push_back(grad);
    }
  }
  targets.insert(targets.end(), joint.past_grads.begin(), joint.past_grads.end());
  backward = BackwardBehind(joint, targets);
}

// Anchors, gradients of the past, eager gradients, and all other nodes that read what is given;
// with their dependencies.
std::vector<ValueId> TargetsOfInput(const Split& split) {
  std::vector<ValueId> targets = split.joint.anchors;
  targets.insert(targets.end(), split.joint.past_grads.begin(), split.joint.past_grads.end());
  for (size_t p = 0; p < split.stage.params.size(); ++p) {
    const Param& param = split.stage.params[p];
    if (param.frozen) continue;
    if (param.eager || param.type.shape.size() <= 1) targets.push_back(split.joint.param_grads[p]);
  }
  for (int n : split.backward) {
    const Node& node = split.joint.graph.nodes[n];
    if (std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](ValueId value) { return split.is_given[value]; })) {
      targets.insert(targets.end(), node.outputs.begin(), node.outputs.end());
    }
  }
  return targets;
}

// A gradient that I computes anyway and that is only copied into its accumulator (autodiff's scale
// by 1) is I's output, too.
std::vector<ValueId> TakenAlong(const Split& split, const std::vector<int>& input) {
  std::vector<ValueId> targets;
  for (ValueId grad : split.joint.param_grads) {
    if (grad == kNone) continue;
    const Node& node = split.joint.graph.nodes[split.producers[grad]];
    if (node.op != Op::kScale) continue;
    if (std::binary_search(input.begin(), input.end(), split.producers[node.inputs[0]])) {
      targets.push_back(grad);
    }
  }
  return targets;
}

// By node: true for W's.
std::vector<bool> FindWeight(const Split& split) {
  std::vector<ValueId> targets = TargetsOfInput(split);
  const std::vector<int> input = BackwardBehind(split.joint, targets);
  for (ValueId value : TakenAlong(split, input)) targets.push_back(value);
  std::vector<bool> weight(split.joint.graph.nodes.size(), false);
  for (int n : Minus(split.backward, BackwardBehind(split.joint, targets))) {
    weight[n] = true;
    SL_CHECK(!IsCollective(split.joint.graph.nodes[n].op)) << "W would communicate";
  }
  return weight;
}

// Finds the values that F keeps for the others, and I for W.
void FindHandedOn(const std::vector<bool>& is_weight, Split* split) {
  const Graph& graph = split->joint.graph;
  for (int n : split->backward) (is_weight[n] ? split->weight : split->input).push_back(n);
  for (ValueId value : ReadBy(graph, split->backward)) {
    if (split->OfForward(value) && !split->is_given[value]) split->saved.push_back(value);
  }
  for (ValueId value : ReadBy(graph, split->weight)) {
    if (split->OfForward(value)) continue;
    const int producer = split->producers[value];
    if (producer < 0 || !is_weight[producer]) split->stash.push_back(value);
  }
}

std::vector<Port> Numbered(Role role, const std::vector<ValueId>& values) {
  std::vector<Port> ports;
  for (ValueId value : values) ports.push_back({role, static_cast<int>(ports.size()), value});
  return ports;
}

void Add(std::vector<Port>* ports, const std::vector<Port>& more) {
  ports->insert(ports->end(), more.begin(), more.end());
}

// The ports of those saved values for which `is_chosen` holds, under their common indices.
template <typename IsChosen>
std::vector<Port> SavedPorts(const Split& split, IsChosen is_chosen) {
  std::vector<Port> ports;
  for (size_t k = 0; k < split.saved.size(); ++k) {
    if (is_chosen(split.saved[k])) {
      ports.push_back({Role::kSaved, static_cast<int>(k), split.saved[k]});
    }
  }
  return ports;
}

bool Holds(const std::vector<ValueId>& ascending, ValueId value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

// Params and the past among the values `read`, which ascend.
std::vector<Port> ReadGiven(const Graph& graph, const std::vector<ValueId>& read) {
  std::vector<Port> given;
  for (const Port& port : graph.inputs) {
    if (IsGiven(port) && Holds(read, port.value)) given.push_back(port);
  }
  return given;
}

// Params, the past, saved and gradients: B's inputs and I's.
std::vector<Port> BackwardInputs(const Split& split) {
  std::vector<Port> ports;
  for (const Port& port : split.joint.graph.inputs) {
    if (IsGiven(port)) ports.push_back(port);
  }
  const std::vector<ValueId> read = ReadBy(split.joint.graph, split.backward);
  Add(&ports, SavedPorts(split, [&](ValueId value) { return Holds(read, value); }));
  for (const Port& port : split.joint.graph.inputs) {
    if (IsGradient(port)) ports.push_back(port);
  }
  return ports;
}

// Ports of the param gradients produced by these nodes.
std::vector<Port> ParamGrads(const Split& split, const std::vector<int>& nodes) {
  std::vector<Port> ports;
  for (size_t p = 0; p < split.joint.param_grads.size(); ++p) {
    const ValueId grad = split.joint.param_grads[p];
    if (grad == kNone) continue;
    if (std::binary_search(nodes.begin(), nodes.end(), split.producers[grad])) {
      ports.push_back({Role::kParamGrad, static_cast<int>(p), grad});
    }
  }
  return ports;
}

// Finds R's nodes, and adds to the saved values those that only R reads. `again`, by node of the
// forward: computed again, by R or, if it is `widened`, by each of its readers.
void FindRemade(const std::vector<bool>& again, const std::vector<bool>& widened, Split* split) {
  const Graph& graph = split->stage.graph;
  std::vector<bool> of_r(graph.nodes.size(), false);
  for (const ValueId value : split->saved) {
    const int producer = split->producers[value];
    if (producer < 0 || !again[producer] || widened[producer]) continue;
    split->remade.push_back(value);
    of_r[producer] = true;
  }
  std::vector<ValueId> sources;
  for (size_t n = of_r.size(); n-- > 0;) {
    if (!of_r[n]) continue;
    split->recompute.push_back(static_cast<int>(n));
    for (const ValueId value : graph.nodes[n].inputs) {
      const int producer = split->producers[value];
      if (producer >= 0 && again[producer]) {
        of_r[producer] = true;
      } else if (!split->is_given[value]) {
        sources.push_back(value);
      }
    }
  }
  std::reverse(split->recompute.begin(), split->recompute.end());
  split->saved.insert(split->saved.end(), sources.begin(), sources.end());
  std::sort(split->saved.begin(), split->saved.end());
  split->saved.erase(std::unique(split->saved.begin(), split->saved.end()), split->saved.end());
}

Graph RecomputeProgram(const Split& split) {
  const Graph& graph = split.stage.graph;
  const std::vector<ValueId> read = ReadBy(graph, split.recompute);
  std::vector<Port> inputs = ReadGiven(graph, read);
  Add(&inputs, SavedPorts(split, [&](ValueId value) {
    return Holds(read, value) && !Holds(split.remade, value);
  }));
  return Extract(graph, split.recompute, inputs,
                 SavedPorts(split, [&](ValueId value) { return Holds(split.remade, value); }));
}

Graph ForwardProgram(const Split& split) {
  const Graph& graph = split.stage.graph;
  std::vector<Port> outputs;
  for (const Port& port : graph.outputs) {
    if (port.role != Role::kSaved) outputs.push_back(port);
  }
  Add(&outputs, SavedPorts(split, [&](ValueId value) { return !Holds(split.remade, value); }));
  std::vector<ValueId> targets;
  for (const Port& port : outputs) targets.push_back(port.value);
  return Extract(graph, NodesBehind(graph, targets), graph.inputs, outputs);
}

Graph BackwardProgram(const Split& split, const std::vector<int>& nodes, bool stash) {
  std::vector<Port> outputs;
  for (const Port& grad : Numbered(Role::kInGrad, split.joint.in_grads)) {
    if (grad.value != kNone) outputs.push_back(grad);
  }
  Add(&outputs, Numbered(Role::kKeyGradBefore, split.joint.past_grads));
  Add(&outputs, ParamGrads(split, nodes));
  if (stash) Add(&outputs, Numbered(Role::kStash, split.stash));
  return Extract(split.joint.graph, nodes, BackwardInputs(split), outputs);
}

// W's inputs are only the params and saved values it reads, under their common indices.
Graph WeightProgram(const Split& split) {
  const std::vector<ValueId> read = ReadBy(split.joint.graph, split.weight);
  std::vector<Port> inputs = ReadGiven(split.joint.graph, read);
  Add(&inputs, SavedPorts(split, [&](ValueId value) { return Holds(read, value); }));
  Add(&inputs, Numbered(Role::kStash, split.stash));
  return Extract(split.joint.graph, split.weight, inputs, ParamGrads(split, split.weight));
}

absl::Status CheckGradients(const ForwardStage& stage, const Joint& joint) {
  SL_CHECK(joint.param_grads.size() == stage.params.size()) << stage.params.size();
  for (size_t p = 0; p < stage.params.size(); ++p) {
    if (joint.param_grads[p] != kNone || stage.params[p].frozen) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the stage's result does not depend on '", stage.params[p].name, "'"));
  }
  for (const Port& port : stage.graph.inputs) {
    const bool has_gradient =
        port.role == Role::kInput && IsFloat(stage.graph.values[port.value].type.dtype);
    if (!has_gradient || joint.in_grads[port.index] != kNone) continue;
    return absl::InvalidArgumentError("the stage's result does not depend on its input");
  }
  return absl::OkStatus();
}

// Keys of an attention layer, which a slice reads or leaves.
void DescribeKeys(int layer, const Type& keys, StageProgram* program) {
  program->attention_layers = std::max(program->attention_layers, layer + 1);
  program->keys = keys;
}

// Puts the value with this index in its place. `given` as those of ForwardStage.
void AddCrossing(const Type& type, int index, const std::vector<Crossing>& given, bool of_no_edge,
                 std::vector<Crossing>* crossings) {
  const auto i = static_cast<size_t>(index);
  crossings->resize(std::max(crossings->size(), i + 1));
  Crossing& crossing = (*crossings)[i];
  if (!given.empty()) crossing = given[i];
  if (given.empty() && of_no_edge) crossing.edge = Crossing::kNoEdge;
  crossing.type = type;
}

// The types of the stage's ports.
void Describe(const Split& split, StageProgram* program) {
  const Graph& graph = split.joint.graph;
  program->first = split.stage.first;
  program->last = split.stage.last;
  program->params = split.stage.params;
  for (const Port& port : split.stage.graph.inputs) {
    const Type& type = graph.values[port.value].type;
    if (port.role == Role::kInput) {
      AddCrossing(type, port.index, split.stage.inputs, program->first && port.index == 0,
                  &program->inputs);
    }
    if (port.role == Role::kTarget) program->target = type;
    if (port.role == Role::kPositions) program->positions = type;
    if (port.role == Role::kMaskKey) program->mask_key = type;
    if (port.role == Role::kPast) DescribeKeys(port.index / split.stage.slice.index, type, program);
  }
  for (const Port& port : split.stage.graph.outputs) {
    const Type& type = graph.values[port.value].type;
    if (port.role == Role::kKeys) DescribeKeys(port.index, type, program);
    if (port.role == Role::kOutput) {
      AddCrossing(type, port.index, split.stage.outputs, false, &program->outputs);
    }
    if (port.role == Role::kLoss) program->outputs = {{type, Crossing::kNoEdge}};
  }
  program->first_target = split.stage.first_target;
  program->slice = split.stage.slice;
  for (const Node& node : split.stage.graph.nodes) {
    program->moe_layers += node.op == Op::kDispatchPlan;
  }
  const std::vector<ValueId> read = ReadBy(graph, split.weight);
  for (ValueId value : split.saved) {
    program->saved.push_back(
        {graph.values[value].type, Holds(read, value), Holds(split.remade, value)});
  }
  for (ValueId value : split.stash) program->stash.push_back(graph.values[value].type);
}

void Put(Cut cut, Graph* graph, std::vector<GraphPart>* parts) {
  *graph = std::move(cut.graph);
  *parts = std::move(cut.parts);
}

// Orders the nodes of the programs by part.
void CutPrograms(StageProgram* program) {
  Put(CutAtCollectives(program->forward), &program->forward, &program->forward_parts);
  Cut cut = CutAtCollectives(program->input_gradient);
  std::vector<int> stash(program->stash.size(), 0);
  for (const Port& port : cut.graph.outputs) {
    if (port.role == Role::kStash) stash[port.index] = cut.there_from[port.value];
  }
  const int compute_parts = static_cast<int>(cut.parts.size() + 1) / 2;
  Put(std::move(cut), &program->input_gradient, &program->input_gradient_parts);
  Put(CutAlong(program->weight_gradient, stash, compute_parts), &program->weight_gradient,
      &program->weight_gradient_parts);
}

}  // namespace

absl::StatusOr<StageProgram> MakeStageProgram(const ForwardStage& stage,
                                              const StageRecompute& recompute) {
  SL_ASSIGN_OR_RETURN(const Joint joint, Differentiate(stage.graph, stage.params, stage.slice));
  SL_RETURN_IF_ERROR(CheckGradients(stage, joint));
  const Halved kept{joint, FindWeight({stage, joint})};
  SL_CHECK(!recompute.remakes || !recompute.for_weights) << "W would recompute beside R";
  // With R the backward itself computes again only what is widened.
  const std::vector<bool> again =
      ComputedAgain(stage.graph, recompute.remakes ? Recompute::kNone : recompute.what);
  const bool any = std::find(again.begin(), again.end(), true) != again.end();
  // B computes everything again once; W its own needs, or I for both.
  const Halved once = any ? ComputeAgain(kept, again, false) : kept;
  const Halved twice = any && recompute.for_weights ? ComputeAgain(kept, again, true) : once;
  Split whole(stage, once.joint), halves(stage, twice.joint);
  FindHandedOn(once.weight, &whole);
  FindHandedOn(twice.weight, &halves);
  SL_CHECK(whole.saved == halves.saved) << "B needs other values of F than I and W";

  if (recompute.remakes) {
    FindRemade(ComputedAgain(stage.graph, recompute.what), again, &whole);
    halves.saved = whole.saved;
    halves.remade = whole.remade;
  }

  StageProgram program;
  program.remakes = recompute.remakes;
  if (recompute.remakes) program.recompute = RecomputeProgram(whole);
  Describe(halves, &program);
  program.forward = ForwardProgram(halves);
  program.backward = BackwardProgram(whole, whole.backward, false);
  program.input_gradient = BackwardProgram(halves, halves.input, true);
  program.weight_gradient = WeightProgram(halves);
  CutPrograms(&program);
  return program;
}

namespace {

// The keys that a slice without backwards gives to the slice behind: those that it gets, and its
// own.
void HandKeysOn(const StageProgram& program, const Port& own, std::vector<Port>* outputs) {
  const int slice = program.slice.index, layer = own.index;
  for (const Port& past : program.forward.inputs) {
    if (past.role != Role::kPast || past.index / slice != layer) continue;
    outputs->push_back({Role::kKeys, layer * (slice + 1) + past.index % slice, past.value});
  }
  outputs->push_back({Role::kKeys, layer * (slice + 1) + slice, own.value});
}

// The graph with what each dropout takes in the place of its result: the dropouts stay, unread.
Graph PastDropout(Graph graph) {
  std::vector<ValueId> now(graph.values.size());
  std::iota(now.begin(), now.end(), 0);
  for (Node& node : graph.nodes) {
    for (ValueId& value : node.inputs) value = now[value];
    if (node.op == Op::kDropout) now[node.outputs[0]] = node.inputs[0];
  }
  for (Port& port : graph.outputs) port.value = now[port.value];
  const auto of_masks = [](const Port& port) { return port.role == Role::kMaskKey; };
  graph.inputs.erase(std::remove_if(graph.inputs.begin(), graph.inputs.end(), of_masks),
                     graph.inputs.end());
  return graph;
}

}  // namespace

StageProgram WithoutBackwards(const StageProgram& program) {
  StageProgram without;
  without.first = program.first;
  without.last = program.last;
  without.params = program.params;
  without.inputs = program.inputs;
  without.outputs = program.outputs;
  without.target = program.target;
  without.first_target = program.first_target;
  without.positions = program.positions;
  without.moe_layers = program.moe_layers;
  const Graph forward = PastDropout(program.forward);
  std::vector<Port> outputs;
  std::vector<ValueId> targets;
  for (const Port& port : forward.outputs) {
    if (port.role == Role::kSaved) continue;
    targets.push_back(port.value);
    if (port.role == Role::kKeys) {
      HandKeysOn(program, port, &outputs);
    } else {
      outputs.push_back(port);
    }
  }
  without.forward = Extract(forward, NodesBehind(forward, targets), forward.inputs, outputs);
  Put(CutAtCollectives(without.forward), &without.forward, &without.forward_parts);
  without.slice = program.slice;
  without.attention_layers = program.attention_layers;
  without.keys = program.keys;
  without.hands_keys_on = program.slice.of > 1;
  for (const StageProgram& later : program.later_slices) {
    without.later_slices.push_back(WithoutBackwards(later));
  }
  return without;
}

}  // namespace stringline
