// What a model is, in words and numbers: to say how two of them differ, where the shapes of their
// tensors do not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stages/models/model.h"

namespace stringline {

// "layers" and "8", "theta" and "10000"; the first is "model", the kind. Models of one kind have
// the same words in the same order, but for those of a part that only one of them has.
std::vector<std::pair<const char*, std::string>> SizesOf(const AnyShape& shape);

}  // namespace stringline
