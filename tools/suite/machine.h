// The machine that a suite runs on, and the versions of what runs: two results can only be compared
// where one knows both.
#pragma once

#include <string>

#include "tools/json.h"

namespace stringline {

// {"cpu", "cores", "memory_bytes", "gpu"}: gpu is null where there is none, or where this program
// was built without CUDA.
Json DescribeDevice();

// {"stringline", "build", "compiler", "cuda"}: `build` is a hash of this very program; cuda is the
// toolkit that it was built with, or null.
Json DescribeVersions();

// "2026-11-23T08:15:00Z"
std::string DateNow();

}  // namespace stringline
