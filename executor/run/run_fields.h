// The keys of a run file for a model's sizes, each with the place of its value.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "executor/training/documents.h"
#include "stages/models/model.h"

namespace stringline {

// A key of a section, with the place for its value and the limits.
struct Field {
  const char* key;
  std::variant<std::string*, int*, int64_t*, uint64_t*, double*, bool*, std::vector<int>*,
               std::vector<std::string>*, PackedWish*>
      target;
  double least = 0;
  double most = 0;
  bool required = true;
};

// The most for a key that counts something.
inline constexpr double kMostCount = 1 << 20;

std::vector<Field> FieldsOf(GptShape* shape);
std::vector<Field> FieldsOf(DecoderShape* shape);
std::vector<Field> FieldsOf(EncoderDecoderShape* shape);
// The keys of a mixture of experts beside the keys of its attention and dense layers.
std::vector<Field> FieldsOf(MoeShape* moe, std::string* scores, std::string* capacity,
                            std::string* exceeded);

}  // namespace stringline
