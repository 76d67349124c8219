#include "tools/io/output_paths.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// True if both names are the same file, even a file that does not exist yet.
bool AreSame(const std::string& one, const std::string& other) {
  std::error_code error;
  if (fs::equivalent(one, other, error)) return true;
  return fs::weakly_canonical(one, error) == fs::weakly_canonical(other, error);
}

using Outputs = std::vector<std::pair<const char*, const std::string*>>;

absl::Status CheckStandardOutput(const Flags& flags, const Outputs& outputs) {
  const char* first = flags.json ? "--json" : nullptr;
  for (const auto& [option, path] : outputs) {
    if (*path != kStandardStream) continue;
    if (first != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " -: ", first, " writes to standard output; name a file"));
    }
    first = option;
  }
  if (flags.save != kStandardStream) return absl::OkStatus();
  return absl::InvalidArgumentError("--save -: a folder cannot be standard output");
}

}  // namespace

std::vector<std::pair<const char*, const std::string*>> OutputsOf(const Flags& flags) {
  return {{"--timeline", &flags.timeline_out},
          {"--svg", &flags.svg},
          {"--picture", &flags.picture},
          {"--html", &flags.html},
          {"--perfetto", &flags.perfetto},
          {"--chrome", &flags.chrome},
          {"--plot", &flags.plot},
          {"--page", &flags.page},
          {"--out", &flags.out}};
}

bool WritesToStandardOutput(const Flags& flags) {
  for (const auto& [option, path] : OutputsOf(flags)) {
    if (*path == kStandardStream) return true;
  }
  return false;
}

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
  const auto outputs = OutputsOf(flags);
  SL_RETURN_IF_ERROR(CheckStandardOutput(flags, outputs));
  for (const auto& [option, path] : outputs) {
    if (path->empty() || *path == kStandardStream) continue;
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
