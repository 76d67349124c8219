// The word before the place, and the first word of the statement, decide the completions: by a
// table where the language has fixed words there, else a statement, an action, a value, or an
// operator behind a value. The NameTable knows the names visible at the place.
#include "tools/lsp/complete.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/rows.h"
#include "schedlang/text/words.h"

namespace stringline {
namespace {

constexpr const char* kLetters = "F B I W";
constexpr const char* kPreferred = "F B I W R";
constexpr const char* kActions = "F B I W R D U";
constexpr const char* kCostKeys = "F B I W p2p microbatch";
constexpr const char* kSearchCostKeys = "F B I W p2p saved_for_I saved_for_W stash input";

// Words behind one or two others, in any statement.
struct FollowRow {
  const char* two_before;  // "": any
  const char* before;
  const char* words;
};
constexpr FollowRow kFollows[] = {
    {"", "on", "line loop v wave reversed"},
    {"on", "reversed", "line loop v wave"},
    {"", "split", "even balanced any"},
    {"then", "recompute", "by"},
    {"then", "offload", "by"},
    {"", "recompute", "none all any"},
    {"", "offload", "none all any"},
    {"", "place", "any line v loop wave"},
    {"", "pad", "microbatches"},
    {"pad", "microbatches", "to"},
    {"", "forward", "only"},
    {"", "hold", "at"},
    {"hold", "at", "most"},
    {"", "fill", "W"},
    {"", "minimize", "makespan span period"},
    {"", "within", "activations memory"},
    {"", "pairs", kLetters},
    {"", "overlap", kLetters},
    {"", "else", "if"},
    {"", "then", "defer recompute offload"},
    {"then", "defer", "W"},
    {"defer", "W", "by"},
    // New names, and ends.
    {"", "schedule", ""},
    {"", "let", ""},
    {"", "order", ""},
    {"", "pipe", ""},
    {"", "rank", ""},
    {"", "as", ""},
    {"", "tighten", ""},
    {"", "timetable", ""},
    {"", "greedy", ""},
    {"", "search", ""},
};

using BlockSort = NamedBlock::Sort;

// First words of statements.
struct StatementRow {
  BlockSort block;
  const char* words;
  const char* only_directly;  // not in nested loops and branches
};
constexpr StatementRow kStatements[] = {
    {BlockSort::kSchedule,
     "let require stages pipe pad split recompute overlap chunks steps versions slices window "
     "slack edges skip forward value action rank",
     ""},
    {BlockSort::kEffects, "needs gives frees", ""},
    {BlockSort::kPipe, "stages microbatches", ""},
    {BlockSort::kOverlap, "compute network", ""},
    {BlockSort::kLane, kLetters, ""},
    {BlockSort::kSequence, "let require repeat if unshard reshard reduce update F B I W R D U",
     "order"},
    {BlockSort::kTimetable, "let require repeat if at", "tighten fill"},
    {BlockSort::kGreedy, "let require", "hold prefer costs"},
    {BlockSort::kSearch, "let require",
     "minimize within prefer pairs costs iterations place layers split recompute offload"},
    {BlockSort::kOrder, "let require repeat if F B I W", ""},
};

bool IsValue(NameSort sort) {
  return sort != NameSort::kOrder && sort != NameSort::kSchedule && sort != NameSort::kOwnValue &&
         sort != NameSort::kOwnAction;
}

class Completer {
 public:
  Completer(const Source& source, const NameTable& names, uint32_t offset)
      : source_(source), names_(names), tokens_(names.tokens()), offset_(offset) {}

  Completions Run() {
    FindWord();
    if (in_string_) {
      if (Before() == "use") Files();
    } else if (!nowhere_ && !InComment()) {
      FindStatement();
      Complete();
    }
    return std::move(result_);
  }

