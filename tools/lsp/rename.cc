// The words that mean the name get the new spelling. Then the new text is scanned like any other:
// every word must keep its meaning, and no name may hide another that was visible.
#include "tools/lsp/rename.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/rows.h"
#include "schedlang/text/words.h"

namespace stringline {
namespace {

absl::Status Refused(absl::string_view text) { return absl::InvalidArgumentError(text); }

// Words with a meaning only in their place may be names elsewhere.
bool IsReserved(absl::string_view text) {
  const WordRow* const row = FindWord(text);
  return row != nullptr && row->sort != WordSort::kInPlace;
}

// True if the language fixes the name: the first two parameters of every schedule.
bool IsFixed(const NameTable& names, const DefinedName& name) {
  if (name.sort != NameSort::kParameter || (name.text != "P" && name.text != "M")) return false;
  const auto before =
      std::count_if(names.names().begin(), names.names().end(), [&](const DefinedName& other) {
        return other.sort == NameSort::kParameter && other.schedule == name.schedule &&
               other.span.begin < name.span.begin;
      });
  return before < 2;
}

absl::Status CheckNewName(NameSort sort, const std::string& to) {
  if (sort == NameSort::kOwnAction && !IsActionName(to)) return Refused(NoActionName(to));
  if (sort == NameSort::kOwnValue && ReadRowValue({}, to) != 0) {
    return Refused(absl::StrCat("'", to, "' is a built-in value"));
  }
  const std::vector<Token> tokens = Tokenize(to);
  const bool one_name = tokens.size() == 2 && tokens[0].kind == Token::Kind::kName &&
                        tokens[0].text.size() == to.size();
  if (!one_name) {
    return Refused(absl::StrCat("'", to, "' is no name: letters, digits and _, no digit first"));
  }
  if (IsReserved(to)) {
    return Refused(absl::StrCat("'", to, "' is a word of the language and names nothing else"));
  }
  return absl::OkStatus();
}

std::string WithSpans(absl::string_view text, const std::vector<Span>& spans,
                      const std::string& to) {
  std::string renamed;
  uint32_t at = 0;
  for (const Span& span : spans) {
    absl::StrAppend(&renamed, text.substr(at, span.begin - at), to);
    at = span.end;
  }
  absl::StrAppend(&renamed, text.substr(at));
  return renamed;
}

// A difference of meaning between the two texts, which differ in spelling only.
absl::Status CheckSameMeaning(const Source& source, const NameTable& before, const NameTable& after,
                              const std::string& to) {
  const auto line_of = [&](int32_t name) {
    return source.Locate(before.names()[static_cast<size_t>(name)].span.begin).line;
  };
  const bool comparable = before.tokens().size() == after.tokens().size() &&
                          before.names().size() == after.names().size();
  if (!comparable) return Refused(absl::StrCat("'", to, "' would change what the text means"));
  for (size_t i = 0; i < before.names().size(); ++i) {
    const int32_t hidden = after.names()[i].hides;
    if (hidden < 0 || hidden == before.names()[i].hides) continue;
    // Either of the two already has this name.
    const bool new_one = before.names()[i].text == to;
    const int32_t other = new_one ? static_cast<int32_t>(i) : hidden;
    return Refused(absl::StrCat("'", to, "' is ",
                                SortOf(before.names()[static_cast<size_t>(other)].sort),
                                " already, in line ", line_of(other)));
  }
  for (size_t i = 0; i < before.tokens().size(); ++i) {
    if (before.NameOf(i) == after.NameOf(i)) continue;
    return Refused(absl::StrCat("'", to, "' would mean something else in line ",
                                source.Locate(before.tokens()[i].span.begin).line));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> RenamableAt(const NameTable& names, uint32_t offset) {
  const size_t index = names.TokenAt(offset);
  const Token& token = names.tokens()[index];
  if (token.kind != Token::Kind::kName) return Refused("no name stands here");
  const DefinedName* const name = names.Find(index);
  if (name == nullptr) {
    const bool word = FindWord(token.text) != nullptr;
    return Refused(absl::StrCat("'", token.text, "' is ",
                                word ? "a word of the language" : "defined nowhere in this file"));
  }
  if (IsFixed(names, *name)) {
    return Refused("the first two parameters of every schedule are called P and M");
  }
  return index;
}

absl::StatusOr<std::vector<Span>> Rename(const Source& source, const NameTable& names,
                                         uint32_t offset, const std::string& to) {
  const absl::StatusOr<size_t> word = RenamableAt(names, offset);
  if (!word.ok()) return word.status();
  if (const absl::Status status = CheckNewName(names.Find(*word)->sort, to); !status.ok())
    return status;
  std::vector<Span> spans;
  if (to == names.tokens()[*word].text) return spans;
  for (const size_t same : names.WordsOf(names.NameOf(*word))) {
    spans.push_back(names.tokens()[same].span);
  }
  const std::string renamed = WithSpans(source.text(), spans, to);
  const absl::Status status = CheckSameMeaning(source, names, NameTable(renamed), to);
  if (!status.ok()) return status;
  return spans;
}

}  // namespace stringline
