// The graph of a model while it is raised from a torch program: nodes appended one by one, each
// with the module that it came from, and the loss behind the logits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/torch_model/constants.h"
#include "executor/torch_model/raised_params.h"
#include "executor/torch_model/torch_graph.h"
#include "stages/builder.h"
#include "stages/models/raised.h"

namespace stringline {

class RaisedNodes {
 public:
  // Both outlive the object.
  RaisedNodes(const TorchProgram& program, const Pt2Archive& archive);

  const TorchGraph& graph() const { return graph_; }
  const TorchConstants& constants() const { return constants_; }
  RaisedParams& params() { return params_; }
  const Type& TypeOf(ValueId value) const { return builder_.TypeOf(value); }

  // Finds the tokens, the input that indexes an embedding (labels and the like are other inputs),
  // and the logits, which are returned; refuses other effects. `any`: values may be of any sizes,
  // truths among them (CheckEffects), and the input may be of numbers instead of tokens.
  // InvalidArgument without an input or logits.
  absl::StatusOr<std::string> Begin(bool any);
  // The input: its name in the program, our value with its sizes, and the type of the sequences
  // that a run gives, I32 (B, tokens or numbers).
  const std::string& input() const { return input_; }
  ValueId input_value() const { return input_value_; }
  bool is_numbers() const { return !sample_.empty(); }
  const Type& sequences() const { return sequences_; }

  // Appends a node of ours in place of a node of the program. Unimplemented, with the program's
  // node, where the op does not take these operands.
  absl::StatusOr<std::vector<ValueId>> AppendAll(const TorchNode& from, Op op,
                                                 std::vector<ValueId> inputs,
                                                 std::vector<double> attributes,
                                                 const std::string& name = "");
  absl::StatusOr<ValueId> Append(const TorchNode& from, Op op, std::vector<ValueId> inputs,
                                 std::vector<double> attributes = {});

  // The same for the dropout of a value with probability `p`: the next one's site is one higher.
  absl::StatusOr<ValueId> AppendDropout(const TorchNode& from, ValueId x, double p);

  // Puts the cross-entropy of the logits, (B,T,V), and the targets, (B,T), behind the nodes, and
  // cuts the
  // model into layers.
  absl::StatusOr<RaisedModel> Finish(ValueId logits) &&;

 private:
  bool FindTokens();
  absl::Status FindNumbers();

  const Pt2Archive& archive_;
  TorchConstants constants_;
  const TorchGraph graph_;
  Builder builder_;
  RaisedParams params_;
  std::string input_;
  ValueId input_value_ = kNone;
  Type sequences_;
  std::vector<int64_t> sample_;       // RaisedModel::sample
  ValueId mask_key_ = kNone;          // made by the first dropout
  int dropouts_ = 0;                  // their number so far
  std::vector<std::string> modules_;  // by node of the builder's graph
};

}  // namespace stringline
