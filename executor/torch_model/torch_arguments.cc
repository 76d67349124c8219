// The sizes and the type of a result are stated beside it: arguments that only repeat them have no
// effect here.
#include "executor/torch_model/torch_arguments.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace stringline {
namespace {

struct TorchOpsRow {
  const char* ops;
  const char* read;
  const char* without_effect;
  const char* defaults;
};

// In `read`, '#' marks an argument that is read as a number, or None.
constexpr TorchOpsRow kOpRows[] = {
    // Products
    {"linear", "input weight bias", "", ""},
    {"addmm", "self mat1 mat2 #beta #alpha", "", ""},
    {"mm bmm", "self mat2", "", ""},
    {"baddbmm", "self batch1 batch2 #beta #alpha", "", ""},
    {"matmul", "self other", "", ""},
    // Layers
    {"embedding", "weight indices #padding_idx", "", "scale_grad_by_freq=False sparse=False"},
    {"layer_norm", "input normalized_shape weight bias #eps", "cudnn_enable", ""},
    {"rms_norm", "input normalized_shape weight #eps", "", ""},
    {"gelu", "self approximate", "", ""},
    {"silu sigmoid tanh rsqrt neg cos sin exp reciprocal", "self", "", ""},
    {"expm1 log log1p sqrt log_sigmoid erf abs sign floor ceil square relu relu6", "self", "", ""},
    {"selu mish hardsigmoid hardswish softsign", "self", "", ""},
    {"celu", "self #alpha", "", ""},
    {"softshrink hardshrink", "self #lambd", "", ""},
    {"prelu", "self weight", "", ""},
    {"linalg_vector_norm", "self #ord dim #keepdim", "dtype", ""},
    {"einsum", "equation tensors", "path", ""},
    {"gather", "self #dim index", "", "sparse_grad=False"},
    {"scatter", "self #dim index src value", "", "reduce=None"},
    {"scatter_add", "self #dim index src", "", ""},
    {"index_add", "self #dim index source #alpha", "", ""},
    {"index_copy", "self #dim index source", "", ""},
    {"index_fill", "self #dim index value", "", ""},
    {"index_put", "self indices values #accumulate", "", ""},
    {"slice_scatter", "self src #dim #start #step", "end", ""},
    {"select_scatter", "self src #dim #index", "", ""},
    {"topk", "self #k #dim #largest", "sorted", ""},
    {"sort argsort", "self #dim #descending", "stable", ""},
    {"argmax argmin", "self #dim #keepdim", "", ""},
    {"max min", "self other #dim #keepdim", "", ""},
    {"one_hot", "self #num_classes", "", ""},
    {"histc", "self #bins #min #max", "", ""},
    {"transformers.grouped_mm_fallback", "input weight offs", "", ""},
    {"_grouped_mm", "self mat2 offs", "", "bias=None out_dtype=None"},
    {"round", "self", "", "decimals=0"},
    {"leaky_relu", "self #negative_slope", "", ""},
    {"elu", "self #alpha", "", "scale=1 input_scale=1"},
    {"softplus", "self #beta #threshold", "", ""},
    {"clamp clamp_min clamp_max", "self min max", "", ""},
    {"hardtanh", "self #min_val #max_val", "", ""},
    {"group_norm", "input #num_groups weight bias #eps", "cudnn_enabled", ""},
    {"batch_norm", "input weight bias running_mean running_var #training #momentum #eps",
     "cudnn_enabled", ""},
    {"bitwise_not logical_not", "self", "", ""},
    {"dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout",
     "input #p #train", "", ""},
    {"softmax log_softmax", "self #dim", "dtype", ""},
    {"_softmax _log_softmax", "self #dim", "half_to_float", ""},
    {"scaled_dot_product_attention", "query key value attn_mask #dropout_p #is_causal #scale",
     "enable_gqa", ""},
    {"lstm gru rnn_tanh rnn_relu",
     "input hx params #has_biases #num_layers #dropout #train #bidirectional #batch_first", "", ""},
    {"cross_entropy_loss", "self target", "",
     "weight=None reduction=1 ignore_index=-100 label_smoothing=0"},
    // Windows
    {"conv1d conv2d conv3d", "input weight bias stride padding dilation #groups", "", ""},
    {"max_pool1d max_pool2d max_pool3d", "self kernel_size stride padding dilation #ceil_mode", "",
     ""},
    {"avg_pool1d avg_pool2d avg_pool3d",
     "self kernel_size stride padding #ceil_mode #count_include_pad #divisor_override", "", ""},
    {"adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", "self output_size", "", ""},
    // Arithmetic
    {"add sub", "self other #alpha", "", ""},
    {"rsub", "self other", "", "alpha=1"},
    {"mul", "self other", "", ""},
    {"div", "self other rounding_mode", "", ""},
    {"floor_divide remainder", "self other", "", ""},
    {"pow", "self exponent", "", ""},
    {"eq ne lt le gt ge", "self other", "", ""},
    {"__and__ bitwise_and logical_and __or__ bitwise_or logical_or", "self other", "", ""},
    {"mean sum", "self dim #keepdim", "dtype", ""},
    {"var std", "self dim #correction #unbiased #keepdim", "", ""},
    {"maximum minimum", "self other", "", ""},
    {"cumsum", "self #dim", "dtype", ""},
    {"diff", "self #dim prepend", "", "n=1 append=None"},
    {"where", "condition self other", "", ""},
    {"masked_fill", "self mask value", "", ""},
    {"tril triu", "self #diagonal", "", ""},
    // Layouts
    {"reshape", "self", "shape", ""},
    {"view _unsafe_view", "self", "size", ""},
    {"flatten", "self", "start_dim end_dim", ""},
    {"unflatten", "self", "dim sizes", ""},
    {"expand", "self", "size implicit", ""},
    {"slice", "self #dim #start #step", "end", ""},
    {"select", "self #dim #index", "", ""},
    {"squeeze", "self", "dim", ""},
    {"unsqueeze", "self #dim", "", ""},
    {"t numpy_T", "self", "", ""},
    {"transpose", "self #dim0 #dim1", "", ""},
    {"permute", "self dims", "", ""},
    {"cat stack", "tensors #dim", "", ""},
    {"unbind", "self #dim", "", ""},
    {"expand_as view_as reshape_as", "self", "other", ""},
    {"broadcast_to", "self", "size", ""},
    {"roll", "self shifts dims", "", ""},
    {"repeat", "self repeats", "", ""},
    {"index_select", "self #dim index", "", ""},
    {"split", "self #dim", "split_size split_sizes", ""},
    {"split_with_sizes", "self #dim", "split_sizes", ""},
    {"chunk", "self #dim", "chunks", ""},
    {"repeat_interleave", "self repeats #dim", "output_size", ""},
    {"index", "self indices", "", ""},
    {"pad", "self #value pad", "", "mode=constant"},
    {"constant_pad_nd", "self #value pad", "", ""},
    // Copies
    {"to", "self", "device dtype layout other pin_memory non_blocking copy memory_format", ""},
    {"_to_copy", "self", "dtype layout device pin_memory non_blocking memory_format", ""},
    {"type_as", "self", "other", ""},
    {"copy", "src", "non_blocking", ""},
    {"alias detach detach_ lift_fresh_copy", "self", "", ""},
    {"clone contiguous", "self", "memory_format", ""},
    // Values out of nothing
    {"arange", "#start #step", "end dtype layout device pin_memory", ""},
    {"full", "#fill_value", "size dtype layout device pin_memory", ""},
    {"ones zeros empty", "", "size memory_format dtype layout device pin_memory", ""},
    {"full_like", "#fill_value", "self dtype layout device pin_memory memory_format", ""},
    {"ones_like zeros_like empty_like", "", "self dtype layout device pin_memory memory_format",
     ""},
    {"new_full", "#fill_value", "self size dtype layout device pin_memory", ""},
    {"new_ones new_zeros new_empty", "", "self size dtype layout device pin_memory", ""},
    {"scalar_tensor", "#s", "dtype layout device pin_memory", ""},
};

std::vector<std::string> WordsIn(const char* text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

std::map<std::string, TorchOp> OpsInRows() {
  std::map<std::string, TorchOp> ops;
  for (const TorchOpsRow& row : kOpRows) {
    TorchOp op{WordsIn(row.read), {}, WordsIn(row.without_effect), {}};
    for (std::string& word : op.read) {
      if (word[0] != '#') continue;
      word.erase(0, 1);
      op.numbers.push_back(word);
    }
    for (const std::string& word : WordsIn(row.defaults)) {
      op.defaults.insert(std::pair<std::string, std::string>(absl::StrSplit(word, '=')));
    }
    for (const std::string& name : WordsIn(row.ops)) ops[name] = op;
  }
  return ops;
}

// In Python's notation.
std::string InPython(const TorchArgument& argument) {
  using Kind = TorchArgument::Kind;
  switch (argument.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kTensor:
      return absl::StrCat("the tensor '", argument.tensors.front(), "'");
    case Kind::kTensors:
      return absl::StrCat(argument.tensors.size(), " tensors");
    case Kind::kBool:
      return argument.numbers.front() != 0 ? "True" : "False";
    case Kind::kInt:
    case Kind::kFloat:
      return absl::StrCat(argument.numbers.front());
    case Kind::kInts:
    case Kind::kFloats:
      return absl::StrCat("[", absl::StrJoin(argument.numbers, ", "), "]");
    case Kind::kText:
      return argument.text;
    case Kind::kOther:
      return "of another kind, as a number that depends on sizes";
  }
  return "";
}

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name) > 0;
}

