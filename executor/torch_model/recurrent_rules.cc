// Recurrent layers are unrolled: one group of nodes for each position. The products with the inputs
// are one for all positions.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;
using Made = TensorNodes::Made;

// The hidden state of one layer in one direction, (B,H), and of an LSTM its cell.
struct RecurrentState {
  ValueId hidden = kNone, cell = kNone;
};

struct RecurrentWeights {
  ValueId of_input, of_hidden;                      // (gates H, C) and (gates H, H)
  ValueId input_bias = kNone, hidden_bias = kNone;  // (gates H)
};

class Recurrence {
 public:
  Recurrence(TensorNodes& tensors, const TorchNode& node) : node_(node), tensors_(tensors) {}

  // (T,B,C) -> (T,B,H); the state becomes that of the last position.
  Made Run(ValueId x, const RecurrentWeights& weights, bool backwards, RecurrentState* state) {
    const int64_t positions = tensors_.SizesOf(x)[0];
    SL_ASSIGN_OR_RETURN(const ValueId given, Linear(x, weights.of_input, weights.input_bias));
    std::vector<ValueId> outputs(static_cast<size_t>(positions));
    for (int64_t i = 0; i < positions; ++i) {
      const int64_t t = backwards ? positions - 1 - i : i;
      SL_ASSIGN_OR_RETURN(ValueId now, tensors_.Take(given, 0, t, 1, 1));
      SL_ASSIGN_OR_RETURN(now, WithoutFirst(now));
      SL_ASSIGN_OR_RETURN(const ValueId before,
                          Linear(state->hidden, weights.of_hidden, weights.hidden_bias));
      SL_RETURN_IF_ERROR(Step(now, before, state));
      SL_ASSIGN_OR_RETURN(outputs[static_cast<size_t>(t)], WithFirst(state->hidden));
    }
    return tensors_.Join(outputs, 0);
  }

  Made WithoutFirst(ValueId x) {
    const Sizes& sizes = tensors_.SizesOf(x);
    return tensors_.Reshape(x, {sizes.begin() + 1, sizes.end()});
  }
  Made WithFirst(ValueId x) {
    Sizes sizes = tensors_.SizesOf(x);
    sizes.insert(sizes.begin(), 1);
    return tensors_.Reshape(x, sizes);
  }

 private:
  Made Linear(ValueId x, ValueId weight, ValueId bias) {
    if (bias == kNone) return tensors_.Append(Op::kLinear, {x, weight});
    return tensors_.Append(Op::kLinearBias, {x, weight, bias});
  }

  Made Gate(ValueId gates, int64_t index, int64_t size) {
    return tensors_.Take(gates, 1, index * size, 1, size);
  }

  // `now` of the position's input and `before` of the state, (B, gates H).
  absl::Status Step(ValueId now, ValueId before, RecurrentState* state) {
    if (node_.op == "lstm") return StepOfLstm(now, before, state);
    if (node_.op == "gru") return StepOfGru(now, before, state);
    SL_ASSIGN_OR_RETURN(const ValueId sum, tensors_.Add(now, before));
    SL_ASSIGN_OR_RETURN(
        state->hidden,
        tensors_.Map(node_.op == "rnn_relu" ? MapFunction::relu : MapFunction::tanh, sum));
    return absl::OkStatus();
  }

  // c = f c + i g, h = o tanh(c); gates i, f, g, o.
  absl::Status StepOfLstm(ValueId now, ValueId before, RecurrentState* state) {
    const int64_t size = tensors_.SizesOf(state->hidden)[1];
    SL_ASSIGN_OR_RETURN(const ValueId sum, tensors_.Add(now, before));
    ValueId gates[4];
    for (int64_t g = 0; g < 4; ++g) {
      SL_ASSIGN_OR_RETURN(const ValueId gate, Gate(sum, g, size));
      SL_ASSIGN_OR_RETURN(gates[g],
                          tensors_.Map(g == 2 ? MapFunction::tanh : MapFunction::sigmoid, gate));
    }
    SL_ASSIGN_OR_RETURN(const ValueId kept, tensors_.Multiply(gates[1], state->cell));
    SL_ASSIGN_OR_RETURN(const ValueId added, tensors_.Multiply(gates[0], gates[2]));
    SL_ASSIGN_OR_RETURN(state->cell, tensors_.Add(kept, added));
    SL_ASSIGN_OR_RETURN(const ValueId shown, tensors_.Map(MapFunction::tanh, state->cell));
    SL_ASSIGN_OR_RETURN(state->hidden, tensors_.Multiply(gates[3], shown));
    return absl::OkStatus();
  }

