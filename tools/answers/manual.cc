#include "tools/answers/manual.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/costs/cost_keys.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// The UTF-8 character at `at`; *at moves behind it.
uint32_t NextCharacter(absl::string_view text, size_t* at) {
  const auto first = static_cast<unsigned char>(text[(*at)++]);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  uint32_t character = first & (0x3fu >> more);
  for (int k = 0; k < more && *at < text.size(); ++k) {
    character = character << 6 | (static_cast<unsigned char>(text[(*at)++]) & 0x3fu);
  }
  return character;
}

// A text in which nothing is a command of troff.
std::string Plain(absl::string_view text) {
  std::string out;
  bool at_line_start = true;
  for (size_t at = 0; at < text.size();) {
    const uint32_t character = NextCharacter(text, &at);
    if (at_line_start && (character == '.' || character == '\'')) absl::StrAppend(&out, "\\&");
    at_line_start = character == '\n';
    if (character == '\\') {
      absl::StrAppend(&out, "\\e");
    } else if (character == '-') {
      absl::StrAppend(&out, "\\-");
    } else if (character == '\'') {
      absl::StrAppend(&out, "\\(aq");
    } else if (character < 0x80) {
      out.push_back(static_cast<char>(character));
    } else {
      absl::StrAppendFormat(&out, "\\[u%04X]", character);
    }
  }
  return out;
}

// Lines as they are.
void AddExample(absl::string_view text, std::string* out) {
  absl::StrAppend(out, ".PP\n.RS 4\n.nf\n", Plain(text), "\n.fi\n.RE\n");
}

void AddRow(const OptionRow& option, std::string* out) {
  absl::StrAppend(out, ".TP\n\\fB", Plain(absl::StrJoin(option.names, ", ")), "\\fR");
  if (!option.value.empty()) {
    absl::StrAppend(out, option.names.empty() ? "" : " ", "\\fI", Plain(option.value), "\\fR");
  }
  absl::StrAppend(out, "\n", Plain(option.meaning), "\n");
}

std::string SynopsisOf(const Command& command, const std::vector<OptionRow>& options) {
  std::string text = absl::StrCat("\\fBstringline ", command.name, "\\fR");
  for (const OptionRow& option : options) {
    if (option.names.empty()) absl::StrAppend(&text, " \\fI", Plain(option.value), "\\fR");
  }
  return absl::StrCat(text, " [options]");
}

void AddCommand(const Command& command, std::string* out) {
  const std::vector<OptionRow> options = OptionsOf(command);
  absl::StrAppend(out, ".SS ", command.name, "\n", SynopsisOf(command, options), "\n.PP\n",
                  Plain(command.summary), ".\n");
  for (const OptionRow& option : options) AddRow(option, out);
  absl::StrAppend(out, ".PP\nExample:\n");
  AddExample(command.example, out);
  if (command.more[0] != '\0') absl::StrAppend(out, ".PP\n", Plain(command.more), "\n");
}

void AddCosts(std::string* out) {
  absl::StrAppend(out, ".SH COSTS\nThe keys of \\fB\\-\\-cost\\fR and of cost files.\n");
  for (const CostKey& key : CostKeys()) {
    absl::StrAppend(out, ".TP\n\\fB", Plain(key.name), "\\fR\n", Plain(key.meaning), "\n");
  }
}

}  // namespace

std::string ManualPage(absl::Span<const Command> commands, const std::string& version) {
  std::string out = absl::StrCat(
      ".TH STRINGLINE 1 \"\" \"stringline ", Plain(version), "\"\n.SH NAME\n",
      "stringline \\- pipeline\\-parallel schedules, from a text to a trained model\n",
      ".SH SYNOPSIS\n\\fBstringline\\fR \\fICOMMAND\\fR \\fIFILE\\fR [\\fINAME=VALUE\\fR ...] "
      "[options]\n.SH COMMANDS\n");
  for (const Command& command : commands) AddCommand(command, &out);
  AddCosts(&out);
  absl::StrAppend(&out, ".SH BUBBLES\n", Plain(kBubbleMeaning));
  absl::StrAppend(
      &out,
      ".SH FILES\nA file called \\fB\\-\\fR is standard input where it is read, standard output "
      "where it is written. A schedule of the library is read by its name alone; \\fBstringline "
      "schedules\\fR lists them.\n"
      ".SH EXIT STATUS\n.TP\n0\nNothing to object to.\n.TP\n1\nFindings: the text says something "
      "wrong.\n.TP\n2\nNothing to judge: a wrong command line, a file that cannot be read or "
      "written.\n.TP\n128 and more\nA run that a signal stopped: 128 and the signal\\(aqs "
      "number.\n");
  return out;
}

}  // namespace stringline
