// Places by compute part: from the front, depth by depth, for nodes that depend on incoming values;
// from the back, by their readers, for the rest. A place is 2 d for compute part d and 2 d + 1 for
// network part d; sorting the nodes by place is the order.
#include "stages/cut.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "schedlang/base/sl_check.h"
#include "stages/ops.h"

namespace stringline {
namespace {

constexpr int kAnywhere = -1;  // depends on no incoming value

struct Placing {
  const Graph& graph;
  std::vector<int> depth;       // by value: cutting collectives on the longest path to it
  std::vector<int> there_from;  // by value; differs from depth for exchanged counts
  std::vector<int> place;       // by node
};

int DeepestInput(const Node& node, const std::vector<int>& of_value) {
  int deepest = kAnywhere;
  for (ValueId value : node.inputs) deepest = std::max(deepest, of_value[value]);
  return deepest;
}

// Places nodes that depend on incoming values.
void PlaceForwards(Placing* placing) {
  const Graph& graph = placing->graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool collective = IsCollective(node.op);
    int from = DeepestInput(node, collective ? placing->depth : placing->there_from);
    // A collective is called as early as possible, whatever its dependencies.
    if (collective || node.op == Op::kCrossEntropyGrad) from = std::max(from, 0);
    if (from == kAnywhere) continue;
    placing->place[n] = 2 * from + (collective ? 1 : 0);
    for (ValueId value : node.outputs) {
      placing->depth[value] = from + (IsCut(node.op) ? 1 : 0);
      placing->there_from[value] = from + (collective ? 1 : 0);
    }
  }
}

// Places the other nodes: as late as their readers allow.
void PlaceBackwards(int last_part, Placing* placing) {
  const Graph& graph = placing->graph;
  std::vector<int>& place = placing->place;
  std::vector<int> needed(graph.values.size(), kAnywhere);  // the compute part that needs it
  std::vector<bool> waits(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) waits[n] = place[n] == kAnywhere;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (waits[n]) {
      for (ValueId value : node.outputs) {
        if (needed[value] == kAnywhere) continue;
        const int by = 2 * needed[value];
        place[n] = place[n] == kAnywhere ? by : std::min(place[n], by);
      }
    }
    if (place[n] == kAnywhere) continue;
    for (ValueId value : node.inputs) {
      const int by = place[n] / 2;
      needed[value] = needed[value] == kAnywhere ? by : std::min(needed[value], by);
    }
  }
  std::vector<int> made_in(graph.values.size(), kAnywhere);  // by nodes placed here
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!waits[n]) continue;
    const int with = DeepestInput(graph.nodes[n], made_in);
    if (place[n] == kAnywhere) place[n] = 2 * (with == kAnywhere ? last_part : with);
    for (ValueId value : graph.nodes[n].outputs) {
      made_in[value] = placing->there_from[value] = place[n] / 2;
    }
  }
}

Cut Ordered(const Placing& placing, int compute_parts) {
  const Graph& graph = placing.graph;
  std::vector<int> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](int a, int b) { return placing.place[a] < placing.place[b]; });
  Cut cut;
  size_t next = 0;
  for (int place = 0; place < 2 * compute_parts - 1; ++place) {
    const int first = static_cast<int>(next);
    while (next < nodes.size() && placing.place[nodes[next]] == place) ++next;
    cut.parts.push_back({place % 2 == 1, first, static_cast<int>(next)});
  }
  SL_CHECK(next == nodes.size()) << next << " nodes of " << nodes.size() << " in parts";
  cut.graph = Extract(graph, nodes, graph.inputs, graph.outputs);
  // Values are numbered anew in the order of their definition.
  std::vector<int> renumbered;
  for (const Port& port : graph.inputs) renumbered.push_back(placing.there_from[port.value]);
  for (int n : nodes) {
    for (ValueId value : graph.nodes[n].outputs) renumbered.push_back(placing.there_from[value]);
  }
  cut.there_from = std::move(renumbered);
  return cut;
}

