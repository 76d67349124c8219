// All places are fixed at construction: ports at their place in the layout, temporaries in an arena
// by their lifetimes, and a value that is both input and output by a copy. A run only adds
// addresses. Of two joined nodes the later node's kernel does the work of both.
#include "executor/training/ready_graph.h"

#include <algorithm>
#include <numeric>

#include "executor/engine/placement.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/effects.h"
#include "stages/ops.h"

namespace stringline {
namespace {

constexpr int kMostOperands = 16;

// Adds an aligned tensor to a region of `size` bytes; returns its offset.
int64_t AddTensor(const Type& type, int64_t* size) {
  const int64_t offset = *size;
  *size += AlignUp(type.bytes());
  return offset;
}

char* Address(const Regions& regions, const Location& location) {
  if (location.further >= 0) return regions.further[location.further] + location.offset;
  return regions[static_cast<int>(location.region)] + location.offset;
}

// True if the bytes at the location and those at `offset` of the region have some in common.
bool Overlaps(const Location& location, int64_t size, Region region, int64_t offset,
              int64_t bytes) {
  return location.region == region && location.offset < offset + bytes &&
         offset < location.offset + size;
}

}  // namespace

StageLayout::StageLayout(const StageProgram& program, bool gathered)
    : layers(program.moe_layers), slice(program.slice), hands_keys_on(program.hands_keys_on) {
  params.resize(program.params.size());
  working.resize(program.params.size(), -1);
  for (const bool experts : {false, true}) {
    for (const bool narrow : {false, true}) {
      for (size_t p = 0; p < params.size(); ++p) {
        const Param& param = program.params[p];
        if (param.expert != experts || (param.type.dtype != DType::kF32) != narrow) continue;
        params[p] = AddTensor(GradTypeOf(param), &param_bytes);
        if (narrow || gathered) {
          working[p] = AddTensor(param.type, &working_bytes);
        } else {
          wide_bytes = param_bytes;
        }
      }
    }
  }
  for (const Saved& value : program.saved) {
    const StageValue kept = program.remakes && !value.remade ? StageValue::kKept
                            : value.needed_by_weight         ? StageValue::kSavedForWeight
                                                             : StageValue::kSavedForInput;
    saved.push_back({RegionOf(kept), AddTensor(value.type, &bytes[kept])});
  }
  ForEachOf(CopiedValues(program.remakes),
            [&](StageValue value) { bytes[StageValue::kHosted] += AlignUp(bytes[value]); });
  for (const Type& type : program.stash) {
    stash.push_back(AddTensor(type, &bytes[StageValue::kStash]));
  }
  if (slice.of > 1) {
    key_bytes = AlignUp(program.keys.bytes());
    for (const StageValue keys : {StageValue::kSliceKeys, StageValue::kSliceKeyGrad}) {
      bytes[keys] = program.attention_layers * key_bytes;
    }
  }
  int32_t further = hands_keys_on ? 0 : slice.index;
  for (const StageValue value : kMoving) {
    PlaceCrossings(LeadsHere(value) ? program.inputs : program.outputs, value, &further);
  }
}

void StageLayout::PlaceCrossings(const std::vector<Crossing>& crossings, StageValue value,
                                 int32_t* further) {
  const bool gradients = value == StageValue::kInGrad || value == StageValue::kOutGrad;
  std::vector<int64_t>& edges = edges_[static_cast<size_t>(value)];
  int64_t none = 0;
  for (const auto& [type, edge, first] : crossings) {
    Location& place = crossings_[static_cast<size_t>(value)].emplace_back();
    if (edge == Crossing::kNoEdge) {
      place = {Region::kTokens,
               AddTensor(type, value == StageValue::kInput ? &token_bytes : &none)};
      continue;
    }
    edges.resize(std::max(edges.size(), static_cast<size_t>(edge) + 1));
    if (gradients && !IsFloat(type.dtype)) continue;
    place = {RegionOf(value), AlignUp(edges[edge]), edge == 0 ? -1 : *further + edge - 1};
    edges[edge] = place.offset + type.bytes();
  }
  *further += std::max(static_cast<int32_t>(edges.size()) - 1, 0);
}

std::vector<int> StageLayout::InOrder() const {
  std::vector<int> order(params.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [this](int a, int b) { return params[a] < params[b]; });
  return order;
}

Location StageLayout::Of(const Port& port) const {
  switch (port.role) {
    case Role::kParam:
      if (working[port.index] >= 0) return {Region::kWorking, working[port.index]};
      return {Region::kParams, params[port.index]};
    case Role::kParamGrad:
      return {Region::kGrads, params[port.index]};
    case Role::kInput:
      return CrossingAt(StageValue::kInput, port.index);
    case Role::kTarget:
      return {Region::kTarget, 0};
    case Role::kPositions:
      return {Region::kPositions, 0};
    case Role::kMaskKey:
      return {Region::kMaskKey, 0};
    case Role::kOutput:
      return CrossingAt(StageValue::kOutput, port.index);
    case Role::kLoss:
      return {Region::kLoss, 0};
    case Role::kSaved:
      return saved[port.index];
    case Role::kStash:
      return {Region::kStash, stash[port.index]};
    case Role::kOutGrad:
      return CrossingAt(StageValue::kOutGrad, port.index);
    case Role::kInGrad:
      return CrossingAt(StageValue::kInGrad, port.index);
    case Role::kKeys:
      return {hands_keys_on ? Region::kKeysOn : Region::kSliceKeys, port.index * key_bytes};
    case Role::kPast:
      if (hands_keys_on) return {Region::kSliceKeys, port.index * key_bytes};
      return {Region::kSliceKeys, port.index / slice.index * key_bytes, port.index % slice.index};
    case Role::kKeyGrad:
      return {Region::kSliceKeyGrad, port.index * key_bytes};
    case Role::kKeyGradBefore:
      return {Region::kKeyGradBefore, port.index * key_bytes};
    case Role::kAuxLoss:
      return {Region::kTallies, port.index * kBufferAlignment};
    case Role::kDropped:
      return {Region::kTallies, (layers + port.index) * kBufferAlignment};
  }
  return {};
}

ReadyGraph::ReadyGraph(const Graph& graph, absl::Span<const GraphPart> parts,
                       const StageLayout& layout, Kernels* kernels)
    : kernels_(kernels),
      parts_(parts.begin(), parts.end()),
      placed_(graph.values.size(), false),
      adds_(graph.values.size(), false),
      workspaces_(graph.nodes.size(), 0) {
  for (const Value& value : graph.values) values_.push_back({{}, &value.type});
  for (const Node& node : graph.nodes) {
    absl::StatusOr<ReadyKernel> ready = kernels->ReadyFor(graph, node);
    status_.Update(ready.status());
    ready_.push_back(ready.value_or(ReadyKernel()));
    runs_at_.push_back(static_cast<int>(runs_at_.size()));
    if (ready_.back().with >= 0) runs_at_[ready_.back().with] = runs_at_.back();
  }
  PlacePorts(graph, layout);
  PlaceTemporaries(graph);
  AddSteps(graph);
  if (parts_.empty()) parts_.push_back({false, 0, static_cast<int>(graph.nodes.size())});
}

void ReadyGraph::PlacePorts(const Graph& graph, const StageLayout& layout) {
  std::vector<bool> is_input(graph.values.size(), false);
  for (const Port& port : graph.inputs) {
    SL_CHECK(!placed_[port.value]) << "two input ports name " << graph.values[port.value].name;
    values_[port.value].location = layout.Of(port);
    placed_[port.value] = true;
    is_input[port.value] = true;
  }
  for (const Port& port : graph.outputs) {
    const Location location = layout.Of(port);
    if (!placed_[port.value]) {
      values_[port.value].location = location;
      placed_[port.value] = true;
      adds_[port.value] = port.role == Role::kParamGrad;
      continue;
    }
    SL_CHECK(port.role != Role::kParamGrad && !adds_[port.value])
        << graph.values[port.value].name << " is a gradient and something else";
    (is_input[port.value] ? copies_before_ : copies_after_)
        .push_back({values_[port.value].location, location, values_[port.value].type->bytes()});
  }
}

// `to` is what `from`, an input of the graph, already holds.
void ReadyGraph::PlaceAsInput(const Graph& graph, ValueId from, ValueId to) {
  SL_CHECK(placed_[from]) << graph.values[from].name << " is no input";
  if (placed_[to]) {
    copies_before_.push_back(
        {values_[from].location, values_[to].location, graph.values[to].type.bytes()});
  } else {
    values_[to].location = values_[from].location;
    placed_[to] = true;
  }
}

// The nodes of a network part travel together: what one of them reads or writes is in use in all.
std::vector<GraphPart> ReadyGraph::TogetherWith(const Graph& graph) const {
  std::vector<GraphPart> together;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    together.push_back({false, static_cast<int>(n), static_cast<int>(n) + 1});
  }
  for (const GraphPart& part : parts_) {
    for (int n = part.first_node; n < part.end_node && part.network; ++n) together[n] = part;
  }
  return together;
}

