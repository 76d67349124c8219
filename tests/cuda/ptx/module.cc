// The text is cut at semicolons, labels and braces. A brace that begins a statement is a scope; one
// inside a statement holds a list of operands or of first values. Comments are blanked before, so
// that lines keep their numbers.
#include "tests/cuda/ptx/module.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"

namespace stringline::ptx {
namespace {

using Kind = Statement::Kind;
using Space = Variable::Space;

// Comments, and directives of one line that change nothing here, become blanks.
std::string Blanked(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view code = line.substr(0, line.find("//"));
    const absl::string_view first = absl::StripLeadingAsciiWhitespace(code);
    const bool skipped = absl::StartsWith(first, ".version") ||
                         absl::StartsWith(first, ".target") ||
                         absl::StartsWith(first, ".address_size");
    std::string& kept = lines.emplace_back(skipped ? "" : code);
    std::replace(kept.begin(), kept.end(), '\t', ' ');
  }
  std::string blanked;
  for (const std::string& line : lines) absl::StrAppend(&blanked, line, "\n");
  return blanked;
}

class Parser {
 public:
  explicit Parser(std::string text) : text_(std::move(text)) {}

  absl::StatusOr<Module> Run() {
    Module module;
    while (true) {
      const auto [header, end] = Header();
      if (header.empty() && end == '\0') return module;
      SL_RETURN_IF_ERROR(end == '{' ? AddFunction(header, &module) : AddVariable(header, &module));
    }
  }

