// PyTorch beside Stringline, on the same model, sizes and machine: a Python program reports torch's
// speed.
#include <stdio.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/gpu/sections.h"

namespace stringline {

void CheckTorch(const std::string& command, CheckRows* rows) {
  constexpr int kThereIsNone = 77;
  FILE* const pipe = popen(absl::StrCat(command, " 2> /dev/null").c_str(), "r");
  if (pipe == nullptr) return rows->Fail("torch", absl::StrCat("cannot run ", command));
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  const int status = pclose(pipe);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const std::string last = lines.empty() ? "it says nothing" : lines.back();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kThereIsNone) return rows->Skip("torch", last);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || lines.empty()) {
    return rows->Fail("torch", absl::StrCat(command, " failed: ", last));
  }
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    rows->Pass(absl::StrCat("GPT-2 124M in torch, ", parts.first),
               absl::StrCat(parts.second, " tokens/s"));
  }
}

}  // namespace stringline
