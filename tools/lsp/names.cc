// One pass over the words: the word before a name says what it defines. A stack of open blocks
// knows which names end with each, so a name's range is known when its block closes. No tree is
// needed, and so no text that parses.
#include "tools/lsp/names.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace stringline {

// Goes over the words once, with what is open.
class NameScan {
 public:
  explicit NameScan(NameTable* table) : table_(*table), tokens_(table->tokens_) {}

  void Run() {
    for (i_ = 0; tokens_[i_].kind != Token::Kind::kEnd; ++i_) {
      Close();
      if (tokens_[i_].kind == Token::Kind::kName) Define();
      if (Is(i_, "{")) {
        blocks_.push_back(std::move(for_next_block_));
        for_next_block_.clear();
      }
    }
    const uint32_t end = UINT32_MAX;
    for (const auto& block : blocks_) EndAll(block, end);
    EndAll(for_next_block_, end);
    EndAll(for_statement_, end);
  }

 private:
  bool Is(size_t i, absl::string_view text) const {
    return i < tokens_.size() && tokens_[i].text == text;
  }
  bool Follows(absl::string_view text) const { return i_ > 0 && Is(i_ - 1, text); }

  void EndAll(const std::vector<size_t>& names, uint32_t offset) {
    for (const size_t name : names) table_.names_[name].visible_end = offset;
  }

  // Ends what ends at this word.
  void Close() {
    const uint32_t here = tokens_[i_].span.begin;
    if (Is(i_, ";") || Is(i_, "}")) {
      EndAll(for_statement_, here);
      for_statement_.clear();
      if (value_ >= 0) {
        DefinedName& value = table_.names_[static_cast<size_t>(value_)];
        value.ends_with_semicolon = Is(i_, ";");
        value.statement_end = Is(i_, ";") ? tokens_[i_].span.end : here;
        value_ = -1;
      }
    }
    if (Is(i_, ";") && blocks_.size() == 1) {  // a derived schedule
      EndAll(for_next_block_, here);
      for_next_block_.clear();
    }
    if (Is(i_, "}") && blocks_.size() > 1) {
      EndAll(blocks_.back(), here);
      blocks_.pop_back();
      if (blocks_.size() == rank_depth_) rank_variable_.clear();
    }
    if (Is(i_, "(")) ++list_depth_;
    if (Is(i_, ")") && --list_depth_ == 0) list_sort_.reset();
    if (Is(i_, "{") || Is(i_, "}") || Is(i_, ";")) list_sort_.reset();
  }

  size_t Add(NameSort sort) {
    table_.names_.push_back({sort, std::string(tokens_[i_].text), tokens_[i_].span, UINT32_MAX,
                             static_cast<int32_t>(table_.schedule_starts_.size()) - 1,
                             rank_variable_});
    return table_.names_.size() - 1;
  }

  // Makes a definition of this word, if it is one: the word before it says so.
  void Define() {
    if (Follows("schedule")) {
      DefineSchedule();
    } else if (Follows("let")) {
      const bool function = Is(i_ + 1, "(");
      const size_t name = Add(function ? NameSort::kFunction : NameSort::kValue);
      blocks_.back().push_back(name);
      if (function) OpenList(NameSort::kArgument);
      value_ = static_cast<int64_t>(name);
    } else if (Follows("order")) {
      blocks_.back().push_back(Add(NameSort::kOrder));
    } else if (Follows("pipe")) {
      blocks_.back().push_back(Add(NameSort::kPipe));
    } else if (Follows("rank")) {
      rank_variable_ = std::string(tokens_[i_].text);
      rank_depth_ = blocks_.size();
      for_next_block_.push_back(Add(NameSort::kRankVariable));
    } else if (Follows("as")) {
      for_next_block_.push_back(Add(NameSort::kLoopVariable));
    } else if (Follows("on") && Is(i_ + 1, "->")) {
      for_statement_.push_back(Add(NameSort::kStageVariable));
    } else if (list_sort_ && list_depth_ == 1 && (Follows("(") || Follows(","))) {
      auto& names = *list_sort_ == NameSort::kParameter ? for_next_block_ : for_statement_;
      names.push_back(Add(*list_sort_));
    }
  }

  void DefineSchedule() {
    table_.schedule_starts_.push_back(tokens_[i_ - 1].span.begin);
    // A schedule that is not closed ends where the next one begins.
    while (blocks_.size() > 1) {
      EndAll(blocks_.back(), tokens_[i_].span.begin);
      blocks_.pop_back();
    }
    rank_variable_.clear();
    Add(NameSort::kSchedule);
    if (!Is(i_ + 1, "(")) return;
    OpenList(NameSort::kParameter);
    const size_t end = ClosingOf(i_ + 1);
    if (end == 0 || !Is(end + 1, "=") || !Is(end + 3, "(")) return;
    table_.base_calls_.push_back({end + 3, ClosingOf(end + 3), std::string(tokens_[end + 2].text)});
  }

