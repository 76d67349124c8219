// A model's sizes in words and numbers: to name the difference between two models whose tensors
// have equal shapes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stages/models/model.h"

namespace stringline {

// "layers" and "8", "theta" and "10000"; the first is "model", the kind. Models of a kind have the
// same words in the same order, except for parts that only some models have.
std::vector<std::pair<const char*, std::string>> SizesOf(const AnyShape& shape);

}  // namespace stringline