 private:
  // Finds the word at the place or just before it, and the number of words before.
  void FindWord() {
    result_.replaced = {offset_, offset_};
    const auto first = std::partition_point(tokens_.begin(), tokens_.end() - 1,
                                            [&](const Token& t) { return t.span.end < offset_; });
    count_ = static_cast<size_t>(first - tokens_.begin());
    if (first == tokens_.end() - 1 || first->span.begin >= offset_) return;
    const bool open_string = first->kind == Token::Kind::kUnknown && first->text[0] == '"';
    const bool inside = offset_ < first->span.end;
    if (first->kind == Token::Kind::kName) {
      result_.replaced.begin = first->span.begin;
    } else if (open_string || (first->kind == Token::Kind::kString && inside)) {
      in_string_ = true;
      result_.replaced = {first->span.begin + 1, open_string ? offset_ : first->span.end - 1};
    } else if (first->kind == Token::Kind::kNumber || inside) {
      nowhere_ = true;
    } else {
      ++count_;  // right behind a sign
    }
  }

  // True if a comment begins between the last word and the place, on the place's line.
  bool InComment() const {
    const uint32_t from = count_ == 0 ? 0 : tokens_[count_ - 1].span.end;
    absl::string_view gap = source_.text().substr(from, offset_ - from);
    const size_t line = gap.rfind('\n');
    if (line != absl::string_view::npos) gap.remove_prefix(line);
    return absl::StrContains(gap, '#');
  }

  // The text of the k-th word before the place; "" before the first.
  absl::string_view Before(size_t k = 1) const {
    return k <= count_ ? tokens_[count_ - k].text : absl::string_view();
  }

  // Goes back to the first word of the statement, counting brackets on the way.
  void FindStatement() {
    begin_ = count_;
    while (begin_ > 0) {
      const absl::string_view text = tokens_[begin_ - 1].text;
      if (text == ";" || text == "{" || text == "}") return;
      --begin_;
      if (text == "(" || text == "[") ++brackets_;
      if (text == ")" || text == "]") --brackets_;
      if (brackets_ == 1 && open_ == 0) open_ = begin_;
      if (text == "?") ++questions_;
      if (text == ":") --questions_;
      const WordRow* const row = stringline::FindWord(text);
      const bool begins = row != nullptr && row->sort == WordSort::kStatement;
      const absl::string_view before = begin_ > 0 ? tokens_[begin_ - 1].text : "";
      const bool inside = (text == "at" && before == "hold") || before == "." ||
                          (text == "rank" && (before == "each" || before == "on")) ||
                          (text == "if" && before == "else") ||
                          (text == "costs" && begin_ >= 4 && tokens_[begin_ - 4].text == "pairs");
      if (begins && !inside) return;
    }
  }

  absl::string_view Statement() const { return begin_ < count_ ? tokens_[begin_].text : ""; }

  void Complete() {
    if (begin_ == count_) return Statements();
    if (Statement() == "use") return;
    if (IsOwnStatement()) return OwnStatement();
    if (IsIn(BlockSort::kEffects)) return Effects();
    for (const FollowRow& row : kFollows) {
      const bool here =
          Before() == row.before && (*row.two_before == '\0' || Before(2) == row.two_before);
      if (here && Before(2) != ".") return Words(row.words);
    }
    if (Before() == ".") return Parts();
    const NamedBlock* const block = names_.BlockBehind(count_ - 1);
    if (block != nullptr && block->sort == BlockSort::kLane) return Words(kLetters);
    if (IsInNewNames(1)) return;
    if (Statement() == "costs" && BeginsCost(1)) return CostKeys();
    const bool prefers = Statement() == "prefer" && brackets_ == 0;
    if (prefers && (Before() == "prefer" || Before() == ",")) {
      return Words(IsInSearch() ? kLetters : kPreferred);
    }
    if (Before() == "&") {
      const bool kinds = Statement() == "overlap" || Statement() == "pairs";
      Words(kinds ? kLetters : kPreferred);
      if (!kinds) Orders();
      return;
    }
    if (Statement() == "pairs" && IsActionLetter(Before())) {
      return Words(Before(2) == "&" ? "costs" : "");
    }
    if (Before() == ":" && Statement() == "at" && questions_ < 0) {
      OwnActions();
      return Words(kActions);
    }
    if (Statement() == "schedule" && brackets_ == 0 && Before() == "=") return Bases();
    if (IsOperandEnd()) return BehindValue();
    if (brackets_ == 1 && Statement() == "schedule" && (Before() == "(" || Before() == ",")) {
      ParametersOfBase();
    }
    Values();
  }

