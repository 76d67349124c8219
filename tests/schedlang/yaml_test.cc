// YAML texts: a document of plain maps, lists and words, or a message with its line.
#include "schedlang/base/yaml.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

TEST(Yaml, ReadsWhatFilesSay) {
  const char* const texts[] = {
      "a: {b: 1, c: [1, 2]}\n",
      "# a comment\n---\na: {b: 1, c: [1, 2]}\n...\n",
      "%YAML 1.2\n---\na:\n  b: '1'\n  c:\n    - 1\n    - \"2\"\n",
  };
  for (const char* const text : texts) {
    const auto root = LoadYaml(Source("x.yaml", text));
    ASSERT_TRUE(root.ok()) << text << root.status();
    EXPECT_EQ((*root)["a"]["b"].Scalar(), "1") << text;
    EXPECT_EQ((*root)["a"]["c"][1].Scalar(), "2") << text;
  }
}

struct BadYaml {
  std::string text;
  const char* says;
};

std::string Repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

std::string Deeper(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) absl::StrAppend(&text, std::string(i, ' '), "a:\n");
  return text;
}

TEST(Yaml, WhatIsNotUnderstoodIsRefused) {
  const BadYaml bad[] = {
      {"", "x.yaml: the file says nothing"},
      {"# only a comment\n\n", "x.yaml: the file says nothing"},
      {"a: 1\n---\nb: 2\n", "x.yaml:2: a second document begins here; only one is read"},
      {"a: 1\n...\n---\nb: 2\n", "x.yaml:3: a second document begins here; only one is read"},
      {"a: 1\nb: &x 2\nc: *x\n", "x.yaml:2: an anchor ('&'); leave it out"},
      {"a: 1\nb: &x {c: 1}\n", "x.yaml:2: an anchor ('&'); leave it out"},
      {"a: &x\n", "x.yaml:1: an anchor ('&'); leave it out"},
      {"a: 1\nb: *x\n", "x.yaml:2: "},
      {"a: !!int 1\n", "x.yaml:1: a tag ('tag:yaml.org,2002:int'); leave it out"},
      {"a: !mine [1]\n", "x.yaml:1: a tag ('!mine'); leave it out"},
      {"a: {<<: {b: 1}}\n", "x.yaml:1: a merge key ('<<'); write its keys out"},
      {"a: 1\nb: [1\n", "x.yaml:3: "},
      {"a: 1\n\tb: 2\n", "x.yaml:2: "},
      {"a: " + Repeated("[", 17) + Repeated("]", 17), "x.yaml:1: nested too deep"},
      {Deeper(20), "x.yaml:17: nested too deep"},
      {Repeated("[", 100'000), "x.yaml:1: "},
      {Repeated("- ", 100'000), "x.yaml:1: "},
      {Repeated("? ", 100'000), "x.yaml:1: "},
      {Repeated("{a: ", 100'000), "x.yaml:1: "},
  };
  for (const BadYaml& one : bad) {
    const auto root = LoadYaml(Source("x.yaml", one.text));
    ASSERT_FALSE(root.ok()) << one.text.substr(0, 100);
    EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(root.status().message().find(one.says), 0u) << one.text.substr(0, 100) << "\n"
                                                          << root.status();
  }
}

}  // namespace
}  // namespace stringline
