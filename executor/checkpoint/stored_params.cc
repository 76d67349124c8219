#include "executor/checkpoint/stored_params.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return absl::ascii_isdigit(c); });
}

std::string NumberIn(absl::string_view name) {
  for (absl::string_view part : absl::StrSplit(name, '.')) {
    if (IsNumber(part)) return std::string(part);
  }
  return "";
}

int64_t RowsOf(StoredRows rows, const Param& param, const AnyShape& shape) {
  if (rows == StoredRows::kAll) return param.type.shape[0];
  const DecoderShape& decoder = std::get<DecoderShape>(shape.family);
  if (rows == StoredRows::kHidden) return decoder.hidden;
  const int64_t heads = rows == StoredRows::kQueries ? decoder.heads : decoder.kv_heads;
  return heads * decoder.head_dim;
}

}  // namespace

absl::Span<const StoredParam> Gpt2Params() {
  static const std::vector<StoredParam>& params = *new std::vector<StoredParam>{
      {"embedding.weight", {{"transformer.wte.weight"}}},
      {"position.weight", {{"transformer.wpe.weight"}}, false, true},
      {"layers.#.norm1.weight", {{"transformer.h.#.ln_1.weight"}}},
      {"layers.#.norm1.bias", {{"transformer.h.#.ln_1.bias"}}},
      {"layers.#.attention.qkv.weight", {{"transformer.h.#.attn.c_attn.weight"}}, true},
      {"layers.#.attention.qkv.bias", {{"transformer.h.#.attn.c_attn.bias"}}},
      {"layers.#.attention.projection.weight", {{"transformer.h.#.attn.c_proj.weight"}}, true},
      {"layers.#.attention.projection.bias", {{"transformer.h.#.attn.c_proj.bias"}}},
      {"layers.#.norm2.weight", {{"transformer.h.#.ln_2.weight"}}},
      {"layers.#.norm2.bias", {{"transformer.h.#.ln_2.bias"}}},
      {"layers.#.mlp.up.weight", {{"transformer.h.#.mlp.c_fc.weight"}}, true},
      {"layers.#.mlp.up.bias", {{"transformer.h.#.mlp.c_fc.bias"}}},
      {"layers.#.mlp.down.weight", {{"transformer.h.#.mlp.c_proj.weight"}}, true},
      {"layers.#.mlp.down.bias", {{"transformer.h.#.mlp.c_proj.bias"}}},
      {"norm.weight", {{"transformer.ln_f.weight"}}},
      {"norm.bias", {{"transformer.ln_f.bias"}}},
      {"head.weight", {{"lm_head.weight"}}},
  };
  return params;
}

absl::Span<const StoredParam> LlamaParams() {
  using enum StoredRows;
  static const std::vector<StoredParam>& params = *new std::vector<StoredParam>{
      {"embedding.weight", {{"model.embed_tokens.weight"}}},
      {"layers.#.norm1.weight", {{"model.layers.#.input_layernorm.weight"}}},
      {"layers.#.attention.qkv.weight",
       {{"model.layers.#.self_attn.q_proj.weight", kQueries},
        {"model.layers.#.self_attn.k_proj.weight", kKeys},
        {"model.layers.#.self_attn.v_proj.weight", kKeys}}},
      {"layers.#.attention.qkv.bias",
       {{"model.layers.#.self_attn.q_proj.bias", kQueries},
        {"model.layers.#.self_attn.k_proj.bias", kKeys},
        {"model.layers.#.self_attn.v_proj.bias", kKeys}}},
      {"layers.#.attention.query_norm.weight", {{"model.layers.#.self_attn.q_norm.weight"}}},
      {"layers.#.attention.key_norm.weight", {{"model.layers.#.self_attn.k_norm.weight"}}},
      {"layers.#.attention.projection.weight", {{"model.layers.#.self_attn.o_proj.weight"}}},
      {"layers.#.norm2.weight", {{"model.layers.#.post_attention_layernorm.weight"}}},
      {"layers.#.mlp.gate_up.weight",
       {{"model.layers.#.mlp.gate_proj.weight", kHidden},
        {"model.layers.#.mlp.up_proj.weight", kHidden}}},
      {"layers.#.mlp.down.weight", {{"model.layers.#.mlp.down_proj.weight"}}},
      {"norm.weight", {{"model.norm.weight"}}},
      {"head.weight", {{"lm_head.weight"}}},
  };
  return params;
}

std::string WithoutNumber(absl::string_view name) {
  std::vector<std::string> parts = absl::StrSplit(name, '.');
  const auto number = std::find_if(parts.begin(), parts.end(), IsNumber);
  if (number != parts.end()) number->assign(1, '#');
  return absl::StrJoin(parts, ".");
}

std::vector<uint64_t> StoredSlice::shape() const {
  const auto count = [](int64_t size) { return static_cast<uint64_t>(size); };
  if (dimensions == 1) return {count(rows)};
  if (dimensions == 3) return {count(matrices), count(rows / matrices), count(columns)};
  if (transposed) return {count(columns), count(rows)};
  return {count(rows), count(columns)};
}

std::vector<StoredSlice> SlicesOf(const Param& param, const AnyShape& shape,
                                  absl::Span<const StoredParam> table) {
  const std::vector<int64_t>& sizes = param.type.shape;
  StoredSlice whole;
  whole.name = param.name;
  whole.dimensions = static_cast<int>(sizes.size());
  whole.columns = whole.dimensions == 1 ? 1 : sizes.back();
  whole.rows = param.type.elements() / whole.columns;
  whole.matrices = whole.dimensions == 3 ? sizes[0] : 1;
  if (table.empty()) return {whole};
  const std::string name = WithoutNumber(param.name), number = NumberIn(param.name);
  const auto row = std::find_if(table.begin(), table.end(),
                                [&name](const StoredParam& of) { return of.name == name; });
  SL_CHECK(row != table.end()) << param.name;
  std::vector<StoredSlice> slices;
  int64_t first = 0;
  for (const StoredPart& part : row->parts) {
    StoredSlice& slice = slices.emplace_back(whole);
    slice.name = absl::StrReplaceAll(part.name, {{"#", number}});
    slice.first_row = first;
    slice.rows = RowsOf(part.rows, param, shape);
    slice.transposed = row->transposed;
    slice.longer = row->longer;
    first += slice.rows;
  }
  SL_CHECK(first == param.type.shape[0]) << param.name << ": " << first;
  return slices;
}

}  // namespace stringline