  bool IsIn(BlockSort sort) const {
    const NamedBlock* const block = names_.BlockBehind(count_ - 1);
    return block != nullptr && block->sort == sort;
  }
  bool IsOwnStatement() const {
    return IsIn(BlockSort::kSchedule) && (Statement() == "value" || Statement() == "action");
  }

  // `value name of s on host;` `action NAME s on lane by each rank {`
  void OwnStatement() {
    const size_t words = count_ - begin_;
    const bool is_value = Statement() == "value";
    if (words == 1 || (is_value && words == 3)) return;  // new names
    if (Before() == "on")
      return Words(is_value ? "host each rank" : "compute network copy_out copy_in");
    if (Before() == "each") return Words("rank");
    if (Before() == "by") return Words("each");
    if (Before() == "with") return Words("all");
    if (Before() == "all") return Words("ranks");
    if (is_value && words == 2) return Words("of");
    if (is_value && words == 4) return Words("on");
    if (is_value) {
      if (HasWord("rank") && !HasWord("each"))
        IsOperandEnd() && words > 6 ? BehindValue() : Values();
      return;
    }
    if (words == 2) return StageNames();
    Words(words == 3 ? "on by with" : "by with");
  }

  // The number of a stage has any name; the schedule's own have used one.
  void StageNames() {
    for (const DefinedName& name : names_.names()) {
      if (name.sort != NameSort::kStageVariable || name.schedule != names_.ScheduleAt(offset_))
        continue;
      return Name(name);
    }
  }

  // `needs v s, w s;`
  void Effects() {
    if (count_ == begin_ + 1 || Before() == ",") {
      Words(absl::StrJoin(NamesOfBuiltIn(), " "));
      return Visible([](NameSort sort) { return sort == NameSort::kOwnValue; });
    }
    StageNames();
  }

  // True if the k-th word before the place is a `(` or `,` before a new name: a schedule's
  // parameter or a function's argument.
  bool IsInNewNames(size_t k) const {
    if (brackets_ != 1 || open_ != begin_ + 2 || (Before(k) != "(" && Before(k) != ",")) {
      return false;
    }
    return Statement() == "schedule" || Statement() == "let";
  }

  // True if a row of `costs` begins behind the k-th word before the place.
  bool BeginsCost(size_t k) const {
    return count_ == begin_ + k || (brackets_ == 0 && Before(k) == ",");
  }

  bool IsInSearch() const {
    const NamedBlock* const block = names_.BlockBehind(count_ - 1);
    return block != nullptr && block->sort == BlockSort::kSearch;
  }

  // True behind R, D or U where an action begins, and behind the word of a statement that is a name
  // elsewhere.
  bool IsBehindFurtherLetter() const {
    const bool behind_slot = Before(2) == ":" && Statement() == "at" && questions_ < 0;
    if (BeginsInPlace(Before()) && count_ == begin_ + 1) return true;
    const DefinedName* const name = count_ == 0 ? nullptr : names_.Find(count_ - 1);
    if (name != nullptr && name->sort == NameSort::kOwnAction) return true;
    return IsFurtherLetter(Before()) && (count_ == begin_ + 1 || Before(2) == "&" || behind_slot);
  }

  // Only a search has costs of memory.
  void CostKeys() { Words(IsInSearch() ? kSearchCostKeys : kCostKeys); }

