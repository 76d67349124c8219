// Demand-driven: the rows of a value are raised by the rule of its producer op, which raises its
// operands first. So only dependencies of the logits are visited, and nodes come out in topological
// order.
#include "executor/torch_model/raise.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/tensor_header.h"
#include "executor/torch_model/raise_ops.h"
#include "executor/torch_model/raised_nodes.h"
#include "executor/torch_model/torch_attention.h"
#include "executor/torch_model/torch_writes.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// The deepest recursion of rules: each takes some of the stack.
constexpr int kDeepest = 2000;

// Columns of a product.
struct Columns {
  TorchLinear linear;
  int64_t first = 0;
  int64_t count = 0;
};

class Raiser {
 public:
  Raiser(const TorchProgram& program, const Pt2Archive& archive)
      : nodes_(program, archive), attention_(nodes_.graph()) {}

  absl::StatusOr<RaisedModel> Raise() {
    SL_ASSIGN_OR_RETURN(logits_, nodes_.Begin(/*any=*/false));
    values_[nodes_.input()] = nodes_.input_value();
    SL_ASSIGN_OR_RETURN(const ValueId logits, Rows(logits_));
    if (nodes_.TypeOf(logits).shape.size() != 3)
      return graph_.UnknownValue(logits_, "these are no logits");
    return std::move(nodes_).Finish(logits);
  }

 private:
  using Rule = absl::StatusOr<ValueId> (Raiser::*)(const TorchNode& node);

  const Type& Tokens() const { return nodes_.sequences(); }

  absl::StatusOr<ValueId> AppendOne(const TorchNode& from, Op op, std::vector<ValueId> inputs,
                                    std::vector<double> attributes = {}) {
    return nodes_.Append(from, op, std::move(inputs), std::move(attributes));
  }

  absl::StatusOr<ValueId> Rows(const std::string& given) {
    const std::string value = graph_.StripRows(given);
    if (const auto known = values_.find(value); known != values_.end()) return known->second;
    const TorchNode* const node = graph_.Producer(value);
    if (node == nullptr || nodes_.constants().Is(value)) {
      return graph_.UnknownValue(value, "as an activation");
    }
    static const std::map<std::string, Rule>& rules =
        *new std::map<std::string, Rule>{{"linear", &Raiser::Linear},
                                         {"addmm", &Raiser::Linear},
                                         {"mm", &Raiser::Linear},
                                         {"matmul", &Raiser::Linear},
                                         {"embedding", &Raiser::Embedding},
                                         {"layer_norm", &Raiser::LayerNorm},
                                         {"rms_norm", &Raiser::Product},
                                         {"add", &Raiser::Sum},
                                         {"mul", &Raiser::Product},
                                         {"div", &Raiser::Quotient},
                                         {"gelu", &Raiser::Product},
                                         {"reshape", &Raiser::Attention},
                                         {"view", &Raiser::Attention},
                                         {"flatten", &Raiser::Attention},
                                         {"_unsafe_view", &Raiser::Attention}};
    const auto rule = rules.find(node->op);
    if (rule == rules.end()) return graph_.Unknown(*node);
    if (++depth_ > kDeepest) return graph_.Unknown(*node, "a model as deep as this");
    absl::StatusOr<ValueId> raised = (this->*rule->second)(*node);
    --depth_;
    if (!raised.ok()) return raised;
    if (!HasRowsOf(*raised, value))
      return graph_.Unknown(*node, "as rows of other sizes than the program's");
    values_[value] = *raised;
    return raised;
  }

  bool HasRowsOf(ValueId raised, const std::string& value) const {
    const auto count = [](const std::vector<int64_t>& sizes) {
      return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    };
    const std::vector<int64_t>&ours = nodes_.TypeOf(raised).shape, &theirs = graph_.Sizes(value);
    return !theirs.empty() && ours.back() == theirs.back() && count(ours) == count(theirs);
  }

  static bool HasPadding(const TorchNode& embedding) {
    return embedding.Number("padding_idx", -1) != -1;
  }

  absl::StatusOr<ValueId> Embedding(const TorchNode& node) {
    const std::string table = graph_.Strip(node.Tensor("weight"));
    if (HasPadding(node)) return graph_.Unknown(node, "a row of its table has no gradient");
    if (graph_.Strip(node.Tensor("indices")) != nodes_.input() || !graph_.IsParam(table)) {
      return graph_.Unknown(node, "neither of the tokens nor of positions that are added");
    }
    SL_ASSIGN_OR_RETURN(const ValueId weight,
                        nodes_.params().Take({table}, ParamUse::kTable, node.module));
    return AppendOne(node, Op::kEmbedding, {nodes_.input_value(), weight});
  }

