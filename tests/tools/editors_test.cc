// The extension of VS Code, beside the real language server and a stand-in for the editor: run by
// Node.js, and skipped without Node.js. The extension is copied first, as in an installation: it
// needs nothing from the folders around it.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// The output of a command line, and its exit status.
Answer RunLine(const std::string& line) {
  Answer answer;
  FILE* const from = popen(absl::StrCat(line, " 2>&1").c_str(), "r");
  if (from == nullptr) return {-1, "", ""};
  char bytes[4096];
  for (size_t count; (count = fread(bytes, 1, sizeof(bytes), from)) > 0;) {
    answer.out.append(bytes, count);
  }
  const int status = pclose(from);
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

TEST(VscodeTest, TheExtensionWorksAsItIs) {
  constexpr int kOldest = 16;
  const Answer version = RunLine("node --version");
  if (version.status != 0 || version.out.empty() || std::atoi(version.out.c_str() + 1) < kOldest) {
    GTEST_SKIP() << "there is no Node.js of version " << kOldest << " or newer (Debian: nodejs)";
  }
  const std::string folder = ScratchFolder() + "/stringline-extension";
  fs::copy(SourceFolder() + "/tools/editor/vscode", folder,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const Answer answer =
      RunLine(absl::StrCat("node '", SourceFolder(), "/tests/tools/vscode/extension_test.js' '",
                           folder, "' '", STRINGLINE_TOOL, "'"));
  EXPECT_EQ(answer.status, 0) << answer.out;
}

}  // namespace
}  // namespace stringline
