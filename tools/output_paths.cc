#include "tools/output_paths.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// One file, whatever the names, also if it is not there yet.
bool AreSame(const std::string& one, const std::string& other) {
  std::error_code error;
  if (fs::equivalent(one, other, error)) return true;
  return fs::weakly_canonical(one, error) == fs::weakly_canonical(other, error);
}

}  // namespace

absl::Status CheckOutputPaths(const Flags& flags) {
  std::vector<std::string> inputs = flags.files;
  for (const Flags& side : flags.second_side) {
    inputs.insert(inputs.end(), side.files.begin(), side.files.end());
    inputs.push_back(side.cost_file);
  }
  for (const std::string* const input :
       {&flags.file, &flags.cost_file, &flags.text, &flags.model}) {
    inputs.push_back(*input);
  }
  const std::pair<const char*, const std::string*> outputs[] = {{"--timeline", &flags.timeline_out},
                                                                {"--svg", &flags.svg},
                                                                {"--html", &flags.html},
                                                                {"--perfetto", &flags.perfetto},
                                                                {"--chrome", &flags.chrome},
                                                                {"--plot", &flags.plot},
                                                                {"--out", &flags.out}};
  for (const auto& [option, path] : outputs) {
    if (path->empty() || *path == "-") continue;
    for (const std::string& input : inputs) {
      if (input.empty() || !AreSame(*path, input)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", *path, ": that file is read; write into another one"));
    }
    for (const auto& [other, second] : outputs) {
      if (other == option || second->empty() || !AreSame(*path, *second)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", *path, ": ", other, " writes into the same file"));
    }
  }
  return absl::OkStatus();
}

}  // namespace stringline