// A graph whose compute parts can run in any order: no part reads another's results, and each
// computes shared values for itself.
class PartByPart {
 public:
  explicit PartByPart(const Placing& placing)
      : placing_(placing), graph_(placing.graph), producers_(Producers(graph_)) {
    for (const Port& port : graph_.outputs) is_result_.insert(producers_[port.value]);
  }

  Cut Write(int compute_parts) && {
    std::vector<ValueId> inputs(graph_.values.size(), kNone);
    for (const Port& port : graph_.inputs) {
      inputs[port.value] = Define(port.value);
      cut_.graph.inputs.push_back({port.role, port.index, inputs[port.value]});
    }
    cut_.graph.outputs = graph_.outputs;
    for (int part = 0; part < compute_parts; ++part) WritePart(part, inputs);
    return std::move(cut_);
  }

 private:
  void WritePart(int part, std::vector<ValueId> written) {
    std::vector<bool> needed(graph_.nodes.size(), false);
    for (const int n : is_result_) needed[n] = n >= 0 && placing_.place[n] == 2 * part;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!needed[n]) continue;
      for (const ValueId value : graph_.nodes[n].inputs) {
        if (producers_[value] >= 0) needed[producers_[value]] = true;
      }
    }
    const int first = static_cast<int>(cut_.graph.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!needed[n]) continue;
      Node node = graph_.nodes[n];
      for (ValueId& value : node.inputs) value = written[value];
      for (ValueId& value : node.outputs) value = written[value] = Define(value);
      cut_.graph.nodes.push_back(std::move(node));
    }
    cut_.parts.push_back({false, first, static_cast<int>(cut_.graph.nodes.size())});
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const int producer = producers_[graph_.outputs[i].value];
      if (producer < 0 || placing_.place[producer] != 2 * part) continue;
      cut_.graph.outputs[i].value = written[graph_.outputs[i].value];
    }
  }

  ValueId Define(ValueId value) {
    Value defined = graph_.values[value];
    for (int copy = 2; !names_.insert(defined.name).second; ++copy) {
      defined.name = graph_.values[value].name + "." + std::to_string(copy);
    }
    cut_.graph.values.push_back(std::move(defined));
    cut_.there_from.push_back(placing_.there_from[value]);
    return static_cast<ValueId>(cut_.graph.values.size()) - 1;
  }

  const Placing& placing_;
  const Graph& graph_;
  const std::vector<int> producers_;
  std::set<int> is_result_;  // nodes whose values are outputs of the graph
  std::set<std::string> names_;
  Cut cut_;
};

Placing Unplaced(const Graph& graph) {
  return {graph, std::vector<int>(graph.values.size(), kAnywhere),
          std::vector<int>(graph.values.size(), kAnywhere),
          std::vector<int>(graph.nodes.size(), kAnywhere)};
}

Placing Placed(const Graph& graph) {
  Placing placing = Unplaced(graph);
  for (const Port& port : graph.inputs) {
    if (port.role != Role::kInput && port.role != Role::kOutGrad) continue;
    placing.depth[port.value] = placing.there_from[port.value] = 0;
  }
  PlaceForwards(&placing);
  int last_part = 0;
  for (int place : placing.place) last_part = std::max(last_part, (place + 1) / 2);
  PlaceBackwards(last_part, &placing);
  return placing;
}

}  // namespace

Cut CutAtCollectives(const Graph& graph) {
  const Placing placing = Placed(graph);
  int last_part = 0;
  for (int place : placing.place) last_part = std::max(last_part, (place + 1) / 2);
  return Ordered(placing, last_part + 1);
}

std::vector<int> PartsOf(const Graph& graph) {
  std::vector<int> parts = Placed(graph).place;
  for (int& part : parts) part /= 2;
  return parts;
}

Cut CutAlong(const Graph& weight_gradient, const std::vector<int>& stash, int compute_parts) {
  Placing placing = Unplaced(weight_gradient);
  for (const Port& port : weight_gradient.inputs) {
    if (port.role != Role::kStash) continue;
    placing.depth[port.value] = placing.there_from[port.value] = std::max(stash[port.index], 0);
  }
  PlaceForwards(&placing);
  PlaceBackwards(compute_parts - 1, &placing);
  return PartByPart(placing).Write(compute_parts);
}

}  // namespace stringline
