// A single pass over the words, with the open blocks, and in the innermost block a statement. The
// word before a name decides between definition and use; a stack for each spelling gives its
// meaning at each use. Names of another schedule (the base of a derived schedule, its parameters,
// its rank) are looked up at the end of the pass.
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "schedlang/text/words.h"
#include "tools/lsp/names.h"

namespace stringline {
namespace {

NamedBlock::Sort SortOfWord(absl::string_view word) {
  using Sort = NamedBlock::Sort;
  static const auto* sorts = new std::map<absl::string_view, Sort>{
      {"schedule", Sort::kSchedule}, {"pipe", Sort::kPipe},     {"overlap", Sort::kOverlap},
      {"order", Sort::kOrder},       {"repeat", Sort::kRepeat}, {"if", Sort::kBranch},
      {"else", Sort::kBranch},       {"action", Sort::kEffects}};
  const auto found = sorts->find(word);
  return found == sorts->end() ? Sort::kOther : found->second;
}

bool IsCostKey(absl::string_view text) {
  return text == "p2p" || text == "microbatch" || text == "saved_for_I" || text == "saved_for_W" ||
         text == "stash" || text == "input";
}

// A word, with the beginning of its statement and that statement's first word.
struct WordAt {
  const std::vector<Token>& tokens;
  size_t i;
  size_t begin;
  absl::string_view statement;

  bool Follows(absl::string_view text) const { return i > 0 && tokens[i - 1].text == text; }
  bool Precedes(absl::string_view text) const {
    return i + 1 < tokens.size() && tokens[i + 1].text == text;
  }
};

// `edges s -> t where s < t`: a name on either side of `->` that nothing defines is a stage; and so
// is s in `skip s @ m where e`, where m is a microbatch.
bool MayNameAStage(const WordAt& word) {
  if (word.statement == "skip") return word.Precedes("@") || word.Follows("@");
  if (word.Precedes("->")) return word.i == word.begin + 1 || word.Follows(",");
  const bool ends =
      word.Precedes(",") || word.Precedes(";") || word.Precedes("}") || word.Precedes("where");
  return word.Follows("->") && ends;
}

// R, D and U are letters where they begin an action, and R among those that a greedy block prefers.
// `steps 2` begins a statement, and `steps;` is an order.
bool IsLetterInPlace(const WordAt& word) {
  const absl::string_view text = word.tokens[word.i].text;
  const bool alone = word.Precedes(";") || word.Precedes("}") || word.Precedes("&");
  if (BeginsInPlace(text) && word.i == word.begin) return !alone;
  if (!IsFurtherLetter(text)) return false;
  if (word.statement == "prefer") return text == "R";
  const bool behind_slot = word.statement == "at" && word.Follows(":") && !word.Precedes(":");
  return (word.i == word.begin || behind_slot || word.Follows("&")) && !alone;
}

}  // namespace

class NameScan {
 public:
  explicit NameScan(NameTable* table) : table_(*table), tokens_(table->tokens_) {
    table_.meanings_.assign(tokens_.size(), -1);
  }

  void Run() {
    for (i_ = 0; tokens_[i_].kind != Token::Kind::kEnd; ++i_) {
      if (tokens_[i_].kind == Token::Kind::kPunctuation) {
        Punctuation();
      } else {
        BeginStatement();
        if (tokens_[i_].kind == Token::Kind::kName) Word();
      }
    }
    CloseAll(UINT32_MAX);
    for (const ScheduleHead& head : heads_) table_.rank_names_.push_back(RankNameOf(head));
    for (const LaterUse& use : later_) table_.meanings_[use.token] = MeaningOf(use);
  }

 private:
  // An open block, and the names that end with the block.
  struct OpenBlock {
    int32_t index = -1;   // index into table_.blocks_; -1: the file
    int32_t owner = -1;   // the name that the block's contents belong to
    int32_t opener = -1;  // the name whose definition ends with the block
    bool late = false;    // the opener is visible behind the block
    std::vector<int32_t> names;
  };

  struct ScheduleHead {
    int32_t name = -1;
    int32_t rank_variable = -1;
    absl::string_view base;  // for a derived schedule
    std::vector<int32_t> parameters;
  };

  // A word whose meaning lies in another schedule.
  struct LaterUse {
    enum class Of : uint8_t { kBase, kParameterOfBase, kRankOfBase };
    Of of = Of::kBase;
    size_t token = 0;
    size_t schedule = 0;  // the schedule of the word
  };

  // The part of a derived schedule read so far: `schedule name(…) = base(…) then …`.
  enum class Derivation : uint8_t { kNone, kBase, kArguments, kDefers };

