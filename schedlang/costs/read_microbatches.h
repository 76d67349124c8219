// The keys of unequal microbatches, in cost files and on command lines.
//
//   microbatch: [1, 1.3, 70%]                 factors of the usual microbatch
//   microbatch.tokens: [4096, [1024, 3072]]   tokens; a list is of sequences packed together
//   microbatch.tokens: lengths.txt            the same, a line each:
//
//     # a comment
//     4096
//     1024 3072
//
// One value for each microbatch of a step, in the order in which steps number them; those of the
// second pipe come behind those of the first. A factor is of one sequence.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedlang/costs/costs.h"

namespace stringline {

// True for the name of such a key.
bool IsMicrobatchKey(absl::string_view name);

// Reads the key's value; a file's path is relative to the folder. Errors: what is no such value or
// cannot be read; both keys.
absl::Status ReadMicrobatches(const std::string& name, const YAML::Node& value,
                              const std::filesystem::path& folder, UnequalMicrobatches* read);

}  // namespace stringline
