// A list's modules are called by numbers. Of several lists, one within the other, the one whose
// modules hold most nodes is the outer one.
#include "executor/torch_model/raised_layers.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

bool IsListIndex(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// By node: the module of the list it is in, "" where it is in none.
std::vector<std::string> InModulesOf(const RaisedModel& model, const std::string& list) {
  std::vector<std::string> in;
  for (const std::string& module : model.modules) {
    std::string& found = in.emplace_back();
    const std::string begin = list.empty() ? "" : list + ".";
    if (module.compare(0, begin.size(), begin) != 0) continue;
    const std::string number =
        module.substr(begin.size(), module.find('.', begin.size()) - begin.size());
    if (IsListIndex(number)) found = begin + number;
  }
  return in;
}

// The list that holds most nodes, of several the outer one; "-" for none.
std::string LargestList(const RaisedModel& model) {
  std::map<std::string, int> nodes;
  for (const std::string& module : model.modules) {
    const std::vector<std::string> parts = absl::StrSplit(module, '.');
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!IsListIndex(parts[i])) continue;
      ++nodes[absl::StrJoin(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), ".")];
    }
  }
  std::string best = "-";
  int most = 0;
  for (const auto& [list, count] : nodes) {  // an outer one comes first
    if (count > most) best = list;
    most = std::max(most, count);
  }
  return best;
}

// A parameter that is read in two parts would be two.
absl::Status CheckSharing(const RaisedModel& model) {
  std::map<ValueId, std::ptrdiff_t> part_of;
  for (const Port& port : model.graph.inputs) {
    if (port.role == Role::kParam) part_of[port.value] = -1;
  }
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const std::ptrdiff_t part =
        std::upper_bound(model.starts.begin(), model.starts.end(), static_cast<int>(n)) -
        model.starts.begin();
    for (const ValueId value : model.graph.nodes[n].inputs) {
      const auto found = part_of.find(value);
      if (found == part_of.end() || found->second == part) continue;
      if (found->second >= 0) {
        return absl::UnimplementedError(absl::StrCat("parameter '", model.graph.values[value].name,
                                                     "' is used in several layers"));
      }
      found->second = part;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FindLayers(RaisedModel* model) {
  const std::string list = LargestList(*model);
  const std::vector<std::string> in = list == "-" ? model->modules : InModulesOf(*model, list);
  std::string last;
  int64_t width = 0;
  const auto add = [&](int node, const std::string& layer) {
    const ValueId crossing = CrossingAt(model->graph, node);
    if (crossing == kNone) return;
    const int64_t channels = model->graph.values[crossing].type.shape.back();
    if (width == 0) width = channels;
    if (channels != width) return;
    model->starts.push_back(node);
    model->layers.push_back(layer);
  };
  int end = 0;  // behind the last node of a layer
  for (size_t n = 0; n < in.size(); ++n) {
    if (in[n].empty()) continue;
    if (in[n] != last) add(static_cast<int>(n), in[n]);
    last = in[n];
    end = static_cast<int>(n) + 1;
  }
  if (list != "-" && !model->starts.empty()) {
    const size_t before = model->starts.size();
    add(end, "");
    if (model->starts.size() == before) model->starts.push_back(model->starts.back());
  }
  if (model->starts.size() < 2) {
    return absl::UnimplementedError(
        "the model can nowhere be cut: no activation alone goes from one module to the next");
  }
  model->layers.resize(model->starts.size() - 1);
  return CheckSharing(*model);
}

}  // namespace stringline
