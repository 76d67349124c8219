// A folder of files that is there as a whole, or not at all.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace stringline {

// Writes the files, by name and text, into a folder beside the place and renames it. Errors: a
// folder that is there already, and what the system says; nothing is left of the files then.
absl::Status WriteNewFolder(const std::string& folder,
                            const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace stringline
