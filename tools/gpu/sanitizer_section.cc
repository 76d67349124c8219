// NVIDIA's compute-sanitizer on the section of kernels: small shapes of every op. It watches
// another process of this program, which runs the section without forking.
#include <stdio.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int kFound = 86;        // the sanitizer's exit status for errors, unlike any of ours
constexpr int kChecksFailed = 1;  // of the watched section: its own rows say so

// The last of its own lines, a summary; or the first that names an error.
std::string Finding(const std::vector<std::string>& lines, bool first) {
  std::string found;
  for (const std::string& line : lines) {
    const size_t text = line.find_first_not_of("= ");
    if (!absl::StartsWith(line, "=========") || text == std::string::npos ||
        absl::StrContains(line, "COMPUTE-SANITIZER")) {
      continue;
    }
    found = line.substr(text);
    if (first) return found;
  }
  return found;
}

void RunTool(const std::string& tool, const std::string& sanitizer, const std::string& watched,
             CheckRows* rows) {
  const std::string name = absl::StrCat(tool, " of kernels");
  const std::string command = absl::StrCat(sanitizer, " --tool ", tool, " --error-exitcode ",
                                           kFound, " ", watched, " 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return rows->Fail(name, absl::StrCat("cannot run ", command));
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  const int status = pclose(pipe);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const std::string last = lines.empty() ? "it says nothing" : lines.back();
  const std::string summary = Finding(lines, /*first=*/false);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kFound) {
    rows->Fail(name, absl::StrCat(Finding(lines, /*first=*/true), "; ", summary));
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) > kChecksFailed) {
    rows->Fail(name, absl::StrCat(command, " failed: ", last));
  } else if (summary.empty()) {
    rows->Fail(name, absl::StrCat("it ended without a summary: ", last));
  } else {
    rows->Pass(name, summary);
  }
}

}  // namespace

void CheckSanitizer(const std::string& sanitizer, const std::string& watched, CheckRows* rows) {
  const std::string find = absl::StrCat("command -v ", sanitizer, " > /dev/null 2>&1");
  if (system(find.c_str()) != 0) {
    return rows->Skip("compute-sanitizer", absl::StrCat("not run: there is no ", sanitizer));
  }
  for (const char* const tool : {"memcheck", "racecheck", "synccheck"}) {
    RunTool(tool, sanitizer, watched, rows);
  }
}

}  // namespace stringline
