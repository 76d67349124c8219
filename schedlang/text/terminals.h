// Terminals of the grammar: a token with a given text, or a token that satisfies a predicate.
//
// Parsers of Boost.Spirit X3 for grammar.cc, with their names for messages. No other file includes
// this header.
#pragma once

#include <boost/spirit/home/x3.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/text/precedence.h"
#include "schedlang/text/tokens.h"
#include "schedlang/text/words.h"

namespace stringline::terminals {

namespace x3 = boost::spirit::x3;
using Position = std::vector<Token>::const_iterator;

// A parser for a token accepted by `Derived::Matches`. Its attribute is the token; `name` stands
// for it in messages.
template <typename Derived>
struct Terminal : x3::parser<Derived> {
  using attribute_type = Token;
  static bool const has_attribute = true;

  constexpr explicit Terminal(const char* n) : name(n) {}

  template <typename Context, typename RuleContext, typename Attribute>
  bool parse(Position& first, const Position& last, const Context&, RuleContext&,
             Attribute& attribute) const {
    if (first == last || !this->derived().Matches(*first)) return false;
    x3::traits::move_to(Token(*first), attribute);
    ++first;
    return true;
  }

  const char* name;
};

// Exactly this text.
struct Word : Terminal<Word> {
  // Without a name of its own its name is its text, in quotes.
  constexpr explicit Word(const char* t, const char* n = nullptr) : Terminal(n), text(t) {}
  bool Matches(const Token& token) const {
    return token.text == text && token.kind != Token::Kind::kEnd;
  }
  const char* text;
};

// A token that satisfies a predicate.
struct Such : Terminal<Such> {
  using Predicate = bool (*)(const Token&);
  constexpr Such(const char* name, Predicate p) : Terminal(name), predicate(p) {}
  bool Matches(const Token& token) const { return predicate(token); }
  Predicate predicate;
};

}  // namespace stringline::terminals

// The name of a terminal in "expected …"; rules have their own names.
namespace boost::spirit::x3 {

template <>
struct get_info<stringline::terminals::Word> {
  using result_type = std::string;
  std::string operator()(const stringline::terminals::Word& word) const {
    return word.name != nullptr ? word.name : absl::StrCat("'", word.text, "'");
  }
};

template <>
struct get_info<stringline::terminals::Such> {
  using result_type = std::string;
  std::string operator()(const stringline::terminals::Such& such) const { return such.name; }
};

template <typename Subject, typename Action>
struct get_info<action<Subject, Action>> {
  using result_type = std::string;
  std::string operator()(const action<Subject, Action>& parser) const {
    return what(parser.subject);
  }
};

}  // namespace boost::spirit::x3

namespace stringline::terminals {

inline bool IsName(const Token& token) { return token.kind == Token::Kind::kName; }

inline bool IsFreeName(const Token& token) {
  return IsName(token) && !IsKeyword(token.text) && !IsActionLetter(token.text);
}

// Names in definitions: the resolver refuses reserved words, with a better message.
inline constexpr Such kNewName("a name", IsName);
inline constexpr Such kUsedName("a name", IsFreeName);
inline constexpr Such kNumberToken("a number",
                                   [](const Token& t) { return t.kind == Token::Kind::kNumber; });
inline constexpr Such kMessage("a message in quotes",
                               [](const Token& t) { return t.kind == Token::Kind::kString; });
inline constexpr Such kLayoutString("a layout in quotes",
                                    [](const Token& t) { return t.kind == Token::Kind::kString; });
inline constexpr Such kCollective("an action", [](const Token& t) {
  return t.text == "unshard" || t.text == "reshard" || t.text == "reduce";
});
inline constexpr Word kUpdate("update");
inline constexpr Such kSteps("a statement", [](const Token& t) {
  return t.text == "steps" || t.text == "versions" || t.text == "slices" || t.text == "window" ||
         t.text == "slack";
});
inline constexpr Such kFileName("a file in quotes",
                                [](const Token& t) { return t.kind == Token::Kind::kString; });
inline constexpr Such kCostKey(
    "an action, 'p2p', 'microbatch', 'saved_for_I', 'saved_for_W', 'stash' or 'input'",
    [](const Token& t) {
      return IsActionLetter(t.text) || t.text == "p2p" || t.text == "microbatch" ||
             t.text == "saved_for_I" || t.text == "saved_for_W" || t.text == "stash" ||
             t.text == "input";
    });
inline constexpr Such kObjective("'makespan', 'span' or 'period'", [](const Token& t) {
  return t.text == "makespan" || t.text == "span" || t.text == "period";
});
inline constexpr Such kLimited("'activations' or 'memory'", [](const Token& t) {
  return t.text == "activations" || t.text == "memory";
});
inline constexpr Such kLetter("an action", [](const Token& t) { return IsActionLetter(t.text); });
inline constexpr Such kFurtherLetter("an action",
                                     [](const Token& t) { return IsFurtherLetter(t.text); });
inline constexpr Such kPreferred("an action", [](const Token& t) {
  return IsActionLetter(t.text) || t.text == "R";
});
inline constexpr Such kPrefix("an operator",
                              [](const Token& t) { return IsPrefixOperator(t.text); });
inline constexpr Such kBinary("an operator",
                              [](const Token& t) { return IsBinaryOperator(t.text); });
inline constexpr Such kLayout("a layout", IsName);
inline constexpr Such kAfterBareW("';'", [](const Token& t) {
  return t.text == ";" || t.text == "}" || t.text == "&" || t.kind == Token::Kind::kEnd;
});
// Names of own actions are in capital letters.
inline constexpr Such kOwnName("an action", [](const Token& t) {
  return IsFreeName(t) &&
         t.text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == absl::string_view::npos;
});
// Behind the name of an own action stands its stage; behind that of an order, none.
inline constexpr Such kBeginsStage("a stage", [](const Token& t) {
  return t.kind == Token::Kind::kNumber || IsFreeName(t) || t.text == "(" || t.text == "min" ||
         t.text == "max";
});
inline constexpr Such kEnd("'schedule'",
                           [](const Token& t) { return t.kind == Token::Kind::kEnd; });

}  // namespace stringline::terminals
