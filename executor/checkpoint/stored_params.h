// How a family's parameters are called and laid out in a Hugging Face folder.
//
// Ours are (out, in) and packed: qkv holds the rows of queries, then of keys, then of values. There
// each of the three is a tensor of its own, and GPT-2's weights are (in, out). A family is a table
// of rows, one for each of our parameters; '#' stands for the number of a layer. What all experts
// of a layer hold is one parameter of three dimensions here and tensors of its own for each expert
// there, or one tensor: '*' stands for the number of an expert.
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

// How many rows of the parameter, or of its matrix of an expert, a tensor holds.
enum class StoredRows { kAll, kQueries, kKeys, kHidden, kExpertHidden };

struct StoredPart {
  const char* name;
  StoredRows rows = StoredRows::kAll;
};

struct StoredParam {
  const char* name;  // of our parameter
  std::vector<StoredPart> parts;
  bool transposed = false;
  bool longer = false;  // the tensor may have more rows than the parameter: the first ones count
};

absl::Span<const StoredParam> Gpt2Params();
absl::Span<const StoredParam> LlamaParams();
absl::Span<const StoredParam> MixtralParams();
absl::Span<const StoredParam> Qwen3MoeParams();
// Of both as transformers has them in memory, and saves them if it is told to.
absl::Span<const StoredParam> PackedExpertParams();

// A tensor that a parameter's rows from `first_row` on are in.
struct StoredSlice {
  std::string name;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t columns = 1;
  int dimensions = 2;    // 1: a vector of `rows`
  int64_t matrices = 1;  // of three dimensions: the rows are those of so many matrices, in order
  bool transposed = false;
  bool longer = false;
  std::vector<std::string> aliases = {};  // other names of the same tensor
  // Not null: all that the tensor was read with, of which `rows` rows are the parameter's; it is
  // written with the others as they were.
  std::shared_ptr<const std::vector<float>> longer_values = nullptr;

  std::vector<uint64_t> shape() const;  // of the tensor
};

// The tensors that together are `param`, in the order of its rows. The table has a row for it; an
// empty table stands for our own names and layouts. A raised model's are those of its program,
// whatever the table.
std::vector<StoredSlice> SlicesOf(const Param& param, const AnyShape& shape,
                                  absl::Span<const StoredParam> table);

// "layers.12.norm1.weight" becomes "layers.#.norm1.weight".
std::string WithoutNumber(absl::string_view name);

}  // namespace stringline
