// Models as raised from a program, made node by node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/builder.h"
#include "stages/models/raised.h"

namespace stringline {

inline constexpr int64_t kRaisedPositions = 8;  // in the table

// Appends a module's nodes to a graph, and keeps the module's description for a raised model.
class RaisedBuilder {
 public:
  ValueId Param(const std::string& name, std::vector<int64_t> sizes,
                const std::string& tied_to = "") {
    RaisedParam raised;
    raised.param = {name, {DType::kF32, sizes}};
    const bool matrix = sizes.size() == 2;
    raised.param.init = matrix ? Init::kNormal : Init::kOnes;
    raised.param.stddev = matrix ? 0.3f : 0;
    raised.param.decay = matrix;
    raised.param.eager = name == "head";
    raised.param.tied_to = tied_to;
    raised.positions = name == "positions";
    raised.parts = {{{name}, raised.positions ? kRaisedPositions : sizes.front()}};
    model_.params.push_back(raised);
    return builder_.Input(Role::kParam, static_cast<int>(model_.params.size()) - 1,
                          raised.param.type, name);
  }

  ValueId Add(const std::string& module, Op op, std::vector<ValueId> inputs,
              std::vector<double> attributes = {}) {
    model_.modules.push_back(module);
    return builder_.AppendAll(op, std::move(inputs), std::move(attributes), module)[0];
  }

  RaisedShape Finish(std::vector<int> starts) && {
    model_.graph = builder_.Finish();
    model_.layers.assign(starts.size() - 1, "layer");
    model_.starts = std::move(starts);
    return ShapeOf(std::make_shared<const RaisedModel>(std::move(model_)));
  }

  Builder& builder() { return builder_; }
  int nodes() const { return static_cast<int>(model_.modules.size()); }

 private:
  Builder builder_;
  RaisedModel model_;
};

// Layers of two products and a GELU, with three dropouts each, behind an embedding with one.
// Without `drops` the same model, whose dropouts are not there.
inline RaisedShape WithDropout(int layers, int64_t vocabulary, int64_t microbatch,
                               bool drops = true) {
  constexpr int64_t kWidth = 12, kInner = 20, kContext = 8;
  RaisedBuilder made;
  const Type tokens = {DType::kI32, {microbatch, kContext}};
  const ValueId ids = made.builder().Input(Role::kInput, 0, tokens, "tokens");
  const ValueId key = made.builder().Input(Role::kMaskKey, 0, {DType::kI32, {4}}, "mask_key");
  double site = 0;
  const auto drop = [&](const std::string& module, ValueId x, double p) {
    return drops ? made.Add(module, Op::kDropout, {x, key}, {p, site++}) : x;
  };
  ValueId x = made.Add("embed", Op::kEmbedding,
                       {ids, made.Param("embedding.weight", {vocabulary, kWidth})});
  x = drop("embed", x, 0.1);
  std::vector<int> starts;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = absl::StrCat("layers.", layer);
    starts.push_back(made.nodes());
    ValueId y = drop(name, x, 0.2);
    y = made.Add(name, Op::kLinear, {y, made.Param(name + ".up.weight", {kInner, kWidth})});
    y = drop(name, made.Add(name, Op::kGelu, {y}), 0.5);
    y = made.Add(name, Op::kLinear, {y, made.Param(name + ".down.weight", {kWidth, kInner})});
    x = made.Add(name, Op::kAdd, {x, drop(name, y, 0.3)});
  }
  starts.push_back(made.nodes());
  x = made.Add("head", Op::kLinear, {x, made.Param("head.weight", {vocabulary, kWidth})});
  const ValueId target = made.builder().Input(Role::kTarget, 0, tokens, "target");
  made.builder().Output(Role::kLoss, 0, made.Add("", Op::kCrossEntropy, {x, target}));
  return std::move(made).Finish(std::move(starts));
}

}  // namespace stringline
