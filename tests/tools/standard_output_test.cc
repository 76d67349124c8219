// "-" is standard output for every option that names a file to write.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/tool_run.h"

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
        "calibrate tests/golden/show/measured.timeline --out FILE"}) {
    const Answer file = Tool(absl::StrReplaceAll(command, {{"FILE", path}}));
    ASSERT_EQ(file.status, 0) << command << file.err;
    const Answer piped = Tool(absl::StrReplaceAll(command, {{"FILE", "-"}}));
    EXPECT_EQ(piped.status, 0) << command << piped.err;
    EXPECT_EQ(piped.out, ReadText(path)) << command;
    // What stood on standard output is on standard error.
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

TEST(StandardOutputTest, PicturesAreOfTheFormatOfTheirEnding) {
  const std::string folder = ScratchFolder();
  const auto draw = [&folder](const std::string& file) {
    const Answer answer = Tool(absl::StrCat("show 1f1b P=2 M=4 --picture ", folder, "/", file));
    if (answer.status == 0) return ReadText(folder + "/" + file);
    // A build, or a machine, without librsvg says so and what would help.
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