void ReadyGraph::PlaceTemporaries(const Graph& graph) {
  const std::vector<GraphPart> together = TogetherWith(graph);
  std::vector<Lifetime> lifetimes;
  std::vector<int> buffer_of(graph.values.size(), -1);
  std::vector<int> workspace_of(graph.nodes.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const int step = static_cast<int>(n);
    for (ValueId value : node.inputs) {
      if (buffer_of[value] < 0) continue;
      int& last = lifetimes[buffer_of[value]].last;
      last = std::max(last, together[runs_at_[n]].end_node - 1);
    }
    if (runs_at_[n] != step) continue;
    if (const int input = ready_[n].same_as; input >= 0) {
      PlaceAsInput(graph, node.inputs[input], node.outputs[0]);
      continue;
    }
    for (ValueId value : node.outputs) {
      if (placed_[value]) continue;
      buffer_of[value] = static_cast<int>(lifetimes.size());
      lifetimes.push_back(
          {together[n].first_node, together[n].end_node - 1, graph.values[value].type.bytes()});
    }
    const int64_t workspace = ready_[n].workspace_bytes;
    if (workspace == 0) continue;
    workspace_of[n] = static_cast<int>(lifetimes.size());
    lifetimes.push_back({step, step, workspace});
  }
  const Placement placement = PlaceByLifetime(lifetimes);
  arena_bytes_ = placement.bytes;
  for (size_t v = 0; v < buffer_of.size(); ++v) {
    if (buffer_of[v] >= 0) {
      values_[v].location = {Region::kArena, placement.offsets[buffer_of[v]]};
      placed_[v] = true;
    }
  }
  for (size_t n = 0; n < workspace_of.size(); ++n) {
    if (workspace_of[n] >= 0) workspaces_[n] = placement.offsets[workspace_of[n]];
  }
}

