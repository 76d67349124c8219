#include "tests/tools/tool_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tools/commands/command.h"

namespace stringline {

Answer RunToolIn(const std::string& folder, const std::vector<std::string>& args) {
  setenv("COLUMNS", "100", 1);
  unsetenv("COLORTERM");
  std::filesystem::current_path(folder);
  std::ostringstream out;
  std::ostringstream err;
  Answer answer;
  answer.status = RunTool(args, out, err);
  answer.out = out.str();
  answer.err = err.str();
  return answer;
}

std::vector<std::string> Words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

size_t Width(const std::string& line) {
  return std::count_if(line.begin(), line.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string SourceFolder() { return STRINGLINE_SOURCE_DIR; }

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " cannot be read";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  ASSERT_TRUE(file.flush()) << path << " cannot be written";
}

bool UpdatesGolden() {
  const char* const wish = std::getenv("UPDATE_GOLDEN");
  return wish != nullptr && std::string(wish) == "1";
}

namespace {

// A folder for each test, numbered in order; gone when the process ends.
struct TemporaryFolder {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stringline-test-" + std::to_string(getpid()));
  TemporaryFolder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// The running test's name, or "" outside of tests.
std::string TestName() {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  return test == nullptr ? "" : std::string(test->test_suite_name()) + "." + test->name();
}

}  // namespace

std::string ScratchFolder() {
  static const TemporaryFolder folder;
  static std::map<std::string, int> numbers;
  const int next = static_cast<int>(numbers.size());
  const int number = numbers.try_emplace(TestName(), next).first->second;
  const std::filesystem::path path = folder.path / std::to_string(number);
  std::filesystem::create_directories(path);
  return path.string();
}

}  // namespace stringline
