// The values of a flight recorder's dump, whichever form the file has: a tree in one list of nodes.
//
// A pickle may name a value several times, so nodes may be shared, and in a made-up file even form
// a cycle. A caller looks at as many levels as the format has, and never walks a whole tree.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

// A file of more values is refused: 2,000 calls of torch's default buffer have some 200,000.
inline constexpr size_t kMostDumpValues = 4'000'000;

using DumpNode = uint32_t;

class DumpValues {
 public:
  enum class Kind : uint8_t { kNone, kBool, kInteger, kNumber, kText, kList, kDict };

  DumpNode AddNone() { return Add({.kind = Kind::kNone}); }
  DumpNode AddBool(bool value) { return Add({.kind = Kind::kBool, .integer = value}); }
  DumpNode AddInteger(int64_t value) { return Add({.kind = Kind::kInteger, .integer = value}); }
  DumpNode AddNumber(double value);
  // The bytes have to stay where they are as long as the tree.
  DumpNode AddText(absl::string_view text);
  // For bytes that go away: the tree keeps a copy.
  DumpNode AddCopy(std::string text) { return AddText(copies_.emplace_back(std::move(text))); }
  DumpNode AddList();
  DumpNode AddDict();
  // To a list; to a dict a key and a value in turn.
  void Append(DumpNode to, DumpNode entry) { lists_[Slot(to)].push_back(entry); }

  Kind KindOf(DumpNode node) const { return nodes_[node].kind; }
  int64_t IntegerOf(DumpNode node) const { return nodes_[node].integer; }
  absl::string_view TextOf(DumpNode node) const {
    return {nodes_[node].text, static_cast<size_t>(nodes_[node].integer)};
  }
  // The entries of a list; of a dict keys and values in turn.
  const std::vector<DumpNode>& EntriesOf(DumpNode node) const { return lists_[Slot(node)]; }

  size_t size() const { return nodes_.size(); }
  DumpNode top() const { return top_; }
  void set_top(DumpNode top) { top_ = top; }

 private:
  struct Node {
    Kind kind = Kind::kNone;
    int64_t integer = 0;  // of a text its length, of a list or a dict its place in `lists_`
    const char* text = nullptr;
  };

  DumpNode Add(const Node& node) {
    nodes_.push_back(node);
    return static_cast<DumpNode>(nodes_.size() - 1);
  }
  size_t Slot(DumpNode node) const { return static_cast<size_t>(nodes_[node].integer); }

  std::vector<Node> nodes_;
  std::vector<std::vector<DumpNode>> lists_;
  std::deque<std::string> copies_;
  DumpNode top_ = 0;
};

// A file that ends before its value does; IsCutShort knows it. Other faults are InvalidArgument.
absl::Status CutShort(size_t bytes);
bool IsCutShort(const absl::Status& status);

// A pickle of dicts, lists, tuples (read as lists), texts, numbers, truth values and None. Nothing
// in it is executed: an opcode that would import, call or build an object is refused by its name
// and offset. `bytes` has to outlive the result. Errors: CutShort; a fault, with its offset.
absl::StatusOr<DumpValues> ReadPickle(absl::string_view bytes);

// The same from JSON, at most 64 levels deep.
absl::StatusOr<DumpValues> ReadJsonValues(absl::string_view bytes);

}  // namespace stringline
