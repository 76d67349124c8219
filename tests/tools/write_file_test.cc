// A failed write is reported, and leaves the old file.
#include "schedlang/base/write_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// While an object lives, no file of this process grows beyond so many bytes: as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(WriteFileTest, WritesMakesFoldersAndReplaces) {
  const std::string folder = ScratchFolder();
  const std::string path = folder + "/new/deeper/file.txt";
  for (const std::string text : {"first", "", "a longer one", "short"}) {
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
    EXPECT_EQ(ReadText(path), text);
  }
  const std::string large(3'000'000, 'x');
  ASSERT_TRUE(WriteFileAtomically(path, large).ok());
  EXPECT_EQ(ReadText(path), large);
  EXPECT_EQ(FilesIn(folder + "/new/deeper"), std::vector<std::string>{"file.txt"});
}

TEST(WriteFileTest, AFullDiskLeavesTheEarlierFileAndNoOther) {
  const std::string folder = ScratchFolder() + "/full_disk", path = folder + "/kept.txt";
  ASSERT_TRUE(WriteFileAtomically(path, "as it was").ok());
  for (const size_t size : {4097, 100'000}) {
    absl::Status status;
    {
      const FullDisk disk(4096);
      status = WriteFileAtomically(path, std::string(size, 'x'));
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << size;
    EXPECT_EQ(status.message(), path + ": cannot be written: File too large");
    EXPECT_EQ(ReadText(path), "as it was");
    EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"kept.txt"});
  }
}

TEST(WriteFileTest, WhatFailsLeavesNoFolders) {
  const std::string folder = ScratchFolder() + "/left";
  fs::create_directories(folder + "/was_there");
  for (const char* const inside : {"/new/deeper/file.txt", "/was_there/new/file.txt"}) {
    const FullDisk disk(4096);
    EXPECT_FALSE(WriteFileAtomically(folder + inside, std::string(5000, 'x')).ok());
  }
  EXPECT_FALSE(WriteFileAtomically(folder + "/new/" + std::string(300, 'x'), "text").ok());
  EXPECT_FALSE(WriteFileAtomically(folder + "/new/" + std::string(300, 'x') + "/a", "text").ok());
  EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"was_there"});
  EXPECT_TRUE(FilesIn(folder + "/was_there").empty());
}

// Every option that writes, in a command that fails before it writes.
TEST(WriteFileTest, ACommandThatFailsMakesNoFolder) {
  const std::string folder = ScratchFolder() + "/fails";
  fs::create_directories(folder);
  WriteText(folder + "/bad.sched",
            "schedule s(P, M) { stages P on line; rank r { repeat M { F r } } }\n");
  const char* const commands[] = {
      "sim bad.sched P=2 M=4 --timeline no/such/dir/x",
      "sim 1f1b P=2 M=4 --cost F=1,receive_buffers=0,p2q=1 --timeline no/such/dir/x",
      "sim missing.sched M=4 --for P=2..3 --plot no/such/dir/x.svg",
      "show bad.sched P=2 M=4 --svg no/such/dir/x.svg",
      "show bad.sched P=2 M=4 --picture no/such/dir/x.pdf",
      "show bad.sched P=2 M=4 --html no/such/dir/x.html",
      "show bad.sched P=2 M=4 --perfetto no/such/dir/x",
      "show bad.sched P=2 M=4 --chrome no/such/dir/x",
      "show 1f1b P=2 M=4 --ranks 7 --svg no/such/dir/x.svg",
      "compare 1f1b bad.sched P=2 M=4 --svg no/such/dir/x.svg",
      "export bad.sched P=2 M=4 --to torch-compute --out no/such/dir/x",
      "import bad.sched --out no/such/dir/x",
      "calibrate bad.sched --out no/such/dir/x",
      "rehearse bad.sched P=2 M=4 --timeline no/such/dir/x",
      "rehearse 1f1b P=2 M=4 --cost F=1s,B=200s --timeline no/such/dir/x",
      "search P=2 M=4 --activations 0 --emit no/such/dir/x.sched",
      "bench missing.yaml --out no/such/dir/x.json",
      "bench missing.json --page no/such/dir/x.md",
      "run bad.yaml --out no/such/dir --save no/such/folder",
  };
  WriteText(folder + "/bad.yaml", "schedule: {file: bad.sched, P: 2, M: 4}\n");
  for (const char* const command : commands) {
    EXPECT_NE(RunToolIn(folder, Words(command)).status, 0) << command;
    EXPECT_FALSE(fs::exists(folder + "/no")) << command;
    fs::remove_all(folder + "/no");
  }
}

