// Building blocks of run files: sections of keys, each with a target and a range, and words beside
// them. Every error is InvalidArgument and names the file and the line.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/run/run_fields.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/plan/plan.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace stringline {

// The keys of a section. A section with `free` takes any other key as a whole number.
struct Section {
  const char* key;
  std::vector<Field> fields;
  std::vector<Parameter>* free = nullptr;
  bool required = true;
};

// A key whose value is a word, and its words, the default first.
struct WordChoice {
  const char* key;
  const char* words[5];  // fewer: null
};

std::vector<std::string> WordsOf(const WordChoice& choice);

// "; did you mean 'width'?", or "".
std::string DidYouMean(const std::string& key, const std::vector<std::string>& keys);
// "'model.ffn' is called 'model.hidden'", "unknown key 'model.widht'; did you mean 'width'?"
std::string WhyUnknown(const char* what, const std::string& whole, const std::string& key,
                       const std::vector<std::string>& keys);

class SectionReader {
 public:
  // Reads the file at `path`, which outlives the reader.
  explicit SectionReader(const std::string& path) : path_(path) {}

  const std::string& path() const { return path_; }
  absl::Status Complain(const YAML::Node& at, absl::string_view message) const;
  // ", got 'word'", or "" for a list or a map.
  static std::string Seen(const YAML::Node& node);

  // The word of a key; `seen` holds the earlier keys of the same map.
  absl::StatusOr<std::string> KeyOf(const YAML::Node& node, std::set<std::string>* seen) const;
  // All keys of a section into their targets.
  absl::Status ReadSection(const Section& section, const YAML::Node& node) const;
  // A whole number in the range of the field.
  absl::Status ReadInt(const std::string& name, const Field& field, const YAML::Node& node,
                       int* target) const;
  absl::Status InRange(const std::string& name, const Field& field, const YAML::Node& node,
                       double value) const;

  // The word of a key beside the sections; the first word if the key is missing.
  absl::StatusOr<int> WordBeside(const YAML::Node& root, const WordChoice& choice) const;
  // A key beside the sections with a time or a size.
  absl::Status TakeInUnit(const YAML::Node& root, const char* key, CostUnit unit,
                          int64_t* target) const;
  // The place of `word` among those of a key of the section.
  absl::StatusOr<int> ChooseWord(const YAML::Node& section, const char* name,
                                 const WordChoice& choice, const std::string& word) const;

 private:
  absl::Status ReadWhole(const std::string& name, const YAML::Node& node, int64_t* value) const;
  template <typename Integer>
  absl::Status ReadInteger(const std::string& name, const Field& field, const YAML::Node& node,
                           Integer* target) const;
  // A single word, or a list of words.
  absl::Status ReadWords(const std::string& name, const YAML::Node& node,
                         std::vector<std::string>* words) const;
  // A file, or a map with the key `end`.
  absl::Status ReadPacked(const std::string& name, const Field& field, const YAML::Node& node,
                          PackedWish* wish) const;
  absl::Status ReadField(const Section& section, const Field& field, const YAML::Node& node) const;

  const std::string& path_;
};

}  // namespace stringline
