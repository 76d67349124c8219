// Names and layouts of a family's parameters in a Hugging Face folder.
//
// Ours are (out, in) and packed: qkv holds the rows of queries, then of keys, then of values. In a
// folder each of the three is a tensor, and GPT-2's weights are (in, out). A family is a table of
// rows, one for each of our parameters; '#' stands for the number of a layer. The experts of a
// layer are a parameter of three dimensions here, and in a folder a tensor for each expert, or a
// single tensor: '*' stands for the number of an expert.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "stages/models/model.h"
#include "stages/stage_program.h"

namespace stringline {

// The number of rows that a tensor holds of the parameter, or of an expert's matrix of the
// parameter.
enum class StoredRows { kAll, kQueries, kKeys, kHidden, kExpertHidden };

struct StoredPart {
  const char* name;
  StoredRows rows = StoredRows::kAll;
};

struct StoredParam {
  const char* name;  // our parameter's
  std::vector<StoredPart> parts;
  bool transposed = false;
  bool longer = false;  // the tensor may have more rows than the parameter: the first ones count
};

absl::Span<const StoredParam> Gpt2Params();
absl::Span<const StoredParam> LlamaParams();
absl::Span<const StoredParam> MixtralParams();
absl::Span<const StoredParam> Qwen3MoeParams();
// Both mixtures as transformers keeps them in memory, and can save them.
absl::Span<const StoredParam> PackedExpertParams();

// A tensor that holds a parameter's rows from `first_row` on.
struct StoredSlice {
  std::string name;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t columns = 1;
  int dimensions = 2;               // 0: a number; 1: a vector of `rows`
  std::vector<int64_t> inner = {};  // sizes between the first dimension and the last
  bool transposed = false;
  bool longer = false;
  std::vector<std::string> aliases = {};  // other names of the same tensor
  // Not null: all values that the tensor was read with, of which `rows` rows are the parameter's;
  // the others are written back unchanged.
  std::shared_ptr<const std::vector<float>> longer_values = nullptr;

  std::vector<uint64_t> shape() const;   // the parameter's rows
  absl::Span<const float> rest() const;  // the values behind those rows, which are kept as they are
  std::vector<uint64_t> whole_shape() const;  // the tensor: the parameter's rows and the rest
};

// The tensors that make up `param`, in the order of its rows. The table has a row for `param`; an
// empty table stands for our own names and layouts. A raised model's tensors are those of its
// program, with any table.
std::vector<StoredSlice> SlicesOf(const Param& param, const AnyShape& shape,
                                  absl::Span<const StoredParam> table);

// "layers.12.norm1.weight" becomes "layers.#.norm1.weight".
std::string WithoutNumber(absl::string_view name);

}  // namespace stringline
