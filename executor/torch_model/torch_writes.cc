// A value that is written has versions. A view is derived from its base by a chain of nodes: a
// write into it is put back into the base, link by link, and a view that is older than its base is
// derived anew where it is read (as in torch's functionalization).
#include "executor/torch_model/torch_writes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/tensor_header.h"
#include "executor/torch_model/torch_arguments.h"
#include "executor/torch_model/torch_graph.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Kind = TorchArgument::Kind;

// Views whose inverse is a reshape, and the others.
constexpr const char* kReshapes[] = {"view",      "view_as", "_unsafe_view", "unflatten", "squeeze",
                                     "unsqueeze", "alias",   "to",           "type_as"};
constexpr const char* kOtherViews[] = {
    "transpose", "t",         "numpy_T",      "permute",          "slice",
    "select",    "unbind",    "split",        "split_with_sizes", "chunk",
    "expand",    "expand_as", "broadcast_to", "detach",           "detach_"};
// Ops that copy only where the memory's layout asks for it.
constexpr const char* kPerhapsViews[] = {"reshape", "reshape_as", "flatten", "contiguous",
                                         "einsum"};
constexpr const char* kOfSizes[] = {"squeeze_",  "unsqueeze_", "transpose_", "t_",   "swapaxes_",
                                    "swapdims_", "resize_",    "resize_as_", "set_", "as_strided_"};

