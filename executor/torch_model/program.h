// A program of torch.export, read from its JSON: nodes in order, each a call of an ATen op.
//
// Schema version 8 of PyTorch 2.8 and later. A size that may vary has its size at the export (its
// hint). A graph that a node only wraps (no_grad, autocast) is inlined, and its nodes keep their
// modes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/torch_model/archive.h"

namespace stringline {

struct TorchArgument {
  enum class Kind { kNone, kTensor, kTensors, kInt, kInts, kFloat, kFloats, kBool, kText, kOther };
  Kind kind = Kind::kNone;
  std::vector<std::string> tensors;  // their values' names; "" for an omitted tensor
  std::vector<double> numbers;       // for ints, floats and bool
  std::string text;
  bool symbolic = false;  // an int that is a size which may vary: its number is that at the export
};

struct TorchNode {
  std::string op;      // "add", of "torch.ops.aten.add.Tensor"
  std::string target;  // "aten.add.Tensor"
  std::string name;
  std::vector<std::pair<std::string, TorchArgument>> inputs;  // by the op's names of them
  std::vector<std::string> outputs;
  std::string module;     // "model.layers.0.mlp"; "" for the model itself
  std::string source;     // "modeling_llama.py:176 'down_proj = …'": the model's line, or ""
  bool no_grad = false;   // ran under torch.no_grad
  bool autocast = false;  // ran under torch.autocast

  // nullptr if omitted.
  const TorchArgument* Find(absl::string_view input) const;
  // The value's name of a tensor input, or "".
  std::string Tensor(absl::string_view input) const;
  // A number input, or `otherwise` if it is omitted or None. CheckArguments refuses programs in
  // which it is there and no number.
  double Number(absl::string_view input, double otherwise) const;
  std::vector<int64_t> Ints(absl::string_view input) const;
};

struct TorchValue {
  TorchType type = TorchType::kFloat;
  std::vector<int64_t> sizes;
};

struct TorchProgram {
  std::string model;  // the class of the model: "LlamaForCausalLM"
  std::vector<TorchNode> nodes;
  std::map<std::string, TorchValue> values;      // by name, of all tensors
  std::map<std::string, std::string> params;     // value to name in the archive
  std::set<std::string> frozen;                  // values of params with requires_grad=False
  std::map<std::string, std::string> constants;  // buffers and constants likewise
  std::vector<std::string> inputs;               // tensors from the user
  std::vector<std::string> outputs;              // and gets
};

// InvalidArgument for a text that is no program, and for another schema.
absl::StatusOr<TorchProgram> ReadTorchProgram(absl::string_view json);

}  // namespace stringline