void ReadyGraph::AddSteps(const Graph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    Step& step = steps_.emplace_back();
    step.node = &node;
    step.first_operand = static_cast<uint32_t>(operands_.size());
    step.first_output = static_cast<uint32_t>(accumulates_.size());
    step.workspace = workspaces_[n];
    if (runs_at_[n] != static_cast<int>(n) || ready_[n].same_as >= 0) continue;
    step.kernel = ready_[n];
    ValueId unwritten = kNone;
    if (const int with = step.kernel.with; with >= 0) {
      AddInputs(graph, graph.nodes[with], kNone, &step);
      unwritten = graph.nodes[with].outputs[0];
    }
    AddInputs(graph, node, unwritten, &step);
    AddOutputs(node, 0, &step);
    if (step.kernel.with >= 0) AddOutputs(graph.nodes[step.kernel.with], 1, &step);
    SL_CHECK(step.inputs + step.outputs <= kMostOperands) << RowOf(node.op).name;
  }
}

// All inputs but `unwritten`, the value that no node writes.
void ReadyGraph::AddInputs(const Graph& graph, const Node& node, ValueId unwritten, Step* step) {
  for (const ValueId value : node.inputs) {
    if (value == unwritten) continue;
    SL_CHECK(placed_[value]) << graph.values[value].name << " is read before it is made";
    operands_.push_back(values_[value]);
    ++step->inputs;
  }
}

void ReadyGraph::AddOutputs(const Node& node, int first, Step* step) {
  for (auto i = first; i < static_cast<int>(node.outputs.size()); ++i) {
    const ValueId value = node.outputs[i];
    ++step->outputs;
    SL_CHECK(placed_[value]) << RowOf(node.op).name << " has no place for its output " << i;
    SL_CHECK(!adds_[value] || RowOf(node.op).CanAccumulate(i))
        << RowOf(node.op).name << " cannot add into its output " << i;
    operands_.push_back(values_[value]);
    accumulates_.push_back(adds_[value] ? 1 : 0);
  }
}

void ReadyGraph::CopyAll(const std::vector<Copy>& copies, const Regions& regions,
                         NativeStream stream) const {
  for (const Copy& copy : copies) {
    kernels_->Copy(Address(regions, copy.to), Address(regions, copy.from), copy.bytes, stream);
  }
}