  // n = tanh(n of the input + r (n of the state)), h = n + z (h - n); gates r, z, n.
  absl::Status StepOfGru(ValueId now, ValueId before, RecurrentState* state) {
    const int64_t size = tensors_.SizesOf(state->hidden)[1];
    ValueId gates[2];
    for (int64_t g = 0; g < 2; ++g) {
      SL_ASSIGN_OR_RETURN(const ValueId left, Gate(now, g, size));
      SL_ASSIGN_OR_RETURN(const ValueId right, Gate(before, g, size));
      SL_ASSIGN_OR_RETURN(const ValueId sum, tensors_.Add(left, right));
      SL_ASSIGN_OR_RETURN(gates[g], tensors_.Map(MapFunction::sigmoid, sum));
    }
    SL_ASSIGN_OR_RETURN(const ValueId of_input, Gate(now, 2, size));
    SL_ASSIGN_OR_RETURN(ValueId fresh, Gate(before, 2, size));
    SL_ASSIGN_OR_RETURN(fresh, tensors_.Multiply(gates[0], fresh));
    SL_ASSIGN_OR_RETURN(fresh, tensors_.Add(of_input, fresh));
    SL_ASSIGN_OR_RETURN(fresh, tensors_.Map(MapFunction::tanh, fresh));
    SL_ASSIGN_OR_RETURN(const ValueId less, tensors_.Scale(fresh, -1));
    SL_ASSIGN_OR_RETURN(ValueId change, tensors_.Add(state->hidden, less));
    SL_ASSIGN_OR_RETURN(change, tensors_.Multiply(gates[1], change));
    SL_ASSIGN_OR_RETURN(state->hidden, tensors_.Add(fresh, change));
    return absl::OkStatus();
  }

  const TorchNode& node_;
  TensorNodes& tensors_;
};

absl::Status CheckRecurrent(TorchOperands& in, const TorchNode& node, size_t parameters) {
  const TorchArgument* const params = node.Find("params");
  if (params == nullptr || params->tensors.size() != parameters) {
    return in.graph().Unknown(node, "with a projection of its state");
  }
  if (in.graph().Sizes(node.Tensor("input")).size() != 3) {
    return in.graph().Unknown(node, "of other than three dimensions");
  }
  return absl::OkStatus();
}

// The initial states of all layers and directions, (layers,B,H).
absl::StatusOr<std::vector<std::string>> InitialOf(TorchOperands& in, const TorchNode& node) {
  const TorchArgument* const given = node.Find("hx");
  const size_t wanted = node.op == "lstm" ? 2 : 1;
  if (given == nullptr || given->tensors.size() != wanted) {
    return in.graph().Unknown(node, "of a packed sequence");
  }
  return given->tensors;
}

Made Recurrent(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  const auto layers = static_cast<size_t>(node.Number("num_layers", 1));
  const size_t directions = node.Number("bidirectional", 0) != 0 ? 2 : 1;
  const bool biased = node.Number("has_biases", 1) != 0,
             batch_first = node.Number("batch_first", 0) != 0;
  const size_t each = biased ? 4 : 2;
  const double dropout = node.Number("train", 0) != 0 ? node.Number("dropout", 0) : 0;
  SL_RETURN_IF_ERROR(CheckRecurrent(in, node, layers * directions * each));
  const std::vector<std::string>& params = node.Find("params")->tensors;
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> initial, InitialOf(in, node));
  Recurrence recurrence(tensors, node);
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  if (batch_first) {
    SL_ASSIGN_OR_RETURN(x, tensors.Swap(x, 0, 1));
  }
  std::vector<ValueId> hidden, cells;
  for (size_t l = 0; l < layers; ++l) {
    std::vector<ValueId> outputs;
    for (size_t d = 0; d < directions; ++d) {
      const size_t place = l * directions + d;
      RecurrentState state;
      for (size_t s = 0; s < initial.size(); ++s) {
        SL_ASSIGN_OR_RETURN(ValueId first, in.Value(initial[s]));
        SL_ASSIGN_OR_RETURN(first, tensors.Take(first, 0, static_cast<int64_t>(place), 1, 1));
        SL_ASSIGN_OR_RETURN((s == 0 ? state.hidden : state.cell), recurrence.WithoutFirst(first));
      }
      const size_t at = place * each;
      RecurrentWeights weights{};
      SL_ASSIGN_OR_RETURN(weights.of_input, in.Value(params[at]));
      SL_ASSIGN_OR_RETURN(weights.of_hidden, in.Value(params[at + 1]));
      weights.input_bias = weights.hidden_bias = kNone;
      if (biased) {
        SL_ASSIGN_OR_RETURN(weights.input_bias, in.Value(params[at + 2]));
        SL_ASSIGN_OR_RETURN(weights.hidden_bias, in.Value(params[at + 3]));
      }
      SL_ASSIGN_OR_RETURN(outputs.emplace_back(), recurrence.Run(x, weights, d == 1, &state));
      SL_ASSIGN_OR_RETURN(hidden.emplace_back(), recurrence.WithFirst(state.hidden));
      if (state.cell == kNone) continue;
      SL_ASSIGN_OR_RETURN(cells.emplace_back(), recurrence.WithFirst(state.cell));
    }
    SL_ASSIGN_OR_RETURN(x, tensors.Join(outputs, 2));
    if (l + 1 < layers) {
      SL_ASSIGN_OR_RETURN(x, tensors.Dropout(x, dropout));
    }
  }
  size_t next = 1;
  for (const std::vector<ValueId>* const last : {&hidden, &cells}) {
    if (last->empty() || next >= node.outputs.size()) continue;
    SL_ASSIGN_OR_RETURN(const ValueId joined, tensors.Join(*last, 0));
    in.Set(node.outputs[next++], joined);
  }
  return batch_first ? tensors.Swap(x, 0, 1) : Made(x);
}

}  // namespace

const OpRules& RecurrentRules() {
  static const OpRules& rules = *new OpRules{
      {"lstm", Recurrent}, {"gru", Recurrent}, {"rnn_tanh", Recurrent}, {"rnn_relu", Recurrent}};
  return rules;
}

}  // namespace stringline