  bool Is(size_t i, absl::string_view text) const {
    return i < tokens_.size() && tokens_[i].text == text;
  }
  bool Follows(absl::string_view text, size_t words = 1) const {
    return i_ >= words && Is(i_ - words, text);
  }
  uint32_t Begin() const { return tokens_[i_].span.begin; }
  uint32_t End() const { return tokens_[i_].span.end; }
  uint32_t EndBefore() const { return i_ == 0 ? 0 : tokens_[i_ - 1].span.end; }
  bool BeginsListItem() const { return brackets_ == 1 && (Follows("(") || Follows(",")); }

  // The visible names.

  void Show(int32_t name, uint32_t from) {
    DefinedName& defined = table_.names_[static_cast<size_t>(name)];
    if (defined.visible_begin != UINT32_MAX) return;
    defined.visible_begin = from;
    std::vector<int32_t>& same = visible_[tokens_[name_tokens_[static_cast<size_t>(name)]].text];
    if (!same.empty()) defined.hides = same.back();
    same.push_back(name);
  }

  void Hide(std::vector<int32_t>* names, uint32_t at) {
    for (const int32_t name : *names) {
      DefinedName& defined = table_.names_[static_cast<size_t>(name)];
      if (defined.visible_begin == UINT32_MAX) continue;
      defined.visible_end = at;
      std::vector<int32_t>& same = visible_[tokens_[name_tokens_[static_cast<size_t>(name)]].text];
      // Names that end together may have become visible in any order.
      for (size_t k = same.size(); k-- > 0;) {
        if (same[k] != name) continue;
        same.erase(same.begin() + static_cast<ptrdiff_t>(k));
        break;
      }
    }
    names->clear();
  }

  int32_t Add(NameSort sort, uint32_t whole_begin) {
    const auto index = static_cast<int32_t>(table_.names_.size());
    DefinedName name{.sort = sort, .text = std::string(tokens_[i_].text), .span = tokens_[i_].span};
    name.whole = {whole_begin, End()};
    name.schedule = static_cast<int32_t>(heads_.size()) - 1;
    name.parent = open_.back().owner;
    name.rank_variable = rank_variable_;
    table_.names_.push_back(std::move(name));
    table_.meanings_[i_] = index;
    name_tokens_.push_back(i_);
    return index;
  }

  // Statements.

  void BeginStatement() {
    if (in_statement_) return;
    in_statement_ = true;
    begin_ = i_;
    word_ = tokens_[i_].text;
  }

  // The statement ends with this word, or before it. Its definition is visible from `shown` on;
  // names visible only in the statement end at `hidden`.
  void EndStatement(uint32_t shown, uint32_t hidden) {
    EndListItem(shown);
    list_ = false;
    Hide(&for_statement_, hidden);
    Hide(&for_block_, hidden);  // for a header without a block
    if (let_ >= 0) {
      DefinedName& value = table_.names_[static_cast<size_t>(let_)];
      value.ends_with_semicolon = Is(i_, ";");
      value.whole.end = value.ends_with_semicolon ? End() : EndBefore();
      Show(let_, shown);
      open_.back().names.push_back(let_);
    }
    if (derivation_ != Derivation::kNone && block_name_ >= 0) {
      table_.names_[static_cast<size_t>(block_name_)].whole.end = Is(i_, ";") ? End() : EndBefore();
    }
    let_ = block_name_ = -1;
    brackets_ = 0;
    derivation_ = Derivation::kNone;
    in_statement_ = false;
    word_ = "";
  }

  void EndListItem(uint32_t shown) {
    if (in_list_ >= 0) Show(in_list_, shown);
    in_list_ = -1;
  }

  void Punctuation() {
    if (Is(i_, ";")) return EndStatement(End(), Begin());
    if (Is(i_, "{")) return OpenBrace();
    if (Is(i_, "}")) return CloseBrace();
    BeginStatement();
    if (Is(i_, "(") || Is(i_, "[")) OpenBracket();
    if (Is(i_, ")") || Is(i_, "]")) CloseBracket();
    if (!Is(i_, ",")) return;
    if (brackets_ == 1) EndListItem(End());
    // `costs F s -> e, B 2`: the stage's number is known in its row.
    if (brackets_ == 0) Hide(&for_statement_, Begin());
  }

  void OpenBracket() {
    if (brackets_++ > 0) return;
    const bool behind_name = i_ == begin_ + 2;
    list_ = (word_ == "schedule" || word_ == "let") && behind_name;
    if (derivation_ == Derivation::kBase) derivation_ = Derivation::kArguments;
  }