  // Names in the brackets that open behind this word are of that sort.
  void OpenList(NameSort sort) {
    list_depth_ = 0;
    list_sort_ = sort;
  }

  // The bracket that closes the one at `open`; 0 if there is none.
  size_t ClosingOf(size_t open) const {
    int depth = 0;
    for (size_t i = open; i < tokens_.size(); ++i) {
      if (Is(i, "(")) ++depth;
      if (Is(i, ")") && --depth == 0) return i;
      if (Is(i, "{") || Is(i, "}") || Is(i, ";") || Is(i, "let") || Is(i, "schedule")) break;
    }
    return 0;
  }

  NameTable& table_;
  const std::vector<Token>& tokens_;
  size_t i_ = 0;
  std::vector<std::vector<size_t>> blocks_ = {{}};  // names that end with each open block
  std::vector<size_t> for_next_block_;
  std::vector<size_t> for_statement_;
  std::optional<NameSort> list_sort_;  // of the names in the brackets that are open
  int list_depth_ = 0;                 // of brackets since then
  int64_t value_ = -1;                 // the `let` whose statement has not ended
  std::string rank_variable_;
  size_t rank_depth_ = 0;
};

const char* SortOf(NameSort sort) {
  switch (sort) {
    case NameSort::kSchedule:
      return "a schedule";
    case NameSort::kParameter:
      return "a parameter";
    case NameSort::kValue:
      return "a value";
    case NameSort::kFunction:
      return "a function";
    case NameSort::kArgument:
      return "an argument";
    case NameSort::kOrder:
      return "an order";
    case NameSort::kPipe:
      return "a pipe";
    case NameSort::kRankVariable:
      return "the number of the rank";
    case NameSort::kLoopVariable:
      return "the number of the pass";
    case NameSort::kStageVariable:
      return "the number of the stage";
  }
  return "";
}

NameTable::NameTable(absl::string_view text) : tokens_(Tokenize(text)) { NameScan(this).Run(); }

size_t NameTable::TokenAt(uint32_t offset) const {
  const auto after = std::partition_point(tokens_.begin(), tokens_.end() - 1,
                                          [&](const Token& t) { return t.span.begin <= offset; });
  const size_t end = tokens_.size() - 1;
  if (after == tokens_.begin()) return end;
  const size_t i = static_cast<size_t>(after - tokens_.begin()) - 1;
  if (offset < tokens_[i].span.end) return i;
  // Right behind a word is still that word.
  if (offset == tokens_[i].span.end && tokens_[i].kind == Token::Kind::kName) return i;
  return end;
}

const DefinedName* NameTable::FindOfBase(const BaseCall& call, NameSort sort,
                                         absl::string_view text) const {
  for (const DefinedName& name : names_) {
    if (name.sort != sort || name.text != text || name.schedule < 0) continue;
    const size_t word = TokenAt(schedule_starts_[static_cast<size_t>(name.schedule)]);
    if (tokens_[word + 1].text == call.base) return &name;
  }
  return nullptr;
}

const DefinedName* NameTable::FindVisible(const Token& use) const {
  const DefinedName* found = nullptr;
  for (const DefinedName& name : names_) {
    if (name.text != use.text || name.sort == NameSort::kSchedule) continue;
    if (name.span.begin > use.span.begin || name.visible_end <= use.span.begin) continue;
    if (found == nullptr || found->span.begin < name.span.begin) found = &name;
  }
  return found;
}

const DefinedName* NameTable::Find(size_t token) const {
  const Token& use = tokens_[token];
  if (use.kind != Token::Kind::kName) return nullptr;
  const BaseCall* base = nullptr;  // if the word stands in a derived schedule
  for (const BaseCall& call : base_calls_) {
    const bool same = ScheduleAt(use.span.begin) == ScheduleAt(tokens_[call.begin].span.begin);
    if (token > call.begin && same) base = &call;
  }
  // `extra = 1` among the arguments names a parameter of the base.
  if (base != nullptr && token < base->end && tokens_[token + 1].text == "=") {
    const DefinedName* const found = FindOfBase(*base, NameSort::kParameter, use.text);
    if (found != nullptr) return found;
  }
  const DefinedName* found = FindVisible(use);
  if (found != nullptr) return found;
  // `then defer W by r`: the base's name for the rank.
  if (base != nullptr && token > base->end) {
    found = FindOfBase(*base, NameSort::kRankVariable, use.text);
    if (found != nullptr) return found;
  }
  for (const DefinedName& name : names_) {
    if (name.sort == NameSort::kSchedule && name.text == use.text) return &name;
  }
  return nullptr;
}

int32_t NameTable::ScheduleAt(uint32_t offset) const {
  const auto after = std::upper_bound(schedule_starts_.begin(), schedule_starts_.end(), offset);
  return static_cast<int32_t>(after - schedule_starts_.begin()) - 1;
}

}  // namespace stringline
