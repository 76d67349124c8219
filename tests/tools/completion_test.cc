// Completions and the manual page name every command and every option that --help has. bash runs
// its script here; zsh, fish and man read theirs if they are installed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/costs/cost_keys.h"
#include "tests/tools/tool_run.h"
#include "tools/answers/manual.h"
#include "tools/commands/command.h"

namespace stringline {
namespace {

std::string ScriptFor(const std::string& shell) {
  const Answer answer = RunToolIn(ScratchFolder(), {"completion", shell});
  EXPECT_EQ(answer.status, 0) << answer.err;
  return answer.out;
}

bool HasProgram(const std::string& program) {
  return std::system(absl::StrCat("command -v ", program, " > /dev/null 2>&1").c_str()) == 0;
}

// The exit status of a shell's command line in the scratch folder; *out is its output.
int Shell(const std::string& line, std::string* out) {
  const std::string file = ScratchFolder() + "/printed";
  const int status =
      std::system(absl::StrCat("cd ", ScratchFolder(), " && (", line, ") > printed 2>&1").c_str());
  *out = ReadText(file);
  return status;
}

// The words that bash offers for a cursor behind `line`, whose last word is unfinished.
std::vector<std::string> Offered(const std::string& line) {
  WriteText(ScratchFolder() + "/stringline.bash", ScriptFor("bash"));
  // As bash cuts words: '=' is a word.
  std::vector<std::string> words;
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    const std::vector<std::string> parts = absl::StrSplit(word, '=');
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) words.push_back("=");
      if (parts.size() == 1 || !parts[i].empty()) words.push_back(parts[i]);
    }
  }
  const std::string quoted = absl::StrJoin(
      words, " ",
      [](std::string* out, const std::string& word) { absl::StrAppend(out, "'", word, "'"); });
  WriteText(ScratchFolder() + "/complete.sh",
            absl::StrCat("compopt() { :; }\n. ./stringline.bash\nCOMP_WORDS=(", quoted,
                         ")\nCOMP_CWORD=", words.size() - 1,
                         "\n_stringline\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"));
  std::string printed;
  EXPECT_EQ(Shell("bash -u complete.sh", &printed), 0) << printed;
  return absl::StrSplit(printed, '\n', absl::SkipEmpty());
}

using Offers = std::vector<std::string>;

bool HasWord(const Offers& offers, const std::string& word) {
  return std::find(offers.begin(), offers.end(), word) != offers.end();
}

TEST(CompletionTest, BashOffersCommandsAndTheirOptions) {
  Offers expected;
  for (const Command& command : Commands()) expected.push_back(command.name);
  expected.insert(expected.end(), {"--help", "--version"});
  EXPECT_EQ(Offered("stringline "), expected);
  EXPECT_EQ(Offered("stringline ch"), Offers({"check"}));
  for (const Command& command : Commands()) {
    Offers options;
    for (const OptionRow& option : OptionsOf(command)) {
      for (const std::string& name : option.names) {
        if (absl::StartsWith(name, "--")) options.push_back(name);
      }
    }
    EXPECT_EQ(Offered(absl::StrCat("stringline ", command.name, " --")), options) << command.name;
  }
}

TEST(CompletionTest, BashOffersValues) {
  EXPECT_EQ(Offered("stringline show 1f1b --palette "), Offers({"color", "grey"}));
  EXPECT_EQ(Offered("stringline show 1f1b --palette g"), Offers({"grey"}));
  EXPECT_EQ(Offered("stringline show 1f1b --palette=g"), Offers({"grey"}));
  EXPECT_EQ(Offered("stringline show 1f1b --palette="), Offers({"color", "grey"}));
  EXPECT_EQ(Offered("stringline search --kinds "), Offers({"F,B", "F,I,W", "F,B,I,W"}));
  EXPECT_EQ(Offered("stringline check 1f1b --layout s"), Offers({"shared"}));
  EXPECT_EQ(Offered("stringline completion "), Offers({"bash", "zsh", "fish"}));
  EXPECT_EQ(Offered("stringline check --activations "), Offers());
  EXPECT_EQ(Offered("stringline man "), Offers());
}

