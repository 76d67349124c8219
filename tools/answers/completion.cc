// Each shell's script has an entry for each command, and in this an entry for each option. The
// placeholder of an option's value in --help gives the kind of the value: FOLDER; FILE, or a name
// with an ending such as OUT.svg; or a fixed list.
#include "tools/answers/completion.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedlang/ask/schedule_library.h"

namespace stringline {
namespace {

enum class ValueKind { kNone, kFile, kFolder, kListed, kOther };

ValueKind KindOf(const OptionRow& option) {
  if (option.value.empty()) return ValueKind::kNone;
  if (!option.choices.empty()) return ValueKind::kListed;
  if (absl::StrContains(option.value, "FOLDER")) return ValueKind::kFolder;
  const bool is_file =
      absl::StrContains(option.value, "FILE") || absl::StrContains(option.value, ".");
  return is_file ? ValueKind::kFile : ValueKind::kOther;
}

// A schedule of the library may stand for the file.
bool TakesSchedules(const Command& command) { return (command.options & kPlanOptions) != 0; }

std::string LibraryNames() {
  return absl::StrJoin(ScheduleLibrary(), " ",
                       [](std::string* out, const LibrarySchedule& schedule) {
                         absl::StrAppend(out, schedule.name);
                       });
}

// A help text up to its first full stop, semicolon or colon.
std::string Brief(const std::string& text) {
  size_t end = text.size();
  for (const char* const mark : {". ", "; ", ": "}) end = std::min(end, text.find(mark));
  return text.substr(0, end);
}

std::string NamesOf(const Command& command, const char* separator) {
  std::vector<std::string> names;
  for (const OptionRow& option : OptionsOf(command)) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return absl::StrJoin(names, separator);
}

// --- bash

constexpr const char* kBashHead =
    R"bash(# bash completion for stringline, made by 'stringline completion bash'.
_stringline() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local options= values= files=yes folders= schedules=
  # '=' is a word of its own: --layout = pair.
  if [[ $word == "=" ]]; then
    word=
  elif [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
)bash";
constexpr const char* kBashTail = R"bash(  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ -n $folders ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -d -- "$word")
  elif [[ -n $files ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$word"; compgen -W "$schedules" -- "$word")
  fi
}
complete -F _stringline stringline
)bash";

// "      --layout) values="shared pair" ;;", for all options of the same kind.
void AddBashValues(const Command& command, std::string* out) {
  for (const OptionRow& option : OptionsOf(command)) {
    const ValueKind kind = KindOf(option);
    if (option.names.empty() || kind == ValueKind::kNone) continue;
    absl::StrAppend(out, "        ", absl::StrJoin(option.names, "|"), ") ");
    switch (kind) {
      case ValueKind::kListed:
        absl::StrAppend(out, "values=\"", absl::StrJoin(option.choices, " "), "\"");
        break;
      case ValueKind::kFolder:
        absl::StrAppend(out, "folders=yes");
        break;
      case ValueKind::kFile:
        absl::StrAppend(out, "schedules=");
        break;
      default:
        absl::StrAppend(out, "files=");
    }
    absl::StrAppend(out, " ;;\n");
  }
}

// The list of values of the command's first argument; "" without arguments.
std::string ListedArgument(const Command& command) {
  for (const OptionRow& option : OptionsOf(command)) {
    if (option.names.empty()) return absl::StrJoin(option.choices, " ");
  }
  return "";
}

bool HasArgument(const Command& command) {
  for (const OptionRow& option : OptionsOf(command)) {
    if (option.names.empty()) return true;
  }
  return false;
}

std::string BashScript(absl::Span<const Command> commands) {
  std::string out = kBashHead;
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  absl::StrAppend(&out, "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W \"",
                  absl::StrJoin(names, " "),
                  " --help --version\" -- \"$word\"))\n    return\n  fi\n",
                  "  case ${COMP_WORDS[1]} in\n");
  for (const Command& command : commands) {
    absl::StrAppend(&out, "    ", command.name, ")\n      options=\"", NamesOf(command, " "),
                    "\"\n");
    if (!HasArgument(command)) absl::StrAppend(&out, "      files=\n");
    if (TakesSchedules(command)) {
      absl::StrAppend(&out, "      schedules=\"", LibraryNames(), "\"\n");
    }
    const std::string listed = ListedArgument(command);
    if (!listed.empty()) {
      absl::StrAppend(&out, "      [[ $word == -* ]] || values=\"", listed, "\"\n");
    }
    absl::StrAppend(&out, "      case $before in\n");
    AddBashValues(command, &out);
    absl::StrAppend(&out, "      esac ;;\n");
  }
  absl::StrAppend(&out, "  esac\n", kBashTail);
  return out;
}

// --- zsh

// Within '…' of zsh, in a place where brackets and colons have a meaning.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"\\", "\\\\"}});
}

std::string ZshAction(const OptionRow& option) {
  switch (KindOf(option)) {
    case ValueKind::kListed:
      return absl::StrCat("(", absl::StrJoin(option.choices, " "), ")");
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    default:
      return " ";
  }
}

std::string ZshScript(absl::Span<const Command> commands) {
  std::string out =
      "#compdef stringline\n# zsh completion for stringline, made by 'stringline completion zsh'.\n"
      "_stringline_schedules() {\n  compadd -- ";
  absl::StrAppend(&out, LibraryNames(),
                  "\n  _files\n}\n_stringline() {\n  local -a commands\n  commands=(\n");
  for (const Command& command : commands) {
    absl::StrAppend(&out, "    '", command.name, ":", ZshText(command.summary), "'\n");
  }
  absl::StrAppend(&out,
                  "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n"
                  "  fi\n  shift words\n  (( CURRENT-- ))\n  case $words[1] in\n");
  for (const Command& command : commands) {
    absl::StrAppend(&out, "    ", command.name, ")\n      _arguments");
    for (const OptionRow& option : OptionsOf(command)) {
      if (option.names.empty()) continue;
      const std::string value =
          option.value.empty() ? ""
                               : absl::StrCat(":", ZshText(option.value), ":", ZshAction(option));
      for (const std::string& name : option.names) {
        absl::StrAppend(&out, " \\\n        '*", name, value.empty() ? "" : "=", "[",
                        ZshText(Brief(option.meaning)), "]", value, "'");
      }
    }
    const std::string listed = ListedArgument(command);
    if (!listed.empty()) {
      absl::StrAppend(&out, " \\\n        ':value:(", listed, ")'");
    } else if (HasArgument(command)) {
      absl::StrAppend(&out, " \\\n        '*:file:",
                      TakesSchedules(command) ? "_stringline_schedules" : "_files", "'");
    }
    absl::StrAppend(&out, " ;;\n");
  }
  absl::StrAppend(&out, "  esac\n}\n",
                  "if [[ $funcstack[1] == _stringline ]]; then\n  _stringline \"$@\"\nelse\n"
                  "  compdef _stringline stringline\nfi\n");
  return out;
}

// --- fish

std::string FishText(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishOption(const OptionRow& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const bool is_long = absl::StartsWith(name, "--");
    absl::StrAppend(&text, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
  }
  switch (KindOf(option)) {
    case ValueKind::kNone:
      break;
    case ValueKind::kListed:
      absl::StrAppend(&text, " -x -a ", FishText(absl::StrJoin(option.choices, " ")));
      break;
    case ValueKind::kFile:
      absl::StrAppend(&text, " -r -F");
      break;
    case ValueKind::kFolder:
      absl::StrAppend(&text, " -x -a '(__fish_complete_directories)'");
      break;
    default:
      absl::StrAppend(&text, " -x");
  }
  return absl::StrCat(text, " -d ", FishText(Brief(option.meaning)));
}

std::string FishScript(absl::Span<const Command> commands) {
  std::string out =
      "# fish completion for stringline, made by 'stringline completion fish'.\n"
      "complete -c stringline -f\n";
  for (const Command& command : commands) {
    absl::StrAppend(&out, "complete -c stringline -n __fish_use_subcommand -a ", command.name,
                    " -d ", FishText(command.summary), "\n");
  }
  for (const Command& command : commands) {
    const std::string line =
        absl::StrCat("complete -c stringline -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const OptionRow& option : OptionsOf(command)) {
      if (!option.names.empty()) absl::StrAppend(&out, line, FishOption(option), "\n");
    }
    const std::string listed = TakesSchedules(command) ? LibraryNames() : ListedArgument(command);
    if (!listed.empty()) absl::StrAppend(&out, line, " -a ", FishText(listed), "\n");
    if (HasArgument(command) && ListedArgument(command).empty()) {
      absl::StrAppend(&out, line, " -F\n");
    }
  }
  return out;
}

constexpr CompletionShell kShells[] = {
    {"bash", BashScript}, {"zsh", ZshScript}, {"fish", FishScript}};

}  // namespace

absl::Span<const CompletionShell> CompletionShells() { return kShells; }

}  // namespace stringline
