// "-" is standard output for every option that names a file to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/tool_run.h"
#include "tools/answers/exports.h"

namespace stringline {
namespace {

Answer Tool(const std::string& words) { return RunToolIn(SourceFolder(), Words(words)); }

TEST(StandardOutputTest, HoldsTheFileAndNothingElse) {
  const std::string path = ScratchFolder() + "/written";
  for (const char* const command :
       {"sim 1f1b P=2 M=4 --timeline FILE", "show 1f1b P=2 M=4 --svg FILE",
        "show 1f1b P=2 M=4 --html FILE", "show 1f1b P=2 M=4 --perfetto FILE",
        "show 1f1b P=2 M=4 --chrome FILE", "compare 1f1b zb_h1 P=2 M=4 --svg FILE",
        "compare 1f1b P=2 M=4 -- zb_h1 --html FILE", "sim 1f1b P=2 --for M=2..4 --plot FILE",
        "export zb_v P=2 M=4 --to torch-compute --out FILE",
        "import tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv --out FILE",
        "import examples/05_torch/traced --out FILE",
        "calibrate tests/golden/show/measured.timeline --out FILE"}) {
    const Answer file = Tool(absl::StrReplaceAll(command, {{"FILE", path}}));
    ASSERT_EQ(file.status, 0) << command << file.err;
    const Answer piped = Tool(absl::StrReplaceAll(command, {{"FILE", "-"}}));
    EXPECT_EQ(piped.status, 0) << command << piped.err;
    EXPECT_EQ(piped.out, ReadText(path)) << command;
    // The usual standard output moves to standard error.
    EXPECT_EQ(piped.err, file.out) << command;
  }
}

TEST(StandardOutputTest, IsOne) {
  for (const auto& [command, message] : {
           std::pair("show 1f1b P=2 M=4 --svg - --html -",
                     "--html -: --svg writes to standard output; name a file"),
           {"sim 1f1b P=2 M=4 --timeline - --json",
            "--timeline -: --json writes to standard output; name a file"},
           {"compare 1f1b P=2 M=4 --svg - -- zb_h1 --chrome -",
            "--chrome -: --svg writes to standard output; name a file"},
           {"run examples/01_train/run.yaml --out -",
            "--out -: a folder cannot be standard output"},
           {"run examples/01_train/run.yaml --save -",
            "--save -: a folder cannot be standard output"},
           {"show 1f1b P=2 M=4 --picture -",
            "--picture -: the ending says the format: .pdf, .png or .svg"},
       }) {
    const Answer answer = Tool(command);
    EXPECT_EQ(answer.status, 2) << command;
    EXPECT_NE((answer.out + answer.err).find(message), std::string::npos)
        << command << answer.out << answer.err;
  }
}

// Every output of a command can be the input of another command.
TEST(StandardOutputTest, IsTheNextOnesInput) {
  const auto said_by = [](const std::string& commands) {
    const std::string path = ScratchFolder() + "/said";
    const std::string line =
        absl::StrCat("cd '", SourceFolder(), "' && (",
                     absl::StrReplaceAll(commands, {{"TOOL", STRINGLINE_TOOL}, {"FOLDER", path}}),
                     ") > '", path, "' 2> /dev/null");
    EXPECT_EQ(std::system(line.c_str()), 0) << commands;
    return ReadText(path);
  };
  for (const auto& [piped, alone] : {
           std::pair("TOOL plan zb_v P=2 M=4 | TOOL show -", "TOOL show zb_v P=2 M=4"),
           {"TOOL plan zb_v P=2 M=4 | TOOL sim -", "TOOL sim zb_v P=2 M=4"},
           {"TOOL sim zb_v P=2 M=4 --timeline - | TOOL show -", "TOOL show zb_v P=2 M=4"},
           {"cat examples/07_mixture_of_experts/costs.yaml | TOOL sim dualpipe_v P=2 M=4 --costs -",
            "TOOL sim dualpipe_v P=2 M=4 --costs examples/07_mixture_of_experts/costs.yaml"},
           {"cat schedules/zb_v.sched | TOOL show - P=2 M=4", "TOOL show zb_v P=2 M=4"},
           {"TOOL export zb_v P=2 M=4 --to torch-compute --out - | TOOL import - | tail -n +2",
            "TOOL export zb_v P=2 M=4 --to torch-compute > FOLDER.csv; TOOL import FOLDER.csv | "
            "tail -n +2"},
       }) {
    EXPECT_EQ(said_by(piped), said_by(alone)) << piped;
  }
}

// A file that might fill a disk needs --force.
TEST(StandardOutputTest, LargeFilesAreForced) {
  const std::string path = ScratchFolder() + "/large.json";
  const std::string many = "show 1f1b P=2 M=90000 --chrome ";
  const Answer refused = Tool(many + path);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, absl::StrCat("stringline: --chrome ", path,
                                      ": it would have at least 100 MB; --force writes it all the "
                                      "same, smaller P and M make it smaller\n"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(Tool(many + "/dev/null --force").status, 0);
}

// The size estimate that refuses a file is a lower bound of the file's size.
TEST(StandardOutputTest, TheLeastSizeIsOne) {
  const std::string path = ScratchFolder() + "/sized";
  for (const char* const step : {"1f1b P=2 M=2", "1f1b P=4 M=2000", "dualpipe_v P=8 M=200"}) {
    const std::string timeline = Tool(absl::StrCat("sim ", step, " --timeline -")).out;
    const auto events = static_cast<size_t>(std::count(timeline.begin(), timeline.end(), '@'));
    for (const LargeFile& file : kLargeFiles) {
      ASSERT_EQ(Tool(absl::StrCat("show ", step, " --", file.field, " ", path)).status, 0);
      EXPECT_GE(ReadText(path).size(), events * file.least_bytes_per_event) << step << file.field;
    }
  }
}

TEST(StandardOutputTest, PicturesAreOfTheFormatOfTheirEnding) {
  const std::string folder = ScratchFolder();
  const auto draw = [&folder](const std::string& file) {
    const Answer answer = Tool(absl::StrCat("show 1f1b P=2 M=4 --picture ", folder, "/", file));
    if (answer.status == 0) return ReadText(folder + "/" + file);
    // Without librsvg the message names the library and the remedy.
    EXPECT_NE(answer.err.find("librsvg"), std::string::npos) << answer.err;
    EXPECT_NE(answer.err.find("or write an .svg"), std::string::npos) << answer.err;
    return std::string();
  };
  EXPECT_EQ(draw("x.svg").substr(0, 4), "<svg");
  const std::string pdf = draw("x.pdf"), png = draw("x.PNG");
  EXPECT_EQ(pdf.empty(), png.empty());
  if (pdf.empty()) GTEST_SKIP() << "no librsvg";
  EXPECT_EQ(pdf.substr(0, 5), "%PDF-");
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  // 720 points at 192 pixels an inch, behind the header's name: 1920 wide.
  EXPECT_EQ(png.substr(16, 4), std::string("\0\0\x07\x80", 4));
  EXPECT_EQ(Tool("show 1f1b P=2 M=4 --picture x.gif").status, 2);
}

}  // namespace
}  // namespace stringline
