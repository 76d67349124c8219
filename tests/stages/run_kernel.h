// Runs one kernel by itself, in buffers full of NaN, and compares results with expected ones.
#pragma once

#include <vector>

#include "executor/cpu/evaluate.h"

namespace stringline::cpu {

// The outputs of `op` on these inputs. Outputs and workspace hold NaN before, to expose a kernel
// that leaves an element out, or reads unwritten memory.
std::vector<Array> RunKernel(Op op, const std::vector<Array>& inputs,
                             const std::vector<double>& attributes);

// Every element within `tolerance` (1 + |expected|).
void ExpectClose(const Array& seen, const std::vector<double>& expected, double tolerance);

// An array of this type, every element NaN (or its bits, for integers).
Array NanArray(const Type& type);

}  // namespace stringline::cpu
