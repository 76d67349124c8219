// The models whose shapes are put to NVIDIA's own libraries: those of examples/ and of the tests,
// GPT-2 124M, Qwen2.5 1.5B and Llama 3 8B; the large ones of one layer.
#pragma once

#include <vector>

#include "stages/models/model.h"

namespace stringline {

std::vector<AnyShape> KnownModels();

}  // namespace stringline
