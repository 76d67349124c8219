// Each kind of target has its own few lines, and all complain alike about a wrong value: the file,
// the line, the key, the expected and the actual value. An unknown key is compared with the
// section's keys.
#include "executor/run/section_reader.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/status.h"
#include "schedlang/base/written_out.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {

std::string DidYouMean(const std::string& key, const std::vector<std::string>& keys) {
  const std::string close = ClosestName(key, keys);
  return close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?");
}

std::string WhyUnknown(const char* what, const std::string& whole, const std::string& key,
                       const std::vector<std::string>& keys) {
  const std::string why = WhyNoKey(whole);
  if (!why.empty()) return absl::StrCat("'", whole, "' ", why);
  return absl::StrCat("unknown ", what, " '", whole, "'", DidYouMean(key, keys));
}

std::vector<std::string> WordsOf(const WordChoice& choice) {
  std::vector<std::string> words;
  for (const char* const word : choice.words) {
    if (word != nullptr) words.emplace_back(word);
  }
  return words;
}

absl::Status SectionReader::Complain(const YAML::Node& at, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", at.Mark().line + 1, ": ", message));
}

absl::StatusOr<std::string> SectionReader::KeyOf(const YAML::Node& node,
                                                 std::set<std::string>* seen) const {
  if (!node.IsScalar()) return Complain(node, "expected a word before ':'");
  if (!seen->insert(node.Scalar()).second) {
    return Complain(node, absl::StrCat("'", node.Scalar(), "' is given twice"));
  }
  return node.Scalar();
}

absl::Status SectionReader::ReadSection(const Section& section, const YAML::Node& node) const {
  if (!node.IsMap()) {
    return Complain(node, absl::StrCat(section.key, ": expected keys and values"));
  }
  std::vector<std::string> keys;
  for (const Field& field : section.fields) keys.push_back(field.key);
  std::set<std::string> seen;
  for (const auto& entry : node) {
    SL_ASSIGN_OR_RETURN(const std::string key, KeyOf(entry.first, &seen));
    const auto field = std::find(keys.begin(), keys.end(), key);
    if (field != keys.end()) {
      SL_RETURN_IF_ERROR(ReadField(section, section.fields[field - keys.begin()], entry.second));
    } else if (section.free != nullptr) {
      int64_t value = 0;
      SL_RETURN_IF_ERROR(ReadWhole(absl::StrCat(section.key, ".", key), entry.second, &value));
      section.free->push_back({key, value});
    } else {
      const std::string whole = absl::StrCat(section.key, ".", key);
      return Complain(entry.first, WhyUnknown("key", whole, key, keys));
    }
  }
  for (const Field& field : section.fields) {
    if (field.required && !node[field.key]) {
      return Complain(node, absl::StrCat(section.key, ".", field.key, " is missing"));
    }
  }
  return absl::OkStatus();
}

absl::Status SectionReader::ReadWhole(const std::string& name, const YAML::Node& node,
                                      int64_t* value) const {
  if (node.IsScalar() && absl::SimpleAtoi(node.Scalar(), value)) return absl::OkStatus();
  const std::string whole = node.IsScalar() ? WrittenOut(node.Scalar()) : "";
  return Complain(node, absl::StrCat(name, ": expected a whole number", Seen(node),
                                     whole.empty() ? "" : absl::StrCat("; write ", whole)));
}

std::string SectionReader::Seen(const YAML::Node& node) {
  return node.IsScalar() ? absl::StrCat(", got '", node.Scalar(), "'") : std::string();
}

absl::Status SectionReader::InRange(const std::string& name, const Field& field,
                                    const YAML::Node& node, double value) const {
  if (value >= field.least && value <= field.most) return absl::OkStatus();
  return Complain(node, absl::StrFormat("%s: %s is not in %.10g .. %.10g", name, node.Scalar(),
                                        field.least, field.most));
}

template <typename Integer>
absl::Status SectionReader::ReadInteger(const std::string& name, const Field& field,
                                        const YAML::Node& node, Integer* target) const {
  int64_t value = 0;
  SL_RETURN_IF_ERROR(ReadWhole(name, node, &value));
  SL_RETURN_IF_ERROR(InRange(name, field, node, static_cast<double>(value)));
  *target = static_cast<Integer>(value);
  return absl::OkStatus();
}

absl::Status SectionReader::ReadWords(const std::string& name, const YAML::Node& node,
                                      std::vector<std::string>* words) const {
  const std::vector<YAML::Node> one = {node};
  const std::vector<YAML::Node> items =
      node.IsSequence() ? std::vector<YAML::Node>(node.begin(), node.end()) : one;
  for (const YAML::Node& item : items) {
    if (!item.IsScalar() || item.Scalar().empty()) {
      return Complain(item, absl::StrCat(name, ": expected a word, or a list of words"));
    }
    words->push_back(item.Scalar());
  }
  return absl::OkStatus();
}