// The names of arguments that are operands of arithmetic, not places or sizes.
constexpr const char* kOperands[] = {"self", "other", "exponent", "value",      "alpha", "beta",
                                     "min",  "max",   "scale",    "fill_value", "s"};

// The reason why a rule cannot read the argument, or "". Rules take the default for a number that
// they do not find.
std::string WhyUnreadable(const TorchOp& op, const std::string& name,
                          const TorchArgument& argument) {
  using Kind = TorchArgument::Kind;
  const bool is_number = argument.kind == Kind::kNone || argument.numbers.size() == 1;
  const bool wants_number = Holds(op.numbers, name);
  if (argument.kind == Kind::kOther || (wants_number && !is_number)) {
    return absl::StrCat("its '", name, "' is ", InPython(argument),
                        wants_number ? ", and only numbers are known" : "");
  }
  const bool is_operand = std::count(std::begin(kOperands), std::end(kOperands), name) > 0;
  if (!argument.symbolic || !is_operand) return "";
  return absl::StrCat("its '", name, "' is a size that may vary, ", InPython(argument),
                      " at the export: export the model with fixed sizes");
}

}  // namespace

const std::map<std::string, TorchOp>& TorchOps() {
  static const auto& ops = *new std::map<std::string, TorchOp>(OpsInRows());
  return ops;
}

absl::Status CheckArguments(const TorchGraph& graph, const TorchNode& node) {
  const auto op = TorchOps().find(node.op);
  if (op == TorchOps().end()) return graph.Unknown(node);
  for (const auto& [name, argument] : node.inputs) {
    if (Holds(op->second.without_effect, name)) continue;
    if (Holds(op->second.read, name)) {
      const std::string why = WhyUnreadable(op->second, name, argument);
      if (!why.empty()) return graph.Unknown(node, why);
      continue;
    }
    const auto known = op->second.defaults.find(name);
    if (known == op->second.defaults.end()) {
      return graph.Unknown(node, absl::StrCat("its argument '", name, "' is not read"));
    }
    const std::string is = InPython(argument);
    if (is == known->second) continue;
    return graph.Unknown(
        node, absl::StrCat("its '", name, "' is ", is, ", and only ", known->second, " is known"));
  }
  return absl::OkStatus();
}

}  // namespace stringline
