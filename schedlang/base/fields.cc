// A field is a word of small letters between backquotes, so quoted text of users stays as it is.
#include "schedlang/base/fields.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace stringline {
namespace {

constexpr absl::string_view kPayload = "stringline/field";

bool IsInName(char c) { return absl::ascii_islower(c) || c == '_'; }

// "memory", "slow[3]", "work=model"; nothing for other text.
std::optional<NamedField> ReadField(absl::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsInName);
  NamedField field;
  field.name = text.substr(0, static_cast<size_t>(end - text.begin()));
  absl::string_view rest = text.substr(field.name.size());
  if (field.name.empty()) return std::nullopt;
  if (!rest.empty() && rest[0] == '[') {
    const size_t close = rest.find(']');
    if (close == absl::string_view::npos) return std::nullopt;
    field.index = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  }
  if (rest.empty()) return field;
  if (rest[0] != '=') return std::nullopt;
  field.value = rest.substr(1);
  return field;
}

std::string WithIndex(const NamedField& field) {
  return field.index.empty() ? std::string(field.name)
                             : absl::StrCat(field.name, "[", field.index, "]");
}

// A number, or a word for one: N.
bool IsNumber(absl::string_view value) {
  return value == "N" || std::all_of(value.begin(), value.end(), absl::ascii_isdigit);
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view message) {
  absl::Status error = absl::InvalidArgumentError(absl::StrCat("`", field, "`: ", message));
  error.SetPayload(kPayload, absl::Cord(field));
  return error;
}

std::string FieldOf(const absl::Status& error) {
  const auto field = error.GetPayload(kPayload);
  return field ? std::string(*field) : "";
}

std::string AsOption(const NamedField& field) {
  const std::string name = absl::StrReplaceAll(field.name, {{"_", "-"}});
  return absl::StrCat("--", name, field.value.empty() ? "" : " ", field.value);
}

std::string AsKeyword(const NamedField& field) {
  if (field.value.empty()) return WithIndex(field);
  const char* const quote = IsNumber(field.value) ? "" : "\"";
  return absl::StrCat(WithIndex(field), "=", quote, field.value, quote);
}

std::string AsKey(const NamedField& field) {
  return absl::StrCat(WithIndex(field), field.value.empty() ? "" : ": ", field.value);
}

std::string WithFields(absl::string_view message, SpellField spell) {
  std::string text;
  size_t at = 0;
  while (at < message.size()) {
    const size_t open = message.find('`', at);
    const size_t close = open == absl::string_view::npos ? open : message.find('`', open + 1);
    if (close == absl::string_view::npos) break;
    const auto field = ReadField(message.substr(open + 1, close - open - 1));
    absl::StrAppend(&text, message.substr(at, open - at));
    if (field) absl::StrAppend(&text, spell(*field));
    // A mark that begins no field may end before one that does.
    if (!field) absl::StrAppend(&text, "`");
    at = field ? close + 1 : open + 1;
  }
  absl::StrAppend(&text, message.substr(at));
  return text;
}

}  // namespace stringline
