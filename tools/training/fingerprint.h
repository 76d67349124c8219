// Fingerprints to compare files that ought to be equal.
#pragma once

#include <string>
#include <vector>

namespace stringline {

// "4000 bytes, 8f3a…": the size of a file and a hash. Up to 64 MiB all bytes are hashed; of more
// bytes 1024 pieces of 64 KiB, which lie evenly over all of them. "none" where the file cannot be
// read.
std::string FingerprintOf(const std::string& path);

// The same for several files, one after the other; their names, without folders, are hashed too.
std::string FingerprintOf(const std::vector<std::string>& paths);

}  // namespace stringline
