// Every option of a picture with every kind of output: the option changes the output, or is refused
// by name.
#include "tools/io/picture_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/fields.h"
#include "tests/tools/tool_run.h"
#include "tools/commands/command.h"
#include "tools/io/output.h"

namespace stringline {
namespace {

const Command& ShowCommand() {
  for (const Command& command : Commands()) {
    if (std::string(command.name) == "show") return command;
  }
  ADD_FAILURE() << "there is no command show";
  return Commands()[0];
}

// "--width", and "--svg" or "the terminal".
std::string OptionOf(const PictureOption& option) { return AsOption({option.name, "", ""}); }
std::string OptionOf(PictureOutput output) { return WithOptions(NameOf(output)); }

// The option as written, with a value for options that take one.
std::string Written(const PictureOption& option) {
  const std::map<std::string, std::string> values = {
      {"--width", "--width 300"},    {"--ranks", "--ranks 1..2"},
      {"--time", "--time 1..20us"},  {"--microbatches", "--microbatches 0..3"},
      {"--color", "--color always"}, {"--palette", "--palette grey"}};
  const auto found = values.find(OptionOf(option));
  return found == values.end() ? OptionOf(option) : found->second;
}

// "--svg x.svg"; "" for the terminal.
std::string Asked(PictureOutput output, const std::string& path) {
  if (output == PictureOutput::kTerminal) return "";
  if (output == PictureOutput::kJson) return " --json";
  const std::string ending = output == PictureOutput::kPicture ? ".svg" : ".out";
  return absl::StrCat(" ", OptionOf(output), " ", path, ending);
}

// The answer's text, or the file.
std::string Result(PictureOutput output, const Answer& answer, const std::string& path) {
  const bool is_file = output != PictureOutput::kTerminal && output != PictureOutput::kJson;
  if (!is_file) return answer.out;
  const std::string file = path + (output == PictureOutput::kPicture ? ".svg" : ".out");
  const std::string text = ReadText(file);
  std::filesystem::remove(file);
  return text;
}

constexpr const char* kShownStep = "show zb_v P=4 M=16 --cost F=10,I=10,W=10,p2p=2";

TEST(PictureOptionsTest, EveryPairIsPerformedOrRefused) {
  const std::string path = ScratchFolder() + "/pair";
  int performed = 0, refused = 0;
  for (int o = 0; o < kPictureOutputs; ++o) {
    const auto output = static_cast<PictureOutput>(o);
    const std::string line = kShownStep + Asked(output, path);
    const Answer usual = RunToolIn(SourceFolder(), Words(line));
    ASSERT_EQ(usual.status, 0) << line << usual.err;
    const std::string without = Result(output, usual, path);
    for (const PictureOption& option : PictureOptions()) {
      const std::string with = absl::StrCat(line, " ", Written(option));
      const Answer answer = RunToolIn(SourceFolder(), Words(with));
      if (option.GoesWith(output)) {
        ++performed;
        ASSERT_EQ(answer.status, 0) << with << answer.err;
        const std::string changed = Result(output, answer, path);
        // Nothing here is large enough to need --force.
        if (OptionOf(option) == "--force") {
          EXPECT_TRUE(changed == without) << with << " changes the file";
        } else {
          EXPECT_TRUE(changed != without) << with << " changes nothing";
        }
        continue;
      }
      ++refused;
      EXPECT_EQ(answer.status, 2) << with;
      const std::string said = answer.out + answer.err;
      EXPECT_TRUE(absl::StrContains(
          said, absl::StrCat(OptionOf(option), " does not go with ", OptionOf(output), ", ")))
          << with << "\n"
          << said;
      EXPECT_FALSE(std::filesystem::exists(path + ".out")) << with;
      EXPECT_FALSE(std::filesystem::exists(path + ".svg")) << with;
    }
  }
  EXPECT_GT(performed, 20);
  EXPECT_GT(refused, 20);
}

// A single output that ignores an option is enough to refuse the option; the same for `compare`.
TEST(PictureOptionsTest, SeveralOutputs) {
  const std::string path = ScratchFolder() + "/several";
  for (const std::string& command :
       {std::string("show 1f1b P=2 M=4"), std::string("compare 1f1b zb_h1 P=2 M=4"),
        std::string("compare 1f1b P=2 M=4 -- zb_h1")}) {
    const std::string both = absl::StrCat(command, " --svg ", path, ".svg --html ", path, ".html");
    EXPECT_EQ(RunToolIn(SourceFolder(), Words(both)).status, 0) << both;
    std::filesystem::remove(path + ".svg");
    const Answer refused = RunToolIn(SourceFolder(), Words(both + " --palette grey"));
    EXPECT_EQ(refused.status, 2) << both;
    EXPECT_TRUE(absl::StrContains(refused.err, "--palette does not go with --html")) << refused.err;
    EXPECT_TRUE(absl::StrContains(refused.err, "it is for --svg and --picture")) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(path + ".svg"));
  }
}

// The table of tools/README.md equals the table in the code.
TEST(PictureOptionsTest, TheDocumentsTableIsTrue) {
  const std::vector<std::vector<PictureOutput>> columns = {
      {PictureOutput::kTerminal},
      {PictureOutput::kSvg, PictureOutput::kPicture},
      {PictureOutput::kHtml},
      {PictureOutput::kPerfetto, PictureOutput::kChrome},
      {PictureOutput::kJson}};
  const std::vector<std::string> lines = Lines(ReadText(SourceFolder() + "/tools/README.md"));
  size_t rows = 0;
  for (const PictureOption& option : PictureOptions()) {
    for (const std::string& line : lines) {
      if (!absl::StartsWith(line, "| `--") ||
          !absl::StrContains(line, absl::StrCat("`", OptionOf(option), "`"))) {
        continue;
      }
      const std::vector<std::string> cells = absl::StrSplit(line, '|');
      ASSERT_EQ(cells.size(), columns.size() + 3) << line;
      for (size_t c = 0; c < columns.size(); ++c) {
        for (const PictureOutput output : columns[c]) {
          EXPECT_EQ(cells[c + 2] == " yes ", option.GoesWith(output)) << option.name << line;
        }
      }
      ++rows;
    }
  }
  EXPECT_EQ(rows, PictureOptions().size());
}

// Each option of --help is an output, or has a row in the table.
TEST(PictureOptionsTest, NoOptionIsMissing) {
  std::set<std::string> known;
  for (const PictureOption& option : PictureOptions()) known.insert(OptionOf(option));
  for (int o = 1; o < kPictureOutputs; ++o) known.insert(OptionOf(static_cast<PictureOutput>(o)));
  Command pictures = ShowCommand();
  pictures.options = kPictureOptions;
  std::set<std::string> declared;
  for (const OptionRow& option : OptionsOf(pictures)) {
    for (const std::string& name : option.names) declared.insert(name);
  }
  declared.erase("-h");
  declared.erase("--help");
  EXPECT_EQ(declared, known);
}

}  // namespace
}  // namespace stringline
