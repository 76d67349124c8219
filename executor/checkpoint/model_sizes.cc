#include "executor/checkpoint/model_sizes.h"

#include "absl/strings/str_cat.h"
#include "stages/text.h"

namespace stringline {
namespace {

using Sizes = std::vector<std::pair<const char*, std::string>>;

std::string YesOrNo(bool yes) { return yes ? "true" : "false"; }

// Of a family alone.
Sizes OwnSizes(const GptShape& shape) {
  return {{"heads", absl::StrCat(shape.heads)}, {"tied", YesOrNo(shape.tied)}};
}

Sizes OwnSizes(const DecoderShape& shape) {
  return {{"heads", absl::StrCat(shape.heads)},        {"tied", YesOrNo(shape.tied)},
          {"kv_heads", absl::StrCat(shape.kv_heads)},  {"head_dim", absl::StrCat(shape.head_dim)},
          {"hidden", absl::StrCat(shape.hidden)},      {"qkv_bias", YesOrNo(shape.qkv_bias)},
          {"qk_norm", YesOrNo(shape.qk_norm)},         {"theta", PrintNumber(shape.rope_theta)},
          {"epsilon", PrintNumber(shape.norm_epsilon)}};
}

}  // namespace

Sizes SizesOf(const AnyShape& shape) {
  Sizes sizes = {{"model", absl::StrCat("stringline ", KindOf(shape))},
                 {"layers", absl::StrCat(shape.layers())},
                 {"width", absl::StrCat(shape.width())},
                 {"context", absl::StrCat(shape.context())},
                 {"vocabulary", absl::StrCat(shape.vocabulary())}};
  const Sizes own = std::visit([](const auto& of) { return OwnSizes(of); }, shape.family);
  sizes.insert(sizes.end(), own.begin(), own.end());
  return sizes;
}

}  // namespace stringline