  absl::StatusOr<ValueId> LayerNorm(const TorchNode& node) {
    const std::string gamma = graph_.Strip(node.Tensor("weight")),
                      beta = graph_.Strip(node.Tensor("bias"));
    if (!graph_.IsParam(gamma) || !graph_.IsParam(beta))
      return graph_.Unknown(node, "without weight or bias");
    if (node.Ints("normalized_shape").size() != 1)
      return graph_.Unknown(node, "over more than the last dimension");
    SL_ASSIGN_OR_RETURN(const ValueId x, Rows(node.Tensor("input")));
    SL_ASSIGN_OR_RETURN(const ValueId scale,
                        nodes_.params().Take({gamma}, ParamUse::kNorm, node.module));
    SL_ASSIGN_OR_RETURN(const ValueId shift,
                        nodes_.params().Take({beta}, ParamUse::kBias, node.module));
    return AppendOne(node, Op::kLayerNorm, {x, scale, shift}, {node.Number("eps", 1e-5)});
  }

  absl::StatusOr<ValueId> Linear(const TorchNode& node) {
    const auto linear = graph_.MatchLinear(node.outputs.front());
    if (!linear) return graph_.Unknown(node, "no product with a parameter");
    return LinearOf({*linear}, "");
  }

  // The products of a value with several matrices, as a single product, plus `residual`.
  absl::StatusOr<ValueId> LinearOf(const std::vector<TorchLinear>& linears,
                                   const std::string& residual, const TorchNode* from = nullptr) {
    const TorchLinear& first = linears.front();
    std::vector<std::string> weights, biases;
    for (const TorchLinear& linear : linears) {
      if (graph_.StripRows(linear.input) != graph_.StripRows(first.input) ||
          linear.transposed != first.transposed || linear.bias.empty() != first.bias.empty()) {
        return graph_.Unknown(*linear.node,
                              "beside another product, of something else or with another bias");
      }
      weights.push_back(linear.weight);
      if (!linear.bias.empty()) biases.push_back(linear.bias);
    }
    std::vector<ValueId> inputs(1), behind;
    if (!residual.empty()) {
      SL_ASSIGN_OR_RETURN(behind.emplace_back(), Rows(residual));
    }
    SL_ASSIGN_OR_RETURN(inputs[0], Rows(first.input));
    const bool head = graph_.StripRows(logits_) == first.node->outputs.front();
    SL_ASSIGN_OR_RETURN(inputs.emplace_back(),
                        nodes_.params().Take(weights, head ? ParamUse::kHead : ParamUse::kProduct,
                                             first.node->module, first.transposed));
    if (!biases.empty()) {
      SL_ASSIGN_OR_RETURN(inputs.emplace_back(),
                          nodes_.params().Take(biases, ParamUse::kBias, first.node->module));
    }
    const bool biased = !biases.empty(), adds = !behind.empty();
    inputs.insert(inputs.end(), behind.begin(), behind.end());
    const Op op = adds ? (biased ? Op::kLinearResidual : Op::kLinearAdd)
                       : (biased ? Op::kLinearBias : Op::kLinear);
    return AppendOne(from == nullptr ? *first.node : *from, op, std::move(inputs));
  }

  // x + positions, x w' + z, or the sum of two activations.
  absl::StatusOr<ValueId> Sum(const TorchNode& node) {
    const auto pair = graph_.MatchPair(node.outputs.front(), "add");
    if (!pair) return graph_.Unknown(node, "with a number, or with a factor");
    for (const auto& [x, positions] : {std::pair(pair->a, pair->b), std::pair(pair->b, pair->a)}) {
      const TorchNode* const table = graph_.Match(positions, "embedding");
      if (table != nullptr && nodes_.constants().Is(table->Tensor("indices")))
        return Positions(node, x, *table);
    }
    if (graph_.Sizes(pair->a) != graph_.Sizes(pair->b))
      return graph_.Unknown(node, "of values of several shapes");
    // The later of two products ends the branch.
    std::vector<std::pair<std::string, std::string>> orders = {{pair->a, pair->b},
                                                               {pair->b, pair->a}};
    const auto linear_of = [&](const std::string& value) -> const TorchNode* {
      const auto linear = graph_.MatchLinear(value);
      return linear && graph_.IsReadOnce(value) ? linear->node : nullptr;
    };
    const TorchNode *const first = linear_of(pair->a), *const second = linear_of(pair->b);
    if (second != nullptr && (first == nullptr || second > first)) std::swap(orders[0], orders[1]);
    if (first != nullptr || second != nullptr) {
      return LinearOf({*graph_.MatchLinear(orders[0].first)}, orders[0].second, &node);
    }
    SL_ASSIGN_OR_RETURN(const ValueId a, Rows(pair->a));
    SL_ASSIGN_OR_RETURN(const ValueId b, Rows(pair->b));
    return AppendOne(node, Op::kAdd, {a, b});
  }

