// Editors beside the real language server: the extension of VS Code in a stand-in for the editor,
// run by Node.js, and the recipe of tools/editor/README.md in Neovim. Each is skipped without its
// program.
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

// The extension is copied first, as in an installation: it needs nothing from the folders around
// it.
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

// The Lua of the page is the whole configuration of the editor.
TEST(NeovimTest, TheRecipeWorksAsItIs) {
  const Answer version = RunLine("nvim --version");
  if (version.status != 0) GTEST_SKIP() << "there is no Neovim (Debian: neovim)";
  const std::string page = ReadText(SourceFolder() + "/tools/editor/README.md");
  const size_t begin = page.find("```lua\n") + 7;
  const std::string recipe = page.substr(begin, page.find("```\n", begin) - begin);
  const std::string folder = ScratchFolder();
  WriteText(folder + "/init.lua", recipe);
  WriteText(folder + "/wrong.sched",
            "schedule wrong(P, M) {\n  stages P on line;\n  let warmup = min(P, M);\n"
            "  rank r {\n    repeat warmup { F r }\n    repeat M { B nothing }\n  }\n}\n");
  WriteText(folder + "/ugly.sched", "schedule ugly(P,M) { stages P on line; rank r {F r;B r} }\n");
  const std::string tool_folder = std::filesystem::path(STRINGLINE_TOOL).parent_path();
  const Answer answer = RunLine(
      absl::StrCat("cd '", folder, "' && PATH='", tool_folder, "':\"$PATH\" HOME='", folder,
                   "' timeout 60 nvim --clean --headless -u init.lua wrong.sched -c \"luafile ",
                   SourceFolder(), "/tests/tools/neovim/recipe_test.lua\""));
  EXPECT_EQ(answer.status, 0) << version.out << answer.out;
}

}  // namespace
}  // namespace stringline