  bool IsOperandEnd() const {
    const Token& before = tokens_[count_ - 1];
    if (before.kind == Token::Kind::kNumber || before.kind == Token::Kind::kString) return true;
    if (before.text == ")" || before.text == "]") return true;
    if (before.kind != Token::Kind::kName) return false;
    const bool of_then =
        Before(3) == "then" && (Before(2) == "recompute" || Before(2) == "offload");
    const bool by = before.text == "by" && (of_then || (Before(2) == "W" && Before(3) == "defer"));
    const bool most = before.text == "most" && Before(2) == "at" && Before(3) == "hold";
    const bool key = Statement() == "costs" && BeginsCost(2);
    if (by || most || key || Before(2) == "within") return false;
    if (IsBehindFurtherLetter()) return false;
    const WordRow* const row = stringline::FindWord(before.text);
    return row == nullptr || row->sort == WordSort::kInPlace;
  }

  void BehindValue() {
    if (tokens_[count_ - 1].kind == Token::Kind::kString) return;
    const absl::string_view statement = Statement(), two_before = Before(2);
    if (two_before == "rank") return Words("timetable greedy search");
    if (statement == "schedule" && brackets_ == 0) return BehindHeader();
    constexpr absl::string_view kNoValueBehind[] = {"let", "order", "pipe",     "on",
                                                    "as",  "split", "minimize", "recompute"};
    const bool layout = two_before == "reversed" && Before(3) == "on";
    const bool order = count_ == begin_ + 1;
    if (layout || order || IsInNewNames(2) || absl::c_linear_search(kNoValueBehind, two_before)) {
      return;
    }
    Words("and or");
    if (brackets_ > 0) return;
    if (statement == "stages" && !HasWord("on")) Words("on");
    if (statement == "repeat") Words("as");
    if (statement == "edges" && HasWord("->")) Words("where");
  }

  // Behind `schedule name(…)`, and behind the base of a derived one.
  void BehindHeader() {
    if (!HasWord("=") || Before(2) == "=") return;
    if (HasWord("by")) Words("and or");
    Words("then");
  }

  bool HasWord(absl::string_view text) const {
    int depth = 0;
    for (size_t i = begin_; i < count_; ++i) {
      if (tokens_[i].text == "(") ++depth;
      if (tokens_[i].text == ")") --depth;
      if (depth == 0 && tokens_[i].text == text) return true;
    }
    return false;
  }

  // The completions so far.

  void Words(absl::string_view words) {
    for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
      const WordRow* const row = stringline::FindWord(word);
      if (row == nullptr) continue;
      const bool action = row->sort == WordSort::kLetter || IsFurtherLetter(row->word);
      result_.items.push_back({action ? Completion::Sort::kAction : Completion::Sort::kWord,
                               row->word, action ? "an action" : "a word of the language",
                               row->meaning});
    }
  }

  void Name(const DefinedName& name, std::string inserted = "") {
    const int line = source_.Locate(name.span.begin).line;
    result_.items.push_back({Completion::Sort::kName, name.text,
                             absl::StrCat(SortOf(name.sort), ", line ", line), "",
                             std::move(inserted), &name});
  }

  template <typename Wanted>
  void Visible(Wanted wanted) {
    for (const DefinedName* const name : names_.VisibleAt(result_.replaced.begin)) {
      if (wanted(name->sort)) Name(*name);
    }
  }

  void Values() {
    Visible(IsValue);
    Words("min max not");
    RankOfBase();
  }

  void OwnActions() {
    Visible([](NameSort sort) { return sort == NameSort::kOwnAction; });
  }

  void Orders() {
    Visible([](NameSort sort) { return sort == NameSort::kOrder; });
  }

  void Statements() {
    const NamedBlock* block = count_ == 0 ? nullptr : names_.BlockBehind(count_ - 1);
    if (block == nullptr) {
      Words("use schedule");
      return Library();
    }
    for (const NamedBlock& closed : names_.blocks()) {
      const bool branch = closed.sort == BlockSort::kBranch && closed.close == count_ - 1;
      if (branch && Before() == "}") Words("else");
    }
    bool directly = true;
    while (block->sort == BlockSort::kRepeat || block->sort == BlockSort::kBranch ||
           block->sort == BlockSort::kOther) {
      if (block->parent < 0) return;
      block = &names_.blocks()[static_cast<size_t>(block->parent)];
      directly = false;
    }
    for (const StatementRow& row : kStatements) {
      if (row.block != block->sort) continue;
      if (directly) Words(row.only_directly);
      Words(row.words);
    }
    if (block->sort == BlockSort::kSequence || block->sort == BlockSort::kTimetable) OwnActions();
    if (block->sort == BlockSort::kSequence) Orders();
  }

