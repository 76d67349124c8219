// What tells files and plans apart that ought to be the same.
#pragma once

#include <string>

#include "schedlang/base/fnv.h"

namespace stringline {

// "4000 bytes, 8f3a…": a file's size and a hash of at most 64 pieces of it, which are all of one up
// to 4 MiB; "none" where it cannot be read.
std::string FingerprintOf(const std::string& path);

}  // namespace stringline