absl::Status SectionReader::ReadPacked(const std::string& name, const Field& field,
                                       const YAML::Node& node, PackedWish* wish) const {
  if (node.IsScalar() && !node.Scalar().empty()) {
    wish->lengths = node.Scalar();
    return absl::OkStatus();
  }
  if (!node.IsMap() || node.size() != 1 || !node["end"]) {
    return Complain(node, absl::StrCat(name,
                                       ": expected a file with the lengths of documents, or "
                                       "{end: TOKEN}"));
  }
  return ReadInteger(absl::StrCat(name, ".end"), field, node["end"], &wish->end);
}

absl::Status SectionReader::ReadField(const Section& section, const Field& field,
                                      const YAML::Node& node) const {
  const std::string name = absl::StrCat(section.key, ".", field.key);
  if (auto* const* target = std::get_if<std::string*>(&field.target)) {
    if (!node.IsScalar() || node.Scalar().empty()) {
      return Complain(node, absl::StrCat(name, ": expected a text"));
    }
    **target = node.Scalar();
    return absl::OkStatus();
  }
  if (auto* const* target = std::get_if<bool*>(&field.target)) {
    if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false")) {
      return Complain(node, absl::StrCat(name, ": expected true or false", Seen(node)));
    }
    **target = node.Scalar() == "true";
    return absl::OkStatus();
  }
  if (auto* const* target = std::get_if<double*>(&field.target)) {
    double value = 0;
    if (!node.IsScalar() || !absl::SimpleAtod(node.Scalar(), &value)) {
      return Complain(node, absl::StrCat(name, ": expected a number", Seen(node)));
    }
    SL_RETURN_IF_ERROR(InRange(name, field, node, value));
    **target = value;
    return absl::OkStatus();
  }
  if (auto* const* target = std::get_if<std::vector<std::string>*>(&field.target)) {
    return ReadWords(name, node, *target);
  }
  if (auto* const* target = std::get_if<std::vector<int>*>(&field.target)) {
    if (!node.IsSequence()) {
      return Complain(node, absl::StrCat(name, ": expected a list like [1, 2, 1]"));
    }
    for (const YAML::Node& item : node) {
      (*target)->push_back(0);
      SL_RETURN_IF_ERROR(ReadInteger(name, field, item, &(*target)->back()));
    }
    return absl::OkStatus();
  }
  if (auto* const* target = std::get_if<PackedWish*>(&field.target)) {
    return ReadPacked(name, field, node, *target);
  }
  if (auto* const* target = std::get_if<int*>(&field.target)) {
    return ReadInteger(name, field, node, *target);
  }
  if (auto* const* target = std::get_if<int64_t*>(&field.target)) {
    return ReadInteger(name, field, node, *target);
  }
  return ReadInteger(name, field, node, std::get<uint64_t*>(field.target));
}

absl::StatusOr<int> SectionReader::WordBeside(const YAML::Node& root,
                                              const WordChoice& choice) const {
  const YAML::Node node = root[choice.key];
  if (!node) return 0;
  const std::string word = node.IsScalar() ? node.Scalar() : "";
  const std::vector<std::string> words = WordsOf(choice);
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  return Complain(node, absl::StrCat(choice.key, ": expected ", absl::StrJoin(words, " or "),
                                     Seen(node), DidYouMean(word, words)));
}

absl::Status SectionReader::TakeInUnit(const YAML::Node& root, const char* key, CostUnit unit,
                                       int64_t* target) const {
  const YAML::Node node = root[key];
  if (!node) return absl::OkStatus();
  const auto value = ParseWithUnit(unit, node.IsScalar() ? node.Scalar() : "");
  if (!value.ok()) {
    return Complain(node, absl::StrCat(key, ": ", value.status().message()));
  }
  *target = *value;
  return absl::OkStatus();
}

absl::StatusOr<int> SectionReader::ChooseWord(const YAML::Node& section, const char* name,
                                              const WordChoice& choice,
                                              const std::string& word) const {
  const std::vector<std::string> words = WordsOf(choice);
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  return Complain(section[choice.key],
                  absl::StrCat(name, ".", choice.key, ": expected ", absl::StrJoin(words, " or "),
                               ", got '", word, "'", DidYouMean(word, words)));
}

absl::Status SectionReader::ReadInt(const std::string& name, const Field& field,
                                    const YAML::Node& node, int* target) const {
  return ReadInteger(name, field, node, target);
}

}  // namespace stringline
