// The scripts: they parse, and refuse an unknown command line before doing anything; what a build
// says of its compiler and of its commit.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

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
  for (const char* const name :
       {"tools/install", "tools/test", "tools/demo", ".ci/run", "tools/environments/torch/install",
        "tools/environments/torch/run", "tools/environments/cuda/install",
        "tools/environments/cuda/install_frontend", "tools/gpu_check", "tools/wheel", "tools/style",
        "tools/package", "tools/release", "tests/packaging/installed_library.sh",
        "tools/environments/python/install", "tools/environments/release/install",
        "tools/environments/release/third_party", "tools/environments/ortools/install",
        "tools/environments/ortools/run"}) {
    EXPECT_EQ(Shell("bash -n " + Script(name)), 0) << name;
    EXPECT_EQ(Shell("test -x " + Script(name)), 0) << name;
  }
}

TEST(ScriptsTest, RefuseWhatTheyDoNotKnow) {
  for (const char* const line : {"tools/test' --fast",
                                 "tools/test' a b",
                                 "tools/demo' --help",
                                 "tools/demo' a b",
                                 "tools/demo' missing.txt",
                                 "tools/install' --all",
                                 "tools/install' --views --fast",
                                 "tools/environments/torch/run'",
                                 "tools/gpu_check' --all",
                                 "tools/wheel' --all",
                                 "tools/style' --some",
                                 "tools/style' none",
                                 "tools/package' --all",
                                 "tools/wheel' --test",
                                 "tools/wheel' --sources x",
                                 "tools/wheel' python-of-nobody",
                                 "tools/release' --upload",
                                 "tools/release' a b",
                                 "tools/environments/release/third_party' only-one",
                                 "tools/environments/ortools/run'"}) {
    EXPECT_EQ(Shell(absl::StrCat("'", SourceFolder(), "/", line)), 2) << line;
    EXPECT_NE(ReadText(ScratchFolder() + "/said.txt"), "") << line;
  }
}

TEST(ScriptsTest, ABuildWithoutACompilerNamesOne) {
  const std::string said = ScratchFolder() + "/said.txt";
  EXPECT_EQ(Shell("CXX=/nowhere/c++ cmake -G Ninja -B build -S " + Script("")), 1);
  EXPECT_NE(ReadText(said).find("there is no C++ compiler: install GCC 12 or later"),
            std::string::npos)
      << ReadText(said);
}

// A source distribution has the words as a file, which counts before a checkout around it.
TEST(ScriptsTest, TheCommitOfASourceDistributionIsThatOfItsFile) {
  const std::string folder = ScratchFolder() + "/tree/tools/commands";
  std::filesystem::create_directories(folder);
  const std::string commit = Script("tools/commands/commit.cmake");
  EXPECT_EQ(Shell("cmake -DOUT=words.txt -DSOURCE=tree -DGIT=git -P " + commit), 0);
  EXPECT_EQ(ReadText(ScratchFolder() + "/words.txt"), "commit not known: built outside git");

  WriteText(folder + "/commit.txt", "commit 0123456789ab with changes");
  EXPECT_EQ(Shell("cmake -DOUT=commit.cc -DSOURCE=tree -DGIT=git -P " + commit), 0);
  EXPECT_NE(ReadText(ScratchFolder() + "/commit.cc").find("\"commit 0123456789ab with changes\""),
            std::string::npos);
}

// The scripts' choice of a python with torch.
TEST(ScriptsTest, TorchIsThereOnlyWhenItsStampIs) {
  const std::string place = ScratchFolder() + "/stringline/torch";
  std::filesystem::create_directories(place + "/bin");
  WriteText(place + "/bin/python", "#!/bin/sh\necho \"the place's, $1\"\n");
  std::filesystem::permissions(place + "/bin/python", std::filesystem::perms::owner_all);
  const std::string run = "env -u STRINGLINE_TORCH_PYTHON XDG_DATA_HOME=. " +
                          Script("tools/environments/torch/run") + " x.py";
  const std::string said = ScratchFolder() + "/said.txt";

  EXPECT_EQ(Shell(run), 77);
  EXPECT_EQ(ReadText(said), "skipped: torch is not installed: tools/install --torch\n");
  WriteText(place + "/stringline.stamp", "");
  EXPECT_EQ(Shell(run), 0);
  EXPECT_EQ(ReadText(said), "the place's, x.py\n");
  EXPECT_EQ(
      Shell("STRINGLINE_TORCH_PYTHON=echo " + Script("tools/environments/torch/run") + " x.py"), 0);
  EXPECT_EQ(ReadText(said), "x.py\n");
  EXPECT_EQ(
      Shell("STRINGLINE_TORCH_PYTHON=./none " + Script("tools/environments/torch/run") + " x.py"),
      2);
  EXPECT_NE(ReadText(said).find("'./none'"), std::string::npos);
}

// A finished environment is left alone, and so is a user's own python.
TEST(ScriptsTest, TorchIsInstalledOnce) {
  const std::string place = ScratchFolder() + "/stringline/torch";
  std::filesystem::create_directories(place);
  WriteText(place + "/stringline.stamp",
            ReadText(SourceFolder() + "/tools/environments/torch/packages.txt"));
  for (const std::string beside : {"titan", "hta", "megatron"}) {
    const std::string folder = ScratchFolder() + "/stringline/" + beside;
    std::filesystem::create_directories(folder);
    WriteText(folder + "/stringline.stamp",
              ReadText(SourceFolder() + "/tools/environments/torch/" + beside + ".txt"));
  }
  const std::string install = Script("tools/environments/torch/install");
  const std::string said = ScratchFolder() + "/said.txt";

  EXPECT_EQ(Shell("env -u STRINGLINE_TORCH_PYTHON XDG_DATA_HOME=. " + install), 0);
  EXPECT_EQ(ReadText(said), "tools/install: torch is installed already\n");
  EXPECT_EQ(Shell("STRINGLINE_TORCH_PYTHON=false " + install), 2);
  EXPECT_NE(ReadText(said).find("cannot import torch"), std::string::npos);
}

// With a compiler; an installed frontend is left alone.
TEST(ScriptsTest, CudnnsFrontendIsInstalledOnce) {
  const std::string bin = ScratchFolder() + "/bin";
  const std::string place = ScratchFolder() + "/stringline/cudnn_frontend";
  std::filesystem::create_directories(bin);
  std::filesystem::create_directories(place);
  WriteText(bin + "/nvcc", "#!/bin/sh\n");
  std::filesystem::permissions(bin + "/nvcc", std::filesystem::perms::owner_all);
  WriteText(place + "/stringline.stamp",
            ReadText(SourceFolder() + "/tools/environments/cuda/frontend.txt"));
  EXPECT_EQ(Shell(absl::StrCat("PATH='", bin, "':$PATH XDG_DATA_HOME=. ",
                               Script("tools/environments/cuda/install_frontend"))),
            0);
  EXPECT_EQ(ReadText(ScratchFolder() + "/said.txt"),
            "tools/install: cuDNN's frontend is installed already\n");
}

}  // namespace
}  // namespace stringline