  absl::StatusOr<ValueId> Positions(const TorchNode& node, const std::string& x,
                                    const TorchNode& table) {
    const std::string weight = graph_.Strip(table.Tensor("weight"));
    if (!graph_.IsParam(weight) || HasPadding(table)) {
      return graph_.Unknown(table, "of no parameter, or with a row without gradient");
    }
    if (graph_.Sizes(x) != graph_.Sizes(node.outputs.front()) || graph_.Sizes(x).size() != 3 ||
        graph_.Sizes(x)[1] != Tokens().shape[1]) {
      return graph_.Unknown(node, "positions of other rows than the tokens'");
    }
    SL_ASSIGN_OR_RETURN(const auto indices, nodes_.constants().Value(table.Tensor("indices")));
    const int64_t positions = Tokens().shape[1];
    for (size_t i = 0; i < indices->values.size(); ++i) {
      if (indices->values[i] == static_cast<double>(static_cast<int64_t>(i) % positions)) continue;
      return graph_.Unknown(table, "of positions that are not 0, 1, 2, …");
    }
    if (indices->sizes.empty() || indices->sizes.back() != positions ||
        graph_.Sizes(weight).front() < positions) {
      return graph_.Unknown(table, "of other positions than the tokens'");
    }
    SL_ASSIGN_OR_RETURN(const ValueId rows, Rows(x));
    SL_ASSIGN_OR_RETURN(const ValueId taken, nodes_.params().Take({weight}, ParamUse::kPositions,
                                                                  table.module, false, positions));
    return AppendOne(node, Op::kPositionAdd, {rows, taken}, {0});
  }

  absl::StatusOr<ValueId> Product(const TorchNode& node) {
    const std::string& value = node.outputs.front();
    if (const auto norm = graph_.MatchRmsNorm(value)) {
      SL_ASSIGN_OR_RETURN(const ValueId x, Rows(norm->input));
      SL_ASSIGN_OR_RETURN(const ValueId gamma,
                          nodes_.params().Take({norm->gamma}, ParamUse::kNorm, node.module));
      return AppendOne(node, Op::kRmsNorm, {x, gamma}, {norm->epsilon});
    }
    if (const std::string x = graph_.MatchGelu(value); !x.empty()) {
      SL_ASSIGN_OR_RETURN(const ValueId rows, Rows(x));
      return AppendOne(node, Op::kGelu, {rows});
    }
    if (node.op == "gelu")
      return graph_.Unknown(node, "GELU by the error function; by tanh it is known");
    if (node.op != "mul") return graph_.Unknown(node);
    if (const auto scaled = graph_.MatchNumber(value, "mul"))
      return Scaled(node, scaled->of, scaled->number);
    const auto pair = graph_.MatchPair(value, "mul");
    if (!pair) return graph_.Unknown(node);
    for (const auto& [gate, up] : {std::pair(pair->a, pair->b), std::pair(pair->b, pair->a)}) {
      const std::string of = graph_.MatchSilu(gate);
      if (!of.empty()) return Swiglu(node, of, up);
    }
    if (graph_.Sizes(pair->a) != graph_.Sizes(pair->b))
      return graph_.Unknown(node, "of values of several shapes");
    SL_ASSIGN_OR_RETURN(const ValueId a, Rows(pair->a));
    SL_ASSIGN_OR_RETURN(const ValueId b, Rows(pair->b));
    return AppendOne(node, Op::kMul, {a, b});
  }

  absl::StatusOr<ValueId> Quotient(const TorchNode& node) {
    const auto divided = graph_.MatchNumber(node.outputs.front(), "div");
    if (!divided || divided->number == 0) return graph_.Unknown(node, "not by a number");
    return Scaled(node, divided->of, 1 / divided->number);
  }

  absl::StatusOr<ValueId> Scaled(const TorchNode& node, const std::string& value, double factor) {
    SL_ASSIGN_OR_RETURN(const ValueId rows, Rows(value));
    return AppendOne(node, Op::kScale, {rows}, {factor});
  }

  absl::StatusOr<ValueId> Swiglu(const TorchNode& node, const std::string& gate,
                                 const std::string& up) {
    SL_ASSIGN_OR_RETURN(const ValueId both, Packed({gate, up}, node));
    return AppendOne(node, Op::kSwiglu, {both});
  }