  // In a lane of an overlap: attn, dispatch, … of the action before the dot, which is a letter or
  // the place of one of the overlap's actions. A backward has the weight gradients of W, too.
  void Parts() {
    const bool by_place = count_ >= 2 && tokens_[count_ - 2].kind == Token::Kind::kNumber;
    const absl::string_view letter = by_place ? LetterAt(Before(2)) : Before(2);
    if (!IsActionLetter(letter)) return;
    if (by_place && letter == "B") Words("W");
    const auto kind = static_cast<ActionKind>(absl::string_view("FBIW").find(letter));
    for (int part = 0; part < kParts; ++part) {
      const bool its_own = FindPart(kind, ShortName(part)) == static_cast<Part>(part);
      if (!its_own || RowOfPart(part).once) continue;
      result_.items.push_back({Completion::Sort::kPart, std::string(ShortName(part)),
                               absl::StrCat("a part of ", letter), ""});
    }
  }

  // The action at this place, from 1, of the overlap around the lane; "" for none.
  absl::string_view LetterAt(absl::string_view place) const {
    const NamedBlock* const lane = names_.BlockBehind(count_ - 1);
    if (lane == nullptr || lane->sort != BlockSort::kLane) return "";
    // From `overlap` up to its brace every second word is a letter.
    const size_t open = names_.blocks()[static_cast<size_t>(lane->parent)].open;
    size_t first = open;
    while (first > 0 && tokens_[first].text != "overlap") --first;
    size_t at = 0;
    if (!absl::SimpleAtoi(place, &at) || at < 1 || at > (open - first) / 2) return "";
    return tokens_[first + 2 * at - 1].text;
  }

  void Bases() {
    const int32_t here = names_.ScheduleAt(offset_);
    for (const DefinedName& name : names_.names()) {
      if (name.sort == NameSort::kSchedule && name.schedule != here) Name(name);
    }
  }

  // `name = ` among the arguments of a base.
  void ParametersOfBase() {
    if (open_ == 0) return;
    for (const DefinedName* const name : names_.ParametersOf(tokens_[open_ - 1].text)) {
      if (name->text != "P" && name->text != "M") Name(*name, absl::StrCat(name->text, " = "));
    }
  }

  // `then defer W by r`: the base's name of the rank.
  void RankOfBase() {
    if (Statement() != "schedule" || !HasWord("then")) return;
    const DefinedName* const rank = names_.RankNameOf(names_.ScheduleAt(offset_));
    if (rank != nullptr) Name(*rank);
  }

  void Library() {
    for (const LibrarySchedule& schedule : ScheduleLibrary()) {
      result_.items.push_back({Completion::Sort::kLibrary, schedule.name,
                               "a schedule of the library, as a whole", "", schedule.text});
    }
  }

  void Files() {
    for (const LibrarySchedule& schedule : ScheduleLibrary()) {
      result_.items.push_back(
          {Completion::Sort::kLibrary, schedule.name, "a schedule of the library"});
    }
  }

  const Source& source_;
  const NameTable& names_;
  const std::vector<Token>& tokens_;
  const uint32_t offset_;
  Completions result_;
  size_t count_ = 0;  // words before the place
  bool in_string_ = false;
  bool nowhere_ = false;  // in a number or a sign
  size_t begin_ = 0;      // first word of the statement; count_ at a beginning
  int brackets_ = 0;      // open brackets in the statement
  size_t open_ = 0;       // the innermost of them
  int questions_ = 0;     // open `?` without their `:`
};

}  // namespace

Completions CompleteAt(const Source& source, const NameTable& names, uint32_t offset) {
  return Completer(source, names, offset).Run();
}

}  // namespace stringline
