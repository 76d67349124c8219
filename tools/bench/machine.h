// The machine of a suite's run, and the versions of its software: two results can only be compared
// with both known.
#pragma once

#include <string>

#include "tools/io/json.h"

namespace stringline {

// {"cpu", "cores", "memory_bytes", "gpu"}: gpu is null on a machine without a GPU, or in a program
// built without CUDA.
Json DescribeDevice();

// {"stringline", "build", "compiler", "cuda"}: `build` is a hash of this very program; cuda is the
// toolkit of the build, or null.
Json DescribeVersions();

// "2026-11-23T08:15:00Z"
std::string DateNow();

}  // namespace stringline
