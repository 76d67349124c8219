// Layers are the children of a single module: the modules of a list, or those written out side by
// side. This is the module whose children hold the most nodes, a list if one holds half as many.
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

// For each node the child of `outer` that contains the node, if the child can be a layer: a member
// of a list, or a module of more than a single node. Otherwise "".
std::vector<std::string> PartsOf(const RaisedModel& model, const std::string& outer) {
  std::map<std::string, int> nodes;
  for (const std::string& module : model.modules) ++nodes[PartOf(outer, module)];
  std::vector<std::string> parts;
  for (const std::string& module : model.modules) {
    std::string& part = parts.emplace_back(PartOf(outer, module));
    if (nodes[part] == 1 && !IsListIndex(part.substr(part.rfind('.') + 1))) part.clear();
  }
  return parts;
}

// Among the modules with two children or more, the module whose children hold the most nodes, the
// outermost on ties; nothing if no module qualifies. A list with half as many nodes comes before
// modules of different names, as an encoder's layers before the encoder and its head.
std::vector<std::string> LargestParts(const RaisedModel& model) {
  std::set<std::string> modules = {""};
  for (const std::string& module : model.modules) {
    for (size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
      modules.insert(module.substr(0, dot));
    }
  }
  std::vector<std::string> best, best_list;
  std::ptrdiff_t most = 0, most_in_list = 0;
  for (const std::string& outer : modules) {  // outer modules come first
    std::vector<std::string> parts = PartsOf(model, outer);
    const std::set<std::string> different(parts.begin(), parts.end());
    const auto in_none = std::count(parts.begin(), parts.end(), "");
    const auto in_some = static_cast<std::ptrdiff_t>(parts.size()) - in_none;
    if (different.size() - (in_none > 0 ? 1 : 0) < 2) continue;
    const bool is_list = std::all_of(different.begin(), different.end(), [](const std::string& of) {
      return of.empty() || IsListIndex(of.substr(of.rfind('.') + 1));
    });
    if (is_list && in_some > most_in_list) {
      most_in_list = in_some;
      best_list = parts;
    }
    if (in_some <= most) continue;
    most = in_some;
    best = std::move(parts);
  }
  return 2 * most_in_list >= most ? best_list : best;
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
  const std::vector<std::string> in = LargestParts(*model);
  std::string last;
  const auto begins = [&](int node, const std::string& layer) {
    if (CrossingsAt(model->graph, node).empty()) return;
    model->starts.push_back(node);
    model->layers.push_back(layer);
  };
  int end = 0;  // behind the last node of a layer
  for (size_t n = 0; n < in.size(); ++n) {
    if (in[n].empty()) continue;
    if (in[n] != last) begins(static_cast<int>(n), in[n]);
    last = in[n];
    end = static_cast<int>(n) + 1;
  }
  if (!model->starts.empty()) begins(end, "");
  if (model->starts.size() < 2) {
    return absl::UnimplementedError(
        "the model can nowhere be cut into layers: no activation goes between two of its modules");
  }
  model->layers.pop_back();
  return CheckSharing(*model);
}

}  // namespace stringline