 private:
  struct Cut {
    std::string text;
    char end;
  };
  char Next() {
    if (at_ == text_.size()) return '\0';
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  // Up to a semicolon or a body.
  Cut Header() {
    std::string header;
    int depth = 0;
    for (char c = Next(); c != '\0'; c = Next()) {
      const bool values = absl::StrContains(header, '=');
      if (depth == 0 && (c == ';' || (c == '{' && !values))) {
        return {std::string(absl::StripAsciiWhitespace(header)), c};
      }
      if (c == '{') ++depth;
      if (c == '}') --depth;
      header += c == '\n' ? ' ' : c;
    }
    return {std::string(absl::StripAsciiWhitespace(header)), '\0'};
  }

  absl::Status AddVariable(absl::string_view header, Module* module) {
    absl::ConsumePrefix(&header, ".extern ");
    for (const absl::string_view linkage : {".visible ", ".weak "}) {
      absl::ConsumePrefix(&header, linkage);
    }
    if (absl::ConsumePrefix(&header, ".func ")) return absl::OkStatus();  // its body follows
    for (const auto& [directive, space] : {std::pair(".global ", Space::kGlobal),
                                           {".const ", Space::kGlobal},
                                           {".shared ", Space::kShared}}) {
      if (!absl::ConsumePrefix(&header, directive)) continue;
      SL_ASSIGN_OR_RETURN(module->variables.emplace_back(), ParseVariable(header, space));
      return absl::OkStatus();
    }
    return Unknown(header);
  }

  static absl::Status ParseParams(absl::string_view text, std::vector<Variable>* params) {
    for (absl::string_view one : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
      one = absl::StripAsciiWhitespace(one);
      absl::ConsumePrefix(&one, ".param ");
      SL_ASSIGN_OR_RETURN(params->emplace_back(), ParseVariable(one, Space::kParam));
    }
    return absl::OkStatus();
  }
  // The text between parentheses at the beginning.
  static absl::string_view Parenthesized(absl::string_view* text) {
    *text = absl::StripLeadingAsciiWhitespace(*text);
    if (!absl::ConsumePrefix(text, "(")) return "";
    const size_t end = text->find(')');
    const absl::string_view inside = text->substr(0, end);
    text->remove_prefix(std::min(text->size(), inside.size() + 1));
    return inside;
  }

  absl::Status AddFunction(absl::string_view header, Module* module) {
    Function& function = module->functions.emplace_back();
    absl::ConsumePrefix(&header, ".visible ");
    absl::ConsumePrefix(&header, ".weak ");
    function.is_entry = absl::ConsumePrefix(&header, ".entry ");
    if (!function.is_entry) {
      if (!absl::ConsumePrefix(&header, ".func ")) return Unknown(header);
      SL_RETURN_IF_ERROR(ParseParams(Parenthesized(&header), &function.results));
    }
    header = absl::StripLeadingAsciiWhitespace(header);
    const size_t end = std::min(header.find('('), header.find(' '));
    function.name = std::string(header.substr(0, end));
    header.remove_prefix(function.name.size());
    SL_RETURN_IF_ERROR(ParseParams(Parenthesized(&header), &function.params));
    header = absl::StripAsciiWhitespace(header);
    if (!header.empty() && !absl::StartsWith(header, ".maxntid")) return Unknown(header);
    return ParseBody(&function.body);
  }

  absl::Status ParseBody(std::vector<Statement>* body) {
    std::string text;
    int depth = 0, inside = 0, begin = line_;
    for (char c = Next(); c != '\0'; c = Next()) {
      const bool blank = text.empty();
      if (blank && (c == ' ' || c == '\n')) continue;
      if (blank) begin = line_;
      if (blank && c == '{') {
        ++depth;
        body->push_back({Kind::kOpen, "", line_});
      } else if (blank && c == '}') {
        if (depth-- == 0) return absl::OkStatus();
        body->push_back({Kind::kClose, "", line_});
      } else if (c == ':' && !absl::StrContains(text, ' ') && inside == 0) {
        body->push_back({Kind::kLabel, text, begin});
        text.clear();
      } else if (c == ';') {
        const Kind kind = text[0] == '.' ? Kind::kDirective : Kind::kInstruction;
        body->push_back({kind, text, begin});
        text.clear();
      } else {
        inside += c == '{' ? 1 : c == '}' ? -1 : 0;
        text += c == '\n' ? ' ' : c;
      }
    }
    return absl::InvalidArgumentError("a function without an end");
  }

  absl::Status Unknown(absl::string_view header) const {
    return absl::UnimplementedError(
        absl::StrCat("PTX line ", line_, ": a directive that is not known: ", header));
  }

  const std::string text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

absl::StatusOr<Module> ParseModule(absl::string_view text) { return Parser(Blanked(text)).Run(); }

int BytesOfType(absl::string_view type) {
  if (type == "pred") return 1;
  if (type == "bf16x2" || type == "f16x2") return 4;
  if (type == "bf16" || type == "f16") return 2;
  int bits = 0;
  if (type.size() < 2 || !absl::StrContains("bsuf", type[0]) ||
      !absl::SimpleAtoi(type.substr(1), &bits)) {
    return 0;
  }
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

absl::StatusOr<Variable> ParseVariable(absl::string_view text, Space space) {
  Variable variable;
  variable.space = space;
  const auto wrong = [&] {
    return absl::UnimplementedError(absl::StrCat("a variable that is not understood: ", text));
  };
  const size_t equals = text.find('=');
  int element = 0;
  for (absl::string_view word :
       absl::StrSplit(text.substr(0, equals), ' ', absl::SkipWhitespace())) {
    if (word == ".align") {
      variable.alignment = 0;
    } else if (variable.alignment == 0) {
      if (!absl::SimpleAtoi(word, &variable.alignment)) return wrong();
    } else if (word[0] == '.') {
      element = BytesOfType(word.substr(1));
    } else {
      const size_t bracket = word.find('[');
      variable.name = std::string(word.substr(0, bracket));
      int64_t count = bracket == word.npos ? 1 : 0;
      if (bracket != word.npos && word.back() == ']') {
        const absl::string_view size = word.substr(bracket + 1, word.size() - bracket - 2);
        if (!size.empty() && !absl::SimpleAtoi(size, &count)) return wrong();
      }
      variable.bytes = count * element;
    }
  }
  if (element == 0 || variable.name.empty()) return wrong();
  variable.alignment = std::max<int64_t>(variable.alignment, element);
  if (equals == text.npos) return variable;
  absl::string_view values = text.substr(equals + 1);
  values = absl::StripSuffix(absl::StripPrefix(absl::StripAsciiWhitespace(values), "{"), "}");
  for (const absl::string_view value : absl::StrSplit(values, ',')) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value, &number)) return wrong();
    for (int i = 0; i < element; ++i) {
      variable.values.push_back(static_cast<uint8_t>(number >> (8 * i)));
    }
  }
  variable.values.resize(static_cast<size_t>(variable.bytes));
  return variable;
}

}  // namespace stringline::ptx
