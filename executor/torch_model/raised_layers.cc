// Layers are the children of a single module: the modules of a list, or those written out side by
// side. This is the module whose children hold the most nodes, a list if one holds half as many. A
// member of a list without a matrix, as an activation or a norm, is a part of its neighbour's
// layer.
#include "executor/torch_model/raised_layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

bool IsListIndex(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// The child of `outer` that contains a module, or "" if none does. The model's own name is "".
std::string PartOf(const std::string& outer, const std::string& module) {
  const std::string begin = outer.empty() ? "" : outer + ".";
  if (module.compare(0, begin.size(), begin) != 0) return "";
  return module.substr(0, module.find('.', begin.size()));
}

bool IsMember(const std::string& part) { return IsListIndex(part.substr(part.rfind('.') + 1)); }

// Nodes that read a matrix: a parameter of two dimensions or more.
std::vector<bool> ReadersOfMatrices(const RaisedModel& model) {
  std::set<ValueId> matrices;
  for (const Port& port : model.graph.inputs) {
    const bool is_matrix = model.graph.values[port.value].type.shape.size() > 1;
    if (port.role == Role::kParam && is_matrix) matrices.insert(port.value);
  }
  std::vector<bool> reads;
  for (const Node& node : model.graph.nodes) {
    reads.push_back(std::any_of(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId value) { return matrices.count(value) > 0; }));
  }
  return reads;
}

// For each node the child of `outer` that contains the node, if the child can be a layer: a member
// of a list, a module of more than a single node, or, with `of_one_node`, any that reads a matrix.
// Otherwise "".
std::vector<std::string> PartsOf(const RaisedModel& model, const std::string& outer,
                                 const std::vector<bool>& reads_matrix, bool of_one_node) {
  std::map<std::string, int> nodes;
  for (const std::string& module : model.modules) ++nodes[PartOf(outer, module)];
  std::vector<std::string> parts;
  for (size_t n = 0; n < model.modules.size(); ++n) {
    std::string& part = parts.emplace_back(PartOf(outer, model.modules[n]));
    const bool counts = of_one_node && reads_matrix[n];
    if (nodes[part] == 1 && !IsMember(part) && !counts) part.clear();
  }
  return parts;
}

// The parts as layers: one that reads no matrix joins the one before. If the first reads none, as a
// norm before its product, those of its ops begin a layer. The last, if it gives the logits, is the
// head: it is no layer. Without two parts that read matrices all remain as they are.
std::vector<std::string> JoinParts(const RaisedModel& model, const std::vector<bool>& reads_matrix,
                                   const std::vector<std::string>& parts) {
  std::map<std::string, bool> reads;
  std::map<std::string, std::vector<Op>> ops;
  std::vector<std::string> order;
  for (size_t n = 0; n < parts.size(); ++n) {
    if (reads.count(parts[n]) == 0 && !parts[n].empty()) order.push_back(parts[n]);
    reads[parts[n]] = reads[parts[n]] || reads_matrix[n];
    ops[parts[n]].push_back(model.graph.nodes[n].op);
  }
  if (std::count_if(order.begin(), order.end(), [&](auto& part) { return reads[part]; }) < 2)
    return parts;
  std::map<std::string, std::string> joined = {{"", ""}};
  std::string before, layer = order.front();
  bool has_matrix = false;
  for (const std::string& part : order) {
    if (has_matrix && (reads[part] || ops[part] == ops[order.front()])) {
      before = layer;
      layer = part;
      has_matrix = false;
    }
    has_matrix = has_matrix || reads[part];
    joined[part] = layer;
  }
  for (auto& [part, of] : joined) {
    if (of == layer && !has_matrix) of = before;
  }
  const std::string head = joined[order.back()];
  std::vector<std::string> layers;
  for (const std::string& part : parts) layers.push_back(joined[part]);
  // Behind the logits there is only the loss.
  if (head != layers[layers.size() - 2] || head == joined[order.front()]) return layers;
  std::replace(layers.begin(), layers.end(), head, std::string());
  return layers;
}

// The modules that have children, outer ones first; "" is the model.
std::set<std::string> ModulesWithChildren(const RaisedModel& model) {
  std::set<std::string> modules = {""};
  for (const std::string& module : model.modules) {
    for (size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
      modules.insert(module.substr(0, dot));
    }
  }
  return modules;
}