void ReadyGraph::Run(int part, const Regions& regions, NativeStream stream) const {
  Run(parts_[part].first_node, parts_[part].end_node, regions, stream);
}

void ReadyGraph::Run(int first, int end, const Regions& regions, NativeStream stream) const {
  if (first == 0) CopyAll(copies_before_, regions, stream);
  Tensor tensors[kMostOperands];
  bool accumulate[kMostOperands];
  for (int n = first; n < end; ++n) {
    const Step& step = steps_[n];
    if (step.kernel.run == nullptr) continue;  // another node's kernel does its work
    const size_t inputs = step.inputs, outputs = step.outputs;
    for (size_t i = 0; i < inputs + outputs; ++i) {
      const Operand& operand = operands_[step.first_operand + i];
      tensors[i] = {Address(regions, operand.location), operand.type};
    }
    for (size_t i = 0; i < outputs; ++i) accumulate[i] = accumulates_[step.first_output + i] != 0;
    step.kernel.run(
        step.kernel.self,
        {*step.node, absl::MakeConstSpan(tensors, inputs),
         absl::MakeConstSpan(tensors + inputs, outputs), absl::MakeConstSpan(accumulate, outputs),
         regions[static_cast<int>(Region::kArena)] + step.workspace, stream});
  }
  if (end == nodes()) CopyAll(copies_after_, regions, stream);
}

bool ReadyGraph::Touches(uint32_t operand, Region region, int64_t offset, int64_t bytes) const {
  const auto& [location, type] = operands_[operand];
  return Overlaps(location, type->bytes(), region, offset, bytes);
}

int ReadyGraph::FirstReadOf(Region region, int64_t offset, int64_t bytes) const {
  for (int n = 0; n < nodes(); ++n) {
    if (NodeReads(n, region, offset, bytes)) return n;
  }
  return -1;
}

int ReadyGraph::LastWriteOf(Region region, int64_t offset, int64_t bytes) const {
  int n = nodes() - 1;
  while (n >= 0 && !NodeWrites(n, region, offset, bytes)) --n;
  return n;
}

bool ReadyGraph::Reads(int part, Region region, int64_t offset, int64_t bytes) const {
  for (int n = parts_[part].first_node; n < parts_[part].end_node; ++n) {
    if (NodeReads(n, region, offset, bytes)) return true;
  }
  return false;
}

bool ReadyGraph::Writes(int part, Region region, int64_t offset, int64_t bytes) const {
  for (int n = parts_[part].first_node; n < parts_[part].end_node; ++n) {
    if (NodeWrites(n, region, offset, bytes)) return true;
  }
  return false;
}

bool ReadyGraph::NodeReads(int node, Region region, int64_t offset, int64_t bytes) const {
  const Step& step = steps_[node];
  for (uint32_t i = 0; i < step.inputs; ++i) {
    if (Touches(step.first_operand + i, region, offset, bytes)) return true;
  }
  // Inputs that are needed in a second place are copied before the first node.
  return node == 0 &&
         std::any_of(copies_before_.begin(), copies_before_.end(), [&](const Copy& copy) {
           return Overlaps(copy.from, copy.bytes, region, offset, bytes);
         });
}

bool ReadyGraph::NodeWrites(int node, Region region, int64_t offset, int64_t bytes) const {
  const Step& step = steps_[node];
  for (uint32_t i = 0; i < step.outputs; ++i) {
    if (Touches(step.first_operand + step.inputs + i, region, offset, bytes)) return true;
  }
  return false;
}

std::vector<ReadyGraph::Exchange> ReadyGraph::ExchangesOf(int part, const Regions& regions) const {
  SL_CHECK(parts_[part].network) << part;
  std::vector<Exchange> exchanges;
  for (int n = parts_[part].first_node; n < parts_[part].end_node; ++n) {
    const Step& step = steps_[n];
    Exchange& exchange = exchanges.emplace_back();
    exchange.node = step.node;
    const auto tensor = [&](size_t operand) -> Tensor {
      const Operand& at = operands_[step.first_operand + operand];
      return {Address(regions, at.location), at.type};
    };
    const size_t inputs = step.node->inputs.size();
    for (size_t i = 0; i < inputs; ++i) exchange.in.push_back(tensor(i));
    for (size_t i = 0; i < step.node->outputs.size(); ++i) {
      exchange.out.push_back(tensor(inputs + i));
    }
  }
  return exchanges;
}

}  // namespace stringline