  absl::StatusOr<ValueId> Attention(const TorchNode& node) {
    SL_ASSIGN_OR_RETURN(const auto found, attention_.Match(node.outputs.front()));
    if (!found) return graph_.Unknown(node, "as a change of an activation's shape");
    const TorchHeads &q = found->queries, &k = found->keys, &v = found->values;
    if (Tokens().shape != std::vector<int64_t>{q.batch, q.positions})
      return graph_.Unknown(*found->node, "its sequences are not those of the tokens");
    SL_ASSIGN_OR_RETURN(ValueId x, Packed({q.rows, k.rows, v.rows}, *found->node));
    const auto heads = static_cast<double>(q.heads), kv_heads = static_cast<double>(k.heads);
    if (!q.gamma.empty()) {
      SL_ASSIGN_OR_RETURN(const ValueId of_queries,
                          nodes_.params().Take({q.gamma}, ParamUse::kNorm, found->node->module));
      SL_ASSIGN_OR_RETURN(const ValueId of_keys,
                          nodes_.params().Take({k.gamma}, ParamUse::kNorm, found->node->module));
      SL_ASSIGN_OR_RETURN(x, AppendOne(*found->node, Op::kHeadNorm, {x, of_queries, of_keys},
                                       {heads, kv_heads, q.epsilon}));
    }
    if (q.theta != 0) {
      SL_ASSIGN_OR_RETURN(
          x, AppendOne(*found->node, Op::kRotary, {x}, {heads, kv_heads, q.theta, 1, 0}));
    }
    return AppendOne(*found->node, Op::kAttention, {x}, {heads, kv_heads});
  }

  // Values that are adjacent columns of products of the same value, packed side by side.
  absl::StatusOr<ValueId> Packed(const std::vector<std::string>& values, const TorchNode& reader) {
    std::vector<Columns> parts;
    for (const std::string& value : values) {
      SL_ASSIGN_OR_RETURN(Columns columns, ColumnsOf(value));
      const bool goes_on = !parts.empty() && parts.back().linear.node == columns.linear.node &&
                           parts.back().first + parts.back().count == columns.first;
      if (goes_on) {
        parts.back().count += columns.count;
      } else {
        parts.push_back(std::move(columns));
      }
    }
    std::vector<TorchLinear> linears;
    for (const Columns& columns : parts) {
      if (columns.first != 0 || columns.count != columns.linear.rows) {
        return graph_.Unknown(reader,
                              absl::StrCat("its inputs are not all columns, in their order, of '",
                                           columns.linear.node->name, "'"));
      }
      linears.push_back(columns.linear);
    }
    return LinearOf(linears, "");
  }

  absl::StatusOr<Columns> ColumnsOf(const std::string& given) const {
    std::string value = graph_.StripRows(given);
    Columns columns;
    columns.count = graph_.Sizes(value).back();
    for (;;) {
      if (const auto linear = graph_.MatchLinear(value)) {
        columns.linear = *linear;
        return columns;
      }
      const TorchNode* const node = graph_.Producer(value);
      if (node == nullptr) return graph_.UnknownValue(value, "as columns of a product");
      const std::string from = node->Tensor("self");
      if (from.empty()) return graph_.Unknown(*node, "as columns of a product");
      const auto last = static_cast<double>(graph_.Sizes(from).size()) - 1;
      const double dim = node->Number("dim", 0);
      const bool steps = node->op == "slice" && node->Number("step", 1) != 1;
      const bool splits =
          node->op == "split" || node->op == "split_with_sizes" || node->op == "chunk";
      if ((!splits && node->op != "slice") || steps || (dim != -1 && dim != last)) {
        return graph_.Unknown(*node, "as columns of a product");
      }
      if (splits) {
        for (const std::string& before : node->outputs) {
          if (before == value) break;
          columns.first += graph_.Sizes(before).back();
        }
      } else {
        const double start = node->Number("start", 0);
        columns.first += static_cast<int64_t>(
            start < 0 ? start + static_cast<double>(graph_.Sizes(from).back()) : start);
      }
      value = graph_.StripRows(from);
    }
  }

  RaisedNodes nodes_;
  const TorchGraph& graph_ = nodes_.graph();
  AttentionMatcher attention_;
  std::string logits_;
  std::map<std::string, ValueId> values_;
  int depth_ = 0;  // rules that wait for their operands
};

}  // namespace

absl::StatusOr<RaisedModel> RaiseTorchProgram(const TorchProgram& program,
                                              const Pt2Archive& archive) {
  SL_ASSIGN_OR_RETURN(const TorchProgram functional, WithoutWrites(program));
  absl::StatusOr<RaisedModel> model = Raiser(functional, archive).Raise();
  if (!absl::IsUnimplemented(model.status())) return model;
  return RaiseOps(functional, archive);
}

}  // namespace stringline