TEST(CompletionTest, BashOffersFilesAndTheLibrary) {
  WriteText(ScratchFolder() + "/zb_mine.sched", "");
  std::string made;
  ASSERT_EQ(Shell("mkdir -p zb_folder", &made), 0);
  const Offers schedules = Offered("stringline check zb");
  for (const char* const word : {"zb_mine.sched", "zb_folder", "zb_h1", "zb_h2", "zb_v"}) {
    EXPECT_TRUE(HasWord(schedules, word)) << word;
  }
  EXPECT_EQ(schedules.size(), 5u);
  // A run file, a page, a folder are no schedules.
  EXPECT_EQ(Offered("stringline run zb_m"), Offers({"zb_mine.sched"}));
  EXPECT_EQ(Offered("stringline run zb_h"), Offers());
  EXPECT_EQ(Offered("stringline check 1f1b --costs zb_h"), Offers());
  EXPECT_EQ(Offered("stringline run x.yaml --out zb"), Offers({"zb_folder"}));
}

// Scripts without a shell: each has every command and every option.
TEST(CompletionTest, NoOptionIsMissing) {
  const std::string zsh = ScriptFor("zsh"), fish = ScriptFor("fish");
  for (const Command& command : Commands()) {
    const std::string fish_command =
        absl::StrCat("complete -c stringline -n '__fish_seen_subcommand_from ", command.name, "'");
    const size_t begin = zsh.find(absl::StrCat("\n    ", command.name, ")\n      _arguments"));
    ASSERT_NE(begin, std::string::npos) << command.name;
    const std::string own = zsh.substr(begin, zsh.find(";;", begin) - begin);
    for (const OptionRow& option : OptionsOf(command)) {
      for (const std::string& name : option.names) {
        const bool is_long = absl::StartsWith(name, "--");
        EXPECT_TRUE(absl::StrContains(own, absl::StrCat("'*", name, "=[")) ||
                    absl::StrContains(own, absl::StrCat("'*", name, "[")))
            << command.name << name;
        const std::string flag =
            absl::StrCat(is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1), " ");
        bool is_there = false;
        for (const std::string& line : Lines(fish)) {
          is_there =
              is_there || (absl::StartsWith(line, fish_command) && absl::StrContains(line, flag));
        }
        EXPECT_TRUE(is_there) << command.name << name;
      }
    }
  }
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    EXPECT_TRUE(absl::StrContains(zsh, schedule.name)) << schedule.name;
    EXPECT_TRUE(absl::StrContains(fish, schedule.name)) << schedule.name;
  }
  const Answer answer = RunToolIn(ScratchFolder(), {"completion", "csh"});
  EXPECT_EQ(answer.status, 2);
  EXPECT_TRUE(absl::StrContains(answer.err, "csh not in {bash,zsh,fish}")) << answer.err;
}

TEST(CompletionTest, ZshReadsItsScript) {
  if (!HasProgram("zsh")) GTEST_SKIP() << "no zsh";
  WriteText(ScratchFolder() + "/_stringline", ScriptFor("zsh"));
  std::string printed;
  EXPECT_EQ(Shell("zsh -f -c 'autoload -Uz compinit; compinit -D -u; . ./_stringline; "
                  "print ${_comps[stringline]}'",
                  &printed),
            0)
      << printed;
  EXPECT_EQ(printed, "_stringline\n");
}

