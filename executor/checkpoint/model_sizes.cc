#include "executor/checkpoint/model_sizes.h"

#include "absl/strings/str_cat.h"
#include "schedlang/base/fnv.h"
#include "stages/text.h"

namespace stringline {
namespace {

using Sizes = std::vector<std::pair<const char*, std::string>>;

std::string YesOrNo(bool yes) { return yes ? "true" : "false"; }

// The sizes of this family only.
Sizes OwnSizes(const GptShape& shape) {
  Sizes sizes = {{"context", absl::StrCat(shape.context)},
                 {"heads", absl::StrCat(shape.heads)},
                 {"tied", YesOrNo(shape.tied)}};
  // Older checkpoints say nothing of them.
  if (shape.skips) sizes.emplace_back("skips", YesOrNo(true));
  return sizes;
}

// The sizes that determine a token's experts. Limits and balance of their load in training are no
// part of the model.
Sizes SizesOf(const MoeShape& moe) {
  return {{"experts", absl::StrCat(moe.experts)},
          {"top_k", absl::StrCat(moe.top_k)},
          {"expert_hidden", absl::StrCat(moe.expert_hidden)},
          {"shared_hidden", absl::StrCat(moe.shared_hidden)},
          {"first_dense", absl::StrCat(moe.first_dense)},
          {"scores", moe.scores == RouterScores::kSoftmax ? "softmax" : "sigmoid"},
          {"normalise", YesOrNo(moe.normalise)},
          {"scale", PrintNumber(moe.scale)},
          {"groups", absl::StrCat(moe.groups)},
          {"top_groups", absl::StrCat(moe.top_groups)},
          {"group_best", absl::StrCat(moe.group_best)},
          {"router bias", YesOrNo(moe.balance_rate != 0)}};
}

Sizes OwnSizes(const DecoderShape& shape) {
  Sizes sizes = {
      {"heads", absl::StrCat(shape.heads)},       {"tied", YesOrNo(shape.tied)},
      {"kv_heads", absl::StrCat(shape.kv_heads)}, {"head_dim", absl::StrCat(shape.head_dim)},
      {"qkv_bias", YesOrNo(shape.qkv_bias)},      {"qk_norm", YesOrNo(shape.qk_norm)},
      {"theta", PrintNumber(shape.rope_theta)},   {"epsilon", PrintNumber(shape.norm_epsilon)}};
  if (shape.moe.experts == 0 || shape.moe.first_dense > 0) {
    sizes.emplace_back("hidden", absl::StrCat(shape.hidden));
  }
  if (shape.moe.experts == 0) return sizes;
  const Sizes of_experts = SizesOf(shape.moe);
  sizes.insert(sizes.end(), of_experts.begin(), of_experts.end());
  return sizes;
}

Sizes OwnSizes(const EncoderDecoderShape& shape) {
  return {{"encoder_layers", absl::StrCat(shape.encoder_layers)},
          {"context", absl::StrCat(shape.context)},
          {"source", absl::StrCat(shape.source)},
          {"heads", absl::StrCat(shape.heads)}};
}

// The graph is the identity of any exported model.
Sizes OwnSizes(const RaisedShape& shape) {
  Fnv hash;
  for (const unsigned char c : PrintGraph(shape.model->graph)) hash.Add(c);
  return {{"context", absl::StrCat(shape.context)},
          {"tied", YesOrNo(shape.tied)},
          {"program", absl::StrCat(shape.model->name, " ", absl::Hex(hash.value()))}};
}

}  // namespace

Sizes SizesOf(const AnyShape& shape) {
  Sizes sizes = {{"model", absl::StrCat("stringline ", KindOf(shape))},
                 {"layers", absl::StrCat(shape.layers())},
                 {"width", absl::StrCat(shape.width())},
                 {"vocabulary", absl::StrCat(shape.vocabulary())}};
  const Sizes own = std::visit([](const auto& of) { return OwnSizes(of); }, shape.family);
  sizes.insert(sizes.end(), own.begin(), own.end());
  return sizes;
}

}  // namespace stringline