  void CloseBracket() {
    if (brackets_ == 0) return;
    --brackets_;
    if (brackets_ > 0) return;
    EndListItem(End());
    list_ = false;
    if (derivation_ == Derivation::kArguments) derivation_ = Derivation::kDefers;
  }

  // Blocks.

  NamedBlock::Sort SortOfBlock() const {
    using Sort = NamedBlock::Sort;
    if (InnermostIs(Sort::kOverlap)) return Sort::kLane;
    if (word_ == "rank") {
      if (Follows("timetable")) return Sort::kTimetable;
      if (Follows("search")) return Sort::kSearch;
      return Follows("greedy") ? Sort::kGreedy : Sort::kSequence;
    }
    return SortOfWord(word_);
  }

  bool InnermostIs(NamedBlock::Sort sort) const {
    const int32_t index = open_.back().index;
    return index >= 0 && table_.blocks_[static_cast<size_t>(index)].sort == sort;
  }

  void OpenBrace() {
    EndListItem(End());
    OpenBlock block{.index = static_cast<int32_t>(table_.blocks_.size()), .opener = block_name_};
    block.owner = block_name_ >= 0 ? block_name_ : open_.back().owner;
    block.late = word_ == "order" || word_ == "pipe";
    table_.blocks_.push_back({SortOfBlock(), i_, tokens_.size() - 1, open_.back().index});
    for (const int32_t name : for_block_) Show(name, End());
    block.names = std::move(for_block_);
    for_block_.clear();
    if (word_ == "rank" && block_name_ >= 0) {
      rank_variable_ = table_.names_[static_cast<size_t>(block_name_)].text;
      rank_depth_ = open_.size();
    }
    if (word_ == "action" && !own_names_.empty()) {
      block.opener = own_names_.back();
    }
    block_name_ = -1;
    EndStatement(Begin(), Begin());
    open_.push_back(std::move(block));
  }

  void CloseBrace() {
    EndStatement(Begin(), Begin());
    if (open_.size() > 1) CloseBlock(Begin(), End());
  }

  // `hidden`: the end of the block's names; `whole`: the end of the definition.
  void CloseBlock(uint32_t hidden, uint32_t whole) {
    OpenBlock block = std::move(open_.back());
    open_.pop_back();
    Hide(&block.names, hidden);
    if (open_.size() == 1) EndOwn(hidden);
    table_.blocks_[static_cast<size_t>(block.index)].close = i_;
    if (block.opener >= 0) {
      table_.names_[static_cast<size_t>(block.opener)].whole.end = whole;
      if (block.late) {
        Show(block.opener, whole);
        open_.back().names.push_back(block.opener);
      }
    }
    if (open_.size() == rank_depth_) rank_variable_.clear();
  }

  // Before a schedule, and at the end of the file.
  void CloseAll(uint32_t hidden) {
    EndStatement(hidden, hidden);
    while (open_.size() > 1) CloseBlock(hidden, EndBefore());
    Hide(&open_.back().names, hidden);
  }

  // Names.

  void Word() {
    if (InnermostIs(NamedBlock::Sort::kEffects)) return Effect();
    if (IsOwnStatement()) return OwnWord();
    if (Follows(".") || InnermostIs(NamedBlock::Sort::kLane)) return;
    const WordRow* const row = FindWord(tokens_[i_].text);
    if (row == nullptr || row->sort == WordSort::kInPlace) {
      if (!Define()) Use();
      return;
    }
    if (row->sort != WordSort::kStatement) return;
    // The first word of a statement ends the statement before, even without its `;`.
    if ((Follows("hold") && Is(i_, "at")) || (Follows("else") && Is(i_, "if"))) return;
    if (word_ == "pairs" && Is(i_, "costs")) return;
    if (Is(i_, "schedule")) {
      CloseAll(Begin());
    } else if (i_ > begin_) {
      EndStatement(Begin(), Begin());
    }
    BeginStatement();
  }

  // `value v of s …` and `action A s …`; elsewhere both words are names.
  bool IsOwnStatement() const {
    if (!InnermostIs(NamedBlock::Sort::kSchedule) || i_ == begin_) return false;
    return word_ == "value" || word_ == "action";
  }

  // The names of own values and actions are looked up apart from others.
  void DefineOwn(NameSort sort) {
    const int32_t name = Add(sort, tokens_[begin_].span.begin);
    table_.names_.back().visible_begin = End();
    own_[sort][tokens_[i_].text] = name;
    own_names_.push_back(name);
  }

  void UseOwn(NameSort sort) {
    const auto known = own_[sort].find(tokens_[i_].text);
    if (known != own_[sort].end()) table_.meanings_[i_] = known->second;
  }

