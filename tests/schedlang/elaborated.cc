#include "tests/schedlang/elaborated.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stringline {

std::string Elaborated(const std::string& text, const std::vector<Parameter>& parameters,
                       const ElaborateLimits& limits, const std::string& schedule) {
  Source source("x.sched", text);
  Diagnostics diagnostics;
  const auto file = ParseWithUses(&source, UsedFrom("schedules"), &diagnostics);
  std::optional<Plan> plan;
  if (file) plan = Elaborate(*file, schedule, parameters, &diagnostics, limits);
  EXPECT_EQ(plan.has_value(), diagnostics.empty()) << text;
  return plan ? Print(*plan) : Render(diagnostics, source);
}

ReadUsed UsedFrom(const std::string& folder) {
  return [folder](const std::string& name, const std::string& user) -> absl::StatusOr<Source> {
    const std::string path = PathBeside(name, user);
    const auto bytes =
        ReadBytes(absl::StrCat(STRINGLINE_SOURCE_DIR, "/", folder, "/", path), 1 << 20);
    if (!bytes.ok()) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    return Source(path, *bytes);
  };
}

std::vector<Parameter> ParametersOf(const std::string& text) {
  std::vector<Parameter> parameters;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts.second, &value)) << text;
    parameters.push_back({parts.first, value});
  }
  return parameters;
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream in(absl::StrCat(STRINGLINE_SOURCE_DIR, "/", path), std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace stringline