TEST(CompletionTest, FishOffers) {
  if (!HasProgram("fish")) GTEST_SKIP() << "no fish";
  WriteText(ScratchFolder() + "/stringline.fish", ScriptFor("fish"));
  const auto offered = [](const std::string& line) {
    std::string printed;
    EXPECT_EQ(Shell(absl::StrCat("HOME=$PWD fish --no-config -c 'source stringline.fish; complete "
                                 "-C \"",
                                 line, "\"'"),
                    &printed),
              0)
        << printed;
    Offers words;
    for (const std::string& row : Lines(printed)) words.push_back(row.substr(0, row.find('\t')));
    return words;
  };
  EXPECT_EQ(offered("stringline chec"), Offers({"check"}));
  EXPECT_EQ(offered("stringline show 1f1b --palette "), Offers({"color", "grey"}));
  EXPECT_TRUE(HasWord(offered("stringline show --"), "--microbatches"));
  EXPECT_TRUE(HasWord(offered("stringline show zb_"), "zb_v"));
  EXPECT_FALSE(HasWord(offered("stringline check --"), "--html"));
}

TEST(ManualTest, HasEveryCommandOptionAndCost) {
  const Answer answer = RunToolIn(ScratchFolder(), {"man"});
  ASSERT_EQ(answer.status, 0);
  const std::string& page = answer.out;
  EXPECT_TRUE(absl::StartsWith(page, ".TH STRINGLINE 1 "));
  const auto escaped = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"-", "\\-"}});
  };
  size_t at = page.find(".SH COMMANDS");
  for (const Command& command : Commands()) {
    const size_t begin = page.find(absl::StrCat("\n.SS ", command.name, "\n"), at);
    ASSERT_NE(begin, std::string::npos) << command.name;  // in the order of the table
    at = begin + 1;
    const std::string own = page.substr(begin, page.find("\n.S", at) - begin);
    for (const OptionRow& option : OptionsOf(command)) {
      for (const std::string& name : option.names) {
        EXPECT_TRUE(absl::StrContains(own, escaped(name))) << command.name << " " << name;
      }
    }
  }
  for (const CostKey& key : CostKeys()) {
    EXPECT_TRUE(absl::StrContains(page, absl::StrCat("\\fB", escaped(key.name), "\\fR")))
        << key.name;
  }
  // Only ASCII, and no text is taken for a command: each line that begins with a dot is a command
  // of ours.
  for (const std::string& line : Lines(page)) {
    for (const char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) < 0x80) << line;
    if (line.empty() || line[0] != '.') continue;
    const std::string macro = line.substr(0, line.find(' '));
    const std::set<std::string> ours = {".TH", ".SH", ".SS", ".TP", ".PP",
                                        ".RS", ".RE", ".nf", ".fi"};
    EXPECT_EQ(ours.count(macro), 1u) << line;
  }
}

// Text stays text, with any first character.
TEST(ManualTest, TextIsNeverACommandOfTroff) {
  const Command command = {"odd",
                           "back\\slash - dash",
                           "",
                           "stringline odd",
                           kNoFile | kNoJson,
                           nullptr,
                           ".so /etc/passwd\n'nf\n\xe2\x80\xa6"};
  const std::string page = ManualPage({&command, 1}, "0.1.0");
  EXPECT_TRUE(absl::StrContains(page, "\nback\\eslash \\- dash.\n")) << page;
  EXPECT_TRUE(absl::StrContains(page, "\n\\&.so /etc/passwd\n\\&\\(aqnf\n\\[u2026]\n")) << page;
}

TEST(ManualTest, GroffHasNothingToSay) {
  if (!HasProgram("groff")) GTEST_SKIP() << "no groff";
  WriteText(ScratchFolder() + "/stringline.1", RunToolIn(ScratchFolder(), {"man"}).out);
  std::string warnings, text;
  EXPECT_EQ(Shell("groff -man -ww -Tutf8 -z stringline.1", &warnings), 0);
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(Shell("groff -man -Tutf8 -P-cbou stringline.1", &text), 0);
  EXPECT_TRUE(absl::StrContains(text, "--microbatches RANGE")) << text.substr(0, 2000);
}

}  // namespace
}  // namespace stringline
