// The keys of a run file that say a model's sizes, each with the place of its value.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "stages/models/model.h"

namespace stringline {

// One key of one section, where its value goes, and what it may be.
struct Field {
  const char* key;
  std::variant<std::string*, int*, int64_t*, uint64_t*, double*, bool*, std::vector<int>*,
               std::vector<std::string>*>
      target;
  double least = 0;
  double most = 0;
  bool required = true;
};

// The most that a key may be which counts something.
inline constexpr double kMostCount = 1 << 20;

std::vector<Field> FieldsOf(GptShape* shape);
std::vector<Field> FieldsOf(DecoderShape* shape);
// Those of a mixture of experts beside those of its attention and dense layers.
std::vector<Field> FieldsOf(MoeShape* moe, std::string* scores, std::string* capacity,
                            std::string* exceeded);

}  // namespace stringline
