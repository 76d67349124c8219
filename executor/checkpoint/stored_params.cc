// A table for each family, a row for each of our parameters. A parameter's rows are cut into slices
// in the order of its row's parts, once more for each expert where a name has a '*'; together they
// must be all of its rows.
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

int64_t RowsOf(StoredRows rows, int64_t all, const AnyShape& shape) {
  if (rows == StoredRows::kAll) return all;
  const DecoderShape& decoder = std::get<DecoderShape>(shape.family);
  if (rows == StoredRows::kHidden) return decoder.hidden;
  if (rows == StoredRows::kExpertHidden) return decoder.moe.expert_hidden;
  const int64_t heads = rows == StoredRows::kQueries ? decoder.heads : decoder.kv_heads;
  return heads * decoder.head_dim;
}

// Llama's, and those of experts.
std::vector<StoredParam> LlamaAnd(const std::vector<StoredParam>& more) {
  std::vector<StoredParam> params(LlamaParams().begin(), LlamaParams().end());
  params.insert(params.end(), more.begin(), more.end());
  return params;
}

// `whole` cut into the tensors of a program.
std::vector<StoredSlice> SlicesOfRaised(const RaisedParam& raised, const StoredSlice& whole) {
  std::vector<StoredSlice> slices;
  int64_t first = 0;
  for (const RaisedPart& part : raised.parts) {
    StoredSlice& slice = slices.emplace_back(whole);
    slice.name = part.names.front();
    slice.aliases.assign(part.names.begin() + 1, part.names.end());
    slice.first_row = first;
    slice.rows = raised.positions ? whole.rows : part.rows;
    slice.transposed = raised.transposed;
    slice.longer = slice.rows < part.rows;
    if (slice.longer) slice.longer_values = part.values;
    first += slice.rows;
  }
  SL_CHECK(first == whole.rows) << whole.name << ": " << first;
  return slices;
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

absl::Span<const StoredParam> MixtralParams() {
  using enum StoredRows;
  static const std::vector<StoredParam>& params = *new std::vector<StoredParam>(LlamaAnd({
      {"layers.#.router.weight", {{"model.layers.#.block_sparse_moe.gate.weight"}}},
      {"layers.#.experts.gate_up.weight",
       {{"model.layers.#.block_sparse_moe.experts.*.w1.weight", kExpertHidden},
        {"model.layers.#.block_sparse_moe.experts.*.w3.weight", kExpertHidden}}},
      {"layers.#.experts.down.weight", {{"model.layers.#.block_sparse_moe.experts.*.w2.weight"}}},
  }));
  return params;
}

absl::Span<const StoredParam> Qwen3MoeParams() {
  using enum StoredRows;
  static const std::vector<StoredParam>& params = *new std::vector<StoredParam>(LlamaAnd({
      {"layers.#.router.weight", {{"model.layers.#.mlp.gate.weight"}}},
      {"layers.#.experts.gate_up.weight",
       {{"model.layers.#.mlp.experts.*.gate_proj.weight", kExpertHidden},
        {"model.layers.#.mlp.experts.*.up_proj.weight", kExpertHidden}}},
      {"layers.#.experts.down.weight", {{"model.layers.#.mlp.experts.*.down_proj.weight"}}},
  }));
  return params;
}

absl::Span<const StoredParam> PackedExpertParams() {
  static const std::vector<StoredParam>& params = *new std::vector<StoredParam>(LlamaAnd({
      {"layers.#.router.weight", {{"model.layers.#.mlp.gate.weight"}}},
      {"layers.#.experts.gate_up.weight", {{"model.layers.#.mlp.experts.gate_up_proj"}}},
      {"layers.#.experts.down.weight", {{"model.layers.#.mlp.experts.down_proj"}}},
  }));
  return params;
}

std::string WithoutNumber(absl::string_view name) {
  std::vector<std::string> parts = absl::StrSplit(name, '.');
  const auto number = std::find_if(parts.begin(), parts.end(), IsNumber);
  if (number != parts.end()) number->assign(1, '#');
  return absl::StrJoin(parts, ".");
}

std::vector<uint64_t> StoredSlice::shape() const {
  if (dimensions == 0) return {};
  std::vector<int64_t> sizes = {rows};
  for (const int64_t size : inner) {
    sizes[0] /= size;
    sizes.push_back(size);
  }
  if (dimensions > 1) sizes.push_back(columns);
  if (transposed) std::swap(sizes[0], sizes[1]);
  return {sizes.begin(), sizes.end()};
}

absl::Span<const float> StoredSlice::rest() const {
  if (longer_values == nullptr) return {};
  return absl::MakeConstSpan(*longer_values).subspan(static_cast<size_t>(rows * columns));
}

std::vector<uint64_t> StoredSlice::whole_shape() const {
  std::vector<uint64_t> sizes = shape();
  if (!rest().empty()) sizes[0] += rest().size() / static_cast<uint64_t>(columns);
  return sizes;
}

std::vector<StoredSlice> SlicesOf(const Param& param, const AnyShape& shape,
                                  absl::Span<const StoredParam> table) {
  const std::vector<int64_t>& sizes = param.type.shape;
  StoredSlice whole;
  whole.name = param.name;
  whole.dimensions = static_cast<int>(sizes.size());
  whole.columns = whole.dimensions <= 1 ? 1 : sizes.back();
  whole.rows = param.type.elements() / whole.columns;
  if (whole.dimensions > 2) whole.inner.assign(sizes.begin() + 1, sizes.end() - 1);
  if (const auto* const raised = std::get_if<RaisedShape>(&shape.family)) {
    return SlicesOfRaised(ParamNamed(*raised->model, param.name), whole);
  }
  if (table.empty()) return {whole};
  const std::string name = WithoutNumber(param.name), number = NumberIn(param.name);
  const auto row = std::find_if(table.begin(), table.end(),
                                [&name](const StoredParam& of) { return of.name == name; });
  SL_CHECK(row != table.end()) << param.name;
  // Rows follow each other expert by expert, and for each in the order of the parts.
  const bool by_expert = absl::string_view(row->parts[0].name).find('*') != std::string::npos;
  const int64_t experts = by_expert ? sizes[0] : 1;
  std::vector<StoredSlice> slices;
  int64_t first = 0;
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (const StoredPart& part : row->parts) {
      StoredSlice& slice = slices.emplace_back(whole);
      slice.name = absl::StrReplaceAll(part.name, {{"#", number}, {"*", absl::StrCat(expert)}});
      slice.first_row = first;
      slice.rows = RowsOf(part.rows, whole.rows / experts, shape);
      slice.transposed = row->transposed;
      slice.longer = row->longer;
      if (slice.longer && shape.given != nullptr && !shape.given->positions.empty()) {
        slice.longer_values = {shape.given, &shape.given->positions};
      }
      if (by_expert) {
        slice.dimensions = 2;
        slice.inner.clear();
      }
      first += slice.rows;
    }
  }
  SL_CHECK(first == whole.rows) << param.name << ": " << first;
  return slices;
}

}  // namespace stringline