template <size_t count>
bool IsAmong(const std::string& op, const char* const (&ops)[count]) {
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

// "add_" and "__iadd__" write into their first operand; "__and__" does not.
bool WritesInPlace(const std::string& op) {
  if (absl::StartsWith(op, "__")) return absl::StartsWith(op, "__i");
  return absl::EndsWith(op, "_") && op != "detach_";
}

// The op that gives what the other one writes: "add" of "add_" and of "__iadd__".
std::string FunctionalOp(const std::string& op) {
  static const auto& others = *new std::map<std::string, std::string>{
      {"__iadd__", "add"},   {"__isub__", "sub"},     {"__imul__", "mul"},
      {"__idiv__", "div"},   {"__itruediv__", "div"}, {"__iand__", "__and__"},
      {"__ior__", "__or__"}, {"fill_", "full_like"},  {"zero_", "zeros_like"}};
  const auto found = others.find(op);
  return found != others.end() ? found->second : op.substr(0, op.size() - 1);
}

TorchArgument NumbersArgument(Kind kind, std::vector<double> numbers) {
  return {kind, {}, std::move(numbers), ""};
}

TorchArgument TensorArgument(std::string value) {
  return {Kind::kTensor, {std::move(value)}, {}, ""};
}

class Versions {
 public:
  explicit Versions(const TorchProgram& program) : given_(program), made_(program) {
    made_.nodes.clear();
    for (const auto* names : {&program.params, &program.constants}) {
      for (const auto& [value, name] : *names) kept_.insert(value);
    }
    kept_.insert(program.inputs.begin(), program.inputs.end());
  }

  absl::StatusOr<TorchProgram> Run() && {
    for (const TorchNode& node : given_.nodes) {
      if (CountsBatches(node)) continue;
      SL_RETURN_IF_ERROR(WritesInPlace(node.op) ? Write(node) : Read(node));
    }
    TorchNode end;
    end.target = "the program's result";
    for (std::string& output : made_.outputs) {
      SL_ASSIGN_OR_RETURN(output, Current(output, end));
    }
    return std::move(made_);
  }

 private:
  struct View {
    std::string of;
    const TorchNode* by;
    size_t output;  // of the node
  };

  // True for a write into a buffer that nothing reads: the number of batches that a norm has met.
  bool CountsBatches(const TorchNode& node) const {
    if (!WritesInPlace(node.op) || node.outputs.size() != 1) return false;
    const std::string buffer = node.Tensor("self");
    const auto is_it = [&](const std::string& value) {
      return value == buffer || value == node.outputs.front();
    };
    const auto reads_it = [&](const TorchNode& reader) {
      return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const auto& input) {
        const std::vector<std::string>& tensors = input.second.tensors;
        return std::any_of(tensors.begin(), tensors.end(), is_it);
      });
    };
    return given_.constants.count(buffer) > 0 &&
           std::none_of(given_.outputs.begin(), given_.outputs.end(), is_it) &&
           std::count_if(given_.nodes.begin(), given_.nodes.end(), reads_it) == 1;  // itself
  }

  // The value whose memory has all of this one's.
  std::string BaseOf(std::string value) const {
    for (auto view = views_.find(value); view != views_.end(); view = views_.find(value)) {
      value = view->second.of;
    }
    return value;
  }

  // The value into which the write wrote that gave this one.
  std::string Written(const std::string& value) const {
    const auto found = same_.find(value);
    return found == same_.end() ? value : found->second;
  }

  std::string Add(TorchNode node, const std::string& like) {
    const std::string name = absl::StrCat(like, "@", ++names_);
    made_.values[name] = given_.values.at(like);
    node.outputs = {name};
    made_.nodes.push_back(std::move(node));
    return name;
  }

  // The newest version of a value, as `reader` reads it.
  absl::StatusOr<std::string> Current(const std::string& given, const TorchNode& reader) {
    const std::string value = Written(given), base = BaseOf(value);
    if (const auto by = unsure_.find(base); by != unsure_.end()) {
      return UnknownNode(
          reader, absl::StrCat("its operand ", Quoted(value), " may share memory with what '",
                               by->second, "' wrote into; write into a clone() instead"));
    }
    const auto view = views_.find(value);
    if (view != views_.end() && derived_[value] != versions_[base]) {
      SL_ASSIGN_OR_RETURN(const std::string from, Current(view->second.of, reader));
      TorchNode again = *view->second.by;
      again.inputs.front().second = TensorArgument(from);
      again.module = reader.module;
      for (std::string& output : again.outputs) {
        if (output.empty()) continue;
        const std::string fresh = absl::StrCat(output, "@", ++names_);
        made_.values[fresh] = given_.values.at(output);
        newest_[output] = fresh;
        derived_[output] = versions_[base];
        output = fresh;
      }
      made_.nodes.push_back(std::move(again));
    }
    const auto newest = newest_.find(value);
    return newest == newest_.end() ? value : newest->second;
  }

  absl::Status MakeCurrent(TorchNode* node) {
    for (auto& [name, argument] : node->inputs) {
      for (std::string& tensor : argument.tensors) {
        if (tensor.empty()) continue;
        SL_ASSIGN_OR_RETURN(tensor, Current(tensor, *node));
      }
    }
    return absl::OkStatus();
  }

  bool IsView(const TorchNode& node, const std::string& from) const {
    if (DropsNothing(node)) return true;
    if (node.op == "to" || node.op == "type_as") {
      const bool alike = given_.values.at(from).type == given_.values.at(node.outputs.front()).type;
      return alike && node.Number("copy", 0) == 0;
    }
    return IsAmong(node.op, kReshapes) || IsAmong(node.op, kOtherViews);
  }

  // A node without a write: notes whose memory its results have.
  absl::Status Read(const TorchNode& node) {
    TorchNode made = node;
    SL_RETURN_IF_ERROR(MakeCurrent(&made));
    made_.nodes.push_back(std::move(made));
    if (node.inputs.empty()) return absl::OkStatus();
    const TorchArgument& first = node.inputs.front().second;
    const std::string from =
        first.kind == Kind::kTensor ? Written(first.tensors.front()) : std::string();
    const bool view = !from.empty() && IsView(node, from);
    const bool perhaps = IsAmong(node.op, kPerhapsViews);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& output = node.outputs[i];
      if (output.empty()) continue;
      if (view) {
        views_[output] = {from, &node, i};
        derived_[output] = versions_[BaseOf(from)];
      } else if (perhaps) {
        MayShare(node, output);
      } else if (TorchOps().count(node.op) == 0) {
        unknown_[output] = &node;
      }
    }
    return absl::OkStatus();
  }

  void MayShare(const TorchNode& node, const std::string& output) {
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& tensor : argument.tensors) {
        if (tensor.empty()) continue;
        const std::string base = BaseOf(Written(tensor));
        may_share_[base].insert(output);
        may_share_[output].insert(base);
      }
    }
  }

  absl::Status Write(const TorchNode& node) {
    if (IsAmong(node.op, kOfSizes)) return UnknownNode(node, "it changes its operand's sizes");
    const bool of_tensor = !node.inputs.empty() &&
                           node.inputs.front().second.kind == Kind::kTensor &&
                           node.outputs.size() == 1;
    if (!of_tensor) return UnknownNode(node, "it writes into several operands");
    const std::string value = Written(node.inputs.front().second.tensors.front());
    const std::string base = BaseOf(value);
    if (const auto by = unknown_.find(base); by != unknown_.end()) {
      return UnknownNode(*by->second, "");  // perhaps a view
    }
    SL_RETURN_IF_ERROR(MakeUnsure(node, base));
    // Views of views, up to the base, and what they are before the write.
    std::vector<std::pair<View, std::string>> chain;
    std::string at = value;
    for (auto view = views_.find(at); view != views_.end(); view = views_.find(at)) {
      SL_ASSIGN_OR_RETURN(std::string whole, Current(view->second.of, node));
      chain.emplace_back(view->second, std::move(whole));
      at = view->second.of;
    }
    SL_RETURN_IF_ERROR(AppendFunctional(node));
    const int version = ++versions_[base];
    std::string written = node.outputs.front();
    newest_[value] = written;
    derived_[value] = version;
    same_[written] = value;
    for (const auto& [view, whole] : chain) {
      SL_ASSIGN_OR_RETURN(written, PutBack(node, view, written, whole));
      newest_[view.of] = written;
      derived_[view.of] = version;
    }
    return absl::OkStatus();
  }

  absl::Status AppendFunctional(const TorchNode& node) {
    TorchNode made = node;
    SL_RETURN_IF_ERROR(MakeCurrent(&made));
    made.op = FunctionalOp(node.op);
    if (made.op == "dropout") made.inputs.front().first = "input";  // `self` of dropout_
    if (node.op == "fill_" && !node.Tensor("value").empty()) made.op = "copy";
    if (made.op == "copy") {  // does not depend on what it overwrites
      const TorchArgument from = made.inputs[1].second;
      made.inputs = {{"src", from}};
    } else if (made.op == "full_like") {
      made.inputs[1].first = "fill_value";
    }
    made_.nodes.push_back(std::move(made));
    return absl::OkStatus();
  }

  // `whole` with the written view in its place.
  absl::StatusOr<std::string> PutBack(const TorchNode& write, const View& view,
                                      const std::string& written, const std::string& whole) {
    const TorchNode& by = *view.by;
    const std::vector<int64_t>& sizes = given_.values.at(view.of).sizes;
    const bool alike = sizes == given_.values.at(by.outputs[view.output]).sizes;
    const bool expands = absl::StartsWith(by.op, "expand") || by.op == "broadcast_to";
    TorchNode node = write;
    node.inputs = {{"self", TensorArgument(written)}};
    if (IsAmong(by.op, kReshapes) || DropsNothing(by) || (expands && alike)) {
      node.op = "reshape";
      node.inputs.emplace_back("shape", NumbersArgument(Kind::kInts, {sizes.begin(), sizes.end()}));
    } else if (by.op == "transpose" || by.op == "t" || by.op == "numpy_T") {
      node.op = by.op;
      node.inputs.insert(node.inputs.end(), by.inputs.begin() + 1, by.inputs.end());
    } else if (by.op == "permute") {
      node.op = by.op;
      const std::vector<int64_t> dims = by.Ints("dims");
      std::vector<double> back(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) {
        const auto size = static_cast<int64_t>(dims.size());
        back[static_cast<size_t>((dims[d] + size) % size)] = static_cast<double>(d);
      }
      node.inputs.emplace_back("dims", NumbersArgument(Kind::kInts, std::move(back)));
    } else if (by.op == "select" || by.op == "unbind") {
      node.op = "select_scatter";
      const double index =
          by.op == "unbind" ? static_cast<double>(view.output) : by.Number("index", 0);
      node.inputs = {{"self", TensorArgument(whole)},
                     {"src", TensorArgument(written)},
                     {"dim", NumbersArgument(Kind::kInt, {by.Number("dim", 0)})},
                     {"index", NumbersArgument(Kind::kInt, {index})}};
    } else if (by.op == "slice" || by.op == "split" || by.op == "split_with_sizes" ||
               by.op == "chunk") {
      node.op = "slice_scatter";
      node.inputs = {{"self", TensorArgument(whole)},
                     {"src", TensorArgument(written)},
                     {"dim", NumbersArgument(Kind::kInt, {by.Number("dim", 0)})},
                     {"start", NumbersArgument(Kind::kInt, {StartOf(view, sizes)})},
                     {"step", NumbersArgument(Kind::kInt, {by.Number("step", 1)})}};
    } else {
      return UnknownNode(write, absl::StrCat("it writes through ", by.op, "(), '", by.name,
                                             "'; write into a clone() instead"));
    }
    return Add(std::move(node), view.of);
  }

  // The first part of a slice, or of a part of a split, which stands behind the parts before it.
  double StartOf(const View& view, const std::vector<int64_t>& sizes) const {
    if (view.by->op == "slice") return view.by->Number("start", 0);
    const double dim = view.by->Number("dim", 0);
    const auto d = static_cast<size_t>(dim < 0 ? dim + static_cast<double>(sizes.size()) : dim);
    int64_t start = 0;
    for (size_t i = 0; i < view.output; ++i) {
      start += given_.values.at(view.by->outputs[i]).sizes[d];
    }
    return static_cast<double>(start);
  }

  // Whatever may share the memory is no longer known.
  absl::Status MakeUnsure(const TorchNode& write, const std::string& base) {
    std::vector<std::string> open = {base};
    std::set<std::string> met = {base};
    while (!open.empty()) {
      const std::string at = BaseOf(open.back());
      open.pop_back();
      if (kept_.count(at) > 0) {
        return UnknownNode(write,
                           absl::StrCat("it writes into ", Quoted(at),
                                        ", a parameter, buffer or input of the program, "
                                        "which keeps what is written; write into a clone()"));
      }
      if (at != base) unsure_[at] = write.name;
      for (const std::string& other : may_share_[at]) {
        if (met.insert(other).second) open.push_back(other);
      }
    }
    return absl::OkStatus();
  }

  const TorchProgram& given_;
  TorchProgram made_;
  std::set<std::string> kept_;                       // parameters, buffers, inputs
  std::map<std::string, View> views_;                // by value; those of no view are bases
  std::map<std::string, std::string> same_;          // by a write's result: the value written
  std::map<std::string, std::string> newest_;        // by value: its name in made_
  std::map<std::string, int> derived_;               // by view: the base's version
  std::map<std::string, const TorchNode*> unknown_;  // by result: an op that is not known
  std::map<std::string, int> versions_;              // by base: the number of writes
  std::map<std::string, std::set<std::string>> may_share_;
  std::map<std::string, std::string> unsure_;  // by base: the write
  int names_ = 0;
};

}  // namespace

absl::StatusOr<TorchProgram> WithoutWrites(const TorchProgram& program) {
  const bool any = std::any_of(program.nodes.begin(), program.nodes.end(),
                               [](const TorchNode& node) { return WritesInPlace(node.op); });
  if (!any) return program;
  return Versions(program).Run();
}

}  // namespace stringline
