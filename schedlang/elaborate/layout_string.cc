#include "schedlang/elaborate/layout_string.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr size_t kMostItems = 1 << 20;
constexpr int kDeepestGroup = 100;

// Writes the layout out as a row of items, then cuts it at the bars.
class LayoutReader {
 public:
  LayoutReader(absl::string_view quoted, uint32_t begin, bool chain, Diagnostics* diagnostics)
      : text_(quoted), begin_(begin), chain_(chain), diagnostics_(diagnostics) {}

  std::optional<std::vector<std::string>> Read() {
    std::string row;
    at_ = 1;  // behind the quote
    if (!ReadRow(0, 0, &row) || (chain_ && !EndsWell(row))) return std::nullopt;
    std::vector<std::string> stages(1);
    for (const char item : row) {
      if (item == '|') {
        stages.emplace_back();
      } else {
        stages.back().push_back(item);
      }
    }
    if (!chain_ && !std::all_of(stages.begin(), stages.end(), [this](const std::string& stage) {
          return StageEndsWell(stage);
        })) {
      return std::nullopt;
    }
    return stages;
  }

 private:
  bool Bad(size_t at, std::string text) {
    const auto begin = begin_ + static_cast<uint32_t>(at);
    diagnostics_->Add(Code::kBadSplit, {begin, begin + 1}, std::move(text));
    return false;
  }

  char Next() {
    while (text_[at_] == ' ' || text_[at_] == ',') ++at_;
    return text_[at_];
  }

  // Reads up to the parenthesis that closes `open`, or to the closing quote when depth is 0.
  bool ReadRow(size_t open, int depth, std::string* row) {
    while (true) {
      const char c = Next();
      const size_t at = at_;
      if (c == '"') return depth == 0 || Bad(open, "this '(' is never closed");
      if (c == ')') return depth > 0 || Bad(at, "this ')' closes nothing");
      std::string item;
      ++at_;
      if (c == '(') {
        if (depth == kDeepestGroup) return Bad(at, "groups are nested too deep here");
        if (!ReadRow(at, depth + 1, &item)) return false;
        ++at_;
      } else if (absl::string_view("EtmL|").find(c) != absl::string_view::npos) {
        item.push_back(c);
      } else {
        return Bad(at, absl::StrCat("'", text_.substr(at, 1),
                                    "' is no part of a layout: E, t, m, L, "
                                    "'|', '( )' and '* number' are"));
      }
      if (!Repeat(item, row)) return false;
    }
  }

  // Appends the item, repeated by a following `* number`.
  bool Repeat(const std::string& item, std::string* row) {
    uint64_t times = 1;
    const size_t star = at_;
    if (Next() == '*') {
      ++at_;
      if (!absl::ascii_isdigit(Next())) return Bad(at_, "a number must follow '*'");
      for (times = 0; absl::ascii_isdigit(text_[at_]); ++at_) {
        times =
            std::min<uint64_t>(times * 10 + static_cast<uint64_t>(text_[at_] - '0'), kMostItems);
      }
    }
    if (item.size() * times + row->size() > kMostItems) {
      return Bad(star, absl::StrCat("the layout is longer than ", kMostItems, " items here"));
    }
    for (uint64_t i = 0; i < times && !item.empty(); ++i) row->append(item);
    return true;
  }

  bool EndsWell(const std::string& row) {
    const auto count = [&row](char c) { return std::count(row.begin(), row.end(), c); };
    const std::pair<char, const char*> kOnce[] = {{'E', "embedding, 'E'"}, {'L', "loss, 'L'"}};
    for (const auto& [item, name] : kOnce) {
      if (count(item) == 1) continue;
      return Bad(0,
                 absl::StrCat("the layout has ", count(item) == 0 ? "no " : "more than one ", name,
                              count(item) == 0 ? "" : "; stages that are no chain (`edges`) may"));
    }
    const size_t before = row.find_first_of("tm");
    if (before < row.find('E')) return Bad(0, "a layer comes before the embedding, 'E'");
    const size_t after = row.find_last_of("tm");
    if (after != std::string::npos && after > row.find('L')) {
      return Bad(0, "a layer comes after the loss, 'L'");
    }
    return true;
  }

  // The rule of stages that are no chain: an embedding is first in its stage, a loss last.
  bool StageEndsWell(const std::string& stage) {
    const size_t embedding = stage.rfind('E'), loss = stage.find('L');
    if (embedding != std::string::npos && embedding > 0) {
      return Bad(
          0, absl::StrCat("the embedding, 'E', is first in its stage, and not in '", stage, "'"));
    }
    return loss == std::string::npos || loss + 1 == stage.size() ||
           Bad(0, absl::StrCat("the loss, 'L', is last in its stage, and not in '", stage, "'"));
  }

  absl::string_view text_;
  uint32_t begin_;
  bool chain_;
  Diagnostics* diagnostics_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<std::string>> ReadLayout(absl::string_view quoted, uint32_t begin,
                                                   bool chain, Diagnostics* diagnostics) {
  return LayoutReader(quoted, begin, chain, diagnostics).Read();
}

}  // namespace stringline
