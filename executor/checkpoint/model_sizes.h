// What a model is, in words and numbers: to say how two of them differ, where the shapes of their
// tensors do not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stages/models/model.h"

namespace stringline {

// "layers" and "8", "theta" and "10000". Models of one kind have the same words in the same order;
// the first is "model", the kind.
std::vector<std::pair<const char*, std::string>> SizesOf(const AnyShape& shape);

}  // namespace stringline
