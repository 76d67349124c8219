// The scripts: they parse, and refuse a command line that they do not know before they do anything.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

// The exit status of a command line, run from the temporary folder.
int Shell(const std::string& command) {
  const std::string line =
      absl::StrCat("cd '", ScratchFolder(), "' && ", command, " > said.txt 2>&1");
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string Script(const std::string& name) {
  return absl::StrCat("'", SourceFolder(), "/", name, "'");
}

TEST(ScriptsTest, AreBashAndExecutable) {
  for (const char* const name : {"tools/install", "tools/test", "tools/demo", ".ci/run"}) {
    EXPECT_EQ(Shell("bash -n " + Script(name)), 0) << name;
    EXPECT_EQ(Shell("test -x " + Script(name)), 0) << name;
  }
}

TEST(ScriptsTest, RefuseWhatTheyDoNotKnow) {
  for (const char* const line : {"tools/test' --fast", "tools/test' a b", "tools/demo' --help",
                                 "tools/demo' a b", "tools/demo' missing.txt"}) {
    EXPECT_EQ(Shell(absl::StrCat("'", SourceFolder(), "/", line)), 2) << line;
    EXPECT_NE(ReadText(ScratchFolder() + "/said.txt"), "") << line;
  }
}

}  // namespace
}  // namespace stringline