  void OwnWord() {
    const bool is_value = word_ == "value";
    if (i_ == begin_ + 1) return DefineOwn(is_value ? NameSort::kOwnValue : NameSort::kOwnAction);
    if (is_value && i_ == begin_ + 3) {
      for_statement_.push_back(Add(NameSort::kStageVariable, Begin()));
      Show(for_statement_.back(), End());
    } else if (is_value && i_ > begin_ + 5) {
      Use();  // the rank of a value on another rank
    }
  }

  // Behind needs, gives, frees or a comma stands a value, and then the stage.
  void Effect() {
    if (i_ > begin_ && (Follows(",") || i_ == begin_ + 1)) UseOwn(NameSort::kOwnValue);
  }

  void EndOwn(uint32_t at) {
    for (const int32_t name : own_names_) {
      table_.names_[static_cast<size_t>(name)].visible_end = at;
    }
    own_names_.clear();
    own_.clear();
  }

  bool Define() {
    const uint32_t here = Begin();
    const uint32_t before = i_ == 0 ? here : tokens_[i_ - 1].span.begin;
    if (Follows("schedule")) {
      DefineSchedule(before);
    } else if (Follows("let")) {
      let_ = Add(Is(i_ + 1, "(") ? NameSort::kFunction : NameSort::kValue, before);
    } else if (Follows("order") || Follows("pipe")) {
      block_name_ = Add(Follows("order") ? NameSort::kOrder : NameSort::kPipe, before);
    } else if (Follows("rank")) {
      block_name_ = Add(NameSort::kRankVariable, before);
      for_block_.push_back(block_name_);
      const bool first = !heads_.empty() && heads_.back().rank_variable < 0;
      if (first) heads_.back().rank_variable = block_name_;
    } else if (Follows("as")) {
      for_block_.push_back(Add(NameSort::kLoopVariable, here));
    } else if (IsStageVariable()) {
      const bool counts = word_ == "skip" && Follows("@");
      for_statement_.push_back(
          Add(counts ? NameSort::kLoopVariable : NameSort::kStageVariable, here));
      Show(for_statement_.back(), End());
    } else if (list_ && BeginsListItem()) {
      DefineInList();
    } else {
      return false;
    }
    return true;
  }

  bool IsStageVariable() const {
    if (word_ != "edges" && word_ != "skip") return Is(i_ + 1, "->");
    const auto known = visible_.find(tokens_[i_].text);
    const bool free = word_ == "skip" || known == visible_.end() || known->second.empty();
    return brackets_ == 0 && free && MayNameAStage({tokens_, i_, begin_, word_});
  }

  void DefineSchedule(uint32_t before) {
    heads_.push_back({.name = static_cast<int32_t>(table_.names_.size())});
    table_.schedule_starts_.push_back(before);
    block_name_ = Add(NameSort::kSchedule, before);
    DefinedName& name = table_.names_.back();
    name.visible_begin = 0;
    const auto [first, is_new] = schedules_.try_emplace(tokens_[i_].text, heads_.size() - 1);
    if (!is_new) name.hides = heads_[first->second].name;
  }

  void DefineInList() {
    const bool parameter = word_ == "schedule";
    in_list_ = Add(parameter ? NameSort::kParameter : NameSort::kArgument, Begin());
    (parameter ? for_block_ : for_statement_).push_back(in_list_);
    if (!parameter) table_.names_[static_cast<size_t>(in_list_)].parent = let_;
    if (!parameter || heads_.empty()) return;
    table_.names_[static_cast<size_t>(in_list_)].parent = heads_.back().name;
    heads_.back().parameters.push_back(in_list_);
  }

  // True for a word with a meaning at this place that is no name: a layout, a way to split, …
  bool IsWordInPlace() const {
    if (InnermostIs(NamedBlock::Sort::kOverlap) || Follows("on") || Follows("then")) return true;
    if (IsLetterInPlace({tokens_, i_, begin_, word_})) return true;
    if (Follows("reversed") && Follows("on", 2)) return true;
    const bool says_which =
        word_ == "split" || word_ == "recompute" || word_ == "minimize" || word_ == "within";
    if (says_which && i_ == begin_ + 1) return true;
    const bool has_where = word_ == "edges" || word_ == "skip";
    if (has_where && Is(i_, "where") && brackets_ == 0) return true;
    const bool begins_place = Follows("place") || (Follows(",") && brackets_ == 0);
    if (word_ == "place" && begins_place) return true;
    const bool begins_cost = Follows("costs") || (Follows(",") && brackets_ == 0);
    if (word_ == "costs" && begins_cost && IsCostKey(tokens_[i_].text)) return true;
    const bool changes = Follows("then", 2) && (Follows("recompute") || Follows("offload"));
    return (Follows("at") && Follows("hold", 2)) || (Follows("W") && Follows("defer", 2)) ||
           changes || (Follows("forward") && Is(i_, "only"));
  }

