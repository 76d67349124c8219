#include "schedlang/ask/found_file.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/fnv.h"
#include "schedlang/base/source.h"
#include "schedlang/base/write_file.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;
using search::Found;
using search::Group;
using search::Letter;

// Older entries are left out if the file would grow beyond this.
constexpr size_t kMostBytes = 32u << 20;

uint64_t SumOf(absl::string_view text) {
  Fnv hash;
  for (const char c : text) hash.Add(static_cast<unsigned char>(c));
  return hash.value();
}

std::string PrintLetter(Letter letter) {
  return absl::StrCat(search::StageOf(letter), PrintedKind(search::KindOf(letter)));
}

std::string PrintEntry(uint64_t key, const Found& found) {
  std::string out =
      absl::StrCat("found ", absl::Hex(key), " value=", found.value, " bound=", found.bound);
  if (!found.partition.empty()) {
    absl::StrAppend(&out, " place=", found.place, " layers=", absl::StrJoin(found.partition, ","));
  }
  if (!found.recomputes.empty()) {
    absl::StrAppend(&out, " recompute=", absl::StrJoin(found.recomputes, ","));
  }
  absl::StrAppend(&out, "\n");
  for (size_t r = 0; r < found.words.size(); ++r) {
    absl::StrAppend(&out, "rank ", r, ":");
    for (const Group group : found.words[r]) {
      absl::StrAppend(&out, " ", PrintLetter(group.first));
      if (group.is_pair()) absl::StrAppend(&out, "&", PrintLetter(group.second));
    }
    absl::StrAppend(&out, "\n");
  }
  return absl::StrCat(out, "end ", absl::Hex(SumOf(out)), "\n");
}

std::optional<Letter> ReadLetter(absl::string_view text) {
  if (text.size() < 2) return std::nullopt;
  const size_t kind = absl::string_view("FBIW").find(text.back());
  int stage = -1;
  if (kind == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(0, text.size() - 1), &stage) || stage < 0 ||
      stage >= search::kMostStages) {
    return std::nullopt;
  }
  return search::LetterOf(static_cast<ActionKind>(kind), stage);
}

std::optional<Group> ReadGroup(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('&', 1));
  const std::optional<Letter> first = ReadLetter(parts.first);
  if (!first) return std::nullopt;
  if (parts.second.empty()) return Group{*first};
  const std::optional<Letter> second = ReadLetter(parts.second);
  if (!second) return std::nullopt;
  return Group{*first, *second};
}

// "3,1" behind the key.
template <typename Numbers>
bool ReadNumbers(absl::string_view text, absl::string_view key, Numbers* numbers) {
  if (!absl::ConsumePrefix(&text, key)) return false;
  for (const absl::string_view number : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(number, &numbers->emplace_back())) return false;
  }
  return true;
}

bool ReadHead(absl::string_view line, Found* found) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  const bool recomputes = words.size() == 7;
  const bool is_free = words.size() == 6 || recomputes;
  if ((words.size() != 4 && !is_free) || !absl::ConsumePrefix(&line, "found ") ||
      !absl::SimpleAtoi(absl::StripPrefix(words[2], "value="), &found->value) ||
      !absl::SimpleAtoi(absl::StripPrefix(words[3], "bound="), &found->bound)) {
    return false;
  }
  return !is_free || (absl::SimpleAtoi(absl::StripPrefix(words[4], "place="), &found->place) &&
                      ReadNumbers(words[5], "layers=", &found->partition) &&
                      (!recomputes || ReadNumbers(words[6], "recompute=", &found->recomputes)));
}

// The content of an entry with a correct sum.
std::optional<Found> ReadEntry(absl::string_view entry) {
  Found found;
  const std::vector<absl::string_view> lines = absl::StrSplit(entry, '\n');
  if (!ReadHead(lines[0], &found)) return std::nullopt;
  for (size_t i = 1; i + 2 < lines.size(); ++i) {
    absl::string_view line = lines[i];
    if (!absl::ConsumePrefix(&line, absl::StrCat("rank ", i - 1, ":"))) return std::nullopt;
    std::vector<Group>& word = found.words.emplace_back();
    for (const absl::string_view text : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      const std::optional<Group> group = ReadGroup(text);
      if (!group) return std::nullopt;
      word.push_back(*group);
    }
  }
  return found;
}

// "3f2a9c41" of "found 3f2a9c41 …".
std::optional<uint64_t> KeyOfHead(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  uint64_t key = 0;
  if (words.size() < 2 || !absl::SimpleHexAtoi(words[1], &key)) return std::nullopt;
  return key;
}

// The entries of the file whose sums are right.
std::map<uint64_t, std::string> ReadEntries(const std::string& path) {
  std::map<uint64_t, std::string> entries;
  const absl::StatusOr<Source> source = ReadSource(path);
  if (!source.ok()) return entries;
  std::string entry;
  std::optional<uint64_t> key;
  for (const absl::string_view line : absl::StrSplit(source->text(), '\n')) {
    if (absl::StartsWith(line, "found ")) {
      key = KeyOfHead(line);
      entry.clear();
    }
    if (!key) continue;
    const bool is_end = line == absl::StrCat("end ", absl::Hex(SumOf(entry)));
    absl::StrAppend(&entry, line, "\n");
    if (!is_end) continue;
    entries[*key] = entry;
    key.reset();
  }
  return entries;
}

}  // namespace

FoundFile::FoundFile(const std::string& schedule, Use use) : use_(use) {
  std::error_code error;
  if (fs::is_regular_file(schedule, error)) path_ = absl::StrCat(schedule, ".found");
}

FoundFile::~FoundFile() {
  if (path_.empty() || new_.empty() || use_ == Use::kOnlyRead) return;
  // Another process may have written since.
  std::map<uint64_t, std::string> entries = ReadEntries(path_);
  size_t bytes = 0;
  for (auto& [key, entry] : new_) {
    bytes += entry.size();
    entries.erase(key);
  }
  std::string text =
      absl::StrCat("# Orders found for the search blocks of ", fs::path(path_).stem().string(),
                   ". They are found again without this file.\n");
  for (const auto& [key, entry] : entries) {
    bytes += entry.size();
    if (bytes > kMostBytes) break;
    absl::StrAppend(&text, entry);
  }
  for (const auto& [key, entry] : new_) absl::StrAppend(&text, entry);
  WriteFileAtomically(path_, text).IgnoreError();
}

std::optional<Found> FoundFile::Find(uint64_t key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_new = new_.find(key);
  if (is_new != new_.end()) return ReadEntry(is_new->second);
  if (path_.empty() || use_ == Use::kOnlyWrite) return std::nullopt;
  if (!old_) old_ = ReadEntries(path_);
  const auto entry = old_->find(key);
  if (entry == old_->end()) return std::nullopt;
  return ReadEntry(entry->second);
}

void FoundFile::Keep(uint64_t key, const Found& found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  new_[key] = PrintEntry(key, found);
}

}  // namespace stringline
