// Every finding of the program has a file that shows it: tests/golden/errors/SLUG.*, or a
// SLUG.golden whose first command does.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "schedlang/base/diagnostics.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

// The file's command, with --json, on the file itself.
Answer RunWithJson(const std::string& folder, const std::string& file) {
  const std::string text = ReadText(folder + "/" + file);
  std::vector<std::string> words = Words(text.substr(0, text.find('\n')));
  EXPECT_GE(words.size(), 2u) << file << " begins with its command, as: # check P=2 M=2";
  if (words.size() < 2) return {};
  const bool names_its_file = std::filesystem::path(file).extension() == ".golden";
  std::vector<std::string> args(words.begin() + 1, words.end());
  if (!names_its_file) args.insert(args.begin() + 1, file);
  args.push_back("--json");
  return RunToolIn(names_its_file ? SourceFolder() : folder, args);
}

TEST(CodesTest, EveryCodeHasAFileThatShowsIt) {
  const std::string folder = SourceFolder() + "/tests/golden/errors";
  for (const CodeRow& row : AllCodes()) {
    int shown = 0;
    for (const char* const extension : {".sched", ".plan", ".timeline", ".golden"}) {
      const std::string file = std::string(row.slug) + extension;
      if (!std::filesystem::exists(folder + "/" + file)) continue;
      ++shown;
      const Answer answer = RunWithJson(folder, file);
      // Faults of the command line come before any finding.
      const bool usage = row.code == Code::kMissingParameter || row.code == Code::kUnknownParameter;
      EXPECT_EQ(answer.status, usage ? 2 : 1) << file;
      if (usage) continue;
      const auto json = nlohmann::json::parse(answer.out, nullptr, false);
      ASSERT_TRUE(json.is_object()) << file << ": " << answer.out;
      EXPECT_EQ(json["ok"], false) << file;
      ASSERT_FALSE(json["findings"].empty()) << file;
      EXPECT_EQ(json["findings"][0]["code"], row.slug) << file;
      EXPECT_GE(json["findings"][0]["line"], 1) << file;
    }
    EXPECT_GE(shown, 1) << "no tests/golden/errors/" << row.slug << ".sched shows '" << row.meaning
                        << "'";
  }
}

TEST(CodesTest, SlugsAreWordsAndDiffer) {
  std::set<std::string> slugs;
  for (const CodeRow& row : AllCodes()) {
    EXPECT_TRUE(slugs.insert(row.slug).second) << row.slug;
    EXPECT_STREQ(SlugOf(row.code), row.slug);
    for (const char c : std::string(row.slug)) {
      EXPECT_TRUE(std::islower(static_cast<unsigned char>(c)) || c == '-') << row.slug;
    }
  }
}

}  // namespace
}  // namespace stringline