  void Use() {
    if (IsWordInPlace()) return;
    const absl::string_view text = tokens_[i_].text;
    const bool begins = i_ == begin_ || (word_ == "at" && Follows(":"));
    const bool alone = Is(i_ + 1, ";") || Is(i_ + 1, "}") || Is(i_ + 1, "&");
    if (begins && !alone && own_[NameSort::kOwnAction].contains(text))
      return UseOwn(NameSort::kOwnAction);
    const size_t schedule = heads_.empty() ? 0 : heads_.size() - 1;
    if (word_ == "schedule" && brackets_ == 0 && Follows("=") && !heads_.empty()) {
      heads_.back().base = text;
      derivation_ = Derivation::kBase;
      later_.push_back({LaterUse::Of::kBase, i_, schedule});
      return;
    }
    if (derivation_ == Derivation::kArguments && BeginsListItem() && Is(i_ + 1, "=")) {
      later_.push_back({LaterUse::Of::kParameterOfBase, i_, schedule});
      return;
    }
    const auto same = visible_.find(text);
    if (same != visible_.end() && !same->second.empty()) {
      table_.meanings_[i_] = same->second.back();
    } else if (derivation_ == Derivation::kDefers) {
      later_.push_back({LaterUse::Of::kRankOfBase, i_, schedule});
    }
  }

  // The base of the schedule; null if no schedule has the base's name.
  const ScheduleHead* BaseOf(const ScheduleHead& head) const {
    const auto base = schedules_.find(head.base);
    return base == schedules_.end() ? nullptr : &heads_[base->second];
  }

  int32_t RankNameOf(const ScheduleHead& head) const {
    const ScheduleHead* root = &head;
    // A base may have a base; a cycle is the text's mistake.
    for (size_t steps = 0; !root->base.empty(); ++steps) {
      root = steps < heads_.size() ? BaseOf(*root) : nullptr;
      if (root == nullptr) return -1;
    }
    return root->rank_variable;
  }

  int32_t MeaningOf(const LaterUse& use) const {
    const absl::string_view text = tokens_[use.token].text;
    const auto text_of = [&](int32_t name) -> const std::string& {
      return table_.names_[static_cast<size_t>(name)].text;
    };
    if (use.of == LaterUse::Of::kRankOfBase) {
      const int32_t rank = table_.rank_names_[use.schedule];
      return rank >= 0 && text_of(rank) == text ? rank : -1;
    }
    const ScheduleHead* const base = BaseOf(heads_[use.schedule]);
    if (base == nullptr) return -1;
    if (use.of == LaterUse::Of::kBase) return base->name;
    for (const int32_t parameter : base->parameters) {
      if (text_of(parameter) == text) return parameter;
    }
    return -1;
  }

  NameTable& table_;
  const std::vector<Token>& tokens_;
  size_t i_ = 0;
  std::vector<OpenBlock> open_ = {{}};
  std::vector<ScheduleHead> heads_;
  std::vector<LaterUse> later_;
  std::vector<size_t> name_tokens_;  // the token of each name's definition
  absl::flat_hash_map<absl::string_view, std::vector<int32_t>> visible_;
  absl::flat_hash_map<absl::string_view, size_t> schedules_;  // the first of every name
  // Own values and actions of the open schedule, by spelling.
  std::map<NameSort, absl::flat_hash_map<absl::string_view, int32_t>> own_;
  std::vector<int32_t> own_names_;
  std::string rank_variable_;
  size_t rank_depth_ = 0;  // blocks around the rank block

  // The open statement.
  bool in_statement_ = false;
  size_t begin_ = 0;                    // its first word
  absl::string_view word_;              // the current word
  int brackets_ = 0;                    // open brackets in the statement
  int32_t let_ = -1;                    // the name that the statement defines
  int32_t block_name_ = -1;             // the name whose block the statement opens
  std::vector<int32_t> for_block_;      // visible in the block of the statement
  std::vector<int32_t> for_statement_;  // visible to its end
  bool list_ = false;                   // a list of new names is open
  int32_t in_list_ = -1;                // its last name, visible behind the comma
  Derivation derivation_ = Derivation::kNone;
};

NameTable::NameTable(absl::string_view text) : tokens_(Tokenize(text)) { NameScan(this).Run(); }

}  // namespace stringline