// A process that writes the same file again and again is stopped in the middle of a write.
TEST(WriteFileTest, ASignalLeavesNoHalfOfAFile) {
  for (const int number : {SIGINT, SIGTERM}) {
    const std::string folder = absl::StrCat(ScratchFolder(), "/stopped_by_", number);
    const std::string path = folder + "/page.html", text(30'000'000, 'x');
    const pid_t writer = fork();
    if (writer == 0) {
      signal(number, SIG_DFL);
      while (WriteFileAtomically(path, text).ok()) continue;
      _exit(1);
    }
    while (!fs::exists(path)) std::this_thread::yield();
    kill(writer, number);
    int status = 0;
    waitpid(writer, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"page.html"});
    EXPECT_EQ(fs::file_size(path), text.size());
    fs::remove_all(folder);
  }
}

TEST(WriteFileTest, ADeviceWithoutRoomIsSaid) {
  const absl::Status status = WriteFileAtomically("/dev/full", "some text");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "/dev/full: cannot be written: No space left on device");
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "some text").ok());
}

TEST(WriteFileTest, WhatCannotBeReplacedIsSaid) {
  const std::string folder = ScratchFolder() + "/replaced";
  fs::create_directories(folder + "/taken/inside");
  const absl::Status taken = WriteFileAtomically(folder + "/taken", "text");
  EXPECT_EQ(taken.message(), folder + "/taken: cannot be written: Is a directory");
  EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"taken"});
  WriteText(folder + "/file", "text");
  EXPECT_EQ(WriteFileAtomically(folder + "/file/inside", "text").code(),
            absl::StatusCode::kUnavailable);
}

// Every file that the tool writes itself.
TEST(WriteFileTest, TheToolEndsWithAnErrorWhereItCannotWrite) {
  const std::string folder = ScratchFolder();
  const std::string schedule = SourceFolder() + "/schedules/1f1b.sched";
  for (const char* const command :
       {"sim IT P=2 M=4 --timeline /dev/full", "sim IT M=4 --for P=2..4 --plot /dev/full",
        "show IT P=2 M=4 --svg /dev/full", "show IT P=2 M=4 --html /dev/full",
        "show IT P=2 M=4 --perfetto /dev/full", "show IT P=2 M=4 --chrome /dev/full",
        "export IT P=2 M=4 --to torch-compute --out /dev/full",
        "rehearse IT P=2 M=4 --cost F=10,B=20 --steps 1 --timeline /dev/full"}) {
    std::vector<std::string> words = Words(command);
    words[1] = schedule;
    const Answer answer = RunToolIn(folder, words);
    EXPECT_EQ(answer.status, 2) << command;
    EXPECT_EQ(answer.err, "stringline: /dev/full: cannot be written: No space left on device\n")
        << command << "\n"
        << answer.out;
  }
}

TEST(WriteFileTest, StandardOutputWithoutRoomIsSaid) {
  const std::string folder = ScratchFolder();
  const std::string schedule = SourceFolder() + "/schedules/1f1b.sched";
  const int status = std::system(absl::StrCat(STRINGLINE_TOOL " plan ", schedule,
                                              " P=2 M=4 > /dev/full 2> '", folder, "/said.txt'")
                                     .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(ReadText(folder + "/said.txt"), "stringline: standard output could not be written\n");
}

// No test finds files of another one in its scratch folder, in whatever order they run.
class ScratchFolderTest : public testing::TestWithParam<int> {};
TEST_P(ScratchFolderTest, IsEmptyForEachTest) {
  const std::string folder = ScratchFolder();
  EXPECT_TRUE(fs::is_empty(folder)) << folder;
  WriteText(folder + "/left.txt", "left behind");
  EXPECT_EQ(ScratchFolder(), folder);
}
INSTANTIATE_TEST_SUITE_P(InTurn, ScratchFolderTest, testing::Range(0, 2));

}  // namespace
}  // namespace stringline
