// The bugs of tests/mutants still fit the sources, and tools/mutants names any bug that does not.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

// The exit status of tools/mutants, and all of its output.
Answer Mutants(const std::string& arguments) {
  const std::string said = ScratchFolder() + "/mutants.txt";
  const int status = std::system(
      absl::StrCat("'", SourceFolder(), "/tools/mutants' ", arguments, " > '", said, "' 2>&1")
          .c_str());
  Answer answer;
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  answer.out = ReadText(said);
  return answer;
}

bool PythonIsThere() { return std::system("python3 --version > /dev/null 2>&1") == 0; }

TEST(MutantsTest, EveryBugFitsTheSourcesAndNamesItsTest) {
  if (!PythonIsThere()) GTEST_SKIP() << "python3 is missing";
  const Answer answer = Mutants("--check");
  EXPECT_EQ(answer.status, 0) << answer.out;
  EXPECT_NE(answer.out.find(" bugs fit the sources\n"), std::string::npos) << answer.out;
}

struct BadMutant {
  const char* text;
  const char* says;
};

constexpr const char* kGoodMutant =
    "mutant one: it is one\nin tools/io/json.h\n- #pragma once\n+ #pragma twice\n"
    "by tools_test MutantsTest.*\n";

const BadMutant kBadMutants[] = {
    {"mutant one: it\nin tools/no.h\n- a\n+ b\nby tools_test MutantsTest.*\n",
     "one: there is no file tools/no.h"},
    {"mutant one: it\nin tools/io/json.h\n- #pragma thrice\n+ b\nby tools_test MutantsTest.*\n",
     "one: its old text stands 0 times in tools/io/json.h, not once"},
    {"mutant one: it\nin tools/io/json.h\n- #include\n+ b\nby tools_test MutantsTest.*\n",
     " times in tools/io/json.h, not once"},
    {"mutant one: it\nin tools/io/json.h\n- #pragma once\n+ #pragma once\nby tools_test "
     "MutantsTest.*\n",
     "one: it changes nothing"},
    {"mutant one: it\nin tools/io/json.h\n- #pragma once\n+ b\nby no_test MutantsTest.*\n",
     "one: there is no test binary 'no_test'"},
    {"mutant one: it\nin tools/io/json.h\n- #pragma once\n+ b\nby tools_test MutantsTest.Missing\n",
     "one: there is no test MutantsTest.Missing"},
    {"in tools/io/json.h\n", "bad.mutants:1: expected 'mutant NAME: what it does'"},
    {"mutant one: it\nof tools/io/json.h\n",
     "bad.mutants:2: expected one of: mutant, in, -, +, by"},
};

TEST(MutantsTest, ABugThatDoesNotFitIsSaid) {
  if (!PythonIsThere()) GTEST_SKIP() << "python3 is missing";
  const std::string path = ScratchFolder() + "/bad.mutants";
  const std::string from = absl::StrCat("--check --from '", path, "'");
  WriteText(path, kGoodMutant);
  EXPECT_EQ(Mutants(from).out, "1 bugs fit the sources\n");
  WriteText(path, absl::StrCat(kGoodMutant, kGoodMutant));
  EXPECT_NE(Mutants(from).out.find("one: another one has its name"), std::string::npos);
  for (const BadMutant& bad : kBadMutants) {
    WriteText(path, bad.text);
    const Answer answer = Mutants(from);
    EXPECT_EQ(answer.status, 1) << bad.text << answer.out;
    EXPECT_NE(answer.out.find(bad.says), std::string::npos) << bad.text << answer.out;
  }
  EXPECT_EQ(Mutants("no_such_bug").status, 1);
}

TEST(MutantsTest, ListSaysWhatEachDoes) {
  if (!PythonIsThere()) GTEST_SKIP() << "python3 is missing";
  const Answer answer = Mutants("--list training");
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.out.find("training   never_clips: gradients are never clipped\n"),
            std::string::npos)
      << answer.out;
}

}  // namespace
}  // namespace stringline
