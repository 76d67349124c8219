// stringline import of a model: what a program of torch.export is here.
#pragma once

#include "tools/flags.h"
#include "tools/output.h"

namespace stringline {

// Answers with its layers, where stages can begin, and its graph in text form, of which the rest
// are comments.
int ImportModel(const Flags& flags, const Output& output);

}  // namespace stringline