// Among the modules with two children or more, the module whose children hold the most nodes, the
// outermost on ties; nothing if no module qualifies. A list with half as many nodes comes before
// modules of different names, as an encoder's layers before the encoder and its head; among lists
// one of products before one of activations.
std::vector<std::string> LargestParts(const RaisedModel& model,
                                      const std::vector<bool>& reads_matrix) {
  std::vector<std::string> best, best_list;
  std::ptrdiff_t most = 0;
  std::pair<bool, std::ptrdiff_t> most_in_list;
  for (const std::string& outer : ModulesWithChildren(model)) {
    std::vector<std::string> parts = PartsOf(model, outer, reads_matrix, /*of_one_node=*/false);
    const std::set<std::string> different(parts.begin(), parts.end());
    const auto in_none = std::count(parts.begin(), parts.end(), "");
    const auto in_some = static_cast<std::ptrdiff_t>(parts.size()) - in_none;
    if (different.size() - (in_none > 0 ? 1 : 0) < 2) continue;
    const bool is_list = std::all_of(different.begin(), different.end(),
                                     [](const auto& of) { return of.empty() || IsMember(of); });
    bool has_matrix = false;
    for (size_t n = 0; n < parts.size(); ++n) {
      has_matrix = has_matrix || (reads_matrix[n] && !parts[n].empty());
    }
    if (is_list && std::pair(has_matrix, in_some) > most_in_list) {
      most_in_list = {has_matrix, in_some};
      best_list = JoinParts(model, reads_matrix, parts);
    }
    if (in_some <= most) continue;
    most = in_some;
    best = std::move(parts);
  }
  return 2 * most_in_list.second >= most ? best_list : best;
}

struct Starts {
  std::vector<int> nodes;  // of each layer, then of the head
  std::vector<std::string> layers;
};

// The layers among the parts that nodes are in: those at whose beginning an activation crosses.
Starts StartsOf(const RaisedModel& model, const std::vector<std::string>& in) {
  Starts starts;
  const auto begins = [&](int node, const std::string& layer) {
    if (CrossingsAt(model.graph, node).empty()) return;
    starts.nodes.push_back(node);
    starts.layers.push_back(layer);
  };
  std::string last;
  int end = 0;  // behind the last node of a layer
  for (size_t n = 0; n < in.size(); ++n) {
    if (in[n].empty()) continue;
    if (in[n] != last) begins(static_cast<int>(n), in[n]);
    last = in[n];
    end = static_cast<int>(n) + 1;
  }
  if (!starts.nodes.empty()) begins(end, "");
  return starts;
}

// Layers of a model without modules of several nodes and without lists, as products that are
// written out: the most that children of one module can be.
Starts StartsOfProducts(const RaisedModel& model, const std::vector<bool>& reads_matrix) {
  Starts most;
  for (const std::string& outer : ModulesWithChildren(model)) {
    const std::vector<std::string> parts =
        PartsOf(model, outer, reads_matrix, /*of_one_node=*/true);
    Starts starts = StartsOf(model, JoinParts(model, reads_matrix, parts));
    if (starts.nodes.size() > most.nodes.size()) most = std::move(starts);
  }
  return most;
}

// A parameter read in two layers would become two parameters.
absl::Status CheckSharing(const RaisedModel& model) {
  std::map<ValueId, int> part_of;
  for (const Port& port : model.graph.inputs) {
    if (port.role == Role::kParam) part_of[port.value] = -1;
  }
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const int part = PartOfNode(model, static_cast<int>(n));
    for (const ValueId value : model.graph.nodes[n].inputs) {
      const auto found = part_of.find(value);
      if (found == part_of.end() || found->second == part) continue;
      if (found->second >= 0) {
        return absl::UnimplementedError(absl::StrCat("parameter '", model.graph.values[value].name,
                                                     "' is used in several layers: a table of "
                                                     "tokens may be the matrix of a product, too, "
                                                     "and others are of one layer"));
      }
      found->second = part;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FindLayers(RaisedModel* model) {
  const std::vector<bool> reads_matrix = ReadersOfMatrices(*model);
  Starts starts = StartsOf(*model, LargestParts(*model, reads_matrix));
  if (starts.nodes.size() < 2) starts = StartsOfProducts(*model, reads_matrix);
  if (starts.nodes.size() < 2) {
    return absl::UnimplementedError(
        "the model can nowhere be cut into layers: no activation goes between two of its modules");
  }
  model->starts = std::move(starts.nodes);
  model->layers = std::move(starts.layers);
  model->layers.pop_back();
  return CheckSharing(*model);
}

}  // namespace stringline
